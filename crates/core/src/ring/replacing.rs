//! A member that lost its storage: held, confirmed, permitted.

use super::checks::{self, Case, Finding, Letter};
use super::ids::Member;
use super::joining::granted;
use super::ledger::{Known, Ledger, Phase, Task, Work};
use super::orphan;
use super::reason::{Check, Why};
use super::stamp::Report;
use super::step::{Plan, Step};
use super::view::View;

pub(super) use super::orphan::evict;

/// The first lost member for which all checks hold, or why there is none.
pub(super) fn begin(view: &View<'_>) -> Plan {
    let mut held = Plan::default();
    for (member, known) in &view.ledger.known {
        let Some(loss) = loss(view, member, known) else {
            continue;
        };
        let plan = consider(view, member, known);
        if !plan.steps.is_empty() {
            return plan.also(loss);
        }
        held.reasons.push(loss);
        held.reasons.extend(plan.reasons);
        held = held.showing(plan.findings);
    }
    held
}

/// The loss of this member, if it lost anything that a replacement can bring back.
fn loss(view: &View<'_>, member: &Member, known: &Known) -> Option<Why> {
    let (member, host) = (member.clone(), known.host);
    view.spec().declared(&member)?;
    if view.seen.report(&member).is_some_and(Report::waits_empty) {
        Some(Why::StorageLost { member, host })
    } else if orphan::is_orphaned(view, &member) {
        Some(Why::NodeGone { member })
    } else {
        None
    }
}

fn consider(view: &View<'_>, member: &Member, known: &Known) -> Plan {
    if !view.spec().automatic {
        let member = member.clone();
        return Plan::because(Why::NotAutomatic { member });
    }
    if let Some(plan) = second_chance(view, member, known) {
        return plan;
    }
    let case = case(view, member, known, false);
    match verdict(&case) {
        Verdict::Holds(findings) => {
            let until = view.now + view.spec().timing.confirm;
            let member = member.clone();
            let work = Work {
                member: member.clone(),
                task: Task::Replace {
                    lost: known.clone(),
                    manual: false,
                },
                phase: Phase::Confirming,
                since: view.now,
                failed: 0,
            };
            Plan::because(Why::Confirming { member, until })
                .write(view.ledger.working(work))
                .showing(findings)
                .wake_at(until)
        }
        Verdict::Teach(plan) | Verdict::Held(plan) => plan,
    }
}

/// A folder that is empty in the pod that had data in it: perhaps a mount failed. A new pod mounts anew; and a disk that
/// comes back later finds another pod there, so that its gate asks before it starts.
///
/// A gate that waits serves nobody. If its pod is ready, either that is old news or what stands on the pod is not its gate's
/// word: then the others are asked first.
pub(super) fn second_chance(view: &View<'_>, member: &Member, known: &Known) -> Option<Plan> {
    let report = view.seen.report(member)?;
    let pod = view.seen.member(member)?.pod.as_ref()?;
    let anew = report.ran && report.waits_empty();
    if anew
        && pod.runs
        && let Some(check) = checks::lives(&view.witnesses(member), known.host)
    {
        return Some(Plan::because(held(member, &check)));
    }
    anew.then(|| {
        let uid = pod.uid;
        let member = member.clone();
        Plan::because(Why::SecondChance {
            member: member.clone(),
        })
        .then(Step::DeletePod { member, uid })
    })
}

pub(super) fn case<'a>(view: &View<'a>, member: &'a Member, lost: &'a Known, manual: bool) -> Case<'a> {
    Case {
        view: *view,
        member,
        lost,
        manual,
        pod_waits: view.seen.report(member).is_some_and(Report::waits_empty),
    }
}

/// How the checks of a case stand.
pub(super) enum Verdict {
    /// All hold.
    Holds(Vec<Finding>),
    /// All would hold if some members listed its address as a seed: they are told to.
    Teach(Plan),
    /// Some do not.
    Held(Plan),
}

pub(super) fn verdict(case: &Case<'_>) -> Verdict {
    let findings = checks::findings(case);
    let open: Vec<&Finding> = findings.iter().filter(|f| !f.holds()).collect();
    let Some(first) = open.first() else {
        return Verdict::Holds(findings);
    };
    let untaught = matches!(first.check, Check::SeedNotTaught { .. });
    if untaught && open.len() == 1 {
        return Verdict::Teach(teach(case).showing(findings));
    }
    let human = open.iter().find(|f| f.check.needs_human());
    let why = held(case.member, &human.unwrap_or(first).check);
    Verdict::Held(Plan::because(why).showing(findings))
}

pub(super) fn held(member: &Member, check: &Check) -> Why {
    let (member, check) = (member.clone(), check.clone());
    if check.needs_human() {
        Why::HeldForHuman { member, check }
    } else {
        Why::Held { member, check }
    }
}

fn teach(case: &Case<'_>) -> Plan {
    let seeds = case.view.seen.addresses();
    let untaught = checks::untaught(case).into_iter();
    untaught.fold(Plan::default(), |plan, peer| {
        let why = Why::TeachSeeds {
            member: case.member.clone(),
            peer: peer.clone(),
        };
        plan.also(why).then(Step::TeachSeeds {
            peer: peer.clone(),
            seeds: seeds.clone(),
        })
    })
}

/// The checks held once. They must hold now, and at the end.
pub(super) fn confirm(view: &View<'_>, work: &Work, lost: &Known, manual: bool) -> Plan {
    let member = &work.member;
    let waits = view.seen.report(member).is_some_and(Report::waits_empty);
    if !waits && !orphan::is_orphaned(view, member) {
        // Its own disk is back, or nobody knows: either way nothing is lost that this was about.
        let member = member.clone();
        return Plan::because(Why::CameBack { member }).write(view.ledger.idle());
    }
    if let Some(plan) = second_chance(view, member, lost) {
        return plan;
    }
    let case = case(view, member, lost, manual);
    let findings = match verdict(&case) {
        Verdict::Holds(findings) => findings,
        Verdict::Teach(plan) => return plan,
        Verdict::Held(plan) => {
            let member = member.clone();
            return plan.also(Why::Withdrawn { member }).write(view.ledger.idle());
        }
    };
    let until = work.since + view.spec().timing.confirm;
    if view.now < until {
        let member = member.clone();
        return Plan::because(Why::Confirming { member, until })
            .showing(findings)
            .wake_at(until);
    }
    if waits {
        permit(view, work, &case).showing(findings)
    } else {
        orphan::give_up_volume(view, work).showing(findings)
    }
}

/// The permission. It names what the gate holds right now.
pub(super) fn permit(view: &View<'_>, work: &Work, case: &Case<'_>) -> Plan {
    let witnesses = view.witnesses(&work.member);
    let known = |a: &&super::observed::Answer| a.node(case.lost.host).map(|n| n.generation);
    let generation = witnesses.iter().filter_map(known).max().unwrap_or(0);
    match granted(view, work.clone(), checks::seeds(case), generation) {
        Some(next) => {
            let grant = next.grants;
            let member = work.member.clone();
            Plan::because(Why::Permit { member, grant }).write(next)
        }
        None if reports_bootstrapped(view, &work.member) => Plan::because(Why::DamagedDisk {
            member: work.member.clone(),
        }),
        None => Plan::because(held(&work.member, &Check::AddressUnknown)),
    }
}

/// The gate speaks of a disk as of an empty one, and has not heard yet that it is a member's, or was.
fn reports_bootstrapped(view: &View<'_>, member: &Member) -> bool {
    let report = view.seen.report(member);
    report.is_some_and(|r| view.ledger.is_spoken_for(r.disk))
}

/// The next ledger with this work in another phase.
pub(super) fn phase(view: &View<'_>, work: &Work, phase: Phase) -> Ledger {
    view.ledger.working(Work {
        phase,
        since: view.now,
        ..work.clone()
    })
}

/// The checks that matter when a human gives a volume up: the node may well be alive until then.
pub(super) fn by_hand(case: &Case<'_>) -> Vec<Finding> {
    let asked = |f: &Finding| !matches!(f.letter, Letter::Owner | Letter::Down | Letter::Topology);
    let taught = |f: &Finding| !matches!(f.check, Check::SeedNotTaught { .. });
    let all = checks::findings(case).into_iter();
    all.filter(|f| asked(f) && taught(f)).collect()
}
