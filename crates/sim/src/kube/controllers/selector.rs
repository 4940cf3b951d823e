//! Label selectors as they stand in objects (`matchLabels`, `matchExpressions`).

use serde_json::{Map, Value, json};

use super::object::{
    controller, controller_reference, is_deleting, items, labels, name_of, namespace_of, text, with,
};
use super::{Kind, Turn, View, Write};

/// Whether a selector chooses an object. An empty selector chooses everything,
/// a missing one nothing.
pub(super) fn selects(selector: Option<&Value>, object: &Value) -> bool {
    let Some(selector) = selector.filter(|selector| selector.is_object()) else {
        return false;
    };
    let none = Map::new();
    let labels = labels(object).unwrap_or(&none);
    let equal = selector
        .get("matchLabels")
        .is_none_or(|wanted| has_all(wanted, labels));
    equal
        && items(selector, "/matchExpressions")
            .iter()
            .all(|expression| holds(expression, labels))
}

/// Whether plain `key: value` pairs, as in a Service, choose an object.
pub(super) fn selects_pairs(pairs: Option<&Value>, object: &Value) -> bool {
    let none = Map::new();
    let labels = labels(object).unwrap_or(&none);
    pairs.is_some_and(|pairs| pairs.as_object().is_some_and(|map| !map.is_empty()) && has_all(pairs, labels))
}

fn has_all(wanted: &Value, labels: &Map<String, Value>) -> bool {
    wanted
        .as_object()
        .is_none_or(|wanted| wanted.iter().all(|(key, value)| labels.get(key) == Some(value)))
}

fn holds(expression: &Value, labels: &Map<String, Value>) -> bool {
    let label = labels.get(text(expression, "/key"));
    let listed = label.is_some_and(|label| items(expression, "/values").contains(label));
    match text(expression, "/operator") {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        // The API refuses others; one that slipped in chooses nothing.
        _ => false,
    }
}

/// Take over what an owner's selector chooses and nobody owns. Only what is
/// named after the owner: others may have the same labels by accident.
pub(super) fn adopt(kind: Kind, owner: &Value, of: Kind, view: &dyn View, turn: &mut Turn) {
    for object in view.list(of) {
        let named = name_of(object)
            .strip_prefix(name_of(owner))
            .is_some_and(|rest| rest.starts_with('-'));
        let orphan = named
            && controller(object).is_none()
            && !is_deleting(object)
            && namespace_of(object) == namespace_of(owner)
            && selects(owner.pointer("/spec/selector"), object);
        if orphan {
            let reference = json!([controller_reference(kind, owner)]);
            turn.writes.push(Write::Replace(with(
                object,
                &["metadata", "ownerReferences"],
                reference,
            )));
        }
    }
}
