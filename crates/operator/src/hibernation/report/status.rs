//! The status of a plan: one sentence of what happened and what comes next, and everything behind it.

use super::Note;
use super::conditions::conditions;
use super::ledger;
use crate::clock::rfc3339;
use api::HibernatePlan as Object;
use api::hibernation::{BadPlan, HibernatePlanStatus, NextStatus, TargetStatus};
use mainstay_core::hibernation::HibernatePlan;
use mainstay_core::hibernation::ids::{ResourceId, TargetName};
use mainstay_core::hibernation::observed::{Look, Refusal, Skip};
use mainstay_core::hibernation::reason::Why;
use mainstay_core::hibernation::several::Several;
use mainstay_core::hibernation::state::{Cycle, Progress, Stand, State};
use mainstay_core::schedule::preview::long_sleeps;
use mainstay_core::schedule::{Desired, Slot};
use mainstay_core::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What an error says when a restore point could not be written.
const NOT_SAVED: &str = "failed to save restore data";

/// So many reasons are in a status.
const MOST_LINES: usize = 64;

/// How far a plan is looked ahead.
const AHEAD: Duration = Duration::from_hours(14 * 24);

/// What the schedule has in store. It is worked out once for a schedule and a slot of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// What comes next.
    pub next: Option<NextStatus>,
    /// The first sleep of more than 72 hours, in words.
    pub long: Option<String>,
    /// Exceptions of one type that are valid at the same time, in words.
    pub collisions: Option<String>,
}

impl Outlook {
    /// Looks ahead.
    pub fn of(plan: &HibernatePlan, slot: &Slot, now: Time) -> Self {
        let next = slot.until.map(|at| {
            let then = plan.schedule.at(at);
            NextStatus {
                desired: format!("{:?}", then.desired),
                at: rfc3339(at),
                why: then.why.to_string(),
            }
        });
        let long = long_sleeps(&plan.schedule, now, now + AHEAD);
        let collisions = plan.schedule.collisions();
        Self {
            next,
            long: long.first().map(|entry| {
                let hours = entry.interval.to.since(entry.interval.from).as_secs() / 3600;
                let (from, to) = (&entry.begins_local, &entry.ends_local);
                format!("asleep for {hours} hours, from {from} to {to}: if that is not meant, `mainstay hibernate preview` shows which window it is")
            }),
            collisions: collisions.first().map(|(a, b)| {
                let (a, b) = (a.name(), b.name());
                format!("exceptions `{a}` and `{b}` are of one type and valid at the same time: their windows count together")
            }),
        }
    }
}

/// How far a plan is followed.
#[derive(Clone, Copy, Debug)]
pub enum Followed<'a> {
    /// As it is written.
    Whole,
    /// Its targets or their order make no sense: to the end of the cycle that is open, as that began.
    AsRecorded(&'a BadPlan),
    /// Not at all.
    Not(&'a BadPlan),
}

/// What a status is made of.
pub struct Report<'a> {
    /// Whether the plan is followed.
    pub followed: Followed<'a>,
    /// What the schedule has in store.
    pub outlook: Option<&'a Outlook>,
    /// Why the turn did what it did.
    pub reasons: &'a [Why],
    /// The resources of each target that ran when they were recorded in the open cycle.
    pub recorded: &'a BTreeMap<TargetName, BTreeSet<ResourceId>>,
    /// What was looked at.
    pub looks: &'a BTreeMap<TargetName, Result<Look, Refusal>>,
    /// What targets select was among it, and not only what is recorded.
    pub selected: bool,
    /// Every target of the open cycle was gone through.
    pub watched: bool,
    /// What went wrong besides.
    pub error: Option<&'a str>,
    /// Things to say that change nothing.
    pub notes: &'a [Note],
    /// Now.
    pub now: Time,
}

/// The status of a plan that remembers this.
pub fn status(object: &Object, state: Option<&State>, report: &Report<'_>) -> HibernatePlanStatus {
    let before = object.status.clone().unwrap_or_default();
    let open = state.and_then(|s| s.open.as_ref());
    let reasons = report.reasons.iter().map(ToString::to_string);
    let reasons = lines(reasons.chain(report.notes.iter().map(|note| note.text.clone())));
    HibernatePlanStatus {
        observed_generation: object.metadata.generation,
        phase: state.map(|s| s.phase.to_string()),
        since: state.map(|s| rfc3339(s.since)),
        message: message(report),
        next: report.outlook.and_then(|o| o.next.clone()),
        cycle: state.map(|s| s.cycle.0),
        operation: open.map(|c| format!("{:?}", c.operation)),
        targets: open.map(|cycle| targets(cycle, report)).unwrap_or_default(),
        asleep: open
            .map(|cycle| ledger::asleep(&before, cycle, report))
            .unwrap_or_default(),
        reasons,
        conditions: conditions(state, report, &before.conditions),
        history: state
            .map(|state| ledger::history(&before, state, report.now))
            .unwrap_or_default(),
        state: match state {
            Some(state) => serde_json::to_value(state).ok(),
            None => before.state,
        },
    }
}

/// The first of them, and how many there are besides: a status has no room for all that a plan of many targets says.
fn lines(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = all.peekable();
    let mut lines: Vec<String> = all.by_ref().take(MOST_LINES).collect();
    if all.peek().is_some() {
        lines.push(format!("and {} more", all.count()));
    }
    lines
}

/// What happened, and what comes next.
fn message(report: &Report<'_>) -> String {
    let happened = match (report.followed, report.error) {
        (Followed::Not(bad), _) => return format!("nothing is touched: {bad}"),
        (Followed::Whole | Followed::AsRecorded(_), Some(error)) => error.to_owned(),
        (Followed::AsRecorded(bad), None) => {
            let ends = format!("what has begun ends as it began, and nothing else begins: {bad}");
            match report.reasons.iter().find(|why| is_trouble(why)) {
                Some(worst) => format!("{worst}; {ends}"),
                None => ends,
            }
        }
        (Followed::Whole, None) => {
            let worst = report.reasons.iter().find(|why| is_trouble(why));
            let first = worst.or_else(|| report.reasons.first());
            first.map(ToString::to_string).unwrap_or_default()
        }
    };
    match report.outlook.and_then(|o| o.next.as_ref()) {
        Some(NextStatus { desired, at, why }) => {
            let asleep = *desired == format!("{:?}", Desired::Asleep);
            let desired = if asleep { "asleep" } else { "awake" };
            format!("{happened}. Next: {desired} at {at} ({why})")
        }
        None => happened,
    }
}

/// Is it something that a human should read first?
pub(super) fn is_trouble(why: &Why) -> bool {
    matches!(
        why,
        Why::LookFailed { .. }
            | Why::Unseen { .. }
            | Why::CallFailed { .. }
            | Why::GateTimedOut { .. }
            | Why::Failed { .. }
            | Why::GivenUp { .. }
            | Why::PointTooLarge { .. }
            | Why::NoRestorePoint { .. }
            | Why::RestorePointIncomplete { .. }
            | Why::RestorePointCorrupt { .. }
            | Why::RestorePointOld { .. }
            | Why::Contended { .. }
            | Why::Drifted { .. }
            | Why::Partial { .. }
    )
}

/// The targets of which this turn captured something that the API did not take. Nothing of them is stopped.
fn unsaved<'a>(report: &Report<'a>) -> BTreeSet<&'a TargetName> {
    let refused = report.error.is_some_and(|e| e.starts_with(NOT_SAVED));
    let captured = report.reasons.iter().filter_map(|why| match why {
        Why::Captured { target, .. } | Why::NothingSelected { target } => Some(target),
        _ => None,
    });
    captured.filter(|_| refused).collect()
}

fn targets(cycle: &Cycle, report: &Report<'_>) -> Vec<TargetStatus> {
    let unsaved = unsaved(report);
    let one = |(name, progress): (&TargetName, &Progress)| {
        let (state, retry_at) = match progress.stand {
            _ if unsaved.contains(name) => ("Failed", None),
            Stand::Pending => ("Pending", None),
            Stand::Running { .. } => ("Running", None),
            Stand::Done => ("Done", None),
            Stand::Lost => ("Lost", None),
            Stand::Failed { retry_at } => ("Failed", retry_at),
        };
        let executor = cycle.intent.target(name).map(|t| t.executor.to_string());
        TargetStatus {
            name: name.to_string(),
            executor: executor.unwrap_or_default(),
            state: state.to_owned(),
            attempts: progress.attempts,
            message: match report.error {
                Some(error) if unsaved.contains(name) => Some(error.to_owned()),
                _ => progress.message.clone(),
            },
            retry_at: retry_at.map(rfc3339),
        }
    };
    cycle.targets.iter().map(one).collect()
}

/// The resources that another plan has the better right to, in words.
pub(super) fn conflicts(looks: &BTreeMap<TargetName, Result<Look, Refusal>>) -> Vec<String> {
    let mut found: BTreeMap<(&TargetName, &Skip), Vec<ResourceId>> = BTreeMap::new();
    for (name, look) in looks {
        for (id, resource) in look.as_ref().into_iter().flatten() {
            if let Some(skip @ Skip::ClaimedBy(_)) = &resource.skip {
                found.entry((name, skip)).or_default().push(id.clone());
            }
        }
    }
    let said = found.into_iter().map(|((name, skip), ids)| {
        let resources = Several::new(ids);
        format!("`{name}`: {resources} left alone, {skip}")
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_so_many_lines_and_says_how_many_there_are_besides() {
        let said = |count: usize| lines((0..count).map(|n| n.to_string()));
        assert_eq!(said(MOST_LINES).len(), MOST_LINES);
        let many = said(1000);
        assert_eq!(many.len(), MOST_LINES + 1);
        assert_eq!(many.last().map(String::as_str), Some("and 936 more"));
    }
}
