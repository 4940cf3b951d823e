//! What may be written into the ledger.

use super::{Invariant, Judge};
use crate::ring::ids::Member;
use crate::ring::ledger::{Grant, Known, Ledger, Phase, Task, Work};
use crate::ring::observed::{Liveness, NodeState};
use crate::ring::stamp::{Found, Report};
use std::collections::BTreeSet;

/// The ledger is replaced by another one.
pub(super) fn write(judge: &mut Judge<'_>, at: usize, next: &Ledger) {
    let Some(before) = judge.facts.ledger else {
        judge.broken(at, Invariant::OneWrite, None);
        return;
    };
    counters(judge, at, before, next);
    work(judge, at, before, next);
    known(judge, at, before, next);
    retired(judge, at, before, next);
    let begun = next.work.as_ref();
    if let Some((work, grant)) = begun.and_then(|w| Some((w, w.grant()?)))
        && before.work.as_ref().and_then(Work::grant) != Some(grant)
    {
        granted(judge, at, before, work, grant);
    }
}

fn counters(judge: &mut Judge<'_>, at: usize, before: &Ledger, next: &Ledger) {
    let rises = next.revision == before.revision.saturating_add(1);
    let grants = next.grants >= before.grants;
    let same = next.cluster == before.cluster && judge.facts.seen.cluster == before.cluster;
    if !rises || !grants || !same {
        judge.broken(at, Invariant::OneWrite, None);
    }
    if before.founded && !next.founded {
        judge.broken(at, Invariant::Declared, None);
    }
}

/// One thing at a time: it ends before another begins.
fn work(judge: &mut Judge<'_>, at: usize, before: &Ledger, next: &Ledger) {
    let Some(old) = &before.work else {
        return;
    };
    let member = &old.member;
    founding(judge, at, old, next);
    if let Some(new) = &next.work {
        if new.member != *member || new.lost() != old.lost() {
            judge.broken(at, Invariant::OneAtATime, Some(member));
        }
        return;
    }
    let running = old.grant().is_some_and(|grant| {
        let report = judge.facts.report(member);
        report.is_some_and(|r| r.found == Found::StartedWith(grant.number))
    });
    let finished =
        next.known.get(member) != before.known.get(member) || (old.task == Task::Found && next.founded);
    // The same host id in a later life, on the same disk, is on record already.
    let unchanged = old
        .lost()
        .is_some_and(|lost| judge.facts.seen_normal(member, lost));
    if running && !finished && !unchanged {
        judge.broken(at, Invariant::OneAtATime, Some(member));
    }
}

/// A founding that may have happened is not begun anew: the disk it was permitted on still waits, and nothing ran on it.
fn founding(judge: &mut Judge<'_>, at: usize, old: &Work, next: &Ledger) {
    let Some(grant) = old.grant().filter(|_| old.task == Task::Found) else {
        return;
    };
    let goes_on = next.founded || next.work.as_ref().and_then(Work::grant) == Some(grant);
    let report = judge.facts.report(&old.member);
    let untouched = judge.facts.waits(&old.member)
        && report.is_some_and(|r| {
            let ran = r.ran && r.found == Found::Unfinished(grant.number);
            r.disk == grant.disk && !ran
        });
    if !goes_on && !untouched {
        judge.broken(at, Invariant::Declared, Some(&old.member));
    }
}

fn known(judge: &mut Judge<'_>, at: usize, before: &Ledger, next: &Ledger) {
    for (member, new) in &next.known {
        if before.known.get(member) != Some(new) && !judge.facts.seen_normal(member, new) {
            judge.broken(at, Invariant::KnownByOthers, Some(member));
        }
    }
    for (member, old) in &before.known {
        let gone = !next.known.contains_key(member);
        let listed = judge.facts.others(member).any(|a| {
            a.nodes
                .iter()
                .any(|n| n.host == old.host && n.state != NodeState::Left)
        });
        let asked = judge.facts.others(member).next().is_some();
        let unseen = next.work.is_none() && joined_unseen(judge, before, member);
        if gone && (listed || !asked) && !unseen {
            judge.broken(at, Invariant::KnownByOthers, Some(member));
        }
    }
}

/// This member took its place back on the disk that it was permitted to, and everybody who could say so is lost.
fn joined_unseen(judge: &Judge<'_>, before: &Ledger, member: &Member) -> bool {
    let facts = judge.facts;
    let work = before.work.as_ref().filter(|w| w.member == *member);
    let Some(grant) = work.and_then(Work::grant) else {
        return false;
    };
    let complete = |r: &Report| r.disk == grant.disk && matches!(r.found, Found::Started(_));
    let lost = |m: &Member| facts.node_gone(m) || facts.report(m).is_some_and(|r| !r.found.runs());
    let mut others = before.known.keys().filter(|m| *m != member);
    let views = || {
        facts
            .seen
            .members
            .iter()
            .map(|m| &m.member)
            .filter(|m| *m != member)
    };
    let runs = |m: &Member| facts.report(m).is_some_and(|r| r.found.runs());
    facts.report(member).is_some_and(complete)
        && facts.others(member).next().is_none()
        && others.all(lost)
        && views().any(lost)
        && !views().any(runs)
}

fn retired(judge: &mut Judge<'_>, at: usize, before: &Ledger, next: &Ledger) {
    let back: BTreeSet<_> = before.retired.difference(&next.retired).collect();
    if back.is_empty() {
        return;
    }
    let lost = before.work.as_ref().and_then(|w| Some((&w.member, w.lost()?)));
    let untouched = |member: &Member, lost: &Known| {
        let facts = judge.facts;
        let grant = before.work.as_ref().and_then(Work::grant);
        let runs = facts
            .report(member)
            .is_some_and(|r| matches!(r.found, Found::Started(_)));
        // A later life under the same host id is another disk's, and one of which nobody knows may be.
        let clear = runs || !facts.seen.spec.engine.keeps_host_id();
        let same =
            |generation: u64| clear || grant.is_none_or(|g| generation > 0 && generation <= g.generation);
        let normal = facts.others(member).all(|a| {
            a.nodes
                .iter()
                .any(|n| n.host == lost.host && n.state == NodeState::Normal && same(n.generation))
        });
        let asked = facts.others(member).next().is_some();
        let there = facts.report(member).is_some_and(|r| Some(r.disk) == lost.disk);
        asked
            && normal
            && there
            && facts.is_quiet(member, None)
            && facts.nobody_at(member, lost.address, lost.host)
    };
    let own = |lost: &Known| back.iter().all(|d| lost.disk == Some(**d));
    let good = lost.is_some_and(|(m, lost)| own(lost) && (untouched(m, lost) || unused(judge, before)))
        && next.work.is_none();
    if !good {
        judge.broken(at, Invariant::RetiredStays, lost.map(|(m, _)| m));
    }
}

/// The permission that fenced the disk was never used, and no gate will use it any more.
fn unused(judge: &Judge<'_>, before: &Ledger) -> bool {
    let facts = judge.facts;
    let Some((work, grant)) = before.work.as_ref().and_then(|w| Some((w, w.grant()?))) else {
        return false;
    };
    let view = facts.seen.members.iter().find(|m| m.member == work.member);
    let there = view.is_some_and(|m| {
        let pod = m.pod.as_ref().is_some_and(|p| p.uid == grant.pod);
        pod && m.claim.is_some_and(|c| c.uid == grant.volume)
    });
    let waits = facts.waits(&work.member)
        && facts
            .report(&work.member)
            .is_some_and(|r| r.disk == grant.disk && r.found != Found::Unfinished(grant.number));
    let over = facts.now.since(grant.at) >= grant.lasts * 2;
    grant.retires && there && waits && over
}

/// A permission that was not there before.
fn granted(judge: &mut Judge<'_>, at: usize, before: &Ledger, work: &Work, grant: &Grant) {
    let member = &work.member;
    names(judge, at, before, member, grant);
    seeds(judge, at, work, grant);
    let facts = judge.facts;
    let disks = || before.known.values().filter_map(|k| k.disk);
    let unfinished = facts
        .report(member)
        .is_some_and(|r| matches!(r.found, Found::Unfinished(_)));
    if grant.wipe && (!unfinished || disks().any(|d| d == grant.disk)) {
        judge.broken(at, Invariant::NeverWiped, Some(member));
    }
    match &work.task {
        Task::Found => found(judge, at, before, member),
        Task::Join => join(judge, at, before, member),
        Task::Replace { lost, manual } => replace(judge, at, work, lost, *manual),
        Task::Leave { .. } => judge.broken(at, Invariant::GrantNames, Some(member)),
    }
}

fn names(judge: &mut Judge<'_>, at: usize, before: &Ledger, member: &Member, grant: &Grant) {
    let view = judge.facts.seen.members.iter().find(|m| m.member == *member);
    let named = view.is_some_and(|m| {
        let pod = m.pod.as_ref().is_some_and(|p| p.uid == grant.pod);
        let claim = m.claim.is_some_and(|c| c.uid == grant.volume);
        let disk = judge.facts.report(member).is_some_and(|r| r.disk == grant.disk);
        pod && claim && disk && judge.facts.waits(member)
    });
    let retired = before.retired.contains(&grant.disk);
    // The gate that is meant uses no number twice, also if the ledger has forgotten it.
    let used = match judge.facts.report(member).map(|r| r.found) {
        Some(Found::StartedWith(number) | Found::Unfinished(number)) => Some(number),
        _ => None,
    };
    let new = grant.number > before.grants && Some(grant.number) > used;
    let written = judge.plan.steps.get(at).and_then(crate::ring::Step::ledger);
    let counted = written.is_some_and(|l| l.grants == grant.number);
    if !named || retired || !new || !counted {
        judge.broken(at, Invariant::GrantNames, Some(member));
    }
}

fn seeds(judge: &mut Judge<'_>, at: usize, work: &Work, grant: &Grant) {
    let view = judge.facts.seen.members.iter().find(|m| m.member == work.member);
    let own = view.and_then(|m| m.address);
    let alive = |seed| {
        judge.facts.others(&work.member).any(|a| {
            a.nodes
                .iter()
                .any(|n| n.address == seed && n.liveness == Liveness::Up)
        })
    };
    let good = match work.task {
        Task::Found => own.is_some_and(|own| grant.seeds == [own]),
        Task::Join | Task::Replace { .. } | Task::Leave { .. } => {
            let others = grant.seeds.iter().all(|s| Some(*s) != own && alive(*s));
            !grant.seeds.is_empty() && others
        }
    };
    if !good {
        judge.broken(at, Invariant::GrantSeeds, Some(&work.member));
    }
}

fn found(judge: &mut Judge<'_>, at: usize, before: &Ledger, member: &Member) {
    let facts = judge.facts;
    let first = facts
        .seen
        .spec
        .members
        .first()
        .is_some_and(|d| d.member == *member);
    let nowhere = facts.seen.members.iter().all(|m| {
        let bare = m.pod.is_none() && m.claim.is_none();
        bare || facts.waits(&m.member)
    });
    if before.founded || !before.known.is_empty() || !first || !nowhere {
        judge.broken(at, Invariant::Declared, Some(member));
    }
}

fn join(judge: &mut Judge<'_>, at: usize, before: &Ledger, member: &Member) {
    let facts = judge.facts;
    let mut ring: BTreeSet<_> = before.known.values().map(|k| k.host).collect();
    for answer in facts.others(member) {
        let counts = answer.nodes.iter().filter(|n| n.state != NodeState::Left);
        ring.extend(counts.map(|n| n.host));
    }
    let view = facts.seen.members.iter().find(|m| m.member == *member);
    let own = view.and_then(|m| m.address);
    let taken = own.is_none_or(|own| {
        facts.others(member).any(|a| {
            a.nodes
                .iter()
                .any(|n| n.address == own && n.state != NodeState::Left)
        })
    });
    let full = ring.len() >= facts.seen.spec.members.len();
    let alone = facts.others(member).next().is_none();
    if full || taken || alone || before.known.contains_key(member) {
        judge.broken(at, Invariant::Declared, Some(member));
    }
    if !facts.is_quiet(member, None) || facts.seen.wishes.rollout {
        judge.broken(at, Invariant::QuietRing, Some(member));
    }
}

fn replace(judge: &mut Judge<'_>, at: usize, work: &Work, lost: &Known, manual: bool) {
    let facts = judge.facts;
    let member = &work.member;
    let view = facts.seen.members.iter().find(|m| m.member == *member);
    if !facts.is_dead(member, lost.host) || !facts.nobody_at(member, lost.address, lost.host) {
        judge.broken(at, Invariant::NeverAlive, Some(member));
    }
    if !facts.is_quiet(member, Some(lost.host)) || facts.seen.wishes.rollout {
        judge.broken(at, Invariant::QuietRing, Some(member));
    }
    if !facts.has_copies(member, lost) {
        judge.broken(at, Invariant::EnoughCopies, Some(member));
    }
    let maintenance = view.is_some_and(|m| m.maintenance);
    if maintenance || (facts.labelled(member) && !manual) || !(facts.seen.spec.automatic || manual) {
        judge.broken(at, Invariant::HandsOff, Some(member));
    }
    let location = view
        .and_then(|m| m.pod.as_ref())
        .and_then(|p| p.location.as_ref());
    if location != Some(&lost.location) {
        judge.broken(at, Invariant::SamePlace, Some(member));
    }
    let before = facts.ledger;
    let recorded = before.and_then(|l| l.known.get(member)) == Some(lost);
    let was = before.and_then(|l| l.work.as_ref());
    let confirmed = was.is_some_and(|w| w.member == *member && !matches!(w.phase, Phase::Leaving));
    if !recorded || !confirmed {
        judge.broken(at, Invariant::OneAtATime, Some(member));
    }
    let written = judge.plan.steps.get(at).and_then(crate::ring::Step::ledger);
    let disk = work.grant().map(|g| g.disk);
    let fenced = lost
        .disk
        .is_none_or(|d| Some(d) == disk || written.is_some_and(|l| l.retired.contains(&d)));
    if !fenced {
        judge.broken(at, Invariant::RetiredStays, Some(member));
    }
}
