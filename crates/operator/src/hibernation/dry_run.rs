//! What a shutdown would do now, by the same eyes and the same rules. Reads only.

use super::executor::Place;
use super::observe::{self, ObserveError};
use super::settings::Settings;
use crate::call::{CallError, bounded};
use api::HibernatePlan as Object;
use api::hibernation::BadPlan;
use kube::{Api, Client};
use mainstay_core::hibernation::ids::PlanName;
use mainstay_core::hibernation::observed::{Look, Power, Refusal, Resource, Stored};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use thiserror::Error;

/// Why nothing can be said.
#[derive(Debug, Error)]
pub enum DryRunError {
    /// The plan could not be read.
    #[error("the plan could not be read: {0}")]
    Object(#[source] CallError),
    /// It could not look.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// It cannot be followed.
    #[error(transparent)]
    Plan(#[from] BadPlan),
}

/// What would be done to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Would {
    /// It runs, and would be stopped.
    Stop,
    /// It does not run, and would be left as it is.
    Leave,
    /// It is selected, and left alone for a reason.
    Skip,
}

/// One resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Of which target.
    pub target: String,
    /// By which executor.
    pub executor: String,
    /// Which.
    pub resource: String,
    /// What would be done.
    pub would: Would,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What its restore point would say.
    pub state: Value,
}

/// What a shutdown would do now.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DryRun {
    /// Every resource, target by target.
    pub resources: Vec<Line>,
    /// Targets that could not be looked at, and why.
    pub failed: Vec<(String, String)>,
}

/// Looks at everything that the plan selects.
pub async fn dry_run(
    client: Client,
    namespace: &str,
    name: &str,
    settings: Settings,
) -> Result<DryRun, DryRunError> {
    let api: Api<Object> = Api::namespaced(client.clone(), namespace);
    let object = bounded(settings.call, api.get(name)).await;
    let object = object.map_err(DryRunError::Object)?;
    let mut place = Place {
        client,
        namespace: namespace.to_owned(),
        plan: PlanName::parse(name).map_err(ObserveError::from)?,
        before: Vec::new(),
        settings: Arc::new(settings),
    };
    place.before = observe::claims(&place, &object).await?;
    let read = observe::read(&place, &object).await?;
    let mut plan = read.followed?;
    // What exceptions change about targets is part of it.
    plan.intent = plan.intent_at(place.settings.clock.now());
    let stored = Stored {
        state: None,
        store: read.maps.store(),
    };
    let looks = observe::look(&place, &plan, &stored).await;
    let mut found = DryRun::default();
    for target in &plan.intent.targets {
        match looks.targets.get(&target.name) {
            Some(Ok(look)) => found.add(target.name.as_str(), target.executor.as_str(), look),
            Some(Err(Refusal { message, .. })) => {
                found.failed.push((target.name.to_string(), message.clone()));
            }
            None => {}
        }
    }
    Ok(found)
}

impl DryRun {
    fn add(&mut self, target: &str, executor: &str, look: &Look) {
        for (id, resource) in look.iter().filter(|(_, r)| r.selected) {
            let Resource {
                power,
                settled: _,
                state,
                version: _,
                selected: _,
                skip,
            } = resource;
            let (would, why) = match (skip, power) {
                (Some(skip), _) => (Would::Skip, Some(skip.to_string())),
                (None, Power::Up) => (Would::Stop, None),
                (None, Power::Down | Power::Gone) => (Would::Leave, Some("it does not run".to_owned())),
            };
            self.resources.push(Line {
                target: target.to_owned(),
                executor: executor.to_owned(),
                resource: id.to_string(),
                would,
                why,
                state: state.clone(),
            });
        }
    }
}
