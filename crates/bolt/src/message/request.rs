//! What a client may ask.

use super::{Auth, tag};
use crate::packstream::{Dict, Value};
use std::borrow::Cow;

/// A message from a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    /// The first message.
    Hello(Hello<'a>),
    /// Who the client is (from 5.1 on).
    Logon(Auth<'a>),
    /// The client is nobody again (from 5.1 on).
    Logoff,
    /// The client leaves.
    Goodbye,
    /// Forget failure, results and transaction.
    Reset,
    /// Forget the failure (version 1).
    AckFailure,
    /// Prepare a query.
    Run(Run<'a>),
    /// Begin a transaction.
    Begin(Extra<'a>),
    /// Commit the transaction.
    Commit,
    /// Roll the transaction back.
    Rollback,
    /// Drop records. PULL_ALL and DISCARD_ALL of version 1 are these without a limit.
    Discard(Fetch),
    /// Send records.
    Pull(Fetch),
    /// Who serves what (from 4.3 on).
    Route(Route<'a>),
    /// Which API of the driver is in use (from 5.4 on).
    Telemetry(i64),
}

impl Request<'_> {
    /// The byte that says which message it is.
    pub const fn tag(&self) -> u8 {
        match self {
            Self::Hello(_) => tag::HELLO,
            Self::Logon(_) => tag::LOGON,
            Self::Logoff => tag::LOGOFF,
            Self::Goodbye => tag::GOODBYE,
            Self::Reset => tag::RESET,
            Self::AckFailure => tag::ACK_FAILURE,
            Self::Run(_) => tag::RUN,
            Self::Begin(_) => tag::BEGIN,
            Self::Commit => tag::COMMIT,
            Self::Rollback => tag::ROLLBACK,
            Self::Discard(_) => tag::DISCARD,
            Self::Pull(_) => tag::PULL,
            Self::Route(_) => tag::ROUTE,
            Self::Telemetry(_) => tag::TELEMETRY,
        }
    }
}

/// HELLO, or INIT in version 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Hello<'a> {
    /// The name of the client. Memgraph closes the connection if it is missing.
    pub user_agent: Cow<'a, str>,
    /// Who the client is. Before 5.1 always; from then on LOGON says it.
    pub auth: Option<Auth<'a>>,
    /// Everything else: routing context, patches, notification filters.
    pub extra: Dict<'a>,
}

/// RUN.
#[derive(Clone, Debug, PartialEq)]
pub struct Run<'a> {
    /// The query.
    pub query: Cow<'a, str>,
    /// Its parameters.
    pub parameters: Dict<'a>,
    /// How to run it; empty in version 1.
    pub extra: Extra<'a>,
}

impl<'a> Run<'a> {
    /// `query`, without parameters.
    pub fn new(query: impl Into<Cow<'a, str>>) -> Self {
        Self {
            query: query.into(),
            parameters: Dict::new(),
            extra: Extra::default(),
        }
    }

    /// The same with one more parameter.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Value<'a>>) -> Self {
        self.parameters.insert(name.into(), value.into());
        self
    }
}

/// How a query or a transaction should be run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra<'a>(pub Dict<'a>);

/// What a transaction is going to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessMode {
    /// Read and write.
    #[default]
    Write,
    /// Only read.
    Read,
}

impl Extra<'_> {
    /// The database to use, if one is named.
    pub fn database(&self) -> Option<&str> {
        self.0.get("db").and_then(Value::as_str)
    }

    /// What the transaction is going to do.
    pub fn mode(&self) -> AccessMode {
        match self.0.get("mode").and_then(Value::as_str) {
            Some("r") => AccessMode::Read,
            _ => AccessMode::Write,
        }
    }

    /// How many milliseconds the transaction may take, if that is limited.
    pub fn timeout_millis(&self) -> Option<i64> {
        self.0.get("tx_timeout").and_then(Value::as_int)
    }
}

/// The number of a query within an explicit transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Qid(pub i64);

/// PULL or DISCARD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// How many records.
    pub amount: Amount,
    /// Of which query; the last one if not said.
    pub qid: Option<Qid>,
}

impl Fetch {
    /// All records of the last query.
    pub const ALL: Self = Self {
        amount: Amount::All,
        qid: None,
    };
}

/// A number of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// All there are.
    All,
    /// At most so many.
    AtMost(u64),
}

/// ROUTE.
#[derive(Clone, Debug, PartialEq)]
pub struct Route<'a> {
    /// How the client came here; `address` is what it connected to.
    pub context: Dict<'a>,
    /// What the client has already seen.
    pub bookmarks: Vec<Cow<'a, str>>,
    /// For which database.
    pub target: RouteTarget<'a>,
}

/// The last field of ROUTE. It is kept as it came, because Memgraph up to 3.6
/// closes the connection on 4.3 unless it is a name.
#[derive(Clone, Debug, PartialEq)]
pub enum RouteTarget<'a> {
    /// Null: the default database.
    Default,
    /// A name (4.3).
    Database(Cow<'a, str>),
    /// A map with `db` and more (from 4.4 on).
    Extra(Extra<'a>),
}

impl RouteTarget<'_> {
    /// The database, if one is named.
    pub fn database(&self) -> Option<&str> {
        match self {
            Self::Default => None,
            Self::Database(name) => Some(name),
            Self::Extra(extra) => extra.database(),
        }
    }
}
