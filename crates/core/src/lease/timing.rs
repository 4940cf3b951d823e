//! How long each part of the election takes.

use std::time::Duration;

/// Durations that fit together: `retry + request_timeout < renew_deadline < duration`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTiming {
    duration: Duration,
    renew_deadline: Duration,
    retry: Duration,
    request_timeout: Duration,
}

/// Durations with which the election would be unsafe or could never succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// The lease object only knows whole seconds, as a positive `i32`.
    #[error("the lease duration must be whole seconds between 1 and 2147483647")]
    Duration,
    /// Without a gap the old and the new leader act at the same time.
    #[error("the renew deadline must be shorter than the lease duration")]
    NoMargin,
    /// One lost answer would end a leadership.
    #[error("a renewal that got no answer must leave time for a second one before the renew deadline")]
    NoSecondAttempt,
    /// A candidate that does not wait between requests would flood the API server.
    #[error("the retry interval and the request time-out must be at least one millisecond")]
    Zero,
}

impl LeaseTiming {
    /// Checks that the durations fit together.
    pub fn new(
        duration: Duration,
        renew_deadline: Duration,
        retry: Duration,
        request_timeout: Duration,
    ) -> Result<Self, TimingError> {
        let whole_seconds =
            duration.subsec_nanos() == 0 && i32::try_from(duration.as_secs()).is_ok_and(|s| s > 0);
        if !whole_seconds {
            return Err(TimingError::Duration);
        }
        // Time counts in milliseconds: anything shorter would be no time at all.
        if retry.as_millis() == 0 || request_timeout.as_millis() == 0 {
            return Err(TimingError::Zero);
        }
        if renew_deadline >= duration {
            return Err(TimingError::NoMargin);
        }
        if retry.saturating_add(request_timeout) >= renew_deadline {
            return Err(TimingError::NoSecondAttempt);
        }
        Ok(Self {
            duration,
            renew_deadline,
            retry,
            request_timeout,
        })
    }

    /// How long others wait, after the last change they saw, before they take the lease.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// How long the holder acts, counted from before it sent its last accepted renewal.
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// The least time between two writes, and between two reads unless a conflict asked for one.
    pub fn retry(&self) -> Duration {
        self.retry
    }

    /// When a request without an answer is given up.
    pub fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    /// By how much (of 1) one monotonic clock may run slower than another before two leaders are possible.
    pub fn clock_tolerance(&self) -> f64 {
        self.duration
            .saturating_sub(self.renew_deadline)
            .div_duration_f64(self.duration)
    }
}

impl Default for LeaseTiming {
    /// 15 s, 10 s, 2 s as in client-go. Requests are given up after 4 s, so that a request which hangs when
    /// an outage ends still leaves a leader within 5 s of that end.
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            request_timeout: Duration::from_secs(4),
        }
    }
}
