//! Clusters of our own kinds: put to sleep by `spec.hibernated` of their own object, never by scaling under their
//! controller. How they go down and come up is what their own protocols do; members of a ring are drained, its seeds wake
//! first, and nobody is replaced.
//!
//! A Memgraph cluster does not go down in the order ASYNC, SYNC, MAIN: a StatefulSet cannot stop its pods in that order
//! when MAIN is not the first of them. Instead writes are closed, every gateway confirms that, protection is proven and
//! recorded (R24), and then any order is safe: nothing can be written that the others would miss. The same MAIN leads
//! again after waking, without failover and without reset.

use super::executor::{Ask, Executor, Place, Sight, Silent, permanent, refuse_whole};
use super::objects::{self, aimed, asleep, left_alone, patch, resource, version, woken};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use mainstay_core::hibernation::ids::ResourceId;
use mainstay_core::hibernation::observed::{Look, Power, Refusal, Resource, Skip};
use mainstay_core::hibernation::plan::Target;
use mainstay_core::hibernation::step::Aim;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The executors `memgraph` and `ring`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clusters {
    executor: &'static str,
    kind: &'static str,
    plural: &'static str,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Parameters {
    /// Which clusters; all of the namespace if none is named.
    names: Vec<String>,
}

impl Clusters {
    /// The executor `memgraph`.
    pub(super) const MEMGRAPH: Self = Self {
        executor: "memgraph",
        kind: "MemgraphCluster",
        plural: "memgraphclusters",
    };
    /// The executor `ring`.
    pub(super) const RING: Self = Self {
        executor: "ring",
        kind: "RingCluster",
        plural: "ringclusters",
    };

    fn resource(self) -> ApiResource {
        resource("mainstay.dev", "v1alpha1", self.kind, self.plural)
    }

    fn parameters(self, target: &Target) -> Result<Parameters, Refusal> {
        if target.parameters.is_null() {
            return Ok(Parameters::default());
        }
        let read = serde_json::from_value(target.parameters.clone());
        read.map_err(|error| permanent(format!("parameters of {}: {error}", self.executor)))
    }

    fn claimed(self, place: &Place, name: &str) -> Option<Skip> {
        let claims = |target: &Target| {
            let ours = target.executor.as_str() == self.executor;
            let named = |p: Parameters| p.names.is_empty() || p.names.iter().any(|n| n == name);
            ours && self.parameters(target).is_ok_and(named)
        };
        let other = place.before.iter().find(|c| c.targets.iter().any(claims))?;
        Some(Skip::ClaimedBy(other.plan.clone()))
    }

    async fn set(self, place: &Place, aim: &Aim, down: bool) -> Result<(), Refusal> {
        refuse_whole(aim)?;
        let kind = self.resource();
        let object = aimed(place, aim, &kind, aim.resource.as_str(), |_| String::new()).await?;
        let marks = if down {
            asleep(place, aim, None)
        } else {
            woken(place, aim)
        };
        let spec = json!({ "hibernated": down });
        patch(place, &kind, &object, marks, Some(("spec", spec))).await?;
        Ok(())
    }
}

impl Executor for Clusters {
    fn observe<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Sight, Refusal>> {
        observe(*self, ask).boxed()
    }

    fn stop<'a>(&'a self, place: &'a Place, aim: &'a Aim) -> BoxFuture<'a, Result<(), Refusal>> {
        self.set(place, aim, true).boxed()
    }

    fn start<'a>(
        &'a self,
        place: &'a Place,
        aim: &'a Aim,
        _state: &'a Value,
    ) -> BoxFuture<'a, Result<(), Refusal>> {
        self.set(place, aim, false).boxed()
    }
}

async fn observe(clusters: Clusters, ask: Ask<'_>) -> Result<Sight, Refusal> {
    let mut sight = Sight::default();
    if ask.selects() {
        select(clusters, ask, &mut sight.look).await?;
    }
    let mut silent = Silent::default();
    for (id, state) in ask.recorded {
        if *id == ResourceId::whole() || sight.look.contains_key(id) {
            continue;
        }
        let seen = match silent.of(clusters.plural) {
            Some(refusal) => Err(refusal),
            None => recorded(clusters, ask.place, id.as_str(), state).await,
        };
        silent.note(clusters.plural, &seen);
        sight.note(&ask, id, seen)?;
    }
    sight.or_refusal()
}

/// What became of a cluster that is recorded and not selected any more.
async fn recorded(clusters: Clusters, place: &Place, name: &str, state: &Value) -> Result<Resource, Refusal> {
    let found = objects::get(place, &clusters.resource(), name).await?;
    Ok(match found {
        Some(object) => seen(&object, false, clusters.claimed(place, name)),
        None => Resource {
            selected: false,
            ..gone(state)
        },
    })
}

/// What the target names, or all there are. One that is named and not there is said, and keeps nobody from the others.
async fn select(clusters: Clusters, ask: Ask<'_>, look: &mut Look) -> Result<(), Refusal> {
    let id_of = |name: &str| ResourceId::parse(name).map_err(|error| permanent(error.to_string()));
    let Parameters { names } = clusters.parameters(ask.target)?;
    let mut missing: BTreeSet<&String> = names.iter().collect();
    for object in objects::list(ask.place, &clusters.resource()).await? {
        let name = object.name_any();
        missing.remove(&name);
        if names.is_empty() || names.contains(&name) {
            let claimed = clusters.claimed(ask.place, &name);
            look.insert(id_of(&name)?, seen(&object, true, claimed));
        }
    }
    for name in missing {
        let id = id_of(name)?;
        if !ask.recorded.contains_key(&id) {
            let why = Skip::Other(format!("there is no {} `{name}`", clusters.kind));
            let resource = Resource {
                skip: Some(why),
                ..gone(&Value::Null)
            };
            look.insert(id, resource);
        }
    }
    Ok(())
}

/// Something that is not there, although it is named.
fn gone(state: &Value) -> Resource {
    Resource {
        power: Power::Gone,
        settled: true,
        state: state.clone(),
        version: None,
        selected: true,
        skip: None,
    }
}

fn hibernated(object: &DynamicObject) -> bool {
    object.data.pointer("/spec/hibernated") == Some(&Value::Bool(true))
}

fn seen(object: &DynamicObject, selected: bool, claimed: Option<Skip>) -> Resource {
    let down = hibernated(object);
    let condition = |kind: &str| {
        let all = object
            .data
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        let mut mine = all
            .into_iter()
            .flatten()
            .filter(|c| c.get("type") == Some(&json!(kind)));
        mine.any(|c| c.get("status") == Some(&json!("True")))
    };
    let observed = object
        .data
        .pointer("/status/observedGeneration")
        .and_then(Value::as_i64);
    let current = observed >= object.metadata.generation;
    Resource {
        power: if down { Power::Down } else { Power::Up },
        settled: current
            && if down {
                condition("Hibernated")
            } else {
                condition("Ready") && !condition("Hibernated")
            },
        state: json!({ "hibernated": down }),
        version: Some(version(object, "")),
        selected,
        skip: left_alone(object).or(claimed),
    }
}
