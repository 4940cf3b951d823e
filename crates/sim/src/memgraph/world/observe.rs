//! What an operator sees of a world.

use super::config::Config;
use super::state::{Pod, State, core_name, pod_and_run};
use crate::memgraph::instance::{Mode, Role, Shown, Stage, Status};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::ids::{DatabaseId, GatewayId, Ordinal, Pods};
use mainstay_core::memgraph::observed::{
    self, Answer, Contact, Data, Gateway, Mark, Memory, Observed, PodObject, Refusal, Registration, Wishes,
};
use mainstay_core::time::Time;

/// What time has to do with it: the explorer has none, the simulation has a clock.
pub trait Lens {
    /// The wall clock.
    fn now(&self) -> Time;
    /// How the database of this pod is reached: `None` as the world has it.
    fn contact(&self, pod: u8) -> Option<Contact>;
    /// Is the replication port of this pod open: `None` as the world has it.
    fn port(&self, _pod: u8) -> Option<bool> {
        None
    }
    /// Is what the API server says of this pod the truth? A lost node reports nothing.
    fn reported(&self, pod: u8) -> bool;
    /// Since when a registration has had its status.
    fn since(&self, main: u8, shown: &Shown, stuck: bool) -> Time;
    /// When a gateway last had an answer, and from which process.
    fn heard(&self, gateway: u8) -> Option<(Time, mainstay_core::memgraph::ids::ProcessId)>;
    /// A number for this turn.
    fn turn(&self) -> u64;
    /// Changes the times in a record that is written.
    fn stamp(&self, _record: &mut Record) {}
}

/// The moment in which every explorer's observation is made.
pub const NOW: Time = Time(1_000_000);

/// No time passes: what cannot change by itself has been so for ever, everything else just began.
#[derive(Clone, Copy, Debug)]
pub struct Timeless {
    /// Which pod is believed silent although it lives.
    pub suspect: Option<u8>,
    /// Every deadline has passed.
    pub late: bool,
    /// Which pod dies after it answered.
    pub dying: Option<u8>,
    /// A number for this turn.
    pub turn: u64,
}

impl Lens for Timeless {
    fn now(&self) -> Time {
        if self.late { Time(NOW.0 * 2) } else { NOW }
    }

    fn contact(&self, pod: u8) -> Option<Contact> {
        (self.suspect == Some(pod)).then_some(Contact::Silent {
            probes: 9,
            since: Time::ZERO,
        })
    }

    fn port(&self, pod: u8) -> Option<bool> {
        (self.dying == Some(pod)).then_some(false)
    }

    fn reported(&self, _pod: u8) -> bool {
        true
    }

    fn since(&self, _main: u8, _shown: &Shown, stuck: bool) -> Time {
        if stuck { Time::ZERO } else { NOW }
    }

    fn heard(&self, _gateway: u8) -> Option<(Time, mainstay_core::memgraph::ids::ProcessId)> {
        None
    }

    fn turn(&self) -> u64 {
        self.turn
    }

    /// Every record was written just now.
    fn stamp(&self, record: &mut Record) {
        record.since = NOW;
        record.held_at = NOW;
        if record.moved_at != Time::ZERO {
            record.moved_at = NOW;
        }
        if let Some(reset) = &mut record.reset {
            reset.since = NOW;
        }
    }
}

impl State {
    /// Everything an operator learns in one turn, the record aside.
    pub fn observe(
        &self,
        config: &Config,
        operator: usize,
        lens: &impl Lens,
        switchover: Option<Ordinal>,
    ) -> Observed {
        let now = lens.now();
        let pods = (0..config.pods)
            .filter_map(|n| self.observe_pod(config, n, operator, lens))
            .collect();
        let gateways = self
            .gateways
            .iter()
            .zip(0_u8..)
            .map(|(g, n)| Gateway {
                id: GatewayId(u32::from(n)),
                term: g.gate.term(),
                revision: g.gate.revision(),
                heard: lens.heard(n),
            })
            .collect();
        Observed {
            read_at: now,
            turn: lens.turn(),
            spec: config.spec,
            pods,
            gateways,
            wishes: Wishes {
                switchover,
                override_main: self.overriding,
                approve_reset: None,
                reset: None,
                hibernated: self.asleep,
                paused_until: None,
            },
            memory: Memory {
                status_term: self.status_term,
                resets_last_hour: 0,
                crowded: Pods::default(),
            },
        }
    }

    fn observe_pod(
        &self,
        config: &Config,
        n: u8,
        operator: usize,
        lens: &impl Lens,
    ) -> Option<observed::Pod> {
        let pod = self.pod(n)?;
        let reported = lens.reported(n);
        let shown = pod.alive || !reported;
        let object = PodObject {
            uid: pod.pod_uid(n),
            running: shown.then(|| pod.process(n)),
            ended: (!shown).then(|| pod.process(n)),
            volume: Some(pod.volume_id(n)),
            terminating: false,
            ready: shown,
            addressed: shown,
            start_fence: config.init_file,
            fsync: true,
        };
        let contact = match lens.contact(n) {
            Some(contact) => contact,
            None if pod.alive && pod.hung => Contact::Silent {
                probes: 9,
                since: Time::ZERO,
            },
            None if pod.alive => Contact::Answered(self.answer(n, pod, lens)),
            None => Contact::Refused {
                times: 2,
                since: Time::ZERO,
            },
        };
        let silent = matches!(contact, Contact::Silent { .. }) && !pod.hung;
        // The kernel takes connections for a process that hangs.
        let listens = pod.alive && !silent && pod.db.role() == Role::Replica;
        let refusal = self.operators.get(operator).and_then(|o| {
            o.refused.iter().find(|r| r.pod == Ordinal(n)).map(|r| Refusal {
                at: lens.now(),
                by: r.by,
                of: r.of,
                code: r.code,
                term: r.term,
            })
        });
        Some(observed::Pod {
            ordinal: Ordinal(n),
            object: (!pod.scaled_away).then_some(object),
            contact,
            replication_port_open: Some(lens.port(n).unwrap_or(listens)),
            refusal,
        })
    }

    fn answer(&self, n: u8, pod: &Pod, lens: &impl Lens) -> Answer {
        let store = pod.db.store();
        let data = Data {
            database: DatabaseId(u128::from(pod.db.database_id().0)),
            mark: store.mark.map(|term| Mark {
                term,
                proof: store.proof,
            }),
            empty: store.writes.is_empty(),
            snapshots: pod.db.snapshot().is_some(),
        };
        let replicas = pod.db.show_replicas().ok().map(|rows| {
            rows.map(|shown| {
                let stuck = self.is_stuck(n, &shown);
                let since = lens.since(n, &shown, stuck);
                registration(&shown, since)
            })
            .collect()
        });
        Answer {
            at: lens.now(),
            process: pod.process(n),
            role: core_role(pod.db.role()),
            // What needs a storage transaction waits while a commit hangs.
            data: (pod.db.stage() != Some(Stage::Voting)).then_some(data),
            replicas,
        }
    }

    /// Will this registration stay as it is, whatever MAIN's pings do?
    fn is_stuck(&self, main: u8, shown: &Shown) -> bool {
        let Some(info) = shown.info else { return true };
        let pinged = || {
            let mut copy = self.clone();
            copy.with_db(main, |db, net| db.check(shown.name, net))
        };
        match info.status {
            Status::Diverged => true,
            Status::Invalid => pinged() == Some(Ok(Status::Invalid)),
            // It missed the end of a commit, and no ping tells MAIN.
            Status::Ready if info.behind != 0 => pinged() == Some(Ok(Status::Ready)),
            Status::Replicating => self
                .pod(main)
                .is_some_and(|p| p.db.stage() == Some(Stage::Voting)),
            Status::Ready | Status::Recovery => false,
        }
    }
}

/// The role in the core's words.
pub fn core_role(role: Role) -> observed::Role {
    match role {
        Role::Main => observed::Role::Main,
        Role::Replica => observed::Role::Replica,
    }
}

fn registration(shown: &Shown, since: Time) -> Registration {
    let name = core_name(shown.name);
    let (status, behind) = shown.info.map_or((Status::Invalid, 0), |i| (i.status, i.behind));
    Registration {
        name,
        mode: match shown.mode {
            Mode::Async => observed::Mode::Async,
            Mode::Sync => observed::Mode::Sync,
            Mode::StrictSync => observed::Mode::StrictSync,
        },
        address_ok: shown.peer.0 == name.pod().0,
        attached: shown.info.is_some(),
        status: match status {
            Status::Ready => observed::Status::Ready,
            Status::Replicating => observed::Status::Replicating,
            Status::Recovery => observed::Status::Recovery,
            Status::Invalid => observed::Status::Invalid,
            Status::Diverged => observed::Status::Diverged,
        },
        behind,
        since,
        moved: None,
    }
}

/// Pod and run, for a transcript.
pub fn short(process: mainstay_core::memgraph::ids::ProcessId) -> String {
    let (pod, run) = pod_and_run(process);
    format!("{}{}", pod_letter(pod), run)
}

/// A, B, C …
pub fn pod_letter(pod: u8) -> char {
    char::from(b'A'.saturating_add(pod))
}
