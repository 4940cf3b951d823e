//! What people see: the same reasons in status, conditions, Events and over HTTP.

use super::act::Acted;
use super::cluster::RingSettings;
use super::keeper::TurnError;
use crate::call::bounded;
use crate::clock::{draw, rfc3339, wall};
use crate::engine::lease::Permit;
use api::RingCluster;
use api::memgraph::Condition;
use api::ring::{CheckStatus, MemberStatus, ReplacementStatus, RingClusterStatus};
use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time as KubeTime};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use mainstay_core::ring::Plan;
use mainstay_core::ring::ledger::Ledger;
use mainstay_core::ring::observed::{MemberView, Observed, Pod};
use mainstay_core::ring::reason::{self, Why};
use mainstay_core::ring::stamp::Found;
use mainstay_core::time::Time;
use serde_json::json;
use std::collections::VecDeque;

/// How many replacements are remembered in the status.
const HISTORY: usize = 10;
/// How many sentences are remembered, to say each once.
const REMEMBERED: usize = 32;

/// What a turn has to tell.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The ledger as it is after the turn.
    pub ledger: Option<Ledger>,
    /// What was seen.
    pub observed: Option<Observed>,
    /// What was decided.
    pub plan: Plan,
    /// What was done.
    pub acted: Acted,
    /// Invariants that the plan would have broken.
    pub violations: Vec<String>,
    /// Nodes and volumes may not be looked at.
    pub nodes_unseen: bool,
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

    /// A replacement that this turn has seen to its end, or whose disk says so where nobody was left to see it.
    pub fn replaced(&self) -> Option<ReplacementStatus> {
        let written = self.acted.ended.is_none() && self.violations.is_empty();
        self.plan.reasons.iter().find_map(|why| match why {
            Why::Replaced { member, host, by } | Why::ReplacedUnseen { member, host, by } if written => {
                Some(ReplacementStatus {
                    member: member.to_string(),
                    lost: host.to_string(),
                    by: by.to_string(),
                    at: rfc3339(self.at),
                })
            }
            _ => None,
        })
    }
}

/// The status after this turn. A turn that came to nothing keeps what is known.
pub fn status(object: &RingCluster, told: &Told, before: &RingClusterStatus) -> RingClusterStatus {
    let mut next = before.clone();
    next.observed_generation = object.metadata.generation;
    if told.error.is_none() {
        let stopped = stopped(told).into_iter().map(|(_, sentence)| sentence);
        let reasons = told.plan.reasons.iter().map(ToString::to_string);
        next.reasons = stopped.chain(reasons).collect();
        next.checks = told
            .plan
            .findings
            .iter()
            .map(|finding| CheckStatus {
                name: finding.letter.name().to_owned(),
                member: finding.member.to_string(),
                holds: finding.holds(),
                message: if finding.holds() {
                    finding.letter.text().to_owned()
                } else {
                    finding.check.to_string()
                },
            })
            .collect();
        next.work = told.ledger.as_ref().map(work).unwrap_or_default();
        next.summary = summary(told);
        next.members = members(told);
        next.replacements.extend(told.replaced());
        let old = next.replacements.len().saturating_sub(HISTORY);
        next.replacements.drain(..old);
    }
    next.conditions = conditions(told, &before.conditions);
    next
}

/// Why the plan was not carried out, or not to its end: then its reasons say what was meant, not what is.
fn stopped(told: &Told) -> Vec<(&'static str, String)> {
    let refused = told.violations.iter().map(|violation| {
        let sentence =
            format!("what was decided breaks a rule and is not done; please report it: {violation}");
        ("PlanRefused", sentence)
    });
    let ended = told.acted.ended.iter().map(|ended| {
        let sentence =
            format!("the turn ended early and is tried again, because a step was not done: {ended}");
        ("TurnEnded", sentence)
    });
    refused.chain(ended).collect()
}

/// Asleep: somebody wants it, and no pod is left.
fn asleep(told: &Told) -> bool {
    told.plan.reasons.contains(&Why::Asleep)
}

fn work(ledger: &Ledger) -> String {
    if ledger.work.is_none() {
        return String::new();
    }
    let headline = ledger.headline();
    headline.rsplit(", ").next().unwrap_or_default().to_owned()
}

fn summary(told: &Told) -> String {
    let declared = told.observed.as_ref().map_or(0, |seen| seen.spec.members.len());
    let known = told.ledger.as_ref().map_or(0, |ledger| ledger.known.len());
    format!("{known}/{declared}")
}

fn members(told: &Told) -> Vec<MemberStatus> {
    let seen = told.observed.iter().flat_map(|seen| &seen.members);
    let known = |m: &MemberView| told.ledger.as_ref().and_then(|l| l.known.get(&m.member)).cloned();
    seen.map(|m| MemberStatus {
        name: m.member.to_string(),
        host_id: known(m).map(|k| k.host.to_string()),
        address: m.address.map(|a| a.to_string()),
        gate: gate(m).to_owned(),
    })
    .collect()
}

/// What its gate said last, in a word.
fn gate(m: &MemberView) -> &'static str {
    let report = m.pod.as_ref().and_then(|pod| pod.report);
    match report.map(|r| r.found) {
        None => "Silent",
        Some(Found::Started(_)) => "Started",
        Some(Found::StartedWith(_)) => "StartedByPermission",
        Some(Found::Empty) => "Empty",
        Some(Found::Unfinished(_)) => "Unfinished",
        Some(Found::Retired(_)) => "Retired",
        Some(Found::Foreign(_)) => "Foreign",
        Some(Found::Damaged) => "Damaged",
        Some(Found::Unreadable) => "Unreadable",
    }
}

/// The conditions that the decisions know, and what each is called.
const CONDITIONS: [(reason::Condition, &str, &str); 4] = [
    (
        reason::Condition::StorageLost,
        "StorageLost",
        "no member came back empty",
    ),
    (
        reason::Condition::ReplacementHeld,
        "ReplacementHeld",
        "no replacement waits for anything",
    ),
    (
        reason::Condition::ReplacementFailed,
        "ReplacementFailed",
        "no replacement failed",
    ),
    (
        reason::Condition::Progressing,
        "Progressing",
        "nothing is under way",
    ),
];

/// Said once, and in the status for as long as it is so.
const NODES_UNSEEN: &str = "this operator may not look at Nodes and PersistentVolumes (it serves one namespace): the \
                            volume of a Node that is gone is never given up by itself; label the member's Service \
                            scylla/replace if its Node does not come back";

fn conditions(told: &Told, before: &[Condition]) -> Vec<Condition> {
    if let Some(error) = &told.error {
        // What was known stands; only that nobody looked is new.
        let mut kept: Vec<Condition> = before.iter().filter(|c| c.kind != "Ready").cloned().collect();
        kept.insert(0, dated(before, "Ready", "Unknown", "TurnFailed", error));
        return kept;
    }
    let ready = ready(told);
    let decided = told.plan.reasons.first().map(|why| (why.id(), why.to_string()));
    let first = stopped(told).into_iter().next().or(decided);
    let (word, sentence) = first.unwrap_or(("Whole", String::new()));
    let mut all = vec![dated(
        before,
        "Ready",
        if ready { "True" } else { "False" },
        word,
        &sentence,
    )];
    all.push(if asleep(told) {
        dated(before, "Hibernated", "True", "Asleep", &sentence)
    } else {
        dated(before, "Hibernated", "False", word, "members run, or may")
    });
    for (condition, kind, quiet) in CONDITIONS {
        let speaks = told
            .plan
            .reasons
            .iter()
            .filter(|why| why.condition() == Some(condition));
        // A human reads what only they can put right first.
        let why = speaks
            .clone()
            .find(|why| why.needs_human())
            .or_else(|| speaks.clone().next());
        all.push(match why {
            Some(why) => dated(before, kind, "True", why.id(), &why.to_string()),
            None => dated(before, kind, "False", "None", quiet),
        });
    }
    if told.nodes_unseen {
        all.push(dated(before, "NodesUnseen", "True", "Forbidden", NODES_UNSEEN));
    }
    all
}

/// Every declared member is on record and runs, nothing is to be decided, and what was decided is done.
fn ready(told: &Told) -> bool {
    let (Some(seen), Some(ledger)) = (&told.observed, &told.ledger) else {
        return false;
    };
    let alone = seen.spec.members.len() == 1;
    let runs = seen.spec.members.iter().all(|d| {
        let pod = seen.member(&d.member).and_then(|m| m.pod.as_ref());
        let known = alone || ledger.known.contains_key(&d.member);
        known && pod.is_some_and(Pod::stays)
    });
    runs && stopped(told).is_empty() && !told.plan.reasons.iter().any(Why::needs_human)
}

fn dated(before: &[Condition], kind: &str, status: &str, reason: &str, message: &str) -> Condition {
    let same = before.iter().find(|c| c.kind == kind && c.status == status);
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: same.map_or_else(|| rfc3339(wall()), |c| c.last_transition_time.clone()),
    }
}

/// Writes status and Events.
#[derive(Default)]
pub struct Reporter {
    said: VecDeque<String>,
    nodes_unseen: bool,
}

impl Reporter {
    /// Tells what a turn has to tell. What fails is told again by the next turn.
    pub async fn report(
        &mut self,
        api: &Api<RingCluster>,
        object: &RingCluster,
        told: &Told,
        permit: &Permit,
        settings: &RingSettings,
    ) {
        if permit.check(settings.call).is_err() {
            return;
        }
        let before = object.status.clone().unwrap_or_default();
        let next = status(object, told, &before);
        if before != next {
            let patch = Patch::Merge(json!({ "status": next }));
            let (name, params) = (object.name_any(), PatchParams::default());
            let call = bounded(settings.call, api.patch_status(&name, &params, &patch));
            if let Err(error) = settings.tap.around("write ring status", call).await {
                tracing::info!(%error, "the status was not written");
            }
        }
        let events: Api<Event> =
            Api::namespaced(api.clone().into_client(), &object.namespace().unwrap_or_default());
        for (warning, reason, message) in self.unsaid(told) {
            if warning {
                tracing::warn!(ring = object.name_any(), reason, "{message}");
            }
            let event = event(object, warning, reason, message);
            // An Event is for people; the status says the same.
            if let Err(error) = bounded(settings.call, events.create(&PostParams::default(), &event)).await {
                tracing::debug!(%error, "an Event was not written");
            }
        }
    }

    /// What was not said yet.
    fn unsaid(&mut self, told: &Told) -> Vec<(bool, String, String)> {
        let mut all = worth_saying(told);
        all.retain(|(_, reason, message)| self.is_new(told, reason, message));
        if told.nodes_unseen && !self.nodes_unseen {
            all.push((true, "NodesUnseen".to_owned(), NODES_UNSEEN.to_owned()));
        }
        self.nodes_unseen |= told.nodes_unseen;
        all
    }

    /// Is it new? What is being done is part of it: the same sentence about another replacement is another one.
    fn is_new(&mut self, told: &Told, reason: &str, message: &str) -> bool {
        let grants = told.ledger.as_ref().map_or(0, |l| l.grants.0);
        let key = format!("{grants} {reason} {message}");
        if self.said.contains(&key) {
            return false;
        }
        self.said.push_back(key);
        if self.said.len() > REMEMBERED {
            self.said.pop_front();
        }
        true
    }
}

/// What is worth an Event: what was done, what a human must decide, and what went wrong.
fn worth_saying(told: &Told) -> Vec<(bool, String, String)> {
    let mut all = Vec::new();
    if let Some(error) = &told.error {
        all.push((true, "TurnFailed".to_owned(), error.clone()));
    }
    for violation in &told.violations {
        all.push((true, "PlanRefused".to_owned(), violation.clone()));
    }
    for why in &told.plan.reasons {
        let bad = matches!(
            why.condition(),
            Some(
                reason::Condition::StorageLost
                    | reason::Condition::ReplacementHeld
                    | reason::Condition::ReplacementFailed
            )
        );
        if bad || why.needs_human() {
            all.push((true, why.id().to_owned(), why.to_string()));
        } else if !told.acted.done.is_empty() {
            all.push((false, why.id().to_owned(), why.to_string()));
        }
    }
    if let Some(ended) = &told.acted.ended {
        all.push((true, "TurnEnded".to_owned(), ended.clone()));
    }
    all
}

fn event(object: &RingCluster, warning: bool, reason: String, message: String) -> Event {
    let now = jiff::Timestamp::from_millisecond(i64::try_from(wall().0).unwrap_or_default())
        .ok()
        .map(KubeTime);
    Event {
        metadata: ObjectMeta {
            name: Some(format!(
                "{}.{:012x}{:04x}",
                object.name_any(),
                wall().0,
                draw() & 0xffff
            )),
            namespace: object.namespace(),
            ..ObjectMeta::default()
        },
        involved_object: object.object_ref(&()),
        type_: Some(if warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(reason),
        message: Some(message),
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
mod tests;
