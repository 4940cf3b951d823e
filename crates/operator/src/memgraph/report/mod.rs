//! What people see: the same reasons in status, conditions, Events and over HTTP.

mod events;
pub mod resets;
mod status;

pub use status::{is_protected, status};

use super::act::{Acted, Phase, Taken};
use super::cluster::Settings;
use super::footing::Setback;
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
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::observed::Observed;
use mainstay_core::memgraph::read_gate::Reads;
use mainstay_core::memgraph::turn::Outcome;
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
    /// What was set aside, of each pod whose helper said it. What the others have stays as it was last known.
    pub quarantines: BTreeMap<String, Vec<QuarantineStatus>>,
    /// How many gateways are registered, if that was asked.
    pub gateways: Option<usize>,
    /// Those of them that do not reach the API, by their Leases.
    pub silent_gateways: Vec<String>,
    /// Things to say that change nothing.
    pub notes: Vec<String>,
    /// What is declared and not so. The turn was taken all the same.
    pub setbacks: Vec<Setback>,
    /// Why the turn came to nothing.
    pub error: Option<String>,
    /// How many turns in a row came to nothing, with this one.
    pub failed: u32,
    /// What is declared about reads; `None` if gateways have no port for them.
    pub reads: Option<Reads>,
    /// Where the pods are.
    pub places: BTreeMap<Ordinal, Place>,
    /// When.
    pub at: Time,
}

/// Where a pod is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its address.
    pub ip: Option<String>,
    /// Under which it is registered as a replica.
    pub replication: Option<String>,
}

impl Told {
    /// A turn that came to nothing.
    pub fn failed(error: &TurnError, in_a_row: u32) -> Self {
        Self {
            error: Some(error.to_string()),
            failed: in_a_row,
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

impl Phases {
    /// With what a later turn did for the same term. It was found out once, and opened once.
    fn and(self, later: Self) -> Self {
        let both = |a: Option<Duration>, b: Option<Duration>| a.into_iter().chain(b).reduce(|a, b| a + b);
        Self {
            detect: self.detect.or(later.detect),
            fence: both(self.fence, later.fence),
            promote: both(self.promote, later.promote),
            open: self.open.or(later.open),
        }
    }
}

/// The term that this turn began or took over, and how long its parts took. A record that was not written is none.
pub fn phases(told: &Told) -> Option<(u64, Phases)> {
    let done = |taken: &&Taken| taken.outcome == Outcome::Done;
    let begun = told
        .acted
        .taken
        .iter()
        .filter(done)
        .find_map(|taken| taken.term)?;
    let of = |phase: Phase| {
        let counts = |taken: &&Taken| phase != Phase::Open || done(taken);
        let took = told
            .acted
            .taken
            .iter()
            .filter(|taken| taken.phase == Some(phase))
            .filter(counts);
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
    Some((begun.0, phases))
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
            let before = self.terms.remove(&term);
            let phases = before.map_or(phases, |before| before.and(phases));
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

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::memgraph::ids::Term;

    fn taken(phase: Phase, term: Option<u64>, outcome: Outcome, millis: u64) -> Taken {
        Taken {
            step: String::new(),
            phase: Some(phase),
            term: term.map(Term),
            outcome,
            took: Duration::from_millis(millis),
        }
    }

    fn told(taken: Vec<Taken>) -> Told {
        Told {
            acted: Acted {
                taken,
                ..Acted::default()
            },
            ..Told::default()
        }
    }

    #[test]
    fn a_term_is_measured_if_it_was_written_and_a_lost_race_is_none() {
        let lost = told(vec![taken(Phase::Record, Some(7), Outcome::Refused, 5)]);
        assert_eq!(phases(&lost), None);
        let proven = told(vec![taken(Phase::Open, None, Outcome::Done, 5)]);
        assert_eq!(phases(&proven), None, "a proof is no term");
        let begun = told(vec![taken(Phase::Record, Some(7), Outcome::Done, 5)]);
        assert_eq!(phases(&begun).map(|(term, _)| term), Some(7));
    }

    #[test]
    fn a_turn_that_takes_a_term_over_adds_to_what_the_first_one_measured() {
        let millis = |millis| Some(Duration::from_millis(millis));
        let first = Phases {
            detect: millis(900),
            fence: millis(30),
            ..Phases::default()
        };
        let later = Phases {
            detect: millis(4),
            fence: millis(2),
            promote: millis(11),
            open: millis(3),
        };
        let both = Phases {
            detect: millis(900),
            fence: millis(32),
            promote: millis(11),
            open: millis(3),
        };
        assert_eq!(first.and(later), both);
    }
}
