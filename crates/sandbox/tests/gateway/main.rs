//! A gateway in front of stand-ins, inside this process.

// Everything here is a test, also what is not marked as one.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing
)]

mod access;
mod after_the_cut;
mod bad_input;
mod bed;
mod faults;
mod forwarding;
mod front_door;
mod kubernetes;
mod moving;
mod not_reading;
mod planned;
mod proxied;
mod pushing;
mod reads;
mod reads_bed;
mod reads_faults;
mod reference;
mod routing;
mod scripted;
mod statements;
mod tap;
mod tls;
mod tunnel;
mod waking;
