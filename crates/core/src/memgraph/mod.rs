//! The Memgraph protocol, as pure functions.
//!
//! [`decide`] takes the record, what was observed and the time, and gives a [`Plan`]: steps, each one call
//! with all its arguments, and the reasons as data. `docs/protocol.md` states the protocol; every rule id
//! there is a [`Rule`] here, and the same string appears in plans and tests.
//!
//! | file | concern |
//! |---|---|
//! | `record` | who is MAIN, in which term; the named transitions |
//! | `observed`, `spec` | what a turn knows and what the user declared |
//! | `view` | the questions every decision asks |
//! | `decide` | the driver |
//! | `bootstrap` | no record: begin, adopt, rebuild |
//! | `term` | begin, complete, take over and abandon a term |
//! | `claim` | a term that is held up: whose process is ended, and what becomes of its claim |
//! | `failover`, `switchover`, `overriding`, `hibernation` | what begins a term |
//! | `serving`, `pair`, `async_pods`, `reset` | what a serving cluster needs |
//! | `plan`, `reason`, `rules`, `severity` | what comes out, why, and how loud that is said |
//! | `turn` | the executor as a state machine |
//! | `gate`, `read_gate`, `prepare` | what the gateways and the init container decide |
//! | `rolling` | which pod is restarted next when the template changed |
//! | `marker` | the file that asks for a reset |
//! | `quarantine` | which data that was set aside is deleted |
//! | `helper` | what the operator asks of the helper in a database pod |
//! | `objects` | names of objects, and what gateway and operator tell each other |
//! | `invariants` | judges any plan without knowing how it was made |

mod async_pods;
mod bootstrap;
mod claim;
mod decide;
pub mod document;
mod failover;
pub mod gate;
pub mod helper;
mod hibernation;
pub mod ids;
pub mod invariants;
pub mod marker;
pub mod objects;
pub mod observed;
mod overriding;
mod pair;
pub mod plan;
pub mod prepare;
pub mod quarantine;
pub mod read_gate;
pub mod reason;
pub mod record;
mod reset;
pub mod rolling;
pub mod rows;
pub mod rules;
mod serving;
mod severity;
pub mod spec;
mod switchover;
mod term;
pub mod turn;
pub mod view;

pub use decide::decide;
pub use pair::{counts_as_protected, pair_fsyncs};
pub use plan::Plan;
pub use record::Record;
pub use rules::{Rule, Rules};
pub use severity::Severity;
pub use view::View;
