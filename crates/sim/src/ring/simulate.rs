//! Random worlds from one seed: faults for a while, then none, and the ring must be whole or say what a human must do.

mod faults;

use super::model::Profile;
use super::world::{Config, World};
use crate::memgraph::simulate::Chance;
use mainstay_core::ring::{decide, invariants};
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
    /// Faults injected.
    pub faults: u32,
    /// Nodes that took a place.
    pub replaced: u32,
    /// Rows acknowledged.
    pub rows: u32,
    /// Permissions given.
    pub grants: u64,
    /// What went wrong.
    pub violation: Option<String>,
    /// It waits for a human, and says so.
    pub human: Option<String>,
    /// The trace, if it was asked for.
    pub trace: String,
}

/// The step of time.
const STEP: Duration = Duration::from_secs(5);
/// How long an operator may take from its look to its last step.
const LEASE: Duration = Duration::from_secs(30);
/// How long faults go on.
const TROUBLE: Duration = Duration::from_mins(25);
/// How long the ring may take to heal after that.
const HEALING: Duration = Duration::from_mins(50);
/// Longer than anything that is waited for, the limit of a start included. When nothing at all happened for this long
/// after the faults, nothing will.
const QUIET: Duration = Duration::from_mins(15);

/// The world of this seed.
pub fn config(seed: u64) -> Config {
    let mut chance = Chance::new(seed ^ 0x5eed);
    let profile = match seed % 5 {
        0 => Profile::Gossip4,
        1 => Profile::Gossip52,
        2 => Profile::Raft2025,
        3 => Profile::Raft2026,
        _ => Profile::Cassandra5,
    };
    let members = match chance.below(10) {
        0 => 1,
        1 => 2,
        2..=6 => 3,
        7 => 4,
        _ => 5,
    };
    let wanted = match chance.below(8) {
        0 => 1,
        1..=3 => 2,
        _ => 3,
    };
    Config {
        profile,
        members,
        copies: wanted.min(u32::from(members)),
        tries: 3,
        broken: None,
    }
}

/// Runs one seed.
pub fn run(seed: u64, tracing: bool) -> Report {
    run_with(seed, config(seed), tracing)
}

/// Runs one seed in a world of the caller's.
pub fn run_with(seed: u64, config: Config, tracing: bool) -> Report {
    let mut simulation = Simulation {
        chance: Chance::new(seed),
        world: World::new(config, 2),
        tracing,
        trace: String::new(),
        faults: 0,
        next_fault: Time::ZERO,
        restores: Vec::new(),
        human: None,
        row: 0,
        began: Time::ZERO,
        last_note: Time::ZERO,
        healing: false,
    };
    simulation.live();
    simulation.report(seed)
}

struct Simulation {
    chance: Chance,
    world: World,
    tracing: bool,
    trace: String,
    faults: u32,
    next_fault: Time,
    restores: Vec<(Time, faults::Restore)>,
    human: Option<String>,
    row: u16,
    began: Time,
    last_note: Time,
    healing: bool,
}

impl Simulation {
    fn live(&mut self) {
        self.began = self.world.now;
        self.next_fault = self.began + Duration::from_secs(self.chance.between(10..400));
        let trouble = self.began + TROUBLE;
        let end = trouble + HEALING;
        while self.world.now < end && self.world.judge.violation.is_none() {
            self.step();
            if self.healing {
                let quiet = self.world.now.since(self.last_note) >= QUIET;
                if self.world.is_whole() || quiet {
                    break;
                }
            } else if self.world.now >= trouble {
                self.stop_faults();
            } else if self.world.now >= self.next_fault {
                self.fault();
            }
        }
        self.settle();
    }

    fn step(&mut self) {
        let streams = Duration::from_secs(self.chance.between(5..90));
        self.world.stream = streams;
        self.world.tick(STEP);
        self.restore();
        self.write();
        for op in 0..self.world.operators.len() {
            // Leadership is an optimisation: now and then both believe they lead.
            if op == 0 || self.chance.one_in(5) {
                self.operator(op);
            }
        }
        self.tell();
    }

    /// A client writes, now and then.
    fn write(&mut self) {
        if self.row < 60 && self.chance.one_in(4) {
            let row = self.row;
            self.row += 1;
            if self.world.ring.write(row) {
                self.world.judge.rows.insert(row);
            }
        }
    }

    /// One look or one step of an operator, which may die before or after any call.
    fn operator(&mut self, op: usize) {
        let (now, api) = (self.world.now, self.world.api_answers());
        let Some(operator) = self.world.operators.get_mut(op) else {
            return;
        };
        if operator.asleep > now || !api {
            return;
        }
        let Some(mut turn) = operator.turn.take() else {
            self.world.look(op);
            return;
        };
        let trouble = !self.healing && self.chance.one_in(12);
        let Some(step) = turn.steps.pop_front() else {
            return;
        };
        // The lease is asked for before each step, and nobody else is protected from a permission that is late.
        let permits = step.ledger().is_some_and(|l| {
            let work = l.work.as_ref();
            work.is_some_and(|w| w.grant().is_some())
        });
        if permits && now.since(turn.at) > LEASE {
            self.note(&format!("operator {op} has no lease any more for: {step}"));
            return;
        }
        // Died before the call.
        if trouble && self.chance.one_in(2) {
            self.note(&format!("operator {op} dies before: {step}"));
            return;
        }
        let done = self.world.carry_out(&step, &mut turn.version);
        // Died after it, or never heard the outcome.
        if trouble {
            self.note(&format!("operator {op} dies after: {step}"));
            return;
        }
        if done
            && !turn.steps.is_empty()
            && let Some(operator) = self.world.operators.get_mut(op)
        {
            operator.turn = Some(turn);
        }
    }

    fn note(&mut self, text: &str) {
        self.world.notes.push(text.to_owned());
    }

    fn tell(&mut self) {
        let notes = std::mem::take(&mut self.world.notes);
        if !notes.is_empty() {
            self.last_note = self.world.now;
        }
        if self.tracing {
            for note in notes {
                let _ = writeln!(self.trace, "{} {note}", self.world.now);
            }
        }
    }

    /// The end: whole, or a sentence for a human.
    fn settle(&mut self) {
        if self.world.judge.violation.is_none() {
            self.world.judge_rows();
        }
        if self.world.judge.violation.is_none() && !self.world.is_whole() {
            let seen = self.world.observe(0);
            let ledger = self.world.ledger.as_ref().map(|(_, l)| l);
            let plan = decide(ledger, &seen, self.world.now);
            let broken = invariants::check(ledger, &seen, &plan, self.world.now);
            debug_assert!(broken.is_empty(), "{broken:?}");
            let asks = plan.reasons.iter().find(|w| w.needs_human());
            if let Some(why) = asks {
                self.human = Some(why.id().to_owned());
            } else {
                let reasons: Vec<String> = plan.reasons.iter().map(ToString::to_string).collect();
                let text = format!("the ring does not heal: {}", reasons.join("; "));
                self.world.judge.violate(text);
            }
        }
        self.tell();
        if self.tracing {
            self.describe();
        }
    }

    fn describe(&mut self) {
        let _ = writeln!(self.trace, "truth: {:?}", self.world.ring.truth);
        if let Some((_, ledger)) = &self.world.ledger {
            let _ = writeln!(self.trace, "ledger: {ledger:?}");
        }
        for (objects, place) in self.world.objects.iter().zip(&self.world.ring.places) {
            let _ = writeln!(
                self.trace,
                "{}: exists {}, pod {:?}, claim {:?}, stamp {:?}, stage {:?} {:?}, runs {:?}",
                objects.member,
                objects.exists,
                objects.pod.as_ref().map(|p| (p.uid, p.report, p.ran)),
                objects.claim,
                objects.stamp,
                place.disk.stage(),
                place.disk.host(),
                place.process.as_ref().map(|p| (p.host, p.mode.clone()))
            );
        }
        if let Some(violation) = &self.world.judge.violation {
            let _ = writeln!(self.trace, "=> {violation}");
        }
    }

    fn report(self, seed: u64) -> Report {
        let grants = self.world.ledger.as_ref().map_or(0, |(_, l)| l.grants.0);
        Report {
            seed,
            simulated: self.world.now.since(self.began),
            faults: self.faults,
            replaced: self.world.judge.replaced,
            rows: u32::try_from(self.world.judge.rows.len()).unwrap_or(u32::MAX),
            grants,
            violation: self.world.judge.violation,
            human: self.human,
            trace: self.trace,
        }
    }
}
