//! A thousand random schedules, zones and dates around changes of the clocks, against the oracle.

use super::oracle::{MINUTE, Raw, RawException, RawWindow};
use mainstay_core::schedule::preview::preview;
use mainstay_core::schedule::{Day, Desired, Kind, Schedule, Zone};
use mainstay_core::time::Time;
use std::time::Duration;

/// Splitmix64: the seed is the whole state, and is printed when something differs.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn signed(&mut self, n: u64) -> i64 {
        i64::try_from(self.below(n)).unwrap()
    }

    /// Round times are likelier than others, and so are the hours in which clocks change.
    fn minute(&mut self) -> i64 {
        match self.below(4) {
            0 => self.signed(24) * 60,
            1 => self.signed(48) * 30,
            2 => self.signed(4 * 60),
            _ => self.signed(24 * 60),
        }
    }

    fn days(&mut self) -> Vec<Day> {
        let mask = 1 + self.below(127);
        Day::ALL
            .into_iter()
            .filter(|d| mask & (1 << (*d as u64)) != 0)
            .collect()
    }

    fn window(&mut self) -> RawWindow {
        let start = self.minute();
        if self.below(4) == 0 {
            return RawWindow {
                days: vec![Day::ALL[usize::try_from(self.below(7)).unwrap()]],
                start,
                end: self.minute(),
                days_later: 2 + self.signed(4),
            };
        }
        let end = match self.minute() {
            end if end == start => 24 * 60,
            end => end,
        };
        RawWindow {
            days: self.days(),
            start,
            end,
            days_later: i64::from(end < start),
        }
    }

    fn exception(&mut self, from: u64, to: u64) -> RawException {
        let kind = match self.below(3) {
            0 => Kind::Extend,
            1 => Kind::Suspend {
                lead: Duration::from_secs(
                    60 * [0, 0, 30, 60, 90, 600][usize::try_from(self.below(6)).unwrap()],
                ),
            },
            _ => Kind::Replace,
        };
        let begins = from - 3000 + self.below(to - from);
        let least = u64::from(kind == Kind::Replace);
        let windows = (0..least + self.below(3)).map(|_| self.window()).collect();
        RawException {
            kind,
            from: begins,
            to: begins + 1 + self.below(8000),
            windows,
        }
    }
}

const ZONES: [&str; 14] = [
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Asia/Jakarta",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Asia/Gaza",
    "America/St_Johns",
    "Atlantic/Azores",
    "Antarctica/Troll",
    "UTC",
];

/// Ten days, around a change of the clocks if the year has one.
fn range(dice: &mut Dice, zone: &str) -> (u64, u64) {
    let year = 365 * 24 * 60;
    let begin = (30 + dice.below(38)) * year;
    let changes = Zone::parse(zone)
        .unwrap()
        .changes(Time(begin * MINUTE), Time((begin + year) * MINUTE));
    let centre = match changes.len() as u64 {
        0 => begin + dice.below(year),
        n => changes[usize::try_from(dice.below(n)).unwrap()].at.0 / MINUTE,
    };
    (centre - 5 * 24 * 60 - dice.below(600), centre + 5 * 24 * 60)
}

fn raw(seed: u64) -> (Raw, u64, u64) {
    let mut dice = Dice(seed);
    let zone = ZONES[usize::try_from(dice.below(ZONES.len() as u64)).unwrap()];
    let (from, to) = range(&mut dice, zone);
    let holidays = (0..dice.below(3))
        .map(|_| i64::try_from(from / 1440 + dice.below(10)).unwrap())
        .collect();
    let wish = (dice.below(3) == 0).then(|| {
        let begins = from + dice.below(to - from);
        (begins, begins + 1 + dice.below(2000), dice.below(2) == 0)
    });
    let raw = Raw {
        zone,
        windows: (0..=dice.below(3)).map(|_| dice.window()).collect(),
        holidays,
        exceptions: (0..dice.below(4)).map(|_| dice.exception(from, to)).collect(),
        wish,
    };
    (raw, from, to)
}

#[test]
fn a_thousand_random_schedules_agree_with_a_clock_read_every_minute() {
    let (mut edges, mut long) = (0, 0);
    for seed in 0..1000 {
        let (raw, from, to) = raw(seed);
        let schedule = raw.parsed();
        let oracle = raw.minutes(from, to);
        let mut ours = Vec::new();
        let intervals = schedule.intervals(Time(from * MINUTE), Time(to * MINUTE));
        for interval in &intervals {
            assert_eq!(interval.from.0 % MINUTE, 0, "seed {seed}");
            let length = usize::try_from((interval.to.0 - interval.from.0) / MINUTE).unwrap();
            ours.extend(std::iter::repeat_n(interval.desired == Desired::Asleep, length));
        }
        let wrong = (0..oracle.len()).find(|i| ours.get(*i) != oracle.get(*i));
        assert_eq!(wrong.map(|i| from + i as u64), None, "seed {seed}: {raw:?}");
        assert_eq!(ours.len(), oracle.len());
        let alternate = intervals
            .windows(2)
            .all(|p| p[0].desired != p[1].desired && p[0].to == p[1].from);
        assert!(alternate, "seed {seed}: neighbours of the same kind");
        edges += intervals.len() - 1;
        agrees_at_moments(seed, &schedule, &oracle, from);
        long += preview_agrees(seed, &schedule, &oracle, from);
    }
    assert!(long > 20, "only {long} long sleeps were put to the test");
    assert!(edges > 5_000, "only {edges} edges were put to the test");
}

/// `at` says the same as the minutes around it, at every edge and at some moments between.
fn agrees_at_moments(seed: u64, schedule: &Schedule, oracle: &[bool], from: u64) {
    let mut dice = Dice(seed ^ 0xa11ce);
    let edges = (1..oracle.len()).filter(|i| oracle[*i] != oracle[i - 1]);
    let mut moments: Vec<usize> = edges.flat_map(|i| [i - 1, i]).collect();
    moments.extend((0..5).map(|_| usize::try_from(dice.below(oracle.len() as u64)).unwrap()));
    for index in moments {
        let now = Time((from + index as u64) * MINUTE);
        let slot = schedule.at(now);
        assert_eq!(
            slot.desired == Desired::Asleep,
            oracle[index],
            "seed {seed} at {now}"
        );
        let next = (index + 1..oracle.len()).find(|i| oracle[*i] != oracle[index]);
        if let Some(next) = next {
            assert_eq!(
                slot.until,
                Some(Time((from + next as u64) * MINUTE)),
                "seed {seed} at {now}"
            );
        }
        let before = (0..index).rev().find(|i| oracle[*i] != oracle[index]);
        if let Some(before) = before {
            let since = Time((from + before as u64 + 1) * MINUTE);
            assert_eq!(slot.since, Some(since), "seed {seed} at {now}");
        }
    }
}

/// What people are shown is what the minutes say: every stretch with its true bounds, and every long sleep pointed out. It
/// begins and ends a day inside of what is known, so that stretches reach beyond it.
fn preview_agrees(seed: u64, schedule: &Schedule, oracle: &[bool], from: u64) -> usize {
    let day = 24 * 60;
    let (first, last) = (day, oracle.len() - day);
    let at = |index: usize| Time((from + index as u64) * MINUTE);
    let shown = preview(schedule, at(first), at(last));
    let (mut index, mut long) = (first, 0);
    for entry in &shown {
        let interval = &entry.interval;
        let asleep = interval.desired == Desired::Asleep;
        let begins = (0..=index).rev().find(|i| oracle[*i] != asleep);
        let ends = (index..oracle.len()).find(|i| oracle[*i] != asleep);
        assert_eq!(oracle[index], asleep, "seed {seed}");
        if let Some(before) = begins {
            assert_eq!(interval.from, at(before + 1), "seed {seed}");
        }
        if let Some(end) = ends {
            assert_eq!(interval.to, at(end), "seed {seed}");
        }
        if let (Some(before), Some(end)) = (begins, ends) {
            let minutes = end - before - 1;
            assert_eq!(
                entry.long,
                asleep && minutes > 72 * 60,
                "seed {seed}: {minutes} minutes"
            );
            long += usize::from(entry.long);
        }
        // Something decides at every moment of it, and the first does from its beginning.
        assert_eq!(entry.because[0].from, interval.from, "seed {seed}");
        assert!(
            entry
                .because
                .windows(2)
                .all(|p| p[0].from < p[1].from && p[0].why != p[1].why)
        );
        index = ends.unwrap_or(oracle.len());
    }
    assert!(index >= last, "seed {seed}: it ends too early");
    long
}
