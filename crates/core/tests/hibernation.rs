//! Hibernation, by the acceptance scenarios that need no I/O. Each test carries the number of its scenario.
//!
//! `docs/hibernation-scenarios.md` says where each number is shown.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets a surprise should stop"
)]

#[path = "shared/named.rs"]
mod named;

mod hibernation {
    mod bed;
    mod capture;
    mod execution;
    mod fenced;
    mod judged;
    mod lost;
    mod marks;
    mod points;
    mod recognised;
    mod suspension;
    mod table;
    mod unseen;
}
