//! The time that a client has for its part of a login.

use std::time::Duration;
use tokio::time::{Instant, timeout};

/// What is left of the time for a client's part of a login, from the first byte of its connection to the last of its
/// LOGON. Each step takes from it: with so much for each, a client that says little takes a multiple of it, and a
/// connection to MAIN from the handshake on. What the gateway itself takes in between does not count.
#[derive(Debug)]
pub(crate) struct Allowance(Duration);

/// A step that is not over. It is paid for when this is dropped, also when somebody else ends the step.
struct Spending<'a> {
    left: &'a mut Duration,
    began: Instant,
}

impl Drop for Spending<'_> {
    fn drop(&mut self) {
        *self.left = self.left.saturating_sub(self.began.elapsed());
    }
}

impl Allowance {
    pub(crate) const fn new(all: Duration) -> Self {
        Self(all)
    }

    /// What comes of a step of the client; nothing if its time is over.
    pub(crate) async fn spend<T>(&mut self, step: impl Future<Output = T>) -> Option<T> {
        let left = self.0;
        let _spending = Spending {
            left: &mut self.0,
            began: Instant::now(),
        };
        timeout(left, step).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::time::sleep;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn all_steps_together_have_the_time_and_what_lies_between_them_costs_nothing() {
        let mut allowance = Allowance::new(SECOND * 5);
        assert!(allowance.spend(sleep(SECOND * 2)).await.is_some());
        sleep(SECOND * 20).await;
        assert!(allowance.spend(sleep(SECOND * 2)).await.is_some());
        let began = Instant::now();
        assert!(allowance.spend(sleep(SECOND * 2)).await.is_none());
        assert_eq!(began.elapsed(), SECOND);
        assert!(allowance.spend(sleep(SECOND)).await.is_none(), "nothing is left");
        assert!(
            allowance.spend(async {}).await.is_some(),
            "what is there is there"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_somebody_else_ends_is_paid_for() {
        let mut allowance = Allowance::new(SECOND * 5);
        for _ in 0..2 {
            let ended = timeout(SECOND * 2, allowance.spend(pending::<()>())).await;
            assert!(ended.is_err());
        }
        let began = Instant::now();
        assert!(allowance.spend(pending::<()>()).await.is_none());
        assert_eq!(began.elapsed(), SECOND);
    }
}
