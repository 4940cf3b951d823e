//! What the user declared, parsed. Small and `Copy`: it travels with every observation.

use super::rules::Rules;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// May MAIN take writes that nobody protects?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum WritesWithoutSync {
    /// After a failover, until the other pod is protected again. What the seeds do.
    #[default]
    AfterFailover,
    /// Also when the SYNC replica is lost while serving.
    Always,
    /// Never.
    Never,
}

/// What to do when the old MAIN cannot be fenced in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum FenceTimeout {
    /// Promote all the same, counted and reported: at most one transaction in flight is at risk, and only
    /// if MAIN is alive and a gateway is cut off from both API and operator.
    #[default]
    Proceed,
    /// Wait for as long as it takes.
    Wait,
}

/// Whether a commit survives the loss of power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Durability {
    /// fsync per commit on authority pods.
    #[default]
    Strict,
    /// Memgraph's default; the cluster never calls itself protected (R12).
    Relaxed,
}

/// What the user declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Spec {
    /// How many pods.
    pub replicas: u8,
    /// May MAIN take writes that nobody protects?
    pub writes_without_sync: WritesWithoutSync,
    /// When the fence does not come.
    pub fence_timeout: FenceTimeout,
    /// Whether a commit survives the loss of power.
    pub durability: Durability,
    /// There are statements to run on a new MAIN before it serves (R23).
    pub on_promotion: bool,
    /// Unanswered probes that make a pod suspect.
    pub silent_probes: u32,
    /// A gateway that had an answer this recently vetoes (R21). It tells about once a second whom it heard, and that has
    /// to be read: with less than the time of two reports every other veto would come too late.
    pub veto: Duration,
    /// How long a SYNC replica may be away before policy `Always` goes on without it.
    pub sync_grace: Duration,
    /// How long running transactions may take to end in a planned move.
    pub drain: Duration,
    /// How long writes may be held for a DROP or a proof.
    pub hold: Duration,
    /// How long a status must have stood still before it counts as stuck (R33).
    pub steady: Duration,
    /// No ASYNC reset within this time after a term began (R20).
    pub reset_quiet: Duration,
    /// A reset that has not ended by then is given up, so that it blocks no other.
    pub reset_patience: Duration,
    /// How long a candidate may be silent before MAIN, if it is back, gets its office again.
    pub candidate_patience: Duration,
    /// How long a promotion is tried before a MAIN that hangs is taken for what holds it up. Short: it was silent for
    /// several probes, and its office is lost.
    pub promotion_patience: Duration,
    /// Most resets in an hour.
    pub resets_per_hour: u32,
    /// Which rules are in force; always all of them in the product.
    pub rules: Rules,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            replicas: 3,
            writes_without_sync: WritesWithoutSync::default(),
            fence_timeout: FenceTimeout::default(),
            durability: Durability::default(),
            on_promotion: false,
            silent_probes: 3,
            veto: Duration::from_secs(2),
            sync_grace: Duration::from_secs(5),
            drain: Duration::from_secs(10),
            hold: Duration::from_secs(5),
            steady: Duration::from_secs(5),
            reset_quiet: Duration::from_mins(2),
            reset_patience: Duration::from_mins(10),
            candidate_patience: Duration::from_secs(30),
            promotion_patience: Duration::from_millis(200),
            resets_per_hour: 3,
            rules: Rules::ALL,
        }
    }
}

impl Serialize for Rules {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(super::rules::Rule::ALL.iter().filter(|r| !self.on(**r)))
    }
}
