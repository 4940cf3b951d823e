//! What sleeps at night wakes as it was, as pure functions.
//!
//! [`decide`] takes the plan, what is stored, what was observed and the time, and gives a [`Decision`]: steps, each one
//! call with all its arguments, and the reasons as data. `docs/hibernation.md` says what a user sees of it.
//!
//! | file | concern |
//! |---|---|
//! | `plan`, `order` | what the user declared; who waits for whom |
//! | `point`, `save`, `store` | restore points, `SaveOrPreserve`, the ConfigMaps and the restore manager's operations |
//! | `state` | what a plan remembers: phase, cycle, progress |
//! | `observed` | what a turn knows; the small vocabulary in which executors speak |
//! | `decide` | the driver |
//! | `beginning` | nothing is remembered, or less than the restore points say |
//! | `work` | who gets a turn, what a failure means, in which order things are written |
//! | `falling_asleep`, `hibernated`, `waking` | what a target needs |
//! | `watch` | what sleeps is looked at, whatever becomes of the others |
//! | `suspended`, `deleting`, `discard`, `retry` | what people and failures change about it |
//! | `step`, `reason`, `several` | what comes out, and why |
//! | `turn` | the executor as a state machine |
//! | `invariants` | judges any decision without knowing how it was made |

mod beginning;
mod decide;
mod deleting;
mod discard;
mod falling_asleep;
pub mod hash;
mod hibernated;
pub mod ids;
pub mod invariants;
pub mod observed;
pub mod order;
pub mod plan;
pub mod point;
pub mod reason;
pub mod retry;
pub mod save;
pub mod several;
pub mod state;
pub mod step;
pub mod store;
mod suspended;
pub mod turn;
mod view;
mod waking;
mod watch;
mod work;

pub use decide::decide;
pub use plan::HibernatePlan;
pub use reason::Why;
pub use state::{Phase, State};
pub use step::{Decision, Step};
pub use turn::Turn;
