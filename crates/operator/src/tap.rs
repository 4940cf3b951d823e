//! Where an operator can be stopped by a test: before and after every call that changes something.
//!
//! Whatever an operator does must come to a good end if it dies there, and the next one goes on. That is tried at
//! every such place, one after the other (`crates/sandbox/tests/operator/kills.rs`). In production nobody listens.

use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// Told of every place; what it returns is waited for.
type Listener = dyn Fn(&str) -> BoxFuture<'static, ()> + Send + Sync;

/// Told of every place at which an operator can die.
#[derive(Clone, Default)]
pub struct Tap(Option<Arc<Listener>>);

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Tap" } else { "no Tap" })
    }
}

impl Tap {
    /// This one is told. An operator that is to stand still there is given a future that never ends.
    pub fn new(listener: impl Fn(&str) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Makes a call, and tells before and after it.
    pub async fn around<T>(&self, what: impl fmt::Display + Send, call: impl Future<Output = T> + Send) -> T {
        let Some(listener) = &self.0 else {
            return call.await;
        };
        listener(&format!("before {what}")).await;
        let done = call.await;
        listener(&format!("after {what}")).await;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[tokio::test]
    async fn a_listener_is_told_before_and_after() {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let tap = Tap::new({
            let heard = Arc::clone(&heard);
            move |place| {
                heard.lock().unwrap().push(place.to_owned());
                Box::pin(std::future::ready(()))
            }
        });
        assert_eq!(tap.around("it", async { 7 }).await, 7);
        assert_eq!(*heard.lock().unwrap(), ["before it", "after it"]);
        assert_eq!(Tap::default().around("it", async { 8 }).await, 8);
    }
}
