//! A plan as text: everything in it that a reviewer, or a mutant, could change.

use super::cluster::Situation;
use mainstay_core::memgraph::Plan;
use mainstay_core::memgraph::ids::ProcessId;
use mainstay_core::memgraph::invariants;
use mainstay_core::memgraph::plan::{OnRefusal, Planned, Step, Target};
use mainstay_core::memgraph::reason::{Evidence, Reason};
use mainstay_core::memgraph::record::{Candidate, Claim, Main, Override, Record};
use mainstay_core::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Compares a table of situations with its snapshot, which has the name of the file and of the test.
macro_rules! assert_table {
    ($name:literal, [$($situation:expr),* $(,)?]) => {
        insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
            insta::assert_snapshot!($name, $crate::decisions::render::table(vec![$($situation),*]));
        })
    };
}
pub(crate) use assert_table;

/// Writes every situation out, with its plan. No plan may break an invariant.
///
/// Steps that an earlier situation of the table has in the same words are named, not repeated, so that what
/// differs is what is read.
pub(crate) fn table(situations: Vec<(&str, Situation)>) -> String {
    let mut written: BTreeMap<String, &str> = BTreeMap::new();
    let mut names = BTreeSet::new();
    let mut out = String::new();
    for (name, situation) in situations {
        assert!(names.insert(name), "two situations are called `{name}`");
        let plan = situation.plan();
        let broken = invariants::check(situation.record.as_ref(), &situation.seen, &plan, situation.now);
        assert!(
            broken.is_empty(),
            "`{name}` breaks an invariant:\n{}\n{broken:#?}",
            text(&plan)
        );
        let steps = steps_text(&plan);
        let first = *written.entry(steps.clone()).or_insert(name);
        let steps = if plan.steps.is_empty() || first == name {
            steps
        } else {
            format!("  as in `{first}`\n")
        };
        let _ = writeln!(
            out,
            "# {name}\n{}{steps}{}",
            reasons_text(&plan),
            wake_text(&plan)
        );
    }
    out
}

/// A plan in lines.
pub(crate) fn text(plan: &Plan) -> String {
    format!("{}{}{}", reasons_text(plan), steps_text(plan), wake_text(plan))
}

fn reasons_text(plan: &Plan) -> String {
    plan.reasons
        .iter()
        .fold(String::new(), |out, reason| out + &reason_line(reason) + "\n")
}

fn steps_text(plan: &Plan) -> String {
    if plan.steps.is_empty() {
        return "  (no step)\n".to_owned();
    }
    let steps = plan.steps.iter().enumerate();
    steps.fold(String::new(), |out, (index, planned)| {
        out + &step_lines(index + 1, planned) + "\n"
    })
}

fn wake_text(plan: &Plan) -> String {
    plan.wake
        .map_or(String::new(), |at| format!("  look again at {at}\n"))
}

fn reason_line(reason: &Reason) -> String {
    let evidence: Vec<String> = reason.evidence.iter().map(evidence_text).collect();
    let because = if evidence.is_empty() {
        String::new()
    } else {
        format!("  <- {}", evidence.join(", "))
    };
    format!("{reason}{because}")
}

fn evidence_text(evidence: &Evidence) -> String {
    let Evidence {
        fact,
        at,
        source,
        process,
    } = evidence;
    let who = process.map_or(String::new(), |p| format!(" of {:x}", p.0));
    format!("{fact:?}{who} at {at} by {source:?}")
}

fn step_lines(number: usize, planned: &Planned) -> String {
    let Planned { step, on_refusal } = planned;
    let refusal = match on_refusal {
        OnRefusal::End => String::new(),
        OnRefusal::GoOn => "  (refused: go on)".to_owned(),
        OnRefusal::Retry => "  (refused: retry)".to_owned(),
        OnRefusal::Undo(undo) => format!("  (spoiled: {undo}{})", details(undo)),
    };
    let mut out = format!("  {number}. {step}{}{refusal}", details(step));
    if let Some(record) = step.record() {
        let _ = write!(out, "{}", record_lines(record));
    }
    out
}

/// What a step's own words leave out.
fn details(step: &Step) -> String {
    let on = |Target { pod: _, process }: &Target| format!(" [{:x}]", process.0);
    match step {
        Step::CreateRecord(_)
        | Step::WriteRecord(_)
        | Step::PushRecord(_)
        | Step::AwaitGateways(..)
        | Step::Scale(_) => String::new(),
        Step::Demote(t)
        | Step::Promote(t)
        | Step::RunOnPromotion(t)
        | Step::Drop { on: t, name: _ }
        | Step::AdvanceMark {
            on: t,
            from: _,
            to: _,
        }
        | Step::WriteProof { on: t, proof: _ }
        | Step::ReadProof { on: t, proof: _ } => on(t),
        Step::AwaitFence {
            old,
            start_fence,
            term: _,
            otherwise: _,
        } => {
            format!("{} start fence {start_fence}", on(old))
        }
        Step::Register {
            on: t,
            name: _,
            mode: _,
            peer,
        } => format!("{} peer{}", on(t), on(peer)),
        Step::EndProcess { target, uid } | Step::DeletePod { target, uid } => {
            format!("{} uid {:x}", on(target), uid.0)
        }
        Step::WriteMarker { target, id: _, term } => format!("{} {term}", on(target)),
    }
}

fn record_lines(record: &Record) -> String {
    let Record {
        term,
        generation,
        revision,
        state,
        since,
        main,
        candidate,
        sync,
        writes,
        held_at,
        moved_at,
        honoured,
        exposed,
        reset,
        loose,
    } = record;
    let mut out = format!(
        "\n       {term} {generation} {revision} {state} since {since}, writes {writes:?}, exposed {exposed}, held at {held_at}"
    );
    if *moved_at != Time::ZERO {
        let _ = write!(out, ", moved at {moved_at}");
    }
    if let Some(Override { pod, until }) = honoured {
        let _ = write!(out, ", honoured {pod} until {until}");
    }
    if let Some(main) = main {
        let _ = write!(out, "\n       main {}", main_text(main));
    }
    if let Some(candidate) = candidate {
        let _ = write!(out, "\n       candidate {}", candidate_text(candidate));
    }
    if let Some(s) = sync {
        let _ = write!(
            out,
            "\n       sync {} {:x} volume {:x} {}",
            s.pod, s.process.0, s.volume.0, s.name
        );
    }
    if let Some(r) = reset {
        let _ = write!(
            out,
            "\n       reset {} {:x} {} in {}",
            r.pod, r.process.0, r.id, r.term
        );
    }
    for l in loose {
        let _ = write!(out, "\n       loose {} {:x}", l.pod, l.process.0);
    }
    out
}

fn main_text(main: &Main) -> String {
    let Main {
        pod,
        process,
        volume,
        database,
        term,
        epoch,
        peers,
        suspect,
        history_from,
        rebuilt,
        office_from,
        rival,
    } = main;
    let rival = rival.map_or(String::new(), |term| format!(", not in {}", term.0));
    format!(
        "{pod} {:x} volume {:x} database {:x} {term}, in office from {}{rival}, epoch {} with {}, history from {}{}{}",
        process.0,
        volume.0,
        database.0,
        office_from.0,
        epoch.0,
        peers_text(peers),
        history_from.0,
        if *suspect { ", suspect" } else { "" },
        if *rebuilt { ", rebuilt" } else { "" },
    )
}

fn candidate_text(candidate: &Candidate) -> String {
    let Candidate {
        pod,
        process,
        volume,
        peers,
        suspect,
        forced,
        claim,
    } = candidate;
    let suspect = if *suspect { ", suspect" } else { "" };
    let forced = if forced.is_some() { ", forced" } else { "" };
    let claim = match claim {
        None => String::new(),
        Some(Claim { process, alone }) => {
            let alone = if *alone { ", alone" } else { "" };
            format!(", its volume has the claim of {:x}{alone}", process.0)
        }
    };
    format!(
        "{pod} {:x} volume {:x}, saw {}{suspect}{forced}{claim}",
        process.0,
        volume.0,
        peers_text(peers)
    )
}

fn peers_text(peers: &[ProcessId]) -> String {
    if peers.is_empty() {
        return "nobody".to_owned();
    }
    peers
        .iter()
        .map(|p| format!("{:x}", p.0))
        .collect::<Vec<_>>()
        .join(" ")
}
