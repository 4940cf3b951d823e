//! MAIN and the operator that leads are lost in one moment, as on a node that loses its power.

use crate::bed::{Whole, protected, serves};
use crate::load::Load;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(20);
/// A lease that nobody renews, and a failover after it.
const BOUND: Duration = Duration::from_mins(1);

/// memgraph-controller stayed dark until the node was back: its new leader asked the dead MAIN first, again and again.
/// Here the other operator has to lead, has never seen MAIN fail, and both of the lost ones say nothing until the end.
#[tokio::test(flavor = "multi_thread")]
async fn main_and_the_operator_that_leads_fall_silent_together() -> Result<()> {
    let whole = Whole::start().await?;
    let leases: Api<Lease> = Api::namespaced(whole.client.clone(), "default");
    let holder = || async {
        let spec = leases.get("mainstay-operator").await?.spec;
        spec.and_then(|spec| spec.holder_identity)
            .filter(|holder| !holder.is_empty())
            .context("nobody leads")
    };
    let leader = holder().await?;
    let operators = whole.named("mainstay-operator").await?;
    let pod = operators.iter().find(|pod| leader.starts_with(pod.as_str()));
    let pod = pod.with_context(|| format!("`{leader}` is none of {operators:?}"))?;
    let load = Load::start(whole.bolt, 2, EVERY);
    let began = Instant::now();
    for lost in ["memgraph-ha-0", pod.as_str()] {
        whole.control(json!({ "do": "isolate", "pod": lost })).await?;
    }
    whole.until("served by pod 1", |record| serves(record, 1)).await?;
    let took = began.elapsed();
    ensure!(took < BOUND, "pod 1 served after {took:?}");
    ensure!(holder().await? != leader, "the lost operator still leads");
    whole.control(json!({ "do": "mend" })).await?;
    whole
        .until("served by pod 1 and protected", |record| {
            serves(record, 1) && protected(record)
        })
        .await?;
    let heard = load.end().await?;
    eprintln!("MAIN and leader lost, {}", heard.told(began.elapsed()));
    heard.is_kept(&whole, 1).await?;
    whole.end().await
}
