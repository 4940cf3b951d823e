//! The rules of the protocol, by the ids that code, plans, docs and tests share.
//!
//! `docs/protocol.md` states each rule in full, with the trace that goes wrong without it.

use serde::{Serialize, Serializer};
use std::fmt;

macro_rules! rules {
    ($($variant:ident = $id:literal : $text:literal,)*) => {
        /// A rule, or one of the protocol's named paragraphs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $text] $variant,)*
        }

        impl Rule {
            /// Every rule, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The id, as it stands in plans, docs, tests and scenario files.
            pub fn id(self) -> &'static str {
                match self { $(Self::$variant => $id,)* }
            }

            /// The rule in one sentence.
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

rules! {
    R1 = "R1": "The old MAIN is fenced before another pod is promoted: demoted, certainly dead, or every gateway confirmed the new term.",
    R2 = "R2": "Protection names the process: a restarted container is not protected until proven again.",
    R3 = "R3": "Protection is proven by a commit that is seen on the replica, never read from a status.",
    R4 = "R4": "STRICT_SYNC registration names are never used twice; a withdrawal retires the name before the DROP.",
    R5 = "R5": "A term without a MAIN names its candidate and is completed with that process only.",
    R6 = "R6": "Only the recorded MAIN with the same volume, database and mark may serve again without protection.",
    R7 = "R7": "The init container wipes only what the record still asks for: same id, same process, same term, not MAIN and not candidate.",
    R8 = "R8": "Without a record a MAIN is adopted only if it is proven to hold everything the other pod holds.",
    R9 = "R9": "Every write of the record carries the version read before observing; on a conflict the turn ends.",
    R10 = "R10": "A gateway forwards on a connection only after role MAIN and the term in the data were checked on it.",
    R11 = "R11": "A live MAIN that keeps its office in a new term is never demoted to start clean.",
    R12 = "R12": "Authority pods fsync every commit; without it the cluster is not called protected.",
    R13 = "R13": "A pod without the start-up fence is not harmless because its process is gone.",
    R14 = "R14": "An ex-MAIN that rejoins is not a SYNC replica: it is reset by itself, its data kept in quarantine.",
    R15 = "R15": "A human override still needs the old MAIN fenced, without a time-out.",
    R16 = "R16": "Protection is taken back in the record before the STRICT_SYNC replica is dropped.",
    R17 = "R17": "A registration that somebody dropped by hand is withdrawn from the record at once.",
    R18 = "R18": "The record is created before the first role command of a bootstrap.",
    R19 = "R19": "A rebuilt record begins above every term that status, data or gateways have seen.",
    R20 = "R20": "A diverged ASYNC replica may hold the only copy of a write: no reset in the first minutes of a term, and its data is kept.",
    R21 = "R21": "Refused means refused twice on new connections, and a gateway that just got an answer vetoes.",
    R22 = "R22": "Clients of the read gateway are authenticated on MAIN, because replicas have no users.",
    R23 = "R23": "What Memgraph does not replicate is run again on the new MAIN before the gateway opens.",
    R24 = "R24": "Sleep closes, drains, proves and records before any pod is stopped.",
    R25 = "R25": "A replica that restarted is protected only after MAIN began a new epoch.",
    R26 = "R26": "Error 3 accuses two: nobody is reset while MAIN's own history is the suspect.",
    R27 = "R27": "A replica that is ahead of MAIN closes writes at once.",
    R28 = "R28": "The replication port is seen open before REGISTER.",
    R29 = "R29": "Reads go to ASYNC replicas; the SYNC one only if the spec says so.",
    R30 = "R30": "While a commit hangs no command is sent; only ending a process helps: the replica's, or that of a MAIN that was deposed.",
    R31 = "R31": "The mark is read again after promotion, before serving.",
    R32 = "R32": "A refused registration is dropped in the same turn.",
    R33 = "R33": "DROP only what has no background work: level or unmoved while writes are held, or dead.",
    R34 = "R34": "A process that a promote may still hit is loose and is never proven.",
    R35 = "R35": "Protection is proven only when every registered gateway confirmed the term.",
    R36 = "R36": "A role command goes only to the process it was meant for.",
    R37 = "R37": "A candidate that cannot be promoted is ended once the old MAIN is fenced, and its volume keeps the claim.",
    Bootstrap = "BOOTSTRAP": "No record yet: begin or adopt a cluster, or say why not.",
    RecordLost = "RECORD-LOST": "The record was there before and is gone: rebuild it only when one MAIN is proven.",
    Failover = "FAILOVER": "MAIN is suspect and the protected replica takes its office.",
    Repromote = "RE-PROMOTE": "The recorded MAIN came back with everything it had and gets its office again.",
    Stuck = "STUCK": "Nobody is entitled to be MAIN; the reason names who is awaited.",
    Complete = "COMPLETE": "Finish a term that has a candidate and no MAIN yet.",
    Abandon = "ABANDON": "The candidate's process is gone, so its term is replaced.",
    Stray = "STRAY": "A second MAIN is demoted, after it lost its protection in the record.",
    Join = "JOIN": "Bring a replica up: ASYNC first, STRICT_SYNC when it is level.",
    Withdraw = "WITHDRAW": "Take protection back in the record, then drop the registration.",
    Prove = "PROVE": "Show by a commit that the replica protects MAIN.",
    Renew = "RENEW": "A new term on the same MAIN, for a new epoch.",
    Settle = "SETTLE": "End a loose process, so that its successor can be proven.",
    Switchover = "SWITCHOVER": "Move MAIN on request.",
    Reset = "RESET": "Reset a diverged replica, data kept in quarantine.",
    Override = "OVERRIDE": "A human named the MAIN and accepted the loss.",
    Hibernate = "HIBERNATE": "Put the cluster to sleep.",
    Wake = "WAKE": "Wake the cluster as it was.",
    Async = "ASYNC": "ASYNC replicas are kept registered and never block the pair.",
    Paused = "PAUSED": "A human paused the operator.",
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.id())
    }
}

/// Which rules are in force.
///
/// The product has no way to make any other value than [`Rules::ALL`]. The explorer and the tests switch
/// single rules off (feature `rule-switches`) to show that something notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rules {
    off: u64,
}

impl Rules {
    /// All rules in force.
    pub const ALL: Self = Self { off: 0 };

    /// Is this rule in force?
    pub fn on(self, rule: Rule) -> bool {
        self.off & (1 << rule as u64) == 0
    }

    /// The same rules without one. For tests and the explorer.
    #[cfg(any(test, feature = "rule-switches"))]
    #[must_use]
    pub fn without(self, rule: Rule) -> Self {
        Self {
            off: self.off | (1 << rule as u64),
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::ALL
    }
}

/// Reads a rule id, as scenario files name it.
impl std::str::FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .copied()
            .find(|r| r.id() == s)
            .ok_or_else(|| UnknownRule(s.to_owned()))
    }
}

/// No rule has this id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no rule is called `{0}`")]
pub struct UnknownRule(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_can_be_switched_off_alone_and_ids_are_unique() {
        assert!(Rule::ALL.len() <= 64, "the switch set is 64 bits wide");
        for rule in Rule::ALL {
            let rules = Rules::ALL.without(*rule);
            let off: Vec<_> = Rule::ALL.iter().filter(|r| !rules.on(**r)).collect();
            assert_eq!(off, [rule]);
            assert_eq!(rule.id().parse(), Ok(*rule));
        }
    }
}
