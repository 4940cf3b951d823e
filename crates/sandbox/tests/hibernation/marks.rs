//! The mark that something was brought back, when somebody else writes the same ConfigMap in the same moment, again and
//! again.

use crate::bed::{Bed, DEPLOYMENTS, PLAN, target};
use anyhow::{Context, Result, ensure};
use api::HibernatePlan;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use operator::hibernation::Executors;
use operator::tap::Tap;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const POINT: &str = "workloads_apps.json";

/// What the API shows after a mark was to be written.
#[derive(Debug)]
struct Shown {
    phase: String,
    target: Option<String>,
    replicas: Option<i32>,
    message: String,
    consumed: bool,
    marked: bool,
}

/// Writes the ConfigMap before the operator can, as often as it has left. What it carries is then another version.
#[derive(Clone)]
struct Rival {
    client: Client,
    left: Arc<AtomicU32>,
    shown: UnboundedSender<Result<Shown>>,
}

impl Rival {
    fn new(bed: &Bed, times: u32) -> (Self, UnboundedReceiver<Result<Shown>>) {
        let (shown, seen) = unbounded_channel();
        let rival = Self {
            client: bed.client.clone(),
            left: Arc::new(AtomicU32::new(times)),
            shown,
        };
        (rival, seen)
    }

    fn tap(&self) -> Tap {
        let rival = self.clone();
        Tap::new(move |place| {
            let before = place.starts_with("before");
            let mark = place.ends_with("(MarkRestored)");
            let rival = rival.clone();
            Box::pin(async move {
                if mark && before {
                    rival.write().await;
                } else if mark {
                    let looked = rival.look().await;
                    let _ = rival.shown.send(looked);
                    rival.scale().await;
                }
            })
        })
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }

    async fn write(&self) {
        let one_less = |left: u32| left.checked_sub(1);
        let Ok(left) = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
        else {
            return;
        };
        let patch = Patch::Merge(json!({ "metadata": { "labels": { "left": left.to_string() } } }));
        let name = format!("hibernator-restore-{PLAN}");
        let written = self.maps().patch(&name, &PatchParams::default(), &patch).await;
        if let Err(error) = written {
            let _ = self.shown.send(Err(error.into()));
        }
    }

    /// An autoscaler goes on with what was woken: nobody may undo that while the mark is written.
    async fn scale(&self) {
        let patch = Patch::Merge(json!({ "spec": { "replicas": 4 } }));
        let api: Api<Deployment> = Api::default_namespaced(self.client.clone());
        if let Err(error) = api.patch("web", &PatchParams::default(), &patch).await {
            let _ = self.shown.send(Err(error.into()));
        }
    }

    async fn look(&self) -> Result<Shown> {
        let plans: Api<HibernatePlan> = Api::default_namespaced(self.client.clone());
        let status = plans.get(PLAN).await?.status.context("no status")?;
        let web: Api<Deployment> = Api::default_namespaced(self.client.clone());
        let replicas = web.get("web").await?.spec.and_then(|spec| spec.replicas);
        let map = self.maps().get(&format!("hibernator-restore-{PLAN}")).await?;
        let data = map.data.unwrap_or_default();
        let point: Value = serde_json::from_str(data.get(POINT).context("no point")?)?;
        let marks = map.metadata.annotations.unwrap_or_default();
        Ok(Shown {
            phase: status.phase.unwrap_or_default(),
            target: status.targets.first().map(|t| t.state.clone()),
            replicas,
            message: status.message,
            consumed: point.get("consumed") == Some(&json!(true)),
            marked: marks.keys().any(|key| key.contains("/restored-")),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn s36_a_mark_that_conflicts_five_times_is_written_again_and_nothing_is_called_done_before()
-> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.plan(json!([target("apps", Value::Null)])).await?;
    let (rival, mut seen) = Rival::new(&bed, 5);
    let operator = bed.operator_with(rival.tap(), Executors::in_cluster());
    bed.at(2).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    ensure!(
        seen.try_recv().is_err(),
        "nothing is marked while it falls asleep"
    );
    bed.at(4).await;
    let mut shown = Vec::new();
    while let Ok(one) = seen.try_recv() {
        shown.push(one?);
    }
    ensure!(rival.left.load(Ordering::SeqCst) == 0, "{shown:?}");
    ensure!(shown.len() >= 6, "five conflicts and one that holds: {shown:?}");
    let (refused, held) = shown.split_at(5);
    for (round, one) in refused.iter().enumerate() {
        ensure!(!one.consumed && !one.marked, "{round}: {one:?}");
        let goes_on = one.phase == "WakingUp" && one.target.as_deref() == Some("Running");
        ensure!(goes_on, "{round}: nothing of it is done: {one:?}");
    }
    let sizes: Vec<Option<i32>> = shown.iter().map(|one| one.replicas).collect();
    ensure!(
        sizes.iter().skip(1).all(|size| *size == Some(4)),
        "woken once, and left alone after that: {sizes:?}"
    );
    // From the second time on people can read why it is not done.
    let told = "failed to mark target as restored";
    ensure!(
        refused.iter().skip(1).any(|one| one.message.contains(told)),
        "{refused:?}"
    );
    ensure!(held.iter().any(|one| one.consumed && one.marked), "{held:?}");
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    let replicas = bed.replicas(DEPLOYMENTS, "web").await?;
    ensure!(replicas == 4, "{replicas}: what was made of it since is undone");
    let status = bed.hplan().await?.status.unwrap_or_default();
    ensure!(status.history.len() == 1, "{status:?}");
    let failed = bed.events().await?.iter().filter(|e| *e == "TurnFailed").count();
    ensure!(failed > 0, "nobody was told");
    operator.kill().await;
    bed.end().await;
    Ok(())
}
