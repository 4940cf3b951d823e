//! What the ring decides, situation by situation: a whole ring of three, one thing changed. Named by their number in
//! the acceptance list (N: nothing may be replaced). What needs time and a database is in the tests of `sim`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets a surprise should stop"
)]

#[path = "shared/named.rs"]
mod named;

mod ring {
    mod attended;
    mod ends;
    mod expiry;
    mod gate;
    mod hibernate;
    mod holds;
    mod invariants;
    mod leaving;
    mod shown;
    mod situation;
    mod sleeping;
    mod table;
    mod unheard;
    mod unseen;
    mod ways_out;
}
