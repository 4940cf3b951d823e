//! What goes into a client session and what comes out.

use super::ClientError;
use crate::packstream::{OwnedDict, OwnedValue, Value};
use crate::version::Version;

/// What happened to the connection.
#[derive(Clone, Copy, Debug)]
pub enum ClientInput<'a> {
    /// Bytes came.
    Bytes(&'a [u8]),
    /// Time passed.
    Tick,
    /// The connection was closed by the peer or broke.
    Closed,
}

/// What to do, or what happened.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientOutput {
    /// Send these bytes.
    Transmit(Vec<u8>),
    /// The login worked: requests are accepted from now on.
    Ready {
        /// What is spoken.
        version: Version,
        /// Who answers.
        server: ServerInfo,
    },
    /// A request is done.
    Finished {
        /// Which one.
        request: RequestId,
        /// How it went.
        outcome: Result<Answer, ClientError>,
    },
    /// The session is over: close the connection. Nothing comes after this.
    Closed(Result<(), ClientError>),
}

/// Names a request within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub(super) u64);

/// What a request led to.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Rows.
    Query(QueryResult),
    /// BEGIN, COMMIT, ROLLBACK or RESET was carried out.
    Done(Summary),
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryResult {
    /// The names of the columns.
    pub fields: Vec<String>,
    /// The rows.
    pub records: Vec<Vec<OwnedValue>>,
    /// What the server says about it.
    pub summary: Summary,
}

/// What a server says about a request it carried out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary(pub OwnedDict);

impl Summary {
    /// The life of the server process: another id means that it was restarted.
    pub fn run_id(&self) -> Option<&str> {
        self.text("run_id")
    }

    /// The database the query ran on.
    pub fn database(&self) -> Option<&str> {
        self.text("db")
    }

    /// Whether there are more records to pull.
    pub fn has_more(&self) -> bool {
        self.0.get("has_more").and_then(Value::as_bool).unwrap_or(false)
    }

    /// What the server wants people to know: severity, code, title, description.
    pub fn notifications(&self) -> &[OwnedValue] {
        self.0
            .get("notifications")
            .and_then(Value::as_list)
            .unwrap_or_default()
    }

    /// What the query changed, such as `nodes-created`. Missing means zero.
    pub fn stat(&self, name: &str) -> i64 {
        let stats = self.0.get("stats").and_then(Value::as_dict);
        stats
            .and_then(|stats| stats.get(name))
            .and_then(Value::as_int)
            .unwrap_or(0)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }
}

/// What a server says about itself when a client logs in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerInfo(pub OwnedDict);

impl ServerInfo {
    /// The name of the server; Memgraph gives that of a compatible Neo4j, and none at all before 2.11.
    pub fn name(&self) -> Option<&str> {
        self.0.get("server").and_then(Value::as_str)
    }
}
