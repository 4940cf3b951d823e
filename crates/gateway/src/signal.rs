//! Something that happens once, and that everybody waits for while they do something else.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use tokio_util::sync::CancellationToken;

/// A signal that is given once. Clones are the same one.
///
/// A session waits for several of them and is woken for every request. It asks a flag then, and not the token: that one
/// takes a lock which all sessions of the gateway share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signal {
    flag: Arc<AtomicBool>,
    /// Whose end is the end of this one, too.
    whole: Option<Arc<Self>>,
    token: CancellationToken,
}

impl Signal {
    pub(crate) fn give(&self) {
        self.flag.store(true, Ordering::Release);
        self.token.cancel();
    }

    pub(crate) fn is_given(&self) -> bool {
        self.flag.load(Ordering::Acquire) || self.whole.as_ref().is_some_and(|whole| whole.is_given())
    }

    /// One that is given with this one, or earlier by itself.
    pub(crate) fn part(&self) -> Self {
        Self {
            flag: Arc::default(),
            whole: Some(Arc::new(self.clone())),
            token: self.token.child_token(),
        }
    }

    /// Ends when it is given. To be awaited in one task: the waker that it was polled with first is the one that is
    /// woken.
    pub(crate) async fn given(&self) {
        let mut wait = pin!(self.token.cancelled());
        let mut asked = false;
        poll_fn(|context| {
            if asked && !self.is_given() {
                return Poll::Pending;
            }
            asked = true;
            wait.as_mut().poll(context)
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::{sleep, timeout};

    #[tokio::test]
    async fn who_waits_is_woken_however_often_it_was_woken_for_something_else() {
        let signal = Signal::default();
        let given = signal.clone();
        let later = async {
            sleep(Duration::from_millis(20)).await;
            assert!(!given.is_given());
            given.give();
        };
        let waiter = async {
            let mut clock = tokio::time::interval(Duration::from_millis(1));
            let mut wait = pin!(signal.given());
            let mut ticks = 0;
            loop {
                tokio::select! {
                    biased;
                    () = &mut wait => return ticks,
                    _ = clock.tick() => ticks += 1,
                }
            }
        };
        let both = async { tokio::join!(waiter, later).0 };
        let ticks = timeout(Duration::from_secs(10), both).await.unwrap();
        assert!(ticks > 2 && signal.is_given());
        signal.given().await;
    }

    #[tokio::test]
    async fn a_part_is_given_with_the_whole_or_alone() {
        let whole = Signal::default();
        let (one, other) = (whole.part(), whole.part());
        one.give();
        one.given().await;
        assert!(one.is_given() && !other.is_given() && !whole.is_given());
        let wait = async {
            let mut clock = tokio::time::interval(Duration::from_millis(1));
            let mut wait = pin!(other.given());
            loop {
                tokio::select! {
                    biased;
                    () = &mut wait => return,
                    _ = clock.tick() => whole.give(),
                }
            }
        };
        timeout(Duration::from_secs(10), wait).await.unwrap();
        assert!(other.is_given());
    }
}
