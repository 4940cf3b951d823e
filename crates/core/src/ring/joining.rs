//! The first node founds the ring; every other new one joins it, one at a time.

use super::checks;
use super::ids::{Address, DiskId, Member};
use super::ledger::{Grant, Ledger, Phase, Task, Work};
use super::observed::{Answer, Liveness, MemberView};
use super::orphan;
use super::reason::{Check, Why};
use super::stamp::{Found, Report};
use super::step::Plan;
use super::view::View;

/// A new member that waits, or nobody.
pub(super) fn begin(view: &View<'_>) -> Plan {
    if view.ledger.founded {
        join(view)
    } else {
        found(view)
    }
}

fn found(view: &View<'_>) -> Plan {
    let Some(first) = view.spec().members.first() else {
        return Plan::default();
    };
    let member = first.member.clone();
    if view.node_is_gone(&member) {
        return Plan::because(Why::NodeGoneUnknown { member });
    }
    if !view.seen.report(&member).is_some_and(Report::waits_empty) {
        return Plan::because(Why::FoundLater { member });
    }
    // A volume that may hold a ring is looked at first: two rings with one name are worse than none.
    let unknown = |m: &&MemberView| {
        let empty = view.seen.report(&m.member).is_some_and(Report::waits_empty);
        (m.claim.is_some() || m.pod.is_some()) && !empty
    };
    if let Some(other) = view.seen.members.iter().find(unknown) {
        if view.node_is_gone(&other.member) {
            let member = other.member.clone();
            return Plan::because(Why::NodeGoneUnknown { member });
        }
        return Plan::because(Why::DataElsewhere {
            member: other.member.clone(),
        });
    }
    grant_first(view, &member, Task::Found, 0)
}

/// The next ledger with a permission for what this member's gate holds now.
pub(super) fn granted(view: &View<'_>, work: Work, seeds: Vec<Address>, generation: u64) -> Option<Ledger> {
    let m = view.seen.member(&work.member)?;
    let (pod, claim) = (m.pod.as_ref()?, m.claim?);
    // The disk of a member, also of another one, and a disk whose place was given away were bootstrapped once: they are
    // neither started nor wiped.
    let report = view
        .seen
        .report(&work.member)
        .filter(|r| r.waits_empty() && !view.ledger.is_spoken_for(r.disk))?;
    let number = view.ledger.next_grant(view.seen.used_grants());
    let retired = work
        .lost()
        .and_then(|lost| lost.disk)
        .filter(|d| *d != report.disk);
    let fenced = |disk: &DiskId| view.ledger.retired.contains(disk);
    // One that takes the place of a permission that nobody used takes over what that one did.
    let before = work.grant().filter(|g| g.is_unused(pod.uid, claim.uid, report));
    let own_doing = before.map_or_else(|| retired.is_some_and(|d| !fenced(&d)), |g| g.retires);
    let grant = Grant {
        number,
        pod: pod.uid,
        volume: claim.uid,
        disk: report.disk,
        wipe: matches!(report.found, Found::Unfinished(_)),
        seeds,
        generation,
        at: view.now,
        lasts: view.spec().timing.permission,
        retires: own_doing,
    };
    Some(view.ledger.with(|next| {
        next.grants = number;
        // From here on the old disk must not start: it would take its tokens back.
        next.retired.extend(retired);
        next.work = Some(Work {
            phase: Phase::Granted(grant),
            since: view.now,
            ..work
        });
    }))
}

/// Lets a member start that replaces nobody.
pub(super) fn grant_first(view: &View<'_>, member: &Member, task: Task, failed: u32) -> Plan {
    let own = view.seen.member(member).and_then(|m| m.address);
    let (seeds, why) = if task == Task::Found {
        (
            own.into_iter().collect(),
            Why::Found {
                member: member.clone(),
            },
        )
    } else {
        let live = view.live_addresses(&view.witnesses(member));
        let seeds = live.into_iter().filter(|a| Some(*a) != own).collect();
        (
            seeds,
            Why::Join {
                member: member.clone(),
            },
        )
    };
    let work = Work {
        member: member.clone(),
        task,
        phase: Phase::Confirming,
        since: view.now,
        failed,
    };
    match granted(view, work, seeds, 0) {
        Some(next) => Plan::because(why).write(next),
        None => Plan::default(),
    }
}

fn join(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    for declared in &view.spec().members {
        let member = &declared.member;
        let waits = view.seen.report(member).is_some_and(Report::waits_empty);
        let gone = view.node_is_gone(member) && !waits;
        if !(waits || gone) || view.ledger.known.contains_key(member) {
            continue;
        }
        if gone {
            plan = match nowhere(view, member) {
                Ok(evict) => return evict,
                Err(why) => plan.also(why),
            };
            continue;
        }
        match obstacle(view, member) {
            None => return grant_first(view, member, Task::Join, 0),
            Some(why) => plan = plan.also(why),
        }
    }
    plan
}

/// The Node of a member that is not on record is gone: its claim goes, if it was not all there was.
fn nowhere(view: &View<'_>, member: &Member) -> Result<Plan, Why> {
    if let Some(evict) = orphan::evict_stranger(view, member) {
        return Ok(evict);
    }
    let member = member.clone();
    Err(if view.ledger.known.is_empty() {
        Why::DataLost { member }
    } else {
        Why::NodeGone { member }
    })
}

/// Why this member cannot join now.
pub(super) fn obstacle(view: &View<'_>, member: &Member) -> Option<Why> {
    let witnesses = view.witnesses(member);
    let later = |check| {
        let member = member.clone();
        Some(Why::JoinLater { member, check })
    };
    if witnesses.is_empty() {
        let may_return = |m: &MemberView| {
            let waits = view.seen.report(&m.member).is_some_and(Report::waits_empty);
            m.member != *member && m.pod.is_some() && !waits && !view.node_is_gone(&m.member)
        };
        let alone = view.ledger.known.is_empty() && !view.seen.members.iter().any(may_return);
        // Nobody but the founder can have had anything.
        let founder = view.spec().members.first().map_or(member, |d| &d.member);
        return if alone {
            let member = founder.clone();
            Some(Why::DataLost { member })
        } else {
            later(Check::NobodyAnswers { wanted: 1 })
        };
    }
    if let Some(check) = unfit(view, member, &witnesses) {
        return later(check);
    }
    let ring = view.ring(&witnesses);
    if ring.len() >= view.spec().members.len() {
        let stranger = ring.iter().find(|h| view.ledger.owner_of(**h).is_none());
        return match stranger {
            Some(host) => Some(Why::TooMany {
                member: member.clone(),
                host: *host,
            }),
            None => later(Check::AddressUnknown),
        };
    }
    None
}

fn unfit(view: &View<'_>, member: &Member, witnesses: &[&Answer]) -> Option<Check> {
    let Some(own) = view.seen.member(member).and_then(|m| m.address) else {
        return Some(Check::AddressUnknown);
    };
    if view.seen.wishes.rollout {
        return Some(Check::Rollout);
    }
    for answer in witnesses {
        let by = || answer.by.clone();
        if let Some(node) = answer.at_address(own).next() {
            return Some(Check::AddressTaken {
                address: own,
                other: node.host,
                by: by(),
            });
        }
        let down = answer
            .nodes
            .iter()
            .find(|n| n.owner && n.counts() && n.liveness != Liveness::Up && !n.excluded);
        if let Some(node) = down {
            return Some(Check::OtherDown {
                other: node.host,
                by: by(),
            });
        }
        if let Some(known) = view.ledger.known.values().find(|k| answer.node(k.host).is_none()) {
            return Some(Check::NotListed {
                host: known.host,
                by: by(),
            });
        }
    }
    // Every node of the ring must have been heard, or two halves could each take a new member.
    let (got, wanted) = (witnesses.len(), view.ring(witnesses).len());
    if got < wanted {
        return Some(Check::TooFewAnswers { got, wanted });
    }
    let seeds = view.live_addresses(witnesses).into_iter().any(|a| a != own);
    checks::busy(witnesses, None).or_else(|| (!seeds).then_some(Check::NoSeed))
}
