//! The operator dies before and after every call that changes something, one after the other, and the next one goes
//! on: each time the morning is as the evening was. Every place is tried;
//! `cargo test -p sandbox --test hibernation -- kills:: --nocapture` prints them.

use crate::bed::{Bed, DEPLOYMENTS, MINUTE, PLAN, PLANS, STATEFUL_SETS, target};
use crate::trap::Trap;
use anyhow::{Context, Result, ensure};
use kube::api::DeleteParams;
use operator::hibernation::Executors;
use serde_json::json;

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

/// An operator that dies at the place of this number, then one that does not, while `live` happens.
async fn die_at(bed: &Bed, number: usize, live: impl Future<Output = Result<()>>) -> Result<Option<String>> {
    let trap = Trap::at(number);
    let doomed = bed.operator_with(trap.tap(), Executors::in_cluster());
    let taking_over = async {
        trap.sprung.notified().await;
        doomed.kill().await;
        let _next = bed.operator();
        std::future::pending::<Result<()>>().await
    };
    tokio::select! {
        lived = live => lived.with_context(|| format!("died {:?}", trap.place()))?,
        never = taking_over => never?,
    }
    Ok(trap.place())
}

#[tokio::test(start_paused = true)]
async fn s23_s39_s53_an_operator_may_die_anywhere_in_a_night() -> Result<()> {
    let mut places = Vec::new();
    for number in 1.. {
        let bed = namespace().await?;
        let place = die_at(&bed, number, async {
            bed.later(MINUTE * 20).await;
            ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
            ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0);
            bed.later(MINUTE * 30).await;
            ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
            ensure!(is_as_it_was(&bed).await?, "it is not as it was");
            Ok(())
        })
        .await?;
        bed.end().await;
        match place {
            Some(place) => places.push(place),
            None => break,
        }
    }
    enough(&places, 50)
}

/// Suspended at night, resumed by day: the forced wake-up happens, wherever the operator dies.
#[tokio::test(start_paused = true)]
async fn s53_an_operator_may_die_anywhere_in_a_forced_wake_up_and_a_deletion() -> Result<()> {
    let mut places = Vec::new();
    for number in 1.. {
        let bed = namespace().await?;
        let first = bed.operator();
        bed.later(MINUTE * 15).await;
        first.kill().await;
        let place = die_at(&bed, number, async {
            bed.annotate("hibernator.ardikabs.com/suspend", Some("true"))
                .await?;
            bed.later(MINUTE * 30).await;
            ensure!(bed.phase().await? == "Suspended", "{}", bed.phase().await?);
            bed.annotate("hibernator.ardikabs.com/suspend", None).await?;
            bed.later(MINUTE * 10).await;
            ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
            ensure!(is_as_it_was(&bed).await?, "it is not as it was");
            // And the next night the plan is deleted.
            bed.later(MINUTE * 20).await;
            bed.api(PLANS).delete("my-plan", &DeleteParams::default()).await?;
            bed.later(MINUTE * 10).await;
            ensure!(bed.api(PLANS).get_opt("my-plan").await?.is_none(), "it stays");
            ensure!(is_as_it_was(&bed).await?, "it was deleted, and something sleeps");
            Ok(())
        })
        .await?;
        bed.end().await;
        match place {
            Some(place) => places.push(place),
            None => break,
        }
    }
    enough(&places, 60)
}
