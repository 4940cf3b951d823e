//! Who is to be MAIN, as people ask for it.

use crate::bed::Whole;
use anyhow::{Context, Result, ensure};
use api::MemgraphCluster;
use kube::{Api, ResourceExt};
use mainstay_core::memgraph::Record;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::time::sleep;

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

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_ended_takes_its_wish_back() -> Result<()> {
    let whole = Whole::start().await?;
    // Nobody decides about it, so it waits.
    whole.operators(0).await?;
    for end in ["INT", "TERM"] {
        let mut command = whole.command(&["switchover", "memgraph-ha-1"]);
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let deadline = Instant::now() + Duration::from_secs(30);
        while nothing_is_asked_for(&whole).await.is_ok() {
            ensure!(Instant::now() < deadline, "nothing was asked for");
            sleep(Duration::from_millis(20)).await;
        }
        let id = child.id().context("it ended")?.to_string();
        Command::new("kill").args(["-s", end, &id]).status().await?;
        let output = child.wait_with_output().await?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            output.status.code() == Some(1) && said.contains("not asked for any more"),
            "{end}: {output:?}"
        );
        nothing_is_asked_for(&whole).await?;
    }
    whole.end().await
}
