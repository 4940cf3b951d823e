//! Where a read gateway may send a read, and for whom.

use super::cluster::{Situation, TERM, cluster};
use mainstay_core::memgraph::gate::Route;
use mainstay_core::memgraph::ids::{Ordinal, Term};
use mainstay_core::memgraph::observed::{Registration, Role, Status};
use mainstay_core::memgraph::read_gate::{LetIn, NotRead, Readers, Reads, login, may_read, readers};
use mainstay_core::memgraph::record::Writes;
use mainstay_core::memgraph::rules::Rules;
use mainstay_core::time::Time;

const READS: Reads = Reads {
    max_lag: 10,
    from_sync: false,
    from_main: false,
};

const NOW: Time = Time(100_000);

const CLIENT: LetIn = LetIn {
    by: Ordinal(0),
    term: TERM,
};

fn row(situation: &Situation, pod: u8) -> Option<Registration> {
    let main = situation.seen.answer(Ordinal(0))?;
    let rows = main.replicas.as_ref()?;
    rows.iter().find(|r| r.name.pod() == Ordinal(pod)).copied()
}

fn read(situation: &Situation, pod: u8, reads: Reads, rules: Rules) -> Result<(), NotRead> {
    let record = situation.record.as_ref().ok_or(NotRead::NotServing)?;
    let listed = row(situation, pod);
    may_read(
        record,
        Ordinal(pod),
        listed.as_ref(),
        Some(CLIENT),
        reads,
        NOW,
        rules,
    )
}

#[test]
fn reads_go_to_an_async_replica_that_is_near_enough() {
    let at = |behind| cluster().listed(2, |r| r.behind = behind);
    // It missed a transaction, and is fed all the same.
    let fed = |status| at(-2).listed(2, |r| (r.status, r.moved) = (status, Some(Time(95_000))));
    let sticky = at(-10).listed(2, |r| r.status = Status::Replicating);
    for near in [
        at(0),
        at(-10),
        sticky,
        fed(Status::Recovery),
        fed(Status::Invalid),
    ] {
        assert_eq!(read(&near, 2, READS, Rules::ALL), Ok(()));
    }
    for far in [at(-11), at(1)] {
        assert_eq!(read(&far, 2, READS, Rules::ALL), Err(NotRead::TooFarBehind));
    }
}

/// However near: in a small database a replica that has nothing yet is near.
#[test]
fn g9_a_replica_that_diverged_or_is_not_attached_or_recovers_takes_no_reads() {
    let as_it_is =
        |status, moved| cluster().listed(2, |r| (r.status, r.behind, r.moved) = (status, -1, moved));
    let long_ago = Some(Time(94_999));
    let main = Reads {
        from_main: true,
        ..READS
    };
    for (name, situation) in [
        ("`{}`", cluster().listed(2, |r| r.attached = false)),
        ("diverged", as_it_is(Status::Diverged, Some(NOW))),
        ("recovering", as_it_is(Status::Recovery, None)),
        ("recovering for long", as_it_is(Status::Recovery, long_ago)),
        ("invalid", as_it_is(Status::Invalid, None)),
        ("invalid for long", as_it_is(Status::Invalid, long_ago)),
    ] {
        assert_eq!(who(&situation, READS), Err(NotRead::NotFollowing), "{name}");
        assert_eq!(who(&situation, main), Ok(Readers::Main(Ordinal(0))), "{name}");
    }
}

#[test]
fn a_pod_that_does_not_follow_main_takes_no_reads() {
    let away = [
        (cluster().unregistered(2), NotRead::NotFollowing),
        (
            cluster().listed(2, |r| r.address_ok = false),
            NotRead::NotFollowing,
        ),
        (cluster().resetting(2), NotRead::BeingReset),
        (cluster().no_main(1), NotRead::NotServing),
        (cluster().never_recorded(), NotRead::NotServing),
    ];
    for (situation, why) in away {
        assert_eq!(read(&situation, 2, READS, Rules::ALL), Err(why), "{why}");
    }
}

#[test]
fn r29_the_sync_replica_and_main_take_reads_only_if_the_spec_says_so() {
    let (sync, main) = (
        Reads {
            from_sync: true,
            ..READS
        },
        Reads {
            from_main: true,
            ..READS
        },
    );
    assert_eq!(read(&cluster(), 1, READS, Rules::ALL), Err(NotRead::IsSync));
    assert_eq!(read(&cluster(), 1, sync, Rules::ALL), Ok(()));
    assert_eq!(read(&cluster(), 0, READS, Rules::ALL), Err(NotRead::IsMain));
    assert_eq!(read(&cluster(), 0, main, Rules::ALL), Ok(()));
    assert_eq!(
        read(&cluster().unprotected(), 1, READS, Rules::ALL),
        Err(NotRead::IsSync),
        "a STRICT_SYNC registration that is not proven yet holds commits all the same"
    );
}

#[test]
fn r22_only_a_client_that_the_serving_main_let_in_may_read() {
    let situation = cluster();
    let record = situation.record.as_ref().expect("a record");
    let listed = row(&situation, 2);
    let ask = |client, rules| may_read(record, Ordinal(2), listed.as_ref(), client, READS, NOW, rules);
    assert_eq!(ask(Some(CLIENT), Rules::ALL), Ok(()));
    let (other, older) = (
        LetIn {
            by: Ordinal(1),
            term: TERM,
        },
        LetIn {
            by: Ordinal(0),
            term: Term(TERM.0 - 1),
        },
    );
    for stranger in [None, Some(other), Some(older)] {
        assert_eq!(ask(stranger, Rules::ALL), Err(NotRead::NotLetIn), "{stranger:?}");
    }
}

/// Who takes reads, of all that MAIN lists.
fn who(situation: &Situation, reads: Reads) -> Result<Readers, NotRead> {
    let record = situation.record.as_ref().ok_or(NotRead::NotServing)?;
    let rows: Vec<Registration> = [1, 2].into_iter().filter_map(|pod| row(situation, pod)).collect();
    readers(record, &rows, Some(CLIENT), reads, NOW, Rules::ALL)
}

#[test]
fn main_takes_reads_only_when_no_replica_may() {
    let (main, both) = (
        Reads {
            from_main: true,
            ..READS
        },
        Reads {
            from_sync: true,
            from_main: true,
            ..READS
        },
    );
    let replicas = |pods: &[u8]| Ok(Readers::Replicas(pods.iter().copied().map(Ordinal).collect()));
    let far = || cluster().listed(2, |r| r.behind = -11);
    assert_eq!(who(&cluster(), READS), replicas(&[2]));
    assert_eq!(who(&cluster(), main), replicas(&[2]));
    assert_eq!(who(&cluster(), both), replicas(&[1, 2]));
    assert_eq!(who(&far(), both), replicas(&[1]));
    assert_eq!(who(&far(), main), Ok(Readers::Main(Ordinal(0))));
    assert_eq!(who(&far(), READS), Err(NotRead::TooFarBehind));
    let alone = || cluster().unregistered(1).unregistered(2);
    assert_eq!(who(&alone(), READS), Err(NotRead::NotFollowing));
    assert_eq!(who(&alone(), main), Ok(Readers::Main(Ordinal(0))));
    assert_eq!(who(&cluster().no_main(1), both), Err(NotRead::NotServing));
}

#[test]
fn a_pod_that_is_listed_twice_must_be_allowed_by_both_rows() {
    let situation = cluster();
    let record = situation.record.as_ref().expect("a record");
    let near = row(&situation, 2).expect("it is listed");
    let far = Registration { behind: -11, ..near };
    let ask = |rows: &[Registration]| readers(record, rows, Some(CLIENT), READS, NOW, Rules::ALL);
    assert!(ask(&[near, near]).is_ok());
    for rows in [[near, far], [far, near]] {
        assert_eq!(ask(&rows), Err(NotRead::TooFarBehind));
    }
}

#[test]
fn a_client_logs_in_where_main_serves_and_only_a_checked_main_lets_it_in() {
    let situation = cluster();
    let record = situation.record.as_ref().expect("a record");
    let route = Route {
        pod: Ordinal(0),
        term: TERM,
    };
    assert_eq!(login(record), Some(route));
    for closed in [record.held(record.since), record.with_writes(Writes::Closed)] {
        assert_eq!(login(&closed), Some(route), "a login commits nothing");
    }
    let gone = cluster().no_main(1);
    assert_eq!(login(gone.record.as_ref().expect("a record")), None);
    let by = |role, mark| LetIn::by(route, role, mark, Rules::ALL);
    assert_eq!(by(Role::Main, Some(TERM)), Some(CLIENT));
    for (role, mark) in [
        (Role::Replica, Some(TERM)),
        (Role::Main, Some(Term(TERM.0 - 1))),
        (Role::Main, None),
    ] {
        assert_eq!(by(role, mark), None, "{role:?} {mark:?}");
    }
}

#[cfg(feature = "rule-switches")]
#[test]
fn without_their_rules_a_stranger_reads_and_the_sync_replica_is_read_from() {
    use mainstay_core::memgraph::rules::Rule;
    let without = Rules::ALL.without(Rule::R29);
    assert_eq!(read(&cluster(), 1, READS, without), Ok(()), "R29 is off");
    let situation = cluster();
    let record = situation.record.as_ref().expect("a record");
    let listed = row(&situation, 2);
    let without = Rules::ALL.without(Rule::R22);
    let stranger = may_read(record, Ordinal(2), listed.as_ref(), None, READS, NOW, without);
    assert_eq!(stranger, Ok(()), "R22 is off");
}
