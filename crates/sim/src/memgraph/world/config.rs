//! What a world is made of, and what may go wrong in it.

use crate::memgraph::instance::Profile;
use mainstay_core::memgraph::spec::{Durability, FenceTimeout, Spec, WritesWithoutSync};
use mainstay_core::memgraph::{Rule, Rules};
use std::time::Duration;

/// How often each fault may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Budget {
    /// A database process dies.
    pub crashes: u8,
    /// A pod is drained.
    pub drains: u8,
    /// A pod that is down loses its volume.
    pub volumes: u8,
    /// The link between two pods is cut.
    pub partitions: u8,
    /// A turn believes MAIN silent although it lives.
    pub suspicions: u8,
    /// A command times out and executes later, or never.
    pub late: u8,
    /// A move of MAIN is asked for.
    pub switchovers: u8,
    /// Somebody runs DROP REPLICA by hand.
    pub hand_drops: u8,
    /// Somebody deletes the record.
    pub records: u8,
    /// The cluster is put to sleep.
    pub sleeps: u8,
    /// A human overrides.
    pub overrides: u8,
    /// A human repairs a pod whose reset was refused: its data becomes MAIN's.
    pub repairs: u8,
    /// A client deletes the mark.
    pub unmarks: u8,
    /// A replica's process hangs: it is there, and answers nobody, until it is ended.
    pub hangs: u8,
}

impl Budget {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        crashes: 0,
        drains: 0,
        volumes: 0,
        partitions: 0,
        suspicions: 0,
        late: 0,
        switchovers: 0,
        hand_drops: 0,
        records: 0,
        sleeps: 0,
        overrides: 0,
        repairs: 0,
        unmarks: 0,
        hangs: 0,
    };

    /// Each fault by its name in the plural, with how often it may still happen.
    pub fn named(&self) -> [(&'static str, u8); 14] {
        let Self {
            crashes,
            drains,
            volumes,
            partitions,
            suspicions,
            late,
            switchovers,
            hand_drops,
            records,
            sleeps,
            overrides,
            repairs,
            unmarks,
            hangs,
        } = *self;
        [
            ("crashes", crashes),
            ("drains", drains),
            ("lost volumes", volumes),
            ("partitions", partitions),
            ("false suspicions", suspicions),
            ("late commands", late),
            ("switchovers", switchovers),
            ("drops by hand", hand_drops),
            ("lost records", records),
            ("sleeps", sleeps),
            ("overrides", overrides),
            ("repairs by hand", repairs),
            ("deleted marks", unmarks),
            ("hangs", hangs),
        ]
    }
}

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// New terms after the start.
    pub terms: u64,
    /// Writes of the record after the start.
    pub writes: u64,
}

/// A world.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an independent property of the world"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name in reports.
    pub name: String,
    /// Database pods; the first two are the authority pods.
    pub pods: u8,
    /// Gateways.
    pub gateways: u8,
    /// Operators.
    pub operators: u8,
    /// Client writes.
    pub writes: u16,
    /// What may go wrong.
    pub budget: Budget,
    /// How far to look.
    pub bounds: Bounds,
    /// Release of Memgraph.
    pub profile: Profile,
    /// Pods start as REPLICA (the start-up fence).
    pub init_file: bool,
    /// Commits are fsynced one by one.
    pub fsync: bool,
    /// Catch-up loads a snapshot, in two steps.
    pub snapshot_recovery: bool,
    /// Deadlines may have passed at any observation.
    pub deadlines: bool,
    /// Operators may die between any two steps.
    pub operators_die: bool,
    /// Start with no record instead of a protected cluster.
    pub from_nothing: bool,
    /// MAIN calling a pod diverged that is not is a violation by itself.
    pub report_false_divergence: bool,
    /// A REGISTER that stalls MAIN is a violation.
    pub report_stalls: bool,
    /// A refused registration that comes alive with MAIN and blocks every write is a violation.
    pub report_zombies: bool,
    /// A write that MAIN acknowledges and its STRICT_SYNC replica lacks is a violation by itself.
    pub report_missing: bool,
    /// Looking takes time: a pod may die after it answered. In such a world it dies in no other moment, because no
    /// look can prevent what happens after it.
    pub slow_looks: bool,
    /// A DROP that crashes MAIN is a violation by itself.
    pub report_drops: bool,
    /// Operators are interchangeable, so states that differ only in their order are one. Off where a trace is told
    /// or played, in which `op1` must stay `op1`.
    pub sort_operators: bool,
    /// States that differ only in how large their terms, generations, revisions, runs and uids are, are one. Off only
    /// to show that it makes no difference.
    pub renumber: bool,
    /// What the user declared.
    pub spec: Spec,
}

impl Config {
    /// A small protected cluster in which nothing goes wrong.
    pub fn small(name: &str) -> Self {
        let spec = Spec {
            replicas: 2,
            fence_timeout: FenceTimeout::Wait,
            silent_probes: 1,
            veto: Duration::ZERO,
            hold: Duration::ZERO,
            reset_quiet: Duration::ZERO,
            durability: Durability::Strict,
            ..Spec::default()
        };
        Self {
            name: name.to_owned(),
            pods: 2,
            gateways: 1,
            operators: 1,
            writes: 1,
            budget: Budget::default(),
            bounds: Bounds { terms: 3, writes: 7 },
            profile: Profile::V3_6,
            init_file: true,
            fsync: true,
            snapshot_recovery: false,
            deadlines: false,
            operators_die: true,
            from_nothing: false,
            report_false_divergence: true,
            report_stalls: false,
            report_zombies: false,
            report_missing: false,
            slow_looks: false,
            report_drops: false,
            sort_operators: true,
            renumber: true,
            spec,
        }
    }

    /// The same world without one rule.
    #[must_use]
    pub fn without(mut self, rule: Rule) -> Self {
        self.spec.rules = self.spec.rules.without(rule);
        // What the rule asks of the pods themselves.
        if rule == Rule::R12 {
            self.fsync = false;
        }
        self
    }

    /// May a search renumber terms, generations and revisions? Only while nobody can go back to an older one: a
    /// record that is lost begins at its first revision again, and without R9 an old turn may write over a newer one.
    pub fn renumbers(&self) -> bool {
        self.renumber && self.budget.records == 0 && self.rules().on(Rule::R9)
    }

    /// The rules in force.
    pub fn rules(&self) -> Rules {
        self.spec.rules
    }

    /// The same world with another policy for unprotected writes.
    #[must_use]
    pub fn policy(mut self, policy: WritesWithoutSync) -> Self {
        self.spec.writes_without_sync = policy;
        self
    }
}
