//! A start that was permitted: finished, failed, tried again, given up, or overtaken by the old disk.

use super::expiry;
use super::ids::{GrantNumber, HostId, Member, PodUid};
use super::joining::{grant_first, obstacle};
use super::learn::{describe, is_removed};
use super::ledger::{Grant, Known, Phase, Task, Work};
use super::observed::{Answer, Liveness, MemberView, NodeState, Seen};
use super::reason::Why;
use super::replacing::{self, Verdict, permit, phase, verdict};
use super::stamp::{Found, Report};
use super::step::{Plan, Step};
use super::unheard;
use super::view::View;
use crate::time::Time;

/// The node may start, or has started.
pub(super) fn started(view: &View<'_>, work: &Work, grant: &Grant) -> Plan {
    if let Some(plan) = finished(view, work, grant)
        .or_else(|| joined_unseen(view, work, grant))
        .or_else(|| overtaken(view, work))
    {
        return plan;
    }
    if view.node_is_gone(&work.member) {
        return founding_unknown(view, work, grant).unwrap_or_else(|| again(view, work));
    }
    let Some((m, pod, report)) = present(view, work) else {
        return unheard::told(view, work, grant.at, waiting(work, grant));
    };
    let ours = report.disk == grant.disk && m.claim.is_some_and(|c| c.uid == grant.volume);
    if report.waits_empty()
        && let Some(plan) = founding_unknown(view, work, grant)
    {
        return plan;
    }
    match report.found {
        Found::Unfinished(number) if ours && number == grant.number => failed(view, work, pod),
        // The permission names what is not there any more, and was not used on what is.
        Found::Empty | Found::Unfinished(_) if !ours || pod != grant.pod => again(view, work),
        Found::Empty | Found::Unfinished(_) => expiry::unused(view, work, grant, waiting(work, grant)),
        // A bootstrapped disk was mounted instead, and needs no permission: disks were exchanged before anybody was on
        // record. What was permitted will not be seen here; but not before the permission is over, because the disk that
        // it names may be back in time.
        Found::Started(_) if !ours && work.task == Task::Join => {
            expiry::unused(view, work, grant, waiting(work, grant))
        }
        Found::StartedWith(number) if is_ours(number, grant) && too_late(view, grant) => {
            end(view, work, pod).unwrap_or_else(|| waiting(work, grant))
        }
        _ => waiting(work, grant),
    }
}

fn present<'a>(view: &View<'a>, work: &Work) -> Option<(&'a MemberView, PodUid, &'a Report)> {
    let m = view.seen.member(&work.member)?;
    let pod = m.pod.as_ref()?;
    Some((m, pod.uid, view.seen.report(&work.member)?))
}

fn waiting(work: &Work, grant: &Grant) -> Plan {
    let member = work.member.clone();
    let grant = grant.number;
    Plan::because(Why::Started { member, grant })
}

/// A gate may have used a permission at the moment at which another one was given for the same start.
fn is_ours(number: GrantNumber, grant: &Grant) -> bool {
    number <= grant.number
}

fn too_late(view: &View<'_>, grant: &Grant) -> bool {
    view.now.since(grant.at) >= view.spec().timing.limit
}

/// Ends a start that takes too long, unless somebody already sees it as a member.
fn end(view: &View<'_>, work: &Work, uid: PodUid) -> Option<Plan> {
    let address = view.seen.member(&work.member)?.address?;
    let lost = work.lost().map(|l| l.host);
    let joined = view.witnesses(&work.member).iter().any(|a| {
        a.at_address(address)
            .any(|n| n.is_normal() && (Some(n.host) != lost || n.liveness == Liveness::Up))
    });
    let member = work.member.clone();
    (!joined).then(|| {
        Plan::because(Why::TimedOut {
            member: member.clone(),
        })
        .then(Step::DeletePod { member, uid })
    })
}

/// A ring is founded once. If the disk on which it was to be founded is not there any more, or was used and is empty
/// again in a pod in which a database ran, clients may have written to it, and nobody else can know: then only a human
/// founds another one.
fn founding_unknown(view: &View<'_>, work: &Work, grant: &Grant) -> Option<Plan> {
    let report = view.seen.report(&work.member);
    let ran = |r: &Report| r.ran && r.found == Found::Unfinished(grant.number);
    let untouched = report.is_some_and(|r| r.disk == grant.disk && !ran(r));
    let member = work.member.clone();
    (work.task == Task::Found && !untouched).then(|| Plan::because(Why::FoundingUnknown { member }))
}

/// Begins anew with what is there now.
fn again(view: &View<'_>, work: &Work) -> Plan {
    let member = work.member.clone();
    match &work.task {
        Task::Replace { .. } => {
            let until = view.now + view.spec().timing.confirm;
            Plan::because(Why::Confirming { member, until })
                .write(phase(view, work, Phase::Confirming))
                .wake_at(until)
        }
        Task::Found | Task::Join | Task::Leave { .. } => {
            Plan::because(Why::Withdrawn { member }).write(view.ledger.idle())
        }
    }
}

fn failed(view: &View<'_>, work: &Work, pod: PodUid) -> Plan {
    let failed = work.failed.saturating_add(1);
    let member = work.member.clone();
    let (why, next) = if failed >= view.spec().tries {
        (Why::GivenUp { member, failed }, Phase::GivenUp { pod })
    } else {
        let until = view.now + view.spec().timing.rest;
        (Why::TryFailed { member, failed }, Phase::Resting { until })
    };
    let work = Work {
        failed,
        ..work.clone()
    };
    named(view, &work, Plan::because(why)).write(phase(view, &work, next))
}

/// Cassandra keeps calling a node `hibernate` whose replacement at its own address did not finish. Whoever reads that a
/// try failed must know it: `nodetool status` shows such a node like any other that is down.
fn named(view: &View<'_>, work: &Work, plan: Plan) -> Plan {
    let Some(host) = work.lost().map(|lost| lost.host) else {
        return plan;
    };
    let witnesses = view.witnesses(&work.member);
    let calls = |a: &&&Answer| a.node(host).is_some_and(|n| n.state == NodeState::Replacing);
    match witnesses.iter().find(calls).map(|a| a.by.clone()) {
        Some(by) if plan.steps.is_empty() => {
            let member = work.member.clone();
            plan.also(Why::Hibernate { member, host, by })
        }
        _ => plan,
    }
}

/// The last try failed; is it time for the next?
pub(super) fn rested(view: &View<'_>, work: &Work, until: Time) -> Plan {
    named(view, work, after_rest(view, work, until))
}

fn after_rest(view: &View<'_>, work: &Work, until: Time) -> Plan {
    if let Some(plan) = over(view, work) {
        return plan;
    }
    if view.node_is_gone(&work.member) {
        return again(view, work);
    }
    let member = work.member.clone();
    let failed = work.failed;
    let why = Why::TryFailed { member, failed };
    if view.now < until {
        return Plan::because(why).wake_at(until);
    }
    if !view.seen.report(&work.member).is_some_and(Report::waits_empty) {
        return unheard::told(view, work, until, Plan::because(why));
    }
    match &work.task {
        Task::Replace { lost, manual } => {
            let case = replacing::case(view, &work.member, lost, *manual);
            match verdict(&case) {
                Verdict::Holds(findings) => permit(view, work, &case).showing(findings),
                Verdict::Teach(plan) | Verdict::Held(plan) => plan.also(why),
            }
        }
        Task::Found => grant_first(view, &work.member, Task::Found, work.failed),
        Task::Join => match obstacle(view, &work.member) {
            None => grant_first(view, &work.member, Task::Join, work.failed),
            Some(obstacle) => Plan::because(why).also(obstacle),
        },
        Task::Leave { .. } => Plan::because(why).write(view.ledger.idle()),
    }
}

/// A human must look. One who makes the pod anew orders another round of tries.
pub(super) fn given_up(view: &View<'_>, work: &Work, pod: PodUid) -> Plan {
    if let Some(plan) = over(view, work) {
        return plan;
    }
    let member = work.member.clone();
    let anew = present(view, work).is_some_and(|(_, uid, report)| uid != pod && report.waits_empty());
    if anew {
        let rested = Work {
            failed: 1,
            ..work.clone()
        };
        let until = view.now;
        let next = phase(view, &rested, Phase::Resting { until });
        return Plan::because(Why::GivenUpOrdered { member }).write(next);
    }
    let failed = work.failed;
    named(view, work, Plan::because(Why::GivenUp { member, failed }))
}

/// What ends work that does not run.
fn over(view: &View<'_>, work: &Work) -> Option<Plan> {
    overtaken(view, work)
        .or_else(|| removed(view, work))
        .or_else(|| yields(view, work))
        .or_else(|| labelled(view, work))
}

/// A human labelled it meanwhile: automation withdraws, and the label has its own turn.
fn labelled(view: &View<'_>, work: &Work) -> Option<Plan> {
    let automatic = matches!(work.task, Task::Replace { manual: false, .. });
    let label = view.seen.member(&work.member).is_some_and(|m| m.replace_label);
    let member = work.member.clone();
    (automatic && label).then(|| Plan::because(Why::Withdrawn { member }).write(view.ledger.idle()))
}

/// A new member that does not run gives its place to a member that lost its storage: nobody can join a ring in which
/// somebody is down. If the others see it as a member, it had joined before its disk was lost: then it is to be put on
/// record, and replaced. If a bootstrapped disk was mounted there instead, nothing is left to be tried.
fn yields(view: &View<'_>, work: &Work) -> Option<Plan> {
    let new = matches!(work.task, Task::Join);
    let lost = view.ledger.known.keys().any(|m| view.is_lost(m));
    let member = work.member.clone();
    let address = view.seen.member(&member).and_then(|m| m.address);
    let joined = view.witnesses(&member).iter().any(|a| {
        let there = |n: &Seen| Some(n.address) == address && n.is_normal();
        a.nodes.iter().any(there)
    });
    let report = view.seen.report(&member);
    let bootstrapped = report.is_some_and(|r| matches!(r.found, Found::Started(_)));
    (new && (lost || joined || bootstrapped))
        .then(|| Plan::because(Why::Withdrawn { member }).write(view.ledger.idle()))
}

/// Somebody removed the dead node: there is nothing to replace, and the member may join as new.
fn removed(view: &View<'_>, work: &Work) -> Option<Plan> {
    let lost = work.lost()?;
    let member = work.member.clone();
    let host = lost.host;
    is_removed(view, &member, host).then(|| {
        let next = view.ledger.with(|next| {
            next.known.remove(&member);
            next.retired.extend(lost.disk);
            next.work = None;
        });
        Plan::because(Why::RemovedByHand {
            member: member.clone(),
            host,
        })
        .write(next)
    })
}

/// The disk that was thought to be lost is back, and nobody has taken its place yet: it keeps it.
fn overtaken(view: &View<'_>, work: &Work) -> Option<Plan> {
    let lost = work.lost()?;
    let report = view.seen.report(&work.member)?;
    // It may even have started before its place was given away.
    let (Found::Retired(host) | Found::Started(host)) = report.found else {
        return None;
    };
    // A member that was put on record while it was down has no disk on record: then it is told by the node on the disk,
    // and must not be the disk that was permitted to take the place.
    let permitted = work.grant().is_some_and(|g| g.disk == report.disk);
    let own = lost
        .disk
        .map_or(host == lost.host && !permitted, |disk| disk == report.disk);
    if !own {
        return None;
    }
    let witnesses = view.witnesses(&work.member);
    let enough = witnesses.len() >= view.spec().engine.witnesses(view.ledger.known.len());
    // Under the same host id, only its generation tells the one that took the place from the one that had it; and
    // nothing does after a cold start, when a node that is down is known from disk only.
    let started = matches!(report.found, Found::Started(_));
    let clear = started || !view.spec().engine.keeps_host_id();
    let before = |n: &Seen, g: &Grant| n.generation > 0 && n.generation <= g.generation;
    let same_life = |n: &Seen| clear || work.grant().is_none_or(|g| before(n, g));
    let untouched = |a: &&Answer| {
        let alone = a.at_address(lost.address).all(|n| n.host == lost.host);
        let own = a.node(lost.host).is_some_and(|n| n.is_normal() && same_life(n));
        own && alone && !a.nodes.iter().any(Seen::is_busy)
    };
    (enough && !witnesses.is_empty() && witnesses.iter().all(untouched)).then(|| {
        let next = view.ledger.with(|next| {
            next.retired.remove(&report.disk);
            next.work = None;
        });
        let member = work.member.clone();
        Plan::because(Why::CameBack { member }).write(next)
    })
}

/// The others see it as a member like any other.
fn finished(view: &View<'_>, work: &Work, grant: &Grant) -> Option<Plan> {
    let (m, _, report) = present(view, work)?;
    let runs = match report.found {
        Found::StartedWith(number) => is_ours(number, grant),
        Found::Started(_) => true,
        _ => false,
    };
    if !runs || report.disk != grant.disk {
        return None;
    }
    if work.task == Task::Found {
        return founded(view, work, report);
    }
    let witnesses = view.witnesses(&work.member);
    let enough = match &work.task {
        Task::Replace { .. } => enough_to_end(view, work, &witnesses),
        Task::Found | Task::Join | Task::Leave { .. } => !witnesses.is_empty(),
    };
    let new = |node: &Seen, answer: &Answer| {
        let lost = work.lost();
        lost.is_none_or(|lost| is_new(view, m, lost, node, answer, grant, report))
    };
    let node = seen_by_all(&witnesses, m, new).filter(|_| enough)?;
    let known = describe(view, m, node)?;
    let member = work.member.clone();
    let next = view.ledger.with(|next| {
        next.known.insert(member.clone(), known);
        next.founded = true;
        next.work = None;
    });
    let host = node.host;
    let why = match &work.task {
        Task::Replace { lost, .. } => Why::Replaced {
            member: member.clone(),
            host: lost.host,
            by: host,
        },
        Task::Found | Task::Join | Task::Leave { .. } => Why::Joined {
            member: member.clone(),
            host,
        },
    };
    Some(label_off(Plan::because(why), m, work).write(next))
}

/// Its disk says that it has joined, and all who could have seen it are lost: they wait for this place, so it is free. It
/// is put on record when one of them is back and sees it; until then whoever it replaced is not on record either, because
/// that one's disk is not the member's any more.
///
/// Who waits need not be on record, and who could have seen it neither: nobody is while the second member joins, nor who
/// itself came back unseen. Such a one counts if it is the founder, or if its gate let it run.
fn joined_unseen(view: &View<'_>, work: &Work, grant: &Grant) -> Option<Plan> {
    let (m, _, report) = present(view, work)?;
    let Found::Started(host) = report.found else {
        return None;
    };
    let member = work.member.clone();
    let why = match &work.task {
        Task::Join => Why::JoinedUnseen {
            member: member.clone(),
            host,
        },
        Task::Replace { lost, .. } => Why::ReplacedUnseen {
            member: member.clone(),
            host: lost.host,
            by: host,
        },
        Task::Found | Task::Leave { .. } => return None,
    };
    let others = || {
        let seen = view.seen.members.iter().map(|m| &m.member);
        view.ledger.known.keys().chain(seen).filter(|m| **m != member)
    };
    let (first, founder) = (
        view.ledger.known.is_empty(),
        view.spec().members.first().map(|d| &d.member),
    );
    let saw = |m: &&Member| {
        let runs = view.seen.report(m).is_some_and(|r| r.found.runs());
        view.ledger.known.contains_key(*m) || (first && founder == Some(*m)) || runs
    };
    let waited_for = others().any(|m| view.is_lost(m));
    let unseen = view.witnesses(&member).is_empty() && others().filter(saw).all(|m| view.is_lost(m));
    if !waited_for || !unseen || report.disk != grant.disk {
        return None;
    }
    let next = view.ledger.with(|next| {
        next.known.remove(&member);
        next.work = None;
    });
    Some(label_off(Plan::because(why), m, work).write(next))
}

/// A replacement that a human asked for is over: the label goes. Before the work is taken off the ledger, because with
/// the label and without the work another one would begin.
fn label_off(plan: Plan, m: &MemberView, work: &Work) -> Plan {
    let manual = matches!(work.task, Task::Replace { manual: true, .. });
    let Some(service) = m.service.filter(|_| m.replace_label && manual) else {
        return plan;
    };
    let member = work.member.clone();
    let step = Step::RemoveReplaceLabel {
        member: member.clone(),
        service,
    };
    plan.then(step).also(Why::LabelDone { member })
}

/// Have enough others answered to believe that a replacement has ended? As many as it took to begin it; or, if others
/// lost their storage since, all that are left. A lost one cannot answer before it is replaced, and that cannot begin
/// before this has ended. Fewer are safe here: nobody sees a new life Normal before it is done, and nothing takes that
/// back. Whatever is begun next asks for its own majority.
fn enough_to_end(view: &View<'_>, work: &Work, witnesses: &[&Answer]) -> bool {
    let others = || view.ledger.known.keys().filter(|m| **m != work.member);
    let answers = |m: &Member| witnesses.iter().any(|a| a.by == *m);
    let all_left = others().all(|m| view.is_lost(m) || answers(m));
    let majority = witnesses.len() >= view.spec().engine.witnesses(view.ledger.known.len());
    majority || (others().any(|m| view.is_lost(m)) && all_left)
}

/// The founder has nobody to be seen by: what it says of itself frees the place, and puts nothing on record.
fn founded(view: &View<'_>, work: &Work, report: &Report) -> Option<Plan> {
    let says = |a: &Answer| a.by == work.member && a.nodes.iter().any(Seen::is_normal);
    let fresh = |a: &&Answer| a.at >= view.seen.read_at && says(a);
    let member = work.member.clone();
    let done = matches!(report.found, Found::Started(_)) || view.seen.answers.iter().any(|a| fresh(&a));
    done.then(|| {
        let next = view.ledger.with(|next| {
            next.founded = true;
            next.work = None;
        });
        Plan::because(Why::RingFounded { member }).write(next)
    })
}

/// The one node at this member's address that every witness sees as normal, if it is the new one. Whether it is up at
/// this moment does not matter: the place is taken, and that must be on record.
fn seen_by_all<'a>(
    witnesses: &[&'a Answer],
    m: &MemberView,
    new: impl Fn(&Seen, &Answer) -> bool,
) -> Option<&'a Seen> {
    let address = m.address?;
    let only = |answer: &'a Answer| -> Option<&'a Seen> {
        let mut there = answer.at_address(address);
        let node = there.next()?;
        let good = node.owner && node.state == NodeState::Normal;
        (there.next().is_none() && good && new(node, answer)).then_some(node)
    };
    let (head, rest) = witnesses.split_first()?;
    let node = only(head)?;
    let same = |a: &&'a Answer| only(a).is_some_and(|n| n.host == node.host);
    rest.iter().all(same).then_some(node)
}

/// Another host id, and the old one is nowhere; or, where the host id is kept, the old one in a later life, that is up or
/// was found complete.
fn is_new(
    view: &View<'_>,
    m: &MemberView,
    lost: &Known,
    node: &Seen,
    answer: &Answer,
    grant: &Grant,
    report: &Report,
) -> bool {
    if node.host != lost.host {
        return answer.node(lost.host).is_none_or(|n| !n.counts());
    }
    let found = matches!(report.found, Found::Started(_));
    let complete = found || node.liveness == Liveness::Up;
    // After a cold start of the others nobody knew in which life the lost node was last seen. Then one that was cut off,
    // and lives, has a later one as well when it is heard again; which one this is, only the node in the pod can tell.
    let told = grant.generation > 0 || found || own_life(view, m, node.host) == Some(node.generation);
    // Where each start has a host id of its own, whoever is seen under the lost one is the lost one.
    view.spec().engine.keeps_host_id() && complete && told && node.generation > grant.generation
}

/// The life of which the node in this member's pod says that it lives it, as a member.
fn own_life(view: &View<'_>, m: &MemberView, host: HostId) -> Option<u64> {
    let fresh = |a: &&Answer| a.by == m.member && a.at >= view.seen.read_at;
    let own = view.seen.answers.iter().find(fresh)?.node(host)?;
    own.is_normal().then_some(own.generation)
}
