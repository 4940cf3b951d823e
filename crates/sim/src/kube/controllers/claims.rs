//! Claims get a folder each, and keep it as long as a pod uses it.

use serde_json::{Value, json};

use super::object::{Target, is_deleting, items, name_of, namespace_of, set, text, uid_of};
use super::{Kind, Settings, Turn, View, Write};

/// Upstream's word for "a pod still uses it".
const IN_USE: &str = "kubernetes.io/pvc-protection";

pub(super) fn reconcile(settings: &Settings, view: &dyn View, turn: &mut Turn) {
    let claims = view.list(Kind::PersistentVolumeClaim);
    let volumes = view.list(Kind::PersistentVolume);
    for claim in &claims {
        if is_deleting(claim) {
            release(claim, view, turn);
        } else {
            bind(settings, claim, &volumes, turn);
        }
    }
    for volume in volumes.iter().filter(|volume| !is_deleting(volume)) {
        let uid = text(volume, "/spec/claimRef/uid");
        if !uid.is_empty() && !claims.iter().any(|claim| uid_of(claim) == uid) {
            give_back(volume, turn);
        }
    }
}

/// One step per turn: the protection, the volume, the binding, the status.
fn bind(settings: &Settings, claim: &Value, volumes: &[&Value], turn: &mut Turn) {
    let finalizers = items(claim, "/metadata/finalizers");
    let name = match text(claim, "/spec/volumeName") {
        "" => format!("pvc-{}", uid_of(claim)),
        name => name.to_owned(),
    };
    if !finalizers.contains(&IN_USE.into()) || text(claim, "/spec/volumeName").is_empty() {
        let mut bound = claim.clone();
        let mut finalizers: Vec<Value> = finalizers
            .iter()
            .filter(|one| **one != *IN_USE)
            .cloned()
            .collect();
        finalizers.push(IN_USE.into());
        set(&mut bound, &["metadata", "finalizers"], Value::Array(finalizers));
        set(
            &mut bound,
            &["metadata", "annotations", "pv.kubernetes.io/bind-completed"],
            "yes".into(),
        );
        set(&mut bound, &["spec", "volumeName"], name.into());
        turn.writes.push(Write::Replace(bound));
        return;
    }
    let Some(volume) = volumes.iter().find(|volume| name_of(volume) == name) else {
        turn.writes
            .push(Write::Create(volume_for(settings, claim, &name)));
        return;
    };
    let mut bound = (*volume).clone();
    set(&mut bound, &["status"], json!({ "phase": "Bound" }));
    if bound != **volume {
        turn.writes.push(Write::ReplaceStatus(bound));
    }
    let mut bound = (*claim).clone();
    for (field, value) in [
        ("phase", json!("Bound")),
        (
            "accessModes",
            volume.pointer("/spec/accessModes").cloned().unwrap_or_default(),
        ),
        (
            "capacity",
            volume.pointer("/spec/capacity").cloned().unwrap_or_default(),
        ),
    ] {
        set(&mut bound, &["status", field], value);
    }
    if bound != *claim {
        turn.writes.push(Write::ReplaceStatus(bound));
    }
}

fn volume_for(settings: &Settings, claim: &Value, name: &str) -> Value {
    let of = |pointer: &str| claim.pointer(pointer).cloned();
    json!({
        "apiVersion": Kind::PersistentVolume.api_version(),
        "kind": Kind::PersistentVolume.name(),
        "metadata": { "name": name },
        "spec": {
            "accessModes": of("/spec/accessModes").unwrap_or_else(|| json!(["ReadWriteOnce"])),
            "capacity": of("/spec/resources/requests").unwrap_or_else(|| json!({ "storage": "1Gi" })),
            "claimRef": {
                "apiVersion": Kind::PersistentVolumeClaim.api_version(),
                "kind": Kind::PersistentVolumeClaim.name(),
                "namespace": namespace_of(claim),
                "name": name_of(claim),
                "uid": uid_of(claim),
            },
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": text(claim, "/spec/storageClassName"),
            "volumeMode": "Filesystem",
            "hostPath": { "path": format!("{}/{name}", settings.volumes), "type": "DirectoryOrCreate" },
        },
    })
}

fn release(claim: &Value, view: &dyn View, turn: &mut Turn) {
    let finalizers = items(claim, "/metadata/finalizers");
    let used = view.list(Kind::Pod).into_iter().any(|pod| {
        // A pod that has no node yet does not use it: nobody lets it start.
        !text(pod, "/spec/nodeName").is_empty()
            && namespace_of(pod) == namespace_of(claim)
            && items(pod, "/spec/volumes")
                .iter()
                .any(|volume| text(volume, "/persistentVolumeClaim/claimName") == name_of(claim))
    });
    if !used && finalizers.contains(&IN_USE.into()) {
        let rest: Vec<Value> = finalizers
            .iter()
            .filter(|one| **one != *IN_USE)
            .cloned()
            .collect();
        turn.writes.push(Write::Replace(super::object::with(
            claim,
            &["metadata", "finalizers"],
            rest.into(),
        )));
    }
}

/// The claim of a volume is gone. Its folder goes with the object.
fn give_back(volume: &Value, turn: &mut Turn) {
    if text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
        turn.writes.push(Write::Delete {
            target: Target::of(volume),
            grace: None,
        });
    } else if text(volume, "/status/phase") != "Released" {
        let mut released = volume.clone();
        set(&mut released, &["status", "phase"], "Released".into());
        turn.writes.push(Write::ReplaceStatus(released));
    }
}
