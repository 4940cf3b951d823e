//! See `session/properties.rs`.
#![no_main]
// Every target includes all of it and uses one function.
#![allow(dead_code)]

use libfuzzer_sys::fuzz_target;

#[path = "../../src/session/answers.rs"]
mod answers;
#[path = "../../src/session/properties.rs"]
mod properties;
#[path = "../../src/proxy_header.rs"]
mod proxy_header;
#[path = "../../src/session/requests.rs"]
mod requests;
#[path = "../../src/session/statement.rs"]
mod statement;
#[path = "../../src/session/talk.rs"]
mod talk;

fuzz_target!(|data: &[u8]| properties::header(data));
