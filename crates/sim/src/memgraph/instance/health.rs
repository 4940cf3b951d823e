//! What MAIN does about its replicas between commits.

use super::Instance;
use super::commit::Call;
use super::error::Error;
use super::ids::{NodeId, RegistrationName, Ts};
use super::lineage::Snapshot;
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
        let call = self.log_for(name)?;
        self.send_files(call, net)
    }

    /// What [`Instance::recover`] sends, for who cannot wait inside a call;
    /// [`Instance::files_sent`] goes on.
    pub fn log_for(&mut self, name: RegistrationName) -> Result<Call<S>, Error> {
        self.files_for(name, None)
    }

    /// First half of a catch-up from the snapshot: the replica is emptied. A
    /// promotion after this step makes an empty MAIN.
    pub fn recover_snapshot_begin(
        &mut self,
        name: RegistrationName,
        net: &mut impl Network<S>,
    ) -> Result<Status, Error> {
        let Call { name, peer, rpc } = self.clear_for(name)?;
        let cleared = Answer::is_yes(net.call(peer, rpc));
        self.cleared(name, cleared)
    }

    /// What [`Instance::recover_snapshot_begin`] sends; [`Instance::cleared`] goes on.
    pub fn clear_for(&mut self, name: RegistrationName) -> Result<Call<S>, Error> {
        if self.snapshot.is_none() {
            return Err(Error::NoSnapshot);
        }
        let (main, db) = (self.main, self.db);
        let peer = self.recovering(name)?.peer;
        Ok(Call {
            name,
            peer,
            rpc: Rpc::Clear { main, db },
        })
    }

    /// The answer to [`Instance::clear_for`].
    pub fn cleared(&mut self, name: RegistrationName, done: bool) -> Result<Status, Error> {
        let entry = self.recovering(name)?;
        if !done {
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
        let call = self.snapshot_for(name)?;
        self.send_files(call, net)
    }

    /// What [`Instance::recover_snapshot_finish`] sends;
    /// [`Instance::files_sent`] goes on.
    pub fn snapshot_for(&mut self, name: RegistrationName) -> Result<Call<S>, Error> {
        let snapshot = self.snapshot.as_deref().ok_or(Error::NoSnapshot)?.clone();
        self.files_for(name, Some(snapshot))
    }

    /// The answer to files that ended at `upto`. What was committed meanwhile
    /// is not in them and had no stream to this replica, nor has a commit in
    /// flight: MAIN moved on without it.
    pub fn files_sent(&mut self, name: RegistrationName, upto: Ts, done: bool) -> Result<Status, Error> {
        let level = self.in_flight.is_none() && self.lineage.ldt == upto;
        let entry = self.recovering(name)?;
        if done {
            entry.ts = upto;
        }
        entry.status = if done && level {
            Status::Ready
        } else {
            Status::Invalid
        };
        Ok(entry.status)
    }

    fn files_for(&mut self, name: RegistrationName, snapshot: Option<Snapshot>) -> Result<Call<S>, Error> {
        let peer = self.recovering(name)?.peer;
        let files = Files {
            store: self.store.clone(),
            runs: self.lineage.runs.clone(),
            snapshot,
        };
        let (main, db) = (self.main, self.db);
        let rpc = Rpc::Files {
            main,
            db,
            files: Box::new(files),
        };
        Ok(Call { name, peer, rpc })
    }

    fn send_files(&mut self, call: Call<S>, net: &mut impl Network<S>) -> Result<Status, Error> {
        let Call { name, peer, rpc } = call;
        let done = Answer::is_yes(net.call(peer, rpc));
        self.files_sent(name, self.lineage.ldt, done)
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
