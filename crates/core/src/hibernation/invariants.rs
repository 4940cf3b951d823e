//! Judges any decision without knowing how it was made: nothing in here calls the code that decides.
//!
//! The seven invariants, each with what of it can be seen in one decision. The shell refuses a decision that breaks
//! one, and the simulation checks every decision it meets.

use super::ids::{ExecutorName, LegId, ResourceId, TargetName};
use super::observed::{Answer, Call, Observed, Power, Stored};
use super::plan::{Deletion, HibernatePlan, Target};
use super::point::{Entry, Point, PointError};
use super::state::{Cycle, Operation, Phase, Progress, Stand, State};
use super::step::{Aim, Decision, Step};
use super::store::{Shard, Store};
use crate::time::Time;
use std::fmt;

/// What no decision may break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// A resource is stopped only when what it was is durable.
    WriteAhead,
    /// What still has to be brought back is never lost or made worse, except by a human's word.
    NeverDowngraded,
    /// Cycle, phase and operation are durable before the first effect; a cycle begins only when none is open.
    CycleFirst,
    /// An entry is consumed only when its resource was brought back; a cycle is closed only when every entry is.
    ConsumedWhenDone,
    /// Exactly what was recorded is started.
    RecordedSet,
    /// What a cycle is about does not change while it is open; nothing is touched while suspended; a plan goes only
    /// when nothing of it sleeps, or when the user said so.
    NoSilentEdit,
    /// Every decision has a reason.
    Reasoned,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::WriteAhead,
        Self::NeverDowngraded,
        Self::CycleFirst,
        Self::ConsumedWhenDone,
        Self::RecordedSet,
        Self::NoSilentEdit,
        Self::Reasoned,
    ];

    /// As it stands in reports and metrics.
    pub fn id(self) -> &'static str {
        match self {
            Self::WriteAhead => "H1",
            Self::NeverDowngraded => "H2",
            Self::CycleFirst => "H3",
            Self::ConsumedWhenDone => "H4",
            Self::RecordedSet => "H5",
            Self::NoSilentEdit => "H6",
            Self::Reasoned => "H7",
        }
    }
}

/// An invariant that a decision breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// The step that breaks it, from 0; the number of steps for the decision as a whole.
    pub step: usize,
    /// What is wrong.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] step {}: {}", self.invariant.id(), self.step, self.detail)
    }
}

/// Everything that is wrong with this decision; empty if nothing is.
pub fn check(
    plan: &HibernatePlan,
    stored: &Stored,
    seen: &Observed,
    decision: &Decision,
    now: Time,
) -> Vec<Violation> {
    let mut judge = Judge {
        plan,
        seen,
        now,
        read: stored,
        state: stored.state.clone(),
        store: stored.store.clone(),
        step: 0,
        found: Vec::new(),
    };
    for (index, step) in decision.steps.iter().enumerate() {
        judge.step = index;
        judge.look_at(step);
    }
    judge.step = decision.steps.len();
    if decision.reasons.is_empty() {
        judge.report(Invariant::Reasoned, "nobody would know why");
    }
    judge.found
}

/// The walk through a decision: what is stored before the current step.
struct Judge<'a> {
    plan: &'a HibernatePlan,
    seen: &'a Observed,
    now: Time,
    read: &'a Stored,
    state: Option<State>,
    store: Store,
    step: usize,
    found: Vec<Violation>,
}

impl Judge<'_> {
    fn report(&mut self, invariant: Invariant, detail: impl Into<String>) {
        self.found.push(Violation {
            invariant,
            step: self.step,
            detail: detail.into(),
        });
    }

    fn look_at(&mut self, step: &Step) {
        match step {
            Step::AddFinalizer | Step::SetSuspendedAt(_) => {}
            Step::RemoveFinalizer => self.goes(),
            Step::WriteState(next) => {
                self.change(next);
                self.state = Some((**next).clone());
            }
            Step::WriteShard { shard, purpose: _ } => {
                self.write(shard);
                self.store = self.store.after(shard);
            }
            Step::Stop(aim) => self.stop(aim),
            Step::Start { aim, state } => self.start(aim, state),
        }
    }

    fn entry(&self, aim: &Aim) -> Option<Entry> {
        let point = self.store.load(&aim.executor, &aim.target).ok()??;
        point.entries.get(&aim.resource).cloned()
    }

    fn open(&self) -> Option<&Cycle> {
        self.state.as_ref().and_then(|s| s.open.as_ref())
    }

    /// A call belongs to the cycle, the operation and the targets that are durable.
    fn belongs(&mut self, aim: &Aim, operation: Operation) {
        let read = self.read.state.as_ref().and_then(|s| s.open.as_ref());
        let durable = read.is_some_and(|c| c.id == aim.cycle && c.leg == aim.leg && c.operation == operation);
        let still = self
            .open()
            .is_some_and(|c| c.operation == operation && c.intent.target(&aim.target).is_some());
        if !durable || !still {
            let detail = format!(
                "{operation:?} of `{}` is not what the stored cycle is doing",
                aim.target
            );
            self.report(Invariant::CycleFirst, detail);
        }
        let leg = LegId {
            cycle: aim.cycle,
            leg: aim.leg,
        };
        if self.seen.wishes.discard.get(&aim.target) == Some(&leg) {
            let detail = format!("`{}` was given up, and is touched", aim.target);
            self.report(Invariant::NoSilentEdit, detail);
        }
        let suspended = self.seen.suspended(self.plan.suspend, self.now);
        if suspended && !self.seen.deleting {
            self.report(Invariant::NoSilentEdit, "suspended, and something is touched");
        }
    }

    fn stop(&mut self, aim: &Aim) {
        self.belongs(aim, Operation::Shutdown);
        let point = self.store.load(&aim.executor, &aim.target).ok().flatten();
        let own = point.is_some_and(|p| p.cycle == Some(aim.cycle) && p.leg == aim.leg);
        let detail = match self.entry(aim) {
            Some(e) if !e.live || e.consumed => Some("without a durable record"),
            None => Some("without a durable record"),
            Some(_) if !own => Some("on a record of another leg"),
            Some(_) => None,
        };
        if let Some(detail) = detail {
            let detail = format!("`{}` would be stopped {detail}", aim.resource);
            self.report(Invariant::WriteAhead, detail);
        }
        let look = self.seen.targets.get(&aim.target).and_then(|l| l.as_ref().ok());
        let skip = look
            .and_then(|l| l.get(&aim.resource))
            .and_then(|r| r.skip.as_ref());
        if skip.is_some() {
            let detail = format!("`{}` must be left alone", aim.resource);
            self.report(Invariant::NoSilentEdit, detail);
        }
    }

    fn start(&mut self, aim: &Aim, state: &serde_json::Value) {
        self.belongs(aim, Operation::WakeUp);
        if !self
            .entry(aim)
            .is_some_and(|e| e.live && !e.consumed && e.state == *state)
        {
            let detail = format!("`{}` is not started as recorded", aim.resource);
            self.report(Invariant::RecordedSet, detail);
        }
    }

    /// A plan goes.
    fn goes(&mut self) {
        // Of what goes with its namespace nothing is left that could sleep.
        let kept = self.plan.deletion == Deletion::WakeFirst && !self.seen.namespace_ends;
        let asleep = kept && self.open().is_some_and(|c| self.sleeps(c));
        if !self.seen.deleting || asleep {
            self.report(
                Invariant::NoSilentEdit,
                "the plan would go and leave something asleep",
            );
        }
    }

    /// Does something of this cycle sleep, or may it? What was recorded before there were cycles, and was refused on
    /// waking, was not put to sleep by this plan.
    fn sleeps(&self, cycle: &Cycle) -> bool {
        cycle.operation != Operation::WakeUp
            || cycle.intent.targets.iter().any(|target| {
                let progress = cycle.targets.get(&target.name);
                let (stand, captured) = (progress.map(|p| p.stand), progress.is_some_and(|p| p.captured));
                let point = self.store.load(&target.executor, &target.name);
                match (stand, point) {
                    (Some(Stand::Done), Ok(point)) => {
                        point.is_some_and(|p| p.is_open() && (captured || !p.is_old()))
                    }
                    (Some(Stand::Lost), Ok(Some(point))) => !(point.is_old() && point.is_open()),
                    _ => true,
                }
            })
    }

    fn change(&mut self, next: &State) {
        let before = self.state.clone();
        let was = before.as_ref().and_then(|s| s.open.as_ref());
        if before.as_ref().is_some_and(|s| next.cycle < s.cycle) {
            self.report(Invariant::CycleFirst, "the cycle goes back");
        }
        match (was, &next.open) {
            (Some(a), Some(b)) if a.id != b.id => {
                self.report(Invariant::CycleFirst, "a cycle begins while another is open");
            }
            (Some(a), Some(b)) if !self.is_about_the_same(a, b) => {
                self.report(Invariant::NoSilentEdit, "what an open cycle is about changes");
            }
            (None, Some(b)) => self.begins(before.as_ref(), b),
            (Some(a), None) => self.closes(a),
            (Some(_), Some(_)) | (None, None) => {}
        }
        if before.is_none() {
            self.remembers(next);
        }
        if next.phase == Phase::Active && next.open.is_some() {
            self.report(Invariant::ConsumedWhenDone, "Active, and a cycle is open");
        }
        if matches!(
            next.phase,
            Phase::Hibernating | Phase::Hibernated | Phase::WakingUp
        ) && next.open.is_none()
        {
            self.report(
                Invariant::CycleFirst,
                "asleep or on its way, and no cycle is open",
            );
        }
    }

    /// Nothing about a cycle changes; except that a target that was taken over by a point that could not be read may be
    /// of another executor, if a point of that one was never used or cannot be read either: the declared one is the
    /// target's name, and who put it to sleep is only known by its points.
    fn is_about_the_same(&self, a: &Cycle, b: &Cycle) -> bool {
        let mut then = a.intent.clone();
        for target in &mut then.targets {
            let unread = a.targets.get(&target.name).is_some_and(Progress::is_unread);
            let Some(next) = b.intent.target(&target.name).filter(|_| unread) else {
                continue;
            };
            let point = self.store.load(&next.executor, &next.name);
            if next.executor != target.executor && point.map_or(true, |p| p.is_some_and(|p| p.is_open())) {
                next.clone_into(target);
            }
        }
        then == b.intent
    }

    /// Has another executor a point of this target that may be the one by which it sleeps?
    fn is_doubtful(&self, target: &Target) -> bool {
        let mut points = self.store.targets().into_iter();
        points.any(|(executor, name)| {
            let other = name == target.name && executor != target.executor;
            let point = self.store.load(&executor, &name);
            other && point.map_or(true, |p| p.is_some_and(|p| p.is_open()))
        })
    }

    /// Whoever remembers nothing takes up every point that cannot be read: nobody can say that it was used.
    fn remembers(&mut self, next: &State) {
        let left: Vec<_> = self.store.unreadable().collect();
        for (_, target) in left {
            let taken = next
                .open
                .as_ref()
                .is_some_and(|c| c.intent.target(&target).is_some());
            if !taken {
                let detail = format!("the point of `{target}` cannot be read, and is forgotten");
                self.report(Invariant::ConsumedWhenDone, detail);
            }
        }
    }

    /// A new number only when nothing is left to bring back.
    fn begins(&mut self, before: Option<&State>, cycle: &Cycle) {
        let newest = before
            .map(|s| s.cycle)
            .unwrap_or_default()
            .max(self.store.newest_cycle());
        let left = self.store.points().any(|p| !p.is_old() && p.is_open());
        if cycle.id > newest && left {
            self.report(
                Invariant::CycleFirst,
                "a new cycle begins over points that were never used",
            );
        }
        if cycle.id < newest {
            self.report(Invariant::CycleFirst, "an older cycle is taken up again");
        }
    }

    fn closes(&mut self, cycle: &Cycle) {
        for target in &cycle.intent.targets {
            let progress = cycle.targets.get(&target.name);
            let captured = progress.is_some_and(|p| p.captured);
            let doubtful = progress.is_some_and(Progress::is_unread) && self.is_doubtful(target);
            let left = match self.store.load(&target.executor, &target.name) {
                _ if doubtful => true,
                // What was written before there were cycles is not of this one unless it was taken over.
                Ok(Some(point)) if !captured => point.is_open() && !point.is_old(),
                Ok(Some(point)) => point.is_open() || point.is_incomplete(),
                Ok(None) => captured,
                Err(_) => true,
            };
            if left {
                let detail = format!("closed, and `{}` is not restored", target.name);
                self.report(Invariant::ConsumedWhenDone, detail);
            }
        }
    }

    fn write(&mut self, shard: &Shard) {
        let after = self.store.after(shard);
        let mut owners = self.store.targets();
        owners.extend(after.targets());
        for (executor, target) in owners {
            let before = self.store.load(&executor, &target);
            let then = after.load(&executor, &target);
            let discarded = self.is_discarded(&target, &before);
            match (before, then) {
                _ if discarded => {}
                (Ok(None), Ok(Some(_))) if self.is_recorded(&executor, &target) => {
                    let detail = format!("the point of `{target}` was lost, and another takes its place");
                    self.report(Invariant::NeverDowngraded, detail);
                }
                (Err(_), _) => {
                    let key = Store::key(&executor, &target);
                    let was = self.store.shards().find(|s| s.number == shard.number);
                    if was.and_then(|s| s.data.get(&key)) != shard.data.get(&key) {
                        let detail = format!("the unreadable point of `{target}` is overwritten");
                        self.report(Invariant::NeverDowngraded, detail);
                    }
                }
                (Ok(Some(point)), Ok(Some(next))) => self.compare(&target, &point, &next),
                (Ok(Some(point)), Ok(None) | Err(_)) if point.is_open() => {
                    self.report(
                        Invariant::NeverDowngraded,
                        format!("the point of `{target}` is lost"),
                    );
                }
                (Ok(None), _) | (Ok(Some(_)), Ok(None) | Err(_)) => {}
            }
        }
    }

    /// Did a human give up what is stored? The wish counts for what was captured in its leg or before.
    fn is_discarded(&self, target: &TargetName, stored: &Result<Option<Point>, PointError>) -> bool {
        let Some(cycle) = self.open() else { return false };
        let wish = self.seen.wishes.discard.get(target);
        let captured_in = cycle.targets.get(target).and_then(|p| p.captured_in);
        let leg = match stored {
            Ok(Some(point)) if point.cycle == Some(cycle.id) => point.leg,
            Ok(Some(_)) => 0,
            Ok(None) | Err(_) => captured_in.unwrap_or(cycle.leg),
        };
        wish.is_some_and(|w| w.cycle == cycle.id && (leg..=cycle.leg).contains(&w.leg))
    }

    fn is_recorded(&self, executor: &ExecutorName, target: &TargetName) -> bool {
        let meant = self.open().and_then(|c| c.intent.target(target));
        meant.is_some_and(|t| t.executor == *executor) && self.is_captured(target)
    }

    fn compare(&mut self, target: &TargetName, before: &Point, next: &Point) {
        // As it was read: while it is written, a part of it may be still to come.
        let read = self.read.store.load(&before.executor, target);
        let cut = read.is_ok_and(|p| p.is_some_and(|p| p.is_incomplete()));
        let strange = next.entries.keys().any(|id| !before.entries.contains_key(id));
        if cut && strange && self.is_captured(target) {
            let detail = format!("`{target}` is captured over a part that was lost");
            self.report(Invariant::NeverDowngraded, detail);
        }
        for (id, entry) in before.entries.iter().filter(|(_, e)| !e.consumed) {
            let used = *id == ResourceId::whole() && before.is_old() && !self.is_captured(target);
            let wrong = match next.entries.get(id) {
                None if used => None,
                None => Some("lost"),
                Some(e) if e.consumed => {
                    self.consumed(target, id, entry);
                    None
                }
                Some(e) if entry.live && !e.live => Some("made worse"),
                Some(e) => (entry.live == e.live && entry.state != e.state).then_some("replaced"),
            };
            if let Some(wrong) = wrong {
                self.report(
                    Invariant::NeverDowngraded,
                    format!("`{id}` of `{target}` is {wrong}"),
                );
            }
        }
    }

    fn is_captured(&self, target: &TargetName) -> bool {
        self.open()
            .and_then(|c| c.targets.get(target))
            .is_some_and(|p| p.captured)
    }

    fn consumed(&mut self, target: &TargetName, id: &ResourceId, entry: &Entry) {
        let cycle = self.open().map(|c| (c.id, c.leg, c.operation));
        let waking = matches!(cycle, Some((_, _, Operation::WakeUp)));
        let look = self.seen.targets.get(target).and_then(|l| l.as_ref().ok());
        let gone = look
            .and_then(|l| l.get(id))
            .is_some_and(|r| r.power == Power::Gone);
        let told = |a: &Answer| {
            cycle.is_some_and(|(id, leg, _)| id == a.cycle && leg == a.leg)
                && a.target == *target
                && a.resource == *id
                && a.call == Call::Start
                && a.outcome.is_ok()
        };
        let started = self.seen.answers.iter().any(told);
        if !(waking && (!entry.live || gone || started)) {
            let detail = format!("`{id}` of `{target}` is called restored, and nobody restored it");
            self.report(Invariant::ConsumedWhenDone, detail);
        }
    }
}
