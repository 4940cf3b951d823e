//! Promotion and demotion.

use super::Instance;
use super::error::Error;
use super::ids::{EpochId, MainId};
use super::rpc::Store;
use serde::{Deserialize, Serialize};

/// The role of an instance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Takes writes.
    Main,
    /// Listens to a MAIN.
    Replica,
}

impl<S: Store> Instance<S> {
    /// `SET REPLICATION ROLE TO MAIN`. Succeeds at once with whatever data is
    /// there, also in the middle of a recovery that has cleared it.
    pub fn promote(&mut self, epoch: EpochId, main: MainId) -> Result<(), Error> {
        if self.role == Role::Main {
            return Err(Error::AlreadyMain);
        }
        if self.prepared.is_some() && self.profile.refuses_promotion_while_prepared() {
            return Err(Error::Busy);
        }
        // An acknowledged write is lost here if MAIN could not finalize it.
        self.prepared = None;
        self.lineage.enter(epoch);
        self.role = Role::Main;
        self.set_main_id(main);
        self.clock = self.clock.max(self.lineage.ldt.next());
        Ok(())
    }

    /// `SET REPLICATION ROLE TO REPLICA`. Forgets the list; epoch and data
    /// stay. The random main id means that no MAIN is obeyed until one registers it.
    pub fn demote(&mut self, main: MainId) -> Result<(), Error> {
        if self.role == Role::Replica {
            return Err(Error::AlreadyReplica);
        }
        if self.in_flight.is_some() {
            return Err(Error::Busy);
        }
        self.become_replica(main);
        Ok(())
    }

    pub(super) fn become_replica(&mut self, main: MainId) {
        self.role = Role::Replica;
        self.registrations.clear();
        self.set_main_id(main);
    }

    /// The writer label is the main id, until a tail is lost. That of a replica
    /// means nothing and must not split equal states.
    pub(super) const fn set_main_id(&mut self, main: MainId) {
        self.main = main;
        self.writer = main;
    }
}
