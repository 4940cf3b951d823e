//! How nodes of a ring behave, by version: what they decide when they start, what they tell each other, and what they
//! answer when they are asked. No data but rows that are counted; no clock but the one that is passed in.
//!
//! | file | concern |
//! |---|---|
//! | `profile` | what differs from version to version |
//! | `disk` | what a node keeps: its identity, how far it is, its rows |
//! | `refusal` | why a start ends, in the words of the database |
//! | `node` | one process: what it knows of the others |
//! | `ring` | all of them and the network between |
//! | `start` | the decision table of a start |
//! | `change` | joining, replacing, leaving: how they end |
//! | `api` | what a node answers |

pub mod api;
mod change;
pub mod disk;
pub mod node;
pub mod profile;
pub mod refusal;
pub mod ring;
mod start;

pub use disk::{Disk, Local, Stage};
pub use profile::Profile;
pub use refusal::Refusal;
pub use ring::{Place, Ring};
pub use start::Options;
