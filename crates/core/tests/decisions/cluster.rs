//! Situations: a healthy, protected cluster, and words to change one thing in it.
//!
//! Ids are chosen to be read: the process of pod-N is `aN`, after its first restart `bN`; its volume is `dN`,
//! a new one `eN`; its uid is `fN`; the database is `db`.

use mainstay_core::memgraph::ids::{
    DatabaseId, GatewayId, Gen, Ordinal, PodUid, Pods, ProcessId, ProofId, RegistrationName, ResetId,
    Revision, Term, VolumeId,
};
use mainstay_core::memgraph::observed::{
    Answer, Contact, Data, Gateway, Mark, Memory, Mode, Observed, Pod, PodObject, Refusal, Registration,
    Role, Status, Wishes,
};
use mainstay_core::memgraph::record::{Candidate, Loose, Main, Record, Reset, State, Sync, Writes};
use mainstay_core::memgraph::spec::{Spec, WritesWithoutSync};
use mainstay_core::memgraph::{Plan, decide};
use mainstay_core::time::Time;
use std::time::Duration;

/// Now, in every situation: 1000 s after the clock's start.
pub(crate) const NOW: Time = Time(1_000_000);
/// When the record was read.
pub(crate) const READ_AT: Time = Time(999_900);
/// When the pods answered.
pub(crate) const ANSWERED_AT: Time = Time(999_950);
/// The term that serves.
pub(crate) const TERM: Term = Term(3);
/// Its generation of the STRICT_SYNC name.
pub(crate) const GENERATION: Gen = Gen(5);
/// The database of the cluster.
pub(crate) const DATABASE: DatabaseId = DatabaseId(0xdb);

pub(crate) fn process(pod: u8) -> ProcessId {
    ProcessId(0xa0 + u128::from(pod))
}

/// The process of this pod after a restart.
pub(crate) fn second(pod: u8) -> ProcessId {
    ProcessId(0xb0 + u128::from(pod))
}

pub(crate) fn volume(pod: u8) -> VolumeId {
    VolumeId(0xd0 + u128::from(pod))
}

/// What was `ms` milliseconds ago.
pub(crate) fn ago(ms: u64) -> Time {
    NOW - Duration::from_millis(ms)
}

pub(crate) fn strict(pod: u8, generation: u64) -> RegistrationName {
    RegistrationName::Strict(Ordinal(pod), Gen(generation))
}

/// What a turn is given.
#[derive(Clone, Debug)]
pub(crate) struct Situation {
    pub(crate) record: Option<Record>,
    pub(crate) seen: Observed,
    pub(crate) now: Time,
}

/// Three pods, pod-0 MAIN, pod-1 protected, pod-2 ASYNC, two gateways, nothing to do.
pub(crate) fn cluster() -> Situation {
    cluster_of(0)
}

/// The same with this authority pod as MAIN.
pub(crate) fn cluster_of(main: u8) -> Situation {
    let sync = 1 - main;
    let registrations = vec![
        registration(strict(sync, GENERATION.0), Mode::StrictSync),
        registration(RegistrationName::Async(Ordinal(2)), Mode::Async),
    ];
    let pods = (0..3)
        .map(|pod| {
            let (role, replicas) = if pod == main {
                (Role::Main, Some(registrations.clone()))
            } else {
                (Role::Replica, None)
            };
            a_pod(pod, role, replicas)
        })
        .collect();
    let mut seen = Observed {
        read_at: READ_AT,
        turn: 77,
        spec: Spec::default(),
        pods,
        gateways: Vec::new(),
        wishes: Wishes::default(),
        memory: Memory {
            status_term: Some(TERM),
            resets_last_hour: 0,
            crowded: Pods::default(),
        },
    };
    let record = serving_record(main, sync);
    for id in 0..2 {
        let heard = Some((ago(10_000), process(main)));
        seen.gateways.push(Gateway {
            id: GatewayId(id),
            term: TERM,
            revision: record.revision,
            heard,
        });
    }
    Situation {
        record: Some(record),
        seen,
        now: NOW,
    }
}

fn serving_record(main: u8, sync: u8) -> Record {
    Record {
        term: TERM,
        generation: GENERATION,
        revision: Revision(20),
        state: State::Serving,
        since: ago(600_000),
        main: Some(Main {
            pod: Ordinal(main),
            process: process(main),
            volume: volume(main),
            database: DATABASE,
            term: TERM,
            epoch: Term(2),
            peers: vec![process(sync), process(2)],
            suspect: false,
            history_from: Term(1),
            rebuilt: false,
            office_from: TERM,
            rival: None,
        }),
        candidate: None,
        sync: Some(Sync {
            pod: Ordinal(sync),
            process: process(sync),
            volume: volume(sync),
            name: strict(sync, GENERATION.0),
        }),
        writes: Writes::Open,
        held_at: Time::ZERO,
        moved_at: Time::ZERO,
        honoured: None,
        exposed: false,
        reset: None,
        loose: Vec::new(),
    }
}

fn a_pod(pod: u8, role: Role, replicas: Option<Vec<Registration>>) -> Pod {
    let data = Data {
        database: DATABASE,
        mark: Some(Mark {
            term: TERM,
            proof: ProofId(70),
        }),
        empty: false,
        snapshots: false,
    };
    let answer = Answer {
        at: ANSWERED_AT,
        process: process(pod),
        role,
        data: Some(data),
        replicas,
    };
    Pod {
        ordinal: Ordinal(pod),
        object: Some(PodObject {
            uid: PodUid(0xf0 + u128::from(pod)),
            running: Some(process(pod)),
            ended: None,
            volume: Some(volume(pod)),
            terminating: false,
            ready: true,
            addressed: true,
            start_fence: true,
            fsync: true,
        }),
        contact: Contact::Answered(answer),
        replication_port_open: Some(true),
        refusal: None,
    }
}

/// A registration that has been level for a long time.
pub(crate) fn registration(name: RegistrationName, mode: Mode) -> Registration {
    Registration {
        name,
        mode,
        address_ok: true,
        attached: true,
        status: Status::Ready,
        behind: 0,
        since: ago(300_000),
        moved: None,
    }
}

impl Situation {
    /// What is decided here.
    pub(crate) fn plan(&self) -> Plan {
        decide(self.record.as_ref(), &self.seen, self.now)
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Changes the record; gateways have confirmed whatever it says.
    pub(crate) fn record(self, change: impl FnOnce(&mut Record)) -> Self {
        self.with(|s| change(s.record.as_mut().expect("there is a record")))
            .confirmed()
    }

    /// Replaces the record by what a transition makes of it; gateways have confirmed it.
    pub(crate) fn becomes(self, transition: impl FnOnce(&Record) -> Record) -> Self {
        self.record(|r| *r = transition(r))
    }

    /// Every gateway has confirmed the record as it is.
    pub(crate) fn confirmed(self) -> Self {
        let Some((term, revision)) = self.record.as_ref().map(|r| (r.term, r.revision)) else {
            return self;
        };
        self.gateways(|g| {
            g.term = term;
            g.revision = revision;
        })
    }

    pub(crate) fn gateways(self, change: impl Fn(&mut Gateway)) -> Self {
        self.with(|s| s.seen.gateways.iter_mut().for_each(change))
    }

    /// Changes the second of two gateways.
    pub(crate) fn one_gateway(self, change: impl FnOnce(&mut Gateway)) -> Self {
        self.with(|s| change(&mut s.seen.gateways[1]))
    }

    pub(crate) fn spec(self, change: impl FnOnce(&mut Spec)) -> Self {
        self.with(|s| change(&mut s.seen.spec))
    }

    pub(crate) fn policy(self, policy: WritesWithoutSync) -> Self {
        self.spec(|s| s.writes_without_sync = policy)
    }

    pub(crate) fn wishing(self, change: impl FnOnce(&mut Wishes)) -> Self {
        self.with(|s| change(&mut s.seen.wishes))
    }

    pub(crate) fn memory(self, change: impl FnOnce(&mut Memory)) -> Self {
        self.with(|s| change(&mut s.seen.memory))
    }

    pub(crate) fn pod(self, pod: u8, change: impl FnOnce(&mut Pod)) -> Self {
        self.with(|s| {
            change(
                s.seen
                    .pods
                    .iter_mut()
                    .find(|p| p.ordinal == Ordinal(pod))
                    .expect("a pod"),
            );
        })
    }

    pub(crate) fn object(self, pod: u8, change: impl FnOnce(&mut PodObject)) -> Self {
        self.pod(pod, |p| change(p.object.as_mut().expect("an object")))
    }

    pub(crate) fn answer(self, pod: u8, change: impl FnOnce(&mut Answer)) -> Self {
        self.pod(pod, |p| match &mut p.contact {
            Contact::Answered(answer) => change(answer),
            other => panic!("pod-{} does not answer: {other:?}", p.ordinal.0),
        })
    }

    pub(crate) fn data(self, pod: u8, change: impl FnOnce(&mut Data)) -> Self {
        self.answer(pod, |a| change(a.data.as_mut().expect("data was read")))
    }

    /// The mark in the data of this pod.
    pub(crate) fn mark(self, pod: u8, term: Option<u64>) -> Self {
        self.data(pod, |d| {
            d.mark = term.map(|t| Mark {
                term: Term(t),
                proof: ProofId(70),
            });
        })
    }

    pub(crate) fn role(self, pod: u8, role: Role) -> Self {
        self.answer(pod, |a| {
            a.role = role;
            a.replicas = (role == Role::Main).then(Vec::new);
        })
    }

    /// What MAIN on this pod shows as SHOW REPLICAS.
    pub(crate) fn registrations(self, main: u8, change: impl FnOnce(&mut Vec<Registration>)) -> Self {
        self.answer(main, |a| {
            change(a.replicas.as_mut().expect("MAIN answered SHOW REPLICAS"));
        })
    }

    /// Changes what MAIN shows of this pod; MAIN is the pod that lists it.
    pub(crate) fn listed(self, pod: u8, change: impl FnOnce(&mut Registration)) -> Self {
        self.with(|s| {
            let found = s.seen.pods.iter_mut().find_map(|p| match &mut p.contact {
                Contact::Answered(a) => a
                    .replicas
                    .iter_mut()
                    .flatten()
                    .find(|r| r.name.pod() == Ordinal(pod)),
                _ => None,
            });
            change(found.expect("a registration"));
        })
    }

    /// MAIN, which is pod-0, does not list this pod.
    pub(crate) fn unregistered(self, pod: u8) -> Self {
        self.registrations(0, |all| all.retain(|r| r.name.pod() != Ordinal(pod)))
    }

    pub(crate) fn silent(self, pod: u8, probes: u32) -> Self {
        self.pod(pod, |p| {
            p.contact = Contact::Silent {
                probes,
                since: ago(3000),
            };
            p.replication_port_open = Some(false);
        })
    }

    pub(crate) fn refused(self, pod: u8, times: u32) -> Self {
        self.pod(pod, |p| {
            p.contact = Contact::Refused {
                times,
                since: ago(500),
            };
            p.replication_port_open = Some(false);
        })
    }

    /// Its container ended, and nothing runs there now.
    pub(crate) fn crashed(self, pod: u8) -> Self {
        self.refused(pod, 1).object(pod, |o| {
            o.ended = o.running.take();
            o.ready = false;
        })
    }

    /// Its container restarted: another process, REPLICA by the init file, same volume.
    pub(crate) fn restarted(self, pod: u8) -> Self {
        self.role(pod, Role::Replica)
            .answer(pod, |a| a.process = second(pod))
            .object(pod, |o| {
                o.ended = o.running;
                o.running = Some(second(pod));
            })
    }

    /// It lost its volume and came back empty.
    pub(crate) fn emptied(self, pod: u8) -> Self {
        self.restarted(pod)
            .object(pod, |o| o.volume = Some(VolumeId(0xe0 + u128::from(pod))))
            .data(pod, |d| {
                *d = Data {
                    database: DatabaseId(0xee),
                    mark: None,
                    empty: true,
                    snapshots: false,
                };
            })
    }

    /// Nobody protects MAIN, after a failover: writes are open by the default policy.
    pub(crate) fn unprotected(self) -> Self {
        self.record(|r| {
            r.sync = None;
            r.exposed = true;
        })
    }

    /// Nobody protects MAIN, because the SYNC replica was lost: writes are held by the default policy.
    pub(crate) fn held(self) -> Self {
        self.record(|r| {
            r.sync = None;
            r.writes = Writes::Held;
            r.held_at = ago(1000);
        })
    }

    /// pod-1 is registered ASYNC and nobody protects MAIN.
    pub(crate) fn joining(self) -> Self {
        self.unprotected().listed(1, |r| {
            r.name = RegistrationName::Async(Ordinal(1));
            r.mode = Mode::Async;
        })
    }

    /// This process may still be hit by a promote.
    pub(crate) fn loose(self, pod: u8, process: ProcessId) -> Self {
        self.record(|r| {
            r.loose.push(Loose {
                pod: Ordinal(pod),
                process,
            });
        })
    }

    /// This process lived when MAIN's epoch began.
    pub(crate) fn in_epoch(self, process: ProcessId) -> Self {
        self.record(|r| r.main.as_mut().expect("a MAIN").peers.push(process))
    }

    /// MAIN refused to register this pod, with this code.
    pub(crate) fn accused(self, pod: u8, code: u8) -> Self {
        let by = self
            .record
            .as_ref()
            .and_then(|r| r.main.as_ref())
            .expect("a MAIN")
            .process;
        self.pod(pod, |p| {
            let of = match &p.contact {
                Contact::Answered(a) => a.process,
                other => panic!("only a pod that answers is refused: {other:?}"),
            };
            p.refusal = Some(Refusal {
                at: ago(200),
                by,
                of,
                code,
                term: TERM,
            });
        })
    }

    /// A reset of this process is in the record.
    pub(crate) fn resetting(self, pod: u8) -> Self {
        self.record(|r| {
            let reset = Reset {
                pod: Ordinal(pod),
                process: process(pod),
                id: ResetId(20),
                term: r.term,
                since: ago(1000),
                keep: false,
            };
            r.reset = Some(reset);
        })
    }

    /// A term was begun with this candidate, and its turn ended there.
    pub(crate) fn no_main(self, candidate: u8) -> Self {
        self.becomes(|r| r.new_term(a_candidate(candidate), true, ago(1000)))
    }

    /// A move to pod-1 was begun, and its turn ended there.
    pub(crate) fn moving(self) -> Self {
        self.becomes(|r| r.switching_over(a_candidate(1), ago(1000)))
    }

    /// There is no record, and never was one.
    pub(crate) fn never_recorded(self) -> Self {
        self.with(|s| {
            s.record = None;
            s.seen.memory.status_term = None;
            s.seen.gateways.clear();
        })
    }

    /// There is no record any more.
    pub(crate) fn record_lost(self) -> Self {
        self.with(|s| s.record = None)
    }
}

/// This pod as a candidate that saw all the others.
pub(crate) fn a_candidate(pod: u8) -> Candidate {
    let peers = (0..3).filter(|p| *p != pod).map(process).collect();
    Candidate {
        pod: Ordinal(pod),
        process: process(pod),
        volume: volume(pod),
        peers,
        suspect: false,
        forced: None,
        claim: None,
    }
}

/// Three new pods: empty, REPLICA by the init file, no record anywhere.
pub(crate) fn fresh() -> Situation {
    let mut fresh = cluster().never_recorded();
    for pod in 0..3 {
        fresh = fresh.role(pod, Role::Replica).mark(pod, None).data(pod, |d| {
            d.empty = true;
            d.database = DatabaseId(0xc0 + u128::from(pod));
        });
    }
    fresh
}
