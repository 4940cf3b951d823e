//! What HTTP shows of one kind.

use super::metrics::Metrics;
use serde_json::Value;

/// The objects of one kind, for whoever asks over HTTP.
pub trait Page: Send + Sync {
    /// The paths that it answers, for the list at `/`.
    fn paths(&self) -> &'static [&'static str];
    /// What is asked for, if it is one of them and there is such an object.
    fn answer(&self, path: &str) -> Option<Value>;
    /// Its metrics.
    fn metrics(&self, text: &mut Metrics);
}
