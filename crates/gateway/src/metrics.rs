//! What a gateway counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Why something was refused, or which way bytes went.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Label {
    kind: &'static str,
}

/// What a gateway counts.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) sessions: Gauge,
    pub(crate) waiting: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) admitted: Counter,
    pub(crate) cuts: Counter,
    pub(crate) cut_sessions: Counter,
    pub(crate) holds: Counter,
    /// Sessions without a database.
    pub(crate) parked: Gauge,
    pub(crate) moved: Counter,
    pub(crate) drains_cut_short: Counter,
    lost: Family<Label, Counter>,
    pub(crate) term: Gauge,
    pub(crate) revision: Gauge,
    pub(crate) records_ignored: Counter,
    pub(crate) registered: Gauge,
    pub(crate) registration_errors: Counter,
    pub(crate) record_errors: Counter,
    pub(crate) tls_reloads: Counter,
    pub(crate) tls_reload_errors: Counter,
    refused: Family<Label, Counter>,
    /// Bytes from clients.
    pub(crate) up: Counter,
    /// Bytes to clients.
    pub(crate) down: Counter,
    bytes: Family<Label, Counter>,
    checks: Family<Label, Counter>,
    pushes: Family<Label, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let bytes = Family::<Label, Counter>::default();
        // Counted with every read, so they are not looked up each time.
        let way = |kind| bytes.get_or_create(&Label { kind }).clone();
        let mut new = Self {
            up: way("up"),
            down: way("down"),
            registry: Registry::with_prefix("mainstay_gateway"),
            sessions: Gauge::default(),
            waiting: Gauge::default(),
            accepted: Counter::default(),
            admitted: Counter::default(),
            cuts: Counter::default(),
            cut_sessions: Counter::default(),
            holds: Counter::default(),
            parked: Gauge::default(),
            moved: Counter::default(),
            drains_cut_short: Counter::default(),
            lost: Family::default(),
            term: Gauge::default(),
            revision: Gauge::default(),
            records_ignored: Counter::default(),
            registered: Gauge::default(),
            registration_errors: Counter::default(),
            record_errors: Counter::default(),
            tls_reloads: Counter::default(),
            tls_reload_errors: Counter::default(),
            refused: Family::default(),
            bytes,
            checks: Family::default(),
            pushes: Family::default(),
        };
        new.register();
        new
    }
}

impl Metrics {
    fn register(&mut self) {
        let r = &mut self.registry;
        r.register("sessions", "Sessions that are forwarded", self.sessions.clone());
        r.register("waiting", "Connections that are held", self.waiting.clone());
        r.register("accepted", "Connections accepted", self.accepted.clone());
        r.register("admitted", "Sessions that were forwarded", self.admitted.clone());
        r.register("cuts", "Times that every session was cut", self.cuts.clone());
        r.register(
            "cut_sessions",
            "Sessions that were cut",
            self.cut_sessions.clone(),
        );
        r.register("holds", "Connections that had to wait", self.holds.clone());
        r.register(
            "parked",
            "Sessions that wait without a database for their next request",
            self.parked.clone(),
        );
        r.register(
            "moved",
            "Sessions that went on with another connection to the database",
            self.moved.clone(),
        );
        r.register(
            "drains_cut_short",
            "Times that transactions took too long to end before a cut",
            self.drains_cut_short.clone(),
        );
        r.register(
            "lost",
            "Sessions that lost their database in the middle of something, by what they were told",
            self.lost.clone(),
        );
        r.register("term", "Term that is obeyed", self.term.clone());
        r.register("revision", "Revision that is obeyed", self.revision.clone());
        r.register(
            "records_ignored",
            "Records older than the one obeyed",
            self.records_ignored.clone(),
        );
        r.register(
            "registered",
            "1 once the gateway's Lease was written",
            self.registered.clone(),
        );
        r.register(
            "registration_errors",
            "Writes of the gateway's Lease that failed",
            self.registration_errors.clone(),
        );
        r.register(
            "record_errors",
            "Reads of the record that failed, or found something else",
            self.record_errors.clone(),
        );
        r.register(
            "tls_reloads",
            "Times that changed certificates were taken up",
            self.tls_reloads.clone(),
        );
        r.register(
            "tls_reload_errors",
            "Times that certificates could not be read again",
            self.tls_reload_errors.clone(),
        );
        r.register(
            "refused",
            "Connections and statements refused, by reason",
            self.refused.clone(),
        );
        r.register("bytes", "Bytes forwarded, by direction", self.bytes.clone());
        r.register(
            "checks",
            "Checks of a database connection, by outcome",
            self.checks.clone(),
        );
        r.register(
            "pushes",
            "Pushes by the operator, by outcome",
            self.pushes.clone(),
        );
    }

    pub(crate) fn refused(&self, kind: &'static str) {
        self.refused.get_or_create(&Label { kind }).inc();
    }

    pub(crate) fn lost(&self, kind: &'static str) {
        self.lost.get_or_create(&Label { kind }).inc();
    }

    pub(crate) fn checked(&self, kind: &'static str) {
        self.checks.get_or_create(&Label { kind }).inc();
    }

    pub(crate) fn pushed(&self, kind: &'static str) {
        self.pushes.get_or_create(&Label { kind }).inc();
    }

    /// Everything, as Prometheus reads it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail; and if it did, half of it is better than nothing.
        encode(&mut text, &self.registry).ok();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_shown() {
        let metrics = Metrics::default();
        metrics.refused("hold");
        metrics.up.inc_by(7);
        metrics.term.set(4);
        let text = metrics.text();
        for line in [
            "mainstay_gateway_refused_total{kind=\"hold\"} 1",
            "mainstay_gateway_bytes_total{kind=\"up\"} 7",
            "mainstay_gateway_term 4",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
