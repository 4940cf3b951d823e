//! Events: what was done and why, once each.

use super::Told;
use super::status::word;
use crate::call::bounded;
use crate::clock::{draw, wall};
use crate::memgraph::cluster::Settings;
use api::MemgraphCluster;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time as KubeTime};
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use mainstay_core::memgraph::Severity;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::reason::{Reason, Why};
use std::collections::VecDeque;

/// How many sentences are remembered, to say each once.
const REMEMBERED: usize = 64;

/// What was said lately.
#[derive(Debug, Default)]
pub(super) struct Seen(VecDeque<String>);

/// One Event.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    severity: Severity,
    reason: String,
    message: String,
}

/// What a turn has to say that is worth an Event: what it did, and what went wrong.
fn worth_saying(told: &Told) -> Vec<Said> {
    let mut all = Vec::new();
    if let Some(error) = &told.error {
        all.push(Said {
            severity: Severity::Warning,
            reason: "TurnFailed".to_owned(),
            message: error.clone(),
        });
    }
    for violation in &told.violations {
        all.push(Said {
            severity: Severity::Warning,
            reason: "PlanRefused".to_owned(),
            message: violation.clone(),
        });
    }
    let done = why_done(told);
    for reason in &told.plan.reasons {
        // What is not done is what a person asks about: nobody who may serve, a diverged replica that stays as it is.
        let severity = match reason.why.severity() {
            loud @ (Severity::Warning | Severity::Error) if Some(reason) != done => loud,
            _ if Some(reason) == done => Severity::Normal,
            _ => continue,
        };
        all.push(Said {
            severity,
            reason: word(&reason.why),
            message: reason.to_string(),
        });
    }
    if let Some(ended) = &told.acted.ended {
        all.push(Said {
            severity: Severity::Warning,
            reason: "TurnEnded".to_owned(),
            message: ended.clone(),
        });
    }
    if told.acted.unfenced {
        all.push(Said {
            severity: Severity::Warning,
            reason: "Unfenced".to_owned(),
            message: "the old MAIN could not be fenced in time: promoted all the same, as failover.fenceTimeout says"
                .to_owned(),
        });
    }
    for setback in &told.setbacks {
        all.push(Said {
            severity: Severity::Warning,
            reason: setback.reason.to_owned(),
            message: setback.message.clone(),
        });
    }
    for note in &told.notes {
        all.push(Said {
            severity: Severity::Warning,
            reason: "Note".to_owned(),
            message: note.clone(),
        });
    }
    all
}

/// Why something is done. A healthy pair is said before what is done about another pod.
fn why_done(told: &Told) -> Option<&Reason> {
    let mut reasons = told.plan.reasons.iter();
    let something = reasons.clone().find(|r| !matches!(r.why, Why::Healthy { .. }));
    something
        .or_else(|| reasons.next())
        .filter(|_| !told.plan.steps.is_empty())
}

fn needs_approval(told: &Told) -> Option<Ordinal> {
    told.plan.reasons.iter().find_map(|reason| match reason.why {
        Why::NeedsApproval { pod } => Some(pod),
        _ => None,
    })
}

impl Said {
    fn log(&self, cluster: &str) {
        let Self {
            severity,
            reason,
            message,
        } = self;
        match severity {
            Severity::Error => tracing::error!(cluster, reason, "{message}"),
            Severity::Warning => tracing::warn!(cluster, reason, "{message}"),
            // Its steps are logged as they are taken.
            Severity::Normal => {}
        }
    }
}

impl Seen {
    /// Is it new? The term is part of it: the same sentence in another term is another one.
    fn is_new(&mut self, said: &Said, term: u64) -> bool {
        let key = format!("{term} {} {}", said.reason, said.message);
        if self.0.contains(&key) {
            return false;
        }
        self.0.push_back(key);
        if self.0.len() > REMEMBERED {
            self.0.pop_front();
        }
        true
    }

    pub(super) async fn tell(
        &mut self,
        api: &Api<MemgraphCluster>,
        object: &MemgraphCluster,
        told: &Told,
        settings: &Settings,
    ) {
        let term = told.document.as_ref().map_or(0, |d| d.record.term.0);
        for said in worth_saying(told) {
            if !self.is_new(&said, term) {
                continue;
            }
            if let Some(pod) = needs_approval(told).filter(|_| said.reason == "NeedsApproval") {
                let pod_name = format!("{}-{}", object.name_any(), pod.0);
                let replica_name = pod_name.replace('-', "_");
                // The seeds' words, for whoever greps for them.
                tracing::error!(
                    pod_name,
                    replica_name,
                    "SYNC replica diverged - MANUAL INTERVENTION REQUIRED"
                );
            } else {
                said.log(&object.name_any());
            }
            let what = format!("tell {}", said.reason);
            let event = event(object, said);
            let namespace = object.namespace().unwrap_or_default();
            let events: Api<Event> = Api::namespaced(api.clone().into_client(), &namespace);
            let params = PostParams::default();
            let call = bounded(settings.call, events.create(&params, &event));
            // An Event is for people; the status says the same.
            if let Err(error) = settings.tap.around(what, call).await {
                tracing::debug!(%error, "an Event was not written");
            }
        }
    }
}

/// Kubernetes knows two.
fn kind(severity: Severity) -> &'static str {
    match severity {
        Severity::Normal => "Normal",
        Severity::Warning | Severity::Error => "Warning",
    }
}

fn event(object: &MemgraphCluster, said: Said) -> Event {
    let now = jiff::Timestamp::from_millisecond(i64::try_from(wall().0).unwrap_or_default())
        .ok()
        .map(KubeTime);
    let involved: ObjectReference = object.object_ref(&());
    Event {
        metadata: ObjectMeta {
            // Times of Events count in seconds: by their names they are listed as they happened.
            name: Some(format!(
                "{}.{:012x}{:04x}",
                object.name_any(),
                wall().0,
                draw() & 0xffff
            )),
            namespace: object.namespace(),
            ..ObjectMeta::default()
        },
        involved_object: involved,
        type_: Some(kind(said.severity).to_owned()),
        reason: Some(said.reason),
        message: Some(said.message),
        first_timestamp: now.clone(),
        last_timestamp: now,
        count: Some(1),
        source: Some(EventSource {
            component: Some("mainstay-operator".to_owned()),
            host: None,
        }),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::memgraph::Plan;
    use mainstay_core::memgraph::rules::Rule;

    #[test]
    fn a_sentence_is_said_once_per_term() {
        let mut seen = Seen::default();
        let said = || Said {
            severity: Severity::Normal,
            reason: "JoinAsync".to_owned(),
            message: "pod-1 is registered ASYNC to catch up".to_owned(),
        };
        assert!(seen.is_new(&said(), 1));
        assert!(!seen.is_new(&said(), 1));
        assert!(seen.is_new(&said(), 2));
    }

    #[test]
    fn a_reset_that_is_refused_is_said_although_nothing_is_done() {
        let refusals = [
            Why::NoRoom { pod: Ordinal(2) },
            Why::TooManyResets { pod: Ordinal(2) },
            Why::OtherReset { pod: Ordinal(2) },
            Why::NeedsApproval { pod: Ordinal(1) },
            Why::MayHoldLostWrite { pod: Ordinal(2) },
            Why::AskOthersFirst { pod: Ordinal(2) },
            Why::TooOldToJudge { pod: Ordinal(2) },
            Why::EverybodyAccused { main: Ordinal(0) },
            Why::MainSuspect { main: Ordinal(0) },
            Why::ResetUnheeded { pod: Ordinal(0) },
        ];
        for why in refusals {
            let healthy = Reason::new(Rule::Prove, Why::Healthy { main: Ordinal(0) });
            let plan = Plan::wait(healthy).also(Reason::new(Rule::Reset, why));
            let said = worth_saying(&Told {
                plan,
                ..Told::default()
            });
            assert_eq!(said.len(), 1, "{why:?}: {said:?}");
            assert_eq!(
                (kind(said[0].severity), said[0].reason.as_str()),
                ("Warning", word(&why).as_str())
            );
        }
    }

    #[test]
    fn a_turn_without_steps_says_nothing_and_a_failed_one_says_why() {
        assert_eq!(worth_saying(&Told::default()), []);
        let failed = Told {
            error: Some("no".to_owned()),
            ..Told::default()
        };
        let said = worth_saying(&failed);
        assert_eq!(
            (said.len(), said[0].severity, said[0].message.as_str()),
            (1, Severity::Warning, "no")
        );
    }

    #[test]
    fn what_waits_for_a_person_is_said_as_an_error_although_nothing_is_done() {
        let (main, other) = (Ordinal(0), Ordinal(1));
        for why in [
            Why::UnknownState,
            Why::NobodyEntitled { awaited: main },
            Why::MainVolumeLost { main, other },
            Why::SuspiciousData { pod: main },
            Why::MainReadOnly { pod: other },
        ] {
            let told = Told {
                plan: Plan::wait(Reason::new(Rule::Stuck, why)),
                ..Told::default()
            };
            let said = worth_saying(&told);
            assert_eq!(said.len(), 1, "{why:?}: {said:?}");
            assert_eq!(
                (said[0].severity, said[0].reason.as_str()),
                (Severity::Error, word(&why).as_str())
            );
        }
    }
}
