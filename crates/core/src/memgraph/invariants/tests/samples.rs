//! Records and observations read from a tape of bytes.
//!
//! A tape of zeros is a healthy, protected cluster; every other byte bends something. So a failing case
//! shrinks towards health, and what is left bent is what matters.

use crate::memgraph::ids::{
    DatabaseId, GatewayId, Gen, Ordinal, PodUid, Pods, ProcessId, ProofId, RegistrationName, ResetId,
    Revision, Term, VolumeId,
};
use crate::memgraph::observed::{
    Answer, Approval, Contact, Data, Gateway, Mark, Memory, Mode, Observed, Pod, PodObject, Refusal,
    Registration, Role, Status, Wishes,
};
use crate::memgraph::record::{Candidate, Claim, Loose, Main, Override, Record, Reset, State, Sync, Writes};
use crate::memgraph::spec::{FenceTimeout, Spec, WritesWithoutSync};
use crate::time::Time;

pub(super) const READ_AT: Time = Time(1_000_000);
pub(super) const NOW: Time = Time(1_000_200);

/// What a decision is made on.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) record: Option<Record>,
    pub(super) seen: Observed,
    pub(super) now: Time,
}

pub(super) fn process(pod: u8, run: u8) -> ProcessId {
    ProcessId(u128::from(pod) * 16 + u128::from(run) + 1)
}

pub(super) fn volume(pod: u8, which: u8) -> VolumeId {
    VolumeId(u128::from(pod) * 16 + u128::from(which) + 1)
}

pub(super) fn uid(pod: u8) -> PodUid {
    PodUid(u128::from(pod) + 1)
}

/// Bytes that are read one after the other, with zeros at the end.
pub(super) struct Tape<'a> {
    bytes: std::slice::Iter<'a, u8>,
    /// Bytes below this choose what is usual.
    calm: u8,
}

impl<'a> Tape<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut bytes = bytes.iter();
        let calm = [250, 240, 220, 180][usize::from(bytes.next().copied().unwrap_or(0) % 4)];
        Self { bytes, calm }
    }

    fn byte(&mut self) -> u8 {
        self.bytes.next().copied().unwrap_or(0)
    }

    /// The first mostly, otherwise any of the others.
    fn mostly<T: Clone>(&mut self, usual: T, others: &[T]) -> T {
        let byte = self.byte();
        match byte.checked_sub(self.calm) {
            None => usual,
            Some(i) => others[usize::from(i) % others.len()].clone(),
        }
    }

    /// Any of them, each as often.
    fn any<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::from(self.byte()) % of.len()].clone()
    }

    fn rarely(&mut self) -> bool {
        self.mostly(false, &[true])
    }
}

/// One case.
pub(super) fn sample(bytes: &[u8]) -> Sample {
    let tape = &mut Tape::new(bytes);
    let main_pod = tape.any(&[0, 1]);
    let term = Term(tape.any(&[3, 4]));
    let state = tape.any(&[
        State::Serving,
        State::NoMain,
        State::SwitchingOver,
        State::Initialising,
        State::Hibernated,
        State::Serving,
        State::Serving,
    ]);
    let record = record(tape, main_pod, term, state);
    let seen = observed(tape, main_pod, &record);
    let exists = tape.mostly(true, &[false, false, true]) && tape.any(&[true, true, true, true, false]);
    Sample {
        record: exists.then_some(record),
        seen,
        now: NOW,
    }
}

/// A healthy, protected cluster of three: pod-0 is MAIN in term 3, pod-1 its SYNC.
pub(super) fn healthy() -> Sample {
    sample(&[])
}

fn run(tape: &mut Tape<'_>, pod: u8) -> ProcessId {
    let run = tape.mostly(0, &[1, 2]);
    process(pod, run)
}

fn record(tape: &mut Tape<'_>, main_pod: u8, term: Term, state: State) -> Record {
    let other = 1 - main_pod;
    let generation = Gen(tape.mostly(5, &[4, 6]));
    let unfinished = !matches!(state, State::Serving | State::Hibernated);
    let main = Main {
        pod: Ordinal(main_pod),
        process: run(tape, main_pod),
        volume: volume(main_pod, tape.mostly(0, &[1])),
        database: DatabaseId(1),
        term: if unfinished { Term(term.0 - 1) } else { term },
        epoch: Term(term.0 - 1),
        peers: if tape.rarely() {
            vec![]
        } else {
            vec![process(other, 0), process(2, 0)]
        },
        suspect: tape.rarely(),
        history_from: Term(tape.mostly(0, &[1, 2, 3])),
        rebuilt: tape.rarely(),
        office_from: Term(tape.mostly(0, &[1, 2, 3])),
        rival: tape.rarely().then_some(Term(2)),
    };
    // A planned move always goes to the protected pod.
    let aspirant = if state == State::SwitchingOver {
        other
    } else {
        tape.any(&[other, main_pod])
    };
    let candidate = Candidate {
        pod: Ordinal(aspirant),
        process: run(tape, aspirant),
        volume: volume(aspirant, tape.mostly(0, &[1])),
        peers: vec![process(1 - aspirant, 0)],
        suspect: tape.rarely(),
        forced: tape.rarely().then_some(Time(2_000_000)),
        claim: tape.rarely().then(|| Claim {
            process: process(aspirant, 0),
            alone: tape.rarely(),
        }),
    };
    let sync = Sync {
        pod: Ordinal(other),
        process: run(tape, other),
        volume: volume(other, tape.mostly(0, &[1])),
        name: RegistrationName::Strict(Ordinal(other), generation),
    };
    let synced = match state {
        State::Serving | State::SwitchingOver | State::Hibernated => tape.any(&[true, false]),
        State::Initialising | State::NoMain => false,
    };
    let writes = match state {
        State::Serving => tape.any(&[Writes::Open, Writes::Held, Writes::Closed]),
        _ => tape.mostly(Writes::Closed, &[Writes::Held]),
    };
    let victim = tape.any(&[2, 1, 0]);
    let reset = Reset {
        pod: Ordinal(victim),
        process: run(tape, victim),
        id: ResetId(7),
        term,
        since: NOW_MINUS[usize::from(tape.any(&[0u8, 1, 2]))],
        keep: false,
    };
    let loose_pod = tape.any(&[0, 1]);
    let loose = Loose {
        pod: Ordinal(loose_pod),
        process: run(tape, loose_pod),
    };
    Record {
        term,
        generation,
        revision: Revision(8),
        state,
        since: NOW_MINUS[usize::from(tape.any(&[0u8, 1, 2]))],
        main: match state {
            State::Initialising => None,
            State::SwitchingOver => Some(main),
            State::Serving | State::NoMain | State::Hibernated => (!tape.rarely()).then_some(main),
        },
        candidate: (unfinished && !tape.rarely()).then_some(candidate),
        sync: synced.then_some(sync),
        writes,
        held_at: tape.any(&[Time::ZERO, NOW]),
        moved_at: tape.any(&[Time::ZERO, NOW]),
        honoured: tape.rarely().then_some(wished(1, 2_000_000)),
        exposed: tape.any(&[false, true]),
        reset: tape.rarely().then_some(reset),
        loose: if tape.rarely() { vec![loose] } else { vec![] },
    }
}

fn wished(pod: u8, until: u64) -> Override {
    Override {
        pod: Ordinal(pod),
        until: Time(until),
    }
}

fn approval(pod: u8) -> Approval {
    Approval {
        pod: Ordinal(pod),
        process: process(pod, 0),
    }
}

/// Long ago, a while ago, just now.
const NOW_MINUS: [Time; 3] = [Time(500_000), Time(990_000), Time(1_000_150)];

fn observed(tape: &mut Tape<'_>, main_pod: u8, record: &Record) -> Observed {
    let pods = (0..3).map(|p| pod(tape, p, main_pod, record)).collect();
    let gateway = |tape: &mut Tape<'_>, id| Gateway {
        id: GatewayId(id),
        term: tape.mostly(record.term, &[Term(1), Term(9)]),
        revision: tape.mostly(record.revision, &[Revision(1)]),
        heard: tape.mostly(None, &[Some((NOW, process(main_pod, 0)))]),
    };
    let gateways = vec![gateway(tape, 0), gateway(tape, 1)];
    let wishes = Wishes {
        switchover: tape.any(&[None, None, None, Some(Ordinal(0)), Some(Ordinal(1))]),
        override_main: tape.mostly(
            None,
            &[
                Some(wished(0, 2_000_000)),
                Some(wished(1, 2_000_000)),
                Some(wished(1, 1)),
            ],
        ),
        approve_reset: tape.mostly(None, &[Some(approval(1)), Some(approval(2))]),
        reset: tape.mostly(None, &[Some(approval(1)), Some(approval(2))]),
        hibernated: tape.any(&[false, false, false, true]),
        paused_until: tape.mostly(None, &[Some(Time(2_000_000)), Some(Time(1))]),
    };
    let spec = Spec {
        replicas: tape.mostly(3, &[2]),
        writes_without_sync: tape.any(&[
            WritesWithoutSync::AfterFailover,
            WritesWithoutSync::Always,
            WritesWithoutSync::Never,
        ]),
        fence_timeout: tape.any(&[FenceTimeout::Proceed, FenceTimeout::Wait]),
        on_promotion: tape.rarely(),
        ..Spec::default()
    };
    let memory = Memory {
        status_term: tape.any(&[None, Some(record.term)]),
        resets_last_hour: tape.mostly(0, &[3]),
        crowded: tape.mostly(Pods::default(), &[Pods::ALL]),
    };
    Observed {
        read_at: READ_AT,
        turn: 77,
        spec,
        pods,
        gateways,
        wishes,
        memory,
    }
}

fn pod(tape: &mut Tape<'_>, pod: u8, main_pod: u8, record: &Record) -> Pod {
    let runs = run(tape, pod);
    let object = PodObject {
        uid: uid(pod),
        running: tape.mostly(Some(runs), &[None, Some(process(pod, 1))]),
        ended: tape.mostly(None, &[Some(process(pod, 0)), Some(process(pod, 1))]),
        volume: tape.mostly(Some(volume(pod, 0)), &[Some(volume(pod, 1)), None]),
        terminating: tape.rarely(),
        ready: !tape.rarely(),
        addressed: !tape.rarely(),
        start_fence: !tape.rarely(),
        fsync: true,
    };
    let contact = contact(tape, pod, runs, main_pod, record);
    let refusal = Refusal {
        at: READ_AT,
        by: tape.mostly(process(main_pod, 0), &[process(main_pod, 1)]),
        of: tape.mostly(runs, &[process(pod, 1)]),
        code: tape.mostly(3, &[5]),
        term: Term(tape.mostly(2, &[1, 3])),
    };
    Pod {
        ordinal: Ordinal(pod),
        object: (!tape.rarely()).then_some(object),
        contact,
        replication_port_open: tape.mostly(Some(true), &[Some(false), None]),
        refusal: tape.mostly(None, &[Some(refusal)]),
    }
}

fn contact(tape: &mut Tape<'_>, pod: u8, runs: ProcessId, main_pod: u8, record: &Record) -> Contact {
    let usual = if pod == main_pod {
        Role::Main
    } else {
        Role::Replica
    };
    let opposite = if pod == main_pod {
        Role::Replica
    } else {
        Role::Main
    };
    let in_data = record.main.as_ref().map_or(record.term, |m| m.term);
    let marks = [None, Some(record.term), Some(record.term.next()), Some(Term(1))];
    let data = Data {
        database: DatabaseId(tape.mostly(1, &[2])),
        mark: tape.mostly(Some(in_data), &marks).map(|term| Mark {
            term,
            proof: ProofId(1),
        }),
        empty: tape.rarely(),
        snapshots: tape.rarely(),
    };
    // A pair that never had data is rare enough to be drawn as one.
    let data = if tape.rarely() {
        Data {
            mark: None,
            empty: true,
            snapshots: false,
            ..data
        }
    } else {
        data
    };
    let role = tape.mostly(usual, &[opposite]);
    let registrations = registrations(tape, pod, record);
    let answer = Answer {
        at: tape.mostly(READ_AT, &[Time(READ_AT.0 - 1), NOW]),
        process: tape.mostly(runs, &[process(pod, 1), process(pod, 2)]),
        role,
        data: if tape.rarely() { None } else { Some(data) },
        replicas: if role == Role::Main && !tape.rarely() {
            Some(registrations)
        } else {
            None
        },
    };
    let since = Time(990_000);
    tape.mostly(
        Contact::Answered(answer),
        &[
            Contact::Unknown,
            Contact::Refused { times: 2, since },
            Contact::Silent { probes: 5, since },
            Contact::Silent { probes: 1, since },
        ],
    )
}

fn registrations(tape: &mut Tape<'_>, of: u8, record: &Record) -> Vec<Registration> {
    let mut listed = Vec::new();
    for pod in (0..4u8).filter(|p| *p != of) {
        let strict = RegistrationName::Strict(Ordinal(pod), Gen(tape.mostly(record.generation.0, &[1])));
        let plain = RegistrationName::Async(Ordinal(pod));
        let (name, mode) = if pod < 2 {
            let (name, mode) = tape.any(&[(strict, Mode::StrictSync), (plain, Mode::Async)]);
            tape.mostly(
                (name, mode),
                &[
                    (plain, Mode::Sync),
                    (strict, Mode::Async),
                    (plain, Mode::StrictSync),
                ],
            )
        } else {
            (plain, Mode::Async)
        };
        let registration = Registration {
            name,
            mode,
            address_ok: !tape.rarely(),
            attached: !tape.rarely(),
            status: tape.mostly(
                Status::Ready,
                &[
                    Status::Replicating,
                    Status::Recovery,
                    Status::Invalid,
                    Status::Diverged,
                ],
            ),
            behind: tape.mostly(0, &[-5, 5, -5000]),
            since: tape.any(&[Time(990_000), NOW]),
            moved: None,
        };
        let times = if pod == 3 {
            tape.mostly(0, &[1])
        } else {
            tape.mostly(1, &[0, 0, 2])
        };
        if times == 2 {
            listed.push(Registration {
                name: plain,
                mode: Mode::Async,
                ..registration
            });
        }
        if times > 0 {
            listed.push(registration);
        }
    }
    listed
}
