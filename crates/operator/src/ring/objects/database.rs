//! What differs from database to database in a pod of a ring.

use crate::ring::cassandra::JOLOKIA_PORT;
use crate::ring::cluster::API_PORT;
use api::ring::{CassandraImage, Engine, Rack, RingClusterSpec, RunAs};
use serde_json::{Value, json};

/// Every address of the pod; where a database takes one only, that of the pod.
pub(super) const LISTEN: &str = "--listen=0.0.0.0";

/// A database, as its pods know it.
pub(super) struct Database<'a> {
    spec: &'a RingClusterSpec,
    /// Of its container, and in labels.
    pub(super) name: &'static str,
    /// Where its data is.
    pub(super) data: &'static str,
    /// Where the operator asks.
    pub(super) api_port: u16,
    /// It reads its seeds from a file again when it is told to, and somebody has to write that file.
    pub(super) reads_seeds_from_file: bool,
}

impl<'a> Database<'a> {
    pub(super) fn of(spec: &'a RingClusterSpec) -> Self {
        match spec.engine {
            Engine::Scylla => Self {
                spec,
                name: "scylla",
                data: "/var/lib/scylla",
                api_port: API_PORT,
                reads_seeds_from_file: false,
            },
            Engine::Cassandra => Self {
                spec,
                name: "cassandra",
                data: "/var/lib/cassandra",
                api_port: JOLOKIA_PORT,
                reads_seeds_from_file: true,
            },
        }
    }

    /// Who it runs as, if that is known not to be root. Cassandra's own script refuses to run as root; the one of
    /// ScyllaDB's official image starts as root, and whether its program runs as anybody else is for who built the image.
    pub(super) fn user(&self) -> Option<(u32, u32)> {
        let said = self.spec.run_as.map(|RunAs { user, group }| (user, group));
        match self.spec.engine {
            Engine::Cassandra => Some(said.unwrap_or((999, 999))),
            Engine::Scylla => said,
        }
    }

    /// What the gate is told of it: how to look at its disk, and how to start it.
    pub(super) fn gate(&self, rack: &Rack) -> Vec<String> {
        match self.spec.engine {
            Engine::Scylla => self.scylla(rack),
            Engine::Cassandra => self.cassandra(),
        }
    }

    fn scylla(&self, rack: &Rack) -> Vec<String> {
        let Self { spec, data, .. } = self;
        let tag = spec.image.rsplit_once(':').map_or("", |(_, tag)| tag);
        let version = spec.version.as_deref().unwrap_or(tag);
        let mut args = vec![
            format!("--scylla={version}"),
            "--".to_owned(),
            spec.program().to_owned(),
            format!("--workdir={data}"),
            "--listen-address=0.0.0.0".to_owned(),
            "--rpc-address=0.0.0.0".to_owned(),
            "--api-address=0.0.0.0".to_owned(),
            format!("--api-port={API_PORT}"),
        ];
        args.extend(self.flags(rack));
        args
    }

    fn cassandra(&self) -> Vec<String> {
        let CassandraImage {
            jolokia,
            dump,
            config,
        } = self.spec.cassandra.clone().unwrap_or_default();
        vec![
            format!("--cassandra-dump={dump}"),
            format!("--cassandra-config={config}"),
            format!("--cassandra-jolokia={jolokia}"),
            LISTEN.to_owned(),
            "--".to_owned(),
            self.spec.program().to_owned(),
            // In the foreground, also as root: who the container runs as is the pod's business.
            "-f".to_owned(),
            "-R".to_owned(),
        ]
    }

    fn flags(&self, rack: &Rack) -> impl Iterator<Item = String> {
        let flags = self.spec.flags.iter();
        flags.map(|flag| flag.replace("$(RACK)", &rack.name))
    }

    /// What is in its environment only.
    pub(super) fn env(&self, rack: &Rack) -> Option<Value> {
        match self.spec.engine {
            Engine::Scylla => None,
            Engine::Cassandra => {
                let java: Vec<String> = self.flags(rack).collect();
                Some(json!({ "name": "JVM_EXTRA_OPTS", "value": java.join(" ") }))
            }
        }
    }
}
