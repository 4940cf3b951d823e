//! The simulation: a large world, minutes of virtual time, faults at random. The same seed gives the same
//! trace, byte for byte.
//!
//! It drives the same [`State`](super::world::State) as the explorer, with a clock: operators look and step with latencies,
//! gateways lag and sleep, clients write all the time, and everything breaks. When the faults stop, the
//! cluster must come back by itself, or say what a human must decide.

mod actors;
mod chance;
mod clock;
mod events;
mod faults;

pub use chance::Chance;

use super::world::{Action, Config, State, Violation, describe};
use clock::Clock;
use events::{Event, Queue};
use mainstay_core::memgraph::spec::{FenceTimeout, Spec};
use mainstay_core::time::Time;
use std::fmt::Write as _;
use std::time::Duration;

/// What became of one seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Virtual time simulated.
    pub simulated: Duration,
    /// Writes acknowledged.
    pub acknowledged: u32,
    /// Terms begun.
    pub terms: u64,
    /// Faults injected.
    pub faults: u32,
    /// What went wrong.
    pub violation: Option<String>,
    /// It waits for a human, and says so.
    pub human: Option<String>,
    /// The trace, if it was asked for.
    pub trace: String,
}

/// The world of the simulation: five pods, three gateways, two operators that know nothing of each other.
pub fn config(seed: u64) -> Config {
    let small = Config::small("simulation");
    let spec = Spec {
        replicas: 5,
        fence_timeout: FenceTimeout::Wait,
        reset_quiet: Duration::from_secs(5),
        // In every third world no gateway vetoes, so that a false suspicion has its way.
        veto: if seed.is_multiple_of(3) {
            Duration::ZERO
        } else {
            Duration::from_secs(1)
        },
        ..Spec::default()
    };
    // That a MAIN calls a lagging ASYNC replica diverged is Memgraph's own fault and cannot be prevented;
    // that it is reset for it can, and is a violation.
    // Every fourth world loads snapshots, every fifth is a newer release.
    let profile = if seed % 5 == 4 {
        crate::memgraph::instance::Profile::V3_12
    } else {
        small.profile
    };
    Config {
        pods: 5,
        gateways: 3,
        operators: 2,
        writes: u16::MAX,
        snapshot_recovery: seed % 4 == 3,
        report_false_divergence: false,
        profile,
        spec,
        ..small
    }
}

/// Runs one seed.
pub fn run(seed: u64, tracing: bool) -> Report {
    run_with(seed, &config(seed), tracing)
}

/// Runs one seed in a world of the caller's.
pub fn run_with(seed: u64, config: &Config, tracing: bool) -> Report {
    let mut simulation = Simulation::new(seed, config, tracing);
    simulation.live();
    simulation.report(seed)
}

/// How long faults go on.
const TROUBLE: Duration = Duration::from_secs(90);
/// How long the cluster may take to heal after that.
const HEALING: Duration = Duration::from_mins(4);
/// How long nobody may ask for a human after that. What is said of a diverged pod depends on what the others say at the
/// moment, and between two commits of MAIN none of them may be `ready`.
const MOMENTS: Duration = Duration::from_secs(5);
/// How often an idle operator looks even if nothing changed.
const RELOOK: Duration = Duration::from_secs(2);
/// How long a step may wait before its turn ends.
const PATIENCE: Duration = Duration::from_secs(5);

struct Simulation<'a> {
    config: &'a Config,
    state: State,
    clock: Clock,
    chance: Chance,
    queue: Queue,
    tracing: bool,
    trace: String,
    violation: Option<String>,
    human: Option<String>,
    faults: u32,
    /// Changes whenever anything but a client's commit changed.
    stirred: u64,
    /// What an idle operator last looked at, and when.
    looked: Vec<(u64, Time)>,
    /// Since when an operator has waited at its current step.
    waiting: Vec<Time>,
    /// Until when an operator or a gateway does nothing.
    asleep: Vec<Time>,
    gateway_asleep: Vec<Time>,
    /// Who holds the lease; the other only looks while this one sleeps, or while both believe they hold it.
    leader: u8,
    both_lead_until: Time,
    /// Not started again before this.
    down_until: Vec<Time>,
    busy_until: Time,
    healing: bool,
    wish: Option<Time>,
}

impl<'a> Simulation<'a> {
    fn new(seed: u64, config: &'a Config, tracing: bool) -> Self {
        let operators = usize::from(config.operators);
        let gateways = usize::from(config.gateways);
        let mut simulation = Self {
            config,
            state: State::fresh(config),
            clock: Clock::new(config),
            chance: Chance::new(seed),
            queue: Queue::default(),
            tracing,
            trace: String::new(),
            violation: None,
            human: None,
            faults: 0,
            stirred: 1,
            looked: vec![(0, Time::ZERO); operators],
            waiting: vec![Time::ZERO; operators],
            asleep: vec![Time::ZERO; operators],
            gateway_asleep: vec![Time::ZERO; gateways],
            leader: 0,
            both_lead_until: Time::ZERO,
            down_until: vec![Time::ZERO; usize::from(config.pods)],
            busy_until: Time::ZERO,
            healing: false,
            wish: None,
        };
        simulation.schedule_first();
        simulation
    }

    fn schedule_first(&mut self) {
        for op in 0..self.config.operators {
            self.later(1..300, Event::Operator(op));
        }
        for gateway in 0..self.config.gateways {
            self.later(1..100, Event::Gateway(gateway));
            self.later(1..1000, Event::Client(gateway));
        }
        self.later(1000..1500, Event::Pingers);
        self.later(100..200, Event::Kubelet);
        self.later(8_000..20_000, Event::Fault);
    }

    fn later(&mut self, millis: std::ops::Range<u64>, event: Event) {
        let delay = self.chance.between(millis);
        self.queue
            .push(self.clock.now + Duration::from_millis(delay), event);
    }

    fn live(&mut self) {
        let trouble = Time::ZERO + TROUBLE;
        let end = trouble + HEALING;
        while let Some((at, event)) = self.queue.pop() {
            if at > trouble && !self.healing {
                self.stop_faults();
            }
            if at > end && (self.asks().is_some() || at > end + MOMENTS) {
                self.not_healed();
                return;
            }
            self.clock.now = at;
            self.on(event);
            if self.violation.is_some() || (self.healing && self.is_well()) {
                return;
            }
        }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Operator(op) => self.operator(op),
            Event::Gateway(g) => self.gateway(g),
            Event::Client(g) => self.client(g),
            Event::Commit(pod) => self.commit(pod),
            Event::Pingers => self.pingers(),
            Event::Kubelet => self.kubelet(),
            Event::Fault => self.fault(),
            Event::Do(action) => self.act_if_possible(action),
            Event::Restore(restore) => self.restore(restore),
        }
    }

    fn act(&mut self, action: Action) -> bool {
        let effect = self
            .state
            .apply_with(self.config, action, self.tracing, &self.clock);
        // A client's commit only moves `ready` to `replicating` and back, which nobody asks the age of.
        let commit = matches!(
            action,
            Action::Write(_) | Action::CommitLocally(_) | Action::Finalize(_) | Action::Acknowledge(_)
        );
        if !commit {
            self.clock.follow(&self.state);
        }
        if self.tracing && !(effect.idle && effect.notes.is_empty()) {
            let _ = writeln!(self.trace, "{} {action}", self.clock.now);
            for note in &effect.notes {
                let _ = writeln!(self.trace, "      {note}");
            }
        }
        if let Some(violation) = effect.violation {
            self.violate(&violation);
        }
        !effect.idle
    }

    fn violate(&mut self, violation: &Violation) {
        if self.tracing {
            let _ = writeln!(self.trace, "   => {violation}\n      {}", describe(&self.state));
        }
        self.violation.get_or_insert_with(|| violation.to_string());
    }

    /// Something happens that may not be possible any more.
    fn act_if_possible(&mut self, action: Action) {
        let possible = match action {
            Action::Execute(n) => usize::from(n) < self.state.outstanding.len(),
            _ => true,
        };
        if possible {
            self.stirred += 1;
            self.act(action);
        }
    }

    fn is_well(&self) -> bool {
        let Some(main) = self.state.recorded_main().and_then(|m| self.state.pod(m)) else {
            return false;
        };
        let ready = |n: u8| {
            main.db.registrations().iter().any(|r| {
                r.peer().0 == n && r.is_attached() && r.status() == crate::memgraph::instance::Status::Ready
            })
        };
        self.state.is_whole() && (2..self.config.pods).all(ready)
    }

    /// What a human must decide, if an operator that looks now says so.
    fn asks(&self) -> Option<String> {
        (0..self.config.operators).find_map(|op| {
            self.state
                .asks_human_through(self.config, usize::from(op), &self.clock)
        })
    }

    fn not_healed(&mut self) {
        if self.is_well() {
            return;
        }
        if let Some(sentence) = self.asks() {
            self.human = Some(sentence);
            return;
        }
        if self.tracing {
            let _ = writeln!(self.trace, "   => does not heal\n      {}", describe(&self.state));
            for op in 0..self.config.operators {
                let plan = self.state.would(self.config, usize::from(op), &self.clock);
                let _ = writeln!(self.trace, "      op{op} would: {plan:?}");
            }
        }
        self.violation
            .get_or_insert_with(|| "the cluster does not heal".to_owned());
    }

    fn report(self, seed: u64) -> Report {
        Report {
            seed,
            simulated: self.clock.now.since(Time::ZERO),
            acknowledged: self.state.acked.len(),
            terms: self.state.record.as_ref().map_or(0, |r| r.term.0),
            faults: self.faults,
            violation: self.violation,
            human: self.human,
            trace: self.trace,
        }
    }
}
