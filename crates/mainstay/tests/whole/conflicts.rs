//! The conflict scenarios of the seeds, by their names, on real processes and under load.

use crate::bed::{Whole, protected, serves};
use crate::load::Load;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const EVERY: Duration = Duration::from_millis(20);

/// "Controller loses connection to MAIN but MAIN can reach replicas": while a gateway still hears MAIN nobody is
/// promoted and writes go on. When nobody hears it, the other one serves, and the old one can acknowledge nothing.
#[tokio::test(flavor = "multi_thread")]
async fn network_partition() -> Result<()> {
    let whole = Whole::start().await?;
    let before = whole.document().await?.record;
    ensure!(serves(&before, 0), "{before:?}");
    let load = Load::start(whole.bolt, 2, EVERY);
    let operators = whole.named("mainstay-operator").await?;
    for operator in &operators {
        whole
            .control(json!({ "do": "part", "one": operator, "other": "memgraph-ha-0" }))
            .await?;
    }
    sleep(Duration::from_secs(8)).await;
    let during = whole.document().await?.record;
    ensure!(
        during.term == before.term,
        "a MAIN that clients still reach was replaced: {during:?}"
    );
    // In the middle of writes: from 3.12 a replica refuses its promotion while a transaction of MAIN is prepared, and
    // its process is ended for it (R37).
    whole
        .control(json!({ "do": "isolate", "pod": "memgraph-ha-0" }))
        .await?;
    whole.until("served by pod 1", |record| serves(record, 1)).await?;
    // From outside, past the gateways: whoever does that is not told that it is written.
    let direct = timeout(
        Duration::from_secs(45),
        whole.ask(0, "CREATE (:Numbered {n: -1})"),
    );
    ensure!(
        !matches!(direct.await, Ok(Ok(_))),
        "the old MAIN acknowledged a write"
    );
    whole.control(json!({ "do": "mend" })).await?;
    whole
        .until("served by pod 1 and protected", |record| {
            serves(record, 1) && protected(record)
        })
        .await?;
    let heard = load.end().await?;
    eprintln!("through the cut, {}", heard.told(Duration::from_secs(8)));
    heard.is_kept(&whole, 1).await?;
    whole.end().await
}

/// Kills whoever is MAIN on record. With two leaders its process may be on its way up at that moment, or its pod another
/// one's to restart.
async fn kill_main(whole: &Whole) -> Result<()> {
    let mut tries = 0;
    loop {
        let main = whole.document().await?.record.main;
        let pod = format!("memgraph-ha-{}", main.context("nobody ever served")?.pod.0);
        let killed = whole.control(json!({ "do": "kill", "pod": pod })).await;
        tries += 1;
        if killed.is_ok() || tries == 150 {
            return killed;
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// "Multiple controllers try to manage the same cluster": operators of a second installation, with a lease of their own.
#[tokio::test(flavor = "multi_thread")]
async fn controller_split_brain() -> Result<()> {
    let whole = Whole::start().await?;
    let load = Load::start(whole.bolt, 2, EVERY);
    let deployments: Api<Deployment> = Api::namespaced(whole.client.clone(), "default");
    let ours = serde_json::to_value(deployments.get("mainstay-operator").await?)?;
    let mut spec = ours.get("spec").cloned().context("no spec")?;
    let labels = json!({ "app": "rival" });
    *spec.pointer_mut("/selector/matchLabels").context("no selector")? = labels.clone();
    *spec
        .pointer_mut("/template/metadata/labels")
        .context("no labels")? = labels;
    let args = spec.pointer_mut("/template/spec/containers/0/args");
    let args = args.and_then(|args| args.as_array_mut()).context("no args")?;
    args.retain(|arg| arg.as_str().is_none_or(|arg| !arg.starts_with("--lease-name")));
    args.push(json!("--lease-name=rival"));
    let rival = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "rival" }, "spec": spec });
    deployments
        .create(&PostParams::default(), &serde_json::from_value(rival)?)
        .await?;
    // Both lead now, each by its own lease; a new lease is distrusted for as long as it lasts.
    sleep(Duration::from_secs(20)).await;
    let leases: Api<Lease> = Api::namespaced(whole.client.clone(), "default");
    for name in ["rival", "mainstay-operator"] {
        let holder = leases.get(name).await?.spec.and_then(|spec| spec.holder_identity);
        ensure!(
            holder.is_some_and(|holder| !holder.is_empty()),
            "nobody holds `{name}`"
        );
    }
    for _ in 0..3 {
        kill_main(&whole).await?;
        // They may take a term from each other again and again: two leaders are safe, and need not get anywhere
        // (docs/protocol.md, e).
        sleep(Duration::from_secs(15)).await;
    }
    deployments.delete("rival", &DeleteParams::default()).await?;
    whole.until("protected, with one leader again", protected).await?;
    let last = whole.document().await?.record;
    let main = last.main.context("nobody serves")?.pod.0;
    load.end().await?.is_kept(&whole, main).await?;
    let roles = [whole.role(0).await?, whole.role(1).await?, whole.role(2).await?];
    let mains = roles.iter().filter(|role| *role == "main").count();
    ensure!(mains == 1, "{roles:?}");
    whole.end().await
}

/// "MAIN becomes slow/degraded but not completely failed": it stands still for longer and longer.
#[tokio::test(flavor = "multi_thread")]
async fn gradual_failure() -> Result<()> {
    let whole = Whole::start().await?;
    let load = Load::start(whole.bolt, 2, EVERY);
    for stopped in [100, 300, 800, 1_500, 2_500, 4_000, 8_000_u64] {
        let record = whole.document().await?.record;
        let main = record.main.context("nobody serves")?.pod.0;
        let pod = format!("memgraph-ha-{main}");
        whole.control(json!({ "do": "stop", "pod": pod })).await?;
        sleep(Duration::from_millis(stopped)).await;
        whole.control(json!({ "do": "continue", "pod": pod })).await?;
        sleep(Duration::from_millis(700)).await;
    }
    let record = whole.until("protected", protected).await?;
    // Somewhere between a tenth of a second and eight it was too long.
    let history = whole.document().await?.history;
    ensure!(
        history.iter().any(|tenure| tenure.why == "FAILOVER"),
        "{history:?}"
    );
    let main = record.main.context("nobody serves")?.pod.0;
    load.end().await?.is_kept(&whole, main).await?;
    whole.end().await
}

/// "Manual `DROP REPLICA` commands": the protection is withdrawn, writes wait, and the replica is protected again under
/// another name. What was acknowledged then survives the loss of MAIN.
#[tokio::test(flavor = "multi_thread")]
async fn manual_drop_replica() -> Result<()> {
    let whole = Whole::start().await?;
    let before = whole.document().await?.record;
    let load = Load::start(whole.bolt, 2, EVERY);
    sleep(Duration::from_secs(1)).await;
    let rows = whole.ask(0, "SHOW REPLICAS").await?;
    let names = rows.iter().filter_map(|row| row.first()?.as_str());
    let strict = names
        .filter(|name| name.contains("_g"))
        .map(str::to_owned)
        .next()
        .context("no STRICT_SYNC replica")?;
    // As a person does: it is refused while commits keep the state busy, and tried again.
    let drop = format!("DROP REPLICA {strict}");
    let mut tries = 0;
    while let Err(error) = whole.ask(0, &drop).await {
        tries += 1;
        ensure!(
            tries < 100 && error.to_string().contains("try again later"),
            "{error}"
        );
    }
    whole
        .until("protected under another name", |record| {
            protected(record) && record.generation > before.generation
        })
        .await?;
    sleep(Duration::from_secs(1)).await;
    whole
        .control(json!({ "do": "kill", "pod": "memgraph-ha-0" }))
        .await?;
    whole
        .until("served by pod 1 and protected", |record| {
            serves(record, 1) && protected(record)
        })
        .await?;
    load.end().await?.is_kept(&whole, 1).await?;
    whole.end().await
}
