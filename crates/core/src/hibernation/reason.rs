//! Why a decision is what it is, as data. Status, Events, metrics and logs print the same.

use super::ids::{CycleId, TargetName};
use super::several::Several;
use super::state::Phase;
use serde::Serialize;

macro_rules! whys {
    ($($variant:ident $({ $($field:ident : $ty:ty),* })? => $fmt:literal,)*) => {
        /// The sentence of a reason, with what it speaks of.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[allow(missing_docs, reason = "the sentence is the documentation")]
        pub enum Why {
            $(#[doc = $fmt] $variant $({ $($field: $ty),* })?,)*
        }

        impl Why {
            /// For reasons of conditions and Events and for labels of metrics.
            pub fn id(&self) -> &'static str {
                match self { $(Self::$variant { .. } => stringify!($variant),)* }
            }
        }

        impl std::fmt::Display for Why {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self { $(Self::$variant $({ $($field),* })? => write!(f, $fmt),)* }
            }
        }
    };
}

whys! {
    // The beginning
    FirstSeen => "the plan is new: nothing has slept yet",
    Adopted { cycle: CycleId } => "restore points of {cycle} are still to be brought back: they are taken over, and nothing is captured over them",
    WaitForLook { target: TargetName } => "waiting to see the resources of `{target}` once: its restore point was written by an older version and does not say whether it was used",
    // The schedule
    Awake { why: String } => "awake: {why}",
    AlreadyHibernated { why: String } => "already hibernated, skipping duplicate shutdown: {why}",
    FallAsleep { cycle: CycleId, why: String } => "time to sleep, {cycle}: {why}",
    NothingToDo => "time to sleep, but exceptions disable every target",
    WakeUp { cycle: CycleId, why: String } => "time to wake up, {cycle}: {why}",
    Behind { cycle: CycleId } => "{cycle} is further than this plan knows: it was turned since the plan was read, or before the plan was made again; nothing else is done before that is settled",
    FlipToSleep { cycle: CycleId, why: String } => "{cycle} was waking up and it is time to sleep: what is awake is captured anew, what is still asleep keeps its restore point ({why})",
    FlipToAwake { cycle: CycleId, why: String } => "{cycle} was going down and it is time to be awake: what went down is woken ({why})",
    // Going down
    Captured { target: TargetName, saved: usize, upgraded: usize, preserved: usize } => "restore point of `{target}`: {saved} saved, {upgraded} upgraded, {preserved} preserved",
    NothingSelected { target: TargetName } => "`{target}` selects nothing: an empty restore point says so",
    Stopping { target: TargetName, count: usize } => "`{target}`: {count} to stop, their restore point is durable",
    Skipped { target: TargetName, resources: Several, why: String } => "`{target}`: {resources} left alone, {why}",
    Conflict { target: TargetName, resources: Several, why: String } => "`{target}`: {resources} left alone, {why}; take it out of one of the two plans",
    WaitUntilDown { target: TargetName, count: usize } => "`{target}`: waiting for {count} to be down",
    Down { target: TargetName } => "`{target}` is down",
    PointTooLarge { target: TargetName, why: String } => "`{target}`: failed to save restore data, nothing of it is stopped: {why}",
    Hibernated { cycle: CycleId } => "{cycle}: everything is asleep",
    Partial { cycle: CycleId, failed: String } => "{cycle}: asleep, except for what failed: {failed}; it stays awake until the next night, or try again with `mainstay hibernate retry`",
    // Asleep
    Drifted { target: TargetName, count: usize } => "`{target}`: {count} run although they should sleep; on waking they are restored as recorded",
    Enforced { target: TargetName, count: usize } => "`{target}`: {count} run although they should sleep and are stopped again, their restore point stays",
    Contended { target: TargetName } => "`{target}` was stopped again three times and is started by somebody each time: it is left alone until the next night; look for GitOps self-heal or an autoscaler",
    SpecDiffers { cycle: CycleId } => "targets or strategy were edited during {cycle}: it ends as it began, the edit counts from the next one",
    // Waking
    Starting { target: TargetName, count: usize } => "`{target}`: {count} to start as recorded",
    Consumed { target: TargetName, count: usize } => "`{target}`: {count} restored as recorded",
    WasNotRunning { target: TargetName, count: usize } => "`{target}`: {count} did not run when they were captured and stay as they are",
    Vanished { target: TargetName, resources: Several } => "`{target}`: {resources} not there any more and left out",
    StoppedByHand { target: TargetName, resources: Several } => "`{target}`: {resources} left down: somebody stopped it after it was restored",
    WaitUntilUsable { target: TargetName, count: usize } => "`{target}`: waiting for {count} to be usable",
    Usable { target: TargetName } => "`{target}` is awake",
    NothingCaptured { target: TargetName } => "`{target}` was not reached in this cycle: nothing of it was stopped, nothing is to be woken",
    NothingRecorded { target: TargetName } => "`{target}`: its restore point is empty: nothing of it was asleep, nothing is to be woken",
    NoRestorePoint { target: TargetName } => "`{target}`: cannot wake up: no restore point found; restore its ConfigMap or give it up with `mainstay hibernate restore discard`. The others are woken",
    RestorePointIncomplete { target: TargetName } => "`{target}`: a part of its restore point is missing: what is left is woken; restore the numbered ConfigMap or give it up with `mainstay hibernate restore discard`",
    RestorePointCorrupt { target: TargetName, why: String } => "RestorePointCorrupt: the restore point of `{target}` is not used and not overwritten: {why}; repair it or give it up with `mainstay hibernate restore discard`. The others go on",
    RestorePointOld { target: TargetName, why: String } => "the restore point of `{target}` was written by an older version and cannot be replayed: {why}; `mainstay hibernate restore show` says what it records: bring that back by hand, then give the point up with `mainstay hibernate restore discard`, or delete its key with kubectl. The others go on",
    Discarded { target: TargetName } => "the restore point of `{target}` is given up because a human said so: what it names stays as it is",
    LeftAsItIs { target: TargetName } => "`{target}` was given up by a human: it is left as it is until the schedule turns",
    AllRestored { cycle: CycleId } => "{cycle} is closed: everything is awake as recorded",
    Unlocked => "restore data is unlocked: the next night captures anew",
    // Failures
    LookFailed { target: TargetName, why: String } => "`{target}` could not be looked at: {why}",
    Unseen { target: TargetName, resources: Several, why: String } => "`{target}`: {resources:#} could not be looked at, and nothing is done with it before that works: {why}; what else is recorded is woken",
    CallFailed { target: TargetName, resources: Several, why: String } => "`{target}`: {resources:#} failed: {why}",
    GateTimedOut { target: TargetName, minutes: u64 } => "`{target}` did not get there within {minutes} minutes",
    Failed { target: TargetName, why: String } => "`{target}` has failed: {why}",
    NotLooked { target: TargetName } => "`{target}` was not looked at yet",
    RetryLater { target: TargetName, attempts: u8 } => "`{target}` failed {attempts} times and is tried again",
    GivenUp { target: TargetName, attempts: u8 } => "`{target}` failed {attempts} times and is not tried again by itself before the schedule changes: repair the cause, then `mainstay hibernate retry`",
    Blocked { target: TargetName, by: TargetName } => "`{target}` waits for `{by}`, which failed",
    HeldBack { target: TargetName } => "`{target}` is not begun: the plan is Strict and another target failed",
    RetryAsked => "a retry was asked for",
    // Suspended and deleted
    Suspend { phase: Phase } => "suspended while {phase}: nothing is touched until it is resumed",
    StillSuspended => "suspended: nothing is touched until it is resumed",
    ForcedWakeUp { phase: Phase } => "forcing wake-up after unsuspend: it was suspended while {phase}, and it is time to be awake",
    ResumeAsleep => "resumed: it stays asleep, nothing is stopped again",
    ResumeShutdown => "resumed: it is still time to sleep, the shutdown goes on",
    Resumed => "resumed: nothing was asleep",
    WakeBeforeDeletion => "the plan is being deleted: what sleeps is woken first (deletionPolicy WakeFirst). If it cannot wake, `deletionPolicy: Abandon` lets the plan go and leaves it asleep",
    NamespaceEnds => "the plan may go: its namespace is being deleted with everything in it, and nothing of that is woken",
    Abandoned { open: usize } => "the plan is deleted with deletionPolicy Abandon: {open} targets stay asleep, their restore points stay in the ConfigMap",
    MayGo => "the plan may go: nothing of it is asleep",
    PointsStay { targets: String } => "the plan may go: the restore points of {targets} were written by an older version and cannot be replayed; they stay in the ConfigMap",
}

impl Why {
    /// Is it about what became of restore data? That is decided once: when it is written, no later turn speaks of it.
    pub fn is_of_restore_data(&self) -> bool {
        matches!(
            self,
            Self::Captured { .. }
                | Self::NothingSelected { .. }
                | Self::Consumed { .. }
                | Self::WasNotRunning { .. }
                | Self::Vanished { .. }
                | Self::Discarded { .. }
                | Self::Unlocked
        )
    }
}
