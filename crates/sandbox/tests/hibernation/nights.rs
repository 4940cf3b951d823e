//! A night on which nothing goes wrong.

use crate::bed::{Bed, DEPLOYMENTS, HOUR, MINUTE, PLAN, PLANS, STATEFUL_SETS, nightly, target};
use anyhow::{Result, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};

/// A namespace with most of what there is, and a plan for all of it.
async fn namespace(bed: &Bed) -> Result<()> {
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.workload(DEPLOYMENTS, "idle", 0).await?;
    bed.workload(STATEFUL_SETS, "db", 2).await?;
    bed.cron_job("report", false).await?;
    bed.cron_job("old-report", true).await?;
    let targets = json!([
        target("apps", json!({ "includedGroups": ["Deployment", "CronJob"] })),
        target("stores", json!({ "includedGroups": ["StatefulSet"] })),
    ]);
    bed.plan(targets).await
}

async fn shown(bed: &Bed) -> Result<(i64, i64, i64, bool, bool)> {
    Ok((
        bed.replicas(DEPLOYMENTS, "web").await?,
        bed.replicas(DEPLOYMENTS, "idle").await?,
        bed.replicas(STATEFUL_SETS, "db").await?,
        bed.suspended("report").await?,
        bed.suspended("old-report").await?,
    ))
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_to_sleep_and_wakes_as_it_was_and_the_next_night_takes_new_truth() -> Result<()> {
    let bed = Bed::new().await?;
    namespace(&bed).await?;
    let operator = bed.operator();
    bed.until("Active").await?;
    let message = bed.hplan().await?.status.unwrap_or_default().message;
    ensure!(
        message.contains("Next: asleep at 2026-11-16T14:00:00Z (inside the window"),
        "{message}"
    );
    bed.at(2).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    ensure!(shown(&bed).await? == (0, 0, 0, true, true));
    let web = bed.get(DEPLOYMENTS, "web").await?;
    ensure!(web.annotations()["mainstay.dev/original-replicas"] == "3");
    ensure!(web.annotations()["mainstay.dev/hibernated-by"] == "my-plan 1");
    bed.at(4).await;
    ensure!(bed.phase().await? == "Active");
    ensure!(shown(&bed).await? == (3, 0, 2, false, true));
    let web = bed.get(DEPLOYMENTS, "web").await?;
    ensure!(!web.annotations().contains_key("mainstay.dev/original-replicas"));
    // s28: scaled by day, and that is what the next morning brings back.
    bed.scale("web", 6).await?;
    bed.at(7).await;
    ensure!(shown(&bed).await? == (0, 0, 0, true, true));
    bed.at(9).await;
    ensure!(shown(&bed).await? == (6, 0, 2, false, true));
    let status = bed.hplan().await?.status.unwrap_or_default();
    ensure!(status.history.len() == 2 && status.cycle == Some(2), "{status:?}");
    let events = bed.events().await?;
    for reason in ["FallAsleep", "Captured", "Hibernated", "WakeUp", "AllRestored"] {
        ensure!(
            events.iter().any(|e| e == reason),
            "no Event {reason}: {events:?}"
        );
    }
    operator.kill().await;
    bed.end().await;
    Ok(())
}

/// The order of a strategy is seen in the order of the writes.
#[tokio::test(start_paused = true)]
async fn s66_stages_go_down_in_order_and_come_up_in_the_reverse_order() -> Result<()> {
    let bed = Bed::new().await?;
    namespace(&bed).await?;
    let operator = bed.operator();
    let version = |object: &kube::api::DynamicObject| -> Result<u64> {
        Ok(object.resource_version().unwrap_or_default().parse()?)
    };
    // The first target does not get down: the second is not begun.
    bed.patch(
        DEPLOYMENTS,
        "web",
        json!({ "metadata": { "annotations": { "stuck": "yes" } } }),
    )
    .await?;
    bed.at(2).await;
    ensure!(bed.phase().await? == "Hibernating");
    ensure!(bed.replicas(STATEFUL_SETS, "db").await? == 2);
    bed.patch(
        DEPLOYMENTS,
        "web",
        json!({ "metadata": { "annotations": { "stuck": null } } }),
    )
    .await?;
    bed.later(MINUTE).await;
    ensure!(bed.phase().await? == "Hibernated");
    bed.at(4).await;
    let (web, db) = (
        bed.get(DEPLOYMENTS, "web").await?,
        bed.get(STATEFUL_SETS, "db").await?,
    );
    ensure!(
        version(&db)? < version(&web)?,
        "the last to go down is the first to come up"
    );
    operator.kill().await;
    bed.end().await;
    Ok(())
}

/// `a` and `b` go down before `c`, which comes up before them.
async fn three(strategy: &Value) -> Result<Bed> {
    let bed = Bed::new().await?;
    for name in ["a", "b", "c"] {
        bed.workload(DEPLOYMENTS, name, 1).await?;
    }
    let one = |name: &str| target(name, json!({ "names": [name] }));
    let targets = json!([one("a"), one("b"), one("c")]);
    let spec = json!({ "schedule": nightly(), "execution": { "strategy": strategy }, "targets": targets });
    bed.plan_with(PLAN, spec).await?;
    Ok(bed)
}

#[tokio::test(start_paused = true)]
async fn s63_s66_stages_and_dependencies_are_kept_down_and_up() -> Result<()> {
    let staged = json!({ "type": "Staged", "stages": [
        { "name": "front", "targets": ["a", "b"], "parallel": true },
        { "name": "back", "targets": ["c"] },
    ] });
    let dag =
        json!({ "type": "DAG", "dependencies": [{ "from": "a", "to": "c" }, { "from": "b", "to": "c" }] });
    for strategy in [staged, dag] {
        let bed = three(&strategy).await?;
        let stuck = |yes: Value| json!({ "metadata": { "annotations": { "stuck": yes } } });
        let shown = async || -> Result<(i64, i64, i64)> {
            Ok((
                bed.replicas(DEPLOYMENTS, "a").await?,
                bed.replicas(DEPLOYMENTS, "b").await?,
                bed.replicas(DEPLOYMENTS, "c").await?,
            ))
        };
        bed.patch(DEPLOYMENTS, "a", stuck(json!("yes"))).await?;
        let operator = bed.operator();
        bed.at(2).await;
        // `a` does not get down: that delays `c`, and not `b`.
        ensure!(shown().await? == (0, 0, 1), "{strategy}: {:?}", shown().await?);
        bed.patch(DEPLOYMENTS, "a", stuck(Value::Null)).await?;
        bed.later(MINUTE).await;
        ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
        bed.patch(DEPLOYMENTS, "c", stuck(json!("yes"))).await?;
        bed.at(4).await;
        ensure!(shown().await? == (0, 0, 1), "{strategy}: {:?}", shown().await?);
        bed.patch(DEPLOYMENTS, "c", stuck(Value::Null)).await?;
        bed.later(MINUTE).await;
        ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
        ensure!(shown().await? == (1, 1, 1));
        operator.kill().await;
        bed.end().await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_in_a_quiet_hour() -> Result<()> {
    let bed = Bed::new().await?;
    namespace(&bed).await?;
    let operator = bed.operator();
    bed.at(0).await;
    let before = bed.writes();
    bed.later(HOUR).await;
    ensure!(bed.writes() == before, "awake: {} writes", bed.writes() - before);
    bed.at(2).await;
    let before = bed.writes();
    bed.later(MINUTE * 50).await;
    ensure!(bed.writes() == before, "asleep: {} writes", bed.writes() - before);
    // Another operator takes over, and has nothing to write either.
    operator.kill().await;
    let next = bed.operator();
    bed.later(MINUTE * 50).await;
    ensure!(
        bed.writes() == before,
        "restarted: {} writes",
        bed.writes() - before
    );
    next.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s20_a_missed_edge_is_made_up_for() -> Result<()> {
    let bed = Bed::new().await?;
    namespace(&bed).await?;
    bed.at(3).await;
    let operator = bed.operator();
    bed.until("Hibernated").await?;
    // It was down in the morning, too.
    operator.kill().await;
    bed.at(6).await;
    ensure!(bed.phase().await? == "Hibernated");
    let next = bed.operator();
    bed.until("Active").await?;
    ensure!(shown(&bed).await? == (3, 0, 2, false, true));
    next.kill().await;
    bed.end().await;
    Ok(())
}

/// The clock jumps over a whole night: what should be is what counts.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_loses_nothing() -> Result<()> {
    let bed = Bed::new().await?;
    namespace(&bed).await?;
    let operator = bed.operator();
    bed.at(2).await;
    ensure!(bed.phase().await? == "Hibernated");
    bed.clock.jump(HOUR * 2);
    bed.later(MINUTE * 5).await;
    ensure!(bed.phase().await? == "Active");
    ensure!(shown(&bed).await? == (3, 0, 2, false, true));
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s10_a_plan_that_makes_no_sense_touches_nothing_and_says_why() -> Result<()> {
    let bed = Bed::new().await?;
    namespace(&bed).await?;
    let zone = json!({ "spec": { "schedule": { "timezone": "Europe/Bielefeld" } } });
    bed.patch(PLANS, "my-plan", zone).await?;
    let operator = bed.operator();
    bed.at(3).await;
    ensure!(bed.condition("Followed").await? == (false, "ScheduleInvalid".to_owned()));
    let message = bed.hplan().await?.status.unwrap_or_default().message;
    ensure!(
        message.contains("Europe/Bielefeld") && message.contains("nothing is touched"),
        "{message}"
    );
    let told = bed.events().await?;
    let told = told.iter().filter(|reason| *reason == "ScheduleInvalid");
    ensure!(told.count() == 1, "once, and not with each turn");
    ensure!(shown(&bed).await? == (3, 0, 2, false, true));
    // Repaired, it goes on at once; and spoiled while asleep it can still be deleted.
    bed.patch(
        PLANS,
        "my-plan",
        json!({ "spec": { "schedule": { "timezone": "UTC" } } }),
    )
    .await?;
    bed.until("Hibernated").await?;
    let zone = json!({ "spec": { "schedule": { "timezone": "Europe/Bielefeld" } } });
    bed.patch(PLANS, "my-plan", zone).await?;
    bed.later(MINUTE).await;
    ensure!(shown(&bed).await? == (0, 0, 0, true, true));
    bed.api(PLANS)
        .delete("my-plan", &kube::api::DeleteParams::default())
        .await?;
    bed.later(MINUTE * 2).await;
    ensure!(bed.api(PLANS).get_opt("my-plan").await?.is_none(), "it stays");
    ensure!(shown(&bed).await? == (3, 0, 2, false, true));
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s11_a_long_sleep_is_pointed_out() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 1).await?;
    let schedule = json!({ "timezone": "UTC", "intervals": [{ "from": "THU 20:00", "to": "MON 06:00" }] });
    let spec = json!({ "schedule": schedule, "targets": [target("apps", Value::Null)] });
    bed.plan_with("my-plan", spec).await?;
    let operator = bed.operator();
    bed.until("Active").await?;
    ensure!(bed.condition("LongSleep").await?.0);
    let long = bed.hplan().await?.status.unwrap_or_default().conditions;
    ensure!(
        long.iter()
            .any(|c| c.message.contains("82 hours, from Thu 2026-11-19 20:00")),
        "{long:?}"
    );
    operator.kill().await;
    bed.end().await;
    Ok(())
}
