//! Protocol versions, and what each of them knows.

use std::fmt;

/// A Bolt version, as agreed in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Changes when messages change.
    pub major: u8,
    /// Changes when messages are added.
    pub minor: u8,
}

impl Version {
    /// Bolt 1.0: INIT, RUN without extra, PULL_ALL and ACK_FAILURE.
    pub const V1_0: Self = Self::new(1, 0);
    /// Bolt 4.0: PULL and DISCARD in pages.
    pub const V4_0: Self = Self::new(4, 0);
    /// Bolt 4.1: NOOP chunks.
    pub const V4_1: Self = Self::new(4, 1);
    /// Bolt 4.3: ROUTE.
    pub const V4_3: Self = Self::new(4, 3);
    /// Bolt 4.4: ROUTE with a map as its last field.
    pub const V4_4: Self = Self::new(4, 4);
    /// Bolt 5.0: element ids, times in UTC.
    pub const V5_0: Self = Self::new(5, 0);
    /// Bolt 5.1: LOGON and LOGOFF.
    pub const V5_1: Self = Self::new(5, 1);
    /// Bolt 5.2: the newest version Memgraph speaks.
    pub const V5_2: Self = Self::new(5, 2);
    /// Bolt 5.4: TELEMETRY.
    pub const V5_4: Self = Self::new(5, 4);

    /// The version `major.minor`.
    pub const fn new(major: u8, minor: u8) -> Self {
        Self { major, minor }
    }

    /// Whether HELLO comes without credentials and LOGON brings them.
    pub fn has_logon(self) -> bool {
        self >= Self::V5_1
    }

    /// Whether ROUTE exists.
    pub fn has_route(self) -> bool {
        self >= Self::V4_3
    }

    /// Whether TELEMETRY exists.
    pub fn has_telemetry(self) -> bool {
        self >= Self::V5_4
    }

    /// Whether PULL and DISCARD say how many records they mean.
    pub fn has_pages(self) -> bool {
        self >= Self::V4_0
    }

    /// Whether HELLO, GOODBYE, BEGIN, COMMIT and ROLLBACK exist, and RUN has a third field.
    pub fn has_transactions(self) -> bool {
        self.major >= 3
    }

    /// Whether a failure is cleared by ACK_FAILURE as well as by RESET.
    pub fn has_ack_failure(self) -> bool {
        self.major < 3
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
