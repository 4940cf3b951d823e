//! Every decision of Mainstay, as pure functions.
//!
//! Nothing in here looks at a clock, draws a number, opens a socket or waits:
//! time and observations come in as values, and what should be done comes out
//! as values. `clippy.toml` beside this crate enforces it.
//!
//! Read [`memgraph`] first; its `decide` is the heart of the product.

pub mod hibernation;
pub mod lease;
pub mod memgraph;
pub mod ring;
pub mod schedule;
pub mod time;
