//! A small world in which a test says what happens: resources with replicas, an API that can refuse, an operator that
//! forgets. Every decision is judged.

use mainstay_core::hibernation::ids::{ExecutorName, PlanName, ResourceId, TargetName, Version};
use mainstay_core::hibernation::invariants::check;
use mainstay_core::hibernation::observed::{
    Answer, Look, Observed, Power, Refusal, Resource, Severity, Skip, Stored, Wishes,
};
use mainstay_core::hibernation::plan::{Behaviour, Deletion, Drift, Intent, Strategy, Target};
use mainstay_core::hibernation::point::Point;
use mainstay_core::hibernation::state::{Operation, Phase, State};
use mainstay_core::hibernation::step::{Decision, Purpose, Step};
use mainstay_core::hibernation::store::{BUDGET, Shard, Store};
use mainstay_core::hibernation::{HibernatePlan, Turn, Why, decide};
use mainstay_core::schedule::{Schedule, Window, Zone};
use mainstay_core::time::Time;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// 2026-11-16, a Monday, 12:00 UTC.
pub(crate) const NOON: Time = Time(1_794_830_400_000);
pub(crate) const HOUR: Duration = Duration::from_hours(1);

pub(crate) fn target(name: &str) -> Target {
    Target {
        name: TargetName::parse(name).unwrap(),
        executor: ExecutorName::parse("noop").unwrap(),
        parameters: json!(null),
        ready_within: Duration::from_mins(10),
        drift: Drift::Ignore,
    }
}

pub(crate) fn name(text: &str) -> TargetName {
    TargetName::parse(text).unwrap()
}

pub(crate) fn id(text: &str) -> ResourceId {
    ResourceId::parse(text).unwrap()
}

pub(crate) fn intent(targets: Vec<Target>, strategy: Strategy) -> Intent {
    Intent::new(targets, strategy, Behaviour::default()).unwrap()
}

/// Asleep every night from 20:00 to 06:00 UTC.
pub(crate) fn plan(intent: Intent) -> HibernatePlan {
    let days = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];
    let window = Window::daily("20:00", "06:00", &days).unwrap();
    HibernatePlan {
        name: PlanName::parse("staging").unwrap(),
        schedule: Schedule::new(Zone::parse("UTC").unwrap(), vec![window], Vec::new()).unwrap(),
        intent,
        overrides: Vec::new(),
        deletion: Deletion::WakeFirst,
        suspend: false,
        ending: false,
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Thing {
    pub(crate) target: TargetName,
    pub(crate) replicas: u64,
    pub(crate) version: u64,
    pub(crate) exists: bool,
    pub(crate) selected: bool,
    pub(crate) settled: bool,
    pub(crate) skip: Option<Skip>,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the plan"
)]
pub(crate) struct Bed {
    pub(crate) plan: HibernatePlan,
    pub(crate) now: Time,
    pub(crate) state: Option<State>,
    pub(crate) shards: BTreeMap<u16, Shard>,
    pub(crate) things: BTreeMap<ResourceId, Thing>,
    pub(crate) finalizer: bool,
    pub(crate) deleting: bool,
    pub(crate) gone: bool,
    pub(crate) annotation: Option<String>,
    pub(crate) wishes: Wishes,
    pub(crate) answers: Vec<Answer>,
    /// Refuses calls to these resources.
    pub(crate) broken: BTreeMap<ResourceId, Severity>,
    /// Refuses to let these targets be looked at.
    pub(crate) blind: BTreeMap<TargetName, Severity>,
    /// Refuses to let these resources be looked at, when only what is recorded is asked for.
    pub(crate) hidden: BTreeMap<ResourceId, Severity>,
    /// The namespace is being deleted.
    pub(crate) namespace_ends: bool,
    /// Refuses so many writes of ConfigMaps.
    pub(crate) refuse_shards: u32,
    /// Dies before it has done this step, once.
    pub(crate) die_before: Option<fn(&Step) -> bool>,
    /// Dies after it has done this step, once.
    pub(crate) die_after: Option<fn(&Step) -> bool>,
    /// Dies at the place of this number, counted from here: before or after a step, whichever comes first.
    pub(crate) die_at: Option<usize>,
    /// Why ConfigMaps were written.
    pub(crate) purposes: Vec<Purpose>,
    pub(crate) calls: Vec<String>,
    pub(crate) reasons: Vec<Why>,
    /// How much a ConfigMap holds.
    pub(crate) budget: usize,
    writes: u64,
}

impl Bed {
    pub(crate) fn new(plan: HibernatePlan, things: &[(&str, &str, u64)]) -> Self {
        let things = things
            .iter()
            .map(|(t, resource, replicas)| {
                let thing = Thing {
                    target: name(t),
                    replicas: *replicas,
                    version: 1,
                    exists: true,
                    selected: true,
                    settled: true,
                    skip: None,
                };
                (id(resource), thing)
            })
            .collect();
        Self {
            plan,
            now: NOON,
            state: None,
            shards: BTreeMap::new(),
            things,
            finalizer: false,
            deleting: false,
            gone: false,
            annotation: None,
            wishes: Wishes::default(),
            answers: Vec::new(),
            broken: BTreeMap::new(),
            blind: BTreeMap::new(),
            hidden: BTreeMap::new(),
            namespace_ends: false,
            refuse_shards: 0,
            die_before: None,
            die_after: None,
            die_at: None,
            purposes: Vec::new(),
            calls: Vec::new(),
            reasons: Vec::new(),
            budget: BUDGET,
            writes: 0,
        }
    }

    /// One target `web` with the resource `a` of three replicas.
    pub(crate) fn simple() -> Self {
        Self::new(
            plan(intent(vec![target("web")], Strategy::Sequential)),
            &[("web", "a", 3)],
        )
    }

    pub(crate) fn store(&self) -> Store {
        let shards = self.shards.values().cloned().collect();
        Store::with_budget(self.plan.name.clone(), shards, self.budget)
    }

    pub(crate) fn point(&self, target: &str) -> Point {
        let executor = ExecutorName::parse("noop").unwrap();
        self.store().load(&executor, &name(target)).unwrap().unwrap()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.as_ref().unwrap().phase
    }

    pub(crate) fn replicas(&self, resource: &str) -> u64 {
        self.things[&id(resource)].replicas
    }

    pub(crate) fn set(&mut self, resource: &str, replicas: u64) {
        let thing = self.things.get_mut(&id(resource)).unwrap();
        thing.replicas = replicas;
        thing.version += 1;
    }

    /// Somebody gives up the restore point of a target, in the leg that is open.
    pub(crate) fn give_up(&mut self, target: &str) {
        let leg = self.state.as_ref().unwrap().open.as_ref().unwrap().leg_id();
        self.wishes.discard.insert(name(target), leg);
    }

    pub(crate) fn said(&self, why: &str) -> bool {
        self.reasons.iter().any(|w| w.id() == why)
    }

    pub(crate) fn observed(&self) -> Observed {
        let mut names: BTreeSet<TargetName> =
            self.plan.intent.targets.iter().map(|t| t.name.clone()).collect();
        let open = self.state.as_ref().and_then(|s| s.open.as_ref());
        names.extend(open.into_iter().flat_map(|c| c.targets.keys().cloned()));
        names.extend(self.store().points().map(|p| p.target));
        let recorded: BTreeSet<ResourceId> = self
            .store()
            .points()
            .flat_map(|p| p.entries.into_keys())
            .collect();
        let look = |target: &TargetName| {
            let mine = self
                .things
                .iter()
                .filter(|(id, t)| t.target == *target && (t.exists || recorded.contains(*id)));
            mine.map(|(id, t)| {
                let power = match (t.exists, t.replicas) {
                    (false, _) => Power::Gone,
                    (true, 0) => Power::Down,
                    (true, _) => Power::Up,
                };
                let resource = Resource {
                    power,
                    settled: t.settled,
                    state: json!({ "replicas": t.replicas }),
                    version: Some(Version(t.version.to_string())),
                    selected: t.selected && t.exists,
                    skip: t.skip.clone(),
                };
                (id.clone(), resource)
            })
            .collect()
        };
        let seen = |target: &TargetName| match self.blind.get(target) {
            Some(severity) => Err(Refusal {
                message: "nobody may look".to_owned(),
                severity: *severity,
            }),
            None => Ok(look(target)),
        };
        let waking = open.is_some_and(|c| c.operation == Operation::WakeUp);
        let mut targets: BTreeMap<TargetName, Result<Look, Refusal>> =
            names.into_iter().map(|n| (n.clone(), seen(&n))).collect();
        let mut unseen: BTreeMap<TargetName, BTreeMap<ResourceId, Refusal>> = BTreeMap::new();
        for (target, look) in targets.iter_mut().filter(|_| waking) {
            let Ok(look) = look else { continue };
            for (id, severity) in &self.hidden {
                if look.remove(id).is_some() {
                    let message = "nobody may see it".to_owned();
                    let severity = *severity;
                    let refusal = Refusal { message, severity };
                    unseen
                        .entry(target.clone())
                        .or_default()
                        .insert(id.clone(), refusal);
                }
            }
        }
        Observed {
            deleting: self.deleting,
            namespace_ends: self.namespace_ends,
            finalizer: self.finalizer,
            suspended_at_phase: self.annotation.clone(),
            wishes: self.wishes.clone(),
            targets,
            unseen,
            answers: self.answers.clone(),
            ..Observed::default()
        }
    }

    pub(crate) fn decision(&self) -> Decision {
        let stored = Stored {
            state: self.state.clone(),
            store: self.store(),
        };
        let seen = self.observed();
        let decision = decide(&self.plan, &stored, &seen, self.now);
        let violations = check(&self.plan, &stored, &seen, &decision, self.now);
        assert_eq!(violations, [], "{decision:#?}");
        decision
    }

    /// Does it die here? Once.
    fn is_the_end(&mut self) -> bool {
        let dies = self.die_at == Some(0);
        self.die_at = self.die_at.and_then(|places| places.checked_sub(1));
        dies
    }

    /// How often this was said.
    pub(crate) fn times(&self, why: &str) -> usize {
        self.reasons.iter().filter(|w| w.id() == why).count()
    }

    /// One turn; `false` if it changed nothing.
    pub(crate) fn turn(&mut self) -> bool {
        let (decision, seen) = (self.decision(), self.observed());
        self.reasons.extend(decision.reasons.iter().cloned());
        let mut turn = Turn::new(decision, &seen);
        self.answers.clear();
        let mut acted = false;
        while let Some(step) = turn.step().cloned() {
            acted = true;
            if self.die_before.is_some_and(|is| is(&step)) || self.is_the_end() {
                self.die_before = None;
                self.answers.clear();
                return true;
            }
            let outcome = self.apply(&step);
            turn.on(outcome);
            if self.die_after.is_some_and(|is| is(&step)) || self.is_the_end() {
                self.die_after = None;
                self.answers.clear();
                return true;
            }
        }
        self.answers = turn.answers();
        acted
    }

    /// Turns until nothing happens any more; time passes a little.
    pub(crate) fn settle(&mut self) {
        for _ in 0..60 {
            if self.gone || !self.turn() {
                return;
            }
            self.now = self.now + Duration::from_secs(1);
        }
        panic!(
            "it does not come to rest: {:?}",
            self.reasons.iter().rev().take(5).collect::<Vec<_>>()
        );
    }

    /// It is this much later, and the operator has done what there is to do.
    pub(crate) fn later(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.settle();
    }

    /// 20:05 of the same day, or 06:05 of the next.
    pub(crate) fn night(&mut self) {
        let day = self.now.0 / 86_400_000;
        self.now = Time(day * 86_400_000) + Duration::from_mins(20 * 60 + 5);
        self.settle();
    }

    pub(crate) fn morning(&mut self) {
        let day = self.now.0 / 86_400_000 + 1;
        self.now = Time(day * 86_400_000) + Duration::from_mins(6 * 60 + 5);
        self.settle();
    }

    fn apply(&mut self, step: &Step) -> Result<(), Refusal> {
        let refuse = |message: &str, severity| Refusal {
            message: message.to_owned(),
            severity,
        };
        match step {
            Step::AddFinalizer => self.finalizer = true,
            Step::RemoveFinalizer => self.gone = true,
            Step::WriteState(state) => self.state = Some((**state).clone()),
            Step::SetSuspendedAt(phase) => self.annotation = phase.map(|p| p.to_string()),
            Step::WriteShard { shard, purpose } => {
                if self.refuse_shards > 0 {
                    self.refuse_shards -= 1;
                    return Err(refuse("the server is busy", Severity::Transient));
                }
                let found = self.shards.get(&shard.number).and_then(|s| s.version.clone());
                assert_eq!(found, shard.version, "a write carries the version that was read");
                self.writes += 1;
                self.purposes.push(*purpose);
                let mut shard = (**shard).clone();
                shard.version = Some(Version(self.writes.to_string()));
                self.shards.insert(shard.number, shard);
            }
            Step::Stop(aim) | Step::Start { aim, .. } => {
                if let Some(severity) = self.broken.get(&aim.resource) {
                    return Err(refuse("access denied", *severity));
                }
                let Some(thing) = self.things.get_mut(&aim.resource) else {
                    return Err(refuse("it names no resources", Severity::Permanent));
                };
                if aim.version != Some(Version(thing.version.to_string())) {
                    return Err(refuse("changed", Severity::Changed));
                }
                thing.replicas = match step {
                    Step::Start { state, .. } => state["replicas"].as_u64().unwrap(),
                    _ => 0,
                };
                thing.version += 1;
                let verb = if matches!(step, Step::Stop(_)) {
                    "stop"
                } else {
                    "start"
                };
                self.calls.push(format!("{verb} {}", aim.resource));
            }
        }
        Ok(())
    }
}
