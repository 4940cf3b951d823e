//! The ring: a Scylla or Cassandra node that lost its storage is replaced by itself, a living one never.
//!
//! [`decide`] takes the ledger, what was observed and the time, and gives a [`Plan`]: steps, each one call with all its
//! arguments, and the reasons as data. `docs/ring.md` is the guide.
//!
//! | file | concern |
//! |---|---|
//! | `record` | the ConfigMap that users know: who is to be replaced if a member comes back empty |
//! | `ledger` | what is known of the ring, and the one thing that is being done with it |
//! | `gate`, `stamp`, `options` | what the pod decides before its database starts, and how that is written down |
//! | `freshness`, `expiry` | how old a permission is, in the eyes of a gate and of an operator |
//! | `observed`, `spec`, `answers` | what a turn knows, what the user declared, how answers of a database are read |
//! | `view`, `checks` | the questions every decision asks; the checks `a` to `k` |
//! | `decide` | the driver |
//! | `learn`, `print` | who is known, by the word of others; the records, printed |
//! | `joining`, `replacing`, `retry`, `leaving` | what is done, one at a time |
//! | `unheard` | work whose pod says nothing |
//! | `sleeping` | how a ring falls asleep and wakes |
//! | `orphan`, `labels`, `attended` | volumes of Nodes that are gone, the manual label, clusters of scylla-operator |
//! | `step`, `reason` | what comes out, and why |
//! | `invariants` | judges any plan without knowing how it was made |

pub mod answers;
mod attended;
pub mod checks;
mod decide;
mod expiry;
pub mod freshness;
pub mod gate;
pub mod ids;
pub mod invariants;
mod joining;
mod labels;
mod learn;
mod leaving;
pub mod ledger;
pub mod observed;
pub mod options;
mod orphan;
mod print;
pub mod reason;
pub mod record;
mod replacing;
mod retry;
pub mod sleeping;
pub mod spec;
pub mod stamp;
pub mod step;
mod unheard;
pub mod view;

pub use decide::{asks, decide};
pub use ledger::Ledger;
pub use step::{Plan, Step};
