//! The invariants, by id. The number before the dot is the invariant of the architecture that it serves.

use crate::memgraph::rules::{Rule, Rules};
use serde::{Serialize, Serializer};
use std::fmt;

macro_rules! invariants {
    ($($variant:ident = $id:literal [$($rule:ident),*] : $text:literal,)*) => {
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

            /// The rules it stands for: with one of them off it is not reported.
            pub fn rules(self) -> &'static [Rule] {
                match self { $(Self::$variant => &[$(Rule::$rule),*],)* }
            }
        }
    };
}

invariants! {
    // 1: never two nodes that acknowledge.
    FenceFirst = "I1.1" [R1]: "Between the record of a term and its promotion the recorded MAIN's process is fenced, and its successor that may have been promoted, unless that very process is the candidate or there never was a MAIN.",
    NoProceed = "I1.2" [R5, R6, R15]: "A fence that does not come is passed over only if the policy says so, and never in a planned move or for an override.",
    StartFenceSeen = "I1.3" [R13]: "The end of a process counts as a fence only if its pod was seen to start as REPLICA.",
    CauseNeeded = "I1.4" [R21]: "A MAIN that serves loses its office to another pod only for a cause that was seen, and not while a gateway just heard from it.",

    // 2: no acknowledged write is lost.
    ProvenByCommit = "I2.1" [R3]: "Protection is recorded only after a commit on MAIN was read on that replica process in the same plan.",
    ProvenPair = "I2.2" []: "Protection is recorded only while serving, for the other authority pod's answering process, through an attached STRICT_SYNC registration of a healthy MAIN.",
    ProvenName = "I2.3" [R4]: "Protection names the STRICT_SYNC registration of the current generation.",
    ProvenNotLoose = "I2.4" [R34]: "Neither a loose MAIN nor a loose replica is proven.",
    ProvenInEpoch = "I2.5" [R25]: "Only a process that lived when MAIN's epoch began is proven.",
    ProvenAfterGateways = "I2.6" [R35]: "Protection is recorded only when every gateway confirmed the term.",
    ProtectionEnds = "I2.7" []: "A new term and a new MAIN begin without protection; only a planned move keeps it until it serves.",
    EpochNeedsPromotion = "I2.8" [R5, R11, R25]: "An epoch and its peers are new only if this plan promotes, and peers are processes that answered when the term began.",
    LooseUntilGone = "I2.9" [R34]: "A loose entry goes only when its process was seen to be gone.",
    UnfinishedIsLoose = "I2.10" [R5, R34]: "The candidate of a term that another turn began becomes loose before anything else happens to that term.",
    WithdrawFirst = "I2.11" [R5, R16]: "The registration that the record calls protection is never dropped.",
    DropIdle = "I2.12" [R33]: "An attached registration is dropped only without background work: level or unmoved while writes stand still, or dead.",
    RegisterName = "I2.13" [R4]: "Only ASYNC under the pod's name and STRICT_SYNC under the current generation's name of an authority pod are registered.",
    RegisterPeer = "I2.14" []: "Only the healthy MAIN registers, and only another pod that answered as REPLICA.",
    RegisterPort = "I2.15" [R28]: "A replica is registered only after its replication port was seen open.",
    RegisterUndone = "I2.16" [R32]: "A refused registration is dropped in the same turn, and nothing else is.",
    RegisterNewName = "I2.17" [R4, R16, R17]: "A name that is listed is not registered again, and no STRICT_SYNC name while the record says protected.",
    WritesByPolicy = "I2.18" []: "Writes open without protection only as the policy allows, and only a new term exposes.",
    WritesOnlyServing = "I2.19" []: "Writes are open only while a MAIN serves.",
    SleepClosed = "I2.20" [R24]: "Sleep begins only when it was asked for, writes are closed and every gateway confirmed it.",
    SleepProven = "I2.21" [R24]: "Protection is kept through sleep only if this plan proved it once more.",
    StrayUnprotected = "I2.22" [R5]: "A second MAIN is demoted only after it lost its protection in the record.",
    OfficeKept = "I2.23" [R11]: "The holder of the office is demoted only for a new epoch, after every gateway confirmed the hold.",
    ClosedWhileAhead = "I2.24" [R27]: "Writes are not opened while MAIN shows a replica that has more than MAIN.",

    // 3: no role command without a compare-and-swap.
    RecordFirst = "I3.1" [R5, R18]: "A role command follows a write of the record in the same plan.",
    CandidateOnly = "I3.2" []: "Only the candidate of the record just written is promoted, in a state without MAIN.",
    FreshTarget = "I3.3" []: "A database command goes only to a process that answered after the record was read.",
    OneRevision = "I3.4" []: "Every write raises the revision by one, and the record is created only if there is none.",
    OneTerm = "I3.5" []: "The term never falls and grows by at most one in a plan.",
    GenerationGrows = "I3.6" []: "The generation never falls and grows with every term and every withdrawal.",
    LegalChange = "I3.7" [R18]: "The record moves only along the named transitions: a term is begun, taken over, served, put to sleep.",
    Paused = "I3.8" []: "Nothing is done while a human paused the operator.",
    AsleepQuiet = "I3.9" []: "Asleep, only the number of pods and the record change, and the number of pods changes only asleep, or for a term whose pods are all missing.",

    // 4: who may be MAIN.
    Entitled = "I4.1" [R2, R5, R6]: "The candidate of a new term is the protected process, the recorded MAIN with all its data, the first one, the one that wakes with all its data, who runs on the volume that has the claim, or a human's choice.",
    CandidateSeen = "I4.2" []: "The candidate of a new term is an authority pod in the process that answered, on the volume that was seen.",
    CandidateStays = "I4.3" [R5]: "The candidate of a term never changes, but for the claim of its volume.",
    MarkExpected = "I4.4" [R6]: "The mark that is advanced is the one that was read, and one that the record explains.",
    ServesAsCandidate = "I4.5" [R18]: "Only the candidate begins to serve: promoted or found as MAIN, with its mark advanced to the term.",
    FirstTermAboveAll = "I4.6" [R19]: "A created record begins above every term that status, data or gateways have seen.",
    Adopted = "I4.7" [R8]: "A record is created only for an empty pair that never had one, or for a MAIN that holds everything the other pod holds.",
    SuspectKept = "I4.8" [R26]: "A candidate whose history will be wrong is called suspect, and stays so in office.",
    ClaimFenced = "I4.9" []: "A claim passes to the volume only when the recorded MAIN's process is over for good, every gateway confirmed the term, or the policy is to proceed without a fence, while the candidate's process still answers as REPLICA with the data of MAIN's term.",

    // 5: who is never reset.
    ResetTarget = "I5.1" []: "A reset is asked for only while a healthy MAIN serves, one at a time, and never of MAIN, candidate or protected pod.",
    ResetEvidence = "I5.2" []: "A reset is asked for only of the very process that was seen diverged or foreign.",
    ResetRoom = "I5.3" []: "A reset needs room for the quarantine and its share of the hour.",
    ResetQuiet = "I5.4" [R20]: "A diverged ASYNC replica is not reset in the first minutes of a term without approval, and what it may have of a lost write is kept.",
    ResetSuspect = "I5.5" [R26]: "Nobody is reset on the word of a MAIN whose own history is the suspect.",
    MarkerOfRecord = "I5.6" []: "Marker and deletion are only for the reset that the record asks for, the marker first.",
    EndProcess = "I5.7" []: "A process is ended only if it is loose, a hanging SYNC replica, a suspect MAIN, a hanging MAIN whose successor was chosen, or a candidate whose volume has the claim.",
}

impl Invariant {
    pub(super) fn in_force(self, rules: Rules) -> bool {
        self.rules().iter().all(|r| rules.on(*r))
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl Serialize for Invariant {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.id())
    }
}
