//! From what a user wrote to what the decisions take.

use super::spec::{Autoreplacement, Engine, Rack, RingClusterSpec};
use crate::memgraph::{BadSpec, parse_moment};
use crate::times::duration;
use mainstay_core::ring::ids::{Location, Member, Name, ParseIdError};
use mainstay_core::ring::spec::{self as core, Declared, Managed, NotAVersion, ScyllaVersion, Timing};
use mainstay_core::time::Time;
use thiserror::Error;

/// A spec that the schema let through and that still cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadRing {
    /// The version is not known.
    #[error("{0}; write spec.version, such as 2025.2")]
    Version(#[from] NotAVersion),
    /// A name that cannot be one.
    #[error(transparent)]
    Name(#[from] ParseIdError),
    /// A version of Cassandra that does not tell what has to be known.
    #[error("Cassandra {0} does not tell members' states over CQL: it takes 4.1 or later")]
    OldCassandra(String),
    /// A version of ScyllaDB whose disks cannot be read while nothing runs on them.
    #[error(
        "ScyllaDB {0} has no `scylla sstable query`, with which the gate reads whether a disk is bootstrapped, so no member would ever start again: it takes 2025.2 or later, or, for a cluster of scylla-operator, spec.attends; a program that has it can be named in spec.command"
    )]
    OldScylla(String),
    /// Nobody is declared.
    #[error("spec.racks declares no member: write members: 1 in one of them at least")]
    Nobody,
    /// Not a length of time.
    #[error("spec.autoreplacement.startLimit is not a duration: `{0}`; write for example 24h")]
    StartLimit(String),
    /// The pause.
    #[error(transparent)]
    Pause(#[from] BadSpec),
}

/// The StatefulSet of a rack. Its pods are the members, and a Service has the name of each.
pub fn rack_set(cluster: &str, rack: &str) -> String {
    format!("{cluster}-{rack}")
}

impl Rack {
    /// A member of this rack.
    pub fn member(&self, cluster: &str, ordinal: u8) -> Result<Member, ParseIdError> {
        format!("{}-{ordinal}", rack_set(cluster, &self.name)).parse()
    }
}

impl RingClusterSpec {
    /// The version, from its own field or from the tag of the image.
    fn version(&self) -> Result<ScyllaVersion, NotAVersion> {
        let tag = self.image.rsplit_once(':').map_or("", |(_, tag)| tag);
        self.version.as_deref().unwrap_or(tag).parse()
    }

    /// Which database, as the gate and the decisions take it.
    pub fn engine(&self) -> Result<core::Engine, BadRing> {
        match self.engine {
            Engine::Scylla => Ok(core::Engine::Scylla(self.version()?)),
            Engine::Cassandra => {
                let version = self.version()?;
                // `system_views.gossip_info` came with 4.1.
                if (version.major, version.minor) < (4, 1) {
                    let text = format!("{}.{}", version.major, version.minor);
                    return Err(BadRing::OldCassandra(text));
                }
                Ok(core::Engine::Cassandra)
            }
        }
    }

    /// The database's program.
    pub fn program(&self) -> &str {
        let usual = match self.engine {
            Engine::Scylla => "/usr/bin/scylla",
            Engine::Cassandra => "/opt/cassandra/bin/cassandra",
        };
        self.command.as_deref().unwrap_or(usual)
    }

    /// What the names of members begin with: the ring's own, or that of the cluster that is attended.
    pub fn prefix(&self, cluster: &str) -> String {
        match &self.attends {
            Some(attended) => format!("{attended}-{}", self.datacenter),
            None => cluster.to_owned(),
        }
    }

    /// What the decisions take.
    pub fn parse(&self, cluster: &str, timing: Timing) -> Result<core::Spec, BadRing> {
        let Autoreplacement {
            enabled,
            accept_loss,
            tries,
            start_limit,
        } = &self.autoreplacement;
        let limit = match start_limit {
            Some(text) => duration(text).ok_or_else(|| BadRing::StartLimit(text.clone()))?,
            None => timing.limit,
        };
        let dc: Name = self.datacenter.parse()?;
        let prefix = self.prefix(cluster);
        let mut members = Vec::new();
        for rack in &self.racks {
            let location = Location {
                dc: dc.clone(),
                rack: rack.name.parse()?,
            };
            for ordinal in 0..rack.members {
                members.push(Declared {
                    member: rack.member(&prefix, ordinal)?,
                    location: location.clone(),
                });
            }
        }
        if members.is_empty() {
            return Err(BadRing::Nobody);
        }
        let engine = self.engine()?;
        // Where the program is the user's own, so is what it can.
        let unread = matches!(engine, core::Engine::Scylla(version) if !version.reads_tables());
        if unread && self.attends.is_none() && self.command.is_none() {
            let ScyllaVersion { major, minor } = self.version()?;
            return Err(BadRing::OldScylla(format!("{major}.{minor}")));
        }
        Ok(core::Spec {
            engine,
            managed: match self.attends {
                Some(_) => Managed::ByScyllaOperator,
                None => Managed::Here,
            },
            members,
            automatic: *enabled,
            accept_loss: *accept_loss,
            authentication: self.authentication,
            tries: *tries,
            timing: Timing { limit, ..timing },
        })
    }

    /// Until when nothing is changed.
    pub fn paused_until(&self) -> Result<Option<Time>, BadRing> {
        let until = self.paused.as_ref().map(|pause| parse_moment(&pause.until));
        Ok(until.transpose()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn spec(text: &str) -> RingClusterSpec {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn members_are_named_by_rack_and_number_and_the_first_one_founds() {
        let spec = spec(
            r#"{"image": "scylladb/scylla:2025.2.1", "racks": [{"name": "a", "members": 2}, {"name": "b", "members": 1}]}"#,
        );
        let parsed = spec.parse("ring", Timing::default()).unwrap();
        let names: Vec<String> = parsed.members.iter().map(|d| d.member.to_string()).collect();
        assert_eq!(names, ["ring-a-0", "ring-a-1", "ring-b-0"]);
        assert_eq!(
            parsed.members.last().unwrap().location.to_string(),
            "datacenter1/b"
        );
        assert_eq!(parsed.engine, core::Engine::Scylla("2025.2".parse().unwrap()));
        assert!(parsed.automatic && !parsed.accept_loss && parsed.tries == 3);
    }

    #[test]
    fn a_start_may_take_as_long_as_is_declared_and_six_hours_otherwise() {
        let with = |fields: &str| {
            let text = format!(
                r#"{{"image": "scylla:2025.2.1", "racks": [{{"name": "a", "members": 1}}], "autoreplacement": {{{fields}}}}}"#
            );
            spec(&text).parse("ring", Timing::default())
        };
        let limit = |fields: &str| with(fields).unwrap().timing.limit;
        assert_eq!(limit(""), Duration::from_hours(6));
        assert_eq!(limit(r#""startLimit": "36h""#), Duration::from_hours(36));
        let rest = Timing {
            limit: Duration::from_hours(6),
            ..with(r#""startLimit": "36h""#).unwrap().timing
        };
        assert_eq!(rest, Timing::default(), "nothing else changes");
        let bad = BadRing::StartLimit("soon".to_owned());
        assert_eq!(with(r#""startLimit": "soon""#), Err(bad));
    }

    #[test]
    fn the_version_is_written_where_the_tag_does_not_tell_it() {
        let digest =
            r#"{"image": "scylla@sha256:00", "version": "2025.2", "racks": [{"name": "a", "members": 1}]}"#;
        assert!(spec(digest).parse("ring", Timing::default()).is_ok());
        let odd = r#"{"image": "scylla:mine", "racks": [{"name": "a", "members": 1}]}"#;
        assert!(matches!(
            spec(odd).parse("ring", Timing::default()),
            Err(BadRing::Version(_))
        ));
        let old =
            r#"{"engine": "Cassandra", "image": "cassandra:4.0.19", "racks": [{"name": "a", "members": 1}]}"#;
        assert!(matches!(
            spec(old).parse("ring", Timing::default()),
            Err(BadRing::OldCassandra(_))
        ));
        let nobody = r#"{"image": "scylla:5.4", "racks": [{"name": "a", "members": 0}]}"#;
        assert_eq!(
            spec(nobody).parse("ring", Timing::default()),
            Err(BadRing::Nobody)
        );
    }

    #[test]
    fn a_ring_whose_disks_its_own_program_cannot_read_is_refused() {
        let table = [
            (r#""image": "scylladb/scylla:2025.2.0""#, true),
            (r#""image": "scylladb/scylla:2026.1.3""#, true),
            (r#""image": "scylladb/scylla:2025.1.9""#, false),
            (r#""image": "scylladb/scylla:6.2.0""#, false),
            (r#""image": "mine@sha256:00", "version": "5.4""#, false),
            (r#""image": "scylla:5.4.1", "command": "/opt/scylla""#, true),
            (r#""image": "scylla:2024.1.1", "attends": "simple""#, true),
        ];
        for (fields, good) in table {
            let text = format!(r#"{{{fields}, "racks": [{{"name": "a", "members": 1}}]}}"#);
            let parsed = spec(&text).parse("ring", Timing::default());
            assert_eq!(parsed.is_ok(), good, "{fields}: {parsed:?}");
            if let Err(error) = parsed {
                assert!(error.to_string().contains("takes 2025.2 or later"), "{error}");
            }
        }
    }

    #[test]
    fn who_attends_names_members_as_scylla_operator_does() {
        let spec = spec(
            r#"{"image": "scylladb/scylla:2025.2.0", "attends": "simple", "datacenter": "dc1",
                "racks": [{"name": "r", "members": 1}]}"#,
        );
        let parsed = spec.parse("ring", Timing::default()).unwrap();
        assert_eq!(parsed.managed, Managed::ByScyllaOperator);
        assert_eq!(parsed.members[0].member.to_string(), "simple-dc1-r-0");
    }

    #[test]
    fn cassandra_has_its_own_places() {
        let spec = spec(
            r#"{"engine": "Cassandra", "image": "cassandra:5.0.9", "racks": [{"name": "a", "members": 1}]}"#,
        );
        assert_eq!(spec.engine().unwrap(), core::Engine::Cassandra);
        assert_eq!(spec.program(), "/opt/cassandra/bin/cassandra");
    }
}
