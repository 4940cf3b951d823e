//! What is asked of a database, and how its answers are read.

use crate::bolt::Connection;
use crate::bolt::cells::{only_number, rows};
use api::memgraph::Memgraph;
use bolt::client::{ClientError, QueryResult};
use bolt::packstream::Value;
use mainstay_core::memgraph::ids::{ProofId, Term};
use mainstay_core::memgraph::observed::{Data, Mark, Role};
use mainstay_core::memgraph::rows::{Replica, RowError, StorageInfo};
use std::time::Duration;
use thiserror::Error;

/// The role. Needs no storage transaction, so it is answered while a commit hangs.
pub const SHOW_ROLE: &str = "SHOW REPLICATION ROLE";
/// The registrations, on a MAIN.
pub const SHOW_REPLICAS: &str = "SHOW REPLICAS";
/// The mark: one vertex that carries the term and the last proof.
pub const READ_MARK: &str = "MATCH (m:__mainstay) RETURN m.term AS term, m.proof AS proof";
/// Promotion.
pub const PROMOTE: &str = "SET REPLICATION ROLE TO MAIN";

/// Demotion; also what makes a pod REPLICA before Bolt opens.
pub fn demote(port: u16) -> String {
    format!("SET REPLICATION ROLE TO REPLICA WITH PORT {port}")
}

const STORAGE_3_11: &str = "SHOW STORAGE INFO ON CURRENT DATABASE";
const STORAGE_3_6: &str = "SHOW STORAGE INFO";
const SHOW_SNAPSHOTS: &str = "SHOW SNAPSHOTS";

/// Why a question has no answer.
#[derive(Debug, Error)]
pub enum AskError {
    /// The connection, or the server's word.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The answer cannot be understood.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The answer has another form than any version gives it.
    #[error("{0}")]
    Form(&'static str),
}

impl AskError {
    /// Was there no answer at all?
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Client(error) if error.leaves_outcome_unknown())
    }
}

/// The role, and which run of the server said so.
pub async fn role(connection: &mut Connection, patience: Duration) -> Result<(Role, String), AskError> {
    let result = connection.query(SHOW_ROLE, patience).await?;
    let run = result
        .summary
        .run_id()
        .ok_or(AskError::Form(
            "the summary has no run_id: Memgraph 3.6 or later is needed",
        ))?
        .to_owned();
    let role = match first_text(&result) {
        Some("main") => Role::Main,
        Some("replica") => Role::Replica,
        _ => return Err(AskError::Form("the role is neither main nor replica")),
    };
    Ok((role, run))
}

fn first_text(result: &QueryResult) -> Option<&str> {
    result.records.first()?.first()?.as_str()
}

/// The registrations of ours. Others are left alone, and named in the log.
pub async fn replicas(
    connection: &mut Connection,
    prefix: &str,
    patience: Duration,
) -> Result<Vec<Replica>, AskError> {
    let result = connection.query(SHOW_REPLICAS, patience).await?;
    let columns: Vec<&str> = result.fields.iter().map(String::as_str).collect();
    let mut found = Vec::new();
    for row in rows(&result) {
        match Replica::read(prefix, &columns, &row) {
            Ok(replica) => found.push(replica),
            Err(RowError::Name(error)) => {
                tracing::warn!(%error, "a registration that is not ours is left alone");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// What needs a storage transaction.
pub async fn data(
    connection: &mut Connection,
    declared: Option<Memgraph>,
    patience: Duration,
) -> Result<Data, AskError> {
    let storage = storage(connection, declared, patience).await?;
    let (mark, marks) = mark(connection, patience).await?;
    let snapshots = match connection.query(SHOW_SNAPSHOTS, patience).await {
        Ok(result) => !result.records.is_empty(),
        // A server that will not say may have one: then a person decides, nobody is reset (R26).
        Err(ClientError::ServerFailure(_)) => true,
        Err(error) => return Err(error.into()),
    };
    Ok(Data {
        database: storage.database,
        mark,
        empty: storage.vertices == marks && storage.edges == 0,
        snapshots,
    })
}

/// The form of the declared version first: an error in the log of a database at every probe is one that hides others. The
/// other form if that does not say it: a pod may still have the version before.
async fn storage(
    connection: &mut Connection,
    declared: Option<Memgraph>,
    patience: Duration,
) -> Result<StorageInfo, AskError> {
    let [first, second] = storage_forms(declared);
    match connection.query(first, patience).await {
        // A syntax error before 3.11, where the plain form has everything.
        Err(ClientError::ServerFailure(_)) => {}
        Err(error) => return Err(error.into()),
        Ok(result) => {
            if let Ok(read) = StorageInfo::read(&rows(&result)) {
                return Ok(read);
            }
        }
    }
    let result = connection.query(second, patience).await?;
    Ok(StorageInfo::read(&rows(&result))?)
}

fn storage_forms(declared: Option<Memgraph>) -> [&'static str; 2] {
    let newer = Memgraph { major: 3, minor: 11 };
    if declared.is_some_and(|declared| declared < newer) {
        [STORAGE_3_6, STORAGE_3_11]
    } else {
        [STORAGE_3_11, STORAGE_3_6]
    }
}

/// The mark, and how many vertices are marks.
pub async fn mark(connection: &mut Connection, patience: Duration) -> Result<(Option<Mark>, u64), AskError> {
    let result = connection.query(READ_MARK, patience).await?;
    match result.records.as_slice() {
        [] => Ok((None, 0)),
        [row] => {
            let number = |column: usize| {
                let value = row.get(column).and_then(Value::as_int);
                value.and_then(|n| u64::try_from(n).ok())
            };
            let term = number(0).ok_or(AskError::Form("the mark has no term"))?;
            let mark = Mark {
                term: Term(term),
                proof: ProofId(number(1).unwrap_or_default()),
            };
            Ok((Some(mark), 1))
        }
        _ => Err(AskError::Form("there are two marks: somebody copied it")),
    }
}

/// The only number of a result.
pub fn number(result: &QueryResult) -> Option<i64> {
    only_number(result, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declared_version_says_how_storage_is_asked_for_first() {
        let first = |minor| storage_forms(Some(Memgraph { major: 3, minor }))[0];
        assert_eq!((first(6), first(10)), (STORAGE_3_6, STORAGE_3_6));
        assert_eq!((first(11), first(12)), (STORAGE_3_11, STORAGE_3_11));
        assert_eq!(storage_forms(None)[0], STORAGE_3_11);
    }
}
