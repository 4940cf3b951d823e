//! The answer to ROUTE.

use crate::packstream::{OwnedDict, OwnedValue, Value, dict};
use std::time::Duration;

/// Who serves what, as `neo4j://` drivers want to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingTable {
    /// How long the table is good for.
    pub ttl: Duration,
    /// The database it is about.
    pub database: String,
    /// Addresses that take writes.
    pub writers: Vec<String>,
    /// Addresses that answer reads.
    pub readers: Vec<String>,
    /// Addresses that answer ROUTE.
    pub routers: Vec<String>,
}

impl RoutingTable {
    /// The metadata of the SUCCESS that answers ROUTE.
    pub fn into_metadata(self) -> OwnedDict {
        let Self {
            ttl,
            database,
            writers,
            readers,
            routers,
        } = self;
        let servers = [("WRITE", writers), ("READ", readers), ("ROUTE", routers)];
        let table = dict([
            (
                "ttl",
                Value::Int(i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX)),
            ),
            ("db", Value::from(database)),
            ("servers", Value::List(servers.into_iter().map(server).collect())),
        ]);
        dict([("rt", Value::Dict(table))])
    }
}

fn server((role, addresses): (&'static str, Vec<String>)) -> OwnedValue {
    Value::Dict(dict([
        (
            "addresses",
            Value::List(addresses.into_iter().map(Value::from).collect()),
        ),
        ("role", Value::from(role)),
    ]))
}
