//! One form for all states that differ in nothing that can ever matter.
//!
//! Each step here is invisible to everybody else and cannot be undone by anybody else, so taking it at once
//! hides no behaviour: a turn that can only be refused ends, a wait that is over and stays over is passed,
//! numbers that only have to be distinct or ordered are renumbered.

use super::action::Action;
use super::calls::commanded;
use super::config::Config;
use super::few::Few;
use super::state::{Hashed, State};
use crate::memgraph::instance::{DatabaseId, EpochId, IdVisitor, MainId, Ts};
use mainstay_core::memgraph::ids::{ProcessId, ProofId, RegistrationName, Revision, Term};
use mainstay_core::memgraph::plan::{OnRefusal, Planned, Step, Target};
use mainstay_core::memgraph::turn::{Fate, Outcome};
use mainstay_core::memgraph::{Record, Rule};
use mainstay_core::time::Time;

impl State {
    /// Brings the state into its canonical form.
    pub fn canonical(&mut self, config: &Config) {
        self.tidy(config);
        if config.sort_operators {
            self.sort_operators();
        }
    }

    fn sort_operators(&mut self) {
        match self.operators.as_mut_slice() {
            [] | [_] => {}
            [a, b] => {
                if super::fingerprint::of(a) > super::fingerprint::of(b) {
                    std::mem::swap(a, b);
                }
            }
            more => more.sort_by_cached_key(super::fingerprint::of),
        }
    }

    /// The canonical form, but for the order of the operators.
    fn tidy(&mut self, config: &Config) {
        for op in 0..self.operators.len() {
            self.fast_forward(config, u8::try_from(op).unwrap_or(u8::MAX));
        }
        self.clear_dead_fields();
        for op in 0..self.operators.len() {
            self.foresee(config, op);
        }
        // Only what is left of the turns can ask for anything.
        self.forget();
        if config.rules().on(Rule::R36) {
            self.drop_harmless_commands();
        }
        self.renumber();
        self.forget_versions();
        self.pods.iter_mut().for_each(super::Shared::seal);
        if config.renumbers() {
            self.renumber_what_grows();
        }
        self.outstanding.sort_unstable();
    }

    /// The trace of a search with the operators' numbers kept: for the search they have none, and `op0` is whoever
    /// comes first in the order of the moment.
    pub fn with_fixed_operators(config: &Config, trace: &[Action]) -> Vec<Action> {
        let mut state = Self::first(config);
        state.tidy(config);
        let mut names: Vec<u8> = (0..config.operators).collect();
        let mut fixed = Vec::with_capacity(trace.len());
        for action in trace {
            fixed.push(action.of_operator(|op| names.get(usize::from(op)).copied().unwrap_or(op)));
            state.apply(config, *action, false);
            state.tidy(config);
            let mut ranked: Vec<_> = state.operators.drain(..).zip(names).collect();
            if config.sort_operators {
                ranked.sort_by_cached_key(|(operator, _)| super::fingerprint::of(operator));
            }
            (state.operators, names) = ranked.into_iter().unzip();
        }
        fixed
    }

    /// Passes waits that are over for good, and ends turns that can only be refused.
    fn fast_forward(&mut self, config: &Config, op: u8) {
        while let Some(outcome) = self.foregone(config, op) {
            self.advance(op, outcome);
        }
    }

    /// The outcome of the current step, if nothing can change it any more and it has no effect.
    fn foregone(&self, config: &Config, op: u8) -> Option<Outcome> {
        let operator = self.operators.get(usize::from(op))?;
        let turn = operator.turn.as_ref()?;
        let first = turn.remaining().next()?;
        let stale = config.rules().on(Rule::R9) && operator.version != self.version;
        if stale && is_doomed(turn.remaining()) {
            return Some(Outcome::Unknown);
        }
        match turn.step()? {
            Step::PushRecord(_) | Step::RunOnPromotion(_) => Some(Outcome::Done),
            Step::AwaitGateways(term, revision) => self.all_read(*term, *revision).then_some(Outcome::Done),
            Step::AwaitFence {
                old,
                start_fence,
                term,
                ..
            } => {
                let dead = *start_fence && self.running(old.process).is_none();
                (dead || self.all_in(*term)).then_some(Outcome::Done)
            }
            step => {
                let target = addressee(step)?;
                let gone = config.rules().on(Rule::R36) && self.running(target.process).is_none();
                let retried = first.on_refusal == OnRefusal::Retry;
                gone.then_some(if retried {
                    Outcome::Unknown
                } else {
                    Outcome::Refused
                })
            }
        }
    }

    fn all_read(&self, term: Term, revision: Revision) -> bool {
        self.gateways
            .iter()
            .all(|g| (g.gate.term(), g.gate.revision()) >= (term, revision))
    }

    fn all_in(&self, term: Term) -> bool {
        self.gateways.iter().all(|g| g.gate.term() >= term)
    }

    /// What nobody can ask for any more.
    fn forget(&mut self) {
        let running: Vec<_> = self
            .operators
            .iter()
            .flat_map(|o| &o.refused)
            .map(|r| (r.by, r.of))
            .collect();
        let gone: Vec<_> = running
            .into_iter()
            .filter(|(by, of)| self.running(*by).is_none() || self.running(*of).is_none())
            .collect();
        let serving = self.record.as_ref().and_then(|r| r.main.as_ref()).map(|m| m.term);
        for operator in &mut self.operators {
            // Only `Error: 3` of the term that serves is ever asked for.
            let asked = |r: &super::state::Remembered| r.code == 3 && Some(r.term) >= serving;
            operator
                .refused
                .retain(|r| !gone.contains(&(r.by, r.of)) && asked(r));
            if operator.turn.is_none() {
                operator.scale = 0;
                operator.unfenced = false;
            }
        }
        let awaited = |p: &Planned| matches!(p.step, Step::ReadProof { .. });
        let turns = || self.operators.iter().filter_map(|o| o.turn.as_ref());
        if !turns().any(|t| t.remaining().any(awaited)) {
            for pod in &mut self.pods {
                if pod.db.store().proof != ProofId(0) {
                    pod.db.edit_store(|data| data.proof = ProofId(0));
                }
            }
        }
    }

    /// What is said of processes that are gone: nobody asks whether they were seen, or are loose.
    fn clear_dead_fields(&mut self) {
        let moves = self.budget.switchovers > 0;
        let Some(record) = &self.record else { return };
        if let Some(cleared) = self.cleared(record, moves) {
            self.record = Some(Hashed::new(cleared));
        }
    }

    fn cleared(&self, record: &Record, moves: bool) -> Option<Record> {
        let gone = |p: &ProcessId| self.running(*p).is_none();
        let peers = record.main.iter().flat_map(|m| &m.peers);
        let all = peers.chain(record.candidate.iter().flat_map(|c| &c.peers));
        let dead = all.chain(record.loose.iter().map(|l| &l.process)).any(gone);
        // Nobody asks for a move any more, so nobody is kept from it.
        let paced = record.moved_at != Time::ZERO && !moves;
        (dead || paced).then(|| {
            let mut next = record.clone();
            if let Some(main) = &mut next.main {
                main.peers.retain(|p| !gone(p));
            }
            if let Some(candidate) = &mut next.candidate {
                candidate.peers.retain(|p| !gone(p));
            }
            next.loose.retain(|l| !gone(&l.process));
            if paced {
                next.moved_at = Time::ZERO;
            }
            next
        })
    }

    /// Cuts off what a turn can never do, and clears what it would write as if it were written.
    fn foresee(&mut self, config: &Config, op: usize) {
        let Some(operator) = self.operators.get(op) else {
            return;
        };
        let Some(turn) = &operator.turn else { return };
        let stale = config.rules().on(Rule::R9) && operator.version != self.version;
        let moves = self.budget.switchovers > 0;
        let known_process = config.rules().on(Rule::R36);
        let fate = |step: &Step| match step {
            Step::WriteRecord(_) | Step::CreateRecord(_) if stale => Fate::Refused,
            Step::WriteRecord(record) => match self.cleared(record, moves) {
                Some(cleared) => Fate::Becomes(Step::WriteRecord(Box::new(cleared))),
                None => Fate::Open,
            },
            step => match addressee(step) {
                Some(on) if known_process && self.running(on.process).is_none() => Fate::Refused,
                _ => Fate::Open,
            },
        };
        let foreseen = turn.foreseen(fate);
        if let (Some(operator), Some(turn)) = (self.operators.get_mut(op), foreseen) {
            let over = turn.step().is_none();
            operator.turn = (!over).then(|| Hashed::new(turn));
        }
    }

    /// A late command to a process that is gone, or for a name that is retired and not there, hits nothing.
    fn drop_harmless_commands(&mut self) {
        let generation = self.record.as_ref().map_or(0, |r| r.generation.0);
        let outstanding = std::mem::take(&mut self.outstanding);
        self.outstanding = outstanding
            .into_iter()
            .filter(|step| {
                let Some(target) = addressee(step) else {
                    return true;
                };
                let retired = match step {
                    Step::Drop {
                        name: name @ RegistrationName::Strict(_, g),
                        ..
                    } => g.0 < generation && !self.registered(target.pod.0, *name),
                    _ => false,
                };
                self.running(target.process).is_some() && !retired
            })
            .collect();
    }

    /// A turn may write the record as it is now, or it may not: nobody asks for more of a version.
    fn forget_versions(&mut self) {
        let now = self.version;
        self.version = 1;
        for operator in &mut self.operators {
            operator.version = u64::from(operator.turn.is_some() && operator.version == now);
        }
    }

    fn renumber(&mut self) {
        if self.pods.iter().all(super::Shared::is_sealed) {
            // As it was left by the last time.
            return;
        }
        let mut renumber = Renumber {
            collect: true,
            ..Renumber::default()
        };
        renumber.stamps.place(Ts::ZERO.0);
        for pod in &mut self.pods {
            pod.db.visit_ids(&mut renumber);
        }
        renumber.stamps.sort();
        renumber.collect = false;
        for pod in &mut self.pods {
            pod.db.visit_ids(&mut renumber);
        }
        let used = renumber.mains.len().max(renumber.epochs.len());
        self.next_id = u32::try_from(used).unwrap_or(u32::MAX - 1) + 1;
    }

    /// The fingerprint: like the hash of the state without its budget, but a gateway's age counts only as far as anybody asks.
    pub fn fingerprint(&self) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut hasher = super::fingerprint::hasher();
        let Self {
            pods,
            record,
            version: _,
            status_term,
            gateways,
            operators,
            outstanding,
            cut,
            acked,
            next_write,
            next_id: _,
            asleep,
            scale,
            overriding,
            chosen,
            budget: _,
            last_write: _,
            begun: _,
            written: _,
        } = self;
        (pods, record, status_term, operators).hash(&mut hasher);
        (
            outstanding,
            cut,
            acked,
            next_write,
            asleep,
            scale,
            overriding,
            chosen,
        )
            .hash(&mut hasher);
        let (term, revision) = self.asked_of_gateways();
        for gateway in gateways {
            let super::state::Gateway { gate, session } = gateway;
            if *next_write >= self.last_write {
                // Nobody will write again: who is connected where cannot matter.
                (gate.term() >= term, gate.revision() >= revision).hash(&mut hasher);
                continue;
            }
            let age = (
                if gate.term() < term { Term(0) } else { gate.term() },
                if gate.revision() < revision {
                    Revision(0)
                } else {
                    gate.revision()
                },
            );
            (age, gate.route(), session).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The lowest term and revision that anybody may still ask a gateway to have confirmed.
    fn asked_of_gateways(&self) -> (Term, Revision) {
        let now = self
            .record
            .as_ref()
            .map_or((Term(0), Revision(0)), |r| (r.term, r.revision));
        let turns = self.operators.iter().filter_map(|o| o.turn.as_ref());
        turns
            .flat_map(|t| t.remaining())
            .fold(now, |(term, revision), planned| match planned.step {
                Step::AwaitFence { term: t, .. } => (term.min(t), revision),
                Step::AwaitGateways(t, r) => (term.min(t), revision.min(r)),
                _ => (term, revision),
            })
    }
}

/// Nothing happens before a write of the record that must fail.
fn is_doomed<'a>(steps: impl Iterator<Item = &'a Planned>) -> bool {
    for planned in steps {
        match planned.step {
            Step::WriteRecord(_) | Step::CreateRecord(_) => return true,
            Step::PushRecord(_)
            | Step::AwaitFence { .. }
            | Step::AwaitGateways(..)
            | Step::RunOnPromotion(_)
            | Step::ReadProof { .. } => {}
            _ => return false,
        }
    }
    false
}

/// The process a command is meant for, if it is meant for one alone.
fn addressee(step: &Step) -> Option<Target> {
    match step {
        Step::EndProcess { target, .. } => Some(*target),
        other => commanded(other),
    }
}

/// Renumbers what only has to be distinct, so that states which differ in nothing else are one.
#[derive(Debug, Default)]
struct Renumber {
    mains: Few,
    epochs: Few,
    stamps: Few,
    collect: bool,
}

impl IdVisitor for Renumber {
    fn main(&mut self, id: &mut MainId) {
        if !self.collect {
            *id = MainId(self.mains.place(id.0) + 1);
        }
    }

    fn database(&mut self, _id: &mut DatabaseId) {}

    fn epoch(&mut self, id: &mut EpochId) {
        if !self.collect {
            *id = EpochId(self.epochs.place(id.0) + 1);
        }
    }

    fn ts(&mut self, ts: &mut Ts) {
        // While they are collected, only that it is there matters; when they are given, all are there, in order.
        let place = self.stamps.place(ts.0);
        if !self.collect {
            *ts = Ts(place);
        }
    }
}
