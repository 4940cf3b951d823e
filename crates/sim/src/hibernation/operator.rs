//! The operator of the model: observes, decides, is judged, and acts step by step. It can die before and after each.

use super::world::{World, refused};
use crate::memgraph::simulate::Chance;
use mainstay_core::hibernation::ids::{ResourceId, TargetName};
use mainstay_core::hibernation::invariants::check;
use mainstay_core::hibernation::observed::{Answer, Jitter, Observed, Refusal, Severity};
use mainstay_core::hibernation::reason::Why;
use mainstay_core::hibernation::state::{Operation, Phase};
use mainstay_core::hibernation::step::Step;
use mainstay_core::hibernation::{Turn, decide};
use mainstay_core::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How the world treats calls now.
#[derive(Clone, Debug, Default)]
pub(super) struct Weather {
    /// One call in so many is refused; 0: none.
    pub(super) refuses: u64,
    /// One call in so many is not answered; 0: none.
    pub(super) loses: u64,
    /// One step in so many is the operator's last; 0: none.
    pub(super) kills: u64,
    /// Things take so long to settle at most, in seconds.
    pub(super) slow: u64,
    /// Until when the executor of a target refuses everything, and how.
    pub(super) broken: BTreeMap<u64, (Time, Severity)>,
}

/// One operator process.
#[derive(Debug, Default)]
pub(super) struct Operator {
    turn: Option<Turn>,
    version: u64,
    answers: Vec<Answer>,
    /// It believes that it is so much later than it is, in milliseconds; may be earlier.
    pub(super) skew: i64,
    pub(super) down_until: Time,
    /// When it wants to look again.
    pub(super) wake: Time,
}

/// What came of one move of an operator.
pub(super) enum Moved {
    /// It looked and decided, for these reasons.
    Decided(Vec<Why>),
    /// It carried out a step, and what came of it.
    Stepped(Box<Step>, &'static str),
    /// A call that will be carried out later, if at all.
    Late(Box<Step>, u64),
    /// It died before or after a step, and what came of it.
    Died(&'static str, Box<Step>, &'static str),
    /// There is nothing to look at.
    Idle,
}

impl Operator {
    pub(super) fn now(&self, now: Time) -> Time {
        Time(now.0.saturating_add_signed(self.skew))
    }

    pub(super) fn is_busy(&self) -> bool {
        self.turn.as_ref().is_some_and(|t| t.step().is_some())
    }

    /// It forgets everything.
    pub(super) fn die(&mut self, until: Time) {
        self.turn = None;
        self.answers.clear();
        self.down_until = until;
        self.wake = until;
    }

    /// One move: a look, or one step.
    pub(super) fn go(&mut self, world: &mut World, weather: &Weather, chance: &mut Chance) -> Moved {
        let step = self.turn.as_ref().and_then(|t| t.step().cloned());
        match step {
            None => self.look(world, weather, chance),
            Some(step) => self.act(&step, world, weather, chance),
        }
    }

    fn look(&mut self, world: &mut World, weather: &Weather, chance: &mut Chance) -> Moved {
        if let Some(turn) = self.turn.take() {
            self.answers = turn.answers();
        }
        let now = self.now(world.now);
        let Some(object) = &world.object else {
            self.wake = world.now + Duration::from_mins(5);
            self.answers.clear();
            return Moved::Idle;
        };
        let stored = world.stored(object);
        let mut names: BTreeSet<_> = object
            .plan
            .intent
            .targets
            .iter()
            .map(|t| t.name.clone())
            .collect();
        let open = object.state.as_ref().and_then(|s| s.open.as_ref());
        names.extend(open.into_iter().flat_map(|c| c.targets.keys().cloned()));
        let mut recorded = BTreeSet::new();
        for point in stored.store.points() {
            names.insert(point.target.clone());
            recorded.extend(point.entries.into_keys());
        }
        let waking = open.is_some_and(|c| c.operation == Operation::WakeUp);
        let mut unseen: BTreeMap<TargetName, BTreeMap<ResourceId, Refusal>> = BTreeMap::new();
        let targets = names
            .into_iter()
            .map(|name| {
                let number = name.as_str().trim_start_matches('t').parse().unwrap_or(0);
                let broken = weather
                    .broken
                    .get(&number)
                    .filter(|(until, _)| *until > world.now);
                // Whoever cannot call mostly can still look.
                let look = match broken {
                    Some((_, severity)) if chance.one_in(3) => Err(refused("no credentials", *severity)),
                    // Or at everything but one of them.
                    Some((_, severity)) if waking && chance.one_in(2) => {
                        let mut look = world.look(&name, &recorded);
                        let count = u64::try_from(look.len()).unwrap_or(0);
                        let which = usize::try_from(chance.below(count.max(1))).unwrap_or(0);
                        let hidden = look.keys().nth(which).cloned();
                        if let Some(id) = hidden.filter(|_| count > 1) {
                            look.remove(&id);
                            let of = unseen.entry(name.clone()).or_default();
                            of.insert(id, refused("no credentials", *severity));
                        }
                        Ok(look)
                    }
                    _ => Ok(world.look(&name, &recorded)),
                };
                (name, look)
            })
            .collect();
        let seen = Observed {
            deleting: object.deleting,
            namespace_ends: false,
            finalizer: object.finalizer,
            suspended_at_phase: object.suspended_at_phase.clone(),
            wishes: object.wishes.clone(),
            targets,
            unseen,
            answers: self.answers.clone(),
            jitter: Jitter::per_mille(u16::try_from(chance.below(1000)).unwrap_or(0)),
        };
        let decision = decide(&object.plan, &stored, &seen, now);
        let violations = check(&object.plan, &stored, &seen, &decision, now);
        self.version = object.version;
        let asked = decision.wake.unwrap_or(now + Duration::from_mins(30));
        // A look each minute for the whole night would be most of what is simulated; who interferes wakes the operator.
        let down = open.is_some_and(|c| c.operation == Operation::Shutdown);
        let asleep = object
            .state
            .as_ref()
            .is_some_and(|s| s.phase == Phase::Hibernated || s.phase == Phase::Error && down);
        let least = if asleep {
            Duration::from_mins(20)
        } else {
            Duration::from_secs(1)
        };
        let wait = asked.since(now).max(least).min(Duration::from_mins(30));
        self.wake = world.now
            + if decision.steps.is_empty() {
                wait
            } else {
                Duration::from_secs(1)
            };
        let reasons = decision.reasons.clone();
        self.turn = Some(Turn::new(decision, &seen));
        self.answers.clear();
        if let Some(violation) = violations.first() {
            world.violate(violation.to_string());
        }
        Moved::Decided(reasons)
    }

    fn act(&mut self, step: &Step, world: &mut World, weather: &Weather, chance: &mut Chance) -> Moved {
        let hits = |chance: &mut Chance, one_in: u64| one_in > 0 && chance.one_in(one_in);
        if hits(chance, weather.kills) {
            self.die(world.now + Duration::from_secs(chance.between(1..120)));
            return Moved::Died("before", Box::new(step.clone()), "not begun");
        }
        let settles = world.now + Duration::from_secs(chance.below(weather.slow.max(1)));
        let (outcome, told) = if let Some(refusal) = refusal(step, world, weather, chance) {
            (Err(refusal), "refused")
        } else if hits(chance, weather.loses) {
            let lost = Err(refused("no answer", Severity::Transient));
            if chance.one_in(2) {
                let version = self.version;
                self.finish(step, lost, world);
                return Moved::Late(Box::new(step.clone()), version);
            }
            let done = world.apply(step, self.version, settles).is_ok();
            (
                lost,
                if done {
                    "no answer, done"
                } else {
                    "no answer, not done"
                },
            )
        } else {
            match world.apply(step, self.version, settles) {
                Ok(()) => (Ok(()), "done"),
                Err(refusal) => (Err(refusal), "not possible"),
            }
        };
        self.finish(step, outcome, world);
        if hits(chance, weather.kills) {
            self.die(world.now + Duration::from_secs(chance.between(1..120)));
            return Moved::Died("after", Box::new(step.clone()), told);
        }
        Moved::Stepped(Box::new(step.clone()), told)
    }

    fn finish(&mut self, step: &Step, outcome: Result<(), Refusal>, world: &World) {
        if outcome.is_ok() && !step.is_call() && !matches!(step, Step::WriteShard { .. }) {
            self.version += 1;
        }
        if outcome.is_err() && !step.is_call() {
            self.wake = world.now + Duration::from_secs(1);
        }
        if let Some(turn) = &mut self.turn {
            turn.on(outcome);
        }
    }
}

/// Does the API, or whoever is to be stopped or started, say no?
fn refusal(step: &Step, world: &World, weather: &Weather, chance: &mut Chance) -> Option<Refusal> {
    if let Step::Stop(aim) | Step::Start { aim, .. } = step {
        let number = aim.target.as_str().trim_start_matches('t').parse().unwrap_or(0);
        let broken = weather
            .broken
            .get(&number)
            .filter(|(until, _)| *until > world.now);
        if let Some((_, severity)) = broken {
            return Some(refused("no credentials", *severity));
        }
    }
    let unlucky = weather.refuses > 0 && chance.one_in(weather.refuses);
    unlucky.then(|| refused("the server is busy", Severity::Transient))
}
