//! All pods are made anew under load: MAIN last, its office moves once, nothing is lost.

use crate::bed::{Whole, serves};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Api;
use kube::api::{Patch, PatchParams};
use sandbox::standin::memgraph::client::{Client as Bolt, Outcome};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// What a client saw of its numbered writes.
#[derive(Default)]
struct Ledger {
    acknowledged: BTreeSet<i64>,
    failed: usize,
    longest: Duration,
}

/// Writes until it is told to stop; each number once.
async fn write(address: SocketAddr, stop: watch::Receiver<bool>) -> Ledger {
    let mut ledger = Ledger::default();
    let mut connection = None;
    let mut last = Instant::now();
    for number in 0.. {
        if *stop.borrow() {
            break;
        }
        if one(&mut connection, address, number).await {
            ledger.acknowledged.insert(number);
            ledger.longest = ledger.longest.max(last.elapsed());
            last = Instant::now();
        } else {
            ledger.failed += 1;
            connection = None;
        }
        sleep(Duration::from_millis(5)).await;
    }
    ledger
}

async fn one(connection: &mut Option<Bolt>, address: SocketAddr, number: i64) -> bool {
    let patience = Duration::from_secs(20);
    if connection.is_none() {
        *connection = Bolt::connect_within(address, bolt::message::Auth::None, patience)
            .await
            .ok();
    }
    let Some(client) = connection else { return false };
    let query = format!("CREATE (:Numbered {{n: {number}}})");
    let answered = timeout(patience, client.query(&query)).await;
    matches!(answered, Ok(Ok(Outcome::Done(_))))
}

/// In which order the pods were made anew, with the MAIN of each moment.
async fn order(whole: &Whole) -> Result<Vec<u8>> {
    let mut before = Vec::new();
    for pod in 0..3 {
        before.push(whole.uid(pod).await?);
    }
    let mut order = Vec::new();
    let deadline = Instant::now() + Duration::from_mins(5);
    while order.len() < 3 {
        for (pod, before) in (0_u8..).zip(&before) {
            if !order.contains(&pod) && whole.uid(pod).await.is_ok_and(|now| now != *before) {
                order.push(pod);
            }
        }
        ensure!(Instant::now() < deadline, "only {order:?} were made anew");
        sleep(Duration::from_millis(100)).await;
    }
    Ok(order)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_under_load_moves_main_once_and_loses_nothing() -> Result<()> {
    let whole = Whole::start().await?;
    let before = whole.document().await?.record;
    let (stop, stopped) = watch::channel(false);
    let writer = tokio::spawn(write(whole.bolt, stopped));
    let sets: Api<StatefulSet> = Api::namespaced(whole.client.clone(), "default");
    // What `kubectl rollout restart` does.
    let patch = json!({ "spec": { "template": { "metadata": { "annotations": { "restarted": "now" } } } } });
    let began = Instant::now();
    sets.patch("memgraph-ha", &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    let order = order(&whole).await?;
    let old = before.main.context("nobody serves")?.process;
    let after = whole
        .until("served by pod 1 and protected by the new pod 0", |r| {
            serves(r, 1) && r.sync.is_some_and(|sync| sync.process != old)
        })
        .await?;
    let took = began.elapsed();
    stop.send(true)?;
    let ledger = writer.await.context("the writer panicked")?;
    ensure!(order == [2, 1, 0], "{order:?}");
    let document = whole.document().await?;
    let moves = document
        .history
        .iter()
        .filter(|tenure| tenure.term > before.term)
        .map(|tenure| (tenure.pod.0, tenure.why.as_str()))
        .collect::<Vec<_>>();
    let to_pod_1 = moves.iter().filter(|(pod, _)| *pod == 1);
    eprintln!(
        "{took:?}: {} acknowledged, {} failed, longest gap {:?}, terms {moves:?}",
        ledger.acknowledged.len(),
        ledger.failed,
        ledger.longest
    );
    ensure!(
        to_pod_1.filter(|(_, why)| *why == "SWITCHOVER").count() == 1,
        "{moves:?}"
    );
    ensure!(
        moves.iter().all(|(_, why)| *why != "FAILOVER"),
        "nobody failed: {moves:?}"
    );
    let main = after.main.context("nobody serves")?.pod.0;
    let rows = whole
        .ask(main, "MATCH (n:Numbered) RETURN n.n AS n ORDER BY n")
        .await?;
    let found: BTreeSet<i64> = rows.iter().filter_map(|row| row.first()?.as_int()).collect();
    let lost: Vec<&i64> = ledger.acknowledged.difference(&found).collect();
    ensure!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    ensure!(!ledger.acknowledged.is_empty(), "nothing was written");
    whole.end().await
}
