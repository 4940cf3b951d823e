//! The answer to ROUTE, which makes `neo4j://` work: Memgraph Community has none.

use super::Shared;
use crate::config::{Config, Reads};
use bolt::frame::Assembler;
use bolt::message::{Failure, Request, Response, Route};
use bolt::packstream::{Limits, Value};
use bolt::version::Version;
use mainstay_core::memgraph::objects::BOLT_PORT;

/// Whom a client is sent to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routes<'a> {
    config: &'a Config,
    /// The client came in by the port for reads.
    reads: bool,
}

impl<'a> Routes<'a> {
    pub(crate) const fn of(shared: &'a Shared) -> Self {
        Self {
            config: &shared.config,
            reads: shared.reading.is_some(),
        }
    }

    /// The answer to a ROUTE as it came over the wire; `None` if it cannot be answered at all.
    pub(crate) fn answer(self, version: Version, message: &[u8]) -> Option<Response<'static>> {
        let mut assembler = Assembler::new(message.len());
        let mut input = message;
        let payload = assembler.next(&mut input).ok().flatten()?;
        Some(match Request::parse(version, payload, Limits::DEFAULT) {
            Ok(Request::Route(route)) => Response::Success(self.table(&route).into_metadata()),
            // The client may say RESET and go on.
            Ok(_) | Err(_) => Response::Failure(Failure::client("This ROUTE cannot be read.")),
        })
    }

    fn table(self, route: &Route<'_>) -> bolt::message::RoutingTable {
        let Config {
            routing,
            advertise,
            listen,
            reads,
            ..
        } = self.config;
        // What the client connected to is what it can reach.
        let here = route.context.get("address").and_then(Value::as_str);
        let door = reads
            .as_ref()
            .filter(|_| self.reads)
            .map_or(listen, |r| &r.listen);
        // One that does not say is sent to this gateway itself. What is advertised is where the operator reaches it.
        let own = || match advertise {
            Some(advertised) => at_port(advertised, door.port()),
            None => door.to_string(),
        };
        let here = here.map_or_else(own, |address| with_port(address.trim()));
        let (writers, routers, reader) = if self.reads {
            // Behind which address writers are is not known from here.
            (routing.writer.clone(), here.clone(), here)
        } else {
            let writer = routing.writer.clone().unwrap_or(here);
            let reader = reads
                .as_ref()
                .map(|Reads { listen, .. }| at_port(&writer, listen.port()));
            (Some(writer.clone()), writer.clone(), reader.unwrap_or(writer))
        };
        bolt::message::RoutingTable {
            ttl: routing.ttl,
            database: route.target.database().unwrap_or_default().to_owned(),
            writers: writers.into_iter().collect(),
            readers: vec![routing.reader.clone().unwrap_or(reader)],
            routers: vec![routers],
        }
    }
}

/// The same host, another port.
fn at_port(address: &str, port: u16) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    format!("{host}:{port}")
}

/// Drivers leave the usual port out.
fn with_port(address: &str) -> String {
    let bracketed = address.ends_with(']');
    let last = address.rsplit_once(':');
    match last {
        Some((host, port))
            if !bracketed && port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')) =>
        {
            address.to_owned()
        }
        _ => format!("{address}:{BOLT_PORT}"),
    }
}
