//! The seed's story of data loss, step by step, and what becomes of it here.

use crate::bed::{Bed, DEPLOYMENTS, MINUTE, target};
use anyhow::{Result, ensure};
use futures::future::BoxFuture;
use mainstay_core::hibernation::ids::ExecutorName;
use mainstay_core::hibernation::observed::{Refusal, Severity};
use mainstay_core::hibernation::step::Aim;
use operator::hibernation::{Ask, Executor, Executors, Place, Sight};
use operator::tap::Tap;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An executor whose credentials can be wrong.
struct Locked {
    inner: Arc<dyn Executor>,
    locked: Arc<AtomicBool>,
}

impl Locked {
    fn refused(&self) -> Option<Refusal> {
        self.locked.load(Ordering::Relaxed).then(|| Refusal {
            message: "the security token is expired".to_owned(),
            severity: Severity::Permanent,
        })
    }
}

impl Executor for Locked {
    fn observe<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Sight, Refusal>> {
        self.inner.observe(ask)
    }

    fn stop<'a>(&'a self, place: &'a Place, aim: &'a Aim) -> BoxFuture<'a, Result<(), Refusal>> {
        match self.refused() {
            Some(refusal) => Box::pin(std::future::ready(Err(refusal))),
            None => self.inner.stop(place, aim),
        }
    }

    fn start<'a>(
        &'a self,
        place: &'a Place,
        aim: &'a Aim,
        state: &'a Value,
    ) -> BoxFuture<'a, Result<(), Refusal>> {
        match self.refused() {
            Some(refusal) => Box::pin(std::future::ready(Err(refusal))),
            None => self.inner.start(place, aim, state),
        }
    }
}

/// Those of Kubernetes, and whether the credentials of one of them are wrong.
pub(crate) fn executors(locked: &Arc<AtomicBool>) -> Result<Executors> {
    let all = Executors::in_cluster();
    let name = ExecutorName::parse("workloads")?;
    let inner = all
        .get(&name)
        .map_err(|refusal| anyhow::anyhow!(refusal.message))?;
    let locked = Arc::clone(locked);
    Ok(all.with("workloads", Locked { inner, locked }))
}

#[tokio::test(start_paused = true)]
async fn s50_the_seeds_story_of_data_loss_ends_with_the_original_state() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.plan(json!([target("apps", Value::Null)])).await?;
    let locked = Arc::new(AtomicBool::new(false));
    let operator = bed.operator_with(Tap::default(), executors(&locked)?);

    // 1. Plan successfully shuts down: RestoreData saved.
    bed.at(2).await;
    ensure!(bed.phase().await? == "Hibernated");
    let saved = bed.restore_map().await?.data.unwrap_or_default();
    ensure!(
        saved["workloads_apps.json"].contains("\"replicas\":3"),
        "{saved:?}"
    );

    // 2. Wake-up fails (credential error): resources still hibernated.
    locked.store(true, Ordering::Relaxed);
    bed.at(4).await;
    ensure!(bed.phase().await? == "Error", "{}", bed.phase().await?);
    ensure!(bed.condition("Healthy").await? == (false, "Failed".to_owned()));
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0);

    // 3. User suspends the plan. Here it does not become Active without a wake-up.
    bed.annotate("hibernator.ardikabs.com/suspend", Some("true"))
        .await?;
    bed.later(MINUTE).await;
    ensure!(bed.phase().await? == "Suspended");
    let annotations = bed.hplan().await?.metadata.annotations.unwrap_or_default();
    ensure!(annotations["hibernator.ardikabs.com/suspended-at-phase"] == "Error");

    // 4. User fixes the credential and unsuspends.
    locked.store(false, Ordering::Relaxed);
    bed.annotate("hibernator.ardikabs.com/suspend", None).await?;
    bed.later(MINUTE).await;

    // 5. The wake-up is forced, from the point that was saved: nothing remains asleep behind an Active plan.
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    ensure!(bed.events().await?.iter().any(|e| e == "ForcedWakeUp"));
    let annotations = bed.hplan().await?.metadata.annotations.unwrap_or_default();
    ensure!(!annotations.contains_key("hibernator.ardikabs.com/suspended-at-phase"));

    // 6. to 8. The next shutdown finds what runs, captures it, and the morning brings it back.
    bed.scale("web", 5).await?;
    bed.at(7).await;
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0);
    let saved = bed.restore_map().await?.data.unwrap_or_default();
    ensure!(
        saved["workloads_apps.json"].contains("\"replicas\":5"),
        "{saved:?}"
    );
    bed.at(9).await;
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 5);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

/// Steps 6 and 7 themselves: a second shutdown that finds nothing running does not replace what was saved.
#[tokio::test(start_paused = true)]
async fn s26_a_second_shutdown_of_what_sleeps_keeps_the_point() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.plan(json!([target("apps", Value::Null)])).await?;
    let locked = Arc::new(AtomicBool::new(false));
    let operator = bed.operator_with(Tap::default(), executors(&locked)?);
    bed.at(2).await;
    locked.store(true, Ordering::Relaxed);
    // The whole day passes without a wake-up, and the next night begins.
    bed.at(7).await;
    let saved = bed.restore_map().await?.data.unwrap_or_default();
    ensure!(
        saved["workloads_apps.json"].contains("\"replicas\":3"),
        "{saved:?}"
    );
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    locked.store(false, Ordering::Relaxed);
    bed.at(9).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    operator.kill().await;
    bed.end().await;
    Ok(())
}
