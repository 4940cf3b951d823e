//! Rows that were acknowledged, and have to be there.

use anyhow::{Context, Result, ensure};
use operator::ring::cassandra::{Consistency, Cql};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Keyspaces, and how often each keeps its rows.
const KEYSPACES: [(&str, u8); 2] = [("three", 3), ("two", 2)];
/// For a change of the schema on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was acknowledged, by keyspace.
#[derive(Default)]
pub(crate) struct Rows {
    three: BTreeSet<i32>,
    two: BTreeSet<i32>,
}

/// As a client does: what was not acknowledged is written again. A table that was just made is not known everywhere yet.
async fn run(cql: &mut Cql, statement: &str, consistency: Consistency) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let done = cql.run(statement, consistency).await;
        if done.is_ok() || Instant::now() > deadline {
            return done.map(drop).with_context(|| statement.to_owned());
        }
        sleep(Duration::from_millis(500)).await;
    }
}

impl Rows {
    /// Two tables with 300 rows each, written at ALL.
    pub(crate) async fn begin(&mut self, at: IpAddr) -> Result<()> {
        let mut cql = Cql::connect(at, PATIENCE).await?;
        for (name, copies) in KEYSPACES {
            let keyspace = format!(
                "CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = \
                 {{'class': 'NetworkTopologyStrategy', 'dc1': {copies}}}"
            );
            run(&mut cql, &keyspace, Consistency::All).await?;
            let table = format!("CREATE TABLE IF NOT EXISTS {name}.t (k int PRIMARY KEY, v text)");
            run(&mut cql, &table, Consistency::All).await?;
        }
        for k in 0..300 {
            for (name, _) in KEYSPACES {
                run(&mut cql, &insert(name, k), Consistency::All).await?;
            }
            self.three.insert(k);
            self.two.insert(k);
        }
        Ok(())
    }

    /// Twenty more, at QUORUM, where one of three may be away.
    pub(crate) async fn write_some(&mut self, at: IpAddr) -> Result<()> {
        let mut cql = Cql::connect(at, PATIENCE).await?;
        let from = self.three.last().map_or(0, |k| k + 1);
        for k in from..from + 20 {
            run(&mut cql, &insert("three", k), Consistency::Quorum).await?;
            self.three.insert(k);
        }
        Ok(())
    }

    /// Is every row there, asked of all who keep it?
    pub(crate) async fn read_all(&self, at: IpAddr) -> Result<()> {
        let mut cql = Cql::connect(at, PATIENCE).await?;
        for (name, wanted) in [("three", &self.three), ("two", &self.two)] {
            let statement = format!("SELECT k, v FROM {name}.t");
            let mut keys = BTreeSet::new();
            for row in cql.run(&statement, Consistency::All).await? {
                let (k, v) = (row.int(0)?.context("no k")?, row.text(1)?.context("no v")?);
                ensure!(v == value(k), "{name}: row {k} holds {v}");
                keys.insert(k);
            }
            let missing: Vec<&i32> = wanted.difference(&keys).collect();
            ensure!(
                missing.is_empty(),
                "{name}: {} of {} rows are gone: {missing:?}",
                missing.len(),
                wanted.len()
            );
        }
        Ok(())
    }
}

fn value(k: i32) -> String {
    format!("row {k}")
}

fn insert(keyspace: &str, k: i32) -> String {
    format!("INSERT INTO {keyspace}.t (k, v) VALUES ({k}, '{}')", value(k))
}
