//! Rows that were acknowledged, and have to be there.

use anyhow::{Context, Result, ensure};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::host_filter::AllowListHostFilter;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Keyspaces, and how often each keeps its rows.
const KEYSPACES: [(&str, u8); 2] = [("three", 3), ("two", 2)];

/// What was acknowledged, by keyspace.
#[derive(Default)]
pub(crate) struct Rows {
    three: BTreeSet<i32>,
    two: BTreeSet<i32>,
}

/// One node coordinates, and no other.
async fn session(at: IpAddr) -> Result<Session> {
    let node = SocketAddr::new(at, 9042);
    let profile = ExecutionProfile::builder()
        .request_timeout(Some(Duration::from_secs(20)))
        .build();
    let session = SessionBuilder::new()
        .known_node_addr(node)
        .host_filter(Arc::new(AllowListHostFilter::new([node])?))
        .connection_timeout(Duration::from_secs(10))
        .default_execution_profile_handle(profile.into_handle())
        .build()
        .await?;
    Ok(session)
}

async fn run(session: &Session, text: String, consistency: Consistency) -> Result<()> {
    let mut statement = Statement::new(text.clone());
    statement.set_consistency(consistency);
    session.query_unpaged(statement, ()).await.context(text)?;
    Ok(())
}

impl Rows {
    /// Two tables with 300 rows each, written at ALL.
    pub(crate) async fn begin(&mut self, at: IpAddr) -> Result<()> {
        let session = session(at).await?;
        for (name, copies) in KEYSPACES {
            let keyspace = format!(
                "CREATE KEYSPACE {name} WITH replication = \
                 {{'class': 'NetworkTopologyStrategy', 'dc1': {copies}}}"
            );
            run(&session, keyspace, Consistency::All).await?;
            let table = format!("CREATE TABLE {name}.t (k int PRIMARY KEY, v text)");
            run(&session, table, Consistency::All).await?;
        }
        for k in 0..300 {
            for (name, _) in KEYSPACES {
                run(&session, insert(name, k), Consistency::All).await?;
            }
            self.three.insert(k);
            self.two.insert(k);
        }
        Ok(())
    }

    /// Twenty more, at QUORUM, where one of three may be away.
    pub(crate) async fn write_some(&mut self, at: IpAddr) -> Result<()> {
        let session = session(at).await?;
        let from = self.three.last().map_or(0, |k| k + 1);
        for k in from..from + 20 {
            run(&session, insert("three", k), Consistency::Quorum).await?;
            self.three.insert(k);
        }
        Ok(())
    }

    /// Is every row there, asked of all who keep it?
    pub(crate) async fn read_all(&self, at: IpAddr) -> Result<()> {
        let session = session(at).await?;
        for (name, wanted) in [("three", &self.three), ("two", &self.two)] {
            let mut statement = Statement::new(format!("SELECT k, v FROM {name}.t"));
            statement.set_consistency(Consistency::All);
            let found = session.query_unpaged(statement, ()).await?.into_rows_result()?;
            let mut keys = BTreeSet::new();
            for row in found.rows::<(i32, String)>()? {
                let (k, v) = row?;
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
