//! The seed's four scenarios of the hard reset, and what must be true besides: on real processes.

use crate::bed::{Whole, protected, serves};
use anyhow::{Context, Result, ensure};
use api::MemgraphCluster;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use mainstay_core::memgraph::ids::{Ordinal, ProcessId, ResetId};
use mainstay_core::memgraph::marker::{MarkerFile, Meant};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How often the happy path is gone in a row. The seed's checklist asks for ten; one takes a quarter of a minute and
/// every run of the tests has it, `MAINSTAY_RESETS=10` has all.
fn rounds() -> u32 {
    let asked = std::env::var("MAINSTAY_RESETS").ok();
    asked.and_then(|asked| asked.parse().ok()).unwrap_or(1)
}

/// The requests whose data is on this volume.
fn set_aside(volume: &Path) -> Vec<u64> {
    let entries = fs::read_dir(volume.join("quarantine"));
    let names = entries.into_iter().flatten().flatten();
    let mut ids: Vec<u64> = names
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect();
    ids.sort_unstable();
    ids
}

/// Scenario 1, and H1, H2, H7: a replica that really diverged is reset once, by itself, and comes back clean.
#[tokio::test(flavor = "multi_thread")]
async fn happy_path() -> Result<()> {
    let whole = Whole::start().await?;
    let volume = whole.volume(2).await?;
    for round in 1..=rounds() {
        let began = Instant::now();
        whole.ask(0, "CREATE (:Written)").await?;
        whole.until_level(0, 2, "Written").await?;
        let before = [whole.uid(0).await?, whole.uid(1).await?, whole.uid(2).await?];
        whole.diverge(2).await?;
        whole.ask(0, "CREATE (:Written)").await?;
        let asked = whole
            .until("asking for the reset of pod 2", |r| {
                r.reset.is_some_and(|r| r.pod == Ordinal(2))
            })
            .await?;
        let ResetId(id) = asked.reset.context("no reset")?.id;
        whole.until("done with the reset", |r| r.reset.is_none()).await?;
        whole.until_another(2, &before[2]).await?;
        whole.until_level(0, 2, "Written").await?;
        ensure!(whole.count(2, "Stray").await? == 0, "nothing of its own is left");
        let quarantine = volume.join("quarantine").join(id.to_string());
        ensure!(
            fs::read_dir(&quarantine)?.next().is_some(),
            "{} is empty",
            quarantine.display()
        );
        ensure!(
            !volume.join(".hard-reset-requested").exists(),
            "the marker is gone"
        );
        let log = whole.init_log(2).await?;
        for line in [
            "HARD RESET REQUESTED - Magic marker file detected",
            "Performing FULL data cleanup...",
            "Hard reset complete - pod will start with clean slate",
            "Init container finished",
        ] {
            ensure!(log.contains(line), "{line}: {log}");
        }
        let record = whole.until("protected", protected).await?;
        ensure!(
            serves(&record, 0) && record.term == asked.term,
            "no failover for it"
        );
        ensure!(
            [whole.uid(0).await?, whole.uid(1).await?] == before[..2],
            "nobody else was touched"
        );
        eprintln!("happy path {round}: {:?}", began.elapsed());
    }
    for line in [
        "Initiating hard reset for diverged async replica",
        "Starting hard reset procedure for diverged replica",
        "Magic marker file created successfully",
        "Deleting pod to trigger hard reset",
        "Hard reset initiated - pod will be recreated with clean data",
    ] {
        ensure!(
            whole.logged(line).await? >= 1,
            "the operator did not log `{line}`"
        );
    }
    // Kept: the last three, once the clean replica is ready.
    let kept = usize::try_from(rounds())?.min(3);
    let deadline = Instant::now() + Duration::from_mins(1);
    while set_aside(&volume).len() != kept {
        ensure!(Instant::now() < deadline, "{:?} are kept", set_aside(&volume));
        sleep(Duration::from_millis(100)).await;
    }
    whole.end().await
}

/// Scenario 2: they recover one after the other, never two at once (H4).
#[tokio::test(flavor = "multi_thread")]
async fn multi_replica() -> Result<()> {
    let whole = Whole::start_with(&["--replicas=4"]).await?;
    whole.ask(0, "CREATE (:Written)").await?;
    for pod in [2, 3] {
        whole.until_level(0, pod, "Written").await?;
    }
    let volumes = [whole.volume(2).await?, whole.volume(3).await?];
    for pod in [2, 3] {
        whole.diverge(pod).await?;
    }
    whole.ask(0, "CREATE (:Written)").await?;
    let deadline = Instant::now() + Duration::from_mins(4);
    let both = || volumes.iter().all(|volume| !set_aside(volume).is_empty());
    let mut asked = Vec::new();
    while !both() || whole.document().await?.record.reset.is_some() {
        // One field of the record: there cannot be two.
        asked.extend(whole.document().await?.record.reset.map(|reset| reset.pod));
        ensure!(Instant::now() < deadline, "not both were reset");
        sleep(Duration::from_millis(20)).await;
    }
    asked.dedup();
    asked.sort_unstable();
    ensure!(
        asked == [Ordinal(2), Ordinal(3)],
        "one, then the other: {asked:?}"
    );
    for pod in [2, 3] {
        whole.until_level(0, pod, "Written").await?;
        ensure!(whole.count(pod, "Stray").await? == 0, "pod {pod} is clean");
    }
    ensure!(
        volumes.iter().all(|volume| set_aside(volume).len() == 1),
        "one wipe each"
    );
    whole.end().await
}

/// Scenario 3, and H3: a SYNC replica that protects MAIN is never reset by itself; a human approves, and it is.
#[tokio::test(flavor = "multi_thread")]
async fn sync_protection() -> Result<()> {
    let whole = Whole::start().await?;
    whole.ask(0, "CREATE (:Written)").await?;
    let volume = whole.volume(1).await?;
    let before = whole.uid(1).await?;
    // Behind the operators' back: they would demote it, and withdraw its protection, at once.
    whole.operators(0).await?;
    whole.diverge(1).await?;
    // MAIN learns it from its next write, which it cannot make.
    whole.ask(0, "CREATE (:Written)").await.ok();
    whole.operators(2).await?;
    whole.until_said("MANUAL INTERVENTION REQUIRED").await?;
    for _ in 0..30 {
        let record = whole.document().await?.record;
        ensure!(record.reset.is_none(), "nobody approved it");
        sleep(Duration::from_millis(100)).await;
    }
    ensure!(whole.uid(1).await? == before && set_aside(&volume).is_empty());
    let events = whole.events().await?;
    ensure!(
        events
            .iter()
            .any(|event| event.contains("MANUAL INTERVENTION REQUIRED")),
        "{events:?}"
    );
    ensure!(
        whole
            .logged("SYNC replica diverged - MANUAL INTERVENTION REQUIRED")
            .await?
            >= 1
    );

    let told = whole
        .mainstay(&["approve", "memgraph-ha-1", "--dry-run", "-o", "json"])
        .await?;
    let told: serde_json::Value = serde_json::from_str(&told)?;
    ensure!(told["dryRun"] == true && told["annotation"] == "mainstay.dev/approve-reset");
    sleep(Duration::from_secs(1)).await;
    ensure!(whole.uid(1).await? == before, "a dry run asks for nothing");
    whole.mainstay(&["approve", "memgraph-ha-1"]).await?;
    whole.until_another(1, &before).await?;
    whole
        .until("protected by the clean replica", |r| {
            protected(r) && r.reset.is_none()
        })
        .await?;
    ensure!(set_aside(&volume).len() == 1, "its data is kept");
    whole.until_level(0, 1, "Written").await?;
    whole.end().await
}

/// Scenario 4: the pod is deleted again before its init container could look. The next start cleans up, once.
#[tokio::test(flavor = "multi_thread")]
async fn marker_persistence() -> Result<()> {
    let whole = Whole::start().await?;
    whole.ask(0, "CREATE (:Written)").await?;
    whole.until_level(0, 2, "Written").await?;
    let volume = whole.volume(2).await?;
    let marker = volume.join(".hard-reset-requested");
    let before = whole.uid(2).await?;
    whole.diverge(2).await?;
    whole.ask(0, "CREATE (:Written)").await?;
    let deadline = Instant::now() + Duration::from_mins(2);
    while !marker.exists() {
        ensure!(Instant::now() < deadline, "no marker was written");
        sleep(Duration::from_millis(2)).await;
    }
    // Nobody can be asked now: an init container neither wipes nor lets the database start.
    whole.control(json!({ "do": "freeze-api" })).await?;
    let force = DeleteParams::default().grace_period(0);
    let mut last = before;
    for _ in 0..2 {
        whole.pods().delete("memgraph-ha-2", &force).await.ok();
        while whole.uid(2).await.unwrap_or_else(|_| last.clone()) == last {
            ensure!(Instant::now() < deadline, "the pod is not made anew");
            sleep(Duration::from_millis(20)).await;
        }
        last = whole.uid(2).await?;
        // A pod that is there now has to be cut off too.
        whole.control(json!({ "do": "freeze-api" })).await?;
        sleep(Duration::from_secs(1)).await;
        ensure!(
            marker.exists() && set_aside(&volume).is_empty(),
            "the marker waits"
        );
    }
    whole.control(json!({ "do": "thaw-api" })).await?;
    whole.until("done with the reset", |r| r.reset.is_none()).await?;
    whole.until_level(0, 2, "Written").await?;
    ensure!(set_aside(&volume).len() == 1, "one request, one wipe");
    ensure!(!marker.exists() && whole.count(2, "Stray").await? == 0);
    whole.end().await
}

/// H9: an ex-MAIN and an ASYNC replica both took writes of their own. Both are reset, one after the other, what only
/// they had is in quarantine, and what was acknowledged is there.
#[tokio::test(flavor = "multi_thread")]
async fn h9_an_ex_main_and_an_async_replica_that_diverged_both_come_back() -> Result<()> {
    let whole = Whole::start().await?;
    whole.ask(0, "CREATE (:Written)").await?;
    whole.until_level(0, 2, "Written").await?;
    whole
        .control(json!({ "do": "isolate", "pod": "memgraph-ha-0" }))
        .await?;
    whole.until("served by pod 1", |r| serves(r, 1)).await?;
    // Behind everybody's back: without its STRICT_SYNC replica the old MAIN takes a write again.
    for row in whole.ask(0, "SHOW REPLICAS").await? {
        let name = row.first().and_then(|name| name.as_str()).context("no name")?;
        whole.ask(0, &format!("DROP REPLICA {name}")).await?;
    }
    whole.ask(0, "CREATE (:Stray)").await?;
    whole.diverge(2).await?;
    whole.control(json!({ "do": "mend" })).await?;
    whole.ask(1, "CREATE (:Written)").await?;
    let volumes = [whole.volume(0).await?, whole.volume(2).await?];
    let deadline = Instant::now() + Duration::from_mins(3);
    while volumes.iter().any(|volume| set_aside(volume).is_empty()) {
        ensure!(
            Instant::now() < deadline,
            "not both were reset: {:?}",
            whole.status().await?.reasons
        );
        sleep(Duration::from_millis(50)).await;
    }
    whole
        .until("whole again", |r| {
            protected(r) && r.reset.is_none() && serves(r, 1)
        })
        .await?;
    for pod in [0, 2] {
        whole.until_level(1, pod, "Written").await?;
        ensure!(whole.count(pod, "Stray").await? == 0, "pod {pod} is clean");
    }
    ensure!(
        whole.count(1, "Written").await? == 2,
        "nothing acknowledged is lost"
    );
    whole.end().await
}

/// T7: the marker outlived its request, and the pod is good.
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_marker_on_a_healthy_pod_that_restarts_wipes_nothing() -> Result<()> {
    let whole = Whole::start().await?;
    whole.ask(0, "CREATE (:Written)").await?;
    // An ASYNC replica may be behind, and then has nothing of its own to start on.
    whole.until_level(0, 2, "Written").await?;
    let record = whole.document().await?.record;
    let uid = whole.uid(2).await?;
    let meant = Meant {
        id: ResetId(record.revision.0),
        term: record.term,
        process: ProcessId(1),
        pod_uid: uid.parse()?,
    };
    let volume = whole.volume(2).await?;
    let marker = volume.join(".hard-reset-requested");
    let file = MarkerFile::new("memgraph-ha-2", Some("memgraph-ha-0"), String::new(), meant);
    fs::write(&marker, file.render()?)?;
    whole
        .pods()
        .delete("memgraph-ha-2", &DeleteParams::default())
        .await?;
    whole.until_another(2, &uid).await?;
    ensure!(!marker.exists(), "the marker is gone");
    ensure!(
        volume.join(".hard-reset-requested.stale").exists(),
        "and kept for whoever asks"
    );
    ensure!(!volume.join("quarantine").exists(), "no data was moved");
    ensure!(
        whole.count(2, "Written").await? == 1,
        "it started on its own data"
    );
    let log = whole.init_log(2).await?;
    ensure!(log.contains("The marker has no effect"), "{log}");
    whole.end().await
}

/// `mainstay reset` of a replica that is well, and of MAIN; what was set aside is listed and deleted on request.
#[tokio::test(flavor = "multi_thread")]
async fn a_human_asks_for_a_reset_and_purges_what_it_set_aside() -> Result<()> {
    let whole = Whole::start().await?;
    whole.ask(0, "CREATE (:Written)").await?;
    whole.until_level(0, 2, "Written").await?;
    let volume = whole.volume(2).await?;
    let before = whole.uid(2).await?;
    ensure!(
        whole.mainstay(&["reset", "memgraph-ha-0"]).await.is_err(),
        "MAIN never"
    );
    whole.mainstay(&["reset", "memgraph-ha-2"]).await?;
    whole.until_another(2, &before).await?;
    whole.until("done with the reset", |r| r.reset.is_none()).await?;
    whole.until_level(0, 2, "Written").await?;
    let [id] = set_aside(&volume)[..] else {
        anyhow::bail!("one reset: {:?}", set_aside(&volume));
    };
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        let listed = whole.mainstay(&["quarantine", "list", "-o", "json"]).await?;
        let listed: serde_json::Value = serde_json::from_str(&listed)?;
        if listed[0]["id"] == id && listed[0]["pod"] == "memgraph-ha-2" {
            break;
        }
        ensure!(Instant::now() < deadline, "not listed: {listed}");
        sleep(Duration::from_millis(200)).await;
    }
    whole
        .mainstay(&["quarantine", "purge", "memgraph-ha-2", &id.to_string()])
        .await?;
    ensure!(set_aside(&volume).is_empty(), "it waits until it is deleted");
    let clusters: Api<MemgraphCluster> = Api::namespaced(whole.client.clone(), "default");
    let asked = clusters.get("memgraph-ha").await?.annotations().clone();
    ensure!(
        !asked.contains_key("mainstay.dev/purge-quarantine"),
        "the wish is taken back: {asked:?}"
    );
    let listed = whole.mainstay(&["quarantine", "list"]).await?;
    ensure!(listed == "nothing was set aside\n", "{listed}");
    let again = ["quarantine", "purge", "memgraph-ha-2", &id.to_string()];
    ensure!(whole.mainstay(&again).await.is_err(), "it is gone");
    // And nothing is written about it again and again.
    loop {
        let before = clusters.get("memgraph-ha").await?.metadata.resource_version;
        sleep(Duration::from_secs(3)).await;
        if clusters.get("memgraph-ha").await?.metadata.resource_version == before {
            break;
        }
        ensure!(Instant::now() < deadline, "the status is written for ever");
    }
    whole.end().await
}
