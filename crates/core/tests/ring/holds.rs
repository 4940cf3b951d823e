//! One thing stands against it, and it is named.

use super::situation::{NOW, Situation, address, host, known, location, member, ready, whole, whole_of};
use mainstay_core::ring::ids::{ClusterUid, DiskId, GrantNumber, HostId};
use mainstay_core::ring::invariants::{Invariant, check};
use mainstay_core::ring::observed::{Liveness, NodeState, Seen};
use mainstay_core::ring::reason::Why;
use mainstay_core::ring::record::RecordMap;
use mainstay_core::ring::spec::ReplaceBy;
use mainstay_core::ring::stamp::Found;
use mainstay_core::ring::{Plan, Step, asks, decide};
use std::time::Duration;

#[test]
fn a_member_that_is_only_away_is_named_and_nothing_is_done() {
    let mut ending = whole();
    ending.seen.members[1].pod.as_mut().unwrap().ends_by = Some(NOW);
    let mut starting = whole();
    starting.seen.members[1].pod.as_mut().unwrap().runs = false;
    let mut gone = whole();
    gone.seen.members[1].pod = None;
    for away in [ending, starting, gone] {
        assert!(away.plan().steps.is_empty(), "{}", away.text());
        assert!(
            away.text().starts_with("ring-r1-0 does not run"),
            "{}",
            away.text()
        );
    }
    assert_eq!(whole().text(), "every member is known and nothing is missing");
}

#[test]
fn a_whole_ring_is_left_alone_and_not_even_asked() {
    let whole = whole();
    assert!(whole.plan().steps.is_empty());
    assert!(!asks(Some(&whole.ledger), &whole.seen));
    assert!(asks(Some(&ready().ledger), &ready().seen));
}

#[test]
fn all_checks_hold_twice_and_then_it_is_permitted() {
    let first = whole().lost().plan();
    assert!(matches!(first.steps.as_slice(), [Step::WriteLedger(l)] if l.work.is_some()));
    assert!(!whole().lost().permits() && first.findings.len() == 11);
    assert!(!whole().lost().confirming(Duration::from_secs(30)).permits());
    assert!(ready().permits(), "{}", ready().text());
}

/// Changes one thing; nothing is permitted, and the sentence has this part.
fn held(part: &str, change: impl Fn(&mut Situation)) {
    let mut situation = ready();
    change(&mut situation);
    assert!(!situation.permits(), "{part}");
    assert!(situation.text().contains(part), "{part}: {}", situation.text());
}

#[test]
fn n3_still_up_in_any_answer() {
    held("StillAlive: ring-r0-0 sees", |s| {
        s.node(0, 1).liveness = Liveness::Up;
    });
}

#[test]
fn n4_the_others_disagree() {
    held("StillAlive: ring-r2-0 sees", |s| {
        s.node(2, 1).liveness = Liveness::Up;
    });
    let short = Liveness::Down(Duration::from_secs(30));
    held("down for long enough", |s| s.node(2, 1).liveness = short);
}

#[test]
fn n9_too_few_copies_unless_a_human_accepts_it() {
    let one = |s: &mut Situation| {
        for answer in &mut s.seen.answers {
            answer.keyspaces[0]
                .copies
                .as_mut()
                .unwrap()
                .insert("dc1".parse().unwrap(), 1);
        }
    };
    held("keyspace orders has 1 copies", one);
    let mut accepted = ready();
    one(&mut accepted);
    accepted.seen.spec.accept_loss = true;
    assert!(accepted.permits());
    let accounts = |s: &mut Situation| {
        one(s);
        for answer in &mut s.seen.answers {
            answer.keyspaces[0].accounts = true;
        }
    };
    let mut unused = ready();
    accounts(&mut unused);
    assert!(unused.permits(), "nobody logs in: the accounts do not matter");
    held("keyspace orders has 1 copies", |s| {
        accounts(s);
        s.seen.spec.authentication = true;
    });
}

#[test]
fn n11_a_node_that_is_only_joining_gets_no_record() {
    let mut joining = whole();
    joining.ledger.known.remove(&member(2));
    joining.seen.members[2].record = None;
    for by in [0, 1] {
        let node = joining.node(by, 2);
        (node.state, node.owner) = (NodeState::Joining, false);
    }
    assert!(joining.plan().steps.is_empty(), "{}", joining.text());
    for by in [0, 1] {
        let node = joining.node(by, 2);
        (node.state, node.owner) = (NodeState::Normal, true);
    }
    let plan = joining.plan();
    assert!(matches!(plan.steps.as_slice(), [Step::WriteLedger(l)] if l.known.len() == 3));
    joining.seen.answers.retain(|a| a.by == member(2));
    assert!(joining.plan().steps.is_empty(), "never by its own word");
}

#[test]
fn n13_the_ledger_and_the_records_of_a_namesake_are_not_honoured() {
    let mut namesake = ready();
    namesake.ledger.cluster = ClusterUid(0xdead);
    assert_eq!(namesake.plan().steps, [Step::DeleteLedger]);
    let mut record = whole();
    let map = RecordMap::print(&known(1), ReplaceBy::Host, ClusterUid(0xdead));
    record.seen.members[1].record.as_mut().unwrap().map = map;
    assert_eq!(record.plan().steps.len(), 2, "deleted and printed again");
}

#[test]
fn n15_the_pod_is_in_another_rack() {
    held("TopologyMismatch", |s| {
        s.seen.members[1].pod.as_mut().unwrap().location = Some(location(2));
    });
}

#[test]
fn n17_maintenance_rollout_pause_sleep_or_another_one_under_way() {
    held("maintenance", |s| s.seen.members[1].maintenance = true);
    held("new template", |s| s.seen.wishes.rollout = true);
    held("paused", |s| {
        s.seen.wishes.paused_until = Some(NOW + Duration::from_mins(1));
    });
    held("asleep", |s| s.seen.wishes.hibernated = true);
    for state in [NodeState::Joining, NodeState::Replacing, NodeState::Leaving] {
        held("that must end first", |s| s.node(2, 0).state = state);
    }
}

#[test]
fn a_label_on_another_member_of_our_own_is_only_a_wish_and_does_not_hold_a_replacement() {
    // Nor can that label begin: no volume is given up while another member is lost. Each would wait for the other.
    let mut labelled = ready();
    labelled.seen.members[2].replace_label = true;
    assert!(labelled.permits(), "{}", labelled.text());
}

#[test]
fn n18_automation_leaves_a_labelled_member_to_the_label() {
    held("it carries `scylla/replace`", |s| {
        s.seen.members[1].replace_label = true;
    });
}

#[test]
fn n19_a_record_that_somebody_changed_is_written_again_and_starts_nothing() {
    let mut forged = whole();
    let map = RecordMap::print(&known(2), ReplaceBy::Host, super::situation::CLUSTER);
    forged.seen.members[1].record.as_mut().unwrap().map = map;
    let plan = forged.plan();
    assert!(matches!(
        plan.steps.as_slice(),
        [Step::DeleteRecord { .. }, Step::CreateRecord { .. }]
    ));
}

#[test]
fn n21_without_a_living_member_as_a_seed_it_is_not_started() {
    let plan = ready().plan();
    let grant = plan.steps[0].ledger().unwrap().work.clone().unwrap();
    let seeds = &grant.grant().unwrap().seeds;
    assert_eq!(*seeds, [address(0), address(2)], "living others, never itself");
}

#[test]
fn another_node_at_the_address_another_one_down_or_another_schema() {
    held("sees another node", |s| {
        let other = Seen {
            host: HostId(0xff),
            address: address(1),
            owner: false,
            liveness: Liveness::Up,
            ..s.node(0, 1).clone()
        };
        s.seen.answers[0].nodes.push(other);
    });
    let down = Liveness::Down(Duration::from_mins(9));
    held("sees another member", |s| s.node(0, 2).liveness = down);
    held("does not list", |s| {
        s.seen.answers[0].nodes.retain(|n| n.host != host(2));
    });
    held("another schema", |s| s.seen.answers[1].schema_agrees = false);
    held("bring it back first", |s| {
        s.seen.answers[1].other_schema = vec![host(1), host(2)];
    });
    let mut own = ready();
    own.seen.answers[1].other_schema = vec![host(1)];
    assert!(
        own.permits(),
        "the lost one's row becomes its own: {}",
        own.text()
    );
    held("a majority of 2", |s| {
        s.seen.answers.pop();
    });
    held("autoreplacement is off", |s| {
        s.ledger.work = None;
        s.seen.spec.automatic = false;
    });
}

/// Gossip that a partition held back tells of a dead node as of one that lives; its gate knows better.
#[test]
fn n8_a_second_loss_holds_also_before_the_others_see_it_down() {
    let mut five = whole_of(5).lost().confirming(Duration::from_mins(2));
    assert!(five.permits(), "{}", five.text());
    five.seen.answers.retain(|a| a.by != member(3));
    assert!(five.permits(), "three of four are a majority: {}", five.text());
    five.report(3, Found::Empty);
    assert!(!five.permits(), "{}", five.text());
    assert!(
        five.text().contains("ring-r3-0, lost its storage too"),
        "{}",
        five.text()
    );
    five.down(3);
    assert!(five.text().contains("request canceled"), "{}", five.text());
    // Declared dead for good by a human: then it is not waited for.
    for answer in &mut five.seen.answers {
        let node = answer.nodes.iter_mut().find(|n| n.host == host(3));
        node.unwrap().excluded = true;
    }
    assert!(five.permits(), "{}", five.text());
}

#[test]
fn n9_whoever_was_declared_dead_counts_as_lost_also_if_nobody_knows_of_its_disk() {
    let mut five = whole_of(5).lost().confirming(Duration::from_mins(2));
    let dead = |situation: &mut Situation, n: u8| {
        situation.seen.answers.retain(|a| a.by != member(n));
        situation.down(n);
        for answer in &mut situation.seen.answers {
            let node = answer.nodes.iter_mut().find(|node| node.host == host(n));
            node.unwrap().excluded = true;
        }
    };
    dead(&mut five, 3);
    assert!(five.permits(), "two of three copies: {}", five.text());
    let granted = five.plan();
    // Two of which nothing else is known but that they are dead: no copy may be left.
    for answer in &mut five.seen.answers {
        let copies = answer.keyspaces[0].copies.as_mut().unwrap();
        copies.insert("dc1".parse().unwrap(), 2);
    }
    assert!(!five.permits());
    assert!(
        five.text().contains("2 copies and 2 members are lost"),
        "{}",
        five.text()
    );
    let found = check(Some(&five.ledger), &five.seen, &granted, NOW);
    assert!(
        found.iter().any(|v| v.invariant == Invariant::EnoughCopies),
        "{found:?}"
    );
}

#[test]
fn n9_a_keyspace_of_which_nobody_can_tell_is_held() {
    held(
        "CopiesUnknown: ring-r2-0 cannot tell how often the rows of keyspace orders",
        |s| {
            s.seen.answers[1].keyspaces[0].copies = None;
        },
    );
    held("CopiesUnknown: no member told", |s| {
        for answer in &mut s.seen.answers {
            answer.keyspaces.clear();
        }
    });
}

#[test]
fn n26_what_a_try_left_behind_is_tried_again_once_its_heart_stands_still() {
    let mut begun = ready();
    for by in [0, 2] {
        begun.node(by, 1).state = NodeState::Replacing;
    }
    assert!(begun.permits(), "{}", begun.text());
    held("alive", |s| {
        for by in [0, 2] {
            (s.node(by, 1).state, s.node(by, 1).liveness) = (NodeState::Replacing, Liveness::Up);
        }
    });
}

#[test]
fn a_disk_whose_place_was_given_away_is_never_permitted_whatever_its_gate_says() {
    held("bootstrapped once", |s| {
        s.ledger.retired.insert(DiskId(0xe1));
    });
}

#[test]
fn a_member_whose_database_does_not_run_is_looked_at() {
    let mut stopped = whole();
    assert!(!asks(Some(&stopped.ledger), &stopped.seen));
    stopped.seen.members[1].pod.as_mut().unwrap().runs = false;
    assert!(
        asks(Some(&stopped.ledger), &stopped.seen),
        "a human may remove it meanwhile, and it must not come back"
    );
}

#[test]
fn an_empty_folder_in_the_pod_that_had_data_gets_a_second_chance() {
    let mut again = whole().lost();
    let pod = again.seen.members[1].pod.as_mut().unwrap();
    pod.report.as_mut().unwrap().ran = true;
    let plan = decide(Some(&again.ledger), &again.seen, NOW);
    assert!(matches!(plan.steps.as_slice(), [Step::DeletePod { .. }]));
}

/// What stands on a pod may be another's word: whoever serves clients is not ended for it while anybody sees it alive.
#[test]
fn n3_a_pod_that_is_ready_is_not_made_anew_on_the_word_of_its_annotation_alone() {
    let mut forged = whole();
    forged.report(1, Found::Empty);
    assert!(forged.seen.members[1].pod.as_ref().unwrap().runs);
    assert!(forged.plan().steps.is_empty(), "{}", forged.text());
    assert!(forged.text().contains("StillAlive"), "{}", forged.text());
    let pod = forged.seen.members[1].pod.as_ref().unwrap().uid;
    let member = member(1);
    let plan = Plan::default().then(Step::DeletePod { member, uid: pod });
    assert!(!check(Some(&forged.ledger), &forged.seen, &plan, NOW).is_empty());
    forged
        .seen
        .answers
        .retain(|a| a.by == super::situation::member(1));
    assert!(
        forged.plan().steps.is_empty(),
        "nobody else answers: {}",
        forged.text()
    );
    // The others have seen it go: only what Kubernetes says of it is late.
    let mut late = whole();
    late.report(1, Found::Empty);
    late.down(1);
    assert!(matches!(late.plan().steps.as_slice(), [Step::DeletePod { .. }]));
}

#[test]
fn s9_a_new_address_is_recorded_only_when_another_member_lists_it() {
    let mut moved = whole();
    moved.seen.members[1].address = Some(address(9));
    assert!(
        moved.plan().steps.is_empty(),
        "nobody lists it yet: {}",
        moved.text()
    );
    moved.seen.answers.retain(|a| a.by != member(2));
    moved.node(1, 1).address = address(9);
    assert!(
        moved.plan().steps.is_empty(),
        "not by its own word: {}",
        moved.text()
    );
    moved.node(0, 1).address = address(9);
    let plan = moved.plan();
    let next = plan.steps[0].ledger().unwrap().clone();
    assert_eq!(next.known[&member(1)].address, address(9));
    moved.ledger = next;
    let plan = moved.plan();
    assert!(
        matches!(
            plan.steps.as_slice(),
            [Step::DeleteRecord { .. }, Step::CreateRecord { .. }]
        ),
        "the record is renewed: {:?}",
        plan.steps
    );
}

#[test]
fn n23_pods_without_a_gate_get_records_and_nothing_else() {
    let mut old = whole();
    old.ledger.known.clear();
    for m in &mut old.seen.members {
        m.record = None;
        m.pod.as_mut().unwrap().report = None;
    }
    let plan = old.plan();
    let next = plan.steps[0].ledger().unwrap().clone();
    assert_eq!(next.known.len(), 3);
    assert!(
        next.known
            .values()
            .all(|k| k.volume.is_some() && k.disk.is_none()),
        "what they run on is theirs, and no gate has named a disk"
    );
    old.ledger = next;
    let plan = old.plan();
    assert!(plan.steps.iter().all(|s| matches!(s, Step::CreateRecord { .. })) && !plan.steps.is_empty());
    for n in 0..3 {
        let map = RecordMap::print(&old.ledger.known[&member(n)], ReplaceBy::Host, old.ledger.cluster);
        old.seen.members[usize::from(n)].record = Some(mainstay_core::ring::observed::StoredRecord {
            uid: mainstay_core::ring::ids::MapUid(u128::from(n)),
            map,
        });
    }
    // Without a gate nobody says that a disk is empty: a member that is down is only down.
    old.seen.answers.retain(|a| a.by != member(1));
    for by in [0, 2] {
        old.node(by, 1).liveness = Liveness::Down(Duration::from_hours(5));
    }
    old.seen.members[1].pod.as_mut().unwrap().runs = false;
    assert!(old.plan().steps.is_empty(), "{}", old.text());
}

#[test]
fn the_disk_of_another_member_is_not_permitted_whatever_the_gate_took_it_for() {
    for found in [Found::Empty, Found::Unfinished(GrantNumber(0))] {
        let mut exchanged = ready();
        exchanged.report(1, found);
        let pod = exchanged.seen.members[1].pod.as_mut().unwrap();
        pod.report.as_mut().unwrap().disk = known(2).disk.unwrap();
        assert!(!exchanged.permits(), "{found:?}: {}", exchanged.text());
        assert!(
            exchanged.text().contains("a human must look"),
            "{}",
            exchanged.text()
        );
    }
}

#[test]
fn a_gate_that_found_another_node_than_the_one_on_record_is_reason_to_ask() {
    let mut other = whole();
    let new = HostId(0xb1);
    other.report(1, Found::Started(new));
    assert!(asks(Some(&other.ledger), &other.seen));
    for by in [0, 2] {
        other.node(by, 1).host = new;
    }
    let written = other.plan().steps.iter().find_map(Step::ledger).cloned();
    assert_eq!(written.unwrap().known[&member(1)].host, new, "{}", other.text());
}

#[test]
fn a_node_that_runs_in_the_place_of_another_member_is_told_to_a_human() {
    let mut exchanged = whole_of(4).lost();
    exchanged.ledger.known.remove(&member(3));
    exchanged.seen.members[3].record = None;
    exchanged.seen.answers.retain(|a| a.by != member(3));
    for answer in &mut exchanged.seen.answers {
        answer.nodes.retain(|n| n.host != host(3));
        let node = answer.nodes.iter_mut().find(|n| n.host == host(1)).unwrap();
        (node.address, node.liveness) = (address(3), Liveness::Up);
    }
    assert!(!needs_human(&exchanged), "{}", exchanged.text());
    exchanged.report(3, Found::Started(host(1)));
    assert!(needs_human(&exchanged), "{}", exchanged.text());
    let told = "ring-r3-0 runs 00000000-0000-0000-0000-0000000000a1, which is the node of ring-r1-0";
    assert!(exchanged.text().contains(told), "{}", exchanged.text());
    assert!(exchanged.text().contains("StillAlive"), "{}", exchanged.text());
}

fn needs_human(situation: &Situation) -> bool {
    situation.plan().reasons.iter().any(Why::needs_human)
}
