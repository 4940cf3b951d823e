//! A pod that restarted, then took more commits, and then becomes MAIN calls everybody diverged, with the same data in
//! all of them: the commonest `Error: 3` on Kubernetes, and a false one.

use crate::bed::{Bed, NAME};
use anyhow::{Context, Result, ensure};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::record::State;
use mainstay_core::memgraph::rules::{Rule, Rules};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_mins(3);

fn protected_by(record: &Record, main: u8, sync: u8) -> bool {
    record.state == State::Serving
        && record.main.as_ref().is_some_and(|m| m.pod == Ordinal(main))
        && record.sync.is_some_and(|s| s.pod == Ordinal(sync))
}

/// What the operator gave as reasons, as often as one looked, until the record was so. Nobody may be asked to wipe
/// anything meanwhile.
async fn reasons_until(bed: &Bed, what: &str, fits: impl Fn(&Record) -> bool) -> Result<BTreeSet<String>> {
    let deadline = Instant::now() + PATIENCE;
    let mut said = BTreeSet::new();
    loop {
        let record = bed.record().await?.context("no record")?;
        ensure!(
            record.reset.is_none(),
            "a reset of a good copy was asked for: {record:#?}"
        );
        let status = bed.clusters().get(NAME).await?.status.unwrap_or_default();
        said.extend(status.reasons);
        said.extend(status.history.into_iter().map(|term| term.why));
        if fits(&record) {
            return Ok(said);
        }
        ensure!(Instant::now() < deadline, "the cluster is not {what}: {said:#?}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The SYNC replica restarts, MAIN takes writes, MAIN is lost, and its successor is the one that restarted.
async fn restart_writes_failover(rules: Rules) -> Result<BTreeSet<String>> {
    let bed = Bed::new().await?;
    bed.create(3).await?;
    let operator = bed.operator_without(rules).await?;
    bed.until("protected", |r| protected_by(r, 0, 1)).await?;
    bed.write(0, "Written").await?;
    let before = bed.until("protected", |r| protected_by(r, 0, 1)).await?;
    let restarted = before.sync.context("no SYNC")?.process;
    bed.nodes.kill(&Bed::party(1), None)?;
    bed.until("protected by the process that restarted", |r| {
        protected_by(r, 0, 1) && r.sync.is_some_and(|s| s.process != restarted)
    })
    .await?;
    let mut written = 0;
    for _ in 0..20 {
        written = bed.write(0, "Written").await?;
    }
    bed.nodes.kill(&Bed::party(0), None)?;
    let said = reasons_until(&bed, "protected with pod 1 as MAIN", |r| protected_by(r, 1, 0)).await?;
    for pod in [0, 1, 2] {
        let deadline = Instant::now() + PATIENCE;
        while bed.count(pod, "Written").await.unwrap_or(-1) != written {
            ensure!(Instant::now() < deadline, "pod {pod} lacks what was acknowledged");
            sleep(Duration::from_millis(50)).await;
        }
    }
    operator.stop().await?;
    bed.end().await?;
    Ok(said)
}

fn cured(said: &BTreeSet<String>) -> bool {
    said.iter().any(|reason| reason.contains("R26"))
}

#[tokio::test(flavor = "multi_thread")]
async fn with_r25_a_failover_to_a_pod_that_restarted_accuses_nobody() -> Result<()> {
    let said = restart_writes_failover(Rules::ALL).await?;
    ensure!(
        said.iter()
            .any(|reason| reason.starts_with("[RENEW] pod-1") || reason == "RENEW"),
        "an epoch was begun: {said:#?}"
    );
    ensure!(!cured(&said), "{said:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_r25_the_false_accusation_is_cured_by_r26_and_nobody_is_wiped() -> Result<()> {
    let said = restart_writes_failover(Rules::ALL.without(Rule::R25)).await?;
    ensure!(cured(&said), "nothing was to be cured: {said:#?}");
    Ok(())
}
