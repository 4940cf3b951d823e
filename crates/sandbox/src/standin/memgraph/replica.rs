//! The replica's side: a port, and answers by the model.

use super::disk::DiskError;
use super::faults::CrashPoint;
use super::graph::Change;
use super::node::{Core, Node};
use super::wire::{self, Request};
use sim::memgraph::instance::{Answer, DatabaseId, MainId, Profile, Rpc, Snapshot, Ts};
use std::sync::Weak;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// What is to be written after an answer.
#[derive(Clone, Copy)]
enum Effect {
    Nothing,
    Commit,
    Cleared,
    Loaded,
}

/// Answers until it is aborted, and every connection with it: after a
/// promotion nothing of the old MAIN may come in.
pub(super) async fn serve(node: Weak<Node>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let _ = stream.set_nodelay(true);
                connections.spawn(connection(Weak::clone(&node), stream));
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn connection(node: Weak<Node>, mut stream: TcpStream) {
    let mut spoke = false;
    while let Ok(request) = wire::receive::<Request>(&mut stream).await {
        let Some(node) = node.upgrade() else { return };
        spoke = true;
        let answer = node.answer(request).await;
        if wire::send(&mut stream, &answer).await.is_err() {
            break;
        }
    }
    // Somebody who only looked whether the port is open is not a MAIN that went away.
    if spoke && let Some(node) = node.upgrade() {
        let mut core = node.core();
        core.model.connection_lost();
        if !core.model.is_prepared() {
            core.prepared = None;
        }
    }
}

impl Node {
    async fn answer(&self, request: Request) -> Answer {
        let definition = matches!(&request, Rpc::Prepare { transaction, .. }
            if transaction.delta.iter().any(Change::is_definition));
        // Older releases answer nothing at all meanwhile, not even a ping.
        let _applying = match self.config.profile {
            Profile::V3_6 | Profile::V3_9 => Some(self.applying.lock().await),
            Profile::V3_12 | Profile::Next => None,
        };
        if definition {
            let _engine = match self.config.profile {
                Profile::V3_6 | Profile::V3_9 => Some(self.engine.lock().await),
                Profile::V3_12 | Profile::Next => None,
            };
            self.wait_for_readers().await;
        }
        let (answer, written) = self.core().serve(request);
        let point = match written {
            Ok(point) => point,
            Err(error) => {
                self.written(Err(error)).await;
                return answer;
            }
        };
        if let Some(point) = point {
            self.crash_point(point).await;
        }
        answer
    }

    /// A change of the schema needs the storage for itself. MAIN gives up first.
    async fn wait_for_readers(&self) {
        while self.core().open_transactions > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Core {
    /// The model's answer, and what it means for the disk.
    fn serve(&mut self, request: Request) -> (Answer, Result<Option<CrashPoint>, DiskError>) {
        let before = (self.model.ldt(), self.database(), self.model.main_id());
        let (mut point, mut snapshot) = (None, None);
        let effect = match &request {
            Rpc::Prepare {
                transaction,
                two_phase,
                ..
            } => {
                self.prepared = Some(transaction.clone());
                point = Some(CrashPoint::ReplicaAfterPrepare);
                if *two_phase {
                    Effect::Nothing
                } else {
                    Effect::Commit
                }
            }
            Rpc::Finalize { .. } => {
                point = Some(CrashPoint::ReplicaAfterFinalize);
                Effect::Commit
            }
            Rpc::Clear { .. } => {
                point = Some(CrashPoint::DuringRecoveryClear);
                Effect::Cleared
            }
            Rpc::Files { files, .. } => {
                snapshot.clone_from(&files.snapshot);
                Effect::Loaded
            }
            Rpc::Ping | Rpc::SwapMain { .. } | Rpc::SystemRecovery { .. } | Rpc::Heartbeat { .. } => {
                Effect::Nothing
            }
        };
        let introduced =
            matches!(&request, Rpc::SystemRecovery { main, .. } if *main == self.model.main_id());
        let answer = self.model.serve(request);
        let written = self.write_effect(effect, answer, before.0, snapshot.as_ref());
        let written = written.and_then(|()| self.write_identity(before.1, before.2, introduced));
        (answer, written.map(|()| point))
    }

    fn write_effect(
        &mut self,
        effect: Effect,
        answer: Answer,
        ldt_before: Ts,
        snapshot: Option<&Snapshot>,
    ) -> Result<(), DiskError> {
        match effect {
            Effect::Nothing => Ok(()),
            Effect::Commit => {
                if self.model.ldt() > ldt_before
                    && let Some(committed) = self.prepared.take()
                {
                    self.disk.log.append(&committed)?;
                }
                Ok(())
            }
            Effect::Cleared | Effect::Loaded if answer != Answer::Yes => Ok(()),
            Effect::Cleared => {
                self.disk.clear_snapshots()?;
                self.disk.log.replace(&self.state())
            }
            Effect::Loaded => {
                if let Some(snapshot) = snapshot {
                    self.save_received(snapshot)?;
                }
                self.disk.log.replace(&self.state())
            }
        }
    }

    /// Main id, database id and users, if they changed.
    fn write_identity(
        &mut self,
        database: DatabaseId,
        main: MainId,
        introduced: bool,
    ) -> Result<(), DiskError> {
        if self.database() != database {
            self.disk.save_database(self.database())?;
        }
        if self.model.main_id() != main {
            self.save_replication()?;
        }
        // Without a licence MAIN sends an empty list of users, and it is obeyed.
        if introduced && !self.users.is_empty() {
            self.users.clear();
            self.disk.save_users(&self.users)?;
        }
        Ok(())
    }
}
