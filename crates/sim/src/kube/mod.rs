//! A small Kubernetes as a pure store: requests in, answers and events out.
//!
//! One global revision, one log of changes, no clock, no randomness: the same
//! seed and the same requests give the same answers, byte for byte. What a
//! real server knows and a small one cannot (the Go types of the built-in
//! kinds, CEL) is asked of [`Rules`].
//!
//! Read [`Store::handle`] first: it is the whole path of a request.

mod apply;
mod audit;
pub mod controllers;
mod crd;
mod defaults;
mod delete;
mod discovery;
mod events;
mod failure;
mod fields;
mod granting;
mod kinds;
mod list;
mod meta;
mod patch;
mod rbac;
mod request;
mod reviews;
mod rules;
mod schema;
mod select;
mod store;
mod strategic;
mod subresources;
mod table;
mod value;
mod watch;
mod write;

pub use audit::{Asked, Audit, Times};
pub use failure::{Cause, Failure};
pub use jiff::Timestamp;
pub use kinds::{Kind, KindInfo};
pub use request::{Answer, ApiRequest, Method, StreamKind, StreamRequest, User};
pub use rules::{NoRules, Rules};
pub use store::{Revision, Store};
pub use watch::{EventType, Watch, WatchEvent};
