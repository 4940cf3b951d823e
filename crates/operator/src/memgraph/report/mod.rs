//! What people see: the same reasons in status, conditions, Events and over HTTP.

mod events;
pub mod resets;
mod status;

pub use status::status;

use super::act::{Acted, Phase};
use super::cluster::Settings;
use super::keeper::TurnError;
use super::observe::Remembered;
use crate::call::bounded;
use crate::clock::wall;
use crate::engine::lease::Permit;
use api::MemgraphCluster;
use api::memgraph::MemgraphClusterStatus;
use api::memgraph::{QuarantineStatus, TermStatus};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use mainstay_core::memgraph::Plan;
use mainstay_core::memgraph::document::Document;
use mainstay_core::memgraph::observed::Observed;
use mainstay_core::memgraph::plan::Step;
use mainstay_core::time::Time;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a turn has to tell.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Of which cluster.
    pub cluster: String,
    /// The record as it is after the turn.
    pub document: Option<Document>,
    /// What was seen.
    pub observed: Option<Observed>,
    /// What was decided.
    pub plan: Plan,
    /// What was done.
    pub acted: Acted,
    /// Invariants that the plan would have broken.
    pub violations: Vec<String>,
    /// What was set aside, if the helpers were asked.
    pub quarantines: Option<Vec<QuarantineStatus>>,
    /// How many gateways are registered, if that was asked.
    pub gateways: Option<usize>,
    /// Those of them that do not reach the API, by their Leases.
    pub silent_gateways: Vec<String>,
    /// Things to say that change nothing.
    pub notes: Vec<String>,
    /// Why the turn came to nothing.
    pub error: Option<String>,
    /// When.
    pub at: Time,
}

impl Told {
    /// A turn that came to nothing.
    pub fn failed(error: &TurnError) -> Self {
        Self {
            error: Some(error.to_string()),
            at: wall(),
            ..Self::default()
        }
    }
}

/// How long the parts of a term took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// From the first evidence to the new term in the record.
    pub detect: Option<Duration>,
    /// Until the old MAIN was fenced.
    pub fence: Option<Duration>,
    /// Until the new one was promoted and marked.
    pub promote: Option<Duration>,
    /// Until the record served.
    pub open: Option<Duration>,
}

/// The term that this turn began and how long its parts took, if it began one.
pub fn phases(told: &Told) -> Option<(u64, Phases)> {
    let begun = told.plan.steps.iter().find_map(|planned| match &planned.step {
        Step::CreateRecord(record) => Some(record),
        Step::WriteRecord(record) if record.candidate.is_some() => Some(record),
        _ => None,
    })?;
    let of = |phase: Phase| {
        let took = told.acted.taken.iter().filter(|taken| taken.phase == Some(phase));
        let times: Vec<Duration> = took.map(|taken| taken.took).collect();
        (!times.is_empty()).then(|| times.iter().sum())
    };
    let record: Option<Duration> = of(Phase::Record);
    let evidence = told
        .plan
        .reasons
        .iter()
        .flat_map(|r| &r.evidence)
        .map(|e| e.at)
        .min();
    let acted: Duration = told.acted.taken.iter().map(|taken| taken.took).sum();
    let before = evidence.map_or(Duration::ZERO, |at| told.at.since(at).saturating_sub(acted));
    let phases = Phases {
        detect: record.map(|record| record + before),
        fence: of(Phase::Fence),
        promote: of(Phase::Promote),
        open: of(Phase::Open),
    };
    Some((begun.term.0, phases))
}

/// Writes status and Events, not more often than is of use.
#[derive(Default)]
pub struct Reporter {
    written: Option<(MemgraphClusterStatus, Instant)>,
    terms: BTreeMap<u64, Phases>,
    events: events::Seen,
}

/// Between two statuses that differ in nothing that matters.
const SLOW: Duration = Duration::from_secs(2);

impl Reporter {
    /// Tells what a turn has to tell. What fails is told again by the next turn.
    pub async fn report(
        &mut self,
        api: &Api<MemgraphCluster>,
        object: &MemgraphCluster,
        told: &Told,
        remembered: &Remembered,
        permit: &Permit,
        settings: &Settings,
    ) {
        if let Some((term, phases)) = phases(told) {
            self.terms.insert(term, phases);
            while self.terms.len() > 10 {
                self.terms.pop_first();
            }
        }
        if permit.check(settings.call).is_err() {
            return;
        }
        let before = object.status.clone().unwrap_or_default();
        let mut next = status(object, told, &before, remembered.processes.save());
        for term in &mut next.history {
            self.measured(term, &before);
        }
        if self.worth_writing(&before, &next) {
            let patch = Patch::Merge(json!({ "status": next }));
            let name = object.name_any();
            let params = PatchParams::default();
            let call = api.patch_status(&name, &params, &patch);
            match settings
                .tap
                .around("write status", bounded(settings.call, call))
                .await
            {
                Ok(_) => self.written = Some((next, Instant::now())),
                Err(error) => tracing::info!(%error, "the status was not written"),
            }
        }
        self.events.tell(api, object, told, settings).await;
    }

    fn measured(&self, term: &mut TermStatus, before: &MemgraphClusterStatus) {
        let millis = |time: Option<Duration>| time.and_then(|t| u64::try_from(t.as_millis()).ok());
        if let Some(Phases {
            detect,
            fence,
            promote,
            open,
        }) = self.terms.get(&term.term)
        {
            term.detect_ms = millis(*detect);
            term.fence_ms = millis(*fence);
            term.promote_ms = millis(*promote);
            term.open_ms = millis(*open);
        } else if let Some(known) = before.history.iter().find(|t| t.term == term.term) {
            term.detect_ms = known.detect_ms;
            term.fence_ms = known.fence_ms;
            term.promote_ms = known.promote_ms;
            term.open_ms = known.open_ms;
        }
    }

    fn worth_writing(&self, before: &MemgraphClusterStatus, next: &MemgraphClusterStatus) -> bool {
        if before == next {
            return false;
        }
        let loud = |status: &MemgraphClusterStatus| {
            let mut quiet = status.clone();
            quiet.lag = None;
            quiet
        };
        let slow = self.written.as_ref().is_some_and(|(_, at)| at.elapsed() < SLOW);
        loud(before) != loud(next) || !slow
    }
}
