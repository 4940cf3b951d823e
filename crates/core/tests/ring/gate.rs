//! What the gate does with a disk.

use super::situation::{CLUSTER, address, host, known, member, ready, whole};
use mainstay_core::ring::Ledger;
use mainstay_core::ring::freshness::Freshness;
use mainstay_core::ring::gate::{Asked, Folder, Gate, Held, Me, gate};
use mainstay_core::ring::ids::{DiskId, GrantNumber, PodUid, VolumeUid};
use mainstay_core::ring::ledger::Phase;
use mainstay_core::ring::record::{RecordMap, Replaces};
use mainstay_core::ring::spec::{Engine, PERMISSION, ReplaceBy};
use mainstay_core::ring::stamp::{Bootstrapped, Found, Stamp};
use mainstay_core::time::Time;
use std::time::Duration;

fn me() -> Me {
    Me {
        member: member(1),
        cluster: CLUSTER,
        engine: Engine::Scylla("2025.2".parse().unwrap()),
        pod: PodUid(0x11),
        volume: VolumeUid(1),
        address: address(1),
        ran: false,
        fresh: DiskId(0xe1),
    }
}

fn folder(disk: u128, bootstrapped: Bootstrapped) -> Folder {
    Folder {
        stamp: Some(Stamp::fresh(DiskId(disk))),
        bootstrapped,
    }
}

/// The ledger with the permission for the disk `e1` in the pod `11`.
fn permitted() -> Ledger {
    let plan = ready().plan();
    plan.steps[0].ledger().unwrap().clone()
}

fn ask(me: &Me, folder: &Folder, ledger: &Ledger) -> Gate {
    let record = RecordMap::print(&known(1), ReplaceBy::Host, CLUSTER);
    let members = [0, 1, 2].map(address);
    let asked = Asked::Answer {
        ledger: Some(ledger),
        record: Some(&record),
        members: &members,
        age: Some(Duration::from_secs(2)),
    };
    gate(me, folder, asked)
}

fn held(gate: Gate) -> Held {
    match gate {
        Gate::Wait(wait) => wait.why,
        Gate::Start(start) => panic!("{start:?}"),
    }
}

#[test]
fn a_bootstrapped_disk_starts_without_an_option_and_everybody_is_its_seed() {
    let own = folder(0xd1, Bootstrapped::Completed(host(1)));
    let Gate::Start(start) = ask(&me(), &own, &whole().ledger) else {
        panic!("it must start");
    };
    assert_eq!((start.replaces, start.wipe), (None, false));
    assert_eq!(start.seeds, [0, 1, 2].map(address));
    let mut here = own;
    here.stamp = Some(start.stamp);
    assert!(
        matches!(gate(&me(), &here, Asked::NoAnswer), Gate::Start(_)),
        "without asking"
    );
    let elsewhere = Me {
        pod: PodUid(0x12),
        ..me()
    };
    assert_eq!(held(gate(&elsewhere, &here, Asked::NoAnswer)), Held::NoAnswer);
}

#[test]
fn a_disk_that_cannot_be_read_is_neither_started_nor_wiped_and_is_reported() {
    let ledgers = [whole().ledger, permitted(), Ledger::new(CLUSTER)];
    for (disk, ledger) in [0xd1, 0xe1]
        .iter()
        .flat_map(|d| ledgers.iter().map(move |l| (*d, l)))
    {
        let unreadable = folder(disk, Bootstrapped::Unreadable);
        let Gate::Wait(wait) = ask(&me(), &unreadable, ledger) else {
            panic!("nobody knows what is on it");
        };
        assert_eq!(wait.why, Held::Unreadable);
        assert_eq!(wait.report.unwrap().found, Found::Unreadable);
        assert_eq!(Some(wait.stamp), unreadable.stamp, "it keeps its name");
    }
    let mut here = folder(0xd1, Bootstrapped::Unreadable);
    here.stamp.as_mut().unwrap().pod = Some(me().pod);
    assert_eq!(held(gate(&me(), &here, Asked::NoAnswer)), Held::NoAnswer);
}

#[test]
fn an_empty_disk_of_a_member_waits_and_starts_only_with_its_own_permission_and_once() {
    let empty = folder(0xe1, Bootstrapped::Never);
    assert_eq!(held(ask(&me(), &empty, &whole().ledger)), Held::StorageLost);
    let Gate::Start(start) = ask(&me(), &empty, &permitted()) else {
        panic!("it is permitted");
    };
    assert_eq!(start.replaces, Some(Replaces::Host(host(1))));
    assert_eq!(start.seeds, [address(0), address(2)]);
    let used = Folder {
        stamp: Some(start.stamp),
        bootstrapped: Bootstrapped::InProgress,
    };
    assert_eq!(held(ask(&me(), &used, &permitted())), Held::Unfinished);
    let others = [
        Me {
            pod: PodUid(0x12),
            ..me()
        },
        Me {
            volume: VolumeUid(9),
            ..me()
        },
        Me {
            member: member(2),
            ..me()
        },
    ];
    for other in others {
        assert!(
            matches!(ask(&other, &empty, &permitted()), Gate::Wait(_)),
            "{other:?}"
        );
    }
    let disk = folder(0xe2, Bootstrapped::Never);
    assert_eq!(held(ask(&me(), &disk, &permitted())), Held::StorageLost);
}

#[test]
fn n3_a_permission_that_is_old_or_may_be_starts_nothing() {
    let (empty, ledger) = (folder(0xe1, Bootstrapped::Never), permitted());
    let record = RecordMap::print(&known(1), ReplaceBy::Host, CLUSTER);
    let aged = |age: Option<Duration>| {
        let asked = Asked::Answer {
            ledger: Some(&ledger),
            record: Some(&record),
            members: &[],
            age,
        };
        gate(&me(), &empty, asked)
    };
    assert!(matches!(aged(Some(PERMISSION)), Gate::Start(_)));
    let late = PERMISSION + Duration::from_millis(1);
    for age in [None, Some(late)] {
        assert_eq!(held(aged(age)), Held::Expired, "{age:?}");
    }
}

/// What the gate knows of the age of a permission, by its own clock and nothing else.
#[test]
fn a_permission_was_given_after_the_last_look_that_did_not_show_it() {
    let (without, with) = (whole().ledger, permitted());
    let mut looks = Freshness::default();
    looks.read(Some(&with), Time(1_000));
    assert_eq!(looks.age(Time(1_001)), None, "it was there before anybody looked");
    let mut looks = Freshness::default();
    looks.read(None, Time(1_000));
    looks.read(Some(&without), Time(2_000));
    looks.read(Some(&with), Time(4_000));
    assert_eq!(looks.age(Time(4_500)), Some(Duration::from_millis(2_500)));
    looks.read(Some(&with), Time(9_000));
    assert_eq!(
        looks.age(Time(9_000)),
        Some(Duration::from_secs(7)),
        "it gets no younger"
    );
    let next = with.with(|l| {
        if let Some(Phase::Granted(grant)) = l.work.as_mut().map(|w| &mut w.phase) {
            grant.number = GrantNumber(2);
        }
    });
    looks.read(Some(&next), Time(10_000));
    assert_eq!(looks.age(Time(10_000)), Some(Duration::from_secs(1)));
}

#[test]
fn a_disk_that_was_once_refused_asks_again_also_in_the_pod_it_ran_in() {
    let own = folder(0xd1, Bootstrapped::Completed(host(1)));
    let Gate::Start(start) = ask(&me(), &own, &whole().ledger) else {
        panic!("it must start");
    };
    let ran = Folder {
        stamp: Some(start.stamp),
        ..own
    };
    let mut removed = whole().ledger;
    removed.retired.insert(DiskId(0xd1));
    let Gate::Wait(wait) = ask(&me(), &ran, &removed) else {
        panic!("its place was given away");
    };
    assert_eq!(wait.why, Held::Retired);
    let refused = Folder {
        stamp: Some(wait.stamp),
        ..ran
    };
    assert_eq!(held(gate(&me(), &refused, Asked::NoAnswer)), Held::NoAnswer);
}

#[test]
fn a_disk_whose_place_was_given_away_and_that_is_empty_now_is_neither_started_nor_wiped() {
    let mut ledger = permitted();
    ledger.retired.insert(DiskId(0xe1));
    for bootstrapped in [Bootstrapped::Never, Bootstrapped::InProgress] {
        let empty = folder(0xe1, bootstrapped);
        assert_eq!(held(ask(&me(), &empty, &ledger)), Held::Damaged);
    }
}

#[test]
fn without_a_record_that_agrees_with_the_permission_nothing_starts() {
    let empty = folder(0xe1, Bootstrapped::Never);
    let ledger = permitted();
    for record in [None, Some(RecordMap::print(&known(2), ReplaceBy::Host, CLUSTER))] {
        let asked = Asked::Answer {
            ledger: Some(&ledger),
            record: record.as_ref(),
            members: &[],
            age: Some(Duration::ZERO),
        };
        assert_eq!(held(gate(&me(), &empty, asked)), Held::RecordDiffers);
    }
}

#[test]
fn a_disk_whose_place_was_given_away_of_another_node_or_damaged_is_not_started() {
    let old = folder(0xd1, Bootstrapped::Completed(host(1)));
    assert_eq!(held(ask(&me(), &old, &permitted())), Held::Retired);
    let foreign = folder(0xd7, Bootstrapped::Completed(host(2)));
    assert_eq!(held(ask(&me(), &foreign, &whole().ledger)), Held::Foreign);
    let own = folder(0xd1, Bootstrapped::Never);
    assert_eq!(held(ask(&me(), &own, &whole().ledger)), Held::Damaged);
    let mut once = folder(0xe1, Bootstrapped::Never);
    once.stamp.as_mut().unwrap().completed = true;
    assert_eq!(
        held(ask(&me(), &once, &permitted())),
        Held::Damaged,
        "never wiped"
    );
}

#[test]
fn a_disk_that_was_decommissioned_or_that_only_the_record_knows_is_neither_started_nor_wiped() {
    let mut ledger = permitted();
    if let Some(Phase::Granted(grant)) = ledger.work.as_mut().map(|w| &mut w.phase) {
        grant.wipe = true;
    }
    let left = folder(0xe1, Bootstrapped::Decommissioned);
    assert_eq!(held(ask(&me(), &left, &ledger)), Held::Damaged);
    // The ledger was lost and made anew; what it knew of the disk stands in the record.
    let recorded = folder(0xd1, Bootstrapped::InProgress);
    assert_eq!(held(ask(&me(), &recorded, &Ledger::new(CLUSTER))), Held::Damaged);
    let other = folder(0xd2, Bootstrapped::InProgress);
    assert_eq!(held(ask(&me(), &other, &Ledger::new(CLUSTER))), Held::Unfinished);
}

#[test]
fn n21_a_permission_that_makes_it_its_own_seed_is_refused() {
    let mut ledger = permitted();
    let work = ledger.work.as_mut().unwrap();
    let Phase::Granted(grant) = &mut work.phase else {
        panic!("it is permitted");
    };
    grant.seeds = vec![address(1)];
    grant.number = GrantNumber(9);
    let empty = folder(0xe1, Bootstrapped::Never);
    assert_eq!(held(ask(&me(), &empty, &ledger)), Held::BadSeeds);
}

#[test]
fn a_disk_that_is_not_on_record_waits_once_its_place_was_given_to_another() {
    let own = folder(0xd1, Bootstrapped::Completed(host(1)));
    let unknown = |mut ledger: Ledger| {
        ledger.known.get_mut(&member(1)).unwrap().disk = None;
        ledger.retired.clear();
        ledger
    };
    assert!(matches!(
        ask(&me(), &own, &unknown(whole().ledger)),
        Gate::Start(_)
    ));
    let confirming = unknown(ready().ledger);
    assert!(matches!(ask(&me(), &own, &confirming), Gate::Start(_)), "not yet");
    assert_eq!(held(ask(&me(), &own, &unknown(permitted()))), Held::Retired);
}

/// Two disks were mounted the wrong way round, and on one of them the table is broken that says what it is.
#[test]
fn the_disk_of_another_member_that_is_not_bootstrapped_any_more_is_neither_started_nor_wiped() {
    let mut ledger = permitted();
    if let Some(Phase::Granted(grant)) = ledger.work.as_mut().map(|w| &mut w.phase) {
        (grant.disk, grant.wipe) = (DiskId(0xd2), true);
    }
    for bootstrapped in [Bootstrapped::Never, Bootstrapped::InProgress] {
        let others = folder(0xd2, bootstrapped);
        assert_eq!(held(ask(&me(), &others, &ledger)), Held::Damaged);
    }
}
