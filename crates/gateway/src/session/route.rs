//! The answer to ROUTE, which makes `neo4j://` work: Memgraph Community has none.

use crate::config::Config;
use bolt::frame::Assembler;
use bolt::message::{Failure, Request, Response, Route};
use bolt::packstream::{Limits, Value};
use bolt::version::Version;
use mainstay_core::memgraph::objects::BOLT_PORT;

/// Whom a client is sent to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routes<'a> {
    config: &'a Config,
}

impl<'a> Routes<'a> {
    pub(crate) const fn of(config: &'a Config) -> Self {
        Self { config }
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
            routing, advertise, ..
        } = self.config;
        // What the client connected to is what it can reach.
        let here = route.context.get("address").and_then(Value::as_str);
        let here = here.map(|address| with_port(address.trim()));
        let here = || {
            let own = || advertise.clone().unwrap_or_default();
            routing
                .writer
                .clone()
                .or_else(|| here.clone())
                .unwrap_or_else(own)
        };
        let readers = routing.reader.clone().unwrap_or_else(here);
        bolt::message::RoutingTable {
            ttl: routing.ttl,
            database: route.target.database().unwrap_or_default().to_owned(),
            writers: vec![here()],
            readers: vec![readers],
            routers: vec![here()],
        }
    }
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
