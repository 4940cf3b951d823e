//! Every rule that `decide` consults has a situation in which the plan is another one without it.

use super::cluster::{NOW, Situation, TERM, a_candidate, ago, cluster, fresh, process, second};
use super::render::text;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::observed::{Approval, Role, Status};
use mainstay_core::memgraph::record::Writes;
use mainstay_core::memgraph::rules::Rule;
use mainstay_core::memgraph::spec::WritesWithoutSync;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

/// Where a rule decides.
fn situations() -> Vec<(Rule, &'static str, Situation)> {
    let joining = || cluster().joining();
    let held = || cluster().joining().record(|r| r.writes = Writes::Held);
    let closed = || {
        cluster()
            .wish(|w| w.hibernated = true)
            .record(|r| r.writes = Writes::Closed)
    };
    let tired = || cluster().wish(|w| w.hibernated = true);
    let hanging = cluster().silent(1, 3).listed(1, |r| {
        r.status = Status::Replicating;
        r.since = ago(60_000);
    });
    vec![
        (Rule::R1, "MAIN is silent", cluster().silent(0, 3)),
        (
            Rule::R2,
            "the protected pod restarted when MAIN died",
            cluster().crashed(0).restarted(1),
        ),
        (
            Rule::R3,
            "a STRICT_SYNC replica is ready",
            cluster().unprotected(),
        ),
        (
            Rule::R4,
            "the registration is of an older generation",
            cluster().listed(1, |r| r.name = super::cluster::strict(1, 4)),
        ),
        (Rule::R4, "a level replica is registered", held()),
        (
            Rule::R5,
            "the candidate is silent and MAIN answers",
            cluster().no_main(1).silent(1, 1),
        ),
        (
            Rule::R6,
            "MAIN came back without its data",
            cluster().emptied(0).unprotected(),
        ),
        (
            Rule::R6,
            "the candidate has another mark",
            cluster().crashed(0).no_main(1).mark(1, Some(TERM.0 - 1)),
        ),
        (
            Rule::R8,
            "a MAIN with a lower mark than the replica's",
            cluster().record_lost().mark(0, Some(1)),
        ),
        (Rule::R11, "MAIN keeps its office", cluster().no_main(0)),
        (
            Rule::R13,
            "MAIN ended and has no init file",
            cluster().crashed(0).object(0, |o| o.start_fence = false),
        ),
        (
            Rule::R14,
            "an ex-MAIN is diverged",
            cluster()
                .unprotected()
                .unregistered(1)
                .accused(1, 3)
                .mark(1, Some(2)),
        ),
        (
            Rule::R15,
            "a human names another pod, and policy Proceed",
            cluster().overrides(1, NOW + Duration::from_mins(1)),
        ),
        (
            Rule::R16,
            "a STRICT_SYNC registration does not recover",
            cluster().listed(1, |r| r.status = Status::Invalid),
        ),
        (
            Rule::R17,
            "the registration was dropped by hand",
            cluster().unregistered(1),
        ),
        (
            Rule::R17,
            "registered anew as ASYNC by hand",
            joining().record(|r| r.sync = cluster().record.expect("a record").sync),
        ),
        (Rule::R18, "two empty pods", fresh()),
        (
            Rule::R19,
            "a gateway knew a higher term",
            cluster().record_lost().one_gateway(|g| g.term.0 = 9),
        ),
        (
            Rule::R20,
            "an ASYNC pod diverged in a young term",
            cluster()
                .unregistered(2)
                .accused(2, 3)
                .record(|r| r.since = ago(0)),
        ),
        (
            Rule::R21,
            "a gateway just heard MAIN",
            cluster()
                .silent(0, 3)
                .gateways(|g| g.heard = Some((ago(1), process(0)))),
        ),
        (
            Rule::R23,
            "there are statements for a new MAIN",
            cluster().crashed(0).spec(|s| s.on_promotion = true),
        ),
        (Rule::R24, "sleep is asked for and writes are open", tired()),
        (
            Rule::R24,
            "a gateway has not confirmed",
            tired()
                .record(|r| r.writes = Writes::Closed)
                .one_gateway(|g| g.revision.0 -= 1),
        ),
        (
            Rule::R24,
            "what was proven cannot be proven again",
            tired().restarted(1).record(|r| r.writes = Writes::Closed),
        ),
        (
            Rule::R24,
            "what was proven is not ready",
            closed().listed(1, |r| r.status = Status::Recovery),
        ),
        (
            Rule::R24,
            "what was proven is catching up",
            closed().listed(1, |r| r.status = Status::Recovery),
        ),
        (
            Rule::R26,
            "the accused has data that is too old to judge",
            cluster()
                .unprotected()
                .unregistered(1)
                .accused(1, 3)
                .mark(1, Some(0)),
        ),
        (Rule::R25, "the replica restarted", cluster().restarted(1)),
        (
            Rule::R26,
            "everybody is accused",
            cluster()
                .unprotected()
                .unregistered(1)
                .unregistered(2)
                .accused(1, 3)
                .mark(1, Some(2))
                .accused(2, 3),
        ),
        (
            Rule::R27,
            "the replica is ahead",
            cluster().unprotected().listed(1, |r| r.behind = 1),
        ),
        (
            Rule::R28,
            "the port of a pod that joins is closed",
            cluster()
                .unprotected()
                .unregistered(1)
                .pod(1, |p| p.replication_port_open = None),
        ),
        (
            Rule::R28,
            "the port of a level pod is closed",
            held().pod(1, |p| p.replication_port_open = None),
        ),
        (
            Rule::R28,
            "the port of an ASYNC pod is closed",
            cluster()
                .unregistered(2)
                .pod(2, |p| p.replication_port_open = None),
        ),
        (
            Rule::R30,
            "the replica hangs",
            hanging.policy(WritesWithoutSync::Always),
        ),
        (
            Rule::R37,
            "a candidate is not promoted, and the old MAIN is cut off",
            cluster()
                .silent(0, 9)
                .object(0, |o| o.terminating = true)
                .becomes(|r| r.new_term(a_candidate(1), true, ago(60_000)))
                .loose(1, process(1))
                .confirmed(),
        ),
        (Rule::R32, "a pod joins", cluster().unprotected().unregistered(1)),
        (
            Rule::R33,
            "a registration with work is wrong",
            held().listed(1, |r| {
                r.address_ok = false;
                r.status = Status::Recovery;
            }),
        ),
        (Rule::R33, "a replica is level and writes are open", joining()),
        (
            Rule::R34,
            "the replica is loose",
            cluster().unprotected().loose(1, process(1)),
        ),
        (Rule::R34, "a term is taken over", cluster().crashed(0).no_main(1)),
        (
            Rule::R35,
            "a gateway is a term behind",
            cluster().unprotected().one_gateway(|g| g.term.0 -= 1),
        ),
        (
            Rule::R21,
            "a gateway heard MAIN and it refuses",
            cluster()
                .refused(0, 2)
                .gateways(|g| g.heard = Some((ago(1), process(0)))),
        ),
        (
            Rule::R5,
            "the candidate restarted",
            cluster().no_main(1).restarted(1).role(1, Role::Replica),
        ),
        (
            Rule::R14,
            "an ex-MAIN is diverged after a restart",
            restarted_ex_main(),
        ),
    ]
}

fn restarted_ex_main() -> Situation {
    cluster()
        .unprotected()
        .unregistered(1)
        .restarted(1)
        .accused(1, 3)
        .mark(1, Some(2))
        .in_epoch(second(1))
}

#[test]
fn without_a_rule_the_plan_is_another_one() {
    let mut out = String::new();
    for (rule, name, situation) in situations() {
        let with = situation.plan();
        let without = situation.clone().spec(|s| s.rules = s.rules.without(rule)).plan();
        assert_ne!(
            with.steps,
            without.steps,
            "{rule} changes nothing in `{name}`:\n{}",
            text(&with)
        );
        let _ = writeln!(out, "# {rule} is off: {name}\n{}", text(&without));
    }
    insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("rule_switches", out);
    });
}

#[test]
fn an_approval_is_enough_without_r14_too() {
    let asked = restarted_ex_main().spec(|s| s.rules = s.rules.without(Rule::R14));
    assert!(asked.plan().steps.is_empty());
    let approved = asked.wish(|w| {
        w.approve_reset = Some(Approval {
            pod: Ordinal(1),
            process: second(1),
        });
    });
    assert!(!approved.plan().steps.is_empty());
}

#[test]
fn every_rule_that_is_consulted_has_a_situation() {
    let sources = [
        include_str!("../../src/memgraph/async_pods.rs"),
        include_str!("../../src/memgraph/bootstrap.rs"),
        include_str!("../../src/memgraph/claim.rs"),
        include_str!("../../src/memgraph/failover.rs"),
        include_str!("../../src/memgraph/hibernation.rs"),
        include_str!("../../src/memgraph/overriding.rs"),
        include_str!("../../src/memgraph/pair.rs"),
        include_str!("../../src/memgraph/reset.rs"),
        include_str!("../../src/memgraph/serving.rs"),
        include_str!("../../src/memgraph/switchover.rs"),
        include_str!("../../src/memgraph/term.rs"),
        include_str!("../../src/memgraph/view.rs"),
    ];
    let consulted: BTreeSet<&str> = sources
        .iter()
        .flat_map(|source| source.split("on(Rule::").skip(1))
        .filter_map(|rest| rest.split_once(')').map(|(id, _)| id))
        .collect();
    let shown: BTreeSet<String> = situations()
        .iter()
        .map(|(rule, _, _)| format!("{rule:?}"))
        .collect();
    let missing: Vec<_> = consulted
        .into_iter()
        .filter(|rule| !shown.contains(*rule))
        .collect();
    assert!(missing.is_empty(), "no situation for {missing:?}");
}
