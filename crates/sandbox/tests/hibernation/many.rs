//! A thousand plans.

use crate::bed::{Bed, HOUR, NOON, PLANS, kind, nightly};
use anyhow::{Context, Result, ensure};
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};

/// So many plans there are, in so many namespaces.
const PLAN_COUNT: u64 = 1000;
const NAMESPACES: u64 = 100;

#[tokio::test(start_paused = true)]
#[ignore = "a thousand plans for three virtual hours are minutes of CPU without optimisation: run it by name, with --release"]
async fn a_thousand_plans_are_quiet_when_nothing_happens_and_on_time_when_it_does() -> Result<()> {
    let bed = Bed::new().await?;
    let namespaces: Api<DynamicObject> = Api::all_with(bed.client.clone(), &kind("namespaces"));
    let create = async |api: &Api<DynamicObject>, object: Value| -> Result<()> {
        let object = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await?;
        Ok(())
    };
    for number in 0..NAMESPACES {
        let name = format!("team-{number}");
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        create(&namespaces, object).await?;
    }
    for number in 0..PLAN_COUNT {
        let namespace = format!("team-{}", number % NAMESPACES);
        let api: Api<DynamicObject> = Api::namespaced_with(bed.client.clone(), &namespace, &kind(PLANS));
        let spec = json!({ "schedule": nightly(), "targets": [{ "name": "x", "executor": "noop" }] });
        let metadata = json!({ "name": format!("plan-{number}"), "namespace": namespace });
        let object = json!({ "apiVersion": "mainstay.dev/v1alpha1", "kind": "HibernatePlan", "metadata": metadata, "spec": spec });
        create(&api, object).await?;
    }
    let operator = bed.operator();
    bed.at(0).await;
    let before = bed.writes();
    bed.later(HOUR).await;
    ensure!(
        bed.writes() == before,
        "{} writes in a quiet hour",
        bed.writes() - before
    );
    bed.at(2).await;
    let plans: Api<DynamicObject> = Api::all_with(bed.client.clone(), &kind(PLANS));
    for plan in plans.list(&ListParams::default()).await?.items {
        let phase = plan.data.pointer("/status/phase").cloned();
        ensure!(phase == Some(json!("Hibernated")), "{phase:?}: {}", plan.data);
    }
    let late = stopped_late(&bed).await?;
    let p99 = late.get(late.len() * 99 / 100).copied().context("nobody")?;
    eprintln!(
        "{} plans stopped what they have to stop, p99 {p99} ms late, the last {:?} ms",
        late.len(),
        late.last()
    );
    ensure!(late.len() as u64 == PLAN_COUNT && p99 < 1000, "p99 is {p99} ms");
    // Asleep each is looked at every minute, and there is nothing to write about it.
    let before = bed.writes();
    bed.later(HOUR).await;
    ensure!(
        bed.writes() == before,
        "{} writes in a quiet hour of the night",
        bed.writes() - before
    );
    operator.kill().await;
    bed.end().await;
    Ok(())
}

/// How late the stop of every plan was, in milliseconds: the executor `noop` writes down when it was asked.
async fn stopped_late(bed: &Bed) -> Result<Vec<u64>> {
    let maps: Api<DynamicObject> = Api::all_with(bed.client.clone(), &kind("configmaps"));
    let mut late: Vec<u64> = Vec::new();
    for map in maps.list(&ListParams::default()).await?.items {
        let Some(text) = map.data.pointer("/data/x").and_then(Value::as_str) else {
            continue;
        };
        let asked: Value = serde_json::from_str(text)?;
        let once = asked.get("up") == Some(&json!(false)) && asked.get("changes") == Some(&json!(1));
        ensure!(once, "{asked}");
        let at = asked.get("at").and_then(Value::as_u64).context("no time")?;
        late.push(at.saturating_sub((NOON + HOUR * 2).0));
    }
    late.sort_unstable();
    Ok(late)
}
