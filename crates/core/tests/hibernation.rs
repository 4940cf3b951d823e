//! Hibernation, by the acceptance scenarios that need no I/O. Each test carries the number of its scenario.
//!
//! Shown elsewhere: 1 to 17, 19 and 20 in `schedule.rs`; 26 to 28 (the table) in `save.rs`; 49 in `ids.rs`; 23, 30, 36,
//! 38, 39, 53 again, with every crash, in the simulation (`crates/sim/tests/hibernation.rs`).
//!
//! Need I/O, and come with the operator's shell and its executors: 24 (a NodePool), 62 and 82 beyond what an executor
//! says of a resource (who claims it, what protects it), 77 and 78 (HPA, KEDA), 81 (a dry run touches nothing), 83 and
//! 84 (databases), and of 85 the Events and metrics made of the reasons. 87 (savings) is not built.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets a surprise should stop"
)]

mod hibernation {
    mod bed;
    mod capture;
    mod execution;
    mod judged;
    mod points;
    mod suspension;
}
