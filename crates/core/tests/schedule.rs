//! The schedule: against a clock that is read minute by minute, and by the acceptance scenarios.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets a surprise should stop"
)]

#[path = "schedule/oracle.rs"]
mod oracle;
#[path = "schedule/random.rs"]
mod random;
#[path = "schedule/scenarios.rs"]
mod scenarios;
