//! The world of hibernation: a plan, its ConfigMaps, resources, operators that die, people who interfere, and a clock
//! that jumps. The same seed gives the same trace, byte for byte.
//!
//! Whenever a cycle is closed, every resource must be as people wanted it; every decision is judged by the invariants;
//! and when the faults stop, everything must come back by itself.

mod operator;
mod people;
mod points;
mod spec;
mod thing;
mod world;

use crate::memgraph::simulate::Chance;
use mainstay_core::hibernation::ids::ResourceId;
use mainstay_core::hibernation::state::Phase;
use mainstay_core::hibernation::step::Step;
use mainstay_core::hibernation::store::BUDGET;
use mainstay_core::schedule::{Desired, rfc3339};
use mainstay_core::time::Time;
use operator::{Moved, Operator, Weather};
use spec::SpecError;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use thing::Thing;
use world::World;

/// What became of one seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Virtual time simulated.
    pub simulated: Duration,
    /// Cycles closed.
    pub cycles: u64,
    /// Looks and steps of operators.
    pub moves: u64,
    /// What people and misfortune did.
    pub faults: u32,
    /// What went wrong.
    pub violation: Option<String>,
    /// The trace, if it was asked for.
    pub trace: String,
}

/// How long people and misfortune interfere.
const TROUBLE: Duration = Duration::from_hours(72);
/// How long it may take after that: a night that was missed, and the day after.
const HEALING: Duration = Duration::from_hours(72);
/// How long a wake-up may take when nothing interferes: the longest wait for another try, and every gate after it.
const IN_TIME: Duration = Duration::from_hours(3);
/// More moves than any plan needs: somebody turns in circles.
const RESTLESS: u64 = 30_000;
/// 2026-10-22 12:00 UTC: the clocks change three days later in Europe.
const BEGIN: Time = Time(1_792_670_400_000);

/// Runs one seed.
pub fn run(seed: u64, tracing: bool) -> Report {
    run_with(seed, tracing, u32::MAX)
}

/// Runs one seed in which nothing interferes any more after so many faults: what is left shows what mattered.
pub fn run_with(seed: u64, tracing: bool, most_faults: u32) -> Report {
    let mut simulation = Simulation::new(seed, tracing, most_faults);
    if let Err(error) = simulation.live() {
        simulation.world.violate(format!("the generator: {error}"));
    }
    simulation.report(seed)
}

/// The same seed with as few faults as possible, for whoever has to understand it.
pub fn shortest(seed: u64) -> Report {
    let most = run(seed, false).faults;
    let least = (0..=most).find(|n| run_with(seed, false, *n).violation.is_some());
    run_with(seed, true, least.unwrap_or(u32::MAX))
}

/// Does it create a ConfigMap?
fn creates(step: &Step) -> bool {
    matches!(step, Step::WriteShard { shard, .. } if shard.version.is_none())
}

#[derive(Clone, Debug)]
enum Event {
    /// An operator makes its next move.
    Operator(usize),
    /// Somebody or something interferes.
    Interfere,
    /// A call arrives that nobody waits for any more.
    Late(Box<Step>, u64),
    /// The plan is applied again.
    Create,
    /// The clock of an operator is put right, or wrong.
    Clock(usize),
}

struct Simulation {
    world: World,
    weather: Weather,
    chance: Chance,
    operators: Vec<Operator>,
    queue: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    tracing: bool,
    trace: String,
    faults: u32,
    most_faults: u32,
    moves: u64,
    healing: bool,
    /// The plan was applied again after the faults had stopped.
    late_again: bool,
    /// When something last happened that a wake-up may need its time for.
    disturbed: Time,
}

impl Simulation {
    fn new(seed: u64, tracing: bool, most_faults: u32) -> Self {
        let world = World {
            now: BEGIN,
            object: None,
            shards: BTreeMap::new(),
            things: BTreeMap::new(),
            counter: 0,
            violation: None,
            cycles: 0,
            budget: BUDGET,
            spoilt: Vec::new(),
            maps_were_deleted: false,
        };
        Self {
            world,
            weather: Weather {
                slow: 60,
                ..Weather::default()
            },
            chance: Chance::new(seed),
            operators: vec![Operator::default(), Operator::default()],
            queue: BTreeMap::new(),
            sequence: 0,
            disturbed: BEGIN,
            tracing,
            trace: String::new(),
            faults: 0,
            most_faults,
            moves: 0,
            healing: false,
            late_again: false,
        }
    }

    fn at(&mut self, at: Time, event: Event) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), event);
    }

    fn note(&mut self, text: &str) {
        self.tell(|| text.to_owned());
    }

    /// To word what nobody reads would be a good part of a run.
    fn tell(&mut self, words: impl FnOnce() -> String) {
        if self.tracing {
            let text = words();
            if !text.is_empty() {
                let _ = writeln!(self.trace, "{} {text}", rfc3339(self.world.now));
            }
        }
    }

    fn begin(&mut self) -> Result<(), SpecError> {
        let schedule = spec::schedule(&mut self.chance)?;
        let plan = spec::plan(&mut self.chance, schedule)?;
        if self.chance.one_in(3) {
            // Small ConfigMaps: points are split.
            self.world.budget = usize::try_from(self.chance.between(1100..2500)).unwrap_or(BUDGET);
        }
        for target in 0..spec::MOST_TARGETS {
            for number in 0..self.chance.below(4) {
                let id = ResourceId::parse(&format!("t{target}-{number}"))?;
                let replicas = self.chance.below(6);
                self.world
                    .things
                    .insert(id, Thing::new(spec::target_name(target)?, replicas));
            }
        }
        people::create(&mut self.world, plan);
        self.at(BEGIN + Duration::from_secs(1), Event::Operator(0));
        // The second operator believes that it leads, too, for some of the time.
        self.at(BEGIN + Duration::from_hours(5), Event::Operator(1));
        self.at(BEGIN + Duration::from_hours(1), Event::Interfere);
        self.at(BEGIN + Duration::from_hours(9), Event::Clock(0));
        Ok(())
    }

    fn live(&mut self) -> Result<(), SpecError> {
        self.begin()?;
        let trouble = BEGIN + TROUBLE;
        while let Some(((at, _), event)) = self.queue.pop_first() {
            if at > trouble && !self.healing {
                self.stop_faults();
            }
            if at > trouble + HEALING {
                self.not_healed();
                return Ok(());
            }
            self.world.now = self.world.now.max(at);
            self.on(event)?;
            self.people_help();
            self.is_in_time();
            if self.world.violation.is_some() || (self.healing && self.is_well()) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn on(&mut self, event: Event) -> Result<(), SpecError> {
        match event {
            Event::Operator(index) => self.operator(index),
            Event::Interfere => return self.interfere(),
            Event::Late(step, version) => {
                let possible = !(creates(&step) && self.world.maps_were_deleted);
                let done = possible && self.world.apply(&step, version, self.world.now).is_ok();
                self.tell(|| format!("late: {step}: {}", if done { "done" } else { "not possible" }));
            }
            Event::Create => {
                if self.world.object.is_none() {
                    let schedule = spec::schedule(&mut self.chance)?;
                    let plan = spec::plan(&mut self.chance, schedule)?;
                    people::create(&mut self.world, plan);
                    self.disturbed = self.world.now;
                    self.late_again = self.healing;
                    self.note("the plan is applied again");
                }
            }
            Event::Clock(index) => self.jump(index),
        }
        Ok(())
    }

    fn operator(&mut self, index: usize) {
        let now = self.world.now;
        let Some(operator) = self.operators.get_mut(index) else {
            return;
        };
        if operator.down_until > now {
            let until = operator.down_until;
            return self.at(until, Event::Operator(index));
        }
        self.moves += 1;
        if self.moves > RESTLESS {
            return self.world.violate("an operator never rests".to_owned());
        }
        let moved = operator.go(&mut self.world, &self.weather, &mut self.chance);
        let busy = operator.is_busy();
        let wake = operator.wake;
        let next = if busy {
            now + Duration::from_millis(self.chance.between(5..900))
        } else {
            wake
        };
        match moved {
            Moved::Decided(reasons) => self.tell(|| {
                let told: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                format!("op{index} {}", told.join(" | "))
            }),
            Moved::Stepped(step, told) => self.tell(|| format!("op{index}   {step}: {told}")),
            Moved::Died(when, step, told) => self.tell(|| format!("op{index} dies {when}: {step}: {told}")),
            Moved::Idle => {}
            Moved::Late(step, version) => {
                self.tell(|| format!("op{index}   {step}: no answer, it is late"));
                let delay = [1, 60, 3600, 40_000]
                    .get(usize::from(self.chance.pick(4)))
                    .copied()
                    .unwrap_or(1);
                // Whoever writes a ConfigMap names the version that was read; nothing tells a creation that it comes too
                // late. Kubernetes ends requests after a minute.
                let delay = if creates(&step) { delay.min(60) } else { delay };
                let at = now + Duration::from_secs(1 + self.chance.below(delay));
                self.at(at, Event::Late(step, version));
            }
        }
        // Only one leads most of the time.
        let rest = index == 1 && !busy && (self.healing || !self.chance.one_in(4));
        let pause = if rest {
            Duration::from_hours(3)
        } else {
            Duration::ZERO
        };
        if !(index == 1 && self.healing && !busy) {
            self.at(
                (next + pause).max(now + Duration::from_millis(5)),
                Event::Operator(index),
            );
        }
        if self.world.object.is_none() && !self.queue.values().any(|e| matches!(e, Event::Create)) {
            let at = now + Duration::from_mins(self.chance.between(1..600));
            self.at(at, Event::Create);
        }
    }

    fn interfere(&mut self) -> Result<(), SpecError> {
        if self.healing || self.faults >= self.most_faults {
            return Ok(());
        }
        self.faults += 1;
        let told = people::happen(&mut self.world, &mut self.weather, &mut self.chance)?;
        self.note(&format!("* {told}"));
        let next = self.world.now + Duration::from_mins(self.chance.between(1..240));
        self.at(next, Event::Interfere);
        self.stir();
        Ok(())
    }

    /// The first operator watches.
    fn stir(&mut self) {
        let now = self.world.now;
        let pending: Vec<_> = self
            .queue
            .iter()
            .filter(|(_, e)| matches!(e, Event::Operator(0)))
            .map(|(key, _)| *key)
            .collect();
        let soon = now + Duration::from_millis(self.chance.between(10..3000));
        if pending.iter().all(|(at, _)| *at > soon) {
            for key in pending {
                self.queue.remove(&key);
            }
            self.at(soon, Event::Operator(0));
        }
    }

    fn jump(&mut self, index: usize) {
        if self.healing || self.faults >= self.most_faults {
            return;
        }
        let minutes = i64::try_from(self.chance.below(900)).unwrap_or(0) - 450;
        let skew = if self.chance.one_in(2) {
            0
        } else {
            minutes * 60_000
        };
        if let Some(operator) = self.operators.get_mut(index) {
            operator.skew = skew;
        }
        self.note(&format!(
            "* the clock of op{index} is wrong by {} min",
            skew / 60_000
        ));
        let next = self.world.now + Duration::from_mins(self.chance.between(30..900));
        self.at(next, Event::Clock(index));
        self.stir();
    }

    fn stop_faults(&mut self) {
        self.healing = true;
        self.disturbed = self.world.now;
        self.weather = Weather {
            slow: 30,
            ..Weather::default()
        };
        for operator in &mut self.operators {
            operator.skew = 0;
        }
        points::repair_all(&mut self.world);
        points::give_up_the_rest(&mut self.world);
        for thing in self.world.things.values_mut() {
            thing.settles = thing.settles.min(self.world.now);
        }
        if let Some(object) = &mut self.world.object {
            object.plan.suspend = false;
            object.wishes.suspend = false;
            object.wishes.suspend_until = None;
            object.version += 1;
        }
        self.note("* the faults stop");
        self.stir();
    }

    /// When the faults stopped there was no plan that could say what it misses. It says so in its first wake-up: a part
    /// that the plan before it never came to write is nobody's to put back, nobody can tell it from one that was lost
    /// (which only a human may give up), and people do what the plan asks them for.
    fn people_help(&mut self) {
        let state = self.world.object.as_ref().and_then(|o| o.state.as_ref());
        if self.late_again && state.is_some_and(|s| s.phase == Phase::Error) {
            points::give_up_the_rest(&mut self.world);
        }
    }

    /// Awake, closed, and nothing is on its way any more.
    fn is_well(&self) -> bool {
        let Some(object) = &self.world.object else {
            return false;
        };
        let active = object
            .state
            .as_ref()
            .is_some_and(|s| s.phase == Phase::Active && s.open.is_none());
        let late = self.queue.values().any(|e| matches!(e, Event::Late(..)));
        let busy = self.operators.iter().any(Operator::is_busy);
        let awake = object.plan.schedule.at(self.world.now).desired == Desired::Awake;
        active && awake && !late && !busy && !object.deleting && self.as_wanted()
    }

    /// Nobody waits for half a day because of what is over: when it is time to be awake and nothing interferes, all is
    /// awake before long.
    fn is_in_time(&mut self) {
        let now = self.world.now;
        let Some(object) = self.world.object.as_ref().filter(|o| self.healing && !o.deleting) else {
            return;
        };
        if now.since(self.disturbed) < IN_TIME || self.as_wanted() {
            return;
        }
        let slot = object.plan.schedule.at(now);
        let since = slot.since.unwrap_or(BEGIN);
        if slot.desired == Desired::Awake && now.since(since) >= IN_TIME {
            self.not_healed();
        }
    }

    fn as_wanted(&self) -> bool {
        let things = self.world.things.values().filter(|t| t.exists);
        things
            .into_iter()
            .all(|t| !t.slept && t.truth.contains(&t.replicas))
    }

    fn not_healed(&mut self) {
        let phase = self
            .world
            .object
            .as_ref()
            .and_then(|o| o.state.as_ref())
            .map(|s| s.phase);
        let wrong = self
            .world
            .things
            .iter()
            .find(|(_, t)| t.exists && (t.slept || !t.truth.contains(&t.replicas)));
        let what = wrong.map_or_else(
            || "nothing is wrong".to_owned(),
            |(id, t)| format!("{id} has {} instead of {:?}", t.replicas, t.truth),
        );
        self.world
            .violate(format!("it does not come back: {phase:?}, {what}"));
    }

    fn report(mut self, seed: u64) -> Report {
        if let Some(violation) = self.world.violation.clone() {
            self.note(&format!("=> {violation}"));
        }
        Report {
            seed,
            simulated: self.world.now.since(BEGIN),
            cycles: self.world.cycles,
            moves: self.moves,
            faults: self.faults,
            violation: self.world.violation,
            trace: self.trace,
        }
    }
}
