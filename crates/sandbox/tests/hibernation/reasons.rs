//! What is decided about restore data is said three times: by an Event, by a metric and by the status. And the seed's
//! metrics, as whoever collects them reads them.

use crate::attended::Attended;
use crate::bed::{Bed, DEPLOYMENTS, PLAN, PLANS, nightly, target};
use crate::story::executors;
use crate::watched::watched;
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use operator::hibernation::Executors;
use operator::tap::Tap;
use sandbox::kube::Kubernetes;
use sandbox::kube::faults::{Fault, On};
use serde_json::{Value, json};
use sim::kube::Method;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinHandle;

const SUSPEND: &str = "hibernator.ardikabs.com/suspend";

/// Every line that the status of a plan ever had among its reasons.
struct Lines {
    said: Arc<Mutex<BTreeSet<String>>>,
    task: JoinHandle<Result<()>>,
}

impl Lines {
    fn of(bed: &Bed) -> Self {
        let said: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let note = {
            let said = Arc::clone(&said);
            move |plan: &DynamicObject| {
                let lines = plan.data.pointer("/status/reasons").and_then(Value::as_array);
                let lines = lines.into_iter().flatten().filter_map(Value::as_str);
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                said.extend(lines.map(str::to_owned));
            }
        };
        let task = tokio::spawn(watched(bed.api(PLANS), note));
        Self { said, task }
    }

    fn end(self) -> Result<BTreeSet<String>> {
        ensure!(!self.task.is_finished(), "nobody has watched");
        self.task.abort();
        Ok(self.said.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Everything that Events said: the reason, and the words.
async fn told(bed: &Bed) -> Result<Vec<(String, String)>> {
    let events: Api<Event> = Api::default_namespaced(bed.client.clone());
    let all = events.list(&ListParams::default()).await?.items.into_iter();
    Ok(all
        .map(|event| {
            (
                event.reason.unwrap_or_default(),
                event.message.unwrap_or_default(),
            )
        })
        .collect())
}

/// What is said of it: by an Event of this reason with these words, by a metric that is so high, and by a line of the
/// status with the same words.
struct Said {
    reason: &'static str,
    words: &'static str,
    metric: &'static str,
    least: u64,
}

/// The five, in the order in which they happen below.
const FIVE: [(&str, Said); 5] = [
    (
        "skip",
        Said {
            reason: "Skipped",
            words: "`apps/v1/deployments/precious` is left alone",
            metric: r#"mainstay_hibernation_reasons_total{reason="Skipped"}"#,
            least: 1,
        },
    ),
    (
        "replace",
        Said {
            reason: "Captured",
            words: "restore point of `apps`: 0 saved, 1 upgraded, 0 preserved",
            metric: r#"hibernator_save_decisions_total{decision="upgraded"}"#,
            least: 1,
        },
    ),
    (
        "preserve",
        Said {
            reason: "Captured",
            words: "restore point of `apps`: 0 saved, 0 upgraded, 2 preserved",
            metric: r#"hibernator_save_decisions_total{decision="preserved"}"#,
            least: 2,
        },
    ),
    (
        "force",
        Said {
            reason: "ForcedWakeUp",
            words: "forcing wake-up after unsuspend",
            metric: r#"mainstay_hibernation_reasons_total{reason="ForcedWakeUp"}"#,
            least: 1,
        },
    ),
    (
        "unlock",
        Said {
            reason: "Unlocked",
            words: "restore data is unlocked",
            metric: r#"mainstay_hibernation_reasons_total{reason="Unlocked"}"#,
            least: 1,
        },
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn s85_each_skip_replace_preserve_force_and_unlock_has_an_event_a_metric_and_a_line() -> Result<()> {
    let bed = Bed::new().await?;
    for (name, replicas) in [("web", 3), ("idle", 0), ("precious", 1)] {
        bed.workload(DEPLOYMENTS, name, replicas).await?;
    }
    let label = json!({ "metadata": { "labels": { "mainstay.dev/protected": "true" } } });
    bed.patch(DEPLOYMENTS, "precious", label).await?;
    let apps = json!({ "name": "apps", "executor": "workloads", "drift": "Enforce" });
    let spec = json!({ "schedule": nightly(), "targets": [apps] });
    bed.plan_with(PLAN, spec).await?;
    let lines = Lines::of(&bed);
    let locked = Arc::new(AtomicBool::new(false));
    let operator = Attended::of(&bed, Tap::default(), executors(&locked)?).await?;
    bed.until_phase("Active").await?;
    // The first night leaves out what is protected.
    bed.put_to(2, "Hibernated").await?;
    // What did not run in the evening runs now: it takes the place of what was recorded.
    bed.scale("idle", 2).await?;
    bed.touch().await?;
    bed.until_replicas("idle", 0).await?;
    // Nothing can be woken all day, and the second night finds everything asleep: what was recorded stays.
    locked.store(true, Ordering::Relaxed);
    bed.put_to(4, "Error").await?;
    bed.put_to(7, "Hibernated").await?;
    // Suspended at night, resumed by day: the wake-up is forced, and all is unlocked after it.
    bed.annotate(SUSPEND, Some("true")).await?;
    bed.until_phase("Suspended").await?;
    locked.store(false, Ordering::Relaxed);
    bed.put_to(9, "Suspended").await?;
    bed.annotate(SUSPEND, None).await?;
    bed.until_phase("Active").await?;
    bed.until_replicas("web", 3).await?;
    bed.until_replicas("idle", 2).await?;
    for (what, said) in &FIVE {
        let counted = operator.until_counted(said.metric, said.least).await;
        counted.map_err(|error| error.context(format!("{what}: no metric")))?;
    }
    // A turn is counted when its status and its Events are written.
    let (lines, told) = (lines.end()?, told(&bed).await?);
    for (what, said) in &FIVE {
        let of_it = |(reason, words): &(String, String)| reason == said.reason && words.contains(said.words);
        ensure!(told.iter().any(of_it), "{what}: no Event in {told:#?}");
        let line = lines.iter().any(|line| line.contains(said.words));
        ensure!(line, "{what}: no line in {lines:#?}, but {told:#?}");
    }
    operator.stop().await?;
    bed.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s45_what_was_deleted_at_night_is_left_out_with_a_reason_and_counted_once() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.workload(DEPLOYMENTS, "api", 2).await?;
    bed.plan(json!([target("apps", Value::Null)])).await?;
    let operator = Attended::of(&bed, Tap::default(), Executors::in_cluster()).await?;
    bed.until_phase("Active").await?;
    bed.put_to(2, "Hibernated").await?;
    bed.api(DEPLOYMENTS)
        .delete("web", &DeleteParams::default())
        .await?;
    bed.put_to(4, "Active").await?;
    let counted = r#"mainstay_hibernation_reasons_total{reason="Vanished"}"#;
    operator.until_counted(counted, 1).await?;
    bed.until_replicas("api", 2).await?;
    // A few turns more, and it is not counted again.
    bed.put_to(5, "Active").await?;
    ensure!(operator.metric(counted).await? == Some(1));
    let words = "`apps`: `apps/v1/deployments/web` is not there any more and left out";
    let told = told(&bed).await?;
    let vanished: Vec<&str> = told
        .iter()
        .filter(|(reason, _)| reason == "Vanished")
        .map(|(_, words)| words.as_str())
        .collect();
    ensure!(
        matches!(vanished.as_slice(), [one] if one.contains(words)),
        "{vanished:?}"
    );
    operator.stop().await?;
    bed.end().await;
    Ok(())
}

/// Refuses the first attempt to unlock.
fn refuse_an_unlock(kubernetes: &Kubernetes) -> Tap {
    let (kubernetes, refused) = (kubernetes.clone(), AtomicBool::new(false));
    Tap::new(move |place| {
        let unlock = place.starts_with("before") && place.ends_with("(Unlock)");
        if unlock && !refused.swap(true, Ordering::SeqCst) {
            let write = On::path("/configmaps/hibernator-restore-").method(Method::Put);
            kubernetes.faults().inject(Fault::ServerError, write.times(1));
        }
        Box::pin(std::future::ready(()))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn s86_the_seeds_metrics_are_read_over_http() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.workload(DEPLOYMENTS, "idle", 0).await?;
    let one = |name: &str| target(name, json!({ "names": [name] }));
    bed.plan(json!([one("web"), one("idle")])).await?;
    let operator = Attended::of(&bed, refuse_an_unlock(&bed.kubernetes), Executors::in_cluster()).await?;
    bed.until_phase("Active").await?;
    let (live, dead) = (
        r#"hibernator_restore_points{live="true"}"#,
        r#"hibernator_restore_points{live="false"}"#,
    );
    let decided = |decision: &str| format!(r#"hibernator_save_decisions_total{{decision="{decision}"}}"#);
    let forced = "hibernator_forced_wakeups_total";
    let (done, failed) = (
        r#"hibernator_unlocks_total{result="done"}"#,
        r#"hibernator_unlocks_total{result="failed"}"#,
    );
    // Each is there before anything happens: a rate needs where it begins.
    let (saved, upgraded, preserved) = (decided("saved"), decided("upgraded"), decided("preserved"));
    let all = [
        live,
        dead,
        saved.as_str(),
        upgraded.as_str(),
        preserved.as_str(),
        forced,
        done,
        failed,
    ];
    for name in all {
        ensure!(operator.metric(name).await? == Some(0), "{name}");
    }
    // The quality ratio, and what was saved.
    bed.put_to(2, "Hibernated").await?;
    operator.until_counted(live, 1).await?;
    operator.until_counted(dead, 1).await?;
    operator.until_counted(&saved, 2).await?;
    // A forced wake-up, and a cycle that is closed at the second attempt.
    bed.annotate(SUSPEND, Some("true")).await?;
    bed.until_phase("Suspended").await?;
    bed.put_to(4, "Suspended").await?;
    bed.annotate(SUSPEND, None).await?;
    bed.until_phase("Active").await?;
    operator.until_counted(forced, 1).await?;
    operator.until_counted(failed, 1).await?;
    operator.until_counted(done, 1).await?;
    for (name, value) in [(live, 1), (dead, 1), (&saved, 2), (&upgraded, 0), (&preserved, 0)] {
        ensure!(operator.metric(name).await? == Some(value), "{name}");
    }
    for name in [forced, done, failed] {
        ensure!(operator.metric(name).await? == Some(1), "{name}");
    }
    operator.stop().await?;
    bed.end().await;
    Ok(())
}
