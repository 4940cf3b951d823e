//! Who is to be MAIN, as people ask for it.

use crate::bed::Whole;
use anyhow::{Result, ensure};
use api::MemgraphCluster;
use kube::{Api, ResourceExt};
use mainstay_core::memgraph::Record;

fn serves(record: &Record, pod: u8) -> bool {
    record.sync.is_some() && record.main.as_ref().is_some_and(|main| main.pod.0 == pod)
}

/// A command that moved MAIN leaves nothing behind that would move it again.
async fn nothing_is_asked_for(whole: &Whole) -> Result<()> {
    let all: Api<MemgraphCluster> = Api::namespaced(whole.client.clone(), "default");
    let cluster = all.get("memgraph-ha").await?;
    ensure!(
        !cluster
            .annotations()
            .keys()
            .any(|key| key.contains("switchover") || key.contains("override")),
        "{:?}",
        cluster.annotations()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_moves_main_and_names_it_and_the_wish_is_gone_when_it_came_true() -> Result<()> {
    let whole = Whole::start().await?;
    whole.ask(0, "CREATE (:Written)").await?;
    let told = whole
        .mainstay(&["switchover", "memgraph-ha-1", "--dry-run", "-o", "json"])
        .await?;
    let told: serde_json::Value = serde_json::from_str(&told)?;
    ensure!(told["dryRun"] == true && told["value"] == "1", "{told}");
    ensure!(
        whole.mainstay(&["switchover", "memgraph-ha-2"]).await.is_err(),
        "it is never MAIN"
    );
    nothing_is_asked_for(&whole).await?;

    let told = whole.mainstay(&["switchover", "memgraph-ha-1"]).await?;
    ensure!(
        told.starts_with("memgraph-ha-1 is MAIN of memgraphcluster/memgraph-ha in term "),
        "{told}"
    );
    nothing_is_asked_for(&whole).await?;
    whole.until("moved", |r| serves(r, 1)).await?;

    ensure!(
        whole.mainstay(&["override", "memgraph-ha-0"]).await.is_err(),
        "the loss was not accepted"
    );
    whole
        .mainstay(&["override", "memgraph-ha-0", "--accept-loss"])
        .await?;
    nothing_is_asked_for(&whole).await?;
    whole.until("named", |r| serves(r, 0)).await?;
    let rows = whole.ask(0, "MATCH (n:Written) RETURN count(n)").await?;
    ensure!(rows[0][0].as_int() == Some(1), "{rows:?}");
    whole.end().await
}
