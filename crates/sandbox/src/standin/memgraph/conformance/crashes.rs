//! What happens around a commit that does not end well.

use super::super::client::Outcome;
use super::super::faults::{CrashPoint, Effect, Fault, RpcKind, Rule};
use super::cluster::{Cluster, Trouble, expect};
use sim::memgraph::instance::Profile;
use std::time::Duration;
use tokio::time::sleep;

fn link(rpc: RpcKind, effect: Effect, times: Option<u32>) -> Fault {
    Fault::Link(Rule {
        peer: None,
        rpc: Some(rpc),
        effect,
        times,
    })
}

pub(super) async fn after_local_commit(c: &mut Cluster) -> Result<(), Trouble> {
    c.pair("STRICT_SYNC").await?;
    c.write(0, 1).await?;
    c.inject(
        0,
        &Fault::CrashAt {
            point: CrashPoint::AfterLocalCommit,
        },
    )?;
    let outcome = c.ask(0, "CREATE (:W {id: 2})").await;
    expect(
        outcome.is_err(),
        format!("acknowledged by a process that ended: {outcome:?}"),
    )?;
    c.ended(0).await?;
    promote_soon(c, 1).await?;
    c.has(1, &[1]).await?;
    c.write(1, 3).await?;
    c.begin(0, &[]).await?;
    c.has(0, &[1, 2]).await?;
    c.demote(0).await?;
    let register = c.registration("ASYNC", 0)?;
    c.refused_with(1, &register, "Error: 3").await
}

pub(super) async fn finalize_lost(c: &mut Cluster) -> Result<(), Trouble> {
    c.pair("STRICT_SYNC").await?;
    c.write(0, 1).await?;
    c.inject(0, &link(RpcKind::Finalize, Effect::Swallow, None))?;
    c.write(0, 2).await?;
    c.has(1, &[1]).await?;
    let status = c.status(0, 1).await?;
    expect(
        status.as_ref().is_some_and(|(status, _)| status == "ready"),
        format!("the replica should be called ready, is {status:?}"),
    )?;
    c.kill(0).await?;
    promote_soon(c, 1).await?;
    c.has(1, &[1]).await
}

/// Newer releases refuse until they notice that MAIN is gone.
async fn promote_soon(c: &mut Cluster, at: usize) -> Result<(), Trouble> {
    let mut last = Ok(());
    for _ in 0..50 {
        last = c.promote(at).await;
        if last.is_ok() {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    last
}

pub(super) async fn promotion_drops(c: &mut Cluster) -> Result<(), Trouble> {
    c.pair("STRICT_SYNC").await?;
    c.write(0, 1).await?;
    c.inject(0, &link(RpcKind::Finalize, Effect::Delay(3000), Some(1)))?;
    let mut writer = c.client(0).await?;
    let writing = tokio::spawn(async move { writer.query("CREATE (:W {id: 2})").await });
    c.until(0, 1, "replicating").await?;
    sleep(Duration::from_millis(800)).await;
    let promoted = c.promote(1).await;
    let refuses = matches!(c.profile(), Profile::V3_12 | Profile::Next);
    let outcome = writing
        .await
        .map_err(|error| Trouble::Different(error.to_string()))?;
    if refuses {
        expect(promoted.is_err(), "promoted while a transaction was prepared")?;
        return c.has(1, &[1, 2]).await;
    }
    promoted?;
    expect(
        matches!(outcome, Ok(Outcome::Done(_))),
        format!("the write should be acknowledged: {outcome:?}"),
    )?;
    c.has(1, &[1]).await
}

pub(super) async fn busy_state(c: &mut Cluster) -> Result<(), Trouble> {
    c.pair("STRICT_SYNC").await?;
    c.write(0, 1).await?;
    c.signal(1, "STOP")?;
    let mut writer = c.client(0).await?;
    let writing = tokio::spawn(async move { writer.query("CREATE (:W {id: 2})").await });
    // Not a time that it takes: a DROP that comes before the commit is obeyed.
    c.until(0, 1, "replicating").await?;
    c.refused_with(0, "DROP REPLICA r1", "lack of unique access")
        .await?;
    let port = c.replication_port(0)?;
    let demote = format!("SET REPLICATION ROLE TO REPLICA WITH PORT {port}");
    c.refused_with(0, &demote, "Couldn't set role to replica!")
        .await?;
    let register = c.registration("ASYNC", 2)?;
    c.refused_with(0, &register, "Error: 6").await?;
    c.role(0, "main").await?;
    c.signal(1, "CONT")?;
    let _ = writing.await;
    Ok(())
}

pub(super) async fn durable(c: &mut Cluster) -> Result<(), Trouble> {
    let mut writer = c.client(0).await?;
    let writing = tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        for id in 0.. {
            match writer.query(&format!("CREATE (:W {{id: {id}}})")).await {
                Ok(Outcome::Done(_)) => acknowledged.push(id),
                _ => break,
            }
        }
        acknowledged
    });
    sleep(Duration::from_millis(500)).await;
    c.kill(0).await?;
    let acknowledged: Vec<i64> = writing
        .await
        .map_err(|error| Trouble::Different(error.to_string()))?;
    c.begin(0, &[]).await?;
    let stored = c.ids(0).await?;
    let missing = acknowledged.iter().filter(|id| !stored.contains(id)).count();
    expect(!acknowledged.is_empty(), "nothing was written")?;
    expect(
        missing == 0,
        format!("{missing} of {} are missing", acknowledged.len()),
    )
}
