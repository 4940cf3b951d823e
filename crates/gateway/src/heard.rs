//! Whom the gateway last had an answer from (R21).

use mainstay_core::memgraph::objects::Heard;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// One database process, and when it was last heard.
#[derive(Debug)]
pub(crate) struct Voice {
    run_id: String,
    at_ms: AtomicU64,
}

impl Voice {
    /// It said something.
    pub(crate) fn heard(&self) {
        self.at_ms.fetch_max(now_ms(), Ordering::Relaxed);
    }
}

/// The process that was heard last.
#[derive(Debug, Default)]
pub(crate) struct Hearing(Mutex<Option<Arc<Voice>>>);

impl Hearing {
    /// A process with this `run_id` answered.
    pub(crate) fn answered(&self, run_id: &str) -> Arc<Voice> {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let voice = match current.as_ref() {
            Some(voice) if voice.run_id == run_id => Arc::clone(voice),
            _ => Arc::new(Voice {
                run_id: run_id.to_owned(),
                at_ms: AtomicU64::new(0),
            }),
        };
        voice.heard();
        *current = Some(Arc::clone(&voice));
        voice
    }

    /// As it is told to the operator.
    pub(crate) fn last(&self) -> Option<Heard> {
        let current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().map(|voice| Heard {
            run_id: voice.run_id.clone(),
            at_ms: voice.at_ms.load(Ordering::Relaxed),
        })
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_process_counts_and_an_old_session_does_not_speak_for_it() {
        let hearing = Hearing::default();
        assert_eq!(hearing.last(), None);
        let old = hearing.answered("one");
        assert!(Arc::ptr_eq(&old, &hearing.answered("one")));
        let new = hearing.answered("two");
        let before = hearing.last().unwrap();
        assert_eq!(before.run_id, "two");
        new.at_ms.store(7, Ordering::Relaxed);
        old.heard();
        assert_eq!(hearing.last().unwrap().at_ms, 7);
        new.heard();
        assert!(hearing.last().unwrap().at_ms >= before.at_ms);
    }
}
