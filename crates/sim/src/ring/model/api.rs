//! What a node answers: the calls of ScyllaDB's REST interface, and what Cassandra tells by CQL and Jolokia.

use super::node::{Endpoint, Process, Status};
use super::profile::Profile;
use super::ring::{Ring, Topology};
use mainstay_core::ring::answers::{CassandraReplies, GossipRow, ScyllaReplies};
use mainstay_core::ring::ids::{Address, HostId, Location, Name};
use mainstay_core::ring::observed::Keyspace;
use mainstay_core::time::Time;
use std::collections::BTreeMap;

/// One question. Each is one call of the REST interface, and named after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// `GET /storage_service/host_id`.
    HostIds,
    /// `GET /storage_service/hostid/local`.
    LocalHostId,
    /// `GET /gossiper/endpoint/live/`.
    Live,
    /// `GET /gossiper/endpoint/down/`.
    Down,
    /// `GET /gossiper/downtime/{addr}`, in microseconds.
    Downtime(Address),
    /// `GET /gossiper/generation_number/{addr}`.
    Generation(Address),
    /// `GET /storage_service/nodes/joining`.
    Joining,
    /// `GET /storage_service/nodes/leaving`.
    Leaving,
    /// `GET /storage_service/tokens/{addr}`: how many.
    Tokens(Address),
    /// `GET /storage_service/operation_mode`.
    OperationMode,
    /// `GET /storage_service/native_transport`.
    NativeTransport,
    /// `GET /snitch/datacenter?host=` and `/snitch/rack?host=`.
    Location(Address),
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Addresses with host ids.
    HostIds(Vec<(Address, HostId)>),
    /// One host id.
    HostId(HostId),
    /// Addresses.
    Addresses(Vec<Address>),
    /// A number.
    Number(u64),
    /// A word.
    Word(&'static str),
    /// Yes or no.
    Truth(bool),
    /// A place.
    Location(Option<Location>),
}

impl Ring {
    /// Asks the node in this place; `None` if nothing runs there.
    pub fn ask(&self, at: usize, request: Request, now: Time) -> Option<Reply> {
        let process = self.process(at)?;
        let view = Looking {
            profile: self.profile,
            process,
            now,
        };
        Some(view.reply(request))
    }

    /// Everything that an operator asks a ScyllaDB node.
    pub fn scylla_replies(&self, at: usize, now: Time) -> Option<ScyllaReplies> {
        let view = Looking {
            profile: self.profile,
            process: self.process(at)?,
            now,
        };
        let host_id = view.host_ids();
        let addresses: Vec<Address> = host_id.iter().map(|(a, _)| *a).collect();
        let each = |f: &dyn Fn(Address) -> u64| addresses.iter().map(|a| (*a, f(*a))).collect();
        Some(ScyllaReplies {
            live: view.live(true),
            downtime: each(&|a| view.downtime(a)),
            generation: each(&|a| view.generation(a)),
            joining: view.with(|e| matches!(e.status, Status::Boot | Status::BootReplace)),
            leaving: view.with(|e| e.status == Status::Leaving),
            owners: view.with(Endpoint::is_owner),
            excluded: self.excluded(),
            locations: addresses
                .iter()
                .filter_map(|a| Some((*a, view.location(*a)?)))
                .collect(),
            keyspaces: self.keyspaces(at),
            host_id,
        })
    }

    /// Everything that an operator asks a Cassandra node.
    pub fn cassandra_replies(&self, at: usize, now: Time) -> Option<CassandraReplies> {
        let process = self.process(at)?;
        let row = |(host, e): (&HostId, &Endpoint)| GossipRow {
            address: e.address,
            host: Some(*host),
            generation: e.generation,
            still: now.since(e.heard),
            status: status(e.status),
            location: Some(e.location.clone()),
        };
        let view = Looking {
            profile: self.profile,
            process,
            now,
        };
        Some(CassandraReplies {
            gossip: process.view.iter().map(row).collect(),
            live: view.with(|e| e.is_up(now) && e.status != Status::Hibernate),
            owners: view.with(Endpoint::is_owner),
            seeds: process.seeds.clone(),
            schema_agrees: true,
            other_schema: Vec::new(),
            keyspaces: self.keyspaces(at),
        })
    }

    /// `GET /storage_service/nodes/excluded`.
    pub fn excluded(&self) -> Vec<HostId> {
        let Topology { excluded, left, .. } = &self.topology;
        excluded.difference(left).copied().collect()
    }

    fn keyspaces(&self, at: usize) -> Vec<Keyspace> {
        let dc = self.places.get(at).map(|p| p.location.dc.clone());
        let named = |name: &str| name.parse::<Name>().ok();
        let (Some(dc), Some(name)) = (dc, named("ks")) else {
            return Vec::new();
        };
        vec![Keyspace {
            name,
            accounts: false,
            copies: Some(BTreeMap::from([(dc, self.copies)])),
        }]
    }
}

fn status(status: Status) -> Option<String> {
    let text = match status {
        Status::Silent => return None,
        Status::Boot => "BOOT,1",
        Status::BootReplace => "BOOT_REPLACE,1",
        Status::Hibernate => "hibernate,true",
        Status::Normal => "NORMAL,1",
        Status::Leaving => "LEAVING,1",
        Status::Left => "LEFT,1",
    };
    Some(text.to_owned())
}

/// One process, looked at.
struct Looking<'a> {
    profile: Profile,
    process: &'a Process,
    now: Time,
}

impl Looking<'_> {
    fn reply(&self, request: Request) -> Reply {
        let now = self.now;
        match request {
            Request::HostIds => Reply::HostIds(self.host_ids()),
            Request::LocalHostId => Reply::HostId(self.process.host),
            Request::Live => Reply::Addresses(self.live(true)),
            Request::Down => Reply::Addresses(self.live(false)),
            Request::Downtime(address) => Reply::Number(self.downtime(address)),
            Request::Generation(address) => Reply::Number(self.generation(address)),
            Request::Joining => {
                Reply::Addresses(self.with(|e| matches!(e.status, Status::Boot | Status::BootReplace)))
            }
            Request::Leaving => Reply::Addresses(self.with(|e| e.status == Status::Leaving)),
            Request::Tokens(address) => {
                let owned = self.with(|e| e.is_owner() && e.address == address);
                Reply::Number(u64::try_from(owned.len()).unwrap_or(0))
            }
            Request::OperationMode => Reply::Word(match self.process.mode {
                super::node::Mode::Joining { .. } | super::node::Mode::Replacing { .. } => "JOINING",
                super::node::Mode::Normal => "NORMAL",
                super::node::Mode::Leaving { .. } => "LEAVING",
            }),
            Request::NativeTransport => {
                let normal = self.process.own().is_some_and(|e| e.status == Status::Normal);
                Reply::Truth(normal && now >= Time::ZERO)
            }
            Request::Location(address) => Reply::Location(self.location(address)),
        }
    }

    /// Up to 5.4 the owners of tokens; from 2025.1 on everybody who has not left.
    fn host_ids(&self) -> Vec<(Address, HostId)> {
        let listed = |e: &Endpoint| {
            let joins = matches!(e.status, Status::Boot | Status::BootReplace);
            e.is_owner() || (self.profile.is_raft() && joins)
        };
        let known = self.process.view.iter();
        known
            .filter(|(_, e)| listed(e))
            .map(|(h, e)| (e.address, *h))
            .collect()
    }

    fn with(&self, which: impl Fn(&Endpoint) -> bool) -> Vec<Address> {
        let known = self.process.view.values();
        let mut found: Vec<Address> = known.filter(|e| which(e)).map(|e| e.address).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn live(&self, up: bool) -> Vec<Address> {
        let now = self.now;
        // A node in hibernate counts as dead while its heart beats.
        let alive = |e: &Endpoint| e.is_up(now) && e.status != Status::Hibernate;
        self.with(|e| alive(e) == up && e.status != Status::Left)
    }

    fn at(&self, address: Address) -> Option<&Endpoint> {
        let known = self.process.view.values().filter(|e| e.address == address);
        known.max_by_key(|e| e.heard)
    }

    /// Microseconds since it was called down.
    fn downtime(&self, address: Address) -> u64 {
        let since = self.at(address).filter(|e| !e.is_up(self.now));
        let still = since.map_or(0, |e| {
            let silent = self.now.since(e.heard);
            silent.saturating_sub(Profile::DETECTION).as_micros()
        });
        u64::try_from(still).unwrap_or(u64::MAX)
    }

    fn generation(&self, address: Address) -> u64 {
        self.at(address).map_or(0, |e| e.generation)
    }

    fn location(&self, address: Address) -> Option<Location> {
        self.at(address).map(|e| e.location.clone())
    }
}
