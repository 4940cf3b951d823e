//! Workloads of the plan's own namespace: Deployments, StatefulSets, ReplicaSets, CronJobs, and whatever has a scale.
//!
//! A HorizontalPodAutoscaler needs nothing: at zero replicas it does nothing, and takes over again on waking. A KEDA
//! ScaledObject would scale from zero, so it is paused, and its own pause comes back on waking.

mod keda;
mod kinds;
mod listed;
mod parameters;
mod replicas;

use super::executor::{Ask, Executor, Place, Sight, Silent, permanent, refuse_whole};
use super::objects::{self, left_alone};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kinds::Workload;
use kube::ResourceExt;
use kube::api::DynamicObject;
use listed::Listed;
use mainstay_core::hibernation::ids::{ExecutorName, ResourceId};
use mainstay_core::hibernation::observed::{Look, Power, Refusal, Resource, Skip};
use mainstay_core::hibernation::step::Aim;
use parameters::Parameters;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The executor `workloads`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workloads;

impl Executor for Workloads {
    fn observe<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Sight, Refusal>> {
        observe(ask).boxed()
    }

    fn stop<'a>(&'a self, place: &'a Place, aim: &'a Aim) -> BoxFuture<'a, Result<(), Refusal>> {
        async move {
            match Named::parse(&aim.resource)? {
                (Workload::Keda, name) => keda::stop(place, aim, &name).await,
                (kind, name) => replicas::stop(place, aim, &kind, &name).await,
            }
        }
        .boxed()
    }

    fn start<'a>(
        &'a self,
        place: &'a Place,
        aim: &'a Aim,
        state: &'a Value,
    ) -> BoxFuture<'a, Result<(), Refusal>> {
        async move {
            refuse_whole(aim)?;
            match Named::parse(&aim.resource)? {
                (Workload::Keda, name) => keda::start(place, aim, &name, state).await,
                (kind, name) => replicas::start(place, aim, &kind, &name, state).await,
            }
        }
        .boxed()
    }
}

/// The id of a resource: `apps/v1/deployments/web`.
struct Named;

impl Named {
    fn id(kind: &Workload, name: &str) -> Result<ResourceId, Refusal> {
        let path = format!("{}/{name}", kind.path());
        ResourceId::parse(&path).map_err(|error| permanent(error.to_string()))
    }

    fn parse(id: &ResourceId) -> Result<(Workload, String), Refusal> {
        let unknown = || permanent(format!("`{id}` is no workload"));
        let (path, name) = id.as_str().rsplit_once('/').ok_or_else(unknown)?;
        let kind = Workload::by_path(path).ok_or_else(unknown)?;
        Ok((kind, name.to_owned()))
    }
}

async fn observe(ask: Ask<'_>) -> Result<Sight, Refusal> {
    let mut sight = Sight::default();
    let mut listed = Listed::default();
    if ask.selects() {
        select(ask, &mut sight.look).await?;
    } else {
        listed = Listed::of(ask.place, ask.recorded.keys()).await;
    }
    let mut silent = Silent::default();
    for (id, state) in ask.recorded {
        if *id == ResourceId::whole() || sight.look.contains_key(id) {
            continue;
        }
        let kind = id.as_str().rsplit_once('/').map_or("", |(path, _)| path);
        let seen = match silent.of(kind) {
            Some(refusal) => Err(refusal),
            None => recorded(ask.place, id, state, &listed).await,
        };
        silent.note(kind, &seen);
        sight.note(&ask, id, seen)?;
    }
    sight.or_refusal()
}

/// What the target selects. What it names and is not there is said, and keeps nobody from the others.
async fn select(ask: Ask<'_>, look: &mut Look) -> Result<(), Refusal> {
    let place = ask.place;
    let parameters = Parameters::parse(&ask.target.parameters, &place.namespace)?;
    let mut missing: BTreeSet<&String> = parameters.names().iter().collect();
    let mut names = Vec::new();
    for kind in parameters.kinds() {
        for object in objects::list(place, &kind.resource()).await? {
            missing.remove(&object.name_any());
            if !parameters.selects(kind, &object) {
                continue;
            }
            let Some(mut resource) = replicas::seen(place, kind, &object).await? else {
                continue;
            };
            resource.skip = untouchable(place, kind, &object);
            if resource.skip.is_none() {
                names.push((kind.clone(), object.name_any()));
            }
            look.insert(Named::id(kind, &object.name_any())?, resource);
        }
    }
    keda::observe(place, &names, look).await?;
    for name in missing {
        let id = ResourceId::parse(name).map_err(|error| permanent(error.to_string()))?;
        let why = format!("there is no {} of this name", parameters.kinds_in_words());
        let resource = Resource {
            selected: true,
            skip: Some(Skip::Other(why)),
            ..gone(&Value::Null)
        };
        look.insert(id, resource);
    }
    Ok(())
}

fn gone(state: &Value) -> Resource {
    Resource {
        power: Power::Gone,
        settled: true,
        state: state.clone(),
        version: None,
        selected: false,
        skip: None,
    }
}

/// What became of a resource that is recorded and not selected any more.
async fn recorded(
    place: &Place,
    id: &ResourceId,
    state: &Value,
    listed: &Listed,
) -> Result<Resource, Refusal> {
    let (kind, name) = Named::parse(id)?;
    let found = match listed.get(&kind, &name) {
        Some(object) => Some(object.clone()),
        None => objects::get(place, &kind.resource(), &name).await?,
    };
    let Some(object) = found else {
        return Ok(gone(state));
    };
    let seen = match &kind {
        Workload::Keda => Some(keda::seen(&object)),
        _ => replicas::seen(place, &kind, &object).await?,
    };
    Ok(seen.map_or_else(
        || gone(state),
        |seen| Resource {
            selected: false,
            skip: untouchable(place, &kind, &object),
            ..seen
        },
    ))
}

/// Why it is not stopped. Waking does not ask: what already sleeps is not left there for it.
fn untouchable(place: &Place, kind: &Workload, object: &DynamicObject) -> Option<Skip> {
    left_alone(object)
        .or_else(|| claimed(place, kind, object))
        .or_else(|| loses_volumes(object))
}

/// A StatefulSet that gives up its claims when it is scaled down: it would wake with empty disks.
fn loses_volumes(object: &DynamicObject) -> Option<Skip> {
    let spec = |path: &str| object.data.pointer(&format!("/spec/{path}"));
    let policy = spec("persistentVolumeClaimRetentionPolicy/whenScaled")?;
    let claims = spec("volumeClaimTemplates").and_then(Value::as_array)?;
    let loses = policy == "Delete" && !claims.is_empty();
    let why = "scaled to zero it would lose its volumes: set `persistentVolumeClaimRetentionPolicy.whenScaled: Retain`";
    loses.then(|| Skip::Other(why.to_owned()))
}

/// Another plan with the better right selects it, too.
fn claimed(place: &Place, kind: &Workload, object: &DynamicObject) -> Option<Skip> {
    let ours = |executor: &ExecutorName| executor.as_str() == "workloads";
    for claims in &place.before {
        for target in claims.targets.iter().filter(|t| ours(&t.executor)) {
            let parsed = Parameters::parse(&target.parameters, &place.namespace);
            if parsed.is_ok_and(|p| p.kinds().contains(kind) && p.selects(kind, object)) {
                return Some(Skip::ClaimedBy(claims.plan.clone()));
            }
        }
    }
    None
}

/// A state that this executor did not write.
fn no_number(aim: &Aim, state: &Value) -> Refusal {
    permanent(format!("{}: `{state}` says no number of replicas", aim.resource))
}

/// The state of something with replicas.
fn replicas_state(replicas: i64) -> Value {
    json!({ "replicas": replicas })
}
