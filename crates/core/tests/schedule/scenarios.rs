//! Acceptance scenarios 1 to 20. Those that need the cluster (18, and the restart of 19) are tested with the cycle.

use jiff::Timestamp;
use mainstay_core::schedule::preview::{long_sleeps, preview};
use mainstay_core::schedule::{
    Cause, Cover, Desired, Exception, Holiday, Kind, Override, Schedule, ScheduleError, Span, Window, Zone,
};
use mainstay_core::time::Time;
use std::time::Duration;

/// A moment in Berlin, as `2026-11-17 20:05`. 2026-11-16 is a Monday.
fn at(text: &str) -> Time {
    let zone = jiff::tz::TimeZoneDatabase::bundled()
        .get("Europe/Berlin")
        .unwrap();
    let local: jiff::civil::DateTime = text.parse().unwrap();
    let moment: Timestamp = zone.to_ambiguous_timestamp(local).compatible().unwrap();
    Time(u64::try_from(moment.as_millisecond()).unwrap())
}

fn berlin(windows: Vec<Window>) -> Schedule {
    Schedule::new(Zone::parse("Europe/Berlin").unwrap(), windows, Vec::new()).unwrap()
}

fn weeknights() -> Window {
    Window::daily("20:00", "06:00", &["MON", "TUE", "WED", "THU", "FRI"]).unwrap()
}

fn asleep(schedule: &Schedule, when: &str) -> bool {
    schedule.at(at(when)).desired == Desired::Asleep
}

fn exception(name: &str, from: &str, to: &str, kind: Kind, windows: Vec<Window>) -> Exception {
    let valid = Span {
        from: at(from),
        to: at(to),
    };
    Exception::new(name, valid, kind, Cover::of(windows)).unwrap()
}

/// The sleeps of a stretch, as local times.
fn sleeps(schedule: &Schedule, from: &str, to: &str) -> Vec<(String, String)> {
    let all = preview(schedule, at(from), at(to));
    let only = all.into_iter().filter(|e| e.interval.desired == Desired::Asleep);
    only.map(|e| (e.begins_local, e.ends_local)).collect()
}

#[test]
fn s01_a_weeknight() {
    let schedule = berlin(vec![weeknights()]);
    assert!(!asleep(&schedule, "2026-11-17 19:59"));
    assert!(asleep(&schedule, "2026-11-17 20:05"));
    assert!(!asleep(&schedule, "2026-11-18 06:05"));
    let slot = schedule.at(at("2026-11-17 20:05"));
    assert_eq!(
        (slot.since, slot.until),
        (Some(at("2026-11-17 20:00")), Some(at("2026-11-18 06:00")))
    );
    assert_eq!(slot.why.id(), "Window");
}

#[test]
fn s02_the_weekend_is_awake_unless_it_is_declared() {
    let schedule = berlin(vec![weeknights()]);
    assert!(
        asleep(&schedule, "2026-11-21 05:59"),
        "the Friday window ends on Saturday morning"
    );
    assert!(!asleep(&schedule, "2026-11-21 12:00"));
    let weekend = Window::interval("FRI 20:00", "MON 06:00").unwrap();
    assert!(asleep(&berlin(vec![weeknights(), weekend]), "2026-11-21 12:00"));
    let shown = sleeps(&schedule, "2026-11-20 12:00", "2026-11-23 12:00");
    assert_eq!(
        shown,
        [(
            "Fri 2026-11-20 20:00".to_owned(),
            "Sat 2026-11-21 06:00".to_owned()
        )]
    );
}

#[test]
fn s03_friday_to_monday_is_one_sleep() {
    let weekend = Window::interval("FRI 20:00", "MON 06:00").unwrap();
    let shown = sleeps(
        &berlin(vec![weeknights(), weekend]),
        "2026-11-20 12:00",
        "2026-11-23 12:00",
    );
    assert_eq!(
        shown,
        [(
            "Fri 2026-11-20 20:00".to_owned(),
            "Mon 2026-11-23 06:00".to_owned()
        )]
    );
}

#[test]
fn s04_one_night_never_becomes_a_week() {
    let schedule = berlin(vec![Window::daily("23:30", "00:30", &["MON"]).unwrap()]);
    assert!(asleep(&schedule, "2026-11-17 00:29"));
    assert!(!asleep(&schedule, "2026-11-17 00:31"));
    assert!(!asleep(&schedule, "2026-11-22 23:59"));
}

#[test]
fn s05_windows_that_touch_are_one_sleep() {
    let whole = |day: &str| Window::daily("00:00", "24:00", &[day]).unwrap();
    let shown = sleeps(
        &berlin(vec![whole("SAT"), whole("SUN")]),
        "2026-11-20 12:00",
        "2026-11-24 12:00",
    );
    assert_eq!(
        shown,
        [(
            "Sat 2026-11-21 00:00".to_owned(),
            "Mon 2026-11-23 00:00".to_owned()
        )]
    );
}

#[test]
fn s06_windows_that_overlap_are_their_union() {
    let late = Window::daily("22:00", "08:00", &["TUE"]).unwrap();
    let shown = sleeps(
        &berlin(vec![weeknights(), late]),
        "2026-11-17 12:00",
        "2026-11-18 12:00",
    );
    assert_eq!(
        shown,
        [(
            "Tue 2026-11-17 20:00".to_owned(),
            "Wed 2026-11-18 08:00".to_owned()
        )]
    );
}

#[test]
fn s07_times_and_days_are_those_of_the_zone() {
    let zone = Zone::parse("Asia/Jakarta").unwrap();
    let night = Window::daily("20:00", "06:00", &["MON"]).unwrap();
    let schedule = Schedule::new(zone, vec![night], Vec::new()).unwrap();
    let utc = |text: &str| {
        let moment: Timestamp = text.parse().unwrap();
        schedule
            .at(Time(u64::try_from(moment.as_millisecond()).unwrap()))
            .desired
    };
    assert_eq!(utc("2026-11-16T12:59:00Z"), Desired::Awake);
    assert_eq!(utc("2026-11-16T13:00:00Z"), Desired::Asleep);
    assert_eq!(
        utc("2026-11-16T22:59:00Z"),
        Desired::Asleep,
        "already Tuesday in Jakarta"
    );
    assert_eq!(utc("2026-11-16T23:00:00Z"), Desired::Awake);
}

#[test]
fn s08_a_wake_up_in_a_skipped_hour_happens_at_its_end() {
    let schedule = berlin(vec![Window::daily("20:00", "02:30", &["SAT"]).unwrap()]);
    let slot = schedule.at(at("2026-03-29 01:59"));
    assert_eq!(
        (slot.desired, slot.until),
        (Desired::Asleep, Some(at("2026-03-29 03:00")))
    );
    let hidden = berlin(vec![Window::daily("02:10", "02:50", &["SUN"]).unwrap()]);
    assert_eq!(sleeps(&hidden, "2026-03-28 12:00", "2026-03-30 12:00"), []);
}

#[test]
fn s09_a_sleep_in_a_repeated_hour_begins_once() {
    let schedule = berlin(vec![Window::daily("02:30", "06:00", &["SUN"]).unwrap()]);
    let intervals = schedule.intervals(at("2026-10-24 12:00"), at("2026-10-25 12:00"));
    assert_eq!(intervals.len(), 3, "{intervals:?}");
    assert_eq!(intervals[1].from, at("2026-10-25 02:30"));
    let hours = intervals[1].to.since(intervals[1].from);
    assert_eq!(
        hours,
        Duration::from_mins(270),
        "the first half past two, and an hour more"
    );
}

#[test]
fn s10_what_is_no_schedule_cannot_become_one() {
    assert!(matches!(
        Zone::parse("Mars/Olympus"),
        Err(ScheduleError::UnknownZone(_))
    ));
    let same = Window::daily("20:00", "20:00", &["MON"]);
    assert!(matches!(same, Err(ScheduleError::EmptyWindow(_))));
    let none = Schedule::new(Zone::parse("UTC").unwrap(), Vec::new(), Vec::new());
    assert_eq!(none, Err(ScheduleError::NoWindows));
}

#[test]
fn s11_a_sleep_of_more_than_72_hours_is_pointed_out_with_its_bounds() {
    let week = berlin(vec![Window::interval("MON 20:00", "FRI 06:00").unwrap()]);
    let long = long_sleeps(&week, at("2026-11-18 12:00"), at("2026-11-19 12:00"));
    assert_eq!(long.len(), 1);
    assert_eq!(
        (long[0].begins_local.as_str(), long[0].ends_local.as_str()),
        ("Mon 2026-11-16 20:00", "Fri 2026-11-20 06:00")
    );
    let weekend = berlin(vec![Window::interval("FRI 20:00", "MON 06:00").unwrap()]);
    assert!(long_sleeps(&weekend, at("2026-11-16 00:00"), at("2026-11-30 00:00")).is_empty());
}

#[test]
fn s12_an_extension_over_a_holiday_joins_two_nights() {
    let free = exception(
        "repentance-day",
        "2026-11-18 06:00",
        "2026-11-18 20:00",
        Kind::Extend,
        Vec::new(),
    );
    let joined = [(
        "Tue 2026-11-17 20:00".to_owned(),
        "Thu 2026-11-19 06:00".to_owned(),
    )];
    let schedule = berlin(vec![weeknights()]).with_exceptions(vec![free]);
    assert_eq!(sleeps(&schedule, "2026-11-17 12:00", "2026-11-19 12:00"), joined);
    let zone = Zone::parse("Europe/Berlin").unwrap();
    let holiday = Holiday::parse("2026-11-18", "Day of Repentance").unwrap();
    let schedule = Schedule::new(zone, vec![weeknights()], vec![holiday]).unwrap();
    assert_eq!(sleeps(&schedule, "2026-11-17 12:00", "2026-11-19 12:00"), joined);
    let why = schedule.at(at("2026-11-18 12:00")).why.to_string();
    assert_eq!(why, "2026-11-18 is a holiday (Day of Repentance)");
}

#[test]
fn s13_a_suspension_covers_the_night_it_starts_in() {
    let window = Window::daily("20:00", "02:00", &["FRI"]).unwrap();
    let release = exception(
        "release",
        "2026-11-16 00:00",
        "2026-11-30 00:00",
        Kind::Suspend { lead: Duration::ZERO },
        vec![window],
    );
    let schedule = berlin(vec![weeknights()]).with_exceptions(vec![release]);
    assert!(!asleep(&schedule, "2026-11-20 23:00"));
    assert!(!asleep(&schedule, "2026-11-21 01:59"));
    assert!(asleep(&schedule, "2026-11-21 02:00"));
    assert!(
        asleep(&schedule, "2026-11-20 01:00"),
        "Thursday night is another night"
    );
    let why = schedule.at(at("2026-11-20 23:00")).why;
    assert_eq!(
        why,
        Cause::KeptAwake {
            exception: "release".to_owned()
        }
    );
}

#[test]
fn s14_nothing_goes_down_within_the_lead_time() {
    let with_lead = |hours: u64| {
        let night = Window::daily("21:00", "23:00", &["TUE"]).unwrap();
        let lead = Duration::from_secs(3600 * hours);
        let kind = Kind::Suspend { lead };
        let load_test = exception(
            "load-test",
            "2026-11-16 00:00",
            "2026-11-20 00:00",
            kind,
            vec![night],
        );
        let base = Window::daily("20:30", "06:00", &["TUE"]).unwrap();
        berlin(vec![base]).with_exceptions(vec![load_test])
    };
    assert!(asleep(&with_lead(0), "2026-11-17 20:30"));
    let led = with_lead(1);
    assert!(!asleep(&led, "2026-11-17 20:30"));
    assert_eq!(led.at(at("2026-11-17 20:45")).why.id(), "LeadTime");
    assert!(asleep(&led, "2026-11-17 23:00"));
}

#[test]
fn s15_a_replacement_ends_in_the_middle_and_the_base_decides_at_once() {
    let days = Window::daily("10:00", "12:00", &["TUE"]).unwrap();
    let inverse = exception(
        "inverse",
        "2026-11-17 00:00",
        "2026-11-17 22:00",
        Kind::Replace,
        vec![days],
    );
    let schedule = berlin(vec![weeknights()]).with_exceptions(vec![inverse]);
    assert!(asleep(&schedule, "2026-11-17 11:00"));
    assert!(!asleep(&schedule, "2026-11-17 03:00"), "the base does not count");
    assert!(!asleep(&schedule, "2026-11-17 21:59"));
    assert!(asleep(&schedule, "2026-11-17 22:00"));
    assert_eq!(schedule.at(at("2026-11-17 21:00")).why.id(), "ReplacedAway");
}

#[test]
fn s16_all_three_at_once_and_the_suspension_wins_every_minute() {
    let window = |start, end| Window::daily(start, end, &["TUE"]).unwrap();
    let tuesday = |name, kind, w| exception(name, "2026-11-17 00:00", "2026-11-18 00:00", kind, vec![w]);
    let schedule = berlin(vec![weeknights()]).with_exceptions(vec![
        tuesday(
            "s",
            Kind::Suspend { lead: Duration::ZERO },
            window("11:00", "13:00"),
        ),
        tuesday("e", Kind::Extend, window("12:00", "15:00")),
        tuesday("r", Kind::Replace, window("10:00", "12:00")),
    ]);
    let shown = sleeps(&schedule, "2026-11-17 06:00", "2026-11-17 23:00");
    let local = |a: &str, b: &str| (format!("Tue 2026-11-17 {a}"), format!("Tue 2026-11-17 {b}"));
    assert_eq!(shown, [local("10:00", "11:00"), local("13:00", "15:00")]);
}

#[test]
fn s17_two_colliding_exceptions_give_the_same_result_in_any_order_and_are_reported() {
    let one = |name, start| {
        let window = Window::daily(start, "18:00", &["TUE"]).unwrap();
        exception(
            name,
            "2026-11-16 00:00",
            "2026-11-20 00:00",
            Kind::Extend,
            vec![window],
        )
    };
    let (a, b) = (one("a", "10:00"), one("b", "12:00"));
    let schedule = berlin(vec![weeknights()]).with_exceptions(vec![a.clone(), b.clone()]);
    assert_eq!(schedule, berlin(vec![weeknights()]).with_exceptions(vec![b, a]));
    let names: Vec<_> = schedule
        .collisions()
        .iter()
        .map(|(x, y)| (x.name(), y.name()))
        .collect();
    assert_eq!(names, [("a", "b")]);
    assert!(asleep(&schedule, "2026-11-17 10:30"));
}

#[test]
fn s19_awake_for_three_hours_ends_by_itself() {
    let wish = Override::awake_for(at("2026-11-17 23:00"), Duration::from_hours(3), "ada, a demo").unwrap();
    let schedule = berlin(vec![weeknights()]).with_override(Some(wish));
    let slot = schedule.at(at("2026-11-17 23:00"));
    assert_eq!(
        (slot.desired, slot.until),
        (Desired::Awake, Some(at("2026-11-18 02:00")))
    );
    assert_eq!(
        slot.why.to_string(),
        "somebody asked for it to be awake (ada, a demo)"
    );
    assert!(asleep(&schedule, "2026-11-17 22:59"));
    assert!(asleep(&schedule, "2026-11-18 02:00"));
}

#[test]
fn s20_a_missed_edge_is_made_up_for_by_the_next_look() {
    let slot = berlin(vec![weeknights()]).at(at("2026-11-17 20:40"));
    assert_eq!(
        (slot.desired, slot.since),
        (Desired::Asleep, Some(at("2026-11-17 20:00")))
    );
}

#[test]
fn a_schedule_without_an_edge_in_sight_says_so() {
    let always = berlin(Day7::all());
    let slot = always.at(at("2026-11-17 20:40"));
    assert_eq!(
        (slot.desired, slot.since, slot.until),
        (Desired::Asleep, None, None)
    );
    let far = Holiday::parse("2027-06-01", "").unwrap();
    let schedule = Schedule::new(Zone::parse("Europe/Berlin").unwrap(), Vec::new(), vec![far]).unwrap();
    let slot = schedule.at(at("2026-11-17 20:40"));
    assert_eq!(
        (slot.desired, slot.since, slot.until),
        (Desired::Awake, None, Some(at("2027-06-01 00:00")))
    );
}

struct Day7;

impl Day7 {
    fn all() -> Vec<Window> {
        let days = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];
        vec![Window::daily("00:00", "24:00", &days).unwrap()]
    }
}

#[test]
fn the_preview_flags_the_days_on_which_clocks_change() {
    let shown = preview(
        &berlin(vec![weeknights()]),
        at("2026-10-23 12:00"),
        at("2026-10-26 12:00"),
    );
    let flagged: Vec<_> = shown.iter().flat_map(|e| &e.clocks_change).collect();
    assert_eq!(flagged.len(), 1);
    assert_eq!(
        (flagged[0].local.as_str(), flagged[0].by_minutes),
        ("Sun 2026-10-25 02:00", -60)
    );
}
