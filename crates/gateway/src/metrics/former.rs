//! The same counts under the names that memgraph-controller's gateway gave them: its dashboards and alerts go on working.
//! There they were the last writer's of two gateways; here they are of both ports together. The values of `direction` are
//! ours.

use super::{All, Label, READ, WRITE};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use std::fmt;

#[derive(Debug)]
pub(super) struct Former {
    sessions: [Gauge; 2],
    accepted: [Counter; 2],
    errors: Counter,
    up: [Counter; 2],
    down: [Counter; 2],
}

impl Former {
    pub(super) fn of(all: &All) -> Self {
        let way = |kind| {
            [WRITE, READ].map(|port| {
                let listener = port.listener;
                all.bytes.get_or_create_owned(&Label { kind, listener })
            })
        };
        Self {
            sessions: [WRITE, READ].map(|port| all.sessions.get_or_create_owned(&port)),
            accepted: [WRITE, READ].map(|port| all.accepted.get_or_create_owned(&port)),
            errors: all.errors.clone(),
            up: way("up"),
            down: way("down"),
        }
    }
}

fn sum(counters: &[Counter]) -> u64 {
    counters.iter().map(Counter::get).sum()
}

impl Collector for Former {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let sessions: i64 = self.sessions.iter().map(Gauge::get).sum();
        let gauge = encoder.encode_descriptor(
            "connections_active",
            "Sessions that are forwarded",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(sessions).encode(gauge)?;
        for (name, help, count) in [
            ("connections", "Connections accepted", sum(&self.accepted)),
            (
                "connection_errors",
                "Connections and statements refused, and sessions lost",
                self.errors.get(),
            ),
        ] {
            let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(count).encode(counter)?;
        }
        let mut bytes = encoder.encode_descriptor(
            "bytes_transferred",
            "Bytes forwarded, by direction",
            None,
            MetricType::Counter,
        )?;
        for (direction, count) in [
            ("client_to_server", sum(&self.up)),
            ("server_to_client", sum(&self.down)),
        ] {
            let label = [("direction", direction)];
            ConstCounter::new(count).encode(bytes.encode_family(&label)?)?;
        }
        Ok(())
    }
}
