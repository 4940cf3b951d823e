//! The examples are not only admitted: one that is an exception is followed for a weekend.

use crate::bed::{Bed, DEPLOYMENTS, EXCEPTIONS, MINUTE, PLANS, STATEFUL_SETS};
use anyhow::{Context, Result, ensure};
use kube::api::PostParams;
use mainstay_core::time::Time;
use serde_json::Value;
use std::path::Path;

/// Applies a file of `examples/hibernation` as it is.
async fn apply(bed: &Bed, path: &str, file: &str) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hibernation");
    let text = std::fs::read_to_string(folder.join(file)).with_context(|| file.to_owned())?;
    let object = serde_saphyr::from_str(&text).with_context(|| file.to_owned())?;
    bed.api(path).create(&PostParams::default(), &object).await?;
    Ok(())
}

/// It is this time, and the operator has looked: it is told nothing when the clock is put forward.
async fn put_to(bed: &Bed, at: &str) -> Result<()> {
    let at: jiff::Timestamp = at.parse()?;
    let at = Time(u64::try_from(at.as_millisecond())?);
    ensure!(bed.clock.now() <= at, "that is over");
    // The last minutes pass, so that nobody is late because of the jump.
    bed.clock.jump((at - MINUTE * 12).since(bed.clock.now()));
    bed.later(at.since(bed.clock.now())).await;
    Ok(())
}

/// How many replicas, and whether the job rests; and what the plan says.
async fn shown(bed: &Bed) -> Result<(i64, i64, bool, String)> {
    let plan = bed.get(PLANS, "staging").await?;
    let phase = plan.data.pointer("/status/phase").and_then(Value::as_str);
    Ok((
        bed.replicas(DEPLOYMENTS, "web").await?,
        bed.replicas(STATEFUL_SETS, "db").await?,
        bed.suspended("report").await?,
        phase.unwrap_or_default().to_owned(),
    ))
}

/// `release-night.yaml`: no sleep from Friday 18:00 to Saturday 02:00 in Berlin, and `staging.yaml` sleeps from Friday
/// 20:00 to Monday 06:00 otherwise. It is winter there: an hour more than UTC.
#[tokio::test(start_paused = true)]
async fn the_release_night_is_awake_and_every_other_night_sleeps() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.workload(STATEFUL_SETS, "db", 2).await?;
    bed.cron_job("report", false).await?;
    apply(&bed, PLANS, "staging.yaml").await?;
    apply(&bed, EXCEPTIONS, "release-night.yaml").await?;
    let operator = bed.operator();
    let awake = (3, 2, false, "Active".to_owned());
    let asleep = (0, 0, true, "Hibernated".to_owned());
    let days = [
        // Thursday's night is as always.
        ("2026-11-19T18:55:00Z", &awake),
        ("2026-11-19T19:05:00Z", &asleep),
        ("2026-11-20T04:55:00Z", &asleep),
        ("2026-11-20T05:05:00Z", &awake),
        // Friday 20:00 is in the exception, and so is all until Saturday 02:00.
        ("2026-11-20T19:05:00Z", &awake),
        ("2026-11-21T00:55:00Z", &awake),
        // When it ends it is weekend: what the plan says counts at once.
        ("2026-11-21T01:05:00Z", &asleep),
        ("2026-11-22T12:00:00Z", &asleep),
        ("2026-11-23T04:55:00Z", &asleep),
        ("2026-11-23T05:05:00Z", &awake),
        // And the week after it is over.
        ("2026-11-27T18:55:00Z", &awake),
        ("2026-11-27T19:05:00Z", &asleep),
    ];
    for (at, expected) in days {
        put_to(&bed, at).await?;
        let shown = shown(&bed).await?;
        ensure!(shown == *expected, "{at}: {shown:?}, not {expected:?}");
    }
    // Only the nights that were slept are cycles.
    let plan: api::HibernatePlan =
        serde_json::from_value(serde_json::to_value(bed.get(PLANS, "staging").await?)?)?;
    let history = plan.status.unwrap_or_default().history;
    let began: Vec<&str> = history.iter().map(|cycle| cycle.began.as_str()).collect();
    ensure!(
        began == ["2026-11-19T19:00:00Z", "2026-11-21T01:00:00Z"],
        "{began:?}"
    );
    operator.kill().await;
    bed.end().await;
    Ok(())
}
