//! The list.

use super::cluster::{Cluster, Trouble};
use super::{assumptions, crashes, replication};
use std::fmt;

/// What became of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is so.
    Confirmed,
    /// It is not.
    Different(String),
    /// It cannot be found out here.
    NotTestable(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Confirmed => f.write_str("confirmed"),
            Self::Different(how) => write!(f, "different: {how}"),
            Self::NotTestable(why) => write!(f, "not testable here: {why}"),
        }
    }
}

macro_rules! items {
    ($($name:ident = $about:literal => $run:path,)*) => {
        /// One thing to find out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Item {
            $(#[doc = $about] $name,)*
        }

        impl Item {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What is to be found out.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$name => $about,)* }
            }
        }

        pub(super) async fn perform(item: Item, cluster: &mut Cluster) -> Result<(), Trouble> {
            match item { $(Item::$name => $run(cluster).await,)* }
        }
    };
}

items! {
    Roles = "1 a role is not set twice; roles survive kill -9" => replication::roles,
    Zombie = "2 a registration that failed stays: Error 5, then 1, then DROP" => replication::zombie,
    SyncLost = "3 a SYNC replica is lost: the write stays and is reported, the replica returns by itself" => replication::sync_lost,
    StrictLost = "4 a STRICT_SYNC replica is lost: the write is refused, DROP opens writes" => replication::strict_lost,
    Diverged = "5 an old MAIN with one write too many is refused with Error 3; emptied, it is taken" => replication::diverged,
    Lagging = "6 a replica that is only behind recovers after a failover" => replication::lagging,
    EmptyTerm = "7 promotion and demotion without a write harm nobody" => replication::empty_term,
    Stolen = "8 a new MAIN takes a replica over; the old one cannot write" => replication::stolen,
    StartUpFence = "9 with an init file a restarted MAIN is a REPLICA before Bolt opens; without one it is MAIN" => assumptions::start_up_fence,
    Unrelated = "10 a disk of another database registers and stays invalid" => replication::unrelated,
    NoLog = "11 without a log nothing is replicated" => replication::no_log,
    CrashAfterCommit = "12 MAIN ends between commit and finalize: diverged by one, nothing acknowledged is lost" => crashes::after_local_commit,
    FinalizeLost = "13 finalize lost, MAIN gone, replica promoted: the acknowledged write is gone" => crashes::finalize_lost,
    Mark = "the mark replicates and is read on a replica" => assumptions::mark,
    MarkSwap = "the mark is changed by compare-and-swap: one of two wins" => assumptions::mark_swap,
    PromotionDrops = "promotion drops a prepared transaction, or is refused while there is one" => crashes::promotion_drops,
    Fence = "STRICT_SYNC refuses without its replica, also after MAIN restarts" => assumptions::fence,
    LateDrop = "a DROP of a name that is gone hits nothing" => assumptions::late_drop,
    Names = "registration names: a generation in the name, a hyphen only in backquotes" => assumptions::names,
    RunId = "run_id is one per process" => assumptions::run_id,
    Users = "registration takes the users of a replica away" => assumptions::users,
    ReplicaRefuses = "a replica refuses writes when they are read, as ClientError" => assumptions::replica_refuses,
    BusyState = "while a commit hangs DROP, REGISTER and demotion are refused, and the role is answered" => crashes::busy_state,
    Durable = "with fsync per commit nothing acknowledged is missing after kill -9" => crashes::durable,
}
