//! A commit on MAIN: the model's steps, with the network and the disk between them.

use super::address::Address;
use super::faults::CrashPoint;
use super::graph::Change;
use super::link::Lost;
use super::node::{Canned, Core, Ending, Node};
use super::texts::{self, Transaction};
use super::wal::Committed;
use super::wire::Request;
use bolt::message::Failure;
use sim::memgraph::instance::{Answer, Begun, Call, Error, Reason, RegistrationName, Role, Rpc};
use std::sync::Arc;
use tokio::task::JoinSet;

/// What a successful commit has to say: the title of a warning.
pub(super) type Warning = Option<String>;

/// A request on its way.
struct Outgoing {
    name: RegistrationName,
    address: Address,
    request: Request,
}

impl Node {
    /// Commits. Whoever begins a storage transaction waits meanwhile, and role
    /// and list of replicas cannot be changed.
    pub(super) async fn commit(
        self: &Arc<Self>,
        changes: Vec<Change>,
        transaction: Transaction,
    ) -> Result<Warning, Failure<'static>> {
        let _engine = self.engine.lock().await;
        let _state = self.state.read().await;
        // Nobody has heard of it yet.
        if *self.ending.borrow() != Ending::No {
            return Err(Failure::transient(texts::SHUTDOWN));
        }
        self.crash_point(CrashPoint::BeforeWal).await;
        if self.core().model.role() == Role::Replica {
            return Err(Failure::client(texts::NOT_MAIN_ANY_MORE));
        }
        if !self.config.wal_enabled {
            let done = self.core().model.commit_alone(&changes);
            return done.map(|_| None).map_err(busy);
        }
        let (outgoing, committed, two_phase) = self.open(changes)?;
        if !two_phase {
            self.write(&committed).await;
        }
        self.crash_point(CrashPoint::AfterWal).await;
        for (name, answer) in self.ask_all(outgoing).await {
            let vote = match answer {
                Ok(Answer::Yes) => Ok(()),
                Err(Lost::TimedOut) => Err(Reason::TimedOut),
                Ok(_) | Err(Lost::Broken | Lost::Busy) => Err(Reason::Rpc),
            };
            // Only a registration that is gone is not found, and none can go.
            let _ = self.core().model.vote(name, vote);
        }
        let (begun, calls) = self.core().model.close_votes().map_err(busy)?;
        if let Begun::Aborted(failures) = begun {
            let calls = outgoing_of(&self.core(), calls);
            self.ask_all(calls).await;
            let core = self.core();
            return Err(texts::aborted(
                self.config.profile,
                &failures,
                transaction,
                |id| core.name(id).to_owned(),
            ));
        }
        self.crash_point(CrashPoint::AfterPrepare).await;
        self.finish(&committed, two_phase, transaction).await
    }

    fn open(&self, changes: Vec<Change>) -> Result<(Vec<Outgoing>, Committed, bool), Failure<'static>> {
        let mut core = self.core();
        let calls = core.model.open_commit(changes).map_err(busy)?;
        let committed = core
            .model
            .transaction_in_flight()
            .cloned()
            .ok_or_else(|| busy(Error::WrongStage))?;
        let two_phase = core.model.is_two_phase();
        Ok((outgoing_of(&core, calls), committed, two_phase))
    }

    async fn write(&self, committed: &Committed) {
        let written = self.core().disk.log.append(committed);
        self.written(written).await;
    }

    /// Everybody who had to agree has agreed.
    async fn finish(
        self: &Arc<Self>,
        committed: &Committed,
        two_phase: bool,
        transaction: Transaction,
    ) -> Result<Warning, Failure<'static>> {
        if two_phase {
            self.write(committed).await;
        }
        self.core().model.commit_locally().map_err(busy)?;
        self.crash_point(CrashPoint::AfterLocalCommit).await;
        if two_phase {
            let calls = {
                let core = self.core();
                outgoing_of(&core, core.model.finalize_calls())
            };
            let answers = self.ask_all(calls).await;
            let mut core = self.core();
            // The model asks in the order of the list; so were the calls made.
            let mut canned = Canned(answers.into_iter().map(|(_, answer)| answer.ok()).collect());
            core.model.finalize(&mut canned).map_err(busy)?;
        }
        let acknowledged = self.core().model.finish().map_err(busy)?;
        self.work.notify_waiters();
        self.crash_point(CrashPoint::BeforeReply).await;
        if acknowledged.unconfirmed.is_empty() {
            return Ok(None);
        }
        let core = self.core();
        texts::unconfirmed(
            self.config.profile,
            &acknowledged.unconfirmed,
            transaction,
            |id| core.name(id).to_owned(),
        )
        .map(Some)
    }

    /// Asks all at once; the answers come back in order.
    async fn ask_all(
        self: &Arc<Self>,
        outgoing: Vec<Outgoing>,
    ) -> Vec<(RegistrationName, Result<Answer, Lost>)> {
        let names: Vec<RegistrationName> = outgoing.iter().map(|call| call.name).collect();
        let mut asking = JoinSet::new();
        for Outgoing {
            name,
            address,
            request,
        } in outgoing
        {
            let node = Arc::clone(self);
            asking.spawn(async move { (name, node.ask(&address, &request).await) });
        }
        let mut answers = asking.join_all().await;
        answers.sort_by_key(|(name, _)| names.iter().position(|known| known == name));
        answers
    }
}

/// Whom the model wants to ask, by address.
fn outgoing_of(core: &Core, calls: Vec<Call<super::graph::Graph>>) -> Vec<Outgoing> {
    calls
        .into_iter()
        .filter_map(|Call { name, peer, rpc }: Call<_>| {
            let request: Rpc<_> = rpc;
            Some(Outgoing {
                name,
                address: core.address(peer)?,
                request,
            })
        })
        .collect()
}

/// The model refused a step: the engine lock makes that impossible, unless the
/// role changed.
fn busy(error: Error) -> Failure<'static> {
    match error {
        Error::NotMain => Failure::client(texts::NOT_MAIN_ANY_MORE),
        other => Failure::new(
            "Memgraph.DatabaseError.MemgraphError.MemgraphError",
            format!("The stand-in's model refused a commit: {other}"),
        ),
    }
}
