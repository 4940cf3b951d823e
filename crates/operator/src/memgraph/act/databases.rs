//! Commands to databases: a connection of its own for each, and only to the process that is meant (R36).

use super::Actor;
use super::outcome::{Command, Verdict, verdict};
use crate::bolt::Connection;
use crate::clock::wall;
use crate::memgraph::database::{self, PROMOTE};
use bolt::client::QueryResult;
use bolt::message::Run;
use mainstay_core::memgraph::ids::{ProofId, RegistrationName, Term};
use mainstay_core::memgraph::objects::BOLT_PORT;
use mainstay_core::memgraph::observed::{Mode, Refusal, Role};
use mainstay_core::memgraph::plan::Target;
use mainstay_core::memgraph::turn::Outcome;
use std::net::SocketAddr;

impl Actor<'_> {
    /// A fresh connection to the very process that is meant, or the outcome of not having one: nothing was sent.
    pub(super) async fn reach(&self, target: Target) -> Result<Connection, Outcome> {
        let settings = &self.cluster.settings;
        let ip = self
            .look
            .workload
            .pod(target.pod)
            .and_then(|pod| pod.ip)
            .ok_or(Outcome::Refused)?;
        let dial = self.cluster.dial(settings.probe);
        let opened = Connection::open(SocketAddr::new(ip, BOLT_PORT), &dial).await;
        let mut connection = opened.map_err(|error| {
            tracing::info!(pod = %target.pod, %error, "not reached");
            Outcome::Refused
        })?;
        let (_, run) = database::role(&mut connection, settings.probe)
            .await
            .map_err(|_| Outcome::Refused)?;
        if self.remembered.processes.by_run(&run) == Some(target.process) {
            Ok(connection)
        } else {
            tracing::info!(pod = %target.pod, "another process answers than the one that is meant");
            Err(Outcome::Refused)
        }
    }

    /// Sends a query to the process that is meant.
    async fn send(&self, target: Target, run: &Run<'_>, command: Command) -> Result<QueryResult, Reply> {
        let mut connection = self.reach(target).await.map_err(Reply::Over)?;
        match connection.run(run, self.cluster.settings.command).await {
            Ok(result) => Ok(result),
            Err(error) => {
                tracing::info!(pod = %target.pod, query = %run.query, %error, "refused or not answered");
                match verdict(command, &error) {
                    Verdict::Is(outcome) => Err(Reply::Over(outcome)),
                    open => Err(Reply::Open(open, Box::new(connection))),
                }
            }
        }
    }

    pub(super) async fn demote(&self, target: Target) -> Outcome {
        let query = database::demote(self.cluster.settings.ports.of(target.pod));
        match self.send(target, &Run::new(query), Command::Demote).await {
            Ok(_) => Outcome::Done,
            Err(Reply::Over(outcome)) => outcome,
            Err(Reply::Open(_, mut connection)) => {
                let look = database::role(&mut connection, self.cluster.settings.probe);
                match self.one_of("see whether it is demoted", look).await {
                    Ok((Role::Replica, _)) => Outcome::Done,
                    Ok((Role::Main, _)) => Outcome::Refused,
                    Err(_) => Outcome::Unknown,
                }
            }
        }
    }

    pub(super) async fn promote(&self, target: Target) -> Outcome {
        simple(self.send(target, &Run::new(PROMOTE), Command::Other).await)
    }

    /// One row, or it does not count: the mark is compared inside the database (R31).
    pub(super) async fn advance_mark(&self, on: Target, from: Option<Term>, to: Term) -> Outcome {
        let Ok(new) = i64::try_from(to.0) else {
            return Outcome::Refused;
        };
        let run = match from.map(|term| i64::try_from(term.0)) {
            None => Run::new(
                "MERGE (m:__mainstay) ON CREATE SET m.term = $new, m.proof = 0 RETURN m.term AS term",
            ),
            Some(Ok(old)) if old == new => {
                Run::new("MATCH (m:__mainstay {term: $new}) RETURN m.term AS term")
            }
            Some(Ok(old)) => {
                Run::new("MATCH (m:__mainstay {term: $old}) SET m.term = $new RETURN m.term AS term")
                    .with("old", old)
            }
            Some(Err(_)) => return Outcome::Refused,
        };
        let result = match self.send(on, &run.with("new", new), Command::Other).await {
            Ok(result) => result,
            Err(reply) => return reply.outcome(),
        };
        if database::number(&result) == Some(new) {
            return Outcome::Done;
        }
        // An earlier try may have written it: that is as good.
        let again = Run::new("MATCH (m:__mainstay) RETURN m.term AS term");
        let read = self.send(on, &again, Command::Other);
        match self.one_of("see which mark is there", read).await {
            Ok(result) if database::number(&result) == Some(new) => Outcome::Done,
            Ok(_) => Outcome::Refused,
            Err(reply) => reply.outcome(),
        }
    }

    pub(super) async fn write_proof(&self, on: Target, proof: ProofId) -> Outcome {
        let Ok(id) = i64::try_from(proof.0) else {
            return Outcome::Refused;
        };
        let run = Run::new("MATCH (m:__mainstay) SET m.proof = $id RETURN m.proof AS proof").with("id", id);
        only_row(self.send(on, &run, Command::Other).await, id)
    }

    pub(super) async fn read_proof(&self, on: Target, proof: ProofId) -> Outcome {
        let Ok(id) = i64::try_from(proof.0) else {
            return Outcome::Refused;
        };
        let run = Run::new("MATCH (m:__mainstay) RETURN m.proof AS proof");
        only_row(self.send(on, &run, Command::Other).await, id)
    }

    pub(super) async fn register(
        &mut self,
        on: Target,
        name: RegistrationName,
        mode: Mode,
        peer: Target,
    ) -> Outcome {
        let ip = self
            .look
            .workload
            .pod(peer.pod)
            .and_then(|pod| pod.ip)
            .map(|ip| ip.to_string());
        let Some(address) = self.cluster.replica_address(peer.pod, ip.as_deref()) else {
            return Outcome::Refused;
        };
        let mode = match mode {
            Mode::Async => "ASYNC",
            Mode::Sync => "SYNC",
            Mode::StrictSync => "STRICT_SYNC",
        };
        let shown = self.cluster.registration(name);
        let query = format!("REGISTER REPLICA {shown} {mode} TO \"{address}\"");
        let (code, mut connection) = match self.send(on, &Run::new(query), Command::Register).await {
            Ok(_) => return Outcome::Done,
            Err(Reply::Over(outcome)) => return outcome,
            Err(Reply::Open(Verdict::IfListed { code }, connection)) => (code, connection),
            Err(Reply::Open(..)) => return Outcome::Refused,
        };
        if code == 3 {
            let pod_name = self.cluster.name.pod(peer.pod);
            tracing::warn!(pod_name, replica_name = shown, %address, sync_mode = mode, "Failed to register replication - diverged data");
            self.remember_refusal(on, peer, code);
        }
        let prefix = self.cluster.prefix();
        let look = database::replicas(&mut connection, &prefix, self.cluster.settings.probe);
        match self.one_of("see what a refused registration left", look).await {
            Ok(rows) if rows.iter().any(|row| row.name == name) => Outcome::Spoiled,
            Ok(_) => Outcome::Refused,
            // Whether it left something is not known. To undo it blindly could drop what another turn registered
            // meanwhile and protects MAIN; the next turn looks.
            Err(_) => Outcome::Unknown,
        }
    }

    fn remember_refusal(&mut self, on: Target, peer: Target, code: u8) {
        let term = self
            .look
            .stored
            .document
            .as_ref()
            .map_or(Term(0), |document| document.record.term);
        let memory = self.remembered.contacts.pods.entry(peer.pod).or_default();
        memory.refusal = Some(Refusal {
            at: wall(),
            by: on.process,
            of: peer.process,
            code,
            term,
        });
    }

    pub(super) async fn drop_replica(&self, on: Target, name: RegistrationName) -> Outcome {
        let query = format!("DROP REPLICA {}", self.cluster.registration(name));
        simple(self.send(on, &Run::new(query), Command::Other).await)
    }
}

/// An answer that is no result.
enum Reply {
    /// This is what came of it.
    Over(Outcome),
    /// It has to be looked at, on the same connection.
    Open(Verdict, Box<Connection>),
}

impl Reply {
    fn outcome(self) -> Outcome {
        match self {
            Self::Over(outcome) => outcome,
            Self::Open(..) => Outcome::Refused,
        }
    }
}

fn simple(sent: Result<QueryResult, Reply>) -> Outcome {
    match sent {
        Ok(_) => Outcome::Done,
        Err(reply) => reply.outcome(),
    }
}

fn only_row(sent: Result<QueryResult, Reply>, wanted: i64) -> Outcome {
    match sent {
        Ok(result) if database::number(&result) == Some(wanted) => Outcome::Done,
        Ok(_) => Outcome::Refused,
        Err(reply) => reply.outcome(),
    }
}
