//! A commit on MAIN, in the steps at which something else can happen.

use super::Instance;
use super::error::Error;
use super::ids::{RegistrationName, Ts};
use super::registration::{Mode, Registration, Status};
use super::rpc::{Answer, Network, Rpc, Store, Transaction};

/// How far the commit in flight is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// Two-phase: sent to a replica that hangs. Its vote is waited for, and MAIN takes no command meanwhile.
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

    pub(super) const fn transaction(&mut self) -> &mut Transaction<D> {
        &mut self.transaction
    }

    /// Whether a process that ends now finds the transaction in its log again.
    /// In one phase the log is complete before anything is sent.
    pub(super) const fn survives(&self) -> bool {
        !matches!(self.stage, Stage::Voting | Stage::Prepared)
    }
}

/// Why a replica did not confirm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// Not `ready` when the commit began.
    NotInSync,
    /// No answer, or a no vote.
    Rpc,
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
    /// Two-phase, and a replica hangs: nothing happens until [`Instance::vote`].
    Waiting,
    /// Two-phase and over: nothing is stored, the client gets an error.
    Aborted(Vec<Failure>),
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
        self.in_flight = Some(InFlight {
            stage: Stage::Voting,
            two_phase,
            transaction,
            failures,
        });
        let mut waits = false;
        for entry in self.registrations.iter_mut().filter(|entry| entry.open) {
            if entry.mode == Mode::StrictSync && net.hangs(entry.peer) {
                // Its vote does not come on this connection, whatever becomes of the process.
                entry.stale = true;
                waits = true;
            }
        }
        if waits { Ok(Begun::Waiting) } else { self.vote(net) }
    }

    /// The votes are in, or were waited for long enough.
    pub fn vote(&mut self, net: &mut impl Network<S>) -> Result<Begun, Error> {
        at_stage(&mut self.in_flight, |commit| commit.stage == Stage::Voting)?;
        let InFlight {
            stage: _,
            two_phase,
            transaction,
            mut failures,
        } = self.in_flight.take().ok_or(Error::WrongStage)?;
        self.send(&transaction, two_phase, &mut failures, net);
        if two_phase && !failures.is_empty() {
            self.abort(transaction.ts, net);
            return Ok(Begun::Aborted(failures));
        }
        let stage = if two_phase { Stage::Prepared } else { Stage::Logged };
        self.in_flight = Some(InFlight {
            stage,
            two_phase,
            transaction,
            failures,
        });
        Ok(if two_phase { Begun::Prepared } else { Begun::Local })
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

    fn send(
        &mut self,
        transaction: &Transaction<S::Delta>,
        two_phase: bool,
        failures: &mut Vec<Failure>,
        net: &mut impl Network<S>,
    ) {
        let (main, db, position_from_vote) = (self.main, self.db, self.profile.position_from_vote());
        for entry in self.registrations.iter_mut().filter(|entry| entry.open) {
            match (entry.mode, two_phase) {
                // ASYNC gets it after the commit, SYNC not at all.
                (Mode::Async | Mode::Sync, true) => continue,
                (Mode::Async, false) => {
                    entry.open = false;
                    entry.queued = Some(Box::new(transaction.clone()));
                    continue;
                }
                (Mode::Sync, false) | (Mode::StrictSync, _) => {}
            }
            let rpc = Rpc::Prepare {
                main,
                db,
                transaction: transaction.clone(),
                two_phase,
            };
            if !entry.prepare(rpc, net) {
                entry.open = false;
                entry.status = Status::Invalid;
                failures.push(Failure {
                    name: entry.name,
                    mode: entry.mode,
                    reason: Reason::Rpc,
                });
                continue;
            }
            if !two_phase || position_from_vote {
                entry.ts = transaction.ts;
            }
            if !two_phase {
                entry.settle();
            }
        }
    }

    /// Those that voted yes are told. ASYNC and SYNC replicas whose stream was
    /// opened stay `replicating`: the next write finds them so and skips them.
    fn abort(&mut self, ts: Ts, net: &mut impl Network<S>) {
        let main = self.main;
        for entry in self.registrations.iter_mut().filter(|entry| entry.open) {
            entry.open = false;
            if entry.mode == Mode::StrictSync {
                // A lost message is as good: the next prepare replaces it.
                net.call(
                    entry.peer,
                    Rpc::Finalize {
                        main,
                        ts,
                        commit: false,
                    },
                );
                entry.settle();
            }
        }
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
