//! What sleeps at night wakes as it was: the async half. `mainstay_core::hibernation` decides.
//!
//! | file | concern |
//! |---|---|
//! | `keeper` | one turn on one screen |
//! | `controller`, `watch` | the kind on the engine |
//! | `observe` | the plan, its exceptions, its restore points, its resources |
//! | `stored` | the restore points in their ConfigMaps |
//! | `executor` | who stops and starts things: the trait, and the register |
//! | `workloads`, `clusters`, `noop` | the executors inside Kubernetes |
//! | `objects` | objects of any kind, as executors read and write them |
//! | `dry_run` | what a shutdown would do, without doing it |
//! | `act` | the steps of a decision |
//! | `report` | status, conditions, Events, metrics |

mod act;
mod clusters;
pub mod controller;
pub mod dry_run;
pub mod executor;
pub mod keeper;
mod noop;
mod objects;
mod observe;
pub mod report;
pub mod settings;
pub mod stored;
pub mod watch;
mod workloads;

pub use controller::Controller;
pub use executor::{Ask, Executor, Executors, Place, Sight};
pub use keeper::Keeper;
pub use settings::Settings;
