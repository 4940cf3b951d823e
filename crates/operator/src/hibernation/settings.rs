//! How long things take, and other choices of whoever runs the operator.

use super::executor::Executors;
use crate::clock::Clock;
use crate::tap::Tap;
use std::time::Duration;

/// How hibernation is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A call to the Kubernetes API.
    pub call: Duration,
    /// How many resources are stopped or started at once, of one plan.
    pub at_once: usize,
    /// How long a turn goes on calling; what is left is called in the next one.
    pub patience: Duration,
    /// A plan in which nothing is to happen is looked at so often all the same.
    pub idle: Duration,
    /// Which time it is.
    pub clock: Clock,
    /// Who is told of every call that changes something; nobody in production.
    pub tap: Tap,
    /// Who stops and starts things.
    pub executors: Executors,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(5),
            at_once: 8,
            patience: Duration::from_secs(20),
            idle: Duration::from_mins(10),
            clock: Clock::default(),
            tap: Tap::default(),
            executors: Executors::in_cluster(),
        }
    }
}
