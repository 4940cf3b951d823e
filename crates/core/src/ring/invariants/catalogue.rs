//! The invariants, by id.

use std::fmt;

macro_rules! invariants {
    ($($variant:ident = $id:literal : $text:literal,)*) => {
        /// What no plan may break, however it was made.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Invariant {
            $(#[doc = $text] $variant,)*
        }

        impl Invariant {
            /// Every invariant, by id.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The id, as it stands in reports and metrics.
            pub fn id(self) -> &'static str {
                match self { $(Self::$variant => $id,)* }
            }

            /// The invariant in one sentence.
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

invariants! {
    NeverAlive = "I6.1": "A node is replaced, or its volume given up, only if other members answered, none sees it alive, and all have seen it down for the grace period; a volume that a human gave up by label needs the others alive instead.",
    OneAtATime = "I6.2": "Work that is under way is finished, withdrawn or given back before other work begins, and a replacement keeps naming what was lost.",
    Declared = "I6.3": "A node joins only if the ring has fewer nodes than members are declared and nobody is at its address; a ring is founded once, by the first member, when no volume can hold one, and not again if the disk of the first founding is gone.",
    NeverWiped = "I6.4": "Only what an unfinished start left is wiped, and never the disk of a known member; a claim is deleted only if its Node is gone, a human labelled its member, or its member has left.",
    GrantNames = "I6.5": "A permission has a new number and names the pod, claim and disk that the member's gate holds now.",
    GrantSeeds = "I6.6": "The seeds of a start are living members and never the node itself, except for the founder, whose only seed it is.",
    Off = "I6.7": "Nothing is done while paused; while asleep, or on the way there or back, members are drained and nothing else is; to sleep, nothing new is begun.",
    OneWrite = "I6.8": "The ledger is written once in a plan, its revision rises by one, and numbers of permissions never fall.",
    KnownByOthers = "I6.9": "What is known of a member is new only if another member's fresh answer shows it, normal, at its address.",
    RetiredStays = "I6.10": "A disk is retired when its place is given away, and taken back only if nobody has begun to take it: its own disk is back, or the permission to take it was not used in its time.",
    EnoughCopies = "I6.11": "A replacement is permitted only if every keyspace has more copies than members are lost, or a human accepted the loss.",
    HandsOff = "I6.12": "Nobody in maintenance is replaced, and automation leaves a labelled member alone.",
    Attended = "I6.13": "On a cluster of scylla-operator nothing is done but its label, and only with the ledger written in the same plan.",
    RecordPrinted = "I6.14": "A record says what the ledger says, and is deleted only to be renewed or because its member is unknown.",
    SamePlace = "I6.15": "A replacement starts in the datacenter and rack of the lost node.",
    PodIdle = "I6.16": "A pod is deleted only if it waits before its start, its Node is gone, a human labelled it, or its start is late and nobody sees it as a member.",
    QuietRing = "I6.17": "Nothing is started while another node joins, leaves, moves or replaces, or another work's node is not Normal.",
    Slept = "I6.18": "A ring sleeps because somebody wants it and nothing is under way; it is stopped when everybody who runs is drained or the time for that is up; it is woken when all pods are gone or were told to go, the first member of each rack first.",
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
