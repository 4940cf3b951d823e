//! Restart, snapshots, and the ways a disk loses data.

use super::Instance;
use super::error::Error;
use super::ids::{DatabaseId, EpochId, IdVisitor, MainId, NodeId, RegistrationName, Ts};
use super::lineage::{Lineage, Run, Snapshot, visit_runs};
use super::profile::Profile;
use super::registration::{Mode, Registration};
use super::roles::Role;
use super::rpc::Store;

/// What is safe on disk while commits are not fsynced.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Checkpoint<S> {
    store: S,
    runs: Vec<Run>,
    snapshot: Option<Box<Snapshot>>,
}

impl<S> Checkpoint<S> {
    pub(super) const fn store(&mut self) -> &mut S {
        &mut self.store
    }

    pub(super) fn visit_ids(&mut self, visitor: &mut impl IdVisitor) {
        let Self {
            store: _,
            runs,
            snapshot,
        } = self;
        visit_runs(runs, visitor);
        if let Some(snapshot) = snapshot {
            snapshot.visit_ids(visitor);
        }
    }
}

/// How the process ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stop {
    /// SIGTERM.
    Graceful {
        /// `--storage-snapshot-on-exit`.
        snapshot_on_exit: bool,
    },
    /// SIGKILL, crash: the page cache survives.
    Killed,
    /// The node went: what was not fsynced is gone.
    PowerLost,
}

/// What a process finds on its disk when it starts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Found<S> {
    /// The role it had.
    pub role: Role,
    /// The main id it had.
    pub main: MainId,
    /// The database.
    pub db: DatabaseId,
    /// All committed data.
    pub store: S,
    /// The runs behind it.
    pub runs: Vec<Run>,
    /// The snapshot, if there is one.
    pub snapshot: Option<Snapshot>,
    /// The list of replicas.
    pub replicas: Vec<Listed>,
}

/// One entry of the list of replicas, as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Listed {
    /// Its name.
    pub name: RegistrationName,
    /// Its mode.
    pub mode: Mode,
    /// Where it points.
    pub peer: NodeId,
}

/// One restart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Restart {
    /// How it went down.
    pub stop: Stop,
    /// The init file demotes before the first client is let in.
    pub init_file: bool,
    /// Used if a MAIN is demoted or continues with a lost tail.
    pub main: MainId,
    /// Used if nothing on disk names an epoch.
    pub epoch: EpochId,
}

impl<S: Store> Instance<S> {
    /// A process starts on a disk that another one left. `epoch` is used if
    /// nothing there names one, `writer` labels what this process commits.
    pub fn started(profile: Profile, found: Found<S>, epoch: EpochId, writer: MainId) -> Self {
        let Found {
            role,
            main,
            db,
            store,
            runs,
            snapshot,
            replicas,
        } = found;
        let mut instance = Self::new(profile, db, epoch, main);
        instance.role = role;
        instance.store = store;
        instance.lineage.runs = runs;
        instance.snapshot = snapshot.map(Box::new);
        instance.registrations = replicas
            .into_iter()
            .map(|Listed { name, mode, peer }| Registration::detached(name, mode, peer))
            .collect();
        instance.restart(Restart {
            stop: Stop::Killed,
            init_file: false,
            main: writer,
            epoch,
        });
        if role == Role::Main {
            instance.writer = writer;
        }
        instance
    }

    /// The process ends and starts again on the same disk.
    pub fn restart(&mut self, restart: Restart) {
        let Restart {
            stop,
            init_file,
            main,
            epoch,
        } = restart;
        self.end_commit();
        self.prepared = None;
        let before = self.lineage.ldt;
        match stop {
            Stop::Graceful {
                snapshot_on_exit: true,
            } => {
                // Refused on a replica of an old release: then there is none.
                let _ = self.take_snapshot();
            }
            Stop::Graceful {
                snapshot_on_exit: false,
            }
            | Stop::Killed => {}
            Stop::PowerLost => self.lose_tail(),
        }
        let runs = std::mem::take(&mut self.lineage.runs);
        self.lineage = Lineage::recovered(runs, self.snapshot.as_deref(), epoch, self.profile);
        self.clock = self.lineage.ldt.next();
        if self.role == Role::Main && self.lineage.ldt < before {
            // It will give the lost timestamps out again.
            self.writer = main;
        }
        for entry in &mut self.registrations {
            // Zombies come alive here: attached, and asked on every commit.
            let &mut Registration { name, mode, peer, .. } = entry;
            *entry = Registration {
                attached: true,
                ..Registration::detached(name, mode, peer)
            };
        }
        if init_file && self.role == Role::Main {
            self.become_replica(main);
        }
    }

    /// `CREATE SNAPSHOT`.
    pub fn take_snapshot(&mut self) -> Result<(), Error> {
        if self.role == Role::Replica && !self.profile.replicas_snapshot() {
            return Err(Error::ReplicaSnapshot);
        }
        let Lineage {
            epoch,
            ldt,
            history,
            runs: _,
        } = &self.lineage;
        if *ldt == Ts::ZERO {
            return Ok(());
        }
        let received = self.snapshot.as_ref().is_some_and(|snapshot| snapshot.received);
        let snapshot = Snapshot {
            history: history.clone(),
            epoch: *epoch,
            ldt: *ldt,
            received,
        };
        self.snapshot = Some(Box::new(snapshot));
        Ok(())
    }

    /// Somebody deletes the snapshot files of a stopped process.
    pub fn delete_snapshot(&mut self) -> Result<(), Error> {
        let snapshot = self.snapshot.as_deref().ok_or(Error::NoSnapshot)?;
        if snapshot.received {
            return Err(Error::LogIncomplete);
        }
        self.snapshot = None;
        Ok(())
    }

    /// Hard reset of a stopped process: snapshot and log files are moved away.
    /// Role, list, main id and database id stay, so nothing on the outside shows it.
    pub fn wipe(&mut self, epoch: EpochId) {
        self.in_flight = None;
        self.prepared = None;
        self.store = S::default();
        self.lineage = Lineage::fresh(epoch);
        self.snapshot = None;
        self.clock = Ts::ZERO.next();
        self.fsynced();
    }

    /// The volume is replaced by an empty one. Starts as MAIN of its own,
    /// unless the next restart has an init file.
    pub fn lose_volume(&mut self, db: DatabaseId, epoch: EpochId, main: MainId) {
        let relaxed = self.checkpoint.is_some();
        *self = Self::new(self.profile, db, epoch, main);
        if relaxed {
            self.relax_fsync();
        }
    }

    /// From now on commits are not fsynced one by one.
    pub fn relax_fsync(&mut self) {
        self.checkpoint = Some(Box::new(self.safe()));
    }

    /// The kernel has written everything back. No effect with fsync per commit.
    pub fn fsynced(&mut self) {
        if self.checkpoint.is_some() {
            self.checkpoint = Some(Box::new(self.safe()));
        }
    }

    fn safe(&self) -> Checkpoint<S> {
        Checkpoint {
            store: self.store.clone(),
            runs: self.lineage.runs.clone(),
            snapshot: self.snapshot.clone(),
        }
    }

    fn lose_tail(&mut self) {
        if let Some(checkpoint) = self.checkpoint.as_deref() {
            let Checkpoint {
                store,
                runs,
                snapshot,
            } = checkpoint.clone();
            self.store = store;
            self.lineage.runs = runs;
            self.snapshot = snapshot;
        }
    }

    fn end_commit(&mut self) {
        if self
            .in_flight
            .as_ref()
            .is_some_and(super::commit::InFlight::survives)
        {
            // Fails if it is committed already, which is as good.
            let _ = self.commit_locally();
        }
        self.in_flight = None;
    }
}
