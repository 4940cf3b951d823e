//! Nothing at all: for trying a plan out. What is asked of it is kept in a ConfigMap, so that it survives an operator.

use super::executor::{Ask, Executor, Place, Sight, changed, permanent, refusal, refuse_whole};
use super::objects::labels;
use crate::call::{bounded, existing};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use mainstay_core::hibernation::ids::{ResourceId, Version};
use mainstay_core::hibernation::observed::{Look, Power, Refusal, Resource, Severity};
use mainstay_core::hibernation::step::Aim;
use mainstay_core::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

/// The executor `noop`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noop;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Fails {
    #[default]
    None,
    Shutdown,
    Wakeup,
    Both,
}

#[derive(Clone, Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Parameters {
    /// How long it takes until it is down, or usable.
    delay_seconds: u64,
    failure_mode: Fails,
    failure_message: Option<String>,
}

/// What is asked of one target.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pretended {
    up: bool,
    /// How often it was changed.
    changes: u64,
    at: Time,
}

fn parameters(value: &Value) -> Result<Parameters, Refusal> {
    if value.is_null() {
        return Ok(Parameters::default());
    }
    serde_json::from_value(value.clone()).map_err(|error| permanent(format!("parameters of noop: {error}")))
}

fn fails(parameters: &Parameters, at: &[Fails]) -> Result<(), Refusal> {
    if !at.contains(&parameters.failure_mode) {
        return Ok(());
    }
    let message = parameters.failure_message.clone();
    Err(Refusal {
        message: message.unwrap_or_else(|| "it fails because failureMode says so".to_owned()),
        severity: Severity::Transient,
    })
}

impl Executor for Noop {
    fn observe<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Sight, Refusal>> {
        async move {
            let parameters = parameters(&ask.target.parameters)?;
            let name = ask.target.name.as_str();
            let known = Known::read(ask.place).await?.one(name);
            let id = ResourceId::parse(name).map_err(|error| permanent(error.to_string()))?;
            let passed = ask.place.settings.clock.now().since(known.at);
            let resource = Resource {
                power: if known.up { Power::Up } else { Power::Down },
                settled: known.changes == 0 || passed >= Duration::from_secs(parameters.delay_seconds),
                state: json!({ "up": known.up }),
                version: Some(Version(known.changes.to_string())),
                selected: true,
                skip: None,
            };
            Ok(Look::from([(id, resource)]).into())
        }
        .boxed()
    }

    fn stop<'a>(&'a self, place: &'a Place, aim: &'a Aim) -> BoxFuture<'a, Result<(), Refusal>> {
        async move {
            fails(&parameters(&aim.parameters)?, &[Fails::Shutdown, Fails::Both])?;
            set(place, aim, false).await
        }
        .boxed()
    }

    fn start<'a>(
        &'a self,
        place: &'a Place,
        aim: &'a Aim,
        _state: &'a Value,
    ) -> BoxFuture<'a, Result<(), Refusal>> {
        async move {
            fails(&parameters(&aim.parameters)?, &[Fails::Wakeup, Fails::Both])?;
            set(place, aim, true).await
        }
        .boxed()
    }
}

/// The ConfigMap.
struct Known {
    api: Api<ConfigMap>,
    name: String,
    map: Option<ConfigMap>,
}

impl Known {
    async fn read(place: &Place) -> Result<Self, Refusal> {
        let api: Api<ConfigMap> = Api::namespaced(place.client.clone(), &place.namespace);
        let name = format!("hibernator-noop-{}", place.plan);
        let found = existing(bounded(place.settings.call, api.get(&name)).await);
        Ok(Self {
            map: found.map_err(|error| refusal(&error))?,
            api,
            name,
        })
    }

    fn one(&self, target: &str) -> Pretended {
        let data = self.map.as_ref().and_then(|map| map.data.as_ref());
        let text = data.and_then(|data| data.get(target));
        let read = text.and_then(|text| serde_json::from_str(text).ok());
        read.unwrap_or(Pretended {
            up: true,
            changes: 0,
            at: Time::ZERO,
        })
    }
}

async fn set(place: &Place, aim: &Aim, up: bool) -> Result<(), Refusal> {
    // It would be a key that no ConfigMap may have.
    refuse_whole(aim)?;
    let known = Known::read(place).await?;
    let target = aim.resource.as_str();
    let Pretended { changes, .. } = known.one(target);
    if aim.version.as_ref().is_some_and(|v| v.0 != changes.to_string()) {
        return Err(changed(format!("{target} has changed")));
    }
    let next = Pretended {
        up,
        changes: changes + 1,
        at: place.settings.clock.now(),
    };
    let text = serde_json::to_string(&next).map_err(|error| permanent(error.to_string()))?;
    let mut map = known.map.clone().unwrap_or_default();
    map.metadata.name = Some(known.name.clone());
    map.metadata.labels = Some(labels(place));
    map.data.get_or_insert_default().insert(target.to_owned(), text);
    let (call, params) = (place.settings.call, PostParams::default());
    let written = if known.map.is_some() {
        bounded(call, known.api.replace(&known.name, &params, &map)).await
    } else {
        bounded(call, known.api.create(&params, &map)).await
    };
    written.map(drop).map_err(|error| refusal(&error))
}
