//! The history of a StatefulSet's pod template.

use serde_json::{Value, json};

use super::object::{
    controller_reference, hash, is_controlled_by, name_of, namespace_of, number, text, with,
};
use super::{Kind, Turn, View, Write};

/// The two templates that pods of a set may follow.
pub(super) struct Revisions {
    /// The name of the revision that the set came from.
    pub(super) current: String,
    /// The name of the revision that the set goes to.
    pub(super) update: String,
    current_template: Value,
    update_template: Value,
}

impl Revisions {
    /// The template that a revision's name stands for.
    pub(super) fn template(&self, revision: &str) -> &Value {
        if revision == self.current && self.current != self.update {
            &self.current_template
        } else {
            &self.update_template
        }
    }

    /// Find both, and write down the one that is new. `None` while a new one
    /// is being written: pods are made only from what is stored.
    pub(super) fn of(set: &Value, view: &dyn View, turn: &mut Turn) -> Option<Self> {
        let template = set.pointer("/spec/template")?.clone();
        let data = json!({ "spec": { "template": template } });
        let mut history: Vec<&Value> = view
            .list(Kind::ControllerRevision)
            .into_iter()
            .filter(|revision| is_controlled_by(revision, set))
            .collect();
        history.sort_by_key(|revision| number(revision, "/revision").unwrap_or_default());
        let last = history
            .last()
            .and_then(|revision| number(revision, "/revision"))
            .unwrap_or_default();
        let Some(update) = history
            .iter()
            .rev()
            .find(|revision| revision.get("data") == Some(&data))
        else {
            turn.writes.push(Write::Create(revision(set, &data, last + 1)));
            return None;
        };
        if number(update, "/revision") != Some(last) {
            // Back to an older template: it becomes the newest, as upstream.
            turn.writes
                .push(Write::Replace(with(update, &["revision"], json!(last + 1))));
        }
        let update = name_of(update).to_owned();
        let current = match text(set, "/status/currentRevision") {
            "" => update.clone(),
            name => name.to_owned(),
        };
        let current_template = history
            .iter()
            .find(|revision| name_of(revision) == current)
            .and_then(|revision| revision.pointer("/data/spec/template").cloned())
            .unwrap_or_else(|| template.clone());
        Some(Self {
            current,
            update,
            current_template,
            update_template: template,
        })
    }
}

fn revision(set: &Value, data: &Value, number: i64) -> Value {
    let name = format!("{}-{}", name_of(set), hash(data, 0));
    let mut labels = set
        .pointer("/spec/template/metadata/labels")
        .cloned()
        .unwrap_or_else(|| json!({}));
    super::object::set(
        &mut labels,
        &["controller.kubernetes.io/hash"],
        hash(data, 0).into(),
    );
    json!({
        "apiVersion": Kind::ControllerRevision.api_version(),
        "kind": Kind::ControllerRevision.name(),
        "metadata": {
            "name": name,
            "namespace": namespace_of(set),
            "labels": labels,
            "ownerReferences": [controller_reference(Kind::StatefulSet, set)],
        },
        "data": data,
        "revision": number,
    })
}
