//! What a drill broke and has not mended yet.

use crate::sandbox::control::Request;
use std::sync::{Mutex, PoisonError};

/// How one thing is mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undo {
    /// The sandbox is asked for it.
    Ask(Request),
    /// The wish for another MAIN is taken back.
    Wish,
}

/// In the order in which it was broken.
#[derive(Debug, Default)]
pub(crate) struct Pending(Mutex<Vec<Undo>>);

impl Pending {
    /// Before it is broken: whether it was is not always known.
    pub(crate) fn push(&self, undo: Undo) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(undo);
    }

    /// Mends all of it, and returns the first error. What could not be mended stays, for the next time: a wish that is
    /// forgotten moves MAIN again after some later failover.
    pub(crate) async fn mend<E>(&self, mut how: impl AsyncFnMut(&Undo) -> Result<(), E>) -> Result<(), E> {
        let mut ended = Ok(());
        for undo in self.now() {
            match how(&undo).await {
                Ok(()) => self.remove(&undo),
                Err(error) => ended = ended.and(Err(error)),
            }
        }
        ended
    }

    fn now(&self) -> Vec<Undo> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remove(&self, mended: &Undo) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = all.iter().position(|undo| undo == mended) {
            all.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(pod: &str) -> Undo {
        Undo::Ask(Request::Hear { pod: pod.to_owned() })
    }

    #[tokio::test]
    async fn what_could_not_be_mended_keeps_nothing_else_and_is_tried_again() {
        let pending = Pending::default();
        let all = [hear("gw-0"), Undo::Wish, hear("gw-1"), hear("gw-2")];
        all.iter().cloned().for_each(|undo| pending.push(undo));
        let mut tried = Vec::new();
        let ended = pending
            .mend(async |undo| {
                tried.push(undo.clone());
                match undo {
                    Undo::Wish => Err("the API is away"),
                    undo if *undo == hear("gw-2") => Err("so is the sandbox"),
                    Undo::Ask(_) => Ok(()),
                }
            })
            .await;
        assert_eq!((ended, tried.as_slice()), (Err("the API is away"), &all[..]));
        assert_eq!(pending.now(), [Undo::Wish, hear("gw-2")]);

        assert_eq!(pending.mend(async |_| Ok::<_, ()>(())).await, Ok(()));
        assert!(pending.now().is_empty());
    }
}
