//! What the observations say, read independently of the code that decides.

use crate::memgraph::ids::{Ordinal, PodUid, ProcessId, Term, VolumeId};
use crate::memgraph::observed::{
    Answer, Approval, Contact, Data, Observed, Pod, PodObject, Registration, Role, Status,
};
use crate::memgraph::plan::Target;
use crate::memgraph::record::{Candidate, Main, Record, State};
use crate::time::Time;

/// Memgraph's number for "diverged".
const DIVERGED: u8 = 3;

#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) seen: &'a Observed,
    pub(super) now: Time,
}

impl<'a> Facts<'a> {
    pub(super) fn pod(self, pod: Ordinal) -> Option<&'a Pod> {
        self.seen.pods.iter().find(|p| p.ordinal == pod)
    }

    pub(super) fn object(self, pod: Ordinal) -> Option<&'a PodObject> {
        self.pod(pod)?.object.as_ref()
    }

    /// What the pod said after the record was read; anything older is history.
    pub(super) fn fresh(self, pod: Ordinal) -> Option<&'a Answer> {
        match &self.pod(pod)?.contact {
            Contact::Answered(answer) if answer.at >= self.seen.read_at => Some(answer),
            Contact::Answered(_) | Contact::Unknown | Contact::Refused { .. } | Contact::Silent { .. } => {
                None
            }
        }
    }

    /// What this very process said after the record was read.
    pub(super) fn fresh_process(self, target: Target) -> Option<&'a Answer> {
        self.fresh(target.pod).filter(|a| a.process == target.process)
    }

    pub(super) fn volume(self, pod: Ordinal) -> Option<VolumeId> {
        self.object(pod)?.volume
    }

    pub(super) fn has_uid(self, pod: Ordinal, uid: PodUid) -> bool {
        self.object(pod).is_some_and(|o| o.uid == uid)
    }

    /// What the pod holds, if it was read after the record.
    pub(super) fn data(self, pod: Ordinal) -> Option<Data> {
        self.fresh(pod)?.data
    }

    /// The term in the pod's data, if it was read and there is one.
    pub(super) fn mark(self, pod: Ordinal) -> Option<Term> {
        self.data(pod)?.mark.map(|m| m.term)
    }

    /// A process that just answered is not gone, whatever a lagging object says.
    pub(super) fn gone(self, target: Target) -> bool {
        if let Some(answer) = self.fresh(target.pod) {
            return answer.process != target.process;
        }
        self.object(target.pod).is_some_and(|o| {
            o.ended == Some(target.process) || o.running.is_some_and(|p| p != target.process)
        })
    }

    /// The recorded MAIN answers as MAIN, in the recorded process.
    pub(super) fn healthy(self, record: &Record) -> Option<&'a Answer> {
        let main = record.main.as_ref()?;
        self.fresh_process(holder(main)).filter(|a| a.role == Role::Main)
    }

    pub(super) fn gateways_have_term(self, term: Term) -> bool {
        self.seen.gateways.iter().all(|g| g.term >= term)
    }

    /// Every gateway confirmed this record or a later one. Revisions begin anew when a lost record is rebuilt.
    pub(super) fn gateways_have(self, record: &Record) -> bool {
        let known = (record.term, record.revision);
        self.seen.gateways.iter().all(|g| (g.term, g.revision) >= known)
    }

    /// Nothing listens for replication in this pod.
    pub(super) fn away(self, pod: Ordinal) -> bool {
        let Some(pod) = self.pod(pod) else { return true };
        let runs = pod.object.is_some_and(|o| o.running.is_some());
        !runs || pod.replication_port_open == Some(false)
    }

    /// Did this MAIN refuse the answering process of this pod as diverged, or show it so?
    pub(super) fn accused(self, main: &Main, pod: Ordinal) -> bool {
        let Some(answer) = self.fresh(pod) else {
            return false;
        };
        let blank = answer.data.is_some_and(|d| d.is_blank());
        let refused = self.pod(pod).and_then(|p| p.refusal).is_some_and(|r| {
            r.code == DIVERGED && r.by == main.process && r.of == answer.process && r.term == main.term
        });
        let mut listed = self.listed(main.pod);
        refused || (!blank && listed.any(|r| r.name.pod() == pod && r.status == Status::Diverged))
    }

    /// Does MAIN show this pod with more than MAIN has (R27)?
    pub(super) fn is_ahead(self, main: &Main, pod: Ordinal) -> bool {
        self.listed(main.pod)
            .any(|r| r.name.pod() == pod && r.attached && r.status == Status::Ready && r.behind > 0)
    }

    /// Does a human name this pod, by a wish that still holds and was not fulfilled yet?
    pub(super) fn chosen(self, before: Option<&Record>, pod: Ordinal) -> bool {
        let honoured = before.and_then(|r| r.honoured);
        self.seen
            .wishes
            .override_main
            .is_some_and(|wish| wish.pod == pod && self.now < wish.until && honoured != Some(wish))
    }

    /// Did a human approve the reset of the process that answers in this pod?
    pub(super) fn approved(self, pod: Ordinal) -> bool {
        let wishes = [self.seen.wishes.approve_reset, self.seen.wishes.reset];
        self.names(pod, wishes)
    }

    /// Did a human ask for the reset of this pod, which is outside the pair?
    pub(super) fn wished_away(self, pod: Ordinal) -> bool {
        !pod.is_authority() && self.names(pod, [self.seen.wishes.reset])
    }

    fn names<const N: usize>(self, pod: Ordinal, wishes: [Option<Approval>; N]) -> bool {
        let mut wishes = wishes.into_iter().flatten();
        wishes.any(|a| a.pod == pod && self.fresh(pod).is_some_and(|f| f.process == a.process))
    }

    pub(super) fn terminating(self, pod: Ordinal) -> bool {
        self.object(pod).is_some_and(|o| o.terminating)
    }

    /// Its data belongs to another database.
    pub(super) fn foreign(self, main: &Main, pod: Ordinal) -> bool {
        self.fresh(pod)
            .and_then(|a| a.data)
            .is_some_and(|d| d.database != main.database && !d.is_blank())
    }

    /// Does the mark of this pod of the pair say that it followed this MAIN since it took the office (R14)?
    pub(super) fn followed(self, main: &Main, pod: Ordinal) -> bool {
        let mark = self.fresh(pod).and_then(|a| a.data).and_then(|d| d.mark);
        pod.is_authority() && mark.is_some_and(|m| main.was_followed_by(m.term))
    }

    /// Does this ASYNC pod have data that did not come from this MAIN (R20)?
    pub(super) fn may_hold_lost_write(self, main: &Main, pod: Ordinal) -> bool {
        let mark = self.fresh(pod).and_then(|a| a.data).and_then(|d| d.mark);
        let elsewhere = mark.is_none_or(|m| !main.was_followed_by(m.term));
        !pod.is_authority() && (elsewhere || self.foreign(main, pod))
    }

    /// Is MAIN's history more likely wrong than everybody's data (R26)?
    pub(super) fn main_is_suspect(self, main: &Main) -> bool {
        let answering = |p: &&Pod| p.ordinal != main.pod && self.fresh(p.ordinal).is_some();
        let peers = self.seen.pods.iter().filter(answering).count();
        let accused = self
            .seen
            .pods
            .iter()
            .filter(answering)
            .filter(|p| self.accused(main, p.ordinal))
            .count();
        main.suspect || (!main.rebuilt && peers >= 2 && peers == accused)
    }

    /// What this pod lists as its replicas.
    pub(super) fn listed(self, pod: Ordinal) -> impl Iterator<Item = &'a Registration> {
        self.fresh(pod)
            .and_then(|a| a.replicas.as_ref())
            .into_iter()
            .flatten()
    }
}

pub(super) fn holder(main: &Main) -> Target {
    Target {
        pod: main.pod,
        process: main.process,
    }
}

pub(super) fn aspirant(candidate: &Candidate) -> Target {
    Target {
        pod: candidate.pod,
        process: candidate.process,
    }
}

/// A term was begun that has no MAIN yet.
pub(super) fn unfinished(record: &Record) -> bool {
    match record.state {
        State::Initialising | State::NoMain | State::SwitchingOver => true,
        State::Serving | State::Hibernated => false,
    }
}

pub(super) fn is_loose(record: &Record, process: ProcessId) -> bool {
    record.loose.iter().any(|l| l.process == process)
}
