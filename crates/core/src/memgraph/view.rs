//! The questions that every decision asks of (record, observed, now). Names as in `docs/protocol.md`.

use super::ids::{Ordinal, ProcessId, RegistrationName, Term, VolumeId};
use super::observed::{Answer, Contact, Mode, Observed, Registration, Role, Status};
use super::reason::{Evidence, Fact, Source, Why};
use super::record::{Main, Record, Writes};
use super::rules::{Rule, Rules};
use super::spec::{Spec, WritesWithoutSync};
use crate::time::Time;

/// A turn's knowledge, with the questions that can be asked of it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The record as it was read.
    pub record: &'a Record,
    /// What was seen after that.
    pub seen: &'a Observed,
    /// Now.
    pub now: Time,
}

impl<'a> View<'a> {
    /// What the user declared.
    pub fn spec(&self) -> Spec {
        self.seen.spec
    }

    /// Which rules are in force.
    pub fn rules(&self) -> Rules {
        self.seen.spec.rules
    }

    /// What this pod answered after the record was read.
    pub fn answer(&self, pod: Ordinal) -> Option<&'a Answer> {
        self.seen.answer(pod)
    }

    /// The volume of this pod.
    pub fn volume(&self, pod: Ordinal) -> Option<VolumeId> {
        self.seen.object(pod)?.volume
    }

    /// The term in this pod's data: outer `None` if it could not be read.
    pub fn mark(&self, pod: Ordinal) -> Option<Option<Term>> {
        self.answer(pod)?.data.map(|d| d.mark.map(|m| m.term))
    }

    /// `role(p) = main` and the process is the recorded one.
    pub fn healthy(&self, main: &Main) -> bool {
        self.answer(main.pod)
            .is_some_and(|a| a.role == Role::Main && a.process == main.process)
    }

    /// May this pod take the office without losing anything? Protected, same process, still a REPLICA, and
    /// its data says the term of MAIN.
    pub fn promotable(&self, pod: Ordinal) -> bool {
        let (Some(sync), Some(main), Some(answer)) = (self.record.sync, &self.record.main, self.answer(pod))
        else {
            return false;
        };
        sync.pod == pod
            && (sync.process == answer.process || !self.rules().on(Rule::R2))
            && answer.role == Role::Replica
            && self.mark(pod) == Some(Some(main.term))
    }

    /// Is this the recorded MAIN, back with everything it had?
    ///
    /// The mark may also be that of an unfinished term: only a process that was MAIN in it can have written
    /// it there, and nothing is registered to a MAIN before it serves.
    pub fn returning(&self, pod: Ordinal) -> bool {
        let (Some(main), Some(answer)) = (&self.record.main, self.answer(pod)) else {
            return false;
        };
        if main.pod != pod {
            return false;
        }
        if !self.rules().on(Rule::R6) {
            return true;
        }
        let same_data = answer.data.is_some_and(|d| d.database == main.database);
        let marked = matches!(self.mark(pod), Some(Some(t)) if t >= main.term && t <= self.record.term);
        self.volume(pod) == Some(main.volume) && same_data && marked
    }

    /// Is there nothing at all on this pod?
    pub fn is_blank(&self, pod: Ordinal) -> bool {
        let data = self.answer(pod).and_then(|a| a.data);
        data.is_some_and(|d| d.is_blank())
    }

    /// Is there nothing at all on this pod, while the other authority pod may hold something?
    pub fn is_blank_beside_data(&self, pod: Ordinal) -> bool {
        self.is_blank(pod) && !pod.partner().is_some_and(|other| self.is_blank(other))
    }

    /// What speaks against MAIN; `None` if nothing does, or not enough.
    pub fn suspicion(&self, main: &Main) -> Option<(Why, Evidence)> {
        let pod = main.pod;
        let leaves = self.seen.object(pod).is_some_and(|o| o.terminating);
        let terminating = || {
            (
                Why::MainTerminating { main: pod },
                self.kube(main, Fact::Terminating),
            )
        };
        self.ended(main)
            .or_else(|| leaves.then(terminating))
            .or_else(|| self.out_of_reach(main))
    }

    /// Is MAIN lost? That its pod is on its way out is no sign of it: until it has ended it may acknowledge.
    pub fn is_lost(&self, main: &Main) -> bool {
        self.ended(main).or_else(|| self.out_of_reach(main)).is_some()
    }

    /// MAIN's process ended, or is MAIN no more.
    fn ended(&self, main: &Main) -> Option<(Why, Evidence)> {
        let pod = main.pod;
        if self.seen.is_gone(pod, main.process) {
            return Some((Why::MainEnded { main: pod }, self.kube(main, Fact::ProcessEnded)));
        }
        let answer = self.answer(pod).filter(|a| a.role == Role::Replica)?;
        let evidence = Evidence {
            fact: Fact::Role(Role::Replica),
            at: answer.at,
            source: Source::Database(pod),
            process: Some(answer.process),
        };
        Some((Why::MainDemoted { main: pod }, evidence))
    }

    /// What Kubernetes says of MAIN's pod.
    fn kube(&self, main: &Main, fact: Fact) -> Evidence {
        Evidence {
            fact,
            at: self.seen.read_at,
            source: Source::Kubernetes(main.pod),
            process: Some(main.process),
        }
    }

    /// Did MAIN not answer us often enough, and no gateway either? One look that it missed is no sign of its death (R21).
    pub fn out_of_reach(&self, main: &Main) -> Option<(Why, Evidence)> {
        let pod = main.pod;
        let (why, fact, since) = match self.seen.pod(pod)?.contact {
            Contact::Refused { times, since } if times >= 2 => {
                (Why::MainRefuses { main: pod, times }, Fact::Refused(times), since)
            }
            Contact::Silent { probes, since } if probes >= self.spec().silent_probes => {
                (Why::MainSilent { main: pod, probes }, Fact::Silent(probes), since)
            }
            _ => return None,
        };
        if self.vetoed(main) {
            return None;
        }
        Some((
            why,
            Evidence {
                fact,
                at: since,
                source: Source::Probe(pod),
                process: Some(main.process),
            },
        ))
    }

    /// Did a gateway have an answer from this very process just now (R21)?
    pub fn vetoed(&self, main: &Main) -> bool {
        let fresh = |at: Time| self.now.since(at) < self.spec().veto;
        self.rules().on(Rule::R21)
            && self
                .seen
                .gateways
                .iter()
                .any(|g| g.heard.is_some_and(|(at, p)| p == main.process && fresh(at)))
    }

    /// Is this process one of those that lived when MAIN's epoch began (R25)?
    pub fn in_epoch(&self, process: ProcessId) -> bool {
        !self.rules().on(Rule::R25)
            || self
                .record
                .main
                .as_ref()
                .is_some_and(|m| m.peers.contains(&process))
    }

    /// Did a human approve the reset of this pod, as it runs now?
    pub fn approved(&self, pod: Ordinal) -> bool {
        let process = self.answer(pod).map(|a| a.process);
        let wishes = [self.seen.wishes.approve_reset, self.seen.wishes.reset];
        let mut wishes = wishes.into_iter().flatten();
        wishes.any(|a| a.pod == pod && Some(a.process) == process)
    }

    /// Did a human ask for the reset of this pod, as it runs now? Of the pair nobody is reset who is not diverged.
    pub fn wished_away(&self, pod: Ordinal) -> bool {
        let process = self.answer(pod).map(|a| a.process);
        let wish = self.seen.wishes.reset;
        wish.is_some_and(|a| a.pod == pod && Some(a.process) == process) && !pod.is_authority()
    }

    /// Is this process loose (R34)?
    pub fn loose(&self, process: ProcessId) -> bool {
        self.rules().on(Rule::R34) && self.record.is_loose(process)
    }

    /// Have all gateways confirmed the record as it is: nothing older is forwarded any more.
    pub fn confirmed(&self) -> bool {
        self.seen.all_confirmed(self.record.term, self.record.revision)
    }

    /// Do gateways forward nothing now: held or closed, and every one of them has said so?
    pub fn writes_stand_still(&self) -> bool {
        self.record.writes != Writes::Open && self.confirmed()
    }

    /// The recorded MAIN is there and answers nobody, long after its successor was chosen.
    pub fn holds_up_its_successor(&self, main: &Main) -> bool {
        let hangs = matches!(
            self.seen.pod(main.pod).map(|p| &p.contact),
            Some(Contact::Silent { probes, .. }) if *probes >= self.spec().silent_probes
        );
        let there = self
            .seen
            .object(main.pod)
            .is_some_and(|o| o.running == Some(main.process) && !o.terminating);
        hangs && there && self.now.since(self.record.since) > self.spec().promotion_patience
    }

    /// Is this replica taking a commit at this moment? Under load most looks find it so; one that stands still is stuck.
    pub fn at_work(&self, r: &Registration) -> bool {
        r.attached && r.status == Status::Replicating && self.now.since(r.since) < self.spec().steady
    }

    /// Does MAIN feed this replica? Under load most looks find an ASYNC one `invalid`, a little further each time.
    pub fn is_fed(&self, r: &Registration) -> bool {
        let fresh = |at: Time| at > self.record.since && self.now.since(at) < self.spec().steady;
        r.attached && r.status != Status::Diverged && r.moved.is_some_and(fresh)
    }

    /// Is this pod empty beside a MAIN that is not? One that came back so between two pings is still called `ready`
    /// (the status is a cache), until a commit of MAIN finds out.
    pub fn is_hollow(&self, main: &Main, pod: Ordinal) -> bool {
        matches!(self.mark(main.pod), Some(Some(_))) && self.mark(pod) == Some(None)
    }

    /// May writes be held now? Holds are short and have pauses between them.
    pub fn may_hold(&self) -> bool {
        let never = self.record.held_at == Time::ZERO;
        never || self.now.since(self.record.held_at) >= self.spec().hold * 6
    }

    /// What the policy says of writes while nobody protects them.
    pub fn writes_unprotected(&self, exposed: bool) -> Writes {
        match self.spec().writes_without_sync {
            WritesWithoutSync::Always => Writes::Open,
            WritesWithoutSync::AfterFailover if exposed => Writes::Open,
            WritesWithoutSync::AfterFailover => Writes::Held,
            WritesWithoutSync::Never => Writes::Closed,
        }
    }

    /// The registrations of one pod at MAIN.
    pub fn registrations_of(answer: &'a Answer, pod: Ordinal) -> impl Iterator<Item = &'a Registration> {
        answer
            .replicas
            .iter()
            .flatten()
            .filter(move |r| r.name.pod() == pod)
    }

    /// May this registration be dropped now (R33)? Dropping one with background work crashes or freezes MAIN.
    pub fn droppable(&self, registration: &Registration) -> bool {
        if !self.rules().on(Rule::R33) || !registration.attached {
            // A zombie has no client, so it has no work either.
            return true;
        }
        let pod = registration.name.pod();
        let steady = self.now.since(registration.since) >= self.spec().steady;
        match registration.status {
            // One that missed the end of the last commit stays behind until the next one, which never comes while
            // writes are closed.
            Status::Ready => self.writes_stand_still() && (registration.behind == 0 || steady),
            // A healthy link would have moved on within a few pings, so what stands still has no work.
            Status::Invalid | Status::Diverged => self.is_away(pod) || steady,
            Status::Replicating | Status::Recovery => false,
        }
    }

    /// Is nothing listening for replication in this pod?
    pub fn is_away(&self, pod: Ordinal) -> bool {
        match self.seen.pod(pod) {
            None => true,
            Some(p) => p.object.is_none_or(|o| o.running.is_none()) || p.replication_port_open == Some(false),
        }
    }

    /// Can this pod not be registered now: no object, no address, or on its way out?
    pub fn is_leaving(&self, pod: Ordinal) -> bool {
        self.seen
            .object(pod)
            .is_none_or(|o| o.terminating || !o.addressed)
    }

    /// Was the replication port of this pod not seen open (R28)?
    pub fn port_is_closed(&self, pod: Ordinal) -> bool {
        let open = self.seen.pod(pod).and_then(|p| p.replication_port_open);
        self.rules().on(Rule::R28) && open != Some(true)
    }

    /// Is this registration the one the record wants for SYNC?
    pub fn is_current_strict(&self, registration: &Registration) -> bool {
        registration.mode == Mode::StrictSync
            && match registration.name {
                RegistrationName::Strict(_, generation) => {
                    generation == self.record.generation || !self.rules().on(Rule::R4)
                }
                RegistrationName::Async(_) => false,
            }
    }

    /// Evidence: what the database of this pod said of itself.
    pub fn said(&self, pod: Ordinal) -> Option<Evidence> {
        self.answer(pod).map(|a| Evidence {
            fact: Fact::Mark(a.data.and_then(|d| d.mark).map(|m| m.term)),
            at: a.at,
            source: Source::Database(pod),
            process: Some(a.process),
        })
    }

    /// Evidence: the cached status of a registration.
    pub fn listed(&self, main: Ordinal, registration: &Registration) -> Evidence {
        Evidence {
            fact: Fact::Status(registration.status),
            at: registration.since,
            source: Source::Database(main),
            process: None,
        }
    }
}
