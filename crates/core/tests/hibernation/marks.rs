//! The marks of what was brought back: scenarios 36 and 37.

use super::bed::{Bed, HOUR, name, target};
use mainstay_core::hibernation::state::{Phase, Stand};
use std::time::Duration;

#[test]
fn s36_a_mark_that_is_not_written_is_written_again_before_the_step_is_done() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    bed.now = bed.now + HOUR * 10;
    while !bed.calls.contains(&"start a".to_owned()) {
        assert!(bed.turn());
    }
    bed.refuse_shards = 5;
    while bed.refuse_shards > 0 {
        bed.turn();
        let cycle = bed.state.as_ref().unwrap().open.as_ref().unwrap();
        let stand = cycle.targets[&name("web")].stand;
        assert!(matches!(stand, Stand::Running { .. }), "{stand:?}");
        assert_eq!(bed.phase(), Phase::WakingUp);
        assert!(bed.point("web").is_open() && !bed.store().is_locked());
        bed.now = bed.now + Duration::from_secs(1);
    }
    bed.settle();
    assert_eq!((bed.phase(), bed.point("web").is_open()), (Phase::Active, false));
    assert_eq!(bed.replicas("a"), 3);
    let starts = bed.calls.iter().filter(|c| *c == "start a").count();
    assert_eq!(starts, 1, "what was made of it since stays");
}

#[test]
fn s37_marks_of_an_older_cycle_do_not_count() {
    for left_by_day in [true, false] {
        let mut bed = Bed::simple();
        bed.settle();
        bed.night();
        bed.morning();
        let leave = |bed: &mut Bed| {
            let marks = &mut bed.shards.get_mut(&1).unwrap().annotations;
            marks.insert(target("web").name.mark(), "true".to_owned());
        };
        if left_by_day {
            leave(&mut bed);
        }
        bed.night();
        if !left_by_day {
            leave(&mut bed);
        }
        bed.later(HOUR);
        assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Hibernated, 0));
        assert!(bed.point("web").is_open());
        bed.morning();
        assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Active, 3));
        assert!(!bed.store().is_locked());
    }
}
