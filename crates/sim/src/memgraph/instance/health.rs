//! What MAIN does about its replicas between commits.

use super::Instance;
use super::error::Error;
use super::ids::{NodeId, RegistrationName};
use super::registration::{PINGS_TO_DOUBT, Registration, Status};
use super::rpc::{Answer, Files, Network, Rpc, Store};

/// The result of one ping.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pinged {
    /// Answered. Says nothing about data: a `ready` replica stays `ready`.
    Answered,
    /// Not answered, and not for the third time in a row.
    Missed,
    /// The third miss in a row: the replica is `invalid` now.
    Doubted,
}

impl<S: Store> Instance<S> {
    /// One ping, once per second on a real server. Zombies have no pinger.
    pub fn ping(&mut self, name: RegistrationName, net: &mut impl Network<S>) -> Result<Pinged, Error> {
        let entry = self.attached(name)?;
        if Answer::is_yes(net.call(entry.peer, Rpc::Ping)) {
            entry.failed_pings = 0;
            entry.stale = false;
            return Ok(Pinged::Answered);
        }
        // Exactly the third miss acts; later ones change nothing.
        if entry.failed_pings >= PINGS_TO_DOUBT {
            return Ok(Pinged::Missed);
        }
        entry.failed_pings += 1;
        if entry.failed_pings < PINGS_TO_DOUBT {
            return Ok(Pinged::Missed);
        }
        entry.status = Status::Invalid;
        Ok(Pinged::Doubted)
    }

    /// The process behind `peer` was replaced faster than three pings could
    /// notice: statuses stay, the next transaction to it fails. Whoever drives
    /// the model calls this, or not: on a real server a few seconds of pings
    /// renew the connection first.
    pub fn peer_restarted(&mut self, peer: NodeId) {
        for entry in self
            .registrations
            .iter_mut()
            .filter(|entry| entry.attached && entry.peer == peer)
        {
            entry.stale = true;
        }
    }

    /// What follows an answered ping of an `invalid` replica: the heartbeat
    /// that decides. No other status is ever re-checked.
    pub fn check(&mut self, name: RegistrationName, net: &mut impl Network<S>) -> Result<Status, Error> {
        let entry = self.attached(name)?;
        if entry.status != Status::Invalid {
            return Err(Error::WrongStatus);
        }
        let peer = entry.peer;
        let (main, db) = (self.main, self.db);
        let mut answer = net.call(peer, Rpc::Heartbeat { main, db });
        if answer == Some(Answer::No) && Answer::is_yes(net.call(peer, Rpc::SystemRecovery { main, db })) {
            answer = net.call(peer, Rpc::Heartbeat { main, db });
        }
        let Some(Answer::Position { epoch, ldt }) = answer else {
            return Ok(Status::Invalid);
        };
        let status = self.lineage.judge(epoch, ldt);
        let shown = status != Status::Diverged || self.profile.shows_position_of_diverged();
        let entry = self.entry(name)?;
        entry.status = status;
        if shown {
            entry.ts = ldt;
        }
        entry.stale = false;
        Ok(status)
    }

    /// Catch-up from the log.
    pub fn recover(&mut self, name: RegistrationName, net: &mut impl Network<S>) -> Result<Status, Error> {
        self.recovering(name)?;
        let files = Files {
            store: self.store.clone(),
            runs: self.lineage.runs.clone(),
            snapshot: None,
        };
        self.send_files(name, files, net)
    }

    /// First half of a catch-up from the snapshot: the replica is emptied. A
    /// promotion after this step makes an empty MAIN.
    pub fn recover_snapshot_begin(
        &mut self,
        name: RegistrationName,
        net: &mut impl Network<S>,
    ) -> Result<Status, Error> {
        if self.snapshot.is_none() {
            return Err(Error::NoSnapshot);
        }
        let (main, db) = (self.main, self.db);
        let entry = self.recovering(name)?;
        if !Answer::is_yes(net.call(entry.peer, Rpc::Clear { main, db })) {
            entry.status = Status::Invalid;
        }
        Ok(entry.status)
    }

    /// Second half: snapshot and log after it.
    pub fn recover_snapshot_finish(
        &mut self,
        name: RegistrationName,
        net: &mut impl Network<S>,
    ) -> Result<Status, Error> {
        self.recovering(name)?;
        let snapshot = Some(self.snapshot.as_deref().ok_or(Error::NoSnapshot)?.clone());
        let files = Files {
            store: self.store.clone(),
            runs: self.lineage.runs.clone(),
            snapshot,
        };
        self.send_files(name, files, net)
    }

    fn send_files(
        &mut self,
        name: RegistrationName,
        files: Files<S>,
        net: &mut impl Network<S>,
    ) -> Result<Status, Error> {
        let (main, db, ldt) = (self.main, self.db, self.lineage.ldt);
        // A commit in flight is not in the files and did not open a stream to
        // this replica: it moves on without it.
        let level = self.in_flight.is_none();
        let entry = self.entry(name)?;
        let done = Answer::is_yes(net.call(
            entry.peer,
            Rpc::Files {
                main,
                db,
                files: Box::new(files),
            },
        ));
        if done {
            entry.ts = ldt;
        }
        entry.status = if done && level {
            Status::Ready
        } else {
            Status::Invalid
        };
        Ok(entry.status)
    }

    fn attached(&mut self, name: RegistrationName) -> Result<&mut Registration<S>, Error> {
        let entry = self.entry(name)?;
        if entry.attached {
            Ok(entry)
        } else {
            Err(Error::WrongStatus)
        }
    }

    fn recovering(&mut self, name: RegistrationName) -> Result<&mut Registration<S>, Error> {
        let entry = self.attached(name)?;
        if entry.status == Status::Recovery {
            Ok(entry)
        } else {
            Err(Error::WrongStatus)
        }
    }
}
