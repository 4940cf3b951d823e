//! Which server to be.

use crate::frame::DEFAULT_MAX_MESSAGE;
use crate::packstream::Limits;
use crate::version::Version;
use std::time::Duration;

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The habits of the release to imitate.
    pub profile: ServerProfile,
    /// The name to give; none if the server has none, as Memgraph before 2.11.
    pub server_name: Option<String>,
    /// The id of every connection. Memgraph says `bolt-1` to everyone.
    pub connection_id: String,
    /// How long a client may be silent while the server waits for it; for ever if not said.
    pub idle_timeout: Option<Duration>,
    /// The largest message to accept, in bytes.
    pub max_message: usize,
    /// How many bytes may wait while a request is carried out. A client that
    /// sends more is cut off; a caller that heeds
    /// [`super::ServerSession::wants_input`] and reads at most half of this at
    /// once never gets there.
    pub max_inbox: usize,
    /// Bounds on the values of one message.
    pub limits: Limits,
}

impl ServerConfig {
    /// A server with the habits of `profile` and otherwise Memgraph's defaults.
    pub fn new(profile: ServerProfile) -> Self {
        Self {
            profile,
            server_name: Some("Neo4j/v5.11.0 compatible graph database server - Memgraph".to_owned()),
            connection_id: "bolt-1".to_owned(),
            idle_timeout: None,
            max_message: DEFAULT_MAX_MESSAGE,
            max_inbox: 1024 * 1024,
            limits: Limits::DEFAULT,
        }
    }
}

/// What differs between releases of Memgraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerProfile {
    /// The versions it speaks.
    pub versions: &'static [Version],
    /// What it says to LOGOFF.
    pub logoff: LogoffReply,
    /// Which ROUTE it understands on 4.3.
    pub route: RouteRule,
}

impl ServerProfile {
    /// As recorded from 3.6.2.
    pub const MEMGRAPH_3_6: Self = Self {
        versions: &[
            Version::V1_0,
            Version::V4_0,
            Version::V4_1,
            Version::V4_3,
            Version::V5_2,
        ],
        logoff: LogoffReply::Silence,
        route: RouteRule::NameOnly,
    };
    /// As recorded from 3.12.0.
    pub const MEMGRAPH_3_12: Self = Self {
        versions: &[
            Version::V1_0,
            Version::V4_0,
            Version::V4_1,
            Version::V4_3,
            Version::V4_4,
            Version::V5_2,
        ],
        logoff: LogoffReply::Success,
        route: RouteRule::Any,
    };
}

/// What LOGOFF leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogoffReply {
    /// Nothing: a client that waits for an answer waits for ever (up to 3.6 at least).
    Silence,
    /// SUCCESS.
    Success,
}

/// Which last field of ROUTE is understood on Bolt 4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteRule {
    /// Only a name; for anything else the connection is closed without a word (up to 3.6 at least).
    NameOnly,
    /// A name, null or a map.
    Any,
}
