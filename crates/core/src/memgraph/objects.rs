//! The names of a cluster's objects, and what gateway and operator tell each other.
//!
//! A gateway has an object of its own, a Lease. It is registered from the moment that object exists and before it
//! forwards anything; its annotations are its confirmation (G2). The operator also pushes the record to it, so that
//! a slow API server does not slow a failover (G4); the answer to a push is a confirmation as well.

use super::ids::{Revision, Term};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// Label: which cluster an object belongs to.
pub const CLUSTER_LABEL: &str = "mainstay.dev/cluster";
/// Label: what an object is for, as in `gateway`.
pub const ROLE_LABEL: &str = "mainstay.dev/role";
/// The container that runs the database.
pub const CONTAINER: &str = "memgraph";
/// Where Memgraph speaks Bolt.
pub const BOLT_PORT: u16 = 7687;
/// Where a replica listens for its MAIN.
pub const REPLICATION_PORT: u16 = 10000;

const TERM: &str = "mainstay.dev/confirmed-term";
const REVISION: &str = "mainstay.dev/confirmed-revision";
const PUSH: &str = "mainstay.dev/push-address";
const HEARD_RUN: &str = "mainstay.dev/heard-run-id";
const HEARD_AT: &str = "mainstay.dev/heard-at-ms";

/// A cluster's name in its namespace: the name of its StatefulSet, so `memgraph-ha` has the pod `memgraph-ha-0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(String);

/// Not a name that an object and its pods can have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` cannot name a cluster: lower case letters, digits and `-`, at most 40 characters")]
pub struct NotAClusterName(pub String);

impl std::str::FromStr for ClusterName {
    type Err = NotAClusterName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        // 63 is what a pod's name may have; the longest suffix of ours takes 23 of them.
        let good =
            text.len() <= 40 && text.chars().all(plain) && text.starts_with(edge) && text.ends_with(edge);
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotAClusterName(text.to_owned()))
        }
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ClusterName {
    /// The ConfigMap of the record.
    pub fn record(&self) -> String {
        format!("{self}-topology")
    }

    /// The headless Service that gives every pod its name.
    pub fn headless(&self) -> String {
        self.0.clone()
    }

    /// The Service that clients connect to, in front of the gateways.
    pub fn gateway(&self) -> String {
        format!("{self}-gateway")
    }

    /// The Lease of one gateway.
    pub fn gateway_lease(&self, gateway: &str) -> String {
        format!("{self}-gw-{gateway}")
    }

    /// The Secret with the token that a push must carry.
    pub fn push_token(&self) -> String {
        format!("{self}-gateway-token")
    }

    /// The pod of this ordinal.
    pub fn pod(&self, ordinal: super::ids::Ordinal) -> String {
        format!("{self}-{}", ordinal.0)
    }

    /// Whose service account, role and binding let database pods read the record.
    pub fn database(&self) -> String {
        format!("{self}-database")
    }

    /// Which pod of this cluster has that name.
    pub fn ordinal(&self, pod: &str) -> Option<super::ids::Ordinal> {
        let number = pod.strip_prefix(&self.0)?.strip_prefix('-')?;
        number.parse().ok().map(super::ids::Ordinal)
    }

    /// The name under which a pod is reached and registered.
    pub fn pod_host(&self, ordinal: super::ids::Ordinal, namespace: &str) -> String {
        format!(
            "{}.{}.{namespace}.svc.cluster.local",
            self.pod(ordinal),
            self.headless()
        )
    }
}

/// A database process that a gateway had an answer from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heard {
    /// The `run_id` that the server puts into every summary: one per process.
    pub run_id: String,
    /// When, in milliseconds of the wall clock.
    pub at_ms: u64,
}

/// What a gateway says of itself: nothing older than this is forwarded any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Confirmation {
    /// Highest term it obeys.
    pub term: Term,
    /// Highest revision it obeys in that term.
    pub revision: Revision,
    /// Whom it last had an answer from (R21).
    pub heard: Option<Heard>,
}

/// An annotation of a gateway's Lease that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadConfirmationError {
    /// It is not there.
    #[error("the annotation `{0}` is missing")]
    Missing(&'static str),
    /// It is not a number.
    #[error("the annotation `{name}` is `{value}`, not a number")]
    NotANumber {
        /// Which.
        name: &'static str,
        /// What it says.
        value: String,
    },
}

impl Confirmation {
    /// As annotations of the gateway's Lease, with the address that takes pushes.
    pub fn annotations(&self, push: &str) -> BTreeMap<String, String> {
        let Self {
            term,
            revision,
            heard,
        } = self;
        let mut all = BTreeMap::from([
            (TERM.to_owned(), term.0.to_string()),
            (REVISION.to_owned(), revision.0.to_string()),
            (PUSH.to_owned(), push.to_owned()),
        ]);
        if let Some(Heard { run_id, at_ms }) = heard {
            all.insert(HEARD_RUN.to_owned(), run_id.clone());
            all.insert(HEARD_AT.to_owned(), at_ms.to_string());
        }
        all
    }

    /// Reads what [`Confirmation::annotations`] wrote: the confirmation and the address for pushes.
    pub fn read(annotations: &BTreeMap<String, String>) -> Result<(Self, String), ReadConfirmationError> {
        let text = |name| annotations.get(name).ok_or(ReadConfirmationError::Missing(name));
        let number = |name| {
            let value = text(name)?;
            value.parse().map_err(|_| ReadConfirmationError::NotANumber {
                name,
                value: value.clone(),
            })
        };
        let heard = match annotations.get(HEARD_RUN) {
            Some(run_id) => Some(Heard {
                run_id: run_id.clone(),
                at_ms: number(HEARD_AT)?,
            }),
            None => None,
        };
        let confirmation = Self {
            term: Term(number(TERM)?),
            revision: Revision(number(REVISION)?),
            heard,
        };
        Ok((confirmation, text(PUSH)?.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memgraph::ids::Ordinal;

    #[test]
    fn names_are_those_of_the_objects() {
        let cluster: ClusterName = "memgraph-ha".parse().unwrap();
        assert_eq!(cluster.record(), "memgraph-ha-topology");
        assert_eq!(cluster.pod(Ordinal(1)), "memgraph-ha-1");
        assert_eq!(
            cluster.pod_host(Ordinal(0), "db"),
            "memgraph-ha-0.memgraph-ha.db.svc.cluster.local"
        );
        for bad in ["", "-a", "a-", "A", "a_b", "a.b", &"a".repeat(41)] {
            assert!(bad.parse::<ClusterName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_confirmation_is_read_as_it_was_written() {
        for heard in [
            None,
            Some(Heard {
                run_id: "abc".to_owned(),
                at_ms: 7,
            }),
        ] {
            let said = Confirmation {
                term: Term(4),
                revision: Revision(9),
                heard,
            };
            let written = said.annotations("10.0.0.1:7688");
            assert_eq!(
                Confirmation::read(&written),
                Ok((said, "10.0.0.1:7688".to_owned()))
            );
        }
        let mut broken = BTreeMap::from([(TERM.to_owned(), "x".to_owned())]);
        assert!(matches!(
            Confirmation::read(&broken),
            Err(ReadConfirmationError::NotANumber { .. })
        ));
        broken.clear();
        assert_eq!(
            Confirmation::read(&broken),
            Err(ReadConfirmationError::Missing(TERM))
        );
    }
}
