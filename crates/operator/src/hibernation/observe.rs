//! What a turn knows: the plan with its version first, then its restore points, then its resources.

use super::executor::{Ask, Claims, Place, Sight};
use super::stored::Maps;
use crate::call::{CallError, bounded};
use crate::clock::draw;
use api::HibernatePlan as Object;
use api::ScheduleException;
use api::hibernation::wishes::Asked;
use api::hibernation::{BadPlan, FINALIZER, bad_exceptions, claimed, follow, follow_recorded, last_will};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use mainstay_core::hibernation::HibernatePlan;
use mainstay_core::hibernation::ids::{NameError, PlanName, ResourceId, TargetName};
use mainstay_core::hibernation::observed::{Answer, Jitter, Look, Observed, Refusal, Stored};
use mainstay_core::hibernation::plan::{DEFAULT_GATE, Drift, Target};
use mainstay_core::hibernation::state::{Operation, State};
use mainstay_core::hibernation::store::Store;
use serde_json::Value;
use std::collections::BTreeMap;
use thiserror::Error;

/// Why a turn could not look.
#[derive(Debug, Error)]
pub enum ObserveError {
    /// The API did not say.
    #[error("{what} could not be read: {source}")]
    Call {
        /// What.
        what: &'static str,
        /// Why.
        source: CallError,
    },
    /// Its memory was edited.
    #[error(
        "status.state cannot be read ({0}): nothing is touched; put it back, or remove it, and what sleeps is taken over from its restore points"
    )]
    State(#[from] serde_json::Error),
    /// Its name.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// What was read of a plan.
pub(super) struct Read {
    /// Its exceptions.
    pub(super) exceptions: Vec<ScheduleException>,
    /// What cannot be followed of them, with their names.
    pub(super) bad: Vec<(String, BadPlan)>,
    /// What its annotations ask for.
    pub(super) asked: Asked,
    /// What it means, or why it means nothing.
    pub(super) followed: Result<HibernatePlan, BadPlan>,
    /// Its restore points.
    pub(super) maps: Maps,
    /// What is remembered.
    pub(super) state: Option<State>,
}

fn call(what: &'static str) -> impl Fn(CallError) -> ObserveError {
    move |source| ObserveError::Call { what, source }
}

/// Everything but the resources.
pub(super) async fn read(place: &Place, object: &Object) -> Result<Read, ObserveError> {
    let status = object.status.as_ref();
    let state = match status.and_then(|s| s.state.clone()) {
        Some(value) => Some(serde_json::from_value(value)?),
        None => None,
    };
    let maps = Maps::read(place).await.map_err(call("restore points"))?;
    let api: Api<ScheduleException> = Api::namespaced(place.client.clone(), &place.namespace);
    let listed = bounded(place.settings.call, api.list(&ListParams::default())).await;
    let mut exceptions = listed.map_err(call("exceptions"))?.items;
    exceptions.retain(|e| e.spec.plan_ref.name == object.name_any());
    let asked = Asked::read(object.annotations());
    let followed = follow(
        &object.name_any(),
        &object.spec,
        &exceptions,
        asked.wanted.clone(),
    );
    Ok(Read {
        bad: bad_exceptions(&object.spec, &exceptions),
        exceptions,
        asked,
        followed,
        maps,
        state,
    })
}

/// The plan to follow, and what keeps it from being followed further than to the end of what has begun: a mistake in the
/// targets that is made while they sleep must not keep them asleep.
pub(super) fn followed(object: &Object, read: &Read) -> Result<(HibernatePlan, Option<BadPlan>), BadPlan> {
    let bad = match &read.followed {
        Ok(plan) => return Ok((plan.clone(), None)),
        Err(bad) => bad.clone(),
    };
    let (name, spec) = (object.name_any(), &object.spec);
    if object.metadata.deletion_timestamp.is_some() {
        return Ok((last_will(&name, spec)?, None));
    }
    let Some(cycle) = read.state.as_ref().and_then(|s| s.open.as_ref()) else {
        return Err(bad);
    };
    let wanted = read.asked.wanted.clone();
    let plan = follow_recorded(&name, spec, &read.exceptions, wanted, cycle.intent.clone());
    Ok((plan.map_err(|_| bad.clone())?, Some(bad)))
}

/// Which of the other plans of the namespace have a better right: the older, then the smaller name.
pub(super) async fn claims(place: &Place, object: &Object) -> Result<Vec<Claims>, ObserveError> {
    let api: Api<Object> = Api::namespaced(place.client.clone(), &place.namespace);
    let listed = bounded(place.settings.call, api.list(&ListParams::default())).await;
    let right = |o: &Object| (o.metadata.creation_timestamp.clone(), o.name_any());
    let ours = right(object);
    let others = listed.map_err(call("plans"))?.items.into_iter();
    let better = others.filter(|o| o.metadata.uid != object.metadata.uid && right(o) < ours);
    Ok(better
        .filter_map(|o| {
            Some(Claims {
                plan: PlanName::parse(&o.name_any()).ok()?,
                targets: claimed_by(&o),
            })
        })
        .collect())
}

/// What a plan speaks of, and what it has put to sleep: also if it cannot be followed, or does not speak of it any more.
fn claimed_by(object: &Object) -> Vec<Target> {
    let mut targets = claimed(&object.spec);
    let state = object.status.as_ref().and_then(|s| s.state.clone());
    let state: Option<State> = state.and_then(|value| serde_json::from_value(value).ok());
    let open = state.and_then(|s| s.open);
    let asleep = open.into_iter().flat_map(|cycle| cycle.intent.targets);
    // One that only a restore point knew has no parameters. It selects nothing; an executor would read all of it.
    targets.extend(asleep.filter(|target| !target.parameters.is_null()));
    targets
}

/// Must resources be looked at? Nothing is decided about an awake plan by what runs.
pub(super) fn must_look(stored: &Stored, deleting: bool) -> bool {
    match &stored.state {
        None => stored.store.has_restore_data(),
        Some(state) => state.open.is_some() || (deleting && stored.store.has_restore_data()),
    }
}

/// Every target with whoever takes care of it: as the open cycle has it, as an unused point says, as the plan says.
pub(super) fn targets(plan: &HibernatePlan, stored: &Stored) -> BTreeMap<TargetName, Target> {
    let mut all = BTreeMap::new();
    for target in &plan.intent.targets {
        all.insert(target.name.clone(), target.clone());
    }
    for point in stored.store.points() {
        let known = all.get(&point.target);
        if known.is_none_or(|t: &Target| t.executor != point.executor && point.is_open()) {
            let stranger = Target {
                name: point.target.clone(),
                executor: point.executor.clone(),
                parameters: Value::Null,
                ready_within: DEFAULT_GATE,
                drift: Drift::Ignore,
            };
            all.insert(point.target, stranger);
        }
    }
    let open = stored.state.iter().filter_map(|s| s.open.as_ref());
    for target in open.flat_map(|cycle| &cycle.intent.targets) {
        all.insert(target.name.clone(), target.clone());
    }
    all
}

/// Is the namespace of the plan being deleted? Asked by making a ConfigMap without making it, because that is what has to
/// work for a restore point, and needs no right that is not needed anyway. Any other answer says that it is not.
pub(super) async fn namespace_ends(place: &Place) -> bool {
    let api: Api<ConfigMap> = Api::namespaced(place.client.clone(), &place.namespace);
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(Store::name(&place.plan, 1)),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let asked = bounded(place.settings.call, api.create(&params, &map)).await;
    matches!(asked, Err(CallError::Ending(_)))
}

/// What everybody's executor sees.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Every target.
    pub(super) targets: BTreeMap<TargetName, Result<Look, Refusal>>,
    /// What could not be looked at of those that could.
    pub(super) unseen: BTreeMap<TargetName, BTreeMap<ResourceId, Refusal>>,
}

/// Asks everybody's executor.
pub(super) async fn look(place: &Place, plan: &HibernatePlan, stored: &Stored) -> Looks {
    let looks = targets(plan, stored)
        .into_iter()
        .map(|(name, target)| async move {
            let seen = look_at(place, stored, &target).await;
            (name, seen)
        });
    let mut all = Looks::default();
    for (name, seen) in join_all(looks).await {
        let seen = seen.map(|Sight { look, unseen }| {
            if !unseen.is_empty() {
                all.unseen.insert(name.clone(), unseen);
            }
            look
        });
        all.targets.insert(name, seen);
    }
    all
}

/// Is the open cycle waking up? Then only what is recorded counts.
pub(super) fn is_waking(state: Option<&State>) -> bool {
    let open = state.and_then(|s| s.open.as_ref());
    open.is_some_and(|cycle| cycle.operation == Operation::WakeUp)
}

async fn look_at(place: &Place, stored: &Stored, target: &Target) -> Result<Sight, Refusal> {
    let executor = place.settings.executors.get(&target.executor)?;
    let point = stored.store.load(&target.executor, &target.name).ok().flatten();
    let entries = point.into_iter().flat_map(|p| p.entries);
    let recorded: BTreeMap<ResourceId, Value> = entries.map(|(id, entry)| (id, entry.state)).collect();
    let ask = Ask {
        place,
        target,
        recorded: &recorded,
        only_recorded: is_waking(stored.state.as_ref()),
    };
    executor.observe(ask).await
}

/// All of it, as the decisions take it.
pub(super) fn observed(
    object: &Object,
    asked: &Asked,
    looks: Looks,
    namespace_ends: bool,
    answers: Vec<Answer>,
) -> Observed {
    let Looks { targets, unseen } = looks;
    Observed {
        namespace_ends,
        deleting: object.metadata.deletion_timestamp.is_some(),
        finalizer: object.finalizers().iter().any(|f| f == FINALIZER),
        suspended_at_phase: asked.suspended_at_phase.clone(),
        wishes: asked.wishes.clone(),
        targets,
        unseen,
        answers,
        jitter: Jitter::per_mille(u16::try_from(draw() % 1000).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_only_a_restore_point_knew_claims_nothing_for_its_plan() {
        let target = |name: &str, parameters: Value| json!({ "name": name, "executor": "workloads", "parameters": parameters });
        let fresh =
            json!({ "stand": "Done", "captured": true, "attempts": 0, "enforced": 0, "message": null });
        let object: Object = serde_json::from_value(json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "HibernatePlan", "metadata": { "name": "older" },
            "spec": {
                "schedule": { "timezone": "UTC", "offHours": [] },
                "targets": [{ "name": "all", "executor": "workloads" }],
            },
            "status": { "state": {
                "phase": "Hibernated", "since": 0, "cycle": 7, "suspended_at": null, "retried": null, "history": [],
                "open": {
                    "id": 7, "operation": "Shutdown", "leg": 0, "began": 0,
                    "intent": {
                        "targets": [target("web", json!({ "names": ["web"] })), target("old", Value::Null)],
                        "strategy": "sequential", "behaviour": { "mode": "Strict", "retries": 3 },
                    },
                    "targets": { "web": fresh, "old": fresh },
                },
            } },
        }))
        .unwrap();
        let claimed = claimed_by(&object);
        let names: Vec<&str> = claimed.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(
            names,
            ["all", "web"],
            "`old` would be read as everything there is"
        );
        // Whoever writes a target without parameters means everything there is.
        assert!(claimed.iter().all(|t| !t.parameters.is_null()));
    }
}
