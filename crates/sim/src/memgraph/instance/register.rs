//! `REGISTER REPLICA` and `DROP REPLICA`.

use super::Instance;
use super::error::Error;
use super::ids::{NodeId, RegistrationName};
use super::registration::{Mode, Registration, Status};
use super::rpc::{Answer, Network, Rpc, Store};

/// How a DROP went.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub enum Dropped {
    /// Nothing was going on.
    Clean,
    /// The replica had background work. Real servers crashed or froze in a
    /// good part of such drops; the caller decides whether this one does.
    WhileWorking,
}

impl<S: Store> Instance<S> {
    /// `REGISTER REPLICA`. `Ok` carries the status, which may well be
    /// `Invalid`: only a refused main id and divergence are errors, and both
    /// leave a zombie behind.
    pub fn register(
        &mut self,
        name: RegistrationName,
        mode: Mode,
        peer: NodeId,
        net: &mut impl Network<S>,
    ) -> Result<Status, Error> {
        self.may_register(name, peer)?;
        // The list is written before anybody is asked; that is why a failed
        // registration leaves a zombie.
        self.registrations.push(Registration::detached(name, mode, peer));
        let (main, db) = (self.main, self.db);
        if !Answer::is_yes(net.call(peer, Rpc::SwapMain { main })) {
            return Err(Error::NotAccepted);
        }
        // The real server ignores this answer too; the heartbeat shows it.
        net.call(peer, Rpc::SystemRecovery { main, db });
        let (status, ts) = match net.call(peer, Rpc::Heartbeat { main, db }) {
            Some(Answer::Position { epoch, ldt }) => (self.lineage.judge(epoch, ldt), Some(ldt)),
            None | Some(Answer::Refused | Answer::Yes | Answer::No) => (Status::Invalid, None),
        };
        if status == Status::Diverged {
            if !self.profile.keeps_diverged_registration() {
                self.registrations.pop();
            }
            return Err(Error::Diverged);
        }
        let entry = self.entry(name)?;
        entry.attached = true;
        entry.status = status;
        entry.ts = ts.unwrap_or_default();
        Ok(status)
    }

    /// Whether REGISTER gets as far as asking the peer.
    pub fn may_register(&self, name: RegistrationName, peer: NodeId) -> Result<(), Error> {
        self.require_main()?;
        if self.in_flight.is_some() {
            return Err(Error::NoAccess);
        }
        if self.registration(name).is_some() {
            return Err(Error::NameExists);
        }
        if self
            .registrations
            .iter()
            .any(|registration| registration.peer == peer)
        {
            return Err(Error::EndpointExists);
        }
        Ok(())
    }

    /// `DROP REPLICA`.
    pub fn drop_replica(&mut self, name: RegistrationName) -> Result<Dropped, Error> {
        self.require_main()?;
        if self.in_flight.is_some() {
            return Err(Error::Busy);
        }
        let entry = self.registration(name).ok_or(Error::UnknownName)?;
        let dropped = if entry.has_background_work() {
            Dropped::WhileWorking
        } else {
            Dropped::Clean
        };
        self.registrations
            .retain(|registration| registration.name != name);
        Ok(dropped)
    }
}
