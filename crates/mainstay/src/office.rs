//! `mainstay switchover` and `mainstay override`: who is to be MAIN.
//!
//! Both are annotations of the cluster's object, read by the operator and decided by its rules. They are wishes of a
//! moment, so the command that wrote one takes it back when it came true, was waited for long enough, or is ended: left there,
//! it would move MAIN again after the next failover.

use crate::passing::while_wished;
use crate::wish::{Found, Way, find};
use anyhow::{Result, bail, ensure};
use api::MemgraphCluster;
use api::memgraph::MemgraphClusterStatus;
use api::memgraph::wishes::{OVERRIDE, SWITCHOVER};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often the status is read.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Args)]
pub(crate) struct SwitchoverArguments {
    /// The pod that is to be MAIN, such as memgraph-ha-1.
    pod: String,
    /// Give up after so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout: u32,
    #[command(flatten)]
    way: Way,
}

#[derive(Args)]
pub(crate) struct OverrideArguments {
    /// The pod that is to be MAIN, such as memgraph-ha-1.
    pod: String,
    /// What only other pods have is lost, and you accept it.
    #[arg(long)]
    accept_loss: bool,
    /// Give up after so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout: u32,
    #[command(flatten)]
    way: Way,
}

/// Moves MAIN.
pub(crate) fn switchover(arguments: SwitchoverArguments) -> ExitCode {
    let SwitchoverArguments { pod, timeout, way } = arguments;
    crate::run_to_end("switchover", wish(pod, SWITCHOVER, timeout, way))
}

/// Names the MAIN, whatever is lost.
pub(crate) fn overrule(arguments: OverrideArguments) -> ExitCode {
    let OverrideArguments {
        pod,
        accept_loss,
        timeout,
        way,
    } = arguments;
    crate::run_to_end("override", async move {
        ensure!(
            accept_loss || way.dry_run,
            "what only other pods have would be lost; say --accept-loss, after a look at `mainstay why`"
        );
        wish(pod, OVERRIDE, timeout, way).await
    })
}

async fn wish(pod: String, annotation: &'static str, timeout: u32, way: Way) -> Result<()> {
    let client = way.client().await?;
    let found = find(&client, way.place(), &pod).await?;
    ensure!(
        found.ordinal.is_authority(),
        "{pod} is never MAIN: only the pods 0 and 1 are"
    );
    let value = if annotation == OVERRIDE {
        let until = Timestamp::now() + SignedDuration::from_secs(i64::from(timeout));
        format!("{} until {until:.0}", found.ordinal.0)
    } else {
        found.ordinal.0.to_string()
    };
    if way.dry_run {
        way.say(&told(&found, annotation, &value, None))?;
        return Ok(());
    }
    let (api, name) = (found.api(&client), found.cluster.name_any());
    let came = follow(&api, &name, &pod, Duration::from_secs(u64::from(timeout)));
    let status = while_wished(&client, &found, (annotation, &value), came).await?;
    way.say(&told(&found, annotation, &value, Some(&status)))
}

/// Says why it is not there yet, until it is, or until it takes too long.
async fn follow(
    api: &Api<MemgraphCluster>,
    name: &str,
    pod: &str,
    longest: Duration,
) -> Result<MemgraphClusterStatus> {
    let late = Instant::now() + longest;
    let mut said = String::new();
    loop {
        let status = api.get(name).await?.status.unwrap_or_default();
        if serves(&status, pod) {
            return Ok(status);
        }
        let why = status.reasons.first().cloned().unwrap_or_default();
        if why != said {
            eprintln!("{why}");
            said = why;
        }
        if Instant::now() >= late {
            bail!(
                "{pod} is not MAIN after {} s, and it is not asked for any more; last: {said}",
                longest.as_secs()
            );
        }
        sleep(LOOK).await;
    }
}

/// Is it MAIN, and do writes go there?
fn serves(status: &MemgraphClusterStatus, pod: &str) -> bool {
    let open = status
        .conditions
        .iter()
        .any(|c| c.kind == "WritesOpen" && c.status == "True");
    open && status.target_main_pod.as_deref() == Some(pod)
}

fn told(found: &Found, annotation: &str, value: &str, status: Option<&MemgraphClusterStatus>) -> Value {
    let (pod, cluster) = (found.pod_name(), found.cluster.name_any());
    json!({
        "asked": if annotation == OVERRIDE { "override" } else { "switchover" },
        "pod": pod, "cluster": cluster, "namespace": found.cluster.namespace(),
        "annotation": annotation, "value": value, "dryRun": status.is_none(),
        "term": status.and_then(|s| s.term),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_came_true_when_the_pod_is_main_and_takes_writes() {
        let status = |open: &str, main: &str| -> MemgraphClusterStatus {
            serde_json::from_value(json!({
                "targetMainPod": main,
                "conditions": [{
                    "type": "WritesOpen", "status": open, "reason": "r", "message": "m",
                    "lastTransitionTime": "2026-11-16T04:00:00Z",
                }],
            }))
            .unwrap()
        };
        assert!(serves(&status("True", "memgraph-ha-1"), "memgraph-ha-1"));
        assert!(!serves(&status("False", "memgraph-ha-1"), "memgraph-ha-1"));
        assert!(!serves(&status("True", "memgraph-ha-0"), "memgraph-ha-1"));
        assert!(!serves(&MemgraphClusterStatus::default(), "memgraph-ha-1"));
    }
}
