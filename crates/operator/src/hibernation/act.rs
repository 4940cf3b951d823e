//! The steps of a decision, one after the other; calls to executors several at once.

use super::executor::{Place, refusal};
use super::stored::Maps;
use crate::call::{CallError, bounded};
use crate::engine::lease::Permit;
use api::HibernatePlan as Object;
use api::hibernation::wishes::SUSPENDED_AT_PHASE;
use api::hibernation::{FINALIZER, HibernatePlanStatus};
use futures::future::join_all;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use mainstay_core::hibernation::observed::{Answer, Observed, Refusal, Severity};
use mainstay_core::hibernation::state::State;
use mainstay_core::hibernation::step::Step;
use mainstay_core::hibernation::{Decision, Turn};
use serde_json::{Value, json};
use tokio::time::Instant;

/// A step that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Which.
    pub step: String,
    /// Is it a write of restore data?
    pub stores: bool,
    /// What went wrong.
    pub refused: Option<String>,
}

/// What came of a decision.
#[derive(Clone, Debug, Default)]
pub(super) struct Acted {
    /// What was done.
    pub taken: Vec<Taken>,
    /// For the next turn.
    pub answers: Vec<Answer>,
    /// A write that failed: what follows was not done.
    pub ended: Option<String>,
    /// The plan may go, and is not ours any more.
    pub gone: bool,
}

/// Carries out the decision of one turn.
pub(super) struct Actor<'a> {
    pub(super) place: &'a Place,
    /// With the only version that may be written over.
    pub(super) object: &'a mut Object,
    pub(super) maps: &'a mut Maps,
    pub(super) state: &'a mut Option<State>,
    pub(super) permit: &'a Permit,
    /// What the status says when this is remembered.
    pub(super) status: &'a (dyn Fn(&Object, Option<&State>) -> HibernatePlanStatus + Send + Sync),
}

impl Actor<'_> {
    /// One step after the other, until one fails that others rest on. The decision was made about this.
    pub(super) async fn carry_out(&mut self, decision: Decision, seen: &Observed) -> Acted {
        let mut turn = Turn::new(decision, seen);
        let mut acted = Acted::default();
        let began = Instant::now();
        while let Some(step) = turn.step().cloned() {
            if step.is_call() {
                let mut calls = turn.calls();
                calls.truncate(self.place.settings.at_once.max(1));
                let outcomes = self.call(&calls).await;
                for (step, outcome) in calls.iter().zip(outcomes) {
                    acted.note(step, outcome.as_ref().err());
                    turn.on(outcome);
                }
                if began.elapsed() > self.place.settings.patience {
                    // What is left is seen to run, or not, by the next turn, and called then.
                    break;
                }
                continue;
            }
            let outcome = self.write(&step).await;
            acted.note(&step, outcome.as_ref().err());
            if let Err(refusal) = &outcome {
                acted.ended = Some(format!("{}: {}", step.on_failure(), refusal.message));
            }
            acted.gone |= outcome.is_ok() && step == Step::RemoveFinalizer;
            turn.on(outcome);
        }
        acted.answers = turn.answers();
        acted
    }

    fn may(&self) -> Result<(), Refusal> {
        let permitted = self.permit.check(self.place.settings.call);
        permitted.map_err(|why| Refusal {
            message: why.to_string(),
            severity: Severity::Changed,
        })
    }

    async fn call(&self, calls: &[Step]) -> Vec<Result<(), Refusal>> {
        let mut running = Vec::with_capacity(calls.len());
        for step in calls {
            running.push(self.one(step));
        }
        join_all(running).await
    }

    async fn one(&self, step: &Step) -> Result<(), Refusal> {
        let (Step::Stop(aim) | Step::Start { aim, .. }) = step else {
            return Ok(());
        };
        let executor = self.place.settings.executors.get(&aim.executor)?;
        self.may()?;
        let place = self.place;
        let call = match step {
            Step::Start { state, .. } => executor.start(place, aim, state),
            _ => executor.stop(place, aim),
        };
        let what = match step {
            Step::Start { .. } => "start",
            _ => "stop",
        };
        let tap = &place.settings.tap;
        tap.around(format!("{what} {}", aim.resource), call).await
    }

    async fn write(&mut self, step: &Step) -> Result<(), Refusal> {
        self.may()?;
        let tap = self.place.settings.tap.clone();
        let done = match step {
            Step::AddFinalizer => tap.around("add the finalizer", self.finalizers(true)).await,
            Step::RemoveFinalizer => tap.around("remove the finalizer", self.finalizers(false)).await,
            Step::SetSuspendedAt(phase) => {
                let value = phase.map(|phase| phase.to_string());
                let body = json!({ "annotations": { SUSPENDED_AT_PHASE: value } });
                tap.around("annotate the plan", self.metadata(body)).await
            }
            Step::WriteShard { shard, purpose } => {
                let what = format!("write ConfigMap {} ({purpose:?})", shard.number);
                tap.around(what, self.maps.write(self.place, shard)).await
            }
            Step::WriteState(state) => tap.around("write the state", self.remember(state)).await,
            Step::Stop(_) | Step::Start { .. } => Ok(()),
        };
        done.map_err(|error| refusal(&error))
    }

    fn api(&self) -> Api<Object> {
        Api::namespaced(self.place.client.clone(), &self.place.namespace)
    }

    async fn finalizers(&mut self, with: bool) -> Result<(), CallError> {
        let mut all: Vec<String> = self.object.finalizers().to_vec();
        all.retain(|f| f != FINALIZER);
        if with {
            all.push(FINALIZER.to_owned());
        }
        self.metadata(json!({ "finalizers": all })).await
    }

    /// Changes what is said about the plan, over the version that was read.
    async fn metadata(&mut self, mut change: Value) -> Result<(), CallError> {
        if let Value::Object(change) = &mut change {
            let version = json!(self.object.metadata.resource_version);
            change.insert("resourceVersion".to_owned(), version);
        }
        let (name, params) = (self.object.name_any(), PatchParams::default());
        let body = Patch::Merge(json!({ "metadata": change }));
        let api = self.api();
        let call = api.patch(&name, &params, &body);
        *self.object = bounded(self.place.settings.call, call).await?;
        Ok(())
    }

    /// Writes down what is remembered, and what people see of it, in one write over the version that was read.
    async fn remember(&mut self, state: &State) -> Result<(), CallError> {
        let mut next = self.object.clone();
        next.status = Some((self.status)(self.object, Some(state)));
        let (name, params) = (next.name_any(), PostParams::default());
        let api = self.api();
        let call = api.replace_status(&name, &params, &next);
        *self.object = bounded(self.place.settings.call, call).await?;
        *self.state = Some(state.clone());
        Ok(())
    }
}

impl Acted {
    fn note(&mut self, step: &Step, refused: Option<&Refusal>) {
        if let Some(refusal) = refused {
            tracing::warn!(%step, message = refusal.message, "{}", step.on_failure());
        } else {
            tracing::info!(%step, "done");
        }
        self.taken.push(Taken {
            step: step.to_string(),
            stores: matches!(step, Step::WriteShard { .. }),
            refused: refused.map(|r| r.message.clone()),
        });
    }
}
