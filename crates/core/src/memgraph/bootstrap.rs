//! No record: begin a cluster, adopt one, rebuild a lost record, or say why not.
//!
//! The seeds' INITIAL_STATE, OPERATIONAL_STATE and UNKNOWN_STATE. With the start-up fence REPLICA no longer
//! means "was a replica", so a MAIN is adopted only if it is proven to hold everything (R8).

use super::ids::{Ordinal, Term};
use super::observed::{Answer, Data, Observed, Role, Status};
use super::pair::register_async;
use super::plan::{Plan, Step, Target};
use super::reason::{Reason, Why};
use super::record::{Candidate, Loose, Record};
use super::rules::Rule;
use super::term;
use super::view::View;
use crate::time::Time;

/// One authority pod, every question answered.
struct Known<'a> {
    pod: Ordinal,
    answer: &'a Answer,
    data: Data,
}

/// What the two authority pods are to each other.
enum Found<'a> {
    /// INITIAL_STATE: both empty, no mark.
    Fresh,
    /// OPERATIONAL_STATE: this MAIN holds everything.
    Operational(Known<'a>),
    /// One MAIN, one REPLICA that is not attached: ask MAIN by registering it.
    AskSuperset { main: Known<'a>, other: Known<'a> },
    /// UNKNOWN_STATE.
    Ambiguous,
}

/// There is no record.
pub(super) fn without_record(seen: &Observed, now: Time) -> Plan {
    let present = seen.pods.iter().filter(|p| p.object.is_some()).count();
    let lost = seen.memory.status_term.is_some();
    if lost && !seen.wishes.hibernated && present < usize::from(seen.spec.replicas) {
        // The record was lost while asleep: without its pods nobody can tell who holds what.
        let plan = Plan::because(Reason::new(Rule::RecordLost, Why::WaitForPods));
        return plan.then(Step::Scale(seen.spec.replicas));
    }
    let (a, b) = match (known(seen, Ordinal(0)), known(seen, Ordinal(1))) {
        (Ok(a), Ok(b)) => (a, b),
        // 001 discovery step 1, 002 bootstrap step 1.
        (Err(pod), _) | (_, Err(pod)) => {
            return Plan::wait(Reason::new(Rule::Bootstrap, Why::NotReady { pod }));
        }
    };
    let term = first_term(seen, [&a, &b]);
    match discover(seen, a, b) {
        // A cluster that had a record is never begun anew by itself: its data may be elsewhere.
        Found::Fresh | Found::Ambiguous if lost => unknown(Rule::RecordLost),
        Found::Fresh => initialise(seen, term, now),
        Found::Operational(main) => adopt(seen, &main, term, lost, now),
        Found::AskSuperset { main, other } => ask_superset(seen, &main, &other),
        Found::Ambiguous => unknown(Rule::Bootstrap),
    }
}

fn known(seen: &Observed, pod: Ordinal) -> Result<Known<'_>, Ordinal> {
    let ready = seen
        .object(pod)
        .is_some_and(|o| o.ready && o.addressed && !o.terminating && o.volume.is_some());
    match seen.answer(pod) {
        // A MAIN that did not say whom it lists has not answered every question (B4).
        Some(answer) if answer.role == Role::Main && answer.replicas.is_none() => Err(pod),
        Some(answer) if ready => answer.data.map(|data| Known { pod, answer, data }).ok_or(pod),
        _ => Err(pod),
    }
}

fn discover<'a>(seen: &Observed, a: Known<'a>, b: Known<'a>) -> Found<'a> {
    // 001 discovery step 2, 002 bootstrap step 2; with the start-up fence both are REPLICA.
    let attached = |main: &Known<'_>, other: &Known<'_>| {
        View::registrations_of(main.answer, other.pod)
            .any(|r| r.attached && r.address_ok && r.status != Status::Invalid)
    };
    if a.data.is_blank() && b.data.is_blank() && !attached(&a, &b) && !attached(&b, &a) {
        return Found::Fresh;
    }
    // 001 discovery step 3, 002 bootstrap step 3.
    let (main, other) = match (a.answer.role, b.answer.role) {
        (Role::Main, Role::Replica) => (a, b),
        (Role::Replica, Role::Main) => (b, a),
        // 001 discovery step 4, 002 bootstrap step 4.
        (Role::Main, Role::Main) | (Role::Replica, Role::Replica) => return Found::Ambiguous,
    };
    if !seen.spec.rules.on(Rule::R8) {
        return Found::Operational(main);
    }
    let mark = |k: &Known<'_>| k.data.mark.map(|m| m.term);
    if mark(&main) < mark(&other) || (main.data.empty && !other.data.empty) {
        return Found::Ambiguous;
    }
    let refused = seen
        .pod(other.pod)
        .and_then(|p| p.refusal)
        .is_some_and(|r| r.code == 3 && r.by == main.answer.process && r.of == other.answer.process);
    let foreign = other.data.database != main.data.database && !other.data.is_blank();
    let diverged = View::registrations_of(main.answer, other.pod).any(|r| r.status == Status::Diverged);
    if attached(&main, &other) && !foreign && !diverged {
        return Found::Operational(main);
    }
    if refused || foreign || diverged {
        Found::Ambiguous
    } else {
        Found::AskSuperset { main, other }
    }
}

/// R19: above everything that was ever seen.
fn first_term(seen: &Observed, pods: [&Known<'_>; 2]) -> Term {
    let marks = pods.into_iter().filter_map(|k| k.data.mark).map(|m| m.term);
    let gateways = seen.gateways.iter().map(|g| g.term);
    let status = seen.memory.status_term;
    let highest = marks.chain(gateways).chain(status).max().unwrap_or_default();
    if seen.spec.rules.on(Rule::R19) {
        highest.next()
    } else {
        Term(1)
    }
}

/// 001 "Initialize Memgraph Cluster": pod-0 becomes MAIN; pod-1 joins as in any other term.
fn initialise(seen: &Observed, term: Term, now: Time) -> Plan {
    create(
        seen,
        Ordinal(0),
        term,
        now,
        Reason::new(Rule::Bootstrap, Why::InitialState),
    )
}

fn adopt(seen: &Observed, main: &Known<'_>, term: Term, lost: bool, now: Time) -> Plan {
    let reason = if lost {
        Reason::new(Rule::RecordLost, Why::RecordRebuilt { main: main.pod })
    } else {
        Reason::new(Rule::Bootstrap, Why::OperationalState { main: main.pod })
    };
    create(seen, main.pod, term, now, reason)
}

/// R18: the record first; nobody sends a role command before it is there.
fn create(seen: &Observed, pod: Ordinal, term: Term, now: Time, reason: Reason) -> Plan {
    let wait = || Plan::wait(Reason::new(Rule::Bootstrap, Why::NotReady { pod }));
    let (Some(answer), Some(volume)) = (seen.answer(pod), seen.object(pod).and_then(|o| o.volume)) else {
        return wait();
    };
    let mut peers: Vec<_> = seen
        .pods
        .iter()
        .filter(|p| p.ordinal != pod)
        .filter_map(|p| seen.answer(p.ordinal))
        .map(|a| a.process)
        .collect();
    peers.sort_unstable();
    let candidate = Candidate {
        pod,
        process: answer.process,
        volume,
        peers,
        suspect: false,
        forced: None,
        claim: None,
    };
    let record = if term > Term(1) {
        Record::rebuilt(term, candidate, still_loose(seen), now)
    } else {
        Record::initialising(term, candidate, now)
    };
    let view = View {
        record: &record,
        seen,
        now,
    };
    let begun = Plan::because(reason).then(Step::CreateRecord(Box::new(record.clone())));
    let plan = term::complete_first(&view, &record, begun);
    if seen.spec.rules.on(Rule::R18) {
        plan
    } else {
        record_last(plan)
    }
}

/// Somebody had a record before, and may have sent a promote to either pod that has not arrived yet: the lost record
/// would have told to whom (R34).
fn still_loose(seen: &Observed) -> Vec<Loose> {
    let pair = Ordinal::AUTHORITY
        .into_iter()
        .filter(|_| seen.spec.rules.on(Rule::R34));
    let running = pair.filter_map(|pod| {
        let process = seen.answer(pod)?.process;
        Some(Loose { pod, process })
    });
    running.collect()
}

/// What happens without R18: the record is created when everything else is done.
fn record_last(mut plan: Plan) -> Plan {
    plan.steps.retain(|p| !matches!(p.step, Step::CreateRecord(_)));
    for planned in &mut plan.steps {
        if let Step::WriteRecord(record) = &planned.step {
            planned.step = Step::CreateRecord(record.clone());
        }
    }
    plan
}

/// Registering as ASYNC answers Error 3 if the other pod holds anything that MAIN lacks.
fn ask_superset(seen: &Observed, main: &Known<'_>, other: &Known<'_>) -> Plan {
    let reason = Reason::new(
        Rule::R8,
        Why::ProveSuperset {
            main: main.pod,
            pod: other.pod,
        },
    );
    if seen
        .pod(other.pod)
        .is_none_or(|p| p.replication_port_open != Some(true))
    {
        return Plan::wait(Reason::new(Rule::R28, Why::PortClosed { pod: other.pod })).also(reason);
    }
    let on = Target {
        pod: main.pod,
        process: main.answer.process,
    };
    // A name or an address that is taken answers Error 1 or 2, which says nothing; a zombie is dropped first.
    let taken = View::registrations_of(main.answer, other.pod).next();
    match taken {
        Some(r) if r.attached => return unknown(Rule::R8).also(reason),
        Some(r) => return Plan::because(reason).then(Step::Drop { on, name: r.name }),
        None => {}
    }
    let peer = Target {
        pod: other.pod,
        process: other.answer.process,
    };
    register_async(seen.spec.rules, on, peer, reason)
}

fn unknown(rule: Rule) -> Plan {
    Plan::wait(Reason::new(rule, Why::UnknownState))
}
