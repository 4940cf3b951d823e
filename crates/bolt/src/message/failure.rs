//! What went wrong, as a server says it.

use std::borrow::Cow;
use std::fmt;

/// A FAILURE: a code for programs and a message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    /// Four words with dots between them; the second is the class.
    pub code: Cow<'a, str>,
    /// What a person should read.
    pub message: Cow<'a, str>,
}

/// What a client should make of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// The request is wrong: the same request will fail again.
    Client,
    /// Trying again may help.
    Transient,
    /// The server is in trouble.
    Database,
    /// A code of another form, such as `Memgraph.ExecutionException`.
    Other,
}

impl<'a> Failure<'a> {
    /// A failure with the given code and message.
    pub fn new(code: impl Into<Cow<'a, str>>, message: impl Into<Cow<'a, str>>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
        }
    }

    /// A failure that drivers do not retry.
    pub fn client(message: impl Into<Cow<'a, str>>) -> Self {
        Self::new("Memgraph.ClientError.MemgraphError.MemgraphError", message)
    }

    /// A failure that drivers retry.
    pub fn transient(message: impl Into<Cow<'a, str>>) -> Self {
        Self::new("Memgraph.TransientError.MemgraphError.MemgraphError", message)
    }

    /// What a client should make of it.
    pub fn class(&self) -> FailureClass {
        match self.code.split('.').nth(1) {
            Some("ClientError") => FailureClass::Client,
            Some("TransientError") => FailureClass::Transient,
            Some("DatabaseError") => FailureClass::Database,
            _ => FailureClass::Other,
        }
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Failure<'static> {
        let Self { code, message } = self;
        Failure::new(code.into_owned(), message.into_owned())
    }
}

/// The failures Memgraph's sessions produce themselves, word for word.
impl Failure<'static> {
    /// Something the session did not expect. The connection is closed after it.
    pub const UNEXPECTED: Self = Self::fixed(
        "Memgraph.ExecutionException",
        "Something went wrong while executing the query! Check the server logs for more details.",
    );
    /// Name or password are wrong. The connection is closed after it.
    pub const UNAUTHENTICATED: Self = Self::fixed(
        "Memgraph.ClientError.Security.Unauthenticated",
        "Authentication failure",
    );
    /// COMMIT without BEGIN.
    pub const NOTHING_TO_COMMIT: Self = Self::fixed(
        "Memgraph.ClientError.MemgraphError.MemgraphError",
        "No current transaction to commit.",
    );
    /// ROLLBACK without BEGIN.
    pub const NOTHING_TO_ROLL_BACK: Self = Self::fixed(
        "Memgraph.ClientError.MemgraphError.MemgraphError",
        "No current transaction to rollback.",
    );
    /// BEGIN in a transaction.
    pub const NESTED_TRANSACTION: Self = Self::fixed(
        "Memgraph.ClientError.MemgraphError.MemgraphError",
        "Nested transactions are not supported.",
    );
    /// ROUTE on an instance that no coordinator manages.
    pub const NOT_IN_A_CLUSTER: Self = Self::fixed(
        "Memgraph.TransientError.MemgraphError.MemgraphError",
        "You cannot fetch routing table from an instance which is not part of a cluster.",
    );

    const fn fixed(code: &'static str, message: &'static str) -> Self {
        Self {
            code: Cow::Borrowed(code),
            message: Cow::Borrowed(message),
        }
    }
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}
