//! How a member is asked and told, whichever database it is.

use super::attended::Agent;
use super::cassandra::{self, CqlError, Hearts, Jolokia, JolokiaError, Tables};
use super::rest::{Rest, RestError};
use crate::clock::wall;
use mainstay_core::ring::answers;
use mainstay_core::ring::ids::{Address, HostId, Member};
use mainstay_core::ring::observed::Answer;
use mainstay_core::ring::spec::Engine;
use mainstay_core::time::Time;
use std::net::IpAddr;
use std::time::Duration;
use thiserror::Error;

/// Why a member's word cannot be had.
#[derive(Debug, Error)]
pub enum MemberError {
    /// ScyllaDB.
    #[error(transparent)]
    Rest(#[from] RestError),
    /// Cassandra, over HTTP.
    #[error(transparent)]
    Jolokia(#[from] JolokiaError),
    /// Cassandra, over CQL.
    #[error(transparent)]
    Cql(#[from] CqlError),
    /// Nothing that is done with this kind of database.
    #[error("not done with this database")]
    NotHere,
}

/// A member's database that can be asked.
#[derive(Clone, Debug)]
pub enum Database {
    /// ScyllaDB.
    Scylla(Rest),
    /// Cassandra.
    Cassandra(Jolokia),
}

/// What one node said, before the hearts are looked up.
pub enum Said {
    /// Nothing has to be remembered for it.
    Answer(Answer),
    /// What it means depends on what was heard before.
    Cassandra {
        /// Over CQL.
        tables: Tables,
        /// Over Jolokia.
        ring: cassandra::Ring,
        /// When all of it was there.
        heard: Time,
    },
}

impl Database {
    /// The one behind this address.
    pub fn at(engine: Engine, at: IpAddr, patience: Duration) -> Self {
        match engine {
            Engine::Scylla(_) => Self::Scylla(Rest {
                at,
                agent: None,
                patience,
            }),
            Engine::Cassandra => Self::Cassandra(Jolokia { at, patience }),
        }
    }

    /// A ScyllaDB that scylla-operator runs.
    pub fn attended(agent: Agent, at: IpAddr, patience: Duration) -> Self {
        Self::Scylla(Rest {
            at,
            agent: Some(agent),
            patience,
        })
    }

    /// What it says of the ring, all of it from this one node; and since when that is true at the least.
    pub async fn ask(self, by: Member) -> Result<(Member, Time, Said), MemberError> {
        // The evidence is at least as old as the first call.
        let at = wall();
        let said = match self {
            Self::Scylla(rest) => {
                let replies = rest.replies().await?;
                Said::Answer(answers::scylla(by.clone(), at, &replies))
            }
            Self::Cassandra(jolokia) => {
                let Jolokia { at, patience } = jolokia;
                let (ring, tables) = tokio::join!(jolokia.ring(), Tables::read(at, patience));
                Said::Cassandra {
                    tables: tables?,
                    ring: ring?,
                    heard: wall(),
                }
            }
        };
        Ok((by, at, said))
    }

    /// Does it say that it is drained?
    pub async fn is_drained(self) -> Result<bool, MemberError> {
        Ok(match self {
            Self::Scylla(rest) => rest.is_drained().await?,
            Self::Cassandra(jolokia) => jolokia.is_drained().await?,
        })
    }

    /// Tells it to write everything to disk and to serve nobody any more, if it is who is meant.
    pub async fn drain(self, host: Option<HostId>) -> Result<(), MemberError> {
        match self {
            Self::Scylla(rest) => Ok(rest.drain(host).await?),
            Self::Cassandra(jolokia) => Ok(jolokia.drain(host).await?),
        }
    }

    /// Tells it to leave the ring, if it is who is meant.
    pub async fn decommission(self, host: HostId) -> Result<(), MemberError> {
        match self {
            Self::Scylla(rest) => Ok(rest.decommission(host).await?),
            Self::Cassandra(jolokia) => Ok(jolokia.decommission(host).await?),
        }
    }

    /// Makes it gossip with all of these, always.
    pub async fn teach(self, own: Option<Address>, seeds: &[Address]) -> Result<(), MemberError> {
        match self {
            Self::Scylla(_) => Err(MemberError::NotHere),
            Self::Cassandra(jolokia) => Ok(jolokia.reload_seeds(own, seeds).await?),
        }
    }
}

impl Said {
    /// What it means.
    pub fn answer(self, by: Member, at: Time, hearts: &mut Hearts) -> Answer {
        match self {
            Self::Answer(answer) => answer,
            Self::Cassandra { tables, ring, heard } => {
                let replies = cassandra::replies(&by, (at, heard), &tables, ring, hearts);
                answers::cassandra(by, at, &replies)
            }
        }
    }
}
