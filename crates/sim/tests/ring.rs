//! The ring, from the outside: scenarios on the model, named by their number in the acceptance list (S: it must work,
//! N: nothing may be replaced), and the simulation.
//!
//! Shown elsewhere, without a world: S8 and N20 in `mainstay-core` (`record`, `options`), N3, N4, N9, N11, N13, N15, N17
//! to N19 and N21 in its `tests/ring`. Not shown here, because they need processes and a network: what a pod of an
//! older version does without a gate (N23), and every scenario against a real Cassandra or a real Scylla. S13, N14,
//! N16, N22 and N24 are not given in the list.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets a surprise should stop"
)]

mod ring {
    mod bench;
    mod ghost;
    mod holds;
    mod simulation;
    mod sources;
    mod works;
}
