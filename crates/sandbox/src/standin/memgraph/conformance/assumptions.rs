//! What the protocol itself relies on.

use super::super::client::{Client, Outcome};
use super::cluster::{Cluster, Trouble, expect};
use bolt::message::{Auth, Run};
use bolt::packstream::Value;
use std::time::{Duration, Instant};

pub(super) async fn start_up_fence(c: &mut Cluster) -> Result<(), Trouble> {
    c.write(0, 1).await?;
    c.kill(0).await?;
    c.begin(0, &[]).await?;
    c.role(0, "main").await?;
    c.kill(0).await?;
    let port = c.replication_port(0)?;
    let lines = format!("SET REPLICATION ROLE TO REPLICA WITH PORT {port};\n");
    let file = c.file(0, "init.cypherl", &lines)?;
    // The first answer ever given counts: `begin` returns when Bolt accepts.
    c.begin(0, &[format!("--init-file={file}")]).await?;
    c.role(0, "replica").await?;
    c.has(0, &[1]).await
}

async fn marked(c: &mut Cluster) -> Result<(), Trouble> {
    c.pair("STRICT_SYNC").await?;
    c.rows(0, "CREATE INDEX ON :__mainstay").await?;
    c.rows(0, "CREATE (:__mainstay {term: 1, proof: 0})")
        .await
        .map(drop)
}

fn swap(old: i64, new: i64) -> Run<'static> {
    Run::new("MATCH (m:__mainstay {term: $old}) SET m.term = $new RETURN m.term")
        .with("old", old)
        .with("new", new)
}

pub(super) async fn mark(c: &mut Cluster) -> Result<(), Trouble> {
    marked(c).await?;
    c.rows_of(0, swap(1, 2)).await?;
    let proof = Run::new("MATCH (m:__mainstay) SET m.proof = $id").with("id", 42);
    c.rows_of(0, proof).await?;
    let read = c
        .rows(1, "MATCH (m:__mainstay) RETURN m.term AS term, m.proof AS proof")
        .await?;
    expect(
        read == [[Value::Int(2), Value::Int(42)]],
        format!("the replica should show term 2 and proof 42, shows {read:?}"),
    )
}

pub(super) async fn mark_swap(c: &mut Cluster) -> Result<(), Trouble> {
    marked(c).await?;
    let (mut one, mut other) = (c.client(0).await?, c.client(0).await?);
    let (won, lost) = (one.run(&swap(1, 2)).await?, other.run(&swap(1, 3)).await?);
    expect(
        won.rows().is_some_and(|rows| rows.len() == 1),
        format!("the first should win: {won:?}"),
    )?;
    expect(
        lost.rows().is_some_and(<[_]>::is_empty),
        format!("the second should change nothing: {lost:?}"),
    )
}

pub(super) async fn fence(c: &mut Cluster) -> Result<(), Trouble> {
    c.pair("STRICT_SYNC").await?;
    c.write(0, 1).await?;
    c.promote(1).await?;
    c.refused_with(0, "CREATE (:W {id: 2})", "aborted on all instances")
        .await?;
    c.kill(0).await?;
    c.begin(0, &[]).await?;
    c.role(0, "main").await?;
    c.refused_with(0, "CREATE (:W {id: 3})", "aborted on all instances")
        .await?;
    c.has(0, &[1]).await?;
    c.write(1, 4).await?;
    c.demote(0).await?;
    c.register(1, "STRICT_SYNC", 0).await?;
    c.until(1, 0, "ready").await?;
    c.has(0, &[1, 4]).await
}

pub(super) async fn late_drop(c: &mut Cluster) -> Result<(), Trouble> {
    c.demote(1).await?;
    let port = c.replication_port(1)?;
    let register =
        |generation: u8| format!("REGISTER REPLICA ha_1_g{generation} STRICT_SYNC TO '127.0.0.1:{port}'");
    c.rows(0, &register(1)).await?;
    c.rows(0, "DROP REPLICA ha_1_g1").await?;
    c.rows(0, &register(2)).await?;
    c.refused_with(
        0,
        "DROP REPLICA ha_1_g1",
        "Failed to unregister the replica ha_1_g1.",
    )
    .await?;
    c.write(0, 1).await?;
    c.has(1, &[1]).await
}

pub(super) async fn names(c: &mut Cluster) -> Result<(), Trouble> {
    c.demote(1).await?;
    let port = c.replication_port(1)?;
    let hyphen = format!("REGISTER REPLICA ha-1-g1 ASYNC TO '127.0.0.1:{port}'");
    c.refused_with(0, &hyphen, "mismatched input '-'").await?;
    let quoted = format!("REGISTER REPLICA `ha-1-g1` ASYNC TO '127.0.0.1:{port}'");
    c.rows(0, &quoted).await?;
    let rows = c.rows(0, "SHOW REPLICAS").await?;
    let shown = rows.first().and_then(|row| row.first()).and_then(Value::as_str);
    expect(shown == Some("ha-1-g1"), format!("shown as {shown:?}"))?;
    let other = format!("REGISTER REPLICA other ASYNC TO '127.0.0.1:{port}'");
    c.refused_with(0, &other, "Error: 2").await
}

pub(super) async fn run_id(c: &mut Cluster) -> Result<(), Trouble> {
    let first = id(c).await?;
    expect(id(c).await? == first, "another run_id in the same process")?;
    c.kill(0).await?;
    c.begin(0, &[]).await?;
    expect(id(c).await? != first, "the same run_id in another process")
}

async fn id(c: &mut Cluster) -> Result<String, Trouble> {
    match c.ask(0, "RETURN 1").await? {
        Outcome::Done(table) => table
            .summary
            .get("run_id")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .ok_or_else(|| Trouble::Different("no run_id in the summary".to_owned())),
        Outcome::Refused { failure, .. } => Err(Trouble::Different(failure.to_string())),
    }
}

pub(super) async fn users(c: &mut Cluster) -> Result<(), Trouble> {
    c.rows(1, "CREATE USER admin IDENTIFIED BY 'secret'").await?;
    let address = {
        // The first login with the password; afterwards everybody gets in.
        let client = c.client(1).await;
        expect(client.is_err(), "a stranger got in although there is a user")?;
        c.bolt(1)?
    };
    let mut admin = Client::connect(address, Auth::basic("admin", "secret")).await?;
    let port = c.replication_port(1)?;
    admin
        .query(&format!("SET REPLICATION ROLE TO REPLICA WITH PORT {port}"))
        .await?;
    c.register(0, "ASYNC", 1).await?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while c.client(1).await.is_err() {
        expect(
            Instant::now() < deadline,
            "the users of the replica are still there",
        )?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let rows = c.rows(1, "SHOW USERS").await?;
    expect(rows.is_empty(), format!("users are left: {rows:?}"))
}

pub(super) async fn replica_refuses(c: &mut Cluster) -> Result<(), Trouble> {
    c.pair("ASYNC").await?;
    let (message, code, on) = c.refusal(1, "CREATE (:W {id: 1})").await?;
    expect(on == "RUN", format!("refused on {on}"))?;
    expect(code.contains("ClientError"), format!("the code is {code}"))?;
    expect(
        message.starts_with("Write queries are forbidden on the replica instance."),
        format!("the text is {message}"),
    )
}
