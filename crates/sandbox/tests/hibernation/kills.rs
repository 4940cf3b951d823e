//! The operator dies before and after every call that changes something, one after the other, and the next one goes
//! on: each time the morning is as the evening was. Every place is tried;
//! `cargo test -p sandbox --test hibernation -- kills:: --nocapture` prints them.

use crate::bed::{Bed, DEPLOYMENTS, MINUTE, PLAN, PLANS, STATEFUL_SETS, target};
use crate::trap::Trap;
use anyhow::{Context, Result, ensure};
use kube::api::DeleteParams;
use operator::hibernation::Executors;
use serde_json::{Value, json};
use std::cell::Cell;

/// So many places there are at least.
fn enough(places: &[String], least: usize) -> Result<()> {
    eprintln!("died at {} places: {places:#?}", places.len());
    ensure!(places.len() >= least, "only {} places", places.len());
    Ok(())
}

async fn namespace() -> Result<Bed> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.workload(STATEFUL_SETS, "db", 2).await?;
    bed.cron_job("report", false).await?;
    let targets = json!([
        target("apps", json!({ "includedGroups": ["Deployment", "CronJob"] })),
        target("stores", json!({ "includedGroups": ["StatefulSet"] })),
    ]);
    // Two nights of half an hour.
    let night = |start: &str, end: &str| json!({ "start": start, "end": end, "daysOfWeek": ["MON"] });
    let schedule =
        json!({ "timezone": "UTC", "offHours": [night("12:10", "12:40"), night("13:10", "13:40")] });
    bed.plan_with(PLAN, json!({ "schedule": schedule, "targets": targets }))
        .await?;
    Ok(bed)
}

async fn is_as_it_was(bed: &Bed) -> Result<bool> {
    Ok(bed.replicas(DEPLOYMENTS, "web").await? == 3
        && bed.replicas(STATEFUL_SETS, "db").await? == 2
        && !bed.suspended("report").await?)
}

/// What became of it.
struct Died {
    /// Where; nowhere if there are not so many places.
    place: Option<String>,
    /// All that both did, in order.
    log: Vec<String>,
    /// So much of it was done by the one that died. What it had begun besides may have come to an end meanwhile.
    before: usize,
}

/// An operator that dies at the place of this number, then one that does not, while `live` happens.
async fn die_at(bed: &Bed, number: usize, live: impl Future<Output = Result<()>>) -> Result<Died> {
    let trap = Trap::at(number);
    let doomed = bed.operator_with(trap.tap(), Executors::in_cluster());
    let before = Cell::new(None);
    let taking_over = async {
        trap.sprung.notified().await;
        doomed.kill().await;
        before.set(Some(trap.places().len()));
        let _next = bed.operator_with(trap.tap(), Executors::in_cluster());
        std::future::pending::<Result<()>>().await
    };
    tokio::select! {
        lived = live => lived.with_context(|| format!("died {:?}", trap.place()))?,
        never = taking_over => never?,
    }
    let log = trap.places();
    Ok(Died {
        place: trap.place(),
        before: before.get().unwrap_or(log.len()),
        log,
    })
}

impl Died {
    /// How often a call was made.
    fn made(&self, call: &str) -> usize {
        let made = format!("after {call}");
        self.log.iter().filter(|place| **place == made).count()
    }

    /// Everything was stopped and started exactly so often: once more only if it was started, and whoever did it died
    /// before that was written down.
    fn exactly(&self, stopped: usize, started: usize) -> Result<()> {
        let before = self.log.get(..self.before).unwrap_or(&self.log);
        for resource in [
            "apps/v1/deployments/web",
            "apps/v1/statefulsets/db",
            "batch/v1/cronjobs/report",
        ] {
            let after = |what: &str| before.iter().rposition(|place| place == what);
            let last = after(&format!("after start {resource}"));
            let marked = after("after write ConfigMap 1 (MarkRestored)");
            let unknown = self.place.is_some() && last.is_some() && marked < last;
            let starts = self.made(&format!("start {resource}"));
            ensure!(
                starts == started + usize::from(unknown),
                "died {:?}: {resource} is started {starts} times: {:#?}",
                self.place,
                self.log
            );
            let stops = self.made(&format!("stop {resource}"));
            ensure!(
                stops == stopped,
                "died {:?}: {resource} is stopped {stops} times",
                self.place
            );
        }
        Ok(())
    }
}

/// Every restore point there is, is of this cycle, and says what ran.
async fn intact(bed: &Bed, cycle: u64) -> Result<()> {
    let data = bed.restore_map().await?.data.unwrap_or_default();
    let keys: Vec<&str> = data.keys().map(String::as_str).collect();
    ensure!(
        keys == ["workloads_apps.json", "workloads_stores.json"],
        "{keys:?}"
    );
    for (key, text) in &data {
        let point: Value = serde_json::from_str(text)?;
        let fits = point.get("cycle") == Some(&json!(cycle)) && point.get("isLive") == Some(&json!(true));
        ensure!(fits, "{key}: {text}");
    }
    Ok(())
}

/// So many cycles there were, all of them closed.
async fn cycles(bed: &Bed, count: u64) -> Result<()> {
    let status = bed.hplan().await?.status.unwrap_or_default();
    let closed: Vec<u64> = status.history.iter().map(|cycle| cycle.cycle).collect();
    let open = status.state.as_ref().and_then(|state| state.get("open"));
    let all: Vec<u64> = (1..=count).collect();
    ensure!(closed == all, "closed: {closed:?}");
    ensure!(open.is_none_or(Value::is_null), "{open:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s23_s39_s53_an_operator_may_die_anywhere_in_a_night() -> Result<()> {
    let mut places = Vec::new();
    for number in 1.. {
        let bed = namespace().await?;
        let died = die_at(&bed, number, async {
            bed.later(MINUTE * 20).await;
            ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
            ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0);
            intact(&bed, 1).await?;
            bed.later(MINUTE * 30).await;
            ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
            ensure!(is_as_it_was(&bed).await?, "it is not as it was");
            cycles(&bed, 1).await
        })
        .await?;
        bed.end().await;
        died.exactly(1, 1)?;
        match died.place {
            Some(place) => places.push(place),
            None => break,
        }
    }
    enough(&places, 50)
}

/// Suspended at night, resumed by day: the forced wake-up happens once, wherever the operator dies.
#[tokio::test(start_paused = true)]
async fn s53_an_operator_may_die_anywhere_in_a_forced_wake_up_and_a_deletion() -> Result<()> {
    let mut places = Vec::new();
    for number in 1.. {
        let bed = namespace().await?;
        let first = bed.operator();
        bed.later(MINUTE * 15).await;
        first.kill().await;
        let died = die_at(&bed, number, async {
            bed.annotate("hibernator.ardikabs.com/suspend", Some("true"))
                .await?;
            bed.later(MINUTE * 30).await;
            ensure!(bed.phase().await? == "Suspended", "{}", bed.phase().await?);
            bed.annotate("hibernator.ardikabs.com/suspend", None).await?;
            bed.later(MINUTE * 10).await;
            ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
            ensure!(is_as_it_was(&bed).await?, "it is not as it was");
            cycles(&bed, 1).await?;
            // And the next night the plan is deleted.
            bed.later(MINUTE * 20).await;
            intact(&bed, 2).await?;
            bed.api(PLANS).delete("my-plan", &DeleteParams::default()).await?;
            bed.later(MINUTE * 10).await;
            ensure!(bed.api(PLANS).get_opt("my-plan").await?.is_none(), "it stays");
            ensure!(is_as_it_was(&bed).await?, "it was deleted, and something sleeps");
            Ok(())
        })
        .await?;
        bed.end().await;
        // The first night was another one's.
        died.exactly(1, 2)?;
        match died.place {
            Some(place) => places.push(place),
            None => break,
        }
    }
    enough(&places, 60)
}
