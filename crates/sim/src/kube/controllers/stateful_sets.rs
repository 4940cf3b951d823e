//! StatefulSets: stable names, own volumes, one pod at a time.
//!
//! The order of the questions is upstream's, with its known consequence: while
//! an ordered set waits for a broken pod, a repaired template does not reach
//! that pod until somebody deletes it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object::{
    Target, available, controller_reference, has_ended, is_controlled_by, is_deleting, is_ready, items,
    labels, name_of, namespace_of, number, set, text, with,
};
use super::revisions::Revisions;
use super::selector::adopt;
use super::{Kind, Turn, View, Write};

const REVISION_LABEL: &str = "controller-revision-hash";

pub(super) fn reconcile(now: Timestamp, view: &dyn View, turn: &mut Turn) {
    for set in view.list(Kind::StatefulSet) {
        if !is_deleting(set) {
            // What a set of this name left behind that was deleted alone.
            adopt(Kind::StatefulSet, set, Kind::ControllerRevision, view, turn);
            adopt(Kind::StatefulSet, set, Kind::Pod, view, turn);
            if let Some(revisions) = Revisions::of(set, view, turn) {
                Set::new(now, set, view, revisions).reconcile(view, turn);
            }
        }
    }
}

fn ordinal_of(set: &Value, pod: &Value) -> Option<i64> {
    name_of(pod)
        .strip_prefix(name_of(set))?
        .strip_prefix('-')?
        .parse()
        .ok()
}

struct Set<'a> {
    object: &'a Value,
    pods: BTreeMap<i64, &'a Value>,
    wanted: std::ops::Range<i64>,
    ordered: bool,
    min_ready_seconds: i64,
    revisions: Revisions,
    now: Timestamp,
}

impl<'a> Set<'a> {
    fn new(now: Timestamp, set: &'a Value, view: &'a dyn View, revisions: Revisions) -> Self {
        let start = number(set, "/spec/ordinals/start").unwrap_or_default();
        let replicas = number(set, "/spec/replicas").unwrap_or(1);
        Self {
            object: set,
            pods: view
                .list(Kind::Pod)
                .into_iter()
                .filter(|pod| is_controlled_by(pod, set))
                .filter_map(|pod| Some((ordinal_of(set, pod)?, pod)))
                .collect(),
            wanted: start..start.saturating_add(replicas),
            ordered: text(set, "/spec/podManagementPolicy") != "Parallel",
            min_ready_seconds: number(set, "/spec/minReadySeconds").unwrap_or_default(),
            revisions,
            now,
        }
    }

    fn reconcile(&self, view: &dyn View, turn: &mut Turn) {
        let status = with(self.object, &["status"], self.status(turn));
        if status != *self.object {
            turn.writes.push(Write::ReplaceStatus(status));
        }
        // Each step may end the turn: what follows it waits.
        let _ = self
            .fill(view, turn)
            .and_then(|()| self.shrink(turn))
            .and_then(|()| self.update(turn));
    }

    fn fill(&self, view: &dyn View, turn: &mut Turn) -> Option<()> {
        for ordinal in self.wanted.clone() {
            let Some(pod) = self.pods.get(&ordinal) else {
                self.create(ordinal, view, turn);
                self.wait_if_ordered()?;
                continue;
            };
            if text(pod, "/spec/nodeName").is_empty() {
                // Its claim may have been deleted before it was used.
                self.claim(ordinal, view, turn);
            }
            if has_ended(pod) && !is_deleting(pod) {
                delete(pod, turn);
                self.wait_if_ordered()?;
            } else if self.healthy(pod, turn).is_none() {
                self.wait_if_ordered()?;
            }
        }
        Some(())
    }

    fn shrink(&self, turn: &mut Turn) -> Option<()> {
        let first_unhealthy = self.pods.values().find(|pod| !is_ready(pod) || is_deleting(pod));
        for (ordinal, pod) in self
            .pods
            .iter()
            .rev()
            .filter(|(ordinal, _)| !self.wanted.contains(ordinal))
        {
            if is_deleting(pod) {
                self.wait_if_ordered()?;
                continue;
            }
            // A sick pod goes only if nobody before it is sick: else two would be missing.
            let first = first_unhealthy.is_some_and(|sick| ordinal_of(self.object, sick) == Some(*ordinal));
            if self.healthy(pod, turn).is_none() && !first {
                self.wait_if_ordered()?;
            }
            delete(pod, turn);
            self.wait_if_ordered()?;
        }
        Some(())
    }

    fn update(&self, turn: &mut Turn) -> Option<()> {
        if text(self.object, "/spec/updateStrategy/type") == "OnDelete" {
            return None;
        }
        let from = self.wanted.start + self.partition();
        for (_, pod) in self
            .pods
            .range(self.wanted.clone())
            .rev()
            .filter(|(ordinal, _)| **ordinal >= from)
        {
            if is_deleting(pod) {
                return None;
            }
            if Self::revision_of(pod) != self.revisions.update {
                delete(pod, turn);
                return None;
            }
            self.healthy(pod, turn)?;
        }
        Some(())
    }

    fn wait_if_ordered(&self) -> Option<()> {
        (!self.ordered).then_some(())
    }

    /// `None`: not yet, or not any more.
    fn healthy(&self, pod: &Value, turn: &mut Turn) -> Option<()> {
        match available(pod, self.min_ready_seconds, self.now) {
            Ok(()) => Some(()),
            Err(at) => {
                if let Some(at) = at {
                    turn.due(at);
                }
                None
            }
        }
    }

    fn partition(&self) -> i64 {
        number(self.object, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or_default()
    }

    fn revision_of(pod: &Value) -> &str {
        labels(pod)
            .and_then(|labels| labels.get(REVISION_LABEL))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    fn create(&self, ordinal: i64, view: &dyn View, turn: &mut Turn) {
        if self.claim(ordinal, view, turn).is_some() {
            turn.writes.push(Write::Create(self.pod(ordinal)));
        }
    }

    /// Make the claims of a pod that are missing. `None`: not now.
    fn claim(&self, ordinal: i64, view: &dyn View, turn: &mut Turn) -> Option<()> {
        let claims = self.claims(ordinal);
        let known = view.list(Kind::PersistentVolumeClaim);
        let same = |a: &Value, b: &Value| name_of(a) == name_of(b) && namespace_of(a) == namespace_of(b);
        // A claim that is being deleted would take the new pod's data with it.
        if known
            .iter()
            .any(|old| is_deleting(old) && claims.iter().any(|new| same(old, new)))
        {
            return None;
        }
        for claim in claims
            .iter()
            .filter(|claim| !known.iter().any(|old| same(old, claim)))
        {
            turn.writes.push(Write::Create(claim.clone()));
        }
        Some(())
    }

    fn claims(&self, ordinal: i64) -> Vec<Value> {
        let name = name_of(self.object);
        items(self.object, "/spec/volumeClaimTemplates")
            .iter()
            .map(|template| {
                let mut claim = template.clone();
                let labels = self
                    .object
                    .pointer("/spec/selector/matchLabels")
                    .and_then(Value::as_object);
                for (key, value) in labels.into_iter().flatten() {
                    set(&mut claim, &["metadata", "labels", key], value.clone());
                }
                set(
                    &mut claim,
                    &["apiVersion"],
                    Kind::PersistentVolumeClaim.api_version().into(),
                );
                set(&mut claim, &["kind"], Kind::PersistentVolumeClaim.name().into());
                set(
                    &mut claim,
                    &["metadata", "name"],
                    format!("{}-{name}-{ordinal}", name_of(template)).into(),
                );
                set(
                    &mut claim,
                    &["metadata", "namespace"],
                    namespace_of(self.object).into(),
                );
                claim
            })
            .collect()
    }

    fn pod(&self, ordinal: i64) -> Value {
        let rolling = text(self.object, "/spec/updateStrategy/type") != "OnDelete";
        let old = rolling && ordinal < self.wanted.start + self.partition();
        let revision = if old {
            &self.revisions.current
        } else {
            &self.revisions.update
        };
        let template = self.revisions.template(revision);
        let name = format!("{}-{ordinal}", name_of(self.object));
        let mut pod = json!({
            "apiVersion": Kind::Pod.api_version(),
            "kind": Kind::Pod.name(),
            "metadata": template.get("metadata").cloned().unwrap_or_else(|| json!({})),
            "spec": template.get("spec").cloned().unwrap_or_else(|| json!({})),
        });
        for (path, value) in [
            (&["metadata", "name"][..], json!(name)),
            (&["metadata", "namespace"], namespace_of(self.object).into()),
            (&["metadata", "labels", REVISION_LABEL], json!(revision)),
            (
                &["metadata", "labels", "statefulset.kubernetes.io/pod-name"],
                json!(name),
            ),
            (
                &["metadata", "labels", "apps.kubernetes.io/pod-index"],
                ordinal.to_string().into(),
            ),
            (
                &["metadata", "ownerReferences"],
                json!([controller_reference(Kind::StatefulSet, self.object)]),
            ),
            (&["spec", "hostname"], json!(name)),
            (
                &["spec", "subdomain"],
                text(self.object, "/spec/serviceName").into(),
            ),
            (&["spec", "volumes"], self.volumes(template, ordinal)),
        ] {
            set(&mut pod, path, value);
        }
        pod
    }

    /// The template's volumes, those of the same name replaced by the claims.
    fn volumes(&self, template: &Value, ordinal: i64) -> Value {
        let templates = items(self.object, "/spec/volumeClaimTemplates");
        let claimed = |volume: &Value| {
            templates
                .iter()
                .any(|claim| name_of(claim) == text(volume, "/name"))
        };
        let mut volumes: Vec<Value> = items(template, "/spec/volumes")
            .iter()
            .filter(|volume| !claimed(volume))
            .cloned()
            .collect();
        volumes.extend(templates.iter().map(|claim| {
            let claim_name = format!("{}-{}-{ordinal}", name_of(claim), name_of(self.object));
            json!({ "name": name_of(claim), "persistentVolumeClaim": { "claimName": claim_name } })
        }));
        Value::Array(volumes)
    }

    fn status(&self, turn: &mut Turn) -> Value {
        let count = |what: &dyn Fn(&Value) -> bool| {
            i64::try_from(self.pods.values().filter(|pod| what(pod)).count()).unwrap_or(i64::MAX)
        };
        let of = |revision: &str| count(&|pod| !is_deleting(pod) && Self::revision_of(pod) == revision);
        let mut current = self.revisions.current.clone();
        let mut current_replicas = of(&current);
        let updated = of(&self.revisions.update);
        let (replicas, ready) = (count(&|_| true), count(&is_ready));
        let wanted = self.wanted.end - self.wanted.start;
        let rolling = text(self.object, "/spec/updateStrategy/type") != "OnDelete";
        if rolling && [updated, ready, replicas] == [wanted; 3] {
            current.clone_from(&self.revisions.update);
            current_replicas = updated;
        }
        let mut available_replicas = 0;
        for pod in self.pods.values() {
            available_replicas += i64::from(self.healthy(pod, turn).is_some());
        }
        json!({
            "observedGeneration": number(self.object, "/metadata/generation").unwrap_or_default(),
            "replicas": replicas,
            "readyReplicas": ready,
            "availableReplicas": available_replicas,
            "currentReplicas": current_replicas,
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": self.revisions.update,
            "collisionCount": 0,
        })
    }
}

fn delete(pod: &Value, turn: &mut Turn) {
    turn.writes.push(Write::Delete {
        target: Target::of(pod),
        grace: None,
    });
}
