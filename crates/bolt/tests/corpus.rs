//! The properties, for the seeds of the fuzz targets.
//!
//! An input that once broke something goes into `fuzz/corpus/<target>/` and is
//! tried on every test run from then on.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute, and helpers have none"
)]

#[path = "properties/mod.rs"]
mod properties;

use std::fs;
use std::path::Path;

fn replay(target: &str, property: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut seeds = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        property(&fs::read(entry.unwrap().path()).unwrap());
        seeds += 1;
    }
    assert!(seeds > 0, "no seeds in {}", directory.display());
}

#[test]
fn the_seeds_of_framing_hold() {
    replay("framing", properties::framing);
}

#[test]
fn the_seeds_of_packstream_hold() {
    replay("packstream", properties::packstream);
}

#[test]
fn the_seeds_of_messages_hold() {
    replay("messages", properties::messages);
}

#[test]
fn the_seeds_of_handshake_hold() {
    replay("handshake", properties::handshake);
}

#[test]
fn the_seeds_of_server_session_hold() {
    replay("server_session", properties::server_session);
}

#[test]
fn the_seeds_of_client_session_hold() {
    replay("client_session", properties::client_session);
}
