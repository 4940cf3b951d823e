//! Resets as people count them: the seeds' log lines and metrics, and the last ones in the status. Pure, but for the log.

use super::Told;
use crate::clock::rfc3339;
use api::memgraph::ResetStatus;
use mainstay_core::memgraph::Plan;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::objects::ClusterName;
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::reason::Why;
use mainstay_core::memgraph::record::Reset;
use mainstay_core::memgraph::turn::Outcome;
use mainstay_core::time::Time;
use std::collections::BTreeSet;
use std::time::Duration;

/// How many are remembered: more than an hour may have.
const REMEMBERED: usize = 60;

/// What a turn did about a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// It asked for one.
    Triggered(Ordinal),
    /// The clean replica is ready.
    Succeeded(Ordinal),
    /// It was given up, or belongs to another term.
    Failed(Ordinal),
}

/// What this turn did about a reset, if its record was written.
pub fn counted(told: &Told) -> Option<Counted> {
    let written = told.acted.taken.first()?.outcome == Outcome::Done;
    let recorded = matches!(told.plan.steps.first()?.step, Step::WriteRecord(_));
    if !(written && recorded) {
        return None;
    }
    // Not always the first: a healthy pair is said before what is done about another pod.
    told.plan.reasons.iter().find_map(|reason| match &reason.why {
        Why::ResetReplica { pod } | Why::ResetWanted { pod } => Some(Counted::Triggered(*pod)),
        Why::ResetOver { pod } => Some(Counted::Succeeded(*pod)),
        Why::ResetGivenUp { pod } | Why::ResetOverruled { pod } => Some(Counted::Failed(*pod)),
        _ => None,
    })
}

/// The pods that this turn called diverged.
pub fn diverged(told: &Told) -> BTreeSet<Ordinal> {
    let reasons = told.plan.reasons.iter();
    reasons.filter_map(|reason| reason.why.diverged()).collect()
}

/// Says in the seeds' words what is about to happen. What users grep for, with the keys that they know.
pub fn announce(cluster: &ClusterName, plan: &Plan) {
    let begins = matches!(plan.steps.first().map(|p| &p.step), Some(Step::WriteRecord(_)));
    let diverged = plan.reasons.iter().find_map(|reason| match reason.why {
        Why::ResetReplica { pod } => Some(pod),
        _ => None,
    });
    let Some(pod) = diverged.filter(|_| begins) else {
        return;
    };
    let pod_name = cluster.pod(pod);
    let replica_name = pod_name.replace('-', "_");
    tracing::warn!(
        pod_name,
        replica_name,
        "Initiating hard reset for diverged async replica"
    );
}

/// Adds the reset that the record asks for, once. A request is known by its number and its time: numbers begin anew
/// when a record was lost.
pub fn note(resets: &mut Vec<ResetStatus>, asked: Option<(Reset, String)>) {
    let Some((reset, pod)) = asked else { return };
    let (id, at) = (reset.id.0, rfc3339(reset.since));
    if resets.iter().any(|known| known.id == id && known.at == at) {
        return;
    }
    resets.push(ResetStatus { id, pod, at });
    let many = resets.len().saturating_sub(REMEMBERED);
    resets.drain(..many);
}

/// How many were asked for in the hour before now. Read from the status: an operator that starts must know it too.
pub fn last_hour(resets: &[ResetStatus], now: Time) -> u32 {
    let hour_ago = rfc3339(now - Duration::from_hours(1));
    // Both in UTC and of the same length: they compare as times.
    let recent = resets.iter().filter(|reset| reset.at > hour_ago).count();
    u32::try_from(recent).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memgraph::act::{Acted, Taken};
    use mainstay_core::memgraph::Record;
    use mainstay_core::memgraph::ids::{ProcessId, ResetId, Term, VolumeId};
    use mainstay_core::memgraph::reason::Reason;
    use mainstay_core::memgraph::record::Candidate;
    use mainstay_core::memgraph::rules::Rule;

    fn reset(id: u64, at: u64) -> (Reset, String) {
        let reset = Reset {
            pod: Ordinal(2),
            process: ProcessId(1),
            id: ResetId(id),
            term: Term(1),
            since: Time(at),
            keep: false,
        };
        (reset, "db-2".to_owned())
    }

    #[test]
    fn each_request_counts_once_and_for_an_hour() {
        let mut all = Vec::new();
        let hour = 3_600_000;
        for asked in [reset(7, hour), reset(7, hour), reset(9, 2 * hour)] {
            note(&mut all, Some(asked));
        }
        note(&mut all, None);
        assert_eq!(all.len(), 2);
        assert_eq!(last_hour(&all, Time(2 * hour + 60_000)), 1);
        assert_eq!(last_hour(&all, Time(2 * hour - 60_000)), 2);
        assert_eq!(last_hour(&all, Time(4 * hour)), 0);
    }

    fn told(why: Why, outcome: Outcome) -> Told {
        let candidate = Candidate {
            pod: Ordinal(0),
            process: ProcessId(1),
            volume: VolumeId(1),
            peers: vec![],
            suspect: false,
            forced: None,
            claim: None,
        };
        let record = Record::initialising(Term(1), candidate, Time(1));
        Told {
            plan: Plan::because(Reason::new(Rule::Prove, Why::Healthy { main: Ordinal(0) }))
                .also(Reason::new(Rule::Reset, why))
                .then(Step::WriteRecord(Box::new(record))),
            acted: Acted {
                taken: vec![Taken {
                    term: None,
                    step: String::new(),
                    phase: None,
                    outcome,
                    took: Duration::ZERO,
                }],
                ..Acted::default()
            },
            ..Told::default()
        }
    }

    #[test]
    fn what_was_not_written_did_not_happen() {
        let pod = Ordinal(2);
        for (why, wanted) in [
            (Why::ResetReplica { pod }, Counted::Triggered(pod)),
            (Why::ResetWanted { pod }, Counted::Triggered(pod)),
            (Why::ResetOver { pod }, Counted::Succeeded(pod)),
            (Why::ResetGivenUp { pod }, Counted::Failed(pod)),
            (Why::ResetOverruled { pod }, Counted::Failed(pod)),
        ] {
            assert_eq!(counted(&told(why, Outcome::Done)), Some(wanted));
            assert_eq!(counted(&told(why, Outcome::Refused)), None);
        }
        assert_eq!(counted(&told(Why::ResetPending { pod }, Outcome::Done)), None);
    }

    #[test]
    fn who_is_diverged_is_counted_whether_it_is_reset_or_not() {
        let pod = Ordinal(2);
        for why in [
            Why::ResetReplica { pod },
            Why::ResetPending { pod },
            Why::NoRoom { pod },
            Why::NeedsApproval { pod },
        ] {
            assert_eq!(diverged(&told(why, Outcome::Done)), BTreeSet::from([pod]));
        }
        assert!(diverged(&told(Why::Healthy { main: pod }, Outcome::Done)).is_empty());
    }
}
