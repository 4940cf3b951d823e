//! What every kind shares: queues, watches, turns one after the other, the lease.

pub mod keeper;
pub mod lease;
pub mod pulse;
pub mod queue;
pub mod turns;
pub mod watch;
