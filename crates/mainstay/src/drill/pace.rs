//! How fast clients write.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How far behind its schedule a drill may be and still make up for it. What a MAIN that is gone held up for longer is
/// not written in one burst when the next one is there.
const ARREARS: Duration = Duration::from_millis(100);

/// How fast clients write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Each waits so long after an answer: how many writes that makes depends on how fast answers come.
    Pause(Duration),
    /// So many writes in a second, of all clients together, whatever an answer takes.
    Rate(NonZeroU32),
}

/// When the writes of a round may begin: one for all its clients. No clock.
#[derive(Debug)]
pub(crate) struct Schedule {
    pace: Pace,
    next: Mutex<Duration>,
}

impl Schedule {
    pub(crate) fn new(pace: Pace) -> Self {
        Self {
            pace,
            next: Mutex::default(),
        }
    }

    /// When a client that is free now writes next; both since the round began.
    pub(crate) fn due(&self, now: Duration) -> Duration {
        match self.pace {
            Pace::Pause(_) => now,
            Pace::Rate(rate) => {
                let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
                let due = (*next).max(now.saturating_sub(ARREARS));
                *next = due + Duration::from_secs(1) / rate.get();
                due
            }
        }
    }

    /// How long a client rests after an answer.
    pub(crate) fn rest(&self) -> Duration {
        match self.pace {
            Pace::Pause(pause) => pause,
            Pace::Rate(_) => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn rate(rate: u32) -> Schedule {
        Schedule::new(Pace::Rate(NonZeroU32::new(rate).unwrap()))
    }

    /// So many clients, of which each is answered after so long: when their writes of this time begin.
    fn writes(
        schedule: &Schedule,
        clients: usize,
        answer: Duration,
        from: Duration,
        until: Duration,
    ) -> Vec<Duration> {
        let mut free = vec![from; clients];
        let mut begun = Vec::new();
        loop {
            // The one that is free first.
            let first = free.iter_mut().min().unwrap();
            let begins = schedule.due(*first).max(*first);
            if begins >= until {
                return begun;
            }
            begun.push(begins);
            *first = begins + answer + schedule.rest();
        }
    }

    #[test]
    fn as_many_writes_as_were_asked_for_however_long_an_answer_takes() {
        for (clients, answer) in [(4, millis(1)), (4, millis(13)), (8, millis(35)), (1, millis(4))] {
            let all = writes(
                &rate(200),
                clients,
                answer,
                Duration::ZERO,
                Duration::from_secs(10),
            );
            assert!(
                (1_998..=2_001).contains(&all.len()),
                "{} with {answer:?}",
                all.len()
            );
        }
        // A pause after the answer makes fewer the longer that takes.
        let pause = Schedule::new(Pace::Pause(millis(20)));
        let all = writes(&pause, 4, millis(13), Duration::ZERO, Duration::from_secs(10));
        assert!(all.len() < 1_300, "{}", all.len());
    }

    #[test]
    fn writes_are_spread_evenly() {
        let all = writes(&rate(100), 4, millis(2), Duration::ZERO, Duration::from_secs(1));
        for (write, next) in all.iter().zip(all.iter().skip(1)) {
            assert_eq!(next.checked_sub(*write), Some(millis(10)));
        }
    }

    #[test]
    fn what_could_not_be_written_for_long_is_not_made_up_for_in_one_burst() {
        let schedule = rate(200);
        writes(&schedule, 4, millis(1), Duration::ZERO, Duration::from_secs(1));
        // Five seconds without a MAIN.
        let all = writes(
            &schedule,
            4,
            millis(1),
            Duration::from_secs(6),
            Duration::from_secs(7),
        );
        assert!((200..=221).contains(&all.len()), "{}", all.len());
    }
}
