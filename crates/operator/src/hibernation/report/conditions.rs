//! The conditions of a plan. `docs/runbooks` has a page for each that can be bad.

use super::status::{Followed, Report, conflicts, is_trouble};
use crate::clock::rfc3339;
use api::memgraph::Condition;
use mainstay_core::hibernation::Phase;
use mainstay_core::hibernation::reason::Why;
use mainstay_core::hibernation::state::{Operation, Stand, State};

/// A write failed that the rest of the turn rested on.
const TURN_FAILED: &str = "TurnFailed";

/// What is true, what is not, and why.
struct Judged {
    kind: &'static str,
    holds: bool,
    reason: String,
    message: String,
}

fn judged(kind: &'static str, holds: bool, reason: &str, message: impl Into<String>) -> Judged {
    Judged {
        kind,
        holds,
        reason: reason.to_owned(),
        message: message.into(),
    }
}

/// It holds, or does not, because of this reason; the opposite if there is none.
fn because(kind: &'static str, holds: bool, why: Option<&Why>, otherwise: &str) -> Judged {
    match why {
        Some(why) => judged(kind, holds, why.id(), why.to_string()),
        None => judged(kind, !holds, otherwise, ""),
    }
}

/// The same with a sentence.
fn said(kind: &'static str, text: Option<String>, reason: &str, otherwise: &str) -> Judged {
    match text {
        Some(text) => judged(kind, true, reason, text),
        None => judged(kind, false, otherwise, ""),
    }
}

/// What is known of a plan now. What was bad is good again only when somebody has looked.
struct Eyes {
    /// Nobody went through the targets.
    closed: bool,
    /// Of some target it is not known whether it runs.
    half: bool,
}

impl Eyes {
    fn of(state: Option<&State>, report: &Report<'_>) -> Self {
        let open = state.and_then(|s| s.open.as_ref());
        let suspended = state.is_some_and(|s| s.phase == Phase::Suspended);
        let down = open.is_some_and(|cycle| cycle.operation == Operation::Shutdown);
        let refused = report.looks.values().any(Result::is_err);
        Self {
            closed: matches!(report.followed, Followed::Not(_))
                || suspended
                || state.is_none()
                || (open.is_some() && !report.watched),
            half: down && (refused || report.reasons.iter().any(is_lost)),
        }
    }
}

/// What was bad before stays so if nobody has looked, and is bad for the reason that it was.
fn kept(one: Judged, good: bool, blind: bool, before: &[Condition]) -> Judged {
    let well = if good { "True" } else { "False" };
    let known = before.iter().find(|c| c.kind == one.kind && c.status != well);
    match known {
        // That a turn failed is said of that turn.
        Some(c) if blind && one.holds == good && c.reason != TURN_FAILED => {
            judged(one.kind, !good, &c.reason, c.message.clone())
        }
        _ => one,
    }
}

/// All conditions; those that did not change keep their time.
pub(super) fn conditions(state: Option<&State>, report: &Report<'_>, before: &[Condition]) -> Vec<Condition> {
    let phase = state.map(|s| s.phase);
    let find = |is: fn(&Why) -> bool| report.reasons.iter().find(|why| is(why));
    let named = phase.map_or_else(|| "New".to_owned(), |p| p.to_string());
    // A fight that was given up needs a human, whatever else runs.
    let drift = find(is_contended).or_else(|| find(is_drift));
    let Eyes { closed, half } = Eyes::of(state, report);
    let keep = |one: Judged, good: bool, blind: bool| kept(one, good, blind, before);
    let mut all = vec![
        match report.followed {
            Followed::Whole => judged("Followed", true, "Followed", ""),
            Followed::AsRecorded(bad) | Followed::Not(bad) => {
                judged("Followed", false, bad.id(), bad.to_string())
            }
        },
        judged("Asleep", phase == Some(Phase::Hibernated), &named, ""),
        keep(healthy(phase, report), true, closed),
        keep(intact(state, find(is_lost), before), true, closed),
        keep(because("Drifted", true, drift, "AsAsked"), false, closed || half),
        judged("Suspended", phase == Some(Phase::Suspended), &named, ""),
        match report.notes.first() {
            Some(note) => judged("Understood", false, note.reason, note.text.clone()),
            None => judged("Understood", true, "Understood", ""),
        },
        keep(
            because("UpToDate", false, find(is_edited), "UpToDate"),
            true,
            closed,
        ),
    ];
    if !report.looks.is_empty() && report.selected {
        let found = conflicts(report.looks);
        let text = (!found.is_empty()).then(|| found.join("; "));
        all.push(said("Conflict", text, "Conflict", "NoOtherPlan"));
    }
    if let Some(outlook) = report.outlook {
        let (long, both) = (outlook.long.clone(), outlook.collisions.clone());
        all.push(said("LongSleep", long, "MoreThan72Hours", "NoLongSleep"));
        all.push(said("ExceptionsCollide", both, "SameTypeAtOnce", "NoCollision"));
    }
    let mut written: Vec<Condition> = all.into_iter().map(|one| since(one, report, before)).collect();
    // What was not looked at is as it was.
    let left = before
        .iter()
        .filter(|c| !written.iter().any(|w| w.kind == c.kind));
    let left: Vec<Condition> = left.cloned().collect();
    written.extend(left);
    written
}

fn healthy(phase: Option<Phase>, report: &Report<'_>) -> Judged {
    if let Some(error) = report.error {
        return judged("Healthy", false, TURN_FAILED, error);
    }
    let failed = report
        .reasons
        .iter()
        .find(|why| is_trouble(why) && !is_drift(why));
    match failed {
        Some(why) => judged("Healthy", false, why.id(), why.to_string()),
        None if phase == Some(Phase::Error) => judged("Healthy", false, "Error", ""),
        None => judged("Healthy", true, "NothingFailed", ""),
    }
}

/// A point that is lost is said once, and goes on being lost until it is back or given up.
fn intact(state: Option<&State>, why: Option<&Why>, before: &[Condition]) -> Judged {
    let kind = "RestorePointsIntact";
    let open = state.and_then(|s| s.open.as_ref());
    let mut targets = open.into_iter().flat_map(|cycle| cycle.targets.values());
    let lost = targets.find(|progress| progress.stand == Stand::Lost);
    match (why, lost) {
        (Some(why), _) => judged(kind, false, why.id(), why.to_string()),
        (None, Some(progress)) => {
            let known = before.iter().find(|c| c.kind == kind && c.status == "False");
            let reason = known.map_or("Lost", |c| c.reason.as_str());
            judged(kind, false, reason, progress.message.clone().unwrap_or_default())
        }
        (None, None) => judged(kind, true, "Intact", ""),
    }
}

fn is_lost(why: &Why) -> bool {
    matches!(
        why,
        Why::NoRestorePoint { .. }
            | Why::RestorePointIncomplete { .. }
            | Why::RestorePointCorrupt { .. }
            | Why::RestorePointOld { .. }
    )
}

fn is_edited(why: &Why) -> bool {
    matches!(why, Why::SpecDiffers { .. })
}

fn is_drift(why: &Why) -> bool {
    matches!(
        why,
        Why::Drifted { .. } | Why::Enforced { .. } | Why::Contended { .. }
    )
}

fn is_contended(why: &Why) -> bool {
    matches!(why, Why::Contended { .. })
}

fn since(one: Judged, report: &Report<'_>, before: &[Condition]) -> Condition {
    let Judged {
        kind,
        holds,
        reason,
        message,
    } = one;
    let status = if holds { "True" } else { "False" };
    let known = before.iter().find(|c| c.kind == kind && c.status == status);
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason,
        message,
        last_transition_time: known.map_or_else(|| rfc3339(report.now), |c| c.last_transition_time.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hibernation::report::{Note, Outlook};
    use mainstay_core::time::Time;
    use std::collections::BTreeMap;
    use std::path::Path;

    fn docs() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
    }

    fn told(reasons: &[Why], notes: &[Note]) -> Vec<Condition> {
        let bad = api::hibernation::BadPlan::Plan(mainstay_core::hibernation::plan::PlanError::NoTargets);
        let outlook = Outlook {
            next: None,
            long: None,
            collisions: None,
        };
        let looks = BTreeMap::from([(
            mainstay_core::hibernation::ids::TargetName::parse("web").unwrap(),
            Ok(BTreeMap::new()),
        )]);
        let report = Report {
            followed: Followed::Not(&bad),
            outlook: Some(&outlook),
            reasons,
            recorded: &BTreeMap::new(),
            looks: &looks,
            selected: true,
            watched: true,
            error: None,
            notes,
            now: Time(0),
        };
        conditions(None, &report, &[])
    }

    #[test]
    fn every_condition_has_a_row_and_every_runbook_that_a_row_names_exists() {
        let text = std::fs::read_to_string(docs().join("hibernation.md")).unwrap();
        let (_, rest) = text.split_once("\n## Conditions\n").unwrap();
        let (table, _) = rest.split_once("\n## ").unwrap();
        let all = told(&[], &[]);
        assert!(all.len() >= 11, "{all:?}");
        for condition in all {
            let name = format!("`{}`", condition.kind);
            let row = table.lines().find(|line| line.contains(&name));
            let row = row.unwrap_or_else(|| panic!("{name} has no row"));
            // Asleep is never bad.
            let page = row.split_once("](").and_then(|(_, rest)| rest.split_once(')'));
            match page {
                Some((page, _)) => assert!(docs().join(page).exists(), "{page}"),
                None => assert_eq!(condition.kind, "Asleep", "{row}"),
            }
        }
    }

    #[test]
    fn every_reason_that_a_bad_condition_may_carry_is_in_the_table_of_reasons() {
        let text = std::fs::read_to_string(docs().join("hibernation.md")).unwrap();
        let (_, table) = text.split_once("\n## Reasons\n").unwrap();
        for reason in [
            "ScheduleInvalid",
            "PlanInvalid",
            "ExceptionInvalid",
            "AnnotationUnreadable",
            "TurnFailed",
            "LookFailed",
            "CallFailed",
            "GateTimedOut",
            "Failed",
            "GivenUp",
            "PointTooLarge",
            "NoRestorePoint",
            "RestorePointIncomplete",
            "RestorePointCorrupt",
            "RestorePointOld",
            "Contended",
            "Drifted",
            "Enforced",
            "Partial",
            "SpecDiffers",
            "Conflict",
        ] {
            assert!(table.contains(&format!("`{reason}`")), "{reason}");
        }
    }

    #[test]
    fn what_was_not_understood_and_what_waits_for_the_next_cycle_are_conditions() {
        let of = |all: &[Condition], kind: &str| {
            let one = all.iter().find(|c| c.kind == kind).unwrap();
            (one.status.clone(), one.reason.clone())
        };
        let well = told(&[], &[]);
        assert_eq!(of(&well, "Understood").0, "True");
        assert_eq!(of(&well, "UpToDate").0, "True");
        let note = Note {
            reason: "AnnotationUnreadable",
            text: "x".to_owned(),
        };
        let cycle = mainstay_core::hibernation::ids::CycleId(1);
        let bad = told(&[Why::SpecDiffers { cycle }], &[note]);
        let is = |reason: &str| ("False".to_owned(), reason.to_owned());
        assert_eq!(of(&bad, "Understood"), is("AnnotationUnreadable"));
        assert_eq!(of(&bad, "UpToDate"), is("SpecDiffers"));
    }
    #[test]
    fn s79_a_fight_that_was_given_up_is_not_hidden_by_what_is_only_reported() {
        let target = |name| mainstay_core::hibernation::ids::TargetName::parse(name).unwrap();
        let (first, second) = (target("api"), target("web"));
        let drifted = Why::Drifted {
            target: first,
            count: 1,
        };
        let all = told(&[drifted, Why::Contended { target: second }], &[]);
        let one = all.iter().find(|c| c.kind == "Drifted").unwrap();
        assert_eq!((one.status.as_str(), one.reason.as_str()), ("True", "Contended"));
    }

    /// What is said of a plan with an open cycle in this phase, after this was said before.
    fn after(phase: Phase, watched: bool, reasons: &[Why], before: &[Condition]) -> Vec<Condition> {
        use mainstay_core::hibernation::ids::{CycleId, ExecutorName, TargetName};
        use mainstay_core::hibernation::plan::{Behaviour, DEFAULT_GATE, Drift, Intent, Strategy, Target};
        let target = Target {
            name: TargetName::parse("web").unwrap(),
            executor: ExecutorName::parse("noop").unwrap(),
            parameters: serde_json::Value::Null,
            ready_within: DEFAULT_GATE,
            drift: Drift::Ignore,
        };
        let intent = Intent::new(vec![target], Strategy::Sequential, Behaviour::default()).unwrap();
        let cycle = mainstay_core::hibernation::state::Cycle::begin(CycleId(1), intent, Time(0));
        let state = State::first(CycleId(1), Time(0))
            .with(cycle)
            .in_phase(phase, Time(0));
        let none = BTreeMap::new();
        let report = Report {
            followed: Followed::Whole,
            outlook: None,
            reasons,
            recorded: &BTreeMap::new(),
            looks: &none,
            selected: true,
            watched,
            error: None,
            notes: &[],
            now: Time(0),
        };
        conditions(Some(&state), &report, before)
    }

    #[test]
    fn what_was_bad_is_good_again_only_when_somebody_has_looked() {
        let web = || mainstay_core::hibernation::ids::TargetName::parse("web").unwrap();
        let bad = [
            Why::NoRestorePoint { target: web() },
            Why::Contended { target: web() },
            Why::SpecDiffers {
                cycle: mainstay_core::hibernation::ids::CycleId(1),
            },
        ];
        let night = after(Phase::Hibernated, true, &bad, &[]);
        let kinds = ["RestorePointsIntact", "Drifted", "UpToDate", "Healthy"];
        let of = |all: &[Condition], kind: &str| {
            let one = all.iter().find(|c| c.kind == kind).unwrap();
            (one.status.clone(), one.reason.clone(), one.message.clone())
        };
        let suspended = after(Phase::Suspended, false, &[Why::StillSuspended], &night);
        // Also in a turn that only writes down which way it goes.
        let turned = after(Phase::WakingUp, false, &[Why::RetryAsked], &night);
        for kind in kinds {
            assert_eq!(of(&suspended, kind), of(&night, kind));
            assert_eq!(of(&turned, kind), of(&night, kind));
        }
        let looked = after(Phase::Hibernated, true, &[], &turned);
        let well = kinds.map(|kind| of(&looked, kind).0);
        assert_eq!(well, ["True", "False", "True", "True"]);
    }
}
