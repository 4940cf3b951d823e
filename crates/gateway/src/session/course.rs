//! What the two directions of a session know of each other while it is forwarded.

use super::talk::{Answer, Asked, NotMain, Talk};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;

/// Requests that a client may have under way before no more of them are read: what is noted of each is small, and must
/// not be many.
const MOST_UNANSWERED: usize = 1024;

/// Where a session is.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is set and cleared by itself, by one of the two directions"
)]
#[derive(Debug, Default)]
pub(crate) struct Now {
    pub(crate) talk: Talk,
    /// The client is being sent something, or has half of a message: nothing of ours may come between.
    pub(crate) giving: bool,
    /// A part of a request was sent on.
    pub(crate) begun: bool,
    /// Something that the client said is being dealt with, and cannot be taken up elsewhere.
    pub(crate) torn: bool,
    /// The client said goodbye: that the database closes then is no reason to doubt it.
    pub(crate) gone: bool,
    /// The database closes because of what the client said, and has said so: those words must arrive.
    pub(crate) closes: bool,
    /// The client was sent something since somebody last asked.
    pub(crate) sent: bool,
}

impl Now {
    /// May it go on with another database, and nobody notices? Then its database has everything that it was asked, too.
    pub(crate) fn is_quiet(&self) -> bool {
        let Self {
            talk,
            giving,
            begun,
            torn,
            gone: _,
            closes: _,
            sent: _,
        } = self;
        !giving && !begun && !torn && talk.is_quiet()
    }
}

/// The course of one stay with a database.
#[derive(Debug, Default)]
pub(crate) struct Course {
    now: Mutex<Now>,
    moved: Notify,
}

impl Course {
    /// Never held across an await: both directions are one task.
    pub(crate) fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn asked(&self, asked: Asked, binds: bool) {
        let mut now = self.now();
        now.gone |= asked == Asked::Goodbye;
        now.talk.asked(asked);
        if binds {
            now.talk.bind();
        }
    }

    pub(crate) fn answered(&self, answer: Answer) {
        self.now().talk.answered(answer);
    }

    /// The database refused the oldest request because it is not MAIN any more. May the client be told something else in
    /// the place of that? Not one that is to be closed before it would be.
    pub(crate) fn refused(&self, by: NotMain) -> bool {
        let mut now = self.now();
        !now.gone && !now.torn && now.talk.refused(by)
    }

    /// Something changed for whoever waits.
    pub(crate) fn stir(&self) {
        self.moved.notify_waiters();
    }

    /// Ends when every request is answered.
    pub(crate) async fn level(&self) {
        self.until(|now| now.talk.unanswered() == 0 && !now.giving).await;
    }

    /// Ends when there is room for another request.
    pub(crate) async fn room(&self) {
        self.until(|now| now.talk.unanswered() < MOST_UNANSWERED).await;
    }

    /// Ends when nothing is under way.
    pub(crate) async fn quiet(&self) {
        self.until(Now::is_quiet).await;
    }

    /// Does the client wait for something, or is it being sent something?
    pub(crate) fn is_waiting(&self) -> bool {
        let now = self.now();
        now.giving || now.talk.unanswered() > 0
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.now().is_quiet()
    }

    /// Ends when the client was sent nothing for so long.
    pub(crate) async fn still(&self, bound: Duration) {
        loop {
            self.now().sent = false;
            sleep(bound).await;
            if !self.now().sent {
                return;
            }
        }
    }

    async fn until(&self, reached: impl Fn(&Now) -> bool) {
        if !reached(&self.now()) {
            // Rare, and larger than everything else of an idle session.
            Box::pin(self.wait(reached)).await;
        }
    }

    async fn wait(&self, reached: impl Fn(&Now) -> bool) {
        loop {
            // Before the look, so that nothing is missed between it and the wait.
            let moved = self.moved.notified();
            if reached(&self.now()) {
                return;
            }
            moved.await;
        }
    }

    pub(crate) fn into_now(self) -> Now {
        self.now.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    /// A result that takes longer than a silence may is not cut off in its middle.
    #[tokio::test(start_paused = true)]
    async fn who_is_still_being_sent_something_is_not_still() {
        let course = Course::default();
        let (began, bound) = (Instant::now(), Duration::from_secs(30));
        let sends = async {
            for _ in 0..10 {
                sleep(Duration::from_secs(20)).await;
                course.now().sent = true;
            }
        };
        tokio::join!(course.still(bound), sends);
        let over = began.elapsed();
        let (least, most) = (
            Duration::from_secs(200) + bound,
            Duration::from_secs(200) + 2 * bound,
        );
        assert!(least <= over && over <= most, "{over:?}");
    }
}
