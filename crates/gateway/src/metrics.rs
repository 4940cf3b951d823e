//! What a gateway counts.

mod former;

use former::Former;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::Arc;

/// Which port a client came in by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Port {
    listener: &'static str,
}

const WRITE: Port = Port { listener: "write" };
const READ: Port = Port { listener: "read" };

/// Why something was refused, or which way bytes went, and at which port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    kind: &'static str,
    listener: &'static str,
}

/// How a push ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

/// Everything that is counted.
#[derive(Debug, Default)]
struct All {
    sessions: Family<Port, Gauge>,
    waiting: Family<Port, Gauge>,
    accepted: Family<Port, Counter>,
    admitted: Family<Port, Counter>,
    cut_sessions: Family<Port, Counter>,
    holds: Family<Port, Counter>,
    parked: Family<Port, Gauge>,
    moved: Family<Port, Counter>,
    cuts: Counter,
    drains_cut_short: Counter,
    term: Gauge,
    revision: Gauge,
    records_ignored: Counter,
    registered: Gauge,
    registration_errors: Counter,
    record_errors: Counter,
    api_silent: Gauge,
    wakes: Counter,
    lost: Family<Label, Counter>,
    tls_reloads: Counter,
    tls_reload_errors: Counter,
    refused: Family<Label, Counter>,
    /// All that were refused or lost, whatever the reason.
    errors: Counter,
    bytes: Family<Label, Counter>,
    checks: Family<Label, Counter>,
    pushes: Family<Kind, Counter>,
}

impl All {
    fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        let former = registry.sub_registry_with_prefix("memgraph_gateway");
        former.register_collector(Box::new(Former::of(self)));
        let r = registry.sub_registry_with_prefix("mainstay_gateway");
        r.register("sessions", "Sessions that are forwarded", self.sessions.clone());
        r.register("waiting", "Connections that are held", self.waiting.clone());
        r.register("accepted", "Connections accepted", self.accepted.clone());
        r.register("admitted", "Sessions that were forwarded", self.admitted.clone());
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
        r.register("cuts", "Times that every session was cut", self.cuts.clone());
        r.register(
            "drains_cut_short",
            "Times that transactions took too long to end before a cut",
            self.drains_cut_short.clone(),
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
            "wakes",
            "Times that the cluster was asked to wake up because somebody connected",
            self.wakes.clone(),
        );
        r.register(
            "api_silent",
            "1 while the Kubernetes API does not answer this gateway",
            self.api_silent.clone(),
        );
        r.register(
            "lost",
            "Sessions that lost their database in the middle of something, by what they were told",
            self.lost.clone(),
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
        registry
    }
}

/// What a gateway counts, as one of its ports sees it. What is of the gateway as a whole is the same for both.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Arc<Registry>,
    port: Port,
    pub(crate) sessions: Gauge,
    pub(crate) waiting: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) admitted: Counter,
    pub(crate) cut_sessions: Counter,
    pub(crate) holds: Counter,
    /// Sessions without a database.
    pub(crate) parked: Gauge,
    pub(crate) moved: Counter,
    pub(crate) cuts: Counter,
    pub(crate) drains_cut_short: Counter,
    pub(crate) term: Gauge,
    pub(crate) revision: Gauge,
    pub(crate) records_ignored: Counter,
    pub(crate) registered: Gauge,
    pub(crate) registration_errors: Counter,
    pub(crate) record_errors: Counter,
    pub(crate) api_silent: Gauge,
    pub(crate) wakes: Counter,
    pub(crate) tls_reloads: Counter,
    pub(crate) tls_reload_errors: Counter,
    /// Bytes from clients.
    pub(crate) up: Counter,
    /// Bytes to clients.
    pub(crate) down: Counter,
    lost: Family<Label, Counter>,
    refused: Family<Label, Counter>,
    errors: Counter,
    checks: Family<Label, Counter>,
    pushes: Family<Kind, Counter>,
}

impl Metrics {
    /// Those of the port for writes, and those of the port for reads. Each shows all.
    pub(crate) fn of_both_ports() -> (Arc<Self>, Arc<Self>) {
        let all = All::default();
        let registry = Arc::new(all.registry());
        let of = |port| Arc::new(Self::of(port, &all, Arc::clone(&registry)));
        (of(WRITE), of(READ))
    }

    /// What is counted with every read is looked up here, once.
    fn of(port: Port, all: &All, registry: Arc<Registry>) -> Self {
        let way = |kind| {
            let listener = port.listener;
            all.bytes.get_or_create_owned(&Label { kind, listener })
        };
        Self {
            registry,
            up: way("up"),
            down: way("down"),
            sessions: all.sessions.get_or_create_owned(&port),
            waiting: all.waiting.get_or_create_owned(&port),
            accepted: all.accepted.get_or_create_owned(&port),
            admitted: all.admitted.get_or_create_owned(&port),
            cut_sessions: all.cut_sessions.get_or_create_owned(&port),
            holds: all.holds.get_or_create_owned(&port),
            parked: all.parked.get_or_create_owned(&port),
            moved: all.moved.get_or_create_owned(&port),
            cuts: all.cuts.clone(),
            drains_cut_short: all.drains_cut_short.clone(),
            term: all.term.clone(),
            revision: all.revision.clone(),
            records_ignored: all.records_ignored.clone(),
            registered: all.registered.clone(),
            registration_errors: all.registration_errors.clone(),
            record_errors: all.record_errors.clone(),
            api_silent: all.api_silent.clone(),
            wakes: all.wakes.clone(),
            tls_reloads: all.tls_reloads.clone(),
            tls_reload_errors: all.tls_reload_errors.clone(),
            lost: all.lost.clone(),
            refused: all.refused.clone(),
            errors: all.errors.clone(),
            checks: all.checks.clone(),
            pushes: all.pushes.clone(),
            port,
        }
    }

    const fn label(&self, kind: &'static str) -> Label {
        Label {
            kind,
            listener: self.port.listener,
        }
    }

    pub(crate) fn refused(&self, kind: &'static str) {
        self.refused.get_or_create(&self.label(kind)).inc();
        self.errors.inc();
    }

    pub(crate) fn lost(&self, kind: &'static str) {
        self.lost.get_or_create(&self.label(kind)).inc();
        self.errors.inc();
    }

    pub(crate) fn checked(&self, kind: &'static str) {
        self.checks.get_or_create(&self.label(kind)).inc();
    }

    pub(crate) fn pushed(&self, kind: &'static str) {
        self.pushes.get_or_create(&Kind { kind }).inc();
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
        let (write, read) = Metrics::of_both_ports();
        write.refused("hold");
        write.up.inc_by(7);
        write.term.set(4);
        read.refused("hold");
        read.sessions.inc();
        write.accepted.inc_by(2);
        read.accepted.inc();
        read.down.inc_by(5);
        assert_eq!(write.text(), read.text());
        let text = read.text();
        for line in [
            "mainstay_gateway_refused_total{kind=\"hold\",listener=\"write\"} 1",
            "mainstay_gateway_refused_total{kind=\"hold\",listener=\"read\"} 1",
            "mainstay_gateway_bytes_total{kind=\"up\",listener=\"write\"} 7",
            "mainstay_gateway_sessions{listener=\"write\"} 0",
            "mainstay_gateway_sessions{listener=\"read\"} 1",
            "mainstay_gateway_term 4",
            "memgraph_gateway_connections_active 1",
            "memgraph_gateway_connections_total 3",
            "memgraph_gateway_connection_errors_total 2",
            "memgraph_gateway_bytes_transferred_total{direction=\"client_to_server\"} 7",
            "memgraph_gateway_bytes_transferred_total{direction=\"server_to_client\"} 5",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
