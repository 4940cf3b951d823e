//! The status of a cluster, from its record and what the last turn had to tell. Pure.

mod evidence;

pub use evidence::is_protected;

use super::{Told, resets};
use crate::clock::rfc3339;
use api::MemgraphCluster;
use api::memgraph::{Condition, MemgraphClusterStatus, PodStatus, ProcessSeen, TermStatus};
use evidence::{Said, answers_as, protection, protects};
use kube::ResourceExt;
use mainstay_core::memgraph::document::{Document, RECORD};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::observed::{Contact, Role};
use mainstay_core::memgraph::reason::Why;
use mainstay_core::memgraph::record::{State, Writes};
use mainstay_core::memgraph::spec::Durability;
use mainstay_core::memgraph::{View, pair_fsyncs};

/// The status after this turn. A turn that came to nothing keeps what is known.
pub fn status(
    object: &MemgraphCluster,
    told: &Told,
    before: &MemgraphClusterStatus,
    processes: Vec<ProcessSeen>,
) -> MemgraphClusterStatus {
    let mut next = before.clone();
    next.observed_generation = object.metadata.generation;
    let facts = Facts {
        name: object.name_any(),
        told,
    };
    if told.error.is_none() {
        next.reasons = told.plan.reasons.iter().map(ToString::to_string).collect();
        next.reasons.extend(told.acted.ended.iter().cloned());
        next.reasons.extend(told.notes.iter().cloned());
        next.reasons
            .extend(told.setbacks.iter().map(|setback| setback.message.clone()));
        next.processes = processes;
        facts.fill(&mut next);
    }
    next.conditions = facts.conditions(&before.conditions);
    next.writes = next.writes.map(|writes| taken(writes, &next.conditions));
    next
}

const OPEN: &str = "Open";

/// The record says what gateways may do. What it says to be open is not, where nobody is seen to take writes.
fn taken(recorded: String, conditions: &[Condition]) -> String {
    let seen = conditions.iter().find(|condition| condition.kind == "WritesOpen");
    match seen.map(|condition| condition.status.as_str()) {
        Some("False") if recorded == OPEN => "Unserved".to_owned(),
        Some("Unknown") if recorded == OPEN => "Unknown".to_owned(),
        _ => recorded,
    }
}

const RELAXED: &str = "a replica holds every commit, and spec.durability: Relaxed does not write it through to disk: not called protected";
const NO_FSYNC: &str = "a replica holds every commit, and MAIN or the replica does not write it through to disk: not called protected; start both pods with --storage-wal-enabled=true --storage-wal-file-flush-every-n-tx=1";

/// So many turns in a row came to nothing: what was known before is not known any more.
const TOO_OLD: u32 = 3;

struct Facts<'a> {
    name: String,
    told: &'a Told,
}

/// A condition before it has a time.
struct Judged {
    kind: &'static str,
    said: Said,
    reason: String,
    message: String,
}

impl Facts<'_> {
    fn pod(&self, ordinal: Ordinal) -> String {
        format!("{}-{}", self.name, ordinal.0)
    }

    fn fill(&self, next: &mut MemgraphClusterStatus) {
        let Told {
            document, observed, ..
        } = self.told;
        let serves = |document: &Document| document.record.main.is_some();
        next.phase = if document.as_ref().is_some_and(serves) {
            "OPERATIONAL".to_owned()
        } else {
            "BOOTSTRAP".to_owned()
        };
        if let Some(document) = document {
            self.of_record(document, next);
        }
        next.lag = self.lag();
        let said = &self.told.quarantines;
        next.quarantines.retain(|known| !said.contains_key(&known.pod));
        next.quarantines.extend(said.values().flatten().cloned());
        // Stable: on a volume the oldest stays the first.
        next.quarantines.sort_by(|a, b| a.pod.cmp(&b.pod));
        if let Some(observed) = observed {
            next.pods = observed
                .pods
                .iter()
                .map(|pod| PodStatus {
                    name: self.pod(pod.ordinal),
                    role: role(&pod.contact).to_owned(),
                    protected: protects(self.told, pod.ordinal),
                })
                .collect();
        }
    }

    fn of_record(&self, document: &Document, next: &mut MemgraphClusterStatus) {
        let record = &document.record;
        next.state = Some(record.state.to_string());
        // Never back: a record that is lost is rebuilt above everything that was ever shown (R19).
        next.term = next.term.max(Some(record.term.0));
        let main = document.target_main();
        next.target_main_pod = main.map(|pod| self.pod(pod));
        next.target_sync_replica = main.and_then(Ordinal::partner).map(|pod| self.pod(pod));
        next.writes = Some(format!("{:?}", record.writes));
        next.history = document
            .history
            .iter()
            .map(|tenure| TermStatus {
                term: tenure.term.0,
                pod: self.pod(tenure.pod),
                began: rfc3339(tenure.began),
                why: tenure.why.clone(),
                detect_ms: None,
                fence_ms: None,
                promote_ms: None,
                open_ms: None,
            })
            .collect();
        resets::note(
            &mut next.resets,
            record.reset.map(|reset| (reset, self.pod(reset.pod))),
        );
        next.record = document.data().ok().and_then(|mut keys| keys.remove(RECORD));
    }

    fn lag(&self) -> Option<i64> {
        let observed = self.told.observed.as_ref()?;
        let record = &self.told.document.as_ref()?.record;
        let main = record.main.as_ref()?;
        let partner = main.pod.partner()?;
        let answer = observed.answer(main.pod)?;
        View::registrations_of(answer, partner).map(|r| -r.behind).max()
    }

    fn conditions(&self, before: &[Condition]) -> Vec<Condition> {
        self.judged(before)
            .into_iter()
            .map(|judged| {
                let old = before.iter().find(|c| c.kind == judged.kind);
                judged.dated(old, self.told)
            })
            .collect()
    }

    fn judged(&self, before: &[Condition]) -> Vec<Judged> {
        let record = self.told.document.as_ref().map(|d| &d.record);
        let first = self.told.plan.reasons.first();
        let (reason, message) = match (&self.told.error, first) {
            (Some(error), _) => ("TurnFailed".to_owned(), error.clone()),
            (None, _) if !self.told.violations.is_empty() => {
                ("PlanRefused".to_owned(), self.told.violations.join("; "))
            }
            (None, Some(first)) => (word(&first.why), self.with_end(first.to_string())),
            (None, None) => ("Nothing".to_owned(), String::new()),
        };
        let judge = |kind: &'static str, said: Said, yes: &str| {
            let said = said.or(before.iter().find(|condition| condition.kind == kind));
            Judged {
                kind,
                said,
                reason: if said == Said::Yes {
                    yes.to_owned()
                } else {
                    reason.clone()
                },
                message: message.clone(),
            }
        };
        let serving = record.is_some_and(|r| r.state == State::Serving);
        let main = if serving { self.main_serves() } else { Said::No };
        let ready = if main == Said::Nothing { Said::No } else { main };
        let open = record.is_some_and(|r| r.writes == Writes::Open);
        let open = if open { main } else { Said::No };
        let unknown = first.is_some_and(|r| matches!(r.why, Why::UnknownState));
        let asleep = record.is_some_and(|r| r.state == State::Hibernated);
        vec![
            judge("Ready", ready, "MainServes"),
            self.protected(judge("Protected", protection(self.told), "ProvenByACommit")),
            self.writes_open(judge("WritesOpen", open, "Open")),
            judge(
                "TopologyKnown",
                Said::is(record.is_some() && !unknown),
                "Recorded",
            ),
            judge("Hibernated", Said::is(asleep), "Asleep"),
            self.applied(),
            self.gateways(),
        ]
    }

    /// The record has them open, and that is all that is known.
    fn writes_open(&self, judged: Judged) -> Judged {
        let main = self.told.document.as_ref().and_then(|d| d.record.main.as_ref());
        match (judged.said, main) {
            (Said::Nothing, Some(main)) if self.told.error.is_none() => Judged {
                reason: "MainDoesNotAnswer".to_owned(),
                message: format!(
                    "the record has writes open, and {} does not answer as MAIN",
                    self.pod(main.pod)
                ),
                ..judged
            },
            _ => judged,
        }
    }

    /// A replica that holds every commit and does not write it through protects from less than is promised (R12).
    fn protected(&self, judged: Judged) -> Judged {
        let (Some(document), Some(seen)) = (&self.told.document, &self.told.observed) else {
            return judged;
        };
        let Some(sync) = document.record.sync.filter(|_| judged.said != Said::Yes) else {
            return judged;
        };
        if judged.said == Said::Nothing {
            return Judged {
                reason: "NobodyAnswers".to_owned(),
                message: self.unconfirmed(sync.pod),
                ..judged
            };
        }
        let (reason, message) = if seen.spec.durability != Durability::Strict {
            ("DurabilityRelaxed", RELAXED)
        } else if !pair_fsyncs(seen, &document.record) {
            ("NoFsync", NO_FSYNC)
        } else {
            return judged;
        };
        Judged {
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..judged
        }
    }

    /// It was proven, and nobody is there to say that it still is so.
    fn unconfirmed(&self, sync: Ordinal) -> String {
        format!(
            "{} was proven to hold every commit, and neither it nor MAIN answers and says that it still does",
            self.pod(sync)
        )
    }

    /// What is done, and what came of it if it did not end well.
    fn with_end(&self, message: String) -> String {
        match &self.told.acted.ended {
            Some(ended) => format!("{message}; {ended}"),
            None => message,
        }
    }

    /// Is everything as it was declared? A cluster is looked after in any case.
    fn applied(&self) -> Judged {
        let setbacks = &self.told.setbacks;
        let messages: Vec<&str> = setbacks.iter().map(|setback| setback.message.as_str()).collect();
        let (reason, message) = match (&self.told.error, setbacks.first()) {
            (Some(error), _) => ("TurnFailed", error.clone()),
            (None, Some(first)) => (first.reason, messages.join("; ")),
            (None, None) => ("AsDeclared", String::new()),
        };
        Judged {
            kind: "Applied",
            said: Said::is(setbacks.is_empty()),
            reason: reason.to_owned(),
            message,
        }
    }

    /// A gateway that cannot reach the API cannot say so: its Lease does, by its age.
    fn gateways(&self) -> Judged {
        let silent = self.told.silent_gateways.join(", ");
        let (holds, reason, message) = match self.told.gateways {
            None => (false, "NotAsked", String::new()),
            Some(0) => (true, "NoGateways", "no gateway is registered".to_owned()),
            Some(all) if silent.is_empty() => (
                true,
                "LeasesRenewed",
                format!("{all} gateways renew their Leases"),
            ),
            Some(_) => (
                false,
                "LeaseNotRenewed",
                format!(
                    "not renewed for 30 s: {silent}. It cannot reach the API and goes on with the record that it knows, or it is gone"
                ),
            ),
        };
        Judged {
            kind: "GatewaysReachApi",
            said: Said::is(holds),
            reason: reason.to_owned(),
            message,
        }
    }

    /// Does the recorded MAIN answer as MAIN?
    fn main_serves(&self) -> Said {
        let (Some(document), Some(seen)) = (&self.told.document, &self.told.observed) else {
            return Said::No;
        };
        let Some(main) = &document.record.main else {
            return Said::No;
        };
        match answers_as(seen, main.pod, main.process, Role::Main) {
            Said::No if self.just_began() && !seen.is_gone(main.pod, main.process) => Said::Yes,
            said => said,
        }
    }

    /// The turn itself made it MAIN, after it was seen.
    fn just_began(&self) -> bool {
        self.told.acted.ended.is_none() && !self.told.acted.taken.is_empty()
    }
}

impl Judged {
    /// With the time since which it has been so. A turn that came to nothing knows nothing new; after some of them what
    /// was known is too old to be called so.
    fn dated(self, old: Option<&Condition>, told: &Told) -> Condition {
        let Self {
            kind,
            said,
            reason,
            message,
        } = self;
        let status = match (&told.error, old) {
            (Some(_), Some(old)) if told.failed < TOO_OLD => old.status.clone(),
            (Some(_), _) => "Unknown".to_owned(),
            (None, _) => said.status().to_owned(),
        };
        let since = old
            .filter(|old| old.status == status)
            .map_or_else(|| rfc3339(told.at), |old| old.last_transition_time.clone());
        Condition {
            kind: kind.to_owned(),
            status,
            reason,
            message,
            last_transition_time: since,
        }
    }
}

/// The name of a sentence, for programs.
pub(super) fn word(why: &Why) -> String {
    let shown = format!("{why:?}");
    shown.split([' ', '{']).next().unwrap_or_default().to_owned()
}

fn role(contact: &Contact) -> &'static str {
    match contact {
        Contact::Unknown => "unknown",
        Contact::Answered(answer) => match answer.role {
            Role::Main => "main",
            Role::Replica => "replica",
        },
        Contact::Refused { .. } => "refused",
        Contact::Silent { .. } => "silent",
    }
}

#[cfg(test)]
mod tests;
