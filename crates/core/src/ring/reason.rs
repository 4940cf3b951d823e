//! Why a plan is what it is, as data: an id and a sentence. Status, Events, logs and `mainstay why` print the same.

use super::ids::{Address, GrantNumber, HostId, Location, Member, Name};
use crate::time::Time;
use std::fmt;

/// The condition of the cluster that a reason speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// A member came back empty.
    StorageLost,
    /// It is not replaced yet, and why.
    ReplacementHeld,
    /// A replacement was tried and did not end well.
    ReplacementFailed,
    /// Something is being done.
    Progressing,
}

macro_rules! whys {
    ($($variant:ident $({ $($field:ident : $ty:ty),* })? $(for $condition:ident)? $(, $human:ident)? => $fmt:literal;)*) => {
        /// The sentence of a reason, with what it speaks of.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the sentence is the documentation")]
        pub enum Why {
            $(#[doc = $fmt] $variant $({ $($field: $ty),* })?,)*
        }

        impl Why {
            /// Its id.
            pub fn id(&self) -> &'static str {
                match self { $(Self::$variant $({ $($field: _),* })? => stringify!($variant),)* }
            }

            /// The condition it speaks for.
            pub fn condition(&self) -> Option<Condition> {
                match self { $(Self::$variant $({ $($field: _),* })? => whys!(@condition $($condition)?),)* }
            }

            /// Nothing goes on before a human decides.
            pub fn needs_human(&self) -> bool {
                match self { $(Self::$variant $({ $($field: _),* })? => whys!(@human $($human)?),)* }
            }
        }

        impl fmt::Display for Why {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$variant $({ $($field),* })? => write!(f, $fmt),)* }
            }
        }
    };
    (@condition) => { None };
    (@condition $condition:ident) => { Some(Condition::$condition) };
    (@human) => { false };
    (@human human) => { true };
}

whys! {
    // Nothing to do, or not now
    Whole => "every member is known and nothing is missing";
    Away { member: Member } => "{member} does not run at the moment: its pod is not there, is ending, or is not ready yet";
    Unended { member: Member }, human => "the pod of {member} should have ended long ago and does not, and no other one comes before it is gone: look at its Node, and delete the pod by force only if you know that the Node is off";
    Asleep => "asleep: nothing is replaced";
    FallAsleep for Progressing => "falling asleep: every member is drained, then all pods go; nothing is replaced meanwhile";
    SleepLater { member: Member } for Progressing => "to fall asleep, {member} has to be done first: a start or a leaving is not cut off";
    Draining { member: Member, left: usize } for Progressing => "falling asleep: {member} is drained ({left} to go)";
    Undrained { member: Member } => "{member} was not drained in time: it is stopped as it is, its commit log has the rest";
    Stopping for Progressing => "falling asleep: waiting for all pods to be gone";
    WakeLater { member: Member } for Progressing => "waking up: {member} still has the pod of before its sleep, which serves nobody; it has to be told to go first";
    WakeSeeds for Progressing => "waking up: the first member of each rack comes first";
    WaitForSeed { member: Member } for Progressing => "waking up: waiting for {member} to start, the others follow";
    WakeRest for Progressing => "waking up: all members may start";
    Paused { until: Time } => "paused by a human until {until}: nothing is changed";
    NotAutomatic { member: Member } for ReplacementHeld, human => "{member} lost its storage and autoreplacement is off: label its Service with `scylla/replace` to replace it";
    // The ledger
    NewLedger => "the ledger of this ring is begun";
    OtherCluster => "the ledger belongs to another cluster of this name: it is removed, and nothing in it is honoured";
    // Records
    SeenNormal { member: Member, host: HostId } => "{member} is seen Normal by another member as {host}: recorded";
    Moved { member: Member, address: Address } => "{member} is now known to the others at {address}: recorded";
    DiskLearnt { member: Member } => "the disk of {member} is recorded";
    RecordPrinted { member: Member } => "the record of {member} is written";
    RecordRestored { member: Member } => "the record of {member} is not what the ledger says (somebody changed it, or it is from another cluster) and is written anew";
    RecordDropped { member: Member } => "the record of {member} is removed: it is not a member any more";
    RemovedByHand { member: Member, host: HostId } => "no member lists {host} of {member} any more (removenode?): its record is dropped, and it may join as a new member";
    // Founding and joining
    Found { member: Member } for Progressing => "no ring yet: {member} founds it";
    FoundLater { member: Member } => "no ring yet: waiting for {member}, the first member, to come up empty";
    DataElsewhere { member: Member } => "no ring is founded: {member} has a volume whose content is not known yet";
    NodeGoneUnknown { member: Member } for StorageLost, human => "no ring is founded: the Node that holds the volume of {member} is gone, and nobody knows what is on it; delete its claim and its pod if it held no ring";
    DataLost { member: Member } for StorageLost, human => "{member} lost its disk and nobody else holds its data: the ring is lost; restore a backup, or delete the ledger (ConfigMap `<cluster>-ring`) to found an empty ring";
    FoundingUnknown { member: Member } for StorageLost, human => "{member} was founding the ring when its disk was lost, and nobody else knows whether anything was written to it: bring that disk back, or delete the ledger (ConfigMap `<cluster>-ring`) to found an empty ring";
    Join { member: Member } for Progressing => "{member} is new and joins";
    JoinLater { member: Member, check: Check } => "{member} is new and joins later: {check}";
    TooMany { member: Member, host: HostId }, human => "{member} cannot join: the ring has as many nodes as members are declared, and {host} belongs to none of them; remove it (`nodetool removenode`) or declare more members";
    Started { member: Member, grant: GrantNumber } for Progressing => "{member} starts with {grant}: waiting for the others to see it Normal";
    Joined { member: Member, host: HostId } => "{member} has joined as {host}";
    JoinedUnseen { member: Member, host: HostId } => "{member} has started as {host} and nobody is left who could have seen it join: its place is free for the others, and it is put on record when one of them sees it";
    ReplacedUnseen { member: Member, host: HostId, by: HostId } => "{member} has started as {by} in place of {host} and nobody is left who could have seen it: its place is free for the others, and it is put on record when one of them sees it";
    RingFounded { member: Member } => "{member} has founded the ring";
    // Loss and replacement
    StorageLost { member: Member, host: HostId } for StorageLost => "{member} came back empty: the storage of {host} is lost";
    NodeGone { member: Member } for StorageLost => "the Node that holds the volume of {member} is gone for good";
    SecondChance { member: Member } for ReplacementHeld => "{member} is empty in a pod in which it had data: the pod is made anew once, because a mount that failed looks the same";
    Held { member: Member, check: Check } for ReplacementHeld => "{member} is not replaced yet: {check}";
    HeldForHuman { member: Member, check: Check } for ReplacementHeld, human => "{member} is not replaced: {check}";
    OneAtATime { member: Member, other: Member } for ReplacementHeld => "{member} waits until {other} is done: one at a time";
    Confirming { member: Member, until: Time } for Progressing => "all checks hold for {member}; they must still hold at {until}";
    Withdrawn { member: Member } for ReplacementHeld => "the checks for {member} do not hold any more: it is not replaced";
    CameBack { member: Member } => "{member} came back with its own disk before anything was taken from it: it is not replaced";
    Evict { member: Member } for Progressing => "the volume of {member} is given up: its claim is deleted so that it can come up elsewhere";
    Evicting { member: Member } for Progressing => "waiting for {member} to come up with a new volume";
    Permit { member: Member, grant: GrantNumber } for Progressing => "{member} may replace itself: {grant}";
    NotUsed { member: Member, grant: GrantNumber } => "{member} did not use {grant} in time: it is taken back, and everything is looked at anew";
    TeachSeeds { member: Member, peer: Member } for Progressing => "{peer} is told to gossip with the address of {member}, or the replacement would hear from nobody";
    Replaced { member: Member, host: HostId, by: HostId } => "{member} is whole again: {by} took the place of {host}";
    TryFailed { member: Member, failed: u32 } for ReplacementFailed => "the start of {member} did not finish ({failed} so far): tried again on an emptied disk after a rest";
    Hibernate { member: Member, host: HostId, by: Member } for ReplacementFailed => "{by} calls {host} of {member} `hibernate`: that is what a start in its place leaves behind that did not finish; it is not started again before it has been still for long enough and all checks hold";
    TimedOut { member: Member } for ReplacementFailed => "the start of {member} did not finish in time: its pod is ended";
    Unheard { member: Member, missing: Missing } for ReplacementFailed, human => "nothing has been heard of {member} for longer than a start may take, and nobody else's turn comes before it: {missing}";
    GivenUp { member: Member, failed: u32 } for ReplacementFailed, human => "the start of {member} failed {failed} times: read the log of its pod; then delete its pod for another try, or remove the dead node (`nodetool removenode`) so that it joins as new";
    GivenUpOrdered { member: Member } => "the pod of {member} was made anew by a human: tried again";
    RetiredDisk { member: Member } for ReplacementHeld, human => "{member} has a disk mounted whose place in the ring was given to another one: mount the right disk, or save its data and delete claim and pod";
    ForeignDisk { member: Member } for ReplacementHeld, human => "{member} has the disk of another node mounted: mount the right one";
    ForeignNode { member: Member, host: HostId, owner: Member } for ReplacementHeld, human => "{member} runs {host}, which is the node of {owner}: the disk of {owner} is mounted in it; mount each disk where it belongs";
    DamagedDisk { member: Member } for ReplacementHeld, human => "the disk of {member} was bootstrapped once and does not say so any more: a human must look; delete claim and pod to give it up";
    UnreadableDisk { member: Member } for ReplacementHeld, human => "the database's own tool cannot read the disk of {member}, so nobody knows what is on it: it is neither started nor wiped, and read again; the log of its pod says what the tool said; mount or mend the disk, or delete claim and pod to give it up";
    // Leaving
    Leave { member: Member } for Progressing => "{member} is not declared any more and leaves the ring";
    LeaveLater { member: Member, check: Check } => "{member} is not declared any more and leaves later: {check}";
    LeaveHeld { member: Member, check: Check } for ReplacementHeld, human => "{member} is not declared any more and cannot leave: {check}";
    LeaveLost { member: Member, host: HostId } for StorageLost, human => "{member} is not declared any more and lost its storage, so it cannot leave by itself: remove its node (`nodetool removenode {host}`), or declare the member again, and it is replaced";
    LeaveUnplaced { member: Member } for ReplacementHeld, human => "{member} is not declared any more and not on record, and nobody lists its node at the address of its Service, if it has one: it can neither be told to leave nor be cleared away; declare it again and delete its pod, so that the others see it there, then take it away";
    Leaving { member: Member } for Progressing => "waiting for {member} to have left";
    LeftHalfway { member: Member, host: HostId } for StorageLost, human => "{member} lost its disk while it was leaving, and the others still list {host} as leaving: nobody can finish that for it; remove it (`nodetool removenode {host}`), and it may join as new";
    HasLeft { member: Member } => "{member} has left the ring: its record and its volume go, its disk is never started again";
    // Label
    ByLabel { member: Member } for Progressing => "a human put `scylla/replace` on {member}: its volume is given up and it is replaced";
    LabelUnknown { member: Member } for ReplacementHeld => "{member} carries `scylla/replace` and is not on record, so nobody knows whom it would replace, and its volume is not given up: it is put on record when another member sees it Normal; if its node is in the ring and dead, remove that (`nodetool removenode`) and take the label off, and it joins as new";
    LabelElsewhere { member: Member } => "{member} carries `scylla/replace`: scylla-operator replaces it, nothing is done here";
    LabelDone { member: Member } => "{member} was replaced: the label is taken off";
    NotedOther { member: Member, host: HostId, noted: HostId } for ReplacementHeld, human => "{member} lost its storage and is not labelled: {host} is on record, and the Service of the member notes {noted}, which is whom scylla-operator would replace; if the others list {host} there, put that note right (annotation `internal.scylla-operator.scylladb.com/host-id`)";
    NotedNothing { member: Member, host: HostId } for ReplacementHeld, human => "{member} lost its storage and is not labelled: {host} is on record, and the Service of the member notes no host id (annotation `internal.scylla-operator.scylladb.com/host-id`), so that scylla-operator would not know whom to replace; write {host} there if the others list it at the address of the member";
    SetLabel { member: Member } for Progressing => "all checks hold: {member} is labelled, and scylla-operator replaces it";
    LabelSet { member: Member } for Progressing => "waiting for scylla-operator to replace {member}";
    LabelIgnored { member: Member } for ReplacementFailed, human => "{member} was labelled long ago and scylla-operator has not replaced it: read the log of that operator and of the pod; to end the wait here, set `spec.autoreplacement.enabled: false` first and then take the label off, or it is set again";
}

/// What is there instead of a pod whose gate speaks, and what a human can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Missing {
    /// No pod.
    Gone,
    /// A pod that does not end.
    Ending,
    /// A pod that has told nothing.
    Silent,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "its pod is gone and does not come back; the Events of its StatefulSet say why",
            Self::Ending => "its pod is ending and does not end; look at its Node, and delete the pod by force only if you know that the Node is off",
            Self::Silent => "its pod is not scheduled, or its gate has told nothing; `kubectl describe pod` and the log of the pod say why",
        })
    }
}

/// A check of a replacement, as it stands: what was asked and what was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the sentence is the documentation")]
pub enum Check {
    NobodyAnswers {
        wanted: usize,
    },
    TooFewAnswers {
        got: usize,
        wanted: usize,
    },
    NoQuorum {
        got: usize,
        wanted: usize,
        ring: usize,
    },
    QuorumLost {
        left: usize,
        wanted: usize,
        ring: usize,
    },
    NotListed {
        host: HostId,
        by: Member,
    },
    NotNormal {
        host: HostId,
        by: Member,
    },
    StillAlive {
        host: HostId,
        by: Member,
    },
    DownTooShort {
        host: HostId,
        by: Member,
    },
    Hibernate {
        host: HostId,
        by: Member,
    },
    OtherDown {
        other: HostId,
        by: Member,
    },
    ItselfDown {
        host: HostId,
        by: Member,
    },
    OtherLost {
        other: Member,
        by: Member,
    },
    OtherDownRefused {
        other: HostId,
    },
    OtherBusy {
        other: HostId,
        by: Member,
    },
    OtherLabelled {
        other: Member,
    },
    Rollout,
    TooFewCopies {
        keyspace: Name,
        copies: u32,
        lost: u32,
    },
    CopiesNeeded {
        keyspace: Name,
        copies: u32,
        left: u32,
    },
    CopiesUnknown,
    KeyspaceUnknown {
        keyspace: Name,
        by: Member,
    },
    TopologyMismatch {
        is: Location,
        was: Location,
    },
    LocationUnknown,
    NoSeed,
    SeedNotTaught {
        peer: Member,
    },
    Maintenance,
    NotAutomatic,
    Label,
    AddressTaken {
        address: Address,
        other: HostId,
        by: Member,
    },
    AddressUnknown,
    SchemaDiffers {
        by: Member,
    },
    SchemaBehind {
        other: HostId,
        by: Member,
    },
    Passed,
}

impl Check {
    /// Waiting will not make it pass.
    pub fn needs_human(&self) -> bool {
        matches!(
            self,
            Self::TooFewCopies { .. }
                | Self::CopiesNeeded { .. }
                | Self::QuorumLost { .. }
                | Self::OtherDownRefused { .. }
                | Self::TopologyMismatch { .. }
                | Self::Maintenance
                | Self::NotAutomatic
        )
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NobodyAnswers { wanted } => {
                write!(
                    f,
                    "no other member answers, {wanted} are needed; nothing is started empty without them"
                )
            }
            Self::TooFewAnswers { got, wanted } => {
                write!(f, "{got} other members answer and {wanted} are needed")
            }
            Self::NoQuorum { got, wanted, ring } => {
                write!(
                    f,
                    "{got} of {ring} members answer; a majority of {wanted} is needed to change the ring"
                )
            }
            Self::QuorumLost { left, wanted, ring } => write!(
                f,
                "{left} of {ring} members are left and {wanted} are needed to change the ring: it cannot heal itself; bring a lost disk back, remove dead nodes by hand, or restore a backup"
            ),
            Self::NotListed { host, by } => write!(f, "{by} does not list {host}"),
            Self::NotNormal { host, by } => write!(f, "{by} does not see {host} as a normal owner of tokens"),
            Self::StillAlive { host, by } => write!(f, "StillAlive: {by} sees {host} alive"),
            Self::DownTooShort { host, by } => write!(f, "{by} has not seen {host} down for long enough"),
            Self::Hibernate { host, by } => write!(
                f,
                "{by} calls {host} `hibernate`: a start in its place is alive, or was cut off and has not been still for long enough"
            ),
            Self::OtherLost { other, by } => write!(
                f,
                "another member, {other}, lost its storage too, and {by} has not seen it down yet"
            ),
            Self::OtherDown { other, by } => write!(f, "{by} sees another member, {other}, down"),
            Self::ItselfDown { host, by } => write!(f, "{by} sees {host}, its own node, down"),
            Self::OtherDownRefused { other } => write!(
                f,
                "another member, {other}, is down too, and the database refuses (\"request canceled because some required nodes are dead\"); bring it back, or declare it dead for good yourself (`nodetool excludenode`, or an ignore list): that is never done for you"
            ),
            Self::OtherBusy { other, by } => {
                write!(
                    f,
                    "{by} sees {other} joining, leaving or replacing; that must end first"
                )
            }
            Self::OtherLabelled { other } => {
                write!(f, "{other} carries `scylla/replace`; that must end first")
            }
            Self::Rollout => f.write_str("pods are being restarted for a new template"),
            Self::TooFewCopies {
                keyspace,
                copies,
                lost,
            } => write!(
                f,
                "keyspace {keyspace} has {copies} copies and {lost} members are lost: rows would be gone for good and nothing would show it; restore a backup, or set `acceptLoss: true`"
            ),
            Self::CopiesNeeded {
                keyspace,
                copies,
                left,
            } => write!(
                f,
                "keyspace {keyspace} keeps {copies} copies, and {left} members would be left to keep them; lower its replication factor, or declare the member again"
            ),
            Self::CopiesUnknown => {
                f.write_str("CopiesUnknown: no member told how often the rows of each keyspace are kept")
            }
            Self::KeyspaceUnknown { keyspace, by } => write!(
                f,
                "CopiesUnknown: {by} cannot tell how often the rows of keyspace {keyspace} are kept"
            ),
            Self::TopologyMismatch { is, was } => {
                write!(
                    f,
                    "TopologyMismatch: its pod is in {is}, the lost node was in {was}; bring the pod back there"
                )
            }
            Self::LocationUnknown => f.write_str("it is not known where its pod is"),
            Self::NoSeed => f.write_str("no live member could be its seed"),
            Self::SeedNotTaught { peer } => write!(f, "{peer} does not list its address as a seed yet"),
            Self::Maintenance => f.write_str("it is in maintenance; end the maintenance"),
            Self::NotAutomatic => f.write_str(
                "autoreplacement was switched off; label its Service with `scylla/replace` to replace it",
            ),
            Self::Label => f.write_str("it carries `scylla/replace`"),
            Self::AddressTaken { address, other, by } => {
                write!(f, "{by} sees another node, {other}, at {address}")
            }
            Self::AddressUnknown => f.write_str("it has no address yet"),
            Self::SchemaDiffers { by } => write!(
                f,
                "{by} knows members with another schema; a start would wait for them in vain"
            ),
            Self::SchemaBehind { other, by } => write!(
                f,
                "{by} knows another schema of {other}, which is down; a start would wait for it in vain: bring it back first"
            ),
            Self::Passed => f.write_str("holds"),
        }
    }
}
