//! `REGISTER REPLICA` and `DROP REPLICA`.

use super::address::{Address, AddressError};
use super::faults::OnBusyDrop;
use super::health;
use super::node::{Canned, Node};
use super::wire::Request;
use bolt::message::Failure;
use sim::memgraph::instance::{Answer, Dropped, Error, Mode, NodeId, RegistrationName, Role, Rpc};
use std::sync::Arc;
use tokio::time::timeout;

impl Node {
    /// `REGISTER REPLICA`. Nobody else gets at role, list or data until the
    /// peer has answered, or has not.
    pub(super) async fn register(
        self: &Arc<Self>,
        name: &str,
        mode: Mode,
        address: &str,
    ) -> Result<(), Failure<'static>> {
        if self.core().model.role() == Role::Replica {
            return Err(Failure::client("Replica can't register another replica!"));
        }
        let address = Address::parse(address).map_err(|error| match error {
            AddressError::Form => Failure::client(error.to_string()),
            AddressError::Port => Failure::transient(error.to_string()),
        })?;
        let refused = |code: u8| Failure::client(format!("Couldn't register replica {name}. Error: {code}"));
        let patience = self.config.timing.state_lock();
        let Ok(_state) = timeout(patience, self.state.write()).await else {
            return Err(refused(6));
        };
        if let Some(code) = self.faults.active().fail_register.take() {
            return Err(refused(code));
        }
        let (id, peer) = self
            .numbered(name, &address)
            .map_err(|error| refusal(error, name))?;
        let answers = self.introduce(&address).await;
        let (result, saved) = {
            let mut core = self.core();
            let result = core.model.register(id, mode, peer, &mut Canned(answers));
            (result, core.save_replication())
        };
        self.written(saved).await;
        match result {
            Ok(_) => {
                health::tend(self, id);
                self.work.notify_waiters();
                Ok(())
            }
            Err(error) => Err(refusal(error, name)),
        }
    }

    /// The numbers of name and address, if the model would go on.
    fn numbered(&self, name: &str, address: &Address) -> Result<(RegistrationName, NodeId), Error> {
        let mut core = self.core();
        let known = core.named(name);
        let id = core.number_name(name);
        let peer = core.number_peer(address);
        let result = core.model.may_register(id, peer);
        if result.is_err() && known.is_none() {
            core.names.remove(&id);
        }
        result.map(|()| (id, peer))
    }

    /// The three requests of a registration, as far as they go.
    async fn introduce(&self, address: &Address) -> std::collections::VecDeque<Option<Answer>> {
        let (main, db) = {
            let core = self.core();
            (core.model.main_id(), core.database())
        };
        self.links.close(address);
        let requests: [Request; 3] = [
            Rpc::SwapMain { main },
            Rpc::SystemRecovery { main, db },
            Rpc::Heartbeat { main, db },
        ];
        let mut answers = std::collections::VecDeque::new();
        for request in requests {
            let first = answers.is_empty();
            let answer = self.ask(address, &request).await.ok();
            answers.push_back(answer);
            if first && answer != Some(Answer::Yes) {
                break;
            }
        }
        answers
    }

    /// `DROP REPLICA`.
    pub(super) async fn drop_replica(&self, name: &str) -> Result<(), Failure<'static>> {
        if self.core().model.role() == Role::Replica {
            return Err(Failure::client(
                "Replica can't unregister a replica! Please rerun the query on main in order to unregister a replica from the cluster.",
            ));
        }
        let Ok(_state) = self.state.try_write() else {
            return Err(Failure::client(
                "Failed to unregister replica due to lack of unique access over the cluster state. Please try again later on.",
            ));
        };
        let unknown = || Failure::client(format!("Failed to unregister the replica {name}."));
        let (dropped, address, saved) = {
            let mut core = self.core();
            let id = core.named(name).ok_or_else(unknown)?;
            let address = core
                .model
                .registration(id)
                .and_then(|entry| core.address(entry.peer()));
            let dropped = core.model.drop_replica(id).map_err(|_| unknown())?;
            core.to_introduce.remove(&id);
            core.names.remove(&id);
            (dropped, address, core.save_replication())
        };
        self.written(saved).await;
        if let Some(address) = address {
            self.links.close(&address);
        }
        let then = self.faults.active().busy_drop;
        match (dropped, then) {
            (Dropped::Clean, _) | (Dropped::WhileWorking, OnBusyDrop::Survive) => {}
            (Dropped::WhileWorking, OnBusyDrop::Crash) => self.crash().await,
            (Dropped::WhileWorking, OnBusyDrop::Freeze) => self.freeze().await,
        }
        Ok(())
    }

    /// Nothing answers any more, not even the role.
    pub(super) async fn freeze(&self) {
        let _engine = self.engine.lock().await;
        let _state = self.state.write().await;
        std::future::pending::<()>().await;
    }
}

fn refusal(error: Error, name: &str) -> Failure<'static> {
    match error.register_code() {
        Some(code) => Failure::client(format!("Couldn't register replica {name}. Error: {code}")),
        None => Failure::client("Replica can't register another replica!"),
    }
}
