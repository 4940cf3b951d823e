//! See `tests/properties/mod.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Every target shares the file and uses one function of it.
#[allow(dead_code, unused_imports)]
#[path = "../../tests/properties/mod.rs"]
mod properties;

fuzz_target!(|data: &[u8]| properties::handshake(data));
