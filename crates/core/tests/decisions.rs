//! What the Memgraph protocol decides, as tables of named situations.
//!
//! Every situation begins with a healthy, protected cluster of three pods and changes one or two things. Its
//! plan is written out in full (reasons, steps, records, what a refusal means, when to look again), so that
//! a change of behaviour is read as text in the snapshots, one file per concern.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets a surprise should stop"
)]
#![allow(
    clippy::too_many_lines,
    reason = "a table has as many rows as it has situations"
)]

#[path = "shared/named.rs"]
mod named;

mod decisions {
    mod acceptance;
    mod async_pods;
    mod bootstrap;
    mod cluster;
    mod executor;
    mod failover;
    mod faults;
    mod held_up;
    mod hibernation;
    mod lost_record;
    mod overriding;
    mod pair_join;
    mod pair_protected;
    mod pair_strict;
    mod paused;
    mod quarantines;
    mod reads;
    mod render;
    mod resets;
    mod rolling;
    #[cfg(feature = "rule-switches")]
    mod rule_switches;
    mod shown;
    mod switchover;
    mod terms;
    mod unread;
    mod wishes;
}
