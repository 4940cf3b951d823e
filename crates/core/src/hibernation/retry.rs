//! When a failed target is tried again.

use super::observed::Jitter;
use super::state::Operation;
use crate::time::Time;
use std::time::Duration;

/// The first wait.
pub const FIRST: Duration = Duration::from_mins(1);
/// The longest wait.
pub const LONGEST: Duration = Duration::from_mins(30);

/// The wait after so many failures: a minute, doubled each time, half an hour at most; and up to a fifth more, so
/// that many plans do not come back at the same moment.
pub fn back_off(attempts: u8, jitter: Jitter) -> Duration {
    let doublings = u32::from(attempts.saturating_sub(1)).min(10);
    let wait = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    wait + wait * u32::from(jitter.share()) / 5000
}

/// When it is tried again after its failure number `attempts`; `None`: not by itself.
///
/// When its retries are used up, or when it is pointless to try again, a shutdown is left alone until the schedule
/// changes: things that stay awake cost money, no more. A wake-up goes on every half hour without end, whatever the
/// failure: things that stay asleep keep people from working, and what a server calls denied is repaired by somebody who
/// need not know of the plan.
pub fn again(
    operation: Operation,
    attempts: u8,
    retries: u8,
    permanent: bool,
    jitter: Jitter,
    now: Time,
) -> Option<Time> {
    match operation {
        _ if attempts <= retries && !permanent => Some(now + back_off(attempts, jitter)),
        Operation::Shutdown => None,
        Operation::WakeUp => Some(now + back_off(u8::MAX, jitter)),
    }
}

/// Is it time? A time that no wait reaches was written by a clock that was ahead: waiting for it would keep things asleep
/// for as long as the clock was wrong.
pub fn is_due(at: Time, now: Time) -> bool {
    at <= now || at > now + LONGEST * 6 / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_half_an_hour_and_jitter_adds_a_fifth_at_most() {
        let seconds = |attempts, jitter| back_off(attempts, Jitter::per_mille(jitter)).as_secs();
        let plain: Vec<_> = (1..=7).map(|a| seconds(a, 0) / 60).collect();
        assert_eq!(plain, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!((seconds(1, 1000), seconds(1, 5000)), (72, 72));
        assert_eq!(seconds(u8::MAX, 500), 33 * 60);
    }

    #[test]
    fn a_shutdown_gives_up_and_a_wake_up_does_not_even_when_the_failure_is_permanent() {
        let (jitter, now) = (Jitter::default(), Time(0));
        let again = |operation, attempts, permanent| again(operation, attempts, 3, permanent, jitter, now);
        assert_eq!(
            again(Operation::Shutdown, 3, false),
            Some(now + Duration::from_mins(4))
        );
        assert_eq!(again(Operation::Shutdown, 4, false), None);
        assert_eq!(again(Operation::WakeUp, 4, false), Some(now + LONGEST));
        assert_eq!(again(Operation::Shutdown, 1, true), None);
        assert_eq!(again(Operation::WakeUp, 1, true), Some(now + LONGEST));
    }

    #[test]
    fn a_retry_that_a_clock_ahead_wrote_is_due_and_the_longest_wait_is_not() {
        let now = Time(86_400_000);
        let longest = now + back_off(u8::MAX, Jitter::per_mille(1000));
        assert!(is_due(now, now) && !is_due(longest, now));
        assert!(is_due(longest + Duration::from_millis(1), now));
    }
}
