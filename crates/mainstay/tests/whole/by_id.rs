//! What must be true of a hard reset and is known by an id: H7, H10; and what becomes of the data that it set aside.
//! H1 to H4 are in `crates/sim/tests/acceptance/resets.rs`, H5 in `reset_kills`, H6 beside the init container, H9 in
//! `hard_reset.rs`, T7 in `drill.rs`.

use crate::bed::{Whole, protected, serves};
use anyhow::{Context, Result, ensure};
use kube::Api;
use kube::api::{Patch, PatchParams};
use mainstay_core::memgraph::Record;
use sandbox::standin::memgraph::client::{Client as Bolt, Outcome};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_mins(3);

async fn move_main(whole: &Whole, to: u8) -> Result<Record> {
    let clusters: Api<api::MemgraphCluster> = Api::namespaced(whole.client.clone(), "default");
    let wish = Patch::Merge(
        json!({ "metadata": { "annotations": { "mainstay.dev/switchover-to": to.to_string() } } }),
    );
    clusters
        .patch("memgraph-ha", &PatchParams::default(), &wish)
        .await?;
    whole
        .until("served by the other pod and protected", |r| {
            serves(r, to) && protected(r)
        })
        .await
}

/// The names in a folder.
fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        names.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

/// A pod is reset because somebody asked; the number of the request.
async fn reset(whole: &Whole, pod: u8) -> Result<u64> {
    let (name, before) = (format!("memgraph-ha-{pod}"), whole.uid(pod).await?);
    whole.mainstay(&["reset", &name]).await?;
    whole.until_another(pod, &before).await?;
    whole.until("done with the reset", |r| r.reset.is_none()).await?;
    let ids = names(&whole.volume(pod).await?.join("quarantine"))?;
    let id = ids.iter().next().context("nothing was set aside")?;
    Ok(id.parse()?)
}

/// H7: graph, WAL, snapshots, replication state, users and settings: the whole folder goes, and nothing of it stays.
#[tokio::test(flavor = "multi_thread")]
async fn h7_a_reset_sets_aside_everything_that_the_database_had() -> Result<()> {
    let whole = Whole::start().await?;
    whole.ask(0, "CREATE (:Written)").await?;
    whole.until_level(0, 2, "Written").await?;
    let volume = whole.volume(2).await?;
    let data = volume.join("mg_data");
    fs::write(data.join("only-the-old-one-has-this"), "settings")?;
    let had = names(&data)?;
    ensure!(had.contains("wal"), "{had:?}");
    let id = reset(&whole, 2).await?;
    let kept = names(&volume.join("quarantine").join(id.to_string()))?;
    ensure!(kept.is_superset(&had), "{had:?} became {kept:?}");
    ensure!(
        !names(&data)?.contains("only-the-old-one-has-this"),
        "it began anew"
    );
    whole.until_level(0, 2, "Written").await?;
    whole.end().await
}

/// H10: the steps of memgraph#3353: a failover by hand, then a restart of the replica. From 3.6 on its data is not called
/// diverged, and nobody is reset.
#[tokio::test(flavor = "multi_thread")]
async fn h10_a_replica_that_restarts_after_a_move_of_main_is_not_diverged() -> Result<()> {
    let whole = Whole::start().await?;
    whole.ask(0, "CREATE (:Written)").await?;
    let moved = move_main(&whole, 1).await?;
    whole.ask(1, "CREATE (:Written)").await?;
    let (uid, process) = (whole.uid(0).await?, moved.sync.context("protected")?.process);
    whole
        .control(json!({ "do": "kill", "pod": "memgraph-ha-0" }))
        .await?;
    let record = whole
        .until("protected by the restarted process", |r| {
            serves(r, 1) && r.sync.is_some_and(|sync| sync.process != process)
        })
        .await?;
    ensure!(
        record.reset.is_none() && whole.status().await?.resets.is_empty(),
        "nobody was reset"
    );
    ensure!(whole.uid(0).await? == uid, "its pod is the same");
    whole.until_level(1, 0, "Written").await?;
    whole.end().await
}

/// A stand-in on a folder, ended with the test.
async fn open(folder: &Path) -> Result<(Child, Bolt)> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let child = Command::new(env!("CARGO_BIN_EXE_mainstay"))
        .args([
            "standin",
            "memgraph",
            "--bolt-address=127.0.0.1",
            "--replication-restore-state-on-startup=false",
        ])
        .arg(format!("--bolt-port={port}"))
        .arg(format!("--data-directory={}", folder.display()))
        .kill_on_drop(true)
        .spawn()?;
    let (address, deadline) = (
        SocketAddr::from(([127, 0, 0, 1], port)),
        Instant::now() + PATIENCE,
    );
    loop {
        let auth = bolt::message::Auth::None;
        match Bolt::connect_within(address, auth, Duration::from_secs(5)).await {
            Ok(client) => return Ok((child, client)),
            Err(error) => ensure!(Instant::now() < deadline, "the copy does not open: {error}"),
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Removed with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_reset_set_aside_is_fetched_whole_and_opens_and_nothing_else_is_touched() -> Result<()> {
    let whole = Whole::start().await?;
    let folder = Folder(std::env::temp_dir().join(format!("mainstay-fetched-{}", std::process::id())));
    fs::create_dir_all(&folder.0)?;
    let to = folder.0.join("old");
    let to = to.to_str().context("no text")?;
    for _ in 0..3 {
        whole.ask(0, "CREATE (:Written)").await?;
    }
    whole.until_level(0, 2, "Written").await?;
    let id = reset(&whole, 2).await?.to_string();
    let deadline = Instant::now() + PATIENCE;
    // The operator asks the helpers once in a while.
    while whole.status().await?.quarantines.is_empty() {
        ensure!(Instant::now() < deadline, "nothing is listed");
        sleep(Duration::from_millis(200)).await;
    }
    let restore = ["quarantine", "restore", "memgraph-ha-2", &id, "--to", to];
    let told = whole
        .mainstay(&[&restore[..], &["--dry-run", "-o", "json"]].concat())
        .await?;
    let told: serde_json::Value = serde_json::from_str(&told)?;
    ensure!(
        told["dryRun"] == true && told["bytes"].as_u64() > Some(0),
        "{told}"
    );
    ensure!(!Path::new(to).exists(), "a dry run fetches nothing");
    let unknown = ["quarantine", "restore", "memgraph-ha-2", "999999", "--to", to];
    ensure!(whole.mainstay(&unknown).await.is_err(), "nobody set that aside");

    let uid = whole.uid(2).await?;
    whole.mainstay(&restore).await?;
    ensure!(whole.mainstay(&restore).await.is_err(), "nothing is overwritten");
    ensure!(whole.uid(2).await? == uid, "the pod stays");
    let (_running, mut client) = open(Path::new(to)).await?;
    match client.query("MATCH (n:Written) RETURN count(n)").await? {
        Outcome::Done(table) => {
            let found = table.rows.first().and_then(|row| row.first());
            ensure!(
                found.and_then(bolt::packstream::Value::as_int) == Some(3),
                "{table:?}"
            );
        }
        Outcome::Refused { failure, .. } => anyhow::bail!("{failure}"),
    }
    let volume = whole.volume(2).await?.join("quarantine").join(&id);
    ensure!(volume.exists(), "it is still where it was");
    whole.end().await
}
