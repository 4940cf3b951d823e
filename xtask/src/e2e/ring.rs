//! A ring of stand-ins behind the real gate: it comes up, sleeps and wakes, one member leaves, and one gets a new volume.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::look::{condition, text, until};
use super::nights;
use super::place::Place;
use super::undo::Undo;

/// Its pods do not meet the level `restricted`, so they have a namespace of their own.
const NAMESPACE: &str = "rings";
const NAME: &str = "ring";
/// The checks before a replacement take two minutes at least.
const PATIENCE: Duration = Duration::from_mins(10);
const LEAVES: &str = "ring-c-1";
const GIVEN_UP: &str = "ring-b-0";
/// Put on the Service of a member whose volume is given up.
const REPLACE: &str = "scylla/replace";

/// As in `examples/ring.yaml`, with so many members in the last rack.
fn declared(last: u8) -> Value {
    json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "RingCluster", "metadata": { "name": NAME },
        "spec": {
            "image": Place::ring_image(),
            "datacenter": "dc1",
            "racks": [
                { "name": "a", "members": 1 }, { "name": "b", "members": 1 }, { "name": "c", "members": last },
            ],
            "storage": { "size": "1Gi", "storageClass": "local" },
            // So many seconds of the stand-in in one of the clock.
            "flags": ["--time-scale=4", "--stream-seconds=4"],
        },
    })
}

fn object(place: &Place<'_>, what: &str) -> Result<Value> {
    place.object(NAMESPACE, what)
}

/// Every member is on record and runs, and nothing is under way.
fn is_whole(ring: &Value, members: u8) -> bool {
    let calm = ["StorageLost", "ReplacementHeld", "Progressing"];
    let current = ring.pointer("/status/observedGeneration") == ring.pointer("/metadata/generation");
    current
        && ring.pointer("/status/summary") == Some(&json!(format!("{members}/{members}")))
        && ring.pointer("/status/work") == Some(&json!(""))
        && condition(ring, "Ready")
        && calm.iter().all(|kind| !condition(ring, kind))
}

fn until_whole(place: &Place<'_>, members: u8) -> Result<()> {
    let mut last = Value::Null;
    let whole = until(PATIENCE, &format!("whole ring of {members}"), || {
        last = object(place, &format!("ringclusters/{NAME}"))?;
        Ok(is_whole(&last, members).then_some(()))
    });
    whole.with_context(|| {
        let status = last.pointer("/status").cloned().unwrap_or_default();
        format!("the ring says: {status}")
    })
}

fn pods(place: &Place<'_>) -> Result<usize> {
    let pods = object(place, "pods")?;
    let items = pods.pointer("/items").and_then(Value::as_array);
    Ok(items.map_or(0, Vec::len))
}

fn clean(place: &Place<'_>) -> Result<()> {
    // Where nothing can be made any more a plan could not be forgotten.
    nights::forget(place, NAMESPACE)?;
    let ring = format!("ringclusters/{NAME}");
    place.kubectl(&["-n", NAMESPACE, "delete", &ring, "--ignore-not-found"])?;
    place.kubectl(&[
        "delete",
        "namespace",
        NAMESPACE,
        "--ignore-not-found",
        "--timeout=180s",
    ])
}

pub(super) fn lives(place: &Place<'_>) -> Result<()> {
    let gone = Undo::by(|| clean(place));
    place.kubectl(&["create", "namespace", NAMESPACE])?;
    let level = "pod-security.kubernetes.io/enforce=baseline";
    place.kubectl(&["label", "namespace", NAMESPACE, level])?;
    place.apply(NAMESPACE, &[declared(2)])?;
    until_whole(place, 4)?;
    println!("a ring of four is whole");

    let targets = json!([{ "name": "rings", "executor": "ring", "parameters": { "names": [NAME] } }]);
    place.apply(NAMESPACE, &[nights::plan(&targets)])?;
    nights::sleep(place, NAMESPACE)?;
    let left = pods(place)?;
    ensure!(left == 0, "the ring sleeps, and {left} of its pods are there");
    nights::wake(place, NAMESPACE)?;
    until_whole(place, 4)?;
    println!("it slept, and is whole again");

    place.apply(NAMESPACE, &[declared(1)])?;
    until(PATIENCE, "member that has left", || {
        let services = object(place, "services")?;
        Ok((!services.to_string().contains(&format!("\"{LEAVES}\""))).then_some(()))
    })?;
    until_whole(place, 3)?;
    println!("{LEAVES} has left");

    let claim = format!("pvc/data-{GIVEN_UP}");
    let service = format!("services/{GIVEN_UP}");
    let before = text(&object(place, &claim)?, "/metadata/uid")?.to_owned();
    place.kubectl(&["-n", NAMESPACE, "label", &service, &format!("{REPLACE}=")])?;
    until(PATIENCE, "new volume", || {
        let now = object(place, &claim)?;
        Ok((text(&now, "/metadata/uid")? != before).then_some(()))
    })?;
    until(PATIENCE, "member whose label is taken off", || {
        let labels = object(place, &service)?.pointer("/metadata/labels").cloned();
        Ok(labels
            .is_some_and(|labels| labels.get(REPLACE).is_none())
            .then_some(()))
    })?;
    until_whole(place, 3)?;
    println!("{GIVEN_UP} has a new volume");
    gone.now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_whole_when_all_are_there_and_nothing_is_under_way() {
        let ring = |summary: &str, work: &str, conditions: Value| {
            json!({
                "metadata": { "generation": 2 },
                "status": { "observedGeneration": 2, "summary": summary, "work": work, "conditions": conditions },
            })
        };
        let ready = json!({ "type": "Ready", "status": "True" });
        let lost = json!({ "type": "StorageLost", "status": "True" });
        assert!(is_whole(&ring("3/3", "", json!([ready])), 3));
        assert!(!is_whole(&ring("3/3", "", json!([ready])), 4));
        assert!(!is_whole(&ring("3/3", "a member joins", json!([ready])), 3));
        assert!(!is_whole(&ring("3/3", "", json!([ready, lost])), 3));
        assert!(!is_whole(&ring("3/3", "", json!([])), 3));
    }
}
