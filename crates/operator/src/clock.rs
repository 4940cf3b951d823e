//! The two clocks: the wall's for records and people, a monotonic one for leases.

use mainstay_core::time::Time;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Now, on the wall.
pub fn wall() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Now, on a clock that never goes back, since the first call of this process.
pub fn monotonic() -> Time {
    static START: OnceLock<Instant> = OnceLock::new();
    let passed = START.get_or_init(Instant::now).elapsed();
    Time(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX))
}

/// The wall's clock, or one that goes on by tokio's from a moment that a test chose, so that paused tests have one time
/// and nights pass in milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Chosen>);

#[derive(Clone, Debug)]
struct Chosen {
    start: Time,
    at: tokio::time::Instant,
    jumped: Arc<AtomicU64>,
}

impl Clock {
    /// It is this time now, whatever the wall says.
    pub fn starting_at(start: Time) -> Self {
        Self(Some(Chosen {
            start,
            at: tokio::time::Instant::now(),
            jumped: Arc::default(),
        }))
    }

    /// Now, on a clock that never goes back and is never put forward: for leases.
    pub fn monotonic(&self) -> Time {
        match &self.0 {
            None => monotonic(),
            Some(Chosen { at, .. }) => Time::ZERO + at.elapsed(),
        }
    }

    /// The same clock as it would be if nobody had put it forward, or does so later.
    #[must_use]
    pub fn steady(&self) -> Self {
        Self(self.0.as_ref().map(|Chosen { start, at, jumped: _ }| Chosen {
            start: *start,
            at: *at,
            jumped: Arc::default(),
        }))
    }

    /// The clock is put forward, with nobody told.
    pub fn jump(&self, by: Duration) {
        if let Some(chosen) = &self.0 {
            let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
            chosen.jumped.fetch_add(millis, Ordering::Relaxed);
        }
    }

    /// Now.
    pub fn now(&self) -> Time {
        match &self.0 {
            None => wall(),
            Some(Chosen { start, at, jumped }) => {
                *start + at.elapsed() + Duration::from_millis(jumped.load(Ordering::Relaxed))
            }
        }
    }
}

/// A time as Kubernetes writes it, to the second.
pub fn rfc3339(at: Time) -> String {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    let at = jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
    format!("{at:.0}")
}

/// A number that nobody else has drawn, small enough for every reader of JSON.
pub fn draw() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    // The keys of a `RandomState` come from the system; nothing here needs to be secret.
    RandomState::new().build_hasher().finish() >> 12
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_kubernetes_writes_them() {
        assert_eq!(
            rfc3339(Time(1_999)),
            "1970-01-01T00:00:01Z",
            "the second that has begun"
        );
        assert_eq!(rfc3339(Time(1_000)), "1970-01-01T00:00:01Z");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_put_forward_leaves_the_steady_one_and_the_monotonic_one_alone() {
        let clock = Clock::starting_at(Time(5_000));
        let steady = clock.steady();
        clock.jump(Duration::from_hours(1));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(clock.now(), Time(5_000 + 3_600_000 + 2_000));
        assert_eq!((steady.now(), clock.steady().now()), (Time(7_000), Time(7_000)));
        assert_eq!(
            (clock.monotonic(), steady.monotonic()),
            (Time(2_000), Time(2_000))
        );
    }

    #[test]
    fn drawn_numbers_differ_and_survive_json() {
        let (a, b) = (draw(), draw());
        assert_ne!(a, b);
        assert!(a < 1 << 53 && b < 1 << 53);
    }
}
