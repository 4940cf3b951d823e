//! A HorizontalPodAutoscaler beside a plan, as Kubernetes runs one: every 15 seconds it makes of what runs what the load
//! needs, never more than twice as many at once; what is at zero it leaves alone.

use crate::bed::{Bed, DEPLOYMENTS, MINUTE, kind, target};
use crate::watched::watched;
use anyhow::{Context, Result, bail, ensure};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt};
use mainstay_core::hibernation::ids::ExecutorName;
use mainstay_core::hibernation::observed::{Refusal, Severity};
use mainstay_core::hibernation::step::Aim;
use operator::hibernation::{Ask, Executor, Executors, Place, Sight};
use operator::tap::Tap;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

const LEAST: i64 = 2;
const MOST: i64 = 10;
/// So often it looks.
const PERIOD: Duration = Duration::from_secs(15);

/// What the autoscaler makes of so many, if so many are needed; `None`: it rests.
fn wanted(now: i64, needed: i64) -> Option<i64> {
    if now == 0 {
        return None;
    }
    let at_once = (now * 2).max(4);
    let bounded = if now < LEAST {
        LEAST
    } else {
        needed.min(at_once).clamp(LEAST, MOST)
    };
    (bounded != now).then_some(bounded)
}

#[test]
fn what_the_autoscaler_makes_of_it() {
    assert_eq!(wanted(0, 6), None, "at zero it rests");
    assert_eq!(wanted(1, 6), Some(LEAST));
    assert_eq!(wanted(2, 6), Some(4), "twice as many, or four");
    assert_eq!(wanted(6, 6), None);
    assert_eq!(wanted(8, 99), Some(MOST));
    assert_eq!(wanted(8, 0), Some(LEAST));
}

fn replicas(object: &DynamicObject) -> Option<i64> {
    object.data.pointer("/spec/replicas").and_then(Value::as_i64)
}

fn web(client: &Client) -> Api<DynamicObject> {
    Api::default_namespaced_with(client.clone(), &kind(DEPLOYMENTS))
}

/// The autoscaler of `web`, and every number of replicas that `web` ever had, in order.
struct Autoscaler {
    load: Arc<AtomicI64>,
    had: Arc<Mutex<Vec<i64>>>,
    tasks: [JoinHandle<Result<()>>; 2],
}

impl Autoscaler {
    fn start(client: &Client, load: i64) -> Self {
        let (load, had) = (Arc::new(AtomicI64::new(load)), Arc::default());
        Self {
            tasks: [
                tokio::spawn(scale(client.clone(), Arc::clone(&load))),
                tokio::spawn(remember(client.clone(), Arc::clone(&had))),
            ],
            load,
            had,
        }
    }

    fn needs(&self, replicas: i64) {
        self.load.store(replicas, Ordering::Relaxed);
    }

    fn end(self) -> Result<Vec<i64>> {
        for task in &self.tasks {
            ensure!(!task.is_finished(), "the autoscaler has ended");
            task.abort();
        }
        Ok(self.had.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

async fn scale(client: Client, load: Arc<AtomicI64>) -> Result<()> {
    let api = web(&client);
    loop {
        tokio::time::sleep(PERIOD).await;
        let object = api.get("web").await?;
        let now = replicas(&object).context("no replicas")?;
        let Some(wanted) = wanted(now, load.load(Ordering::Relaxed)) else {
            continue;
        };
        let spec = json!({
            "metadata": { "resourceVersion": object.resource_version() },
            "spec": { "replicas": wanted },
        });
        match api
            .patch("web", &PatchParams::default(), &Patch::Merge(spec))
            .await
        {
            Ok(_) => {}
            // Somebody was faster: it looks again.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => bail!(error),
        }
    }
}

async fn remember(client: Client, had: Arc<Mutex<Vec<i64>>>) -> Result<()> {
    let note = |object: &DynamicObject| {
        let mut had = had.lock().unwrap_or_else(PoisonError::into_inner);
        if object.name_any() == "web"
            && let Some(now) = replicas(object)
            && had.last() != Some(&now)
        {
            had.push(now);
        }
    };
    watched(web(&client), note).await
}

/// A day, a night and a morning beside an autoscaler: every number of replicas on the way.
async fn a_night_beside_it(executors: Executors) -> Result<Vec<i64>> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.plan(json!([target("apps", Value::Null)])).await?;
    let autoscaler = Autoscaler::start(&bed.client, 3);
    let operator = bed.operator_with(Tap::default(), executors);
    bed.at(0).await;
    autoscaler.needs(5);
    bed.at(1).await;
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 5, "it scales by day");
    bed.later(MINUTE * 56).await;
    // Somebody knocks all night.
    autoscaler.needs(6);
    for hours in [2, 3] {
        bed.at(hours).await;
        ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0, "it rests at zero");
        ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
        ensure!(!bed.condition("Drifted").await?.0, "nobody has to be fought");
    }
    autoscaler.needs(5);
    bed.at(4).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    autoscaler.needs(7);
    bed.later(MINUTE * 20).await;
    operator.kill().await;
    let had = autoscaler.end()?;
    bed.end().await;
    Ok(had)
}

#[tokio::test(start_paused = true)]
async fn s77_an_autoscaler_rests_at_zero_and_takes_over_again_on_waking() -> Result<()> {
    let had = a_night_beside_it(Executors::in_cluster()).await?;
    // As it was created, as it was scaled by day, asleep, as it was in the evening, and as the new day needs it.
    ensure!(had == [3, 5, 0, 5, 7], "{had:?}");
    Ok(())
}

/// Wakes to one, and to the rest when that runs.
struct Hasty(Arc<dyn Executor>);

impl Executor for Hasty {
    fn observe<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Sight, Refusal>> {
        self.0.observe(ask)
    }

    fn stop<'a>(&'a self, place: &'a Place, aim: &'a Aim) -> BoxFuture<'a, Result<(), Refusal>> {
        self.0.stop(place, aim)
    }

    fn start<'a>(
        &'a self,
        place: &'a Place,
        _aim: &'a Aim,
        state: &'a Value,
    ) -> BoxFuture<'a, Result<(), Refusal>> {
        async move {
            for replicas in [Some(&json!(1)), state.get("replicas")] {
                let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
                let done = web(&place.client)
                    .patch("web", &PatchParams::default(), &patch)
                    .await;
                done.map_err(|error| Refusal {
                    message: error.to_string(),
                    severity: Severity::Transient,
                })?;
                tokio::time::sleep(PERIOD + PERIOD / 2).await;
            }
            Ok(())
        }
        .boxed()
    }
}

/// The same night with somebody who does it wrongly: it is seen.
#[tokio::test(start_paused = true)]
async fn s77_waking_to_one_first_is_seen_and_the_autoscaler_makes_something_else_of_it() -> Result<()> {
    let all = Executors::in_cluster();
    let inner = all.get(&ExecutorName::parse("workloads")?);
    let inner = inner.map_err(|refusal| anyhow::anyhow!(refusal.message))?;
    let had = a_night_beside_it(all.with("workloads", Hasty(inner))).await?;
    ensure!(had.starts_with(&[3, 5, 0, 1, LEAST]), "{had:?}");
    Ok(())
}
