//! S84: a plan puts a ring to sleep. Its members are drained, nothing is replaced and nobody is alarmed while it sleeps,
//! and it wakes as it was.

use super::bed::{Bed, MEMBERS, NAME, is_whole};
use super::says;
use anyhow::{Context, Result, bail, ensure};
use api::HibernatePlan;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use operator::tap::Tap;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Every call that changes something, in order.
type Calls = Arc<Mutex<Vec<String>>>;

fn listening(calls: &Calls) -> Tap {
    let calls = Arc::clone(calls);
    Tap::new(move |place| {
        calls.lock().unwrap().push(place.to_owned());
        Box::pin(std::future::ready(()))
    })
}

async fn until_phase(plans: &Api<HibernatePlan>, phase: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_mins(3);
    loop {
        let status = plans.get("nights").await?.status.unwrap_or_default();
        if status.phase.as_deref() == Some(phase) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "not {phase}: {status:#?}");
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s84_a_plan_puts_a_ring_to_sleep_and_it_wakes_as_it_was() -> Result<()> {
    let (bed, operator) = Bed::whole().await?;
    operator.stop().await?;
    let calls = Calls::default();
    let operator = bed.operator(listening(&calls)).await?;
    let before = bed.ledger().await?;
    let mut records = Vec::new();
    for member in MEMBERS {
        let name = format!("{member}-autoreplacement-config");
        records.push(bed.maps().get(&name).await?.uid().context("no uid")?);
    }
    let plans: Api<HibernatePlan> = Api::default_namespaced(bed.client.clone());
    let now = jiff::Timestamp::now();
    let (from, until) = (now - Duration::from_mins(1), now + Duration::from_hours(1));
    let plan = json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "HibernatePlan",
        "metadata": {
            "name": "nights",
            "annotations": { "mainstay.dev/override": format!("asleep {from:.0} {until:.0} a test") },
        },
        "spec": {
            // Never by itself: the wish alone counts here.
            "schedule": { "timezone": "UTC", "intervals": [], "offHours": [], "holidays": [{ "date": "2020-01-01" }] },
            "targets": [{ "name": "rings", "executor": "ring", "parameters": { "names": [NAME] } }],
        },
    });
    plans
        .create(&PostParams::default(), &serde_json::from_value(plan)?)
        .await?;
    let asleep = bed.until("asleep", |s| {
        assert_eq!(says(s, "StorageLost"), None, "nobody is alarmed");
        says(s, "Hibernated").is_some()
    });
    if let Err(error) = asleep.await {
        let plan = plans.get("nights").await?;
        bail!("{error}\n{:#?}\n{:#?}", plan.status, calls.lock().unwrap());
    }
    let pods = bed.pods().list(&ListParams::default()).await?.items;
    ensure!(pods.is_empty(), "{} pods are left", pods.len());
    until_phase(&plans, "Hibernated").await?;
    let drained: Vec<String> = {
        let all = calls.lock().unwrap();
        let mut drains: Vec<String> = all
            .iter()
            .filter(|c| c.starts_with("after") && c.contains(": drain"))
            .cloned()
            .collect();
        drains.dedup();
        drains
    };
    ensure!(drained.len() == 3, "{drained:?}");
    ensure!(
        drained[2].contains("ring-a-0"),
        "the first member is the last: {drained:?}"
    );
    // Longer than anything that would make a member look lost by day.
    for _ in 0..8 {
        sleep(Duration::from_secs(1)).await;
        let status = bed.status().await?;
        for kind in ["StorageLost", "ReplacementHeld", "ReplacementFailed"] {
            ensure!(says(&status, kind).is_none(), "{kind}: {status:#?}");
        }
    }
    let asleep = bed.ledger().await?;
    ensure!(asleep.known == before.known && asleep.grants == before.grants && asleep.work.is_none());

    let wake = Patch::Merge(json!({ "metadata": { "annotations": { "mainstay.dev/override": null } } }));
    plans.patch("nights", &PatchParams::default(), &wake).await?;
    bed.until("whole again", |s| is_whole(s, 3)).await?;
    until_phase(&plans, "Active").await?;
    let after = bed.ledger().await?;
    ensure!(
        after.known == before.known && after.grants == before.grants,
        "{after:#?}"
    );
    ensure!(bed.status().await?.replacements.is_empty());
    for (member, uid) in MEMBERS.iter().zip(&records) {
        let rows = bed.admin(member, "GET", "/rows").await?;
        ensure!(rows.as_array().map_or(0, Vec::len) == 20, "{member}: {rows}");
        let name = format!("{member}-autoreplacement-config");
        ensure!(
            bed.maps().get(&name).await?.uid().as_ref() == Some(uid),
            "{name} was made anew"
        );
    }
    operator.stop().await?;
    bed.end().await
}
