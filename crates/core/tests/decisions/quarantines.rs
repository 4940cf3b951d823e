//! Which data that was set aside is deleted, and when it is not.

use super::cluster::{Situation, cluster};
use mainstay_core::memgraph::helper::{Purge, Quarantine, VolumeReport};
use mainstay_core::memgraph::ids::{Ordinal, PodUid, ResetId};
use mainstay_core::memgraph::observed::Status;
use mainstay_core::memgraph::quarantine::{Keep, next};
use std::collections::BTreeMap;

fn volume(ids: &[u64]) -> VolumeReport {
    let aside = |id: &u64| Quarantine {
        id: ResetId(*id),
        bytes: 1,
        kept: false,
    };
    VolumeReport {
        pod_uid: PodUid(0xf2),
        free_bytes: 0,
        data_bytes: 0,
        marked: false,
        quarantines: ids.iter().map(aside).collect(),
    }
}

/// Pod 2 has four of which two are kept.
fn asked(situation: &Situation, purge: Option<(Ordinal, ResetId)>) -> Option<(Ordinal, Purge)> {
    let volumes = BTreeMap::from([(Ordinal(2), volume(&[3, 5, 8, 9]))]);
    let keep = Keep { purge, copies: 2 };
    next(situation.record.as_ref(), &situation.seen, &volumes, keep)
}

fn gone(ids: &[u64]) -> (Ordinal, Purge) {
    let purge = Purge {
        pod_uid: PodUid(0xf2),
        ids: ids.iter().map(|id| ResetId(*id)).collect(),
    };
    (Ordinal(2), purge)
}

#[test]
fn the_oldest_beyond_the_number_to_keep_go_when_the_clean_replica_is_ready() {
    assert_eq!(asked(&cluster(), None), Some(gone(&[3, 5])));
}

#[test]
fn nothing_goes_while_its_replica_may_still_be_the_worse_copy() {
    for (why, situation) in [
        (
            "it catches up",
            cluster().listed(2, |r| r.status = Status::Recovery),
        ),
        ("it is a zombie", cluster().listed(2, |r| r.attached = false)),
        ("it is not registered", cluster().unregistered(2)),
        ("a reset is under way", cluster().resetting(2)),
        ("MAIN does not answer", cluster().silent(0, 3)),
        ("there is no record", cluster().with(|s| s.record = None)),
    ] {
        assert_eq!(asked(&situation, None), None, "{why}");
    }
}

#[test]
fn what_a_human_names_goes_first_and_also_of_a_replica_that_is_not_ready() {
    let wish = Some((Ordinal(2), ResetId(9)));
    assert_eq!(asked(&cluster(), wish), Some(gone(&[9])));
    assert_eq!(asked(&cluster().unregistered(2), wish), Some(gone(&[9])));
    assert_eq!(asked(&cluster().resetting(2), wish), None, "not during a reset");
    let done = Some((Ordinal(2), ResetId(1)));
    assert_eq!(asked(&cluster(), done), Some(gone(&[3, 5])), "it is gone already");
    let elsewhere = Some((Ordinal(1), ResetId(9)));
    assert_eq!(
        asked(&cluster().unregistered(2), elsewhere),
        None,
        "of another volume"
    );
}
