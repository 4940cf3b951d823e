//! One turn: observe, decide, check, act, report.

use super::act::{Acted, Actor};
use super::cluster::{Cluster, Settings};
use super::footing::{Declared, Footing, Setback};
use super::observe::{Given, Look, ObserveError, Remembered, observe};
use super::report::{self, Place, Told, resets};
use super::stored::{ReadRecordError, Stored};
use super::volumes::Volumes;
use crate::call::{CallError, bounded, existing};
use crate::clock::wall;
use crate::engine;
use crate::engine::keeper::Turned;
use crate::engine::lease::Permit;
use api::memgraph::wishes::Asked;
use api::memgraph::{MemgraphCluster, MemgraphClusterStatus};
use kube::{Api, Client, ResourceExt};
use mainstay_core::memgraph::document::Document;
use mainstay_core::memgraph::ids::{Ordinal, Pods, Term};
use mainstay_core::memgraph::invariants;
use mainstay_core::memgraph::objects::{ClusterName, NotAClusterName};
use mainstay_core::memgraph::observed::{Memory, Observed, Role, Wishes};
use mainstay_core::memgraph::quarantine::{self, Keep};
use mainstay_core::memgraph::record::State;
use mainstay_core::memgraph::rolling::{self, Rolling};
use mainstay_core::memgraph::rules::{Rule, Rules};
use mainstay_core::memgraph::spec::Spec;
use mainstay_core::memgraph::{Plan, Record, decide};
use mainstay_core::time::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Why a turn came to nothing. Nothing was changed.
#[derive(Debug, Error)]
pub enum TurnError {
    /// The object could not be read.
    #[error("the cluster's object could not be read: {0}")]
    Object(#[source] CallError),
    /// Its name cannot be one.
    #[error(transparent)]
    Name(#[from] NotAClusterName),
    /// Something that was declared is not so, and there is no cluster yet to look after.
    #[error("{0}")]
    Setbacks(String),
    /// The Secret with the credentials cannot be used.
    #[error("the Secret `{name}` cannot be used: {why}")]
    Secret {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
    /// It could not read the record.
    #[error(transparent)]
    Record(#[from] ReadRecordError),
    /// It could not look at the rest.
    #[error(transparent)]
    Observe(#[from] ObserveError),
}

/// One cluster and what its operator remembers of it.
pub struct Keeper {
    client: Client,
    namespace: String,
    name: String,
    settings: Arc<Settings>,
    remembered: Remembered,
    restored: bool,
    footing: Footing,
    /// Turns that came to nothing since the last one that did not; one that is cut off counts too.
    failed: u32,
    reporter: report::Reporter,
    volumes: Volumes,
}

impl engine::keeper::Keeper for Keeper {
    type Told = Told;
    type Error = TurnError;

    /// An error is reported in the status too, if there is one to write.
    async fn turn(&mut self, permit: &Permit) -> Result<Turned<Told>, TurnError> {
        let api: Api<MemgraphCluster> = Api::namespaced(self.client.clone(), &self.namespace);
        let object =
            existing(bounded(self.settings.call, api.get(&self.name)).await).map_err(TurnError::Object)?;
        let Some(object) = object.filter(|o| o.metadata.deletion_timestamp.is_none()) else {
            return Ok(Turned {
                again: self.settings.interval * 10,
                told: None,
            });
        };
        self.failed = self.failed.saturating_add(1);
        let turned = Box::pin(self.turn_of(&object, permit)).await;
        let told = match &turned {
            Ok(told) => {
                self.failed = 0;
                told.clone()
            }
            Err(error) => Told::failed(error, self.failed),
        };
        self.reporter
            .report(&api, &object, &told, &self.remembered, permit, &self.settings)
            .await;
        let told = turned?;
        Ok(Turned {
            again: self.again(&told),
            told: Some(told),
        })
    }
}

impl Keeper {
    /// Nothing is known yet.
    pub fn new(client: Client, namespace: &str, name: &str, settings: Arc<Settings>) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            settings,
            remembered: Remembered::default(),
            restored: false,
            footing: Footing::default(),
            failed: 0,
            reporter: report::Reporter::default(),
            volumes: Volumes::default(),
        }
    }

    async fn turn_of(&mut self, object: &MemgraphCluster, permit: &Permit) -> Result<Told, TurnError> {
        let (cluster, unusable) = self.cluster(object).await?;
        let Declared {
            spec,
            paused_until,
            mut setbacks,
        } = self.footing.declared(object, cluster.settings.rules);
        let followed = setbacks.is_empty();
        let status = object.status.clone().unwrap_or_default();
        if !self.restored {
            self.remembered.processes.restore(&status.processes);
            self.restored = true;
        }
        let asked = Asked::read(object.annotations());
        let given = given(object, &status, &asked, spec, paused_until);
        setbacks.extend(unusable);
        let stored = Stored::read(&cluster).await;
        if has_no_main(&stored) {
            // It begins, or wakes up, as it is declared now.
            self.footing.ensure(&cluster, object, permit, followed).await;
        }
        let (token, mut look) = Box::pin(self.look(&cluster, stored?, &given)).await?;
        if look.stored.document.is_none() {
            // Nothing to look after yet: a cluster begins as it is declared, or not at all.
            let all = [setbacks.as_slice(), self.footing.refused()].concat();
            if !all.is_empty() {
                return Err(TurnError::Setbacks(said(&all)));
            }
        }
        let now = wall();
        let record = look.stored.document.as_ref().map(|d| d.record.clone());
        let rolling = rolling::next(record.as_ref(), &look.observed, now, &look.workload.outdated());
        look.observed.wishes.switchover = look
            .observed
            .wishes
            .switchover
            .or_else(|| drained(record.as_ref(), &look.observed))
            .or(match rolling {
                Some(Rolling::Move { to }) => Some(to),
                _ => None,
            });
        let calm = calm(record.as_ref(), &look.observed);
        let purging = asked.purge.is_some_and(|(pod, id)| self.volumes.has(pod, id));
        let busy = purging || record.as_ref().is_some_and(|r| r.reset.is_some());
        if calm && self.volumes.due(busy) {
            self.volumes.ask(&cluster, &look.workload, token.as_deref()).await;
        }
        let main = record.as_ref().and_then(|r| r.main.as_ref()).map(|m| m.pod);
        look.observed.memory.crowded = self.volumes.crowded(main);
        let plan = decide(record.as_ref(), &look.observed, now);
        resets::announce(&cluster.name, &plan);
        let violations = match spec.rules {
            Rules::ALL => invariants::check(record.as_ref(), &look.observed, &plan, now),
            // Whoever switched a rule off wants to see what comes of it.
            _ => Vec::new(),
        };
        let acted = if violations.is_empty() {
            let mut actor = Actor {
                cluster: &cluster,
                look: &mut look,
                remembered: &mut self.remembered,
                permit,
                statements: &object.spec.on_promotion,
                token: token.as_deref(),
                why: plan.reasons.first().map_or(Rule::Complete, |reason| reason.rule),
            };
            let mut acted = actor.carry_out(plan.clone()).await;
            if let (Some(Rolling::Restart { pod, uid }), true) = (rolling, plan.steps.is_empty()) {
                acted.taken.push(actor.restart(pod, uid).await);
            }
            acted
        } else {
            for violation in &violations {
                tracing::error!(cluster = %cluster.name, %violation, "a plan that breaks an invariant is refused");
            }
            Acted::default()
        };
        if calm && plan.steps.is_empty() {
            let keep = Keep {
                purge: asked.purge,
                copies: usize::from(object.spec.hard_reset.keep),
            };
            self.keep_house(&cluster, &look, record.as_ref(), keep, token.as_deref())
                .await;
        }
        let calm = calm && plan.steps.is_empty() && acted.taken.is_empty();
        self.footing
            .ensure_some(&cluster, object, permit, followed, calm)
            .await;
        setbacks.extend_from_slice(self.footing.refused());
        let quarantines = self.volumes.quarantines(&cluster);
        let mut told = Self::told(&cluster, plan, look, acted, &violations, &asked.unread);
        told.quarantines = quarantines;
        told.reads = object.spec.gateway.read_policy();
        told.setbacks = setbacks;
        if let Some(Rolling::Wait(why)) = rolling {
            told.notes
                .push(format!("the restart for a new template waits: {why}"));
        }
        Ok(told)
    }

    /// The token does not wait for what is seen, nor the other way round.
    async fn look(
        &mut self,
        cluster: &Cluster,
        stored: Stored,
        given: &Given,
    ) -> Result<(Option<String>, Look), TurnError> {
        let (token, look) = tokio::join!(
            self.footing.token(cluster),
            observe(cluster, stored, *given, &mut self.remembered)
        );
        Ok((token, look?))
    }

    /// Deletes what was set aside and is not to be kept.
    async fn keep_house(
        &mut self,
        cluster: &Cluster,
        look: &Look,
        record: Option<&Record>,
        keep: Keep,
        token: Option<&str>,
    ) {
        let next = quarantine::next(record, &look.observed, self.volumes.known(), keep);
        let Some((pod, purge)) = next else { return };
        let Some(seen) = look.workload.pod(pod) else {
            return;
        };
        let pod_name = cluster.name.pod(pod);
        let ids: Vec<u64> = purge.ids.iter().map(|id| id.0).collect();
        let tap = &cluster.settings.tap;
        let done = tap
            .around("purge", self.volumes.purge(cluster, seen, &purge, token))
            .await;
        match done {
            Ok(()) => tracing::info!(pod_name, ?ids, "data that was set aside is deleted"),
            Err(error) => tracing::warn!(pod_name, ?ids, %error, "data that was set aside was not deleted"),
        }
    }

    fn told(
        cluster: &Cluster,
        plan: Plan,
        look: Look,
        acted: Acted,
        violations: &[invariants::Violation],
        unread: &[&'static str],
    ) -> Told {
        let mut notes: Vec<String> = look.stored.warning.iter().cloned().collect();
        notes.extend(
            unread
                .iter()
                .map(|name| format!("the annotation `{name}` cannot be read and is ignored")),
        );
        let places = look.workload.pods.iter().map(|pod| {
            let ip = pod.ip.map(|ip| ip.to_string());
            let replication = cluster.replica_address(pod.ordinal, ip.as_deref());
            (pod.ordinal, Place { ip, replication })
        });
        let now = wall();
        let silent = look.gateways.iter().filter(|gateway| gateway.is_silent(now));
        Told {
            cluster: cluster.name.to_string(),
            places: places.collect(),
            gateways: Some(look.gateways.len()),
            silent_gateways: silent.map(|gateway| gateway.lease.clone()).collect(),
            document: look.stored.document.clone(),
            observed: Some(look.observed),
            plan,
            acted,
            quarantines: BTreeMap::new(),
            reads: None,
            setbacks: Vec::new(),
            failed: 0,
            violations: violations.iter().map(ToString::to_string).collect(),
            notes,
            error: None,
            at: now,
        }
    }

    async fn cluster(&mut self, object: &MemgraphCluster) -> Result<(Cluster, Option<Setback>), TurnError> {
        let name: ClusterName = self.name.parse()?;
        let from = object.spec.credentials.as_ref();
        let (auth, setback) = self
            .footing
            .auth(&self.client, &self.namespace, &self.settings, from)
            .await?;
        let cluster = Cluster {
            name,
            namespace: self.namespace.clone(),
            client: self.client.clone(),
            settings: Arc::clone(&self.settings),
            auth,
            memgraph: object.spec.memgraph(),
        };
        Ok((cluster, setback))
    }

    /// Something is under way or was seen changing: look again soon.
    fn again(&self, told: &Told) -> Duration {
        let Settings {
            interval,
            busy_interval,
            poll,
            ..
        } = *self.settings;
        let busy = !told.acted.taken.is_empty()
            || self.remembered.processes.unsettled()
            || self
                .remembered
                .contacts
                .pods
                .values()
                .any(super::contacts::PodMemory::is_missing);
        let wait = match busy {
            _ if told.acted.promotion_refused() && is_young(told.document.as_ref()) => poll,
            true => busy_interval,
            false => interval,
        };
        let until = told.plan.wake.map(|wake| wake.since(wall()));
        until.map_or(wait, |until| until.clamp(busy_interval.min(wait), wait))
    }
}

/// Did the term begin a moment ago? One that is held up for longer waits for something that takes its time.
fn is_young(document: Option<&Document>) -> bool {
    document.is_some_and(|d| wall().since(d.record.since) < Duration::from_secs(5))
}

/// What a turn knows before it looks.
fn given(
    object: &MemgraphCluster,
    status: &MemgraphClusterStatus,
    asked: &Asked,
    spec: Spec,
    paused_until: Option<Time>,
) -> Given {
    Given {
        spec,
        wishes: Wishes {
            switchover: asked.switchover,
            override_main: asked.override_main,
            approve_reset: asked.approve_reset,
            reset: asked.reset,
            hibernated: object.spec.hibernated,
            paused_until,
        },
        memory: Memory {
            status_term: status.term.map(Term),
            resets_last_hour: resets::last_hour(&status.resets, wall()),
            crowded: Pods::default(),
        },
    }
}

/// Is there no MAIN that could fail while the objects are seen to? Not if the record was merely not said.
fn has_no_main(stored: &Result<Stored, ReadRecordError>) -> bool {
    match stored {
        Ok(stored) => stored
            .document
            .as_ref()
            .is_none_or(|document| document.record.state == State::Hibernated),
        // A person has to see to the record: nothing is decided until then.
        Err(ReadRecordError::Document(_)) => true,
        Err(ReadRecordError::Call(_)) => false,
    }
}

fn said(setbacks: &[Setback]) -> String {
    let all: Vec<&str> = setbacks.iter().map(|setback| setback.message.as_str()).collect();
    all.join("; ")
}

/// MAIN serves and answers: there is time to ask for what is not urgent.
fn calm(record: Option<&Record>, seen: &Observed) -> bool {
    let main = record
        .filter(|r| r.state == State::Serving)
        .and_then(|r| r.main.as_ref());
    main.and_then(|main| seen.answer(main.pod))
        .is_some_and(|a| a.role == Role::Main)
}

/// MAIN's pod is being deleted and MAIN still answers: its partner is to take over while nothing is lost by it.
fn drained(record: Option<&Record>, seen: &Observed) -> Option<Ordinal> {
    let main = record
        .filter(|r| r.state == State::Serving)
        .and_then(|r| r.main.as_ref())?;
    let leaving = seen.object(main.pod).is_some_and(|o| o.terminating);
    let serves = seen.answer(main.pod).is_some_and(|a| a.role == Role::Main);
    main.pod.partner().filter(|_| leaving && serves)
}

#[cfg(test)]
mod tests;
