//! What is fuzzed: the files of the gateway that read what strangers send, without the rest of it. They are also built
//! as an example of the gateway, so that whoever makes one of them need another file hears of it.
// Each is used by one target.
#![allow(dead_code)]

#[path = "../../src/session/answers.rs"]
mod answers;
#[path = "../../src/session/oracle.rs"]
mod oracle;
#[path = "../../src/session/properties.rs"]
mod properties;
#[path = "../../src/proxy_header.rs"]
mod proxy_header;
#[path = "../../src/session/read_only.rs"]
mod read_only;
#[path = "../../src/session/requests.rs"]
mod requests;
#[path = "../../src/session/statement.rs"]
mod statement;
#[path = "../../src/session/talk.rs"]
mod talk;

/// A database's answers.
pub fn answers(data: &[u8]) {
    properties::answers(data);
}

/// The header of a proxy.
pub fn header(data: &[u8]) {
    properties::header(data);
}

/// Whether a statement can be seen to be a read.
pub fn read_only(data: &[u8]) {
    properties::read_only(data);
}

/// A client's requests.
pub fn requests(data: &[u8]) {
    properties::requests(data);
}

/// The words of a statement.
pub fn statement(data: &[u8]) {
    properties::statement(data);
}

/// A whole conversation.
pub fn talk(data: &[u8]) {
    properties::talk(data);
}
