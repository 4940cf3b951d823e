//! One operation, down or up, as far as it can go in this turn. What a target needs is decided by `falling_asleep` and
//! `waking`; who gets a turn, what a failure means and in which order things are written is decided here.

use super::discard;
use super::ids::{ResourceId, TargetName};
use super::observed::{Call, Look, Severity};
use super::order::Order;
use super::plan::{Mode, Target};
use super::point::{Point, PointError};
use super::reason::Why;
use super::retry;
use super::several::Several;
use super::state::{Cycle, Operation, Phase, Progress, Stand, State};
use super::step::{Aim, Decision, Purpose, Step};
use super::store::Store;
use super::view::{DRIFT_LOOK, LOOK, View, blocked, edited, failed, running, sound};
use super::watch::Watch;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// What a target can do in this turn.
pub(super) enum Outcome {
    /// It is on its way.
    GoesOn,
    /// It is there.
    Done,
    /// Its restore point is missing or cannot be read.
    Lost(Why),
    /// It failed; a permanent failure is not tried again.
    Failed {
        /// What went wrong.
        why: Why,
        /// Trying again is pointless.
        permanent: bool,
    },
}

/// The turn of an operation, while it is put together.
pub(super) struct Work<'a> {
    pub(super) view: View<'a>,
    state: &'a State,
    pub(super) cycle: Cycle,
    pub(super) store: Store,
    calls: Vec<Step>,
    /// What slept already and is stopped again.
    stops: Vec<Step>,
    pub(super) reasons: Vec<Why>,
    wake: Option<Time>,
    /// What was given up in this turn. Nothing else is done with it before that is durable.
    discarded: BTreeSet<TargetName>,
    /// Nothing may be saved any more by whoever still works for the night.
    fenced: bool,
}

impl<'a> Work<'a> {
    pub(super) fn new(view: View<'a>, state: &'a State, cycle: &Cycle) -> Self {
        Self {
            view,
            state,
            cycle: cycle.clone(),
            store: view.store().clone(),
            calls: Vec::new(),
            stops: Vec::new(),
            reasons: Vec::new(),
            wake: None,
            discarded: BTreeSet::new(),
            fenced: false,
        }
    }

    /// Gives everybody their turn.
    pub(super) fn run(mut self, one: fn(&mut Self, &Target) -> Outcome) -> Decision {
        self.discard();
        self.refused();
        let granted = self.try_again();
        let order = Order::for_operation(&self.cycle.intent, self.cycle.operation);
        for name in order.listed() {
            let Some(target) = self.cycle.intent.target(name).cloned() else {
                continue;
            };
            if !self.discarded.contains(name) && self.may_work(&order, &target) {
                let outcome = one(&mut self, &target);
                self.settle(&target, outcome);
            }
        }
        self.watch();
        self.assemble(granted)
    }

    /// Those whose turn it is not are looked at, too: whatever is wrong with them is wrong now.
    fn watch(&mut self) {
        let down = self.cycle.operation == Operation::Shutdown;
        for target in self.cycle.intent.targets.clone() {
            if self.discarded.contains(&target.name) {
                continue;
            }
            let stand = self.progress(&target.name).stand;
            let given_up = self.is_given_up(&target.name);
            let mut watch = Watch {
                view: self.view,
                cycle: &mut self.cycle,
                store: &mut self.store,
                reasons: &mut self.reasons,
                stops: &mut self.stops,
            };
            match stand {
                Stand::Done if down => {
                    watch.asleep(&target);
                    self.look_again(self.view.now + DRIFT_LOOK);
                }
                Stand::Done | Stand::Pending | Stand::Failed { .. } if !given_up => {
                    watch.point(&target);
                }
                // What is lost says so itself, and what runs is told by its turn.
                Stand::Done | Stand::Pending | Stand::Failed { .. } | Stand::Lost | Stand::Running { .. } => {
                }
            }
        }
        if down {
            let edited = edited(&self.view, &self.cycle);
            self.reasons.extend(edited);
        }
    }

    pub(super) fn say(&mut self, why: Why) {
        self.reasons.push(why);
    }

    pub(super) fn look_again(&mut self, at: Time) {
        self.wake = Some(self.wake.map_or(at, |w| w.min(at)));
    }

    /// Whoever still works for the night and is about to save something finds every ConfigMap changed: what it would save
    /// is of a night that is over, and would be brought back over whatever people have made of it since.
    pub(super) fn fence(&mut self) {
        self.fenced = true;
    }

    pub(super) fn progress(&mut self, name: &TargetName) -> &mut Progress {
        self.cycle
            .targets
            .entry(name.clone())
            .or_insert_with(Progress::fresh)
    }

    /// The point as it will be after what this turn has decided so far.
    pub(super) fn point(&self, target: &Target) -> Result<Option<Point>, PointError> {
        self.store.load(&target.executor, &target.name)
    }

    /// What was seen of a target; otherwise what that means for its turn.
    pub(super) fn looked(&mut self, name: &TargetName) -> Result<&'a Look, Outcome> {
        let target = name.clone();
        match self.view.look(name) {
            None => {
                self.say(Why::NotLooked { target });
                Err(Outcome::GoesOn)
            }
            Some(Err(refusal)) => {
                let why = refusal.message.clone();
                Err(Outcome::Failed {
                    why: Why::LookFailed { target, why },
                    permanent: refusal.is_permanent(),
                })
            }
            Some(Ok(look)) => Ok(look),
        }
    }

    pub(super) fn call(&mut self, target: &Target, resource: &ResourceId, start: Option<serde_json::Value>) {
        let look = self.view.look(&target.name).and_then(|l| l.as_ref().ok());
        let aim = Aim::at(&self.cycle, target, resource, look);
        self.calls.push(match start {
            Some(state) => Step::Start { aim, state },
            None => Step::Stop(aim),
        });
    }

    /// Restore points that a human gave up.
    fn discard(&mut self) {
        for target in discard::honour(&self.view, &mut self.cycle, &mut self.store) {
            let again = self.progress(&target).again();
            *self.progress(&target) = again;
            self.discarded.insert(target.clone());
            self.say(Why::Discarded { target });
        }
        // Whoever gave it up may have died before the plan could say so: what failed of it must not hold up the others.
        let targets = self.cycle.intent.targets.iter().map(|t| t.name.clone());
        let given_up: Vec<TargetName> = targets.filter(|name| self.is_given_up(name)).collect();
        for name in given_up {
            let progress = self.progress(&name);
            if matches!(progress.stand, Stand::Failed { .. } | Stand::Lost) {
                *progress = progress.again();
            }
        }
    }

    /// Did a human give it up in this leg?
    pub(super) fn is_given_up(&self, target: &TargetName) -> bool {
        discard::is_given_up(&self.view, &self.cycle, target)
    }

    /// Calls of the last turn that did not work.
    fn refused(&mut self) {
        let call = match self.cycle.operation {
            Operation::Shutdown => Call::Stop,
            Operation::WakeUp => Call::Start,
        };
        let (cycle, leg) = (self.cycle.id, self.cycle.leg);
        // Several resources of a target may fail in one turn, most of them for one reason: that is one failure.
        let mut refused: BTreeMap<(TargetName, String), (bool, Vec<ResourceId>)> = BTreeMap::new();
        for answer in self
            .view
            .seen
            .answers
            .iter()
            .filter(|a| a.call == call && a.cycle == cycle && a.leg == leg)
        {
            let Err(refusal) = &answer.outcome else { continue };
            if refusal.severity == Severity::Changed {
                continue;
            }
            let of = (answer.target.clone(), refusal.message.clone());
            let (permanent, ids) = refused.entry(of).or_default();
            *permanent |= refusal.is_permanent();
            ids.push(answer.resource.clone());
        }
        for ((name, why), (permanent, ids)) in refused {
            let Some(target) = self.cycle.intent.target(&name).cloned() else {
                continue;
            };
            let whole = call == Call::Start && permanent && ids.contains(&ResourceId::whole());
            let runs = matches!(self.progress(&name).stand, Stand::Running { .. });
            let resources = Several::new(ids);
            let target_name = name.clone();
            if whole && runs {
                // Nobody will ever replay it, and the others need not wait for that.
                let why = Why::RestorePointOld { target: name, why };
                self.settle(&target, Outcome::Lost(why));
                continue;
            }
            let why = Why::CallFailed {
                target: target_name,
                resources,
                why,
            };
            if runs {
                self.settle(&target, Outcome::Failed { why, permanent });
            } else {
                self.say(why);
            }
        }
    }

    /// What is due is tried again, and everything if somebody asked for it.
    fn try_again(&mut self) -> Option<String> {
        let wish = self.view.seen.wishes.retry.clone();
        let granted = wish.filter(|w| self.state.retried.as_ref() != Some(w));
        let now = self.view.now;
        let (sound, old) = (self.sound(), self.old());
        for (name, progress) in &mut self.cycle.targets {
            match progress.stand {
                Stand::Failed { .. } if granted.is_some() => *progress = progress.again(),
                Stand::Failed { retry_at: Some(at) } if retry::is_due(at, now) => {
                    progress.stand = Stand::Pending;
                }
                // Nothing about it gets better by itself: it was whole before.
                Stand::Lost if old.contains(name) && granted.is_none() => {}
                // Somebody repaired it.
                Stand::Lost if sound.contains(name) => *progress = progress.again(),
                Stand::Pending | Stand::Running { .. } | Stand::Done | Stand::Lost | Stand::Failed { .. } => {
                }
            }
        }
        if granted.is_some() {
            self.say(Why::RetryAsked);
        }
        granted
    }

    /// Targets of whose restore point nothing is missed. One that was not captured has nothing to lose: whoever deletes
    /// what cannot be read of an earlier night has repaired it.
    fn sound(&self) -> BTreeSet<TargetName> {
        let is_sound = |target: &&Target| {
            let captured = self.cycle.targets.get(&target.name).is_some_and(|p| p.captured);
            sound(&self.store, target, captured).is_ok()
        };
        let targets = self.cycle.intent.targets.iter();
        targets.filter(is_sound).map(|t| t.name.clone()).collect()
    }

    /// Targets whose restore point was written before there were resources in it, and still has to be replayed.
    fn old(&self) -> BTreeSet<TargetName> {
        let old = |target: &&Target| matches!(self.point(target), Ok(Some(p)) if p.is_old() && p.is_open());
        let targets = self.cycle.intent.targets.iter();
        targets.filter(old).map(|t| t.name.clone()).collect()
    }

    /// Is it its turn?
    fn may_work(&mut self, order: &Order, target: &Target) -> bool {
        let name = &target.name;
        match self.progress(name).stand {
            Stand::Running { .. } => return true,
            Stand::Done | Stand::Lost | Stand::Failed { .. } => return false,
            Stand::Pending => {}
        }
        let done = |cycle: &Cycle, other: &TargetName| {
            cycle
                .targets
                .get(other)
                .is_some_and(|p| matches!(p.stand, Stand::Done | Stand::Lost))
        };
        let awaited = order
            .waits_for(name)
            .find(|other| !done(&self.cycle, other))
            .cloned();
        if let Some(other) = awaited {
            let by = self.cycle.targets.get(&other).map(|p| p.stand);
            if matches!(by, Some(Stand::Failed { .. })) {
                let target = name.clone();
                self.say(Why::Blocked { target, by: other });
            }
            return false;
        }
        let strict = self.cycle.intent.behaviour.mode == Mode::Strict;
        let broken = failed(&self.cycle).any(|(_, p)| p.stand != Stand::Lost);
        if strict && broken {
            let target = name.clone();
            self.say(Why::HeldBack { target });
            return false;
        }
        if !order.has_room(name, &running(&self.cycle)) {
            return false;
        }
        let since = self.view.now;
        self.progress(name).stand = Stand::Running { since };
        true
    }

    fn settle(&mut self, target: &Target, outcome: Outcome) {
        let (now, jitter) = (self.view.now, self.view.seen.jitter);
        let (operation, retries) = (self.cycle.operation, self.cycle.intent.behaviour.retries);
        let name = target.name.clone();
        let Stand::Running { since } = self.progress(&name).stand else {
            return;
        };
        let outcome = match outcome {
            Outcome::GoesOn if now.since(since) > target.ready_within => Outcome::Failed {
                why: Why::GateTimedOut {
                    target: name.clone(),
                    minutes: target.ready_within.as_secs() / 60,
                },
                permanent: false,
            },
            other => other,
        };
        match outcome {
            Outcome::GoesOn => {
                self.look_again((since + target.ready_within).min(now + LOOK).max(now));
            }
            Outcome::Done => {
                let progress = self.progress(&name);
                progress.stand = Stand::Done;
                progress.message = None;
            }
            Outcome::Lost(why) => {
                let progress = self.progress(&name);
                progress.stand = Stand::Lost;
                progress.message = Some(why.to_string());
                self.say(why);
            }
            Outcome::Failed { why, permanent } => {
                let progress = self.progress(&name);
                progress.attempts = progress.attempts.saturating_add(1);
                let attempts = progress.attempts;
                let retry_at = retry::again(operation, attempts, retries, permanent, jitter, now);
                progress.stand = Stand::Failed { retry_at };
                progress.message = Some(why.to_string());
                self.say(why);
                self.say(if retry_at.is_some() {
                    Why::RetryLater {
                        target: name,
                        attempts,
                    }
                } else {
                    Why::GivenUp {
                        target: name,
                        attempts,
                    }
                });
            }
        }
    }

    /// Points first, then the status, then the calls: a call is only made when everything it rests on is durable.
    fn assemble(mut self, granted: Option<String>) -> Decision {
        // A target that failed in this turn makes no further calls in it.
        let alive: BTreeSet<TargetName> = running(&self.cycle);
        self.calls.retain(|call| match call {
            Step::Stop(aim) | Step::Start { aim, .. } => alive.contains(&aim.target),
            _ => true,
        });
        let purpose = match self.cycle.operation {
            _ if !self.discarded.is_empty() => Purpose::Discard,
            Operation::Shutdown => Purpose::Save,
            Operation::WakeUp => Purpose::MarkRestored,
        };
        let mut decision = Decision {
            watched: true,
            ..Decision::default()
        };
        let next = self.next_state(granted);
        let read = self.view.store();
        if self.cycle.operation == Operation::WakeUp {
            let all = self.fenced || next.open.is_none();
            self.store = self.store.woken_in(self.cycle.leg_id(), read, all);
        }
        for shard in self.store.changed_from(read) {
            let shard = Box::new(shard);
            decision = decision.then(Step::WriteShard { shard, purpose });
        }
        if next != *self.state {
            decision = decision.then(Step::WriteState(Box::new(next)));
        }
        for (_, progress) in failed(&self.cycle) {
            if let Stand::Failed { retry_at: Some(at) } = progress.stand {
                decision = decision.wake_at(at);
            }
        }
        for (name, progress) in failed(&self.cycle) {
            if let Some(why) = progress.message.clone() {
                let target = name.clone();
                self.reasons.push(Why::Failed { target, why });
            }
        }
        decision.steps.extend(self.calls);
        decision.steps.extend(self.stops);
        decision.reasons = self.reasons;
        decision.wake_at(self.wake)
    }

    fn next_state(&mut self, granted: Option<String>) -> State {
        let now = self.view.now;
        let (phase, over) = self.phase();
        let mut next = self.state.with(self.cycle.clone()).in_phase(phase, now);
        if over {
            next = next.closed(now);
        }
        if granted.is_some() {
            next.retried = granted;
        }
        next
    }

    /// Where the plan stands after this turn, and whether the cycle is closed.
    fn phase(&mut self) -> (Phase, bool) {
        let (operation, id) = (self.cycle.operation, self.cycle.id);
        let blocked = blocked(&self.cycle);
        let over = |name: &TargetName, p: &Progress| match p.stand {
            Stand::Done | Stand::Lost | Stand::Failed { retry_at: None } => true,
            Stand::Pending => blocked.contains_key(name),
            Stand::Running { .. } | Stand::Failed { retry_at: Some(_) } => false,
        };
        let all_over = self.cycle.targets.iter().all(|(n, p)| over(n, p));
        let failures: Vec<String> = failed(&self.cycle).map(|(n, _)| n.to_string()).collect();
        let broken = failed(&self.cycle).any(|(_, p)| p.stand != Stand::Lost);
        let strict = self.cycle.intent.behaviour.mode == Mode::Strict;
        match operation {
            Operation::Shutdown if all_over && failures.is_empty() => {
                self.say(Why::Hibernated { cycle: id });
                (Phase::Hibernated, false)
            }
            Operation::Shutdown if all_over && !strict => {
                let failed = failures.join(", ");
                self.say(Why::Partial { cycle: id, failed });
                (Phase::Hibernated, false)
            }
            Operation::WakeUp if all_over && failures.is_empty() => {
                self.say(Why::AllRestored { cycle: id });
                (Phase::Active, true)
            }
            _ if !failures.is_empty()
                && (all_over || (broken && strict && running(&self.cycle).is_empty())) =>
            {
                (Phase::Error, false)
            }
            // Nothing runs and only retries are awaited: that is an error for people, too.
            _ if !failures.is_empty() && self.idle() => (Phase::Error, false),
            _ => (operation.phase(), false),
        }
    }

    fn idle(&self) -> bool {
        self.calls.is_empty() && running(&self.cycle).is_empty()
    }
}
