//! Events: what was done and why, once each.

use super::Told;
use super::status::word;
use crate::call::{CallError, bounded};
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
use mainstay_core::time::Time;
use std::collections::VecDeque;
use tokio::time::Instant;

/// How many sentences are remembered, to say each once; and how many wait to be written.
const REMEMBERED: usize = 64;

/// What was said lately, and what is still to be written.
#[derive(Debug)]
pub(super) struct Seen {
    said: VecDeque<String>,
    /// The next turn may have other things to say: what could not be written waits here.
    unwritten: VecDeque<Event>,
    /// The number in the name of the last one.
    last: u64,
    /// Two operators may count the same.
    me: u64,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            said: VecDeque::new(),
            unwritten: VecDeque::new(),
            last: 0,
            me: draw(),
        }
    }
}

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
        if self.said.contains(&key) {
            return false;
        }
        push(&mut self.said, key);
        true
    }

    /// Times of Events count in seconds: by their names they are listed as they happened, also those of one millisecond,
    /// and also when the clock was put back.
    fn name(&mut self, of: &str, now: Time) -> String {
        self.last = (now.0 << 16).max(self.last.saturating_add(1));
        format!("{of}.{:016x}{:013x}", self.last, self.me)
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
            let now = wall();
            let name = self.name(&object.name_any(), now);
            push(&mut self.unwritten, event(object, said, name, now));
        }
        self.write(api, object, settings).await;
    }

    /// In order. One that is not answered for keeps the others waiting, and so does an API that is slow: the next look at
    /// MAIN must not wait for all of them.
    async fn write(&mut self, api: &Api<MemgraphCluster>, object: &MemgraphCluster, settings: &Settings) {
        let namespace = object.namespace().unwrap_or_default();
        let events: Api<Event> = Api::namespaced(api.clone().into_client(), &namespace);
        let params = PostParams::default();
        let began = Instant::now();
        while let Some(event) = self.unwritten.front() {
            let what = format!("tell {}", event.reason.as_deref().unwrap_or_default());
            let call = bounded(settings.call, events.create(&params, event));
            if let Err(error) = settings.tap.around(what, call).await {
                // An Event is for people; the status says the same.
                tracing::debug!(%error, "an Event was not written");
                if may_come_later(&error) {
                    return;
                }
            }
            self.unwritten.pop_front();
            if began.elapsed() >= settings.interval {
                return;
            }
        }
    }
}

/// Not if it was refused, which it would be again; nor if there is one of its name, which is itself: an answer was lost.
fn may_come_later(error: &CallError) -> bool {
    matches!(
        error,
        CallError::Unknown(_) | CallError::Refused { code: 429, .. }
    )
}

/// Only the last ones are worth remembering.
fn push<T>(all: &mut VecDeque<T>, one: T) {
    all.push_back(one);
    if all.len() > REMEMBERED {
        all.pop_front();
    }
}

/// Kubernetes knows two.
fn kind(severity: Severity) -> &'static str {
    match severity {
        Severity::Normal => "Normal",
        Severity::Warning | Severity::Error => "Warning",
    }
}

fn event(object: &MemgraphCluster, said: Said, name: String, now: Time) -> Event {
    let now = jiff::Timestamp::from_millisecond(i64::try_from(now.0).unwrap_or_default())
        .ok()
        .map(KubeTime);
    let involved: ObjectReference = object.object_ref(&());
    Event {
        metadata: ObjectMeta {
            name: Some(name),
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
    use crate::scripted;
    use mainstay_core::memgraph::Plan;
    use mainstay_core::memgraph::rules::Rule;
    use serde_json::json;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

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
    fn events_of_one_millisecond_are_named_in_order_and_never_as_another_operator_names_its_own() {
        let (mut one, mut other) = (Seen::default(), Seen::default());
        let names: Vec<String> = [7, 7, 7, 8, 6]
            .map(|ms| one.name("memgraph-ha", Time(ms)))
            .to_vec();
        assert!(names.is_sorted(), "{names:?}");
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 5);
        assert!(!names.contains(&other.name("memgraph-ha", Time(7))));
    }

    fn failed(error: &str) -> Told {
        Told {
            error: Some(error.to_owned()),
            ..Told::default()
        }
    }

    /// Tells this turn by turn, to an API that answers the requests with these codes and then with 201; the messages that
    /// were written, and how long each turn told.
    async fn told_to(codes: &[u16], slow: Duration, turns: &[&str]) -> (Vec<String>, Vec<Duration>) {
        let left: Arc<Mutex<VecDeque<u16>>> = Arc::new(Mutex::new(codes.iter().copied().collect()));
        let written: Arc<Mutex<Vec<String>>> = Arc::default();
        let client = scripted::client({
            let written = written.clone();
            move |asked| {
                let code = left.lock().unwrap().pop_front().unwrap_or(201);
                if code == 201 {
                    let message = asked.body["message"].as_str().unwrap_or_default();
                    written.lock().unwrap().push(message.to_owned());
                }
                let body = if code == 201 {
                    asked.body
                } else {
                    json!({ "kind": "Status", "status": "Failure", "code": code, "reason": "", "message": "no" })
                };
                async move {
                    tokio::time::sleep(slow).await;
                    (code, body)
                }
            }
        });
        let api: Api<MemgraphCluster> = Api::namespaced(client, "db");
        let object: MemgraphCluster = serde_json::from_value(json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
            "metadata": { "name": "memgraph-ha", "namespace": "db" }, "spec": {},
        }))
        .unwrap();
        let (mut seen, settings) = (Seen::default(), Settings::default());
        let mut took = Vec::new();
        for error in turns {
            let told = if error.is_empty() {
                Told::default()
            } else {
                failed(error)
            };
            let began = Instant::now();
            seen.tell(&api, &object, &told, &settings).await;
            took.push(began.elapsed());
        }
        let written = written.lock().unwrap().clone();
        (written, took)
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_could_not_be_written_is_written_by_a_later_turn_that_has_other_things_to_say() {
        let told = |codes| async move { told_to(codes, Duration::ZERO, &["a", "b", "", ""]).await.0 };
        assert_eq!(told(&[]).await, ["a", "b"]);
        assert_eq!(told(&[500]).await, ["a", "b"]);
        assert_eq!(told(&[503, 429, 500]).await, ["a", "b"], "in order");
        assert_eq!(told(&[403]).await, ["b"], "it would be refused again");
        assert_eq!(told(&[409]).await, ["b"], "it is there: an answer was lost");
    }

    #[tokio::test(start_paused = true)]
    async fn a_backlog_of_events_does_not_keep_a_turn_for_longer_than_a_slow_call() {
        let slow = Duration::from_secs(2);
        let (written, took) = told_to(&[500, 500, 500], slow, &["a", "b", "c", "", "", ""]).await;
        assert_eq!(written, ["a", "b", "c"]);
        assert!(took.iter().all(|took| *took < slow * 2), "{took:?}");
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
