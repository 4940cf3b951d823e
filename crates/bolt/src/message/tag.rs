//! The byte that says which message it is.

/// HELLO; INIT in version 1.
pub const HELLO: u8 = 0x01;
/// GOODBYE: the client leaves.
pub const GOODBYE: u8 = 0x02;
/// ACK_FAILURE: only in version 1.
pub const ACK_FAILURE: u8 = 0x0E;
/// RESET: forget failure, results and transaction.
pub const RESET: u8 = 0x0F;
/// RUN: prepare a query.
pub const RUN: u8 = 0x10;
/// BEGIN a transaction.
pub const BEGIN: u8 = 0x11;
/// COMMIT a transaction.
pub const COMMIT: u8 = 0x12;
/// ROLLBACK a transaction.
pub const ROLLBACK: u8 = 0x13;
/// DISCARD results; DISCARD_ALL in version 1.
pub const DISCARD: u8 = 0x2F;
/// PULL results; PULL_ALL in version 1.
pub const PULL: u8 = 0x3F;
/// TELEMETRY: which API of the driver is in use.
pub const TELEMETRY: u8 = 0x54;
/// ROUTE: who serves what.
pub const ROUTE: u8 = 0x66;
/// LOGON: who the client is.
pub const LOGON: u8 = 0x6A;
/// LOGOFF: the client is nobody again.
pub const LOGOFF: u8 = 0x6B;

/// SUCCESS, with metadata.
pub const SUCCESS: u8 = 0x70;
/// RECORD: one row.
pub const RECORD: u8 = 0x71;
/// IGNORED, because something failed before.
pub const IGNORED: u8 = 0x7E;
/// FAILURE, with code and message.
pub const FAILURE: u8 = 0x7F;
