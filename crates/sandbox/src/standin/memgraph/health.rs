//! What MAIN does about a replica between commits: pings, checks, recovery,
//! and the delivery of what ASYNC replicas are owed.

use super::address::Address;
use super::link::Lost;
use super::node::{Canned, Node};
use super::wire::Request;
use sim::memgraph::instance::{Answer, Call, Pinged, RegistrationName, Rpc, Status, Ts};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Looks after one registration until it is gone.
pub(super) fn tend(node: &Arc<Node>, name: RegistrationName) {
    node.spawn(rounds(Arc::downgrade(node), name));
}

async fn rounds(node: Weak<Node>, name: RegistrationName) {
    let Some(every) = node.upgrade().map(|node| node.config.timing.check()) else {
        return;
    };
    let mut clock = interval(every.unwrap_or(Duration::from_hours(24)));
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes at once.
    clock.tick().await;
    loop {
        let Some(this) = node.upgrade() else { return };
        let Some(address) = this.tended(name) else { return };
        let ticked = {
            let notified = this.work.notified();
            tokio::pin!(notified);
            // Registered before looking, so that nothing is missed in between.
            notified.as_mut().enable();
            if this.has_work(name) {
                false
            } else {
                tokio::select! {
                    () = notified => false,
                    _ = clock.tick(), if every.is_some() => true,
                }
            }
        };
        if this.tended(name).as_ref() != Some(&address) {
            return;
        }
        this.deliver(name, &address).await;
        if ticked {
            this.look_after(name, &address).await;
        }
        this.recover(name, &address).await;
    }
}

impl Node {
    /// Where the replica is, as long as it is registered and no zombie.
    fn tended(&self, name: RegistrationName) -> Option<Address> {
        let core = self.core();
        let entry = core.model.registration(name)?;
        entry.is_attached().then(|| core.address(entry.peer()))?
    }

    fn has_work(&self, name: RegistrationName) -> bool {
        let core = self.core();
        core.model
            .registration(name)
            .is_some_and(|entry| entry.has_queued() || entry.status() == Status::Recovery)
    }

    async fn deliver(&self, name: RegistrationName, address: &Address) {
        let call = self.core().model.queued_for(name);
        if let Some(Call { rpc, .. }) = call {
            let answer = self.ask(address, &rpc).await.ok();
            // Only fails if the registration went meanwhile.
            let _ = self.core().model.deliver_async(name, &mut Canned::one(answer));
        }
    }

    /// What a MAIN that starts does before it lets anybody in.
    pub(super) async fn greet(&self, name: RegistrationName) {
        if let Some(address) = self.tended(name) {
            self.look_after(name, &address).await;
        }
    }

    /// One ping, and what follows from it.
    async fn look_after(&self, name: RegistrationName, address: &Address) {
        let answer = match self.ask(address, &Rpc::Ping).await {
            Err(Lost::Busy) => return,
            answered => answered.ok(),
        };
        let pinged = self.core().model.ping(name, &mut Canned::one(answer));
        match pinged {
            Ok(Pinged::Answered) => {}
            Ok(Pinged::Doubted) => {
                self.core().to_introduce.insert(name);
                return;
            }
            Ok(Pinged::Missed) | Err(_) => return,
        }
        let (introduce, invalid, main, db) = {
            let core = self.core();
            let invalid = core
                .model
                .registration(name)
                .is_some_and(|entry| entry.status() == Status::Invalid);
            let introduce = core.to_introduce.contains(&name);
            (introduce, invalid, core.model.main_id(), core.database())
        };
        if introduce && self.ask(address, &Rpc::SystemRecovery { main, db }).await.is_ok() {
            self.core().to_introduce.remove(&name);
        }
        if invalid {
            self.check(name, address, main, db).await;
        }
    }

    async fn check(
        &self,
        name: RegistrationName,
        address: &Address,
        main: sim::memgraph::instance::MainId,
        db: sim::memgraph::instance::DatabaseId,
    ) {
        let heartbeat: Request = Rpc::Heartbeat { main, db };
        let mut answers = VecDeque::from([self.ask(address, &heartbeat).await.ok()]);
        if answers.back() == Some(&Some(Answer::No)) {
            let introduced = self.ask(address, &Rpc::SystemRecovery { main, db }).await.ok();
            answers.push_back(introduced);
            if introduced == Some(Answer::Yes) {
                answers.push_back(self.ask(address, &heartbeat).await.ok());
            }
        }
        // Fails if the status changed meanwhile: then there is nothing to check.
        let _ = self.core().model.check(name, &mut Canned(answers));
    }

    /// Brings a replica that is behind up to date.
    async fn recover(&self, name: RegistrationName, address: &Address) {
        let call = {
            let mut core = self.core();
            let Some(entry) = core.model.registration(name) else {
                return;
            };
            if entry.status() != Status::Recovery {
                return;
            }
            let empty = entry.ts() == Ts::ZERO;
            // A log that begins with a received snapshot does not reach back.
            let received = core.model.snapshot().is_some_and(|snapshot| snapshot.received);
            if core.model.snapshot().is_some() && (empty || received) {
                core.model.clear_for(name)
            } else {
                core.model.log_for(name)
            }
        };
        let Ok(Call { rpc, .. }) = call else { return };
        let pause = Duration::from_millis(self.faults.active().slow_recovery_ms);
        let from_snapshot = matches!(rpc, Rpc::Clear { .. });
        if !from_snapshot {
            sleep(pause).await;
            self.send_files(name, address).await;
            return;
        }
        let cleared = self.ask(address, &rpc).await == Ok(Answer::Yes);
        let status = self.core().model.cleared(name, cleared);
        sleep(pause).await;
        if status == Ok(Status::Recovery) {
            self.send_snapshot(name, address).await;
        }
    }

    async fn send_files(&self, name: RegistrationName, address: &Address) {
        let (call, upto) = {
            let mut core = self.core();
            (core.model.log_for(name), core.model.ldt())
        };
        self.send_recovery(name, address, call, upto).await;
    }

    async fn send_snapshot(&self, name: RegistrationName, address: &Address) {
        let (call, upto) = {
            let mut core = self.core();
            (core.model.snapshot_for(name), core.model.ldt())
        };
        self.send_recovery(name, address, call, upto).await;
    }

    async fn send_recovery(
        &self,
        name: RegistrationName,
        address: &Address,
        call: Result<Call<super::graph::Graph>, sim::memgraph::instance::Error>,
        upto: Ts,
    ) {
        let Ok(Call { rpc, .. }) = call else { return };
        let done = self.ask(address, &rpc).await == Ok(Answer::Yes);
        // Fails if a ping gave up on the replica meanwhile.
        let _ = self.core().model.files_sent(name, upto, done);
    }
}
