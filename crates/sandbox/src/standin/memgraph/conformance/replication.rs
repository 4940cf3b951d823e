//! Items 1 to 11: what replication does.

use super::cluster::{Cluster, Trouble, expect};
use sim::memgraph::instance::{Profile, SyncFailure};
use tokio::time::sleep;

pub(super) async fn roles(c: &mut Cluster) -> Result<(), Trouble> {
    c.refused_with(
        0,
        "SET REPLICATION ROLE TO MAIN",
        "Couldn't set replication role to main!",
    )
    .await?;
    c.demote(1).await?;
    let port = c.replication_port(1)?;
    let again = format!("SET REPLICATION ROLE TO REPLICA WITH PORT {port}");
    c.refused_with(1, &again, "Couldn't set role to replica!").await?;
    for at in [0, 1] {
        c.kill(at).await?;
        c.begin(at, &[]).await?;
    }
    c.role(0, "main").await?;
    c.role(1, "replica").await
}

pub(super) async fn zombie(c: &mut Cluster) -> Result<(), Trouble> {
    // Server 1 is no REPLICA: nothing listens.
    let register = c.registration("STRICT_SYNC", 1)?;
    c.refused_with(0, &register, "Error: 5").await?;
    let listed = c.rows(0, "SHOW REPLICAS").await?;
    expect(
        listed.len() == 1,
        format!("a failed registration should stay: {listed:?}"),
    )?;
    expect(
        c.status(0, 1).await?.is_none(),
        "a failed registration should show no data",
    )?;
    c.refused_with(0, &register, "Error: 1").await?;
    // It protects nothing, and stops nothing.
    c.write(0, 1).await?;
    c.rows(0, "DROP REPLICA r1").await?;
    c.demote(1).await?;
    c.rows(0, &register).await?;
    c.until(0, 1, "ready").await?;
    c.has(1, &[1]).await
}

pub(super) async fn sync_lost(c: &mut Cluster) -> Result<(), Trouble> {
    c.pair("SYNC").await?;
    c.write(0, 1).await?;
    c.kill(1).await?;
    let outcome = c.ask(0, "CREATE (:W {id: 2})").await?;
    let failure = outcome.failure().map(|failure| failure.code.to_string());
    match c.profile().sync_failure() {
        SyncFailure::Warning => expect(failure.is_none(), format!("should only warn: {outcome:?}"))?,
        SyncFailure::Transient => expect(
            failure
                .as_deref()
                .is_some_and(|code| code.contains("TransientError")),
            format!("should be a TransientError: {outcome:?}"),
        )?,
        SyncFailure::Client => expect(
            failure
                .as_deref()
                .is_some_and(|code| code.contains("ClientError")),
            format!("should be a ClientError: {outcome:?}"),
        )?,
    }
    c.has(0, &[1, 2]).await?;
    c.begin(1, &[]).await?;
    c.until(0, 1, "ready").await?;
    c.has(1, &[1, 2]).await
}

pub(super) async fn strict_lost(c: &mut Cluster) -> Result<(), Trouble> {
    c.pair("STRICT_SYNC").await?;
    c.write(0, 1).await?;
    c.kill(1).await?;
    c.refused_with(0, "CREATE (:W {id: 2})", "aborted on all instances")
        .await?;
    c.has(0, &[1]).await?;
    c.rows(0, "DROP REPLICA r1").await?;
    c.write(0, 2).await?;
    c.has(0, &[1, 2]).await
}

pub(super) async fn diverged(c: &mut Cluster) -> Result<(), Trouble> {
    c.pair("SYNC").await?;
    c.write(0, 1).await?;
    // Promotion closes the port: the next write is only on the old MAIN.
    c.promote(1).await?;
    c.ask(0, "CREATE (:W {id: 2})").await?;
    c.write(1, 3).await?;
    c.demote(0).await?;
    let register = c.registration("ASYNC", 0)?;
    c.refused_with(1, &register, "Error: 3").await?;
    let listed = c.rows(1, "SHOW REPLICAS").await?.len();
    let zombie = usize::from(c.profile() != Profile::Next);
    expect(
        listed == zombie,
        format!("{listed} registrations are left, expected {zombie}"),
    )?;
    if zombie == 1 {
        c.rows(1, "DROP REPLICA r0").await?;
    }
    c.kill(0).await?;
    c.wipe(0, &["wal", "snapshots"])?;
    c.begin(0, &[]).await?;
    c.role(0, "replica").await?;
    c.rows(1, &register).await?;
    c.until(1, 0, "ready").await?;
    c.has(0, &[1, 3]).await
}

pub(super) async fn lagging(c: &mut Cluster) -> Result<(), Trouble> {
    c.pair("STRICT_SYNC").await?;
    c.demote(2).await?;
    c.register(0, "ASYNC", 2).await?;
    c.write(0, 1).await?;
    c.until(0, 2, "ready").await?;
    c.kill(2).await?;
    c.write(0, 2).await?;
    c.kill(0).await?;
    c.promote(1).await?;
    c.write(1, 3).await?;
    c.begin(2, &[]).await?;
    c.register(1, "ASYNC", 2).await?;
    c.until(1, 2, "ready").await?;
    c.has(2, &[1, 2, 3]).await
}

pub(super) async fn empty_term(c: &mut Cluster) -> Result<(), Trouble> {
    c.pair("STRICT_SYNC").await?;
    c.write(0, 1).await?;
    c.demote(0).await?;
    c.promote(1).await?;
    c.demote(1).await?;
    c.promote(0).await?;
    c.register(0, "STRICT_SYNC", 1).await?;
    c.until(0, 1, "ready").await?;
    c.write(0, 2).await?;
    c.has(1, &[1, 2]).await
}

pub(super) async fn stolen(c: &mut Cluster) -> Result<(), Trouble> {
    c.pair("STRICT_SYNC").await?;
    c.write(0, 1).await?;
    // Server 2 is a MAIN of its own, with nothing in it.
    c.register(2, "ASYNC", 1).await.or_else(|trouble| match trouble {
        // Its own disk says nothing about server 1's history.
        Trouble::Different(text) if text.contains("Error: 3") => Ok(()),
        other => Err(other),
    })?;
    c.refused_with(0, "CREATE (:W {id: 2})", "aborted on all instances")
        .await?;
    c.until(0, 1, "invalid").await?;
    sleep(c.scaled(3.0)).await;
    let status = c.status(0, 1).await?;
    expect(
        status.as_ref().is_some_and(|(status, _)| status == "invalid"),
        format!("a replica that follows another should stay invalid, is {status:?}"),
    )?;
    c.has(0, &[1]).await
}

pub(super) async fn unrelated(c: &mut Cluster) -> Result<(), Trouble> {
    c.write(1, 99).await?;
    c.demote(1).await?;
    c.write(0, 1).await?;
    c.register(0, "ASYNC", 1).await?;
    sleep(c.scaled(3.0)).await;
    let status = c.status(0, 1).await?;
    expect(
        status.as_ref().is_some_and(|(status, _)| status == "invalid"),
        format!("should stay invalid, is {status:?}"),
    )?;
    c.has(1, &[99]).await
}

pub(super) async fn no_log(c: &mut Cluster) -> Result<(), Trouble> {
    c.kill(0).await?;
    c.begin(0, &["--storage-wal-enabled=false".to_owned()]).await?;
    c.pair("SYNC").await?;
    c.write(0, 1).await?;
    sleep(c.scaled(3.0)).await;
    c.has(1, &[]).await?;
    let status = c.status(0, 1).await?;
    expect(
        status.as_ref().is_some_and(|(_, behind)| *behind < 0),
        format!("should be behind, is {status:?}"),
    )
}
