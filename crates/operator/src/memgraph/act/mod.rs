//! Each step one call that changes something. The executor makes no choice: what an outcome means is said by the plan.

pub mod outcome;

mod databases;
mod gateways;
pub(crate) mod marker;
mod objects;
mod statements;
mod waits;

use super::cluster::Cluster;
use super::observe::{Look, Remembered};
use crate::engine::lease::Permit;
use mainstay_core::memgraph::Plan;
use mainstay_core::memgraph::ids::{Ordinal, PodUid, Term};
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::rules::Rule;
use mainstay_core::memgraph::turn::{Outcome, Progress, Turn};
use std::fmt;
use std::time::{Duration, Instant};

/// What is needed to carry out a plan.
pub struct Actor<'a> {
    /// Which cluster.
    pub cluster: &'a Cluster,
    /// What the turn saw; what it writes is noted here.
    pub look: &'a mut Look,
    /// What survives the turn.
    pub remembered: &'a mut Remembered,
    /// The right to act, asked before each step.
    pub permit: &'a Permit,
    /// The user's statements for a new MAIN.
    pub statements: &'a [String],
    /// What a push must carry.
    pub token: Option<&'a str>,
    /// The rule that the plan follows, for the history.
    pub why: Rule,
}

/// One step that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Which, in words.
    pub step: String,
    /// What kind, for the phases of a term.
    pub phase: Option<Phase>,
    /// The term that it began or took over, if it was done.
    pub term: Option<Term>,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// A part of a failover that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Until the new term is in the record.
    Record,
    /// Until the old MAIN is fenced.
    Fence,
    /// Until the new one is promoted and marked.
    Promote,
    /// Until the record serves.
    Open,
}

/// What came of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acted {
    /// The steps, in order.
    pub taken: Vec<Taken>,
    /// Why it ended early, if it did.
    pub ended: Option<String>,
    /// A fence did not come and policy went on without it.
    pub unfenced: bool,
}

impl Acted {
    /// Did the candidate refuse its office? Nobody serves while it does, and whoever holds it up is looked for at once.
    pub fn promotion_refused(&self) -> bool {
        self.taken
            .last()
            .is_some_and(|last| last.phase == Some(Phase::Promote) && last.outcome == Outcome::Refused)
    }
}

impl Actor<'_> {
    /// Carries out a plan, as far as it goes.
    pub async fn carry_out(&mut self, plan: Plan) -> Acted {
        let mut turn = Turn::new(plan);
        let mut acted = Acted::default();
        let mut asked_since: Option<Instant> = None;
        while let Some(step) = turn.step().cloned() {
            // A poll asks for itself, again and again.
            if let Err(refusal) = self.permit.check(self.needs(&step)) {
                acted.ended = Some(format!("{step}: not sent, {refusal}"));
                break;
            }
            let began = Instant::now();
            let tap = self.cluster.settings.tap.clone();
            let outcome = tap.around(&step, Box::pin(self.perform(&step, &mut acted))).await;
            tracing::info!(cluster = %self.cluster.name, %step, ?outcome, "step");
            let again = outcome == Outcome::Refused && turn.remaining().len() > 0;
            acted.taken.push(Taken {
                step: step.to_string(),
                phase: phase(&step),
                term: begun(&step),
                outcome,
                took: began.elapsed(),
            });
            let before = turn.remaining().len();
            match turn.on(outcome) {
                Progress::Finished => break,
                Progress::Ended => {
                    // A step that can say more has said it.
                    acted.ended.get_or_insert_with(|| format!("{step}: {outcome:?}"));
                    break;
                }
                // The same step again: it was refused and is asked until a deadline.
                Progress::GoOn if again && turn.remaining().len() == before && turn.step() == Some(&step) => {
                    let since = *asked_since.get_or_insert(began);
                    if since.elapsed() >= self.cluster.settings.retry {
                        acted.ended = Some(format!("{step}: refused for {:?}", since.elapsed()));
                        break;
                    }
                    acted.taken.pop();
                    tokio::time::sleep(self.cluster.settings.poll).await;
                }
                Progress::GoOn => asked_since = None,
            }
        }
        acted
    }

    /// Deletes a pod that is to be made anew from the new template.
    pub async fn restart(&mut self, pod: Ordinal, uid: PodUid) -> Taken {
        let began = Instant::now();
        let outcome = match self.permit.check(self.cluster.settings.call) {
            Ok(()) => {
                let tap = &self.cluster.settings.tap;
                tap.around("restart", self.delete(pod, uid, None)).await
            }
            Err(_) => Outcome::Refused,
        };
        tracing::info!(cluster = %self.cluster.name, %pod, ?outcome, "restarted for the new template");
        Taken {
            step: format!("{pod}: delete pod, its template changed"),
            phase: None,
            term: None,
            outcome,
            took: began.elapsed(),
        }
    }

    /// How long a step may take at most.
    fn needs(&self, step: &Step) -> Duration {
        let settings = &self.cluster.settings;
        match step {
            Step::CreateRecord(_)
            | Step::WriteRecord(_)
            | Step::Scale(_)
            | Step::DeletePod { .. }
            | Step::EndProcess { .. } => settings.call,
            Step::PushRecord(_) => settings.poll * 10,
            Step::AwaitFence { .. } | Step::AwaitGateways(..) => settings.probe + settings.call,
            // Each asks the lease for itself.
            Step::RunOnPromotion(_) => settings.probe,
            Step::Demote(_)
            | Step::Promote(_)
            | Step::AdvanceMark { .. }
            | Step::Register { .. }
            | Step::Drop { .. }
            | Step::WriteProof { .. }
            | Step::ReadProof { .. }
            | Step::WriteMarker { .. } => settings.command + settings.probe,
        }
    }

    /// One of several calls of a step: an operator can die between them too.
    async fn one_of<T>(&self, what: impl fmt::Display + Send, call: impl Future<Output = T> + Send) -> T {
        self.cluster.settings.tap.around(what, call).await
    }

    async fn perform(&mut self, step: &Step, acted: &mut Acted) -> Outcome {
        match step {
            Step::CreateRecord(record) => self.create_record(record).await,
            Step::WriteRecord(record) => self.write_record(record).await,
            Step::Demote(target) => self.demote(*target).await,
            Step::Promote(target) => self.promote(*target).await,
            Step::PushRecord(revision) => self.push(*revision).await,
            Step::AwaitFence { .. } | Step::AwaitGateways(..) => self.wait_for(step, acted).await,
            Step::AdvanceMark { on, from, to } => self.advance_mark(*on, *from, *to).await,
            Step::RunOnPromotion(target) => self.run_statements(*target, &mut acted.ended).await,
            Step::Register { on, name, mode, peer } => self.register(*on, *name, *mode, *peer).await,
            Step::Drop { on, name } => self.drop_replica(*on, *name).await,
            Step::WriteProof { on, proof } => self.write_proof(*on, *proof).await,
            Step::ReadProof { on, proof } => self.read_proof(*on, *proof).await,
            // API only, and nothing has to be in the image: SIGTERM takes no snapshot (a flag says so), and the
            // kubelet kills what does not end within a second.
            Step::EndProcess { target, uid } => self.end_process(step, *target, *uid).await,
            Step::WriteMarker { target, id, term } => self.write_marker(*target, *id, *term).await,
            Step::DeletePod { target, uid } => self.delete_to_reset(step, *target, *uid).await,
            Step::Scale(replicas) => self.scale(*replicas).await,
        }
    }
}

fn begun(step: &Step) -> Option<Term> {
    match step {
        Step::CreateRecord(record) => Some(record.term),
        Step::WriteRecord(record) if record.candidate.is_some() => Some(record.term),
        _ => None,
    }
}

fn phase(step: &Step) -> Option<Phase> {
    use mainstay_core::memgraph::record::State;
    match step {
        Step::WriteRecord(record) if record.state == State::Serving => Some(Phase::Open),
        Step::CreateRecord(_) | Step::WriteRecord(_) => Some(Phase::Record),
        Step::PushRecord(_) | Step::Demote(_) | Step::AwaitFence { .. } | Step::AwaitGateways(..) => {
            Some(Phase::Fence)
        }
        Step::Promote(_) | Step::AdvanceMark { .. } | Step::RunOnPromotion(_) => Some(Phase::Promote),
        Step::Register { .. }
        | Step::Drop { .. }
        | Step::WriteProof { .. }
        | Step::ReadProof { .. }
        | Step::EndProcess { .. }
        | Step::WriteMarker { .. }
        | Step::DeletePod { .. }
        | Step::Scale(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(phase: Phase, outcome: Outcome) -> Taken {
        Taken {
            step: String::new(),
            phase: Some(phase),
            term: None,
            outcome,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn a_promotion_is_refused_only_if_the_turn_ended_with_that() {
        let refused = |taken: &[Taken]| {
            let acted = Acted {
                taken: taken.to_vec(),
                ..Acted::default()
            };
            acted.promotion_refused()
        };
        let fence = taken(Phase::Fence, Outcome::Done);
        assert!(refused(&[fence.clone(), taken(Phase::Promote, Outcome::Refused)]));
        assert!(!refused(&[]));
        assert!(!refused(&[
            fence.clone(),
            taken(Phase::Promote, Outcome::Unknown)
        ]));
        assert!(!refused(&[fence, taken(Phase::Fence, Outcome::Refused)]));
    }
}
