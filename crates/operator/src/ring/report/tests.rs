use super::*;
use mainstay_core::ring::checks::{Finding, Letter};
use mainstay_core::ring::ids::{HostId, Member};
use mainstay_core::ring::reason::Check;

fn member() -> Member {
    "ring-a-0".parse().unwrap()
}

fn object() -> RingCluster {
    serde_json::from_value(json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "RingCluster",
        "metadata": { "name": "ring", "namespace": "db", "uid": "u", "generation": 4 },
        "spec": { "image": "scylladb/scylla:2025.2.0", "racks": [{ "name": "a", "members": 1 }] },
    }))
    .unwrap()
}

fn held() -> Told {
    let host = HostId(7);
    let alive = Check::StillAlive { host, by: member() };
    let finding = |letter, check| Finding {
        letter,
        member: member(),
        check,
    };
    let plan = Plan::because(Why::StorageLost {
        member: member(),
        host,
    })
    .also(Why::Held {
        member: member(),
        check: alive.clone(),
    })
    .showing(vec![
        finding(Letter::Owner, Check::Passed),
        finding(Letter::Down, alive),
    ]);
    Told {
        plan,
        ..Told::default()
    }
}

fn of<'a>(status: &'a RingClusterStatus, kind: &str) -> &'a Condition {
    status.conditions.iter().find(|c| c.kind == kind).unwrap()
}

#[test]
fn a_held_replacement_is_in_the_conditions_and_its_checks_are_named_the_held_ones_first() {
    let status = status(&object(), &held(), &RingClusterStatus::default());
    assert_eq!(of(&status, "StorageLost").status, "True");
    assert_eq!(of(&status, "ReplacementFailed").status, "False");
    let why = of(&status, "ReplacementHeld");
    assert!(why.message.contains("StillAlive"), "{}", why.message);
    let names: Vec<(&str, bool)> = status.checks.iter().map(|c| (c.name.as_str(), c.holds)).collect();
    assert_eq!(names, [("Down", false), ("NormalOwner", true)]);
    assert_eq!(status.observed_generation, Some(4));
}

#[test]
fn a_turn_that_came_to_nothing_keeps_what_was_known() {
    let before = status(&object(), &held(), &RingClusterStatus::default());
    let failed = Told {
        error: Some("no answer".to_owned()),
        ..Told::default()
    };
    let after = status(&object(), &failed, &before);
    assert_eq!(after.checks, before.checks);
    assert_eq!(of(&after, "StorageLost").status, "True");
    assert_eq!(of(&after, "Ready").status, "Unknown");
}

#[test]
fn s11_a_replacement_is_told_by_whom_and_of_whom() {
    let (host, by) = (HostId(1), HostId(2));
    let member = member();
    let seen = Why::Replaced {
        member: member.clone(),
        host,
        by,
    };
    for why in [seen, Why::ReplacedUnseen { member, host, by }] {
        let told = Told {
            plan: Plan::because(why.clone()),
            acted: Acted {
                done: vec!["write ledger".to_owned()],
                ended: None,
            },
            ..Told::default()
        };
        let after = status(&object(), &told, &RingClusterStatus::default());
        let [done] = after.replacements.as_slice() else {
            panic!("{why}: {after:?}");
        };
        assert_eq!((&done.lost, &done.by), (&host.to_string(), &by.to_string()));
        let said = worth_saying(&told);
        assert_eq!(said, [(false, why.id().to_owned(), why.to_string())]);
    }
}

#[test]
fn s11_a_replacement_that_was_not_written_down_is_not_told() {
    let why = Why::Replaced {
        member: member(),
        host: HostId(1),
        by: HostId(2),
    };
    let ended = Told {
        plan: Plan::because(why.clone()),
        acted: Acted {
            ended: Some("write ledger: conflict".to_owned()),
            ..Acted::default()
        },
        ..Told::default()
    };
    let refused = Told {
        plan: Plan::because(why),
        violations: vec!["[I1] step 0".to_owned()],
        ..Told::default()
    };
    for told in [ended, refused] {
        let after = status(&object(), &told, &RingClusterStatus::default());
        assert!(after.replacements.is_empty(), "{after:?}");
    }
}

#[test]
fn what_is_lost_or_held_is_an_event_although_nothing_is_done() {
    let said = worth_saying(&held());
    let words: Vec<&str> = said.iter().map(|(_, reason, _)| reason.as_str()).collect();
    assert_eq!(words, ["StorageLost", "Held"]);
    let mut reporter = Reporter::default();
    assert!(reporter.is_new(&held(), "Held", "x"));
    assert!(!reporter.is_new(&held(), "Held", "x"));
}

#[test]
fn that_nodes_cannot_be_seen_is_said_once_and_stays_in_the_status() {
    let told = Told {
        nodes_unseen: true,
        ..Told::default()
    };
    let mut reporter = Reporter::default();
    let words = |reporter: &mut Reporter| reporter.unsaid(&told).len();
    assert_eq!((words(&mut reporter), words(&mut reporter)), (1, 0));
    let status_of = |told: &Told| status(&object(), told, &RingClusterStatus::default());
    assert_eq!(of(&status_of(&told), "NodesUnseen").reason, "Forbidden");
    let seen = status_of(&Told::default());
    assert!(!seen.conditions.iter().any(|c| c.kind == "NodesUnseen"));
}

#[test]
fn what_ended_a_turn_or_was_refused_is_the_first_reason_and_the_ring_is_not_ready() {
    let whole = Told {
        plan: Plan::because(Why::RecordPrinted { member: member() }),
        ledger: Some(Ledger::new(mainstay_core::ring::ids::ClusterUid(1))),
        observed: Some(runs()),
        ..Told::default()
    };
    let status_of = |told: &Told| status(&object(), told, &RingClusterStatus::default());
    assert_eq!(of(&status_of(&whole), "Ready").status, "True");
    let ended = Told {
        acted: Acted {
            ended: Some("create record of ring-a-0: already exists".to_owned()),
            ..Acted::default()
        },
        ..whole.clone()
    };
    let refused = Told {
        violations: vec!["[I1] step 0".to_owned()],
        ..whole
    };
    for (told, word, part) in [
        (ended, "TurnEnded", "already exists"),
        (refused, "PlanRefused", "[I1]"),
    ] {
        let after = status_of(&told);
        let ready = of(&after, "Ready");
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", word));
        assert!(after.reasons.first().unwrap().contains(part), "{after:?}");
        assert_eq!(after.reasons.len(), 2, "and what was meant: {after:?}");
    }
}

/// The only member runs.
fn runs() -> Observed {
    let spec = object()
        .spec
        .parse("ring", mainstay_core::ring::spec::Timing::default());
    let pod = Pod {
        uid: mainstay_core::ring::ids::PodUid(1),
        ends_by: None,
        runs: true,
        location: None,
        report: None,
    };
    Observed {
        read_at: Time(0),
        cluster: mainstay_core::ring::ids::ClusterUid(1),
        spec: spec.unwrap(),
        members: vec![MemberView {
            member: member(),
            service: None,
            address: None,
            pod: Some(pod),
            claim: None,
            record: None,
            replace_label: false,
            maintenance: false,
            waits_unbootstrapped_since: None,
            noted_host: None,
        }],
        answers: Vec::new(),
        drained: std::collections::BTreeSet::new(),
        wishes: mainstay_core::ring::observed::Wishes::default(),
    }
}
