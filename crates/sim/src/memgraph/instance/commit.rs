//! A commit on MAIN, in the steps at which something else can happen.

use super::Instance;
use super::error::Error;
use super::ids::{NodeId, RegistrationName, Ts};
use super::registration::{Mode, Registration, Status};
use super::rpc::{Answer, Network, Rpc, Store, Transaction};

/// How far the commit in flight is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// Sent; not everybody has answered. A replica that hangs has MAIN wait here, and MAIN takes no command
    /// meanwhile.
    Voting,
    /// Two-phase: everybody voted yes, nobody has committed.
    Prepared,
    /// One phase: in the own log, SYNC replicas have answered.
    Logged,
    /// Committed on MAIN.
    Committed,
    /// The finalize messages are sent, arrived or not.
    Finalized,
}

/// The commit in flight.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct InFlight<D> {
    stage: Stage,
    two_phase: bool,
    transaction: Transaction<D>,
    failures: Vec<Failure>,
}

impl<D> InFlight<D> {
    pub(super) const fn stage(&self) -> Stage {
        self.stage
    }

    pub(super) const fn is_two_phase(&self) -> bool {
        self.two_phase
    }

    pub(super) const fn committed(&self) -> &Transaction<D> {
        &self.transaction
    }

    pub(super) const fn transaction(&mut self) -> &mut Transaction<D> {
        &mut self.transaction
    }

    pub(super) fn names(&mut self) -> impl Iterator<Item = &mut RegistrationName> {
        self.failures.iter_mut().map(|failure| &mut failure.name)
    }

    /// Whether a process that ends now finds the transaction in its log again.
    /// In one phase the log is complete before anything is sent.
    pub(super) const fn survives(&self) -> bool {
        match self.stage {
            Stage::Voting | Stage::Prepared => !self.two_phase,
            Stage::Logged | Stage::Committed | Stage::Finalized => true,
        }
    }
}

/// Why a replica did not confirm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// Not `ready` when the commit began.
    NotInSync,
    /// No connection, or a no vote.
    Rpc,
    /// Connected, and no answer in time.
    TimedOut,
    /// Its status is `diverged`.
    Diverged,
}

/// One replica that did not confirm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Failure {
    /// Which.
    pub name: RegistrationName,
    /// `Sync` or `StrictSync`.
    pub mode: Mode,
    /// Why.
    pub reason: Reason,
}

/// The result of the first step.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub enum Begun {
    /// Two-phase, all votes are yes: commit locally, finalize, finish.
    Prepared,
    /// One phase: commit locally, finish.
    Local,
    /// Two-phase, and a replica hangs: nothing happens until [`Instance::end_votes`].
    Waiting,
    /// Two-phase and over: nothing is stored, the client gets an error.
    Aborted(Vec<Failure>),
}

/// A request that is to be sent.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Call<S: Store> {
    /// Which registration it belongs to.
    pub name: RegistrationName,
    /// To whom.
    pub peer: NodeId,
    /// What.
    pub rpc: Rpc<S>,
}

/// The answer to the client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub struct Acknowledged {
    /// The timestamp of the transaction.
    pub ts: Ts,
    /// SYNC replicas that did not confirm. If there are any, the client gets
    /// [`super::Profile::sync_failure`] although the transaction is committed.
    pub unconfirmed: Vec<Failure>,
}

impl<S: Store> Instance<S> {
    /// First step: opens the streams, sends the transaction, collects votes. A replica that hangs has this step
    /// wait, half a minute on a real server.
    pub fn begin(&mut self, delta: S::Delta, net: &mut impl Network<S>) -> Result<Begun, Error> {
        let calls = self.open_commit(delta)?;
        let mut waits = false;
        for entry in self.registrations.iter_mut().filter(|entry| entry.open) {
            if entry.mode == Mode::StrictSync && net.hangs(entry.peer) {
                // Its vote does not come on this connection, whatever becomes of the process.
                entry.stale = true;
                waits = true;
            }
        }
        if waits {
            Ok(Begun::Waiting)
        } else {
            self.collect(calls, net)
        }
    }

    /// The votes that [`Begun::Waiting`] waits for are in, or were waited for long enough.
    pub fn end_votes(&mut self, net: &mut impl Network<S>) -> Result<Begun, Error> {
        let commit = at_stage(&mut self.in_flight, |commit| commit.stage == Stage::Voting)?;
        let (transaction, two_phase) = (commit.transaction.clone(), commit.two_phase);
        let calls = self.prepares(&transaction, two_phase);
        self.collect(calls, net)
    }

    fn collect(&mut self, calls: Vec<Call<S>>, net: &mut impl Network<S>) -> Result<Begun, Error> {
        for Call { name, peer: _, rpc } in calls {
            let vote = if self.entry(name)?.prepare(rpc, net) {
                Ok(())
            } else {
                Err(Reason::Rpc)
            };
            self.vote(name, vote)?;
        }
        let (begun, calls) = self.close_votes()?;
        for Call { name: _, peer, rpc } in calls {
            // A lost message is as good: the next prepare replaces it.
            net.call(peer, rpc);
        }
        Ok(begun)
    }

    /// The first part of [`Instance::begin`], for who cannot wait inside a
    /// call: opens the streams and says what is to be sent.
    pub fn open_commit(&mut self, delta: S::Delta) -> Result<Vec<Call<S>>, Error> {
        self.require_main()?;
        if self.in_flight.is_some() {
            return Err(Error::Busy);
        }
        let (epoch, writer) = (self.lineage.epoch, self.writer);
        let (after, ts) = (self.lineage.runs.last().copied(), self.clock);
        self.clock = ts.next();
        let transaction = Transaction {
            epoch,
            writer,
            after,
            ts,
            delta,
        };
        let strict = |entry: &Registration<S>| entry.attached && entry.mode == Mode::StrictSync;
        let two_phase = self.registrations.iter().any(strict);
        let failures = self.open_streams(two_phase);
        let calls = self.prepares(&transaction, two_phase);
        self.in_flight = Some(InFlight {
            stage: Stage::Voting,
            two_phase,
            transaction,
            failures,
        });
        Ok(calls)
    }

    /// The answer to one of the requests of [`Instance::open_commit`].
    pub fn vote(&mut self, name: RegistrationName, vote: Result<(), Reason>) -> Result<(), Error> {
        let position_from_vote = self.profile.position_from_vote();
        let commit = at_stage(&mut self.in_flight, |commit| commit.stage == Stage::Voting)?;
        let entry = self
            .registrations
            .iter_mut()
            .find(|entry| entry.name == name && entry.open)
            .ok_or(Error::UnknownName)?;
        if let Err(reason) = vote {
            entry.open = false;
            entry.status = Status::Invalid;
            commit.failures.push(Failure {
                name,
                mode: entry.mode,
                reason,
            });
            return Ok(());
        }
        if !commit.two_phase || position_from_vote {
            entry.ts = commit.transaction.ts;
        }
        if !commit.two_phase {
            entry.settle();
        }
        Ok(())
    }

    /// The last part of [`Instance::begin`]: everybody who was asked has
    /// answered. What is to be sent now needs no answer.
    pub fn close_votes(&mut self) -> Result<(Begun, Vec<Call<S>>), Error> {
        let commit = at_stage(&mut self.in_flight, |commit| commit.stage == Stage::Voting)?;
        if !commit.two_phase {
            commit.stage = Stage::Logged;
            return Ok((Begun::Local, Vec::new()));
        }
        if commit.failures.is_empty() {
            commit.stage = Stage::Prepared;
            return Ok((Begun::Prepared, Vec::new()));
        }
        let (failures, ts) = (std::mem::take(&mut commit.failures), commit.transaction.ts);
        self.in_flight = None;
        Ok((Begun::Aborted(failures), self.abort(ts)))
    }

    /// What [`Instance::finalize`] is going to send.
    pub fn finalize_calls(&self) -> Vec<Call<S>> {
        let Some(commit) = self
            .in_flight
            .as_ref()
            .filter(|commit| commit.two_phase && commit.stage == Stage::Committed)
        else {
            return Vec::new();
        };
        let (main, ts) = (self.main, commit.transaction.ts);
        self.registrations
            .iter()
            .filter(|entry| entry.open && entry.mode == Mode::StrictSync)
            .map(|entry| Call {
                name: entry.name,
                peer: entry.peer,
                rpc: Rpc::Finalize {
                    main,
                    ts,
                    commit: true,
                },
            })
            .collect()
    }

    /// Second step: the transaction is in MAIN's data.
    pub fn commit_locally(&mut self) -> Result<(), Error> {
        let commit = at_stage(&mut self.in_flight, |commit| {
            matches!(commit.stage, Stage::Prepared | Stage::Logged)
        })?;
        commit.stage = Stage::Committed;
        let Transaction {
            epoch: _,
            writer,
            after: _,
            ts,
            ref delta,
        } = commit.transaction;
        self.store.apply(delta);
        self.lineage.append(writer, ts);
        Ok(())
    }

    /// Third step, two-phase only: tells the STRICT_SYNC replicas, and hands the
    /// transaction to the ASYNC ones. A failure changes nothing: the replica
    /// stays `ready`, the client gets its success, and only the next write
    /// finds out.
    pub fn finalize(&mut self, net: &mut impl Network<S>) -> Result<(), Error> {
        let commit = at_stage(&mut self.in_flight, |commit| {
            commit.two_phase && commit.stage == Stage::Committed
        })?;
        commit.stage = Stage::Finalized;
        let (transaction, ts) = (&commit.transaction, commit.transaction.ts);
        let (main, position_from_vote) = (self.main, self.profile.position_from_vote());
        for entry in self.registrations.iter_mut().filter(|entry| entry.open) {
            entry.open = false;
            let level = match entry.mode {
                Mode::StrictSync => {
                    entry.settle();
                    Answer::is_yes(net.call(
                        entry.peer,
                        Rpc::Finalize {
                            main,
                            ts,
                            commit: true,
                        },
                    ))
                }
                // Nothing was sent to it and it stays `replicating`, yet newer
                // releases count it as level.
                Mode::Sync => true,
                Mode::Async => {
                    entry.queued = Some(Box::new(transaction.clone()));
                    false
                }
            };
            if level && !position_from_vote {
                entry.ts = entry.ts.max(ts);
            }
        }
        Ok(())
    }

    /// Last step: the client is answered and the lock is free.
    pub fn finish(&mut self) -> Result<Acknowledged, Error> {
        at_stage(&mut self.in_flight, |commit| match commit.stage {
            Stage::Finalized => true,
            Stage::Committed => !commit.two_phase,
            Stage::Voting | Stage::Prepared | Stage::Logged => false,
        })?;
        let InFlight {
            stage: _,
            two_phase: _,
            transaction,
            failures,
        } = self.in_flight.take().ok_or(Error::WrongStage)?;
        Ok(Acknowledged {
            ts: transaction.ts,
            unconfirmed: failures,
        })
    }

    /// A commit without a log: nobody is told, now or later.
    pub fn commit_alone(&mut self, delta: &S::Delta) -> Result<Ts, Error> {
        self.require_main()?;
        if self.in_flight.is_some() {
            return Err(Error::Busy);
        }
        let ts = self.clock;
        self.clock = ts.next();
        self.store.apply(delta);
        self.lineage.append(self.writer, ts);
        Ok(ts)
    }

    /// What [`Instance::deliver_async`] is going to send.
    pub fn queued_for(&self, name: RegistrationName) -> Option<Call<S>> {
        let (main, db) = (self.main, self.db);
        let entry = self.registration(name)?;
        let transaction = entry.queued.as_deref()?.clone();
        let rpc = Rpc::Prepare {
            main,
            db,
            transaction,
            two_phase: false,
        };
        Some(Call {
            name,
            peer: entry.peer,
            rpc,
        })
    }

    /// Background task of an ASYNC replica: delivers what is queued.
    pub fn deliver_async(
        &mut self,
        name: RegistrationName,
        net: &mut impl Network<S>,
    ) -> Result<Status, Error> {
        let (main, db) = (self.main, self.db);
        let entry = self.entry(name)?;
        let transaction = *entry.queued.take().ok_or(Error::WrongStatus)?;
        let ts = transaction.ts;
        let rpc = Rpc::Prepare {
            main,
            db,
            transaction,
            two_phase: false,
        };
        if entry.prepare(rpc, net) {
            entry.ts = entry.ts.max(ts);
            entry.settle();
        } else {
            entry.status = Status::Invalid;
        }
        Ok(entry.status)
    }

    fn open_streams(&mut self, two_phase: bool) -> Vec<Failure> {
        let mut failures = Vec::new();
        let sync_counts = !two_phase || self.profile.mixed_sync_aborts();
        for entry in self.registrations.iter_mut().filter(|entry| entry.attached) {
            let reason = match entry.status {
                Status::Ready => {
                    entry.status = Status::Replicating;
                    entry.open = true;
                    continue;
                }
                // It missed the transaction before this one.
                Status::Replicating => {
                    entry.status = Status::Invalid;
                    Reason::NotInSync
                }
                Status::Invalid | Status::Recovery => Reason::NotInSync,
                Status::Diverged => Reason::Diverged,
            };
            let counts = match entry.mode {
                Mode::Async => false,
                Mode::Sync => sync_counts,
                Mode::StrictSync => true,
            };
            if counts {
                failures.push(Failure {
                    name: entry.name,
                    mode: entry.mode,
                    reason,
                });
            }
        }
        failures
    }

    /// What the replicas with an open stream are sent before the commit.
    fn prepares(&mut self, transaction: &Transaction<S::Delta>, two_phase: bool) -> Vec<Call<S>> {
        let (main, db) = (self.main, self.db);
        let mut calls = Vec::new();
        for entry in self.registrations.iter_mut().filter(|entry| entry.open) {
            match (entry.mode, two_phase) {
                // ASYNC gets it after the commit, SYNC not at all.
                (Mode::Async | Mode::Sync, true) => {}
                (Mode::Async, false) => {
                    entry.open = false;
                    entry.queued = Some(Box::new(transaction.clone()));
                }
                (Mode::Sync, false) | (Mode::StrictSync, _) => calls.push(Call {
                    name: entry.name,
                    peer: entry.peer,
                    rpc: Rpc::Prepare {
                        main,
                        db,
                        transaction: transaction.clone(),
                        two_phase,
                    },
                }),
            }
        }
        calls
    }

    /// Those that voted yes are told. ASYNC and SYNC replicas whose stream was
    /// opened stay `replicating`: the next write finds them so and skips them.
    fn abort(&mut self, ts: Ts) -> Vec<Call<S>> {
        let main = self.main;
        let mut calls = Vec::new();
        for entry in self.registrations.iter_mut().filter(|entry| entry.open) {
            entry.open = false;
            if entry.mode == Mode::StrictSync {
                calls.push(Call {
                    name: entry.name,
                    peer: entry.peer,
                    rpc: Rpc::Finalize {
                        main,
                        ts,
                        commit: false,
                    },
                });
                entry.settle();
            }
        }
        calls
    }
}

/// The commit in flight, if it is where the step goes on from.
fn at_stage<D>(
    commit: &mut Option<InFlight<D>>,
    fits: impl FnOnce(&InFlight<D>) -> bool,
) -> Result<&mut InFlight<D>, Error> {
    commit
        .as_mut()
        .filter(|commit| fits(commit))
        .ok_or(Error::WrongStage)
}
