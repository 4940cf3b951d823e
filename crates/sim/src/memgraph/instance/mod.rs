//! One Memgraph instance and its replication, as a value.
//!
//! An [`Instance`] has no clock, no thread and no socket: every step of the
//! real server that somebody else can observe or interrupt is a method here,
//! and whoever drives it decides when it runs. Requests to other instances go
//! through [`Network`]. Everything the model does was seen on real servers; the
//! bugs are kept, because the operator has to live with them.

mod commit;
mod disk;
mod error;
mod health;
mod ids;
mod lineage;
mod profile;
mod register;
mod registration;
mod roles;
mod rpc;
mod serve;
mod verdict;

#[cfg(test)]
mod tests;

pub use commit::{Acknowledged, Begun, Call, Failure, Reason, Stage};
pub use disk::{Found, Listed, Restart, Stop};
pub use error::Error;
pub use health::Pinged;
pub use ids::{DatabaseId, EpochId, IdVisitor, MainId, NodeId, RegistrationName, Ts};
pub use lineage::{Ended, Lineage, Relation, Run, Snapshot};
pub use profile::{Profile, SyncFailure};
pub use register::Dropped;
pub use registration::{Mode, Registration, Shown, ShownInfo, Status};
pub use roles::Role;
pub use rpc::{Answer, ContentVisitor, Files, Network, Rpc, Store, Transaction};
pub use verdict::{Verdict, verdict};

use commit::InFlight;
use disk::Checkpoint;

/// One process and its disk.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Instance<S: Store> {
    profile: Profile,
    role: Role,
    main: MainId,
    /// Label for own commits, see [`Run::writer`].
    writer: MainId,
    db: DatabaseId,
    store: S,
    lineage: Lineage,
    /// The next timestamp to give out; that of a replica stands still.
    clock: Ts,
    /// Waits for its fate, in memory only.
    prepared: Option<Transaction<S::Delta>>,
    registrations: Vec<Registration<S>>,
    in_flight: Option<InFlight<S::Delta>>,
    snapshot: Option<Box<Snapshot>>,
    /// Present only while commits are not fsynced.
    checkpoint: Option<Box<Checkpoint<S>>>,
}

impl<S: Store> Instance<S> {
    /// First start on an empty disk: a MAIN without replicas.
    pub fn new(profile: Profile, db: DatabaseId, epoch: EpochId, main: MainId) -> Self {
        Self {
            profile,
            role: Role::Main,
            main,
            writer: main,
            db,
            store: S::default(),
            lineage: Lineage::fresh(epoch),
            clock: Ts::ZERO.next(),
            prepared: None,
            registrations: Vec::new(),
            in_flight: None,
            snapshot: None,
            checkpoint: None,
        }
    }

    /// The modelled release.
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// `SHOW REPLICATION ROLE`.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// The main id: its own as MAIN, the one it obeys as REPLICA. Not visible
    /// by any query.
    pub const fn main_id(&self) -> MainId {
        self.main
    }

    /// `database_uuid`.
    pub const fn database_id(&self) -> DatabaseId {
        self.db
    }

    /// The committed data.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The last durable timestamp.
    pub const fn ldt(&self) -> Ts {
        self.lineage.ldt
    }

    /// Epoch, history and runs.
    pub const fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// A two-phase transaction is prepared here.
    pub const fn is_prepared(&self) -> bool {
        self.prepared.is_some()
    }

    /// The commit in flight, if there is one.
    pub fn stage(&self) -> Option<Stage> {
        self.in_flight.as_ref().map(InFlight::stage)
    }

    /// What is being committed.
    pub fn transaction_in_flight(&self) -> Option<&Transaction<S::Delta>> {
        self.in_flight.as_ref().map(InFlight::committed)
    }

    /// Is a two-phase commit in flight?
    pub fn is_two_phase(&self) -> bool {
        self.in_flight.as_ref().is_some_and(InFlight::is_two_phase)
    }

    /// The snapshot on disk.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_deref()
    }

    /// The list as the server keeps it.
    pub fn registrations(&self) -> &[Registration<S>] {
        &self.registrations
    }

    /// One entry of the list.
    pub fn registration(&self, name: RegistrationName) -> Option<&Registration<S>> {
        self.registrations
            .iter()
            .find(|registration| registration.name == name)
    }

    /// `SHOW REPLICAS`: cached, no request is sent.
    pub fn show_replicas(&self) -> Result<impl Iterator<Item = Shown>, Error> {
        self.require_main()?;
        let ldt = self.ldt();
        Ok(self.registrations.iter().map(move |registration| Shown {
            name: registration.name,
            peer: registration.peer,
            mode: registration.mode,
            info: registration.attached.then(|| ShownInfo {
                ts: registration.ts,
                behind: i64::from(registration.ts.0) - i64::from(ldt.0),
                status: registration.status,
            }),
        }))
    }

    /// A storage transaction begins on a MAIN and takes a timestamp. The
    /// worlds of the explorer leave this out: only order matters to them.
    pub fn take_timestamp(&mut self) {
        if self.role == Role::Main && self.in_flight.is_none() {
            self.clock = self.clock.next();
        }
    }

    /// Lets a checker change the data, to bring equal states into one form.
    pub fn edit_store(&mut self, edit: impl FnOnce(&mut S)) {
        edit(&mut self.store);
    }

    /// Shows every id to `visitor`, which may change it.
    pub fn visit_ids(&mut self, visitor: &mut impl IdVisitor) {
        // Without `..`: an id that is not visited would survive renumbering.
        let Self {
            profile: _,
            role: _,
            main,
            writer,
            db,
            store: _,
            lineage,
            clock,
            prepared,
            registrations,
            in_flight,
            snapshot,
            checkpoint,
        } = self;
        visitor.main(main);
        visitor.main(writer);
        visitor.database(db);
        visitor.ts(clock);
        lineage.visit_ids(visitor);
        for entry in registrations.iter_mut() {
            visitor.ts(&mut entry.ts);
        }
        let queued = registrations
            .iter_mut()
            .filter_map(|entry| entry.queued.as_deref_mut());
        let flying = in_flight.iter_mut().map(InFlight::transaction);
        for transaction in prepared.iter_mut().chain(queued).chain(flying) {
            transaction.visit_ids(visitor);
        }
        if let Some(snapshot) = snapshot {
            snapshot.visit_ids(visitor);
        }
        if let Some(checkpoint) = checkpoint {
            checkpoint.visit_ids(visitor);
        }
    }

    /// Shows names and data to `visitor`, which may change them.
    pub fn visit_contents(&mut self, visitor: &mut impl ContentVisitor<S>) {
        // Without `..`, as above.
        let Self {
            profile: _,
            role: _,
            main: _,
            writer: _,
            db: _,
            store,
            lineage: _,
            clock: _,
            prepared,
            registrations,
            in_flight,
            snapshot: _,
            checkpoint,
        } = self;
        visitor.store(store);
        if let Some(transaction) = prepared {
            visitor.delta(&mut transaction.delta);
        }
        for entry in registrations {
            visitor.name(&mut entry.name);
            if let Some(transaction) = &mut entry.queued {
                visitor.delta(&mut transaction.delta);
            }
        }
        if let Some(commit) = in_flight {
            visitor.delta(&mut commit.transaction().delta);
            commit.names().for_each(|name| visitor.name(name));
        }
        if let Some(checkpoint) = checkpoint {
            visitor.store(checkpoint.store());
        }
    }

    const fn require_main(&self) -> Result<(), Error> {
        match self.role {
            Role::Main => Ok(()),
            Role::Replica => Err(Error::NotMain),
        }
    }

    /// The entry to work on; only a MAIN has any.
    fn entry(&mut self, name: RegistrationName) -> Result<&mut Registration<S>, Error> {
        self.require_main()?;
        self.registrations
            .iter_mut()
            .find(|registration| registration.name == name)
            .ok_or(Error::UnknownName)
    }
}
