//! Each step one call that changes something. The executor makes no choice: what an outcome means is said by the plan.

pub mod outcome;

mod databases;
mod gateways;
pub(crate) mod marker;
mod objects;
mod statements;
mod waits;

use super::cluster::{Cluster, Settings};
use super::observe::{Look, Remembered};
use crate::engine::lease::Permit;
use mainstay_core::memgraph::Plan;
use mainstay_core::memgraph::ids::{Ordinal, PodUid, Term};
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::rules::Rule;
use mainstay_core::memgraph::turn::{Outcome, Progress, Turn};
use std::fmt;
use std::time::{Duration, Instant};
use tokio::time::timeout;

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
            if let Err(refusal) = self.permit.check(needs(&step, &self.cluster.settings)) {
                acted.ended = Some(format!("{step}: not sent, {refusal}"));
                break;
            }
            let began = Instant::now();
            let tap = self.cluster.settings.tap.clone();
            let outcome = tap.around(&step, Box::pin(self.in_time(&step, &mut acted))).await;
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

    /// Makes a step. A database is reached, asked who it is, and told: together that has the time which the lease was asked
    /// for, and no more. What is cut off then was not answered.
    async fn in_time(&mut self, step: &Step, acted: &mut Acted) -> Outcome {
        let limit = limit(step, &self.cluster.settings);
        let performed = self.perform(step, acted);
        match limit {
            Some(limit) => timeout(limit, performed).await.unwrap_or(Outcome::Unknown),
            None => performed.await,
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

/// For how long the lease must last when a step begins.
fn needs(step: &Step, settings: &Settings) -> Duration {
    match step {
        Step::CreateRecord(_) | Step::WriteRecord(_) | Step::Scale(_) | Step::DeletePod { .. } => {
            settings.call
        }
        Step::PushRecord(_) => settings.poll * 10,
        Step::AwaitFence { .. } | Step::AwaitGateways(..) => settings.probe + settings.call,
        // Each statement asks the lease for itself.
        Step::RunOnPromotion(_) => settings.probe,
        // They look at the pod first, and ask the lease again after that.
        Step::EndProcess { .. } => settings.call,
        Step::WriteMarker { .. } => settings.command,
        Step::Demote(_)
        | Step::Promote(_)
        | Step::AdvanceMark { .. }
        | Step::Register { .. }
        | Step::Drop { .. }
        | Step::WriteProof { .. }
        | Step::ReadProof { .. } => settings.command + settings.probe,
    }
}

/// When a step is cut off. Not the sum of what each of its calls may take: that is more than is left of a lease between
/// two slow renewals, and nothing would be done then. `None` if only one call changes something, which is bounded by
/// itself and has the lease asked right before it. A push ends by itself too: cut off, a gateway that is gone would end
/// the turn.
fn limit(step: &Step, settings: &Settings) -> Option<Duration> {
    match step {
        Step::Demote(_)
        | Step::Promote(_)
        | Step::AdvanceMark { .. }
        | Step::Register { .. }
        | Step::Drop { .. }
        | Step::WriteProof { .. }
        | Step::ReadProof { .. } => Some(needs(step, settings)),
        Step::CreateRecord(_)
        | Step::WriteRecord(_)
        | Step::Scale(_)
        | Step::DeletePod { .. }
        | Step::EndProcess { .. }
        | Step::WriteMarker { .. }
        | Step::PushRecord(_)
        | Step::AwaitFence { .. }
        | Step::AwaitGateways(..)
        | Step::RunOnPromotion(_) => None,
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
    use crate::clock::Clock;
    use crate::memgraph::pods::Workload;
    use crate::memgraph::stored::Stored;
    use crate::scripted;
    use bolt::message::Auth;
    use mainstay_core::lease::LeaseTiming;
    use mainstay_core::memgraph::ids::{ProcessId, ProofId, ResetId};
    use mainstay_core::memgraph::objects::BOLT_PORT;
    use mainstay_core::memgraph::observed::{Memory, Observed, Wishes};
    use mainstay_core::memgraph::plan::{OnRefusal, Planned, Target};
    use mainstay_core::memgraph::spec::{FenceTimeout, Spec};
    use mainstay_core::time::Time;
    use serde_json::json;
    use std::sync::{Arc, Mutex};
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    const X: Target = Target {
        pod: Ordinal(1),
        process: ProcessId(7),
    };

    #[test]
    fn every_step_may_begin_right_after_a_renewal_however_long_that_took() {
        let settings = Settings::default();
        let timing = LeaseTiming::default();
        let left = timing.renew_deadline().saturating_sub(timing.request_timeout());
        let fence = Step::AwaitFence {
            old: X,
            start_fence: true,
            term: Term(1),
            otherwise: FenceTimeout::Wait,
        };
        let marker = Step::WriteMarker {
            target: X,
            id: ResetId(1),
            term: Term(1),
        };
        let proof = Step::WriteProof {
            on: X,
            proof: ProofId(1),
        };
        let ended = Step::EndProcess {
            target: X,
            uid: PodUid(1),
        };
        for step in [fence, marker, proof, ended, Step::Promote(X), Step::Scale(3)] {
            assert!(needs(&step, &settings) < left, "{step}");
        }
    }

    /// A step of an operator that took the lease so long ago and never renews it, with an API that takes `slow` for each
    /// request and has one pod: X. What was asked of the API but reads.
    async fn carried_out(
        settings: Settings,
        (age, slow): (Duration, Duration),
        step: Step,
    ) -> (Acted, Vec<http::Method>) {
        let written: Arc<Mutex<Vec<http::Method>>> = Arc::default();
        let client = scripted::client({
            let written = written.clone();
            move |asked| {
                if asked.method != http::Method::GET {
                    written.lock().unwrap().push(asked.method);
                }
                async move {
                    tokio::time::sleep(slow).await;
                    if asked.path.ends_with("/pods") {
                        return (
                            200,
                            json!({ "apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [pod()] }),
                        );
                    }
                    (
                        200,
                        json!({
                            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "memgraph-ha" },
                            "spec": { "selector": {}, "serviceName": "", "template": {} },
                        }),
                    )
                }
            }
        });
        let cluster = Cluster {
            name: "memgraph-ha".parse().unwrap(),
            namespace: "db".to_owned(),
            client,
            settings: Arc::new(settings),
            auth: Auth::None,
            memgraph: None,
        };
        let observed = Observed {
            read_at: Time(1),
            turn: 1,
            spec: Spec::default(),
            pods: vec![],
            gateways: vec![],
            wishes: Wishes::default(),
            memory: Memory::default(),
        };
        let mut look = Look {
            stored: Stored::default(),
            workload: Workload::read(&cluster).await.unwrap(),
            gateways: vec![],
            observed,
        };
        let permit = Permit::once(Clock::starting_at(Time(1_000_000)));
        tokio::time::sleep(age).await;
        let mut actor = Actor {
            cluster: &cluster,
            look: &mut look,
            remembered: &mut Remembered::default(),
            permit: &permit,
            statements: &[],
            token: None,
            why: Rule::Settle,
        };
        let steps = vec![Planned {
            step,
            on_refusal: OnRefusal::End,
        }];
        let acted = actor
            .carry_out(Plan {
                steps,
                ..Plan::default()
            })
            .await;
        let written = written.lock().unwrap().clone();
        (acted, written)
    }

    fn pod() -> serde_json::Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "memgraph-ha-1", "uid": format!("{}", PodUid(1)) },
            "spec": { "containers": [] },
            "status": { "podIP": MUTE, "containerStatuses": [{
                "name": "memgraph", "containerID": format!("{}", X.process), "image": "", "imageID": "",
                "ready": true, "restartCount": 0, "state": { "running": {} },
            }] },
        })
    }

    /// Nobody else's.
    const MUTE: &str = "127.213.7.9";

    #[tokio::test(start_paused = true)]
    async fn what_a_step_looks_at_first_may_outlast_the_lease_and_then_nothing_is_done() {
        let ended = |slow| {
            let step = Step::EndProcess {
                target: X,
                uid: PodUid(1),
            };
            carried_out(Settings::default(), (Duration::from_secs(5), slow), step)
        };
        let (acted, written) = ended(Duration::from_millis(10)).await;
        assert_eq!(written, [http::Method::DELETE], "{acted:?}");
        let (acted, written) = ended(Duration::from_secs(2)).await;
        assert!(written.is_empty(), "{acted:?}");
        assert_eq!(acted.taken[0].outcome, Outcome::Unknown);
    }

    #[tokio::test]
    async fn a_command_ends_in_the_time_that_the_lease_was_asked_for_however_long_its_parts_may_take() {
        let listener = TcpListener::bind((MUTE, BOLT_PORT)).await.unwrap();
        tokio::spawn(async move {
            // One byte of a handshake, and nothing more: it is there, and logs nobody in.
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(&[0]).await.unwrap();
            std::future::pending::<()>().await;
        });
        let settings = Settings {
            login: Duration::from_mins(1),
            command: Duration::from_millis(100),
            ..Settings::default()
        };
        let most = needs(&Step::Promote(X), &settings);
        let (acted, _) = carried_out(settings, (Duration::ZERO, Duration::ZERO), Step::Promote(X)).await;
        let promoted = &acted.taken[0];
        assert_eq!(promoted.outcome, Outcome::Unknown);
        assert!(promoted.took < most * 10, "{:?}", promoted.took);
    }

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
