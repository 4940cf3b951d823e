//! Several things at a time, each waiting for most of its own.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;

/// What became of those that were begun, in their order. After the first that failed none is begun any more; those
/// that run are waited for.
pub(crate) fn several<T: Send, R: Send>(
    things: Vec<T>,
    at_once: usize,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let queue: Mutex<VecDeque<(usize, T)>> = Mutex::new(things.into_iter().enumerate().collect());
    let ended = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some((place, thing)) = next(&queue, &ended) {
                    let outcome = work(thing);
                    lock(&ended).push((place, outcome));
                }
            });
        }
    });
    let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    ended.sort_by_key(|(place, _)| *place);
    ended.into_iter().map(|(_, outcome)| outcome).collect()
}

type Ended<R> = Mutex<Vec<(usize, Result<R>)>>;

fn next<T, R>(queue: &Mutex<VecDeque<T>>, ended: &Ended<R>) -> Option<T> {
    let failed = lock(ended).iter().any(|(_, outcome)| outcome.is_err());
    if failed { None } else { lock(queue).pop_front() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::bail;

    use super::*;

    #[test]
    fn outcomes_come_in_the_order_of_the_things_whoever_ends_first() {
        let outcomes = several(vec![30, 0, 10], 3, |wait| {
            std::thread::sleep(Duration::from_millis(wait));
            Ok(wait)
        });
        let outcomes: Vec<u64> = outcomes.into_iter().map(Result::unwrap).collect();
        assert_eq!(outcomes, [30, 0, 10]);
    }

    #[test]
    fn after_a_failure_none_is_begun() {
        let outcomes = several(vec![true, false, true], 1, |good| {
            if good { Ok(()) } else { bail!("as told") }
        });
        assert_eq!(
            outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(),
            [true, false]
        );
    }
}
