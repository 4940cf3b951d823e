//! The record: who is MAIN, in which term, and who protects it.
//!
//! It is the only shared truth. Every change is a compare-and-swap of the whole value, and every change
//! this module allows is one of the named transitions below: nobody else assembles a record.

use super::ids::{DatabaseId, Gen, Ordinal, ProcessId, RegistrationName, ResetId, Revision, Term, VolumeId};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where the cluster is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum State {
    /// The first term is being set up; there was never a MAIN.
    Initialising,
    /// `main` serves.
    Serving,
    /// A term was begun and has no MAIN yet; `candidate` is to become it.
    NoMain,
    /// A planned move to `candidate` is under way.
    SwitchingOver,
    /// Asleep on purpose.
    Hibernated,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Whether gateways forward writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Writes {
    /// Forwarded.
    Open,
    /// New transactions wait for a moment (a DROP or a proof is near).
    Held,
    /// Refused.
    Closed,
}

/// The holder of the office: the last pod that reached `Serving`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Main {
    /// Which pod.
    pub pod: Ordinal,
    /// Which run of its container.
    pub process: ProcessId,
    /// Which disk.
    pub volume: VolumeId,
    /// Which database.
    pub database: DatabaseId,
    /// The term in which it began to serve: what its mark must say.
    pub term: Term,
    /// The last term whose promotion really turned a REPLICA into MAIN (R25).
    pub epoch: Term,
    /// Processes that were seen when that epoch began: they have not restarted in it (R25).
    pub peers: Vec<ProcessId>,
    /// Its history may be wrong, so an `Error: 3` says nothing about the accused (R26).
    pub suspect: bool,
    /// Its history is right about data of this term and later ones (R26). What is older was written when its
    /// process may have noted an end too early: an `Error: 3` against such data may be false.
    pub history_from: Term,
    /// Its process began to serve right after it started, so its history was rebuilt and is right (R26).
    pub rebuilt: bool,
    /// Since this term nobody but this pod has held the office: whose data has a mark of it or of a later one followed
    /// this pod (R14). Not written by the first versions, which then means: always.
    #[serde(default)]
    pub office_from: Term,
    /// The last term since then in which the other pod was to take the office and did not. A mark of that term is of its
    /// own making.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rival: Option<Term>,
}

/// Who is to become MAIN in a term that has none yet (R5).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Candidate {
    /// Which pod.
    pub pod: Ordinal,
    /// Which run of its container.
    pub process: ProcessId,
    /// Which disk.
    pub volume: VolumeId,
    /// Processes seen by the turn that began the term; becomes `main.peers` if a promotion completes it.
    pub peers: Vec<ProcessId>,
    /// Becomes `main.suspect`.
    pub suspect: bool,
    /// A human chose it and accepted the loss, by the wish that ends then: the fence has no time-out (R15), the
    /// mark may be any.
    pub forced: Option<Time>,
    /// Its claim is its volume's, not only its process's (R37).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
}

/// A claim to the office that passed from a process to its volume (R37).
///
/// Written while the old MAIN was fenced and the protected process still ran: from then on nothing is acknowledged
/// before the term serves, so whoever runs on that volume next lacks nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The process that was protected.
    pub process: ProcessId,
    /// The old MAIN's process was over by then, so nobody replicates to what runs next, and its history is as right
    /// as that of the protected process (R26).
    pub alone: bool,
}

/// A human's wish for a MAIN: which pod, and until when the wish holds. The same pod wished for again has another end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// Which pod.
    pub pod: Ordinal,
    /// Until when.
    pub until: Time,
}

/// The proven protection: this process, on this volume, through this registration (R2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sync {
    /// Which pod.
    pub pod: Ordinal,
    /// Which run of its container.
    pub process: ProcessId,
    /// Which disk.
    pub volume: VolumeId,
    /// The registration through which it was proven.
    pub name: RegistrationName,
}

/// A reset that was asked for (R7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// Whose data is to be set aside.
    pub pod: Ordinal,
    /// The process that was seen diverged: the last one that may have run on the volume.
    pub process: ProcessId,
    /// Which request this is.
    pub id: ResetId,
    /// In which term it was decided.
    pub term: Term,
    /// When (wall clock; a reset that does not end is given up, so that it blocks no other).
    pub since: Time,
    /// What is set aside may hold a write that nobody else has: it is never trimmed (R20). Written only if it is so,
    /// because the first versions do not know it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
}

/// A process that a promote may still hit, because somebody else may send it or have it outstanding (R34).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loose {
    /// Which pod.
    pub pod: Ordinal,
    /// Which run of its container.
    pub process: ProcessId,
}

/// What the record says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// Only grows.
    pub term: Term,
    /// Only grows; the generation of the STRICT_SYNC name.
    pub generation: Gen,
    /// Grows with every write.
    pub revision: Revision,
    /// Where the cluster is.
    pub state: State,
    /// When this state was entered (wall clock; for deadlines and humans, never for safety).
    pub since: Time,
    /// Last holder of the office.
    pub main: Option<Main>,
    /// Who is to become MAIN.
    pub candidate: Option<Candidate>,
    /// Who protects it; `None` is not protected.
    pub sync: Option<Sync>,
    /// Whether gateways forward writes.
    pub writes: Writes,
    /// When writes were last held for a join (wall clock; only paces the next hold).
    pub held_at: Time,
    /// When a move was begun that has not succeeded (wall clock; only paces the next try).
    pub moved_at: Time,
    /// The override that was fulfilled last: one wish makes one term, however long it stays written.
    pub honoured: Option<Override>,
    /// Writes may be open although nobody protects them, because of a failover (policy `AfterFailover`).
    pub exposed: bool,
    /// A reset that was asked for.
    pub reset: Option<Reset>,
    /// Processes that are never proven (R34).
    pub loose: Vec<Loose>,
}

impl Main {
    /// Does this mark, of the other pod of the pair, say that it followed this MAIN?
    pub fn was_followed_by(&self, mark: Term) -> bool {
        mark >= self.office_from && Some(mark) != self.rival
    }
}

/// How far apart the generations of a rebuilt record are from those of the lost one, which nobody remembers. There is one
/// more for every withdrawal and every term, and a rebuilt record is of a later term: more than a million of them in each
/// term before would be needed to use a name twice (R4).
const GENERATIONS: u64 = 1 << 20;

impl Record {
    /// The first record after one was lost: what it had said of names and of loose processes is not known any more, so
    /// that names begin where none can have been (R4), and whoever runs may still be hit by a promote (R34).
    pub fn rebuilt(term: Term, candidate: Candidate, loose: Vec<Loose>, now: Time) -> Self {
        Self {
            generation: Gen(term.0.saturating_mul(GENERATIONS)),
            loose,
            ..Self::initialising(term, candidate, now)
        }
    }

    /// Are its names such as no record of an earlier term can have given?
    pub fn begins_names_anew(&self) -> bool {
        self.generation.0 >= self.term.0.saturating_mul(GENERATIONS)
    }

    /// The first record of a cluster: `candidate` is to become MAIN (R18).
    pub fn initialising(term: Term, candidate: Candidate, now: Time) -> Self {
        Self {
            term,
            generation: Gen(term.0),
            revision: Revision(1),
            state: State::Initialising,
            since: now,
            main: None,
            candidate: Some(candidate),
            sync: None,
            writes: Writes::Closed,
            held_at: Time::ZERO,
            moved_at: Time::ZERO,
            honoured: None,
            exposed: true,
            reset: None,
            loose: Vec::new(),
        }
    }

    /// A new term with a candidate and no MAIN: protection, reset and the old name's generation end here.
    ///
    /// If the term it replaces was unfinished, its candidate may still be promoted by somebody: it becomes
    /// loose.
    #[must_use]
    pub fn new_term(&self, candidate: Candidate, exposed: bool, now: Time) -> Self {
        let mut next = self.bumped();
        next.term = self.term.next();
        next.generation = self.generation.next();
        next.state = if self.main.is_some() {
            State::NoMain
        } else {
            State::Initialising
        };
        next.since = now;
        next.sync = None;
        next.reset = None;
        next.writes = Writes::Closed;
        // A hold belongs to its term. RENEW comes of a hold that made the replica level, and needs another one.
        next.held_at = Time::ZERO;
        next.exposed = exposed;
        if let Some(old) = &self.candidate {
            next.add_loose(Loose {
                pod: old.pod,
                process: old.process,
            });
            if let Some(main) = next.main.as_mut().filter(|m| m.pod != old.pod) {
                main.rival = Some(self.term);
            }
        }
        next.candidate = Some(candidate);
        next
    }

    /// A planned move to the protected replica. Its protection is kept until it serves.
    #[must_use]
    pub fn switching_over(&self, candidate: Candidate, now: Time) -> Self {
        let mut next = self.bumped();
        next.term = self.term.next();
        next.generation = self.generation.next();
        next.state = State::SwitchingOver;
        next.since = now;
        next.candidate = Some(candidate);
        next.reset = None;
        next.writes = Writes::Held;
        next.held_at = Time::ZERO;
        next.moved_at = now;
        // As after a failover: whoever serves next is not protected yet.
        next.exposed = true;
        next
    }

    /// Another turn than the one that began the term goes on with it: the candidate becomes loose (R34).
    #[must_use]
    pub fn taken_over(&self, loose: bool) -> Self {
        let mut next = self.bumped();
        if let (true, Some(c)) = (loose, &self.candidate) {
            next.add_loose(Loose {
                pod: c.pod,
                process: c.process,
            });
        }
        next
    }

    /// The candidate's claim passes to its volume (R37).
    #[must_use]
    pub fn claimed(&self, claim: Claim) -> Self {
        let mut next = self.bumped();
        if let Some(candidate) = &mut next.candidate {
            candidate.claim = Some(claim);
        }
        next
    }

    /// The candidate serves.
    #[must_use]
    pub fn serving(&self, main: Main, writes: Writes, now: Time) -> Self {
        let mut next = self.bumped();
        if let Some(Candidate {
            pod,
            forced: Some(until),
            ..
        }) = self.candidate
        {
            next.honoured = Some(Override { pod, until });
        }
        if self.state == State::SwitchingOver {
            next.moved_at = Time::ZERO;
        }
        next.state = State::Serving;
        next.since = now;
        next.main = Some(main);
        next.candidate = None;
        next.sync = None;
        next.writes = writes;
        next
    }

    /// Protection is proven.
    #[must_use]
    pub fn protected(&self, sync: Sync) -> Self {
        let mut next = self.bumped();
        next.sync = Some(sync);
        next.writes = Writes::Open;
        next.exposed = false;
        // The hold was worth it. The pause between two holds is for those that lead to nothing.
        next.held_at = Time::ZERO;
        if next.reset.is_some_and(|r| r.pod == sync.pod) {
            next.reset = None;
        }
        next
    }

    /// Protection is taken back and the registration's name retired (R4, R16).
    #[must_use]
    pub fn withdrawn(&self, writes: Writes) -> Self {
        let mut next = self.bumped();
        next.sync = None;
        next.generation = self.generation.next();
        next.writes = writes;
        next
    }

    /// Gateways hold new transactions for a moment.
    #[must_use]
    pub fn held(&self, now: Time) -> Self {
        let mut next = self.with_writes(Writes::Held);
        next.held_at = now;
        next
    }

    /// Gateways are told to open, hold or close.
    #[must_use]
    pub fn with_writes(&self, writes: Writes) -> Self {
        let mut next = self.bumped();
        next.writes = writes;
        next
    }

    /// A reset is asked for.
    #[must_use]
    pub fn resetting(&self, reset: Reset) -> Self {
        let mut next = self.bumped();
        next.reset = Some(reset);
        next
    }

    /// The reset is over.
    #[must_use]
    pub fn reset_done(&self) -> Self {
        let mut next = self.bumped();
        next.reset = None;
        next
    }

    /// The override asks for what is the case already.
    #[must_use]
    pub fn honouring(&self, wish: Override) -> Self {
        let mut next = self.bumped();
        next.honoured = Some(wish);
        next
    }

    /// Asleep; everything else is kept, so that it wakes as it was.
    #[must_use]
    pub fn hibernated(&self, now: Time) -> Self {
        let mut next = self.bumped();
        next.state = State::Hibernated;
        next.since = now;
        next.writes = Writes::Closed;
        next
    }

    /// Nothing changes but the revision: a compare-and-swap before a role command that needs no other.
    #[must_use]
    pub fn touched(&self) -> Self {
        self.bumped()
    }

    /// Drops the loose entries of processes that are certainly gone.
    #[must_use]
    pub fn without_gone(mut self, gone: impl Fn(Loose) -> bool) -> Self {
        self.loose.retain(|l| !gone(*l));
        self
    }

    /// Is this process one that a promote may still hit?
    pub fn is_loose(&self, process: ProcessId) -> bool {
        self.loose.iter().any(|l| l.process == process)
    }

    /// The record in one line, for transcripts and logs.
    pub fn headline(&self) -> String {
        use std::fmt::Write as _;
        let mut line = format!("{} {} {}", self.term, self.state, self.generation);
        let pod = |p: Ordinal| p.to_string();
        for (what, who) in [
            ("main", self.main.as_ref().map(|m| pod(m.pod))),
            ("candidate", self.candidate.as_ref().map(|c| pod(c.pod))),
            ("sync", self.sync.map(|s| pod(s.pod))),
            ("reset", self.reset.map(|r| pod(r.pod))),
        ] {
            if let Some(who) = who {
                let _ = write!(line, " {what}={who}");
            }
        }
        for loose in &self.loose {
            let _ = write!(line, " loose={}", loose.pod);
        }
        let _ = write!(line, " writes={:?}", self.writes);
        line
    }

    fn bumped(&self) -> Self {
        let mut next = self.clone();
        next.revision = self.revision.next();
        next
    }

    fn add_loose(&mut self, entry: Loose) {
        if let Err(at) = self.loose.binary_search(&entry) {
            self.loose.insert(at, entry);
        }
    }
}
