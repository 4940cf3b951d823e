//! One turn: observe, decide, check, act, report.

use super::act::{Acted, Actor};
use super::attended::rolls_out;
use super::cluster::{Cluster, RingSettings};
use super::objects::{Pods, carry_over, objects};
use super::observe::{Memory, ObserveError, observe, read};
use super::report::{Reporter, Told};
use crate::apply::ApplyError;
use crate::call::{CallError, bounded, existing};
use crate::clock::wall;
use crate::engine::keeper::{Keeper, Turned};
use crate::engine::lease::Permit;
use api::RingCluster;
use api::ring::BadRing;
use kube::{Api, Client, ResourceExt};
use mainstay_core::ring::ledger::Stage;
use mainstay_core::ring::observed::Wishes;
use mainstay_core::ring::sleeping::running;
use mainstay_core::ring::{decide, invariants};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Why a turn came to nothing. Nothing was changed.
#[derive(Debug, Error)]
pub enum TurnError {
    /// The object could not be read.
    #[error("the ring's object could not be read: {0}")]
    Object(#[source] CallError),
    /// It has no uid that can be read.
    #[error("the ring's object has no uid")]
    NoUid,
    /// Its spec cannot be followed.
    #[error("spec: {0}")]
    Spec(#[from] BadRing),
    /// The objects of the ring could not be made.
    #[error("{0}")]
    Resources(#[from] ApplyError),
    /// It could not look.
    #[error(transparent)]
    Observe(#[from] ObserveError),
}

/// How often the objects are looked at although nothing changed.
const ENSURE_EVERY: Duration = Duration::from_secs(30);

/// One ring and what its operator remembers of it.
pub struct RingKeeper {
    client: Client,
    namespace: String,
    name: String,
    settings: Arc<RingSettings>,
    memory: Memory,
    reporter: Reporter,
    ensured: Option<Ensured>,
}

/// The objects as they were last looked at.
struct Ensured {
    generation: Option<i64>,
    pods: Pods,
    at: Instant,
}

impl Keeper for RingKeeper {
    type Told = Told;
    type Error = TurnError;

    /// An error is reported in the status too, if there is one to write.
    async fn turn(&mut self, permit: &Permit) -> Result<Turned<Told>, TurnError> {
        let api: Api<RingCluster> = Api::namespaced(self.client.clone(), &self.namespace);
        let object =
            existing(bounded(self.settings.call, api.get(&self.name)).await).map_err(TurnError::Object)?;
        let Some(object) = object.filter(|o| o.metadata.deletion_timestamp.is_none()) else {
            return Ok(Turned {
                again: self.settings.interval,
                told: None,
            });
        };
        let turned = Box::pin(self.turn_of(&object, permit)).await;
        let told = match &turned {
            Ok(told) => told.clone(),
            Err(error) => Told::failed(error),
        };
        self.reporter
            .report(&api, &object, &told, permit, &self.settings)
            .await;
        let told = turned?;
        Ok(Turned {
            again: self.again(&told),
            told: Some(told),
        })
    }
}

impl RingKeeper {
    /// Nothing is known yet.
    pub fn new(client: Client, namespace: &str, name: &str, settings: Arc<RingSettings>) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            settings,
            memory: Memory::default(),
            reporter: Reporter::default(),
            ensured: None,
        }
    }

    async fn turn_of(&mut self, object: &RingCluster, permit: &Permit) -> Result<Told, TurnError> {
        let uid = object.uid().and_then(|uid| uid.parse().ok());
        let cluster = Cluster {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            uid: uid.ok_or(TurnError::NoUid)?,
            attends: object.spec.attends.clone(),
            client: self.client.clone(),
            settings: Arc::clone(&self.settings),
        };
        let spec = object.spec.parse(&self.name, self.settings.timing)?;
        let wishes = Wishes {
            hibernated: object.spec.hibernated,
            paused_until: object.spec.paused_until()?,
            rollout: match &object.spec.attends {
                Some(attended) => rolls_out(&cluster, attended).await.map_err(ObserveError::from)?,
                // A new template is rolled out by people, one pod at a time.
                None => false,
            },
        };
        let read = read(&cluster).await?;
        let ours = read.ledger.as_ref().filter(|l| l.cluster == cluster.uid);
        let pods = Pods {
            running: running(ours, &wishes),
            known: ours
                .map(|l| l.known.keys().cloned().collect())
                .unwrap_or_default(),
        };
        // Where scylla-operator runs the pods, all objects are its own.
        if cluster.attends.is_none() {
            self.ensure(&cluster, object, pods, permit).await?;
        }
        let mut look = observe(&cluster, read, spec, wishes, &mut self.memory).await?;
        let now = wall();
        let plan = decide(look.ledger.as_ref(), &look.observed, now);
        let violations = invariants::check(look.ledger.as_ref(), &look.observed, &plan, now);
        let acted = if violations.is_empty() {
            let mut actor = Actor {
                cluster: &cluster,
                object,
                look: &mut look,
                permit,
            };
            actor.carry_out(&plan).await
        } else {
            for violation in &violations {
                tracing::error!(ring = %cluster.name, %violation, "a plan that breaks an invariant is refused");
            }
            Acted::default()
        };
        Ok(Told {
            ledger: look.ledger,
            observed: Some(look.observed),
            plan,
            acted,
            violations: violations.iter().map(ToString::to_string).collect(),
            nodes_unseen: self.memory.gone.is_forbidden(),
            error: None,
            at: wall(),
        })
    }

    async fn ensure(
        &mut self,
        cluster: &Cluster,
        object: &RingCluster,
        pods: Pods,
        permit: &Permit,
    ) -> Result<(), TurnError> {
        let generation = object.metadata.generation;
        // Also with who is known: a member that leaves keeps its rights until it has left.
        let same = |e: &Ensured| e.generation == generation && e.pods == pods;
        if self
            .ensured
            .as_ref()
            .is_some_and(|e| same(e) && e.at.elapsed() < ENSURE_EVERY)
        {
            return Ok(());
        }
        let desk = cluster.desk(permit);
        for owned in objects(object, &self.settings, &pods) {
            desk.apply(owned, carry_over).await?;
        }
        self.ensured = Some(Ensured {
            generation,
            pods,
            at: Instant::now(),
        });
        Ok(())
    }

    /// Something is under way: look again soon.
    fn again(&self, told: &Told) -> Duration {
        let RingSettings {
            interval,
            busy_interval,
            ..
        } = *self.settings;
        let works = told.ledger.as_ref().is_none_or(|l| l.work.is_some());
        let asleep = told.ledger.as_ref().and_then(|l| l.sleep);
        let turning = asleep.is_some_and(|s| !matches!(s.stage, Stage::Stopped | Stage::Woken));
        let busy = works || turning || !told.plan.steps.is_empty() || !told.plan.findings.is_empty();
        let wait = if busy { busy_interval } else { interval };
        let until = told.plan.wake.map(|wake| wake.since(wall()));
        until.map_or(wait, |until| until.clamp(busy_interval.min(wait), wait))
    }
}
