//! What belongs to an object goes with it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::object::{Target, is_deleting, items, text, uid_of, with};
use super::{Turn, View, Write};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

pub(super) fn reconcile(view: &dyn View, turn: &mut Turn) {
    let all = view.all();
    let alive: BTreeSet<&str> = all.iter().map(|object| uid_of(object)).collect();
    for object in &all {
        let owners = items(object, "/metadata/ownerReferences");
        let lost = |owner: &Value| !alive.contains(text(owner, "/uid"));
        if !owners.is_empty() && owners.iter().all(lost) && !is_deleting(object) {
            turn.writes.push(Write::Delete {
                target: Target::of(object),
                grace: None,
            });
        }
        if is_deleting(object) {
            let has = |finalizer: &str| items(object, "/metadata/finalizers").contains(&finalizer.into());
            if has(ORPHAN) {
                orphan(object, &all, turn);
            } else if has(FOREGROUND) {
                foreground(object, &all, turn);
            }
        }
    }
}

fn dependents<'a>(owner: &'a Value, all: &'a [&'a Value]) -> impl Iterator<Item = (&'a Value, &'a Value)> {
    all.iter().filter_map(move |object| {
        let reference = items(object, "/metadata/ownerReferences")
            .iter()
            .find(|reference| text(reference, "/uid") == uid_of(owner))?;
        Some((*object, reference))
    })
}

/// Dependents first; the owner waits for those that block it.
fn foreground(owner: &Value, all: &[&Value], turn: &mut Turn) {
    let mut blocked = false;
    for (object, reference) in dependents(owner, all) {
        blocked |= reference.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true);
        if !is_deleting(object) {
            turn.writes.push(Write::Delete {
                target: Target::of(object),
                grace: None,
            });
        }
    }
    if !blocked {
        turn.writes
            .push(Write::Replace(without_finalizer(owner, FOREGROUND)));
    }
}

/// Dependents are let go before the owner is.
fn orphan(owner: &Value, all: &[&Value], turn: &mut Turn) {
    let mut bound = false;
    for (object, reference) in dependents(owner, all) {
        bound = true;
        let rest: Vec<Value> = items(object, "/metadata/ownerReferences")
            .iter()
            .filter(|other| *other != reference)
            .cloned()
            .collect();
        turn.writes.push(Write::Replace(with(
            object,
            &["metadata", "ownerReferences"],
            rest.into(),
        )));
    }
    if !bound {
        turn.writes.push(Write::Replace(without_finalizer(owner, ORPHAN)));
    }
}

fn without_finalizer(object: &Value, finalizer: &str) -> Value {
    let rest: Vec<Value> = items(object, "/metadata/finalizers")
        .iter()
        .filter(|one| **one != *finalizer)
        .cloned()
        .collect();
    with(object, &["metadata", "finalizers"], rest.into())
}
