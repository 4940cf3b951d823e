//! Label selectors as they stand in objects (`matchLabels`, `matchExpressions`).

use serde_json::{Map, Value};

use super::object::{items, labels, text};

/// Whether a selector chooses an object. An empty selector chooses everything,
/// a missing one nothing.
pub(super) fn selects(selector: Option<&Value>, object: &Value) -> bool {
    let Some(selector) = selector.filter(|selector| selector.is_object()) else {
        return false;
    };
    let none = Map::new();
    let labels = labels(object).unwrap_or(&none);
    let equal = selector.get("matchLabels").is_none_or(|wanted| has_all(wanted, labels));
    equal && items(selector, "/matchExpressions").iter().all(|expression| holds(expression, labels))
}

/// Whether plain `key: value` pairs, as in a Service, choose an object.
pub(super) fn selects_pairs(pairs: Option<&Value>, object: &Value) -> bool {
    let none = Map::new();
    let labels = labels(object).unwrap_or(&none);
    pairs.is_some_and(|pairs| pairs.as_object().is_some_and(|map| !map.is_empty()) && has_all(pairs, labels))
}

fn has_all(wanted: &Value, labels: &Map<String, Value>) -> bool {
    wanted.as_object().is_none_or(|wanted| wanted.iter().all(|(key, value)| labels.get(key) == Some(value)))
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
