//! Situations that the other tests bend: a healthy cluster in which one thing happened.

use super::samples::{NOW, Sample, healthy, process};
use crate::memgraph::decide;
use crate::memgraph::ids::{DatabaseId, Ordinal, RegistrationName};
use crate::memgraph::observed::{Answer, Contact, Data, Mode, Pod, Refusal, Registration, Role};
use crate::memgraph::plan::Plan;
use crate::memgraph::record::{Candidate, Loose, Record, Writes};
use crate::time::Time;

pub(super) const MAIN: usize = 0;
pub(super) const OTHER: usize = 1;
pub(super) const EXTRA: usize = 2;

impl Sample {
    pub(super) fn with(mut self, f: impl FnOnce(&mut Self)) -> Self {
        f(&mut self);
        self
    }

    pub(super) fn pod(&mut self, i: usize) -> &mut Pod {
        &mut self.seen.pods[i]
    }

    pub(super) fn answer(&mut self, i: usize) -> &mut Answer {
        match &mut self.seen.pods[i].contact {
            Contact::Answered(answer) => answer,
            contact => panic!("{contact:?}"),
        }
    }

    pub(super) fn data(&mut self, i: usize) -> &mut Data {
        self.answer(i).data.as_mut().unwrap()
    }

    pub(super) fn listed(&mut self) -> &mut Vec<Registration> {
        self.answer(MAIN).replicas.as_mut().unwrap()
    }

    pub(super) fn record(&mut self) -> &mut Record {
        self.record.as_mut().unwrap()
    }

    pub(super) fn decided(&self) -> Plan {
        decide(self.record.as_ref(), &self.seen, self.now)
    }
}

pub(super) fn silent() -> Contact {
    Contact::Silent {
        probes: 5,
        since: Time(990_000),
    }
}

/// MAIN is silent; the protected pod takes its office.
pub(super) fn failing_over() -> Sample {
    healthy().with(|s| s.pod(MAIN).contact = silent())
}

/// A failover that another turn began and did not finish.
pub(super) fn unfinished() -> Sample {
    let begun = failing_over();
    let next = begun.decided().steps[0].step.record().unwrap().clone();
    begun.with(|s| s.record = Some(next))
}

/// The same, tried for long and in vain; MAIN is cut off, and the claim of its candidate passes to the volume.
pub(super) fn held_up() -> Sample {
    unfinished().with(|s| {
        let Candidate { pod, process, .. } = s.record().candidate.clone().unwrap();
        s.record().loose = vec![Loose { pod, process }];
        s.record().since = Time(900_000);
        s.pod(MAIN).object.as_mut().unwrap().terminating = true;
        let term = s.record().term;
        for gateway in &mut s.seen.gateways {
            gateway.term = term;
        }
    })
}

/// Nobody protects; everything is there to prove it.
pub(super) fn proving() -> Sample {
    healthy().with(|s| {
        s.record().sync = None;
        s.record().writes = Writes::Held;
    })
}

/// The other pod is level as ASYNC, writes are held.
pub(super) fn joining() -> Sample {
    proving().with(|s| {
        s.listed()[0].mode = Mode::Async;
        s.listed()[0].name = RegistrationName::Async(Ordinal(1));
    })
}

/// The other pod restarted in this epoch.
pub(super) fn renewing() -> Sample {
    proving().with(|s| s.record().main.as_mut().unwrap().peers.clear())
}

/// pod-2 was refused as diverged.
pub(super) fn resetting() -> Sample {
    healthy().with(|s| {
        let refusal = Refusal {
            at: NOW,
            by: process(0, 0),
            of: process(2, 0),
            code: 3,
            term: s.record.as_ref().map_or_else(Default::default, |r| r.term),
        };
        s.pod(EXTRA).refusal = Some(refusal);
        s.listed().retain(|r| r.name.pod() != Ordinal(2));
    })
}

/// Sleep was asked for, and writes are closed.
pub(super) fn falling_asleep() -> Sample {
    healthy().with(|s| {
        s.seen.wishes.hibernated = true;
        s.record().writes = Writes::Closed;
    })
}

/// pod-1 answers as a second MAIN.
pub(super) fn stray() -> Sample {
    healthy().with(|s| s.answer(OTHER).role = Role::Main)
}

/// No record, nobody has data, everybody is REPLICA.
pub(super) fn empty() -> Sample {
    healthy().with(|s| {
        s.record = None;
        for i in [MAIN, OTHER, EXTRA] {
            let answer = s.answer(i);
            answer.role = Role::Replica;
            answer.replicas = None;
            *s.data(i) = Data {
                database: DatabaseId(1),
                mark: None,
                empty: true,
                snapshots: false,
            };
        }
        s.seen.gateways.clear();
    })
}

/// pod-1 is loose and not proven.
pub(super) fn settling() -> Sample {
    proving().with(|s| {
        s.record().loose = vec![Loose {
            pod: Ordinal(1),
            process: process(1, 0),
        }];
    })
}

pub(super) fn moving() -> Sample {
    healthy().with(|s| s.seen.wishes.switchover = Some(Ordinal(1)))
}
