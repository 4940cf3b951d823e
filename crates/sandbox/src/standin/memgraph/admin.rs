//! The admin port: one JSON object per line in, one per line out.

use super::clock::uuid_of;
use super::faults::Fault;
use super::node::Node;
use serde::Deserialize;
use serde_json::{Value, json};
use sim::memgraph::instance::Role;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

#[derive(Deserialize)]
#[serde(untagged)]
enum Command {
    Fault(Fault),
    Dump { dump: bool },
}

pub(super) async fn serve(node: Arc<Node>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(connection(Arc::clone(&node), stream));
                }
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn connection(node: Arc<Node>, stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await.is_ok_and(|length| length > 0) {
        let answer = match serde_json::from_str(line.trim()) {
            Ok(Command::Dump { dump: true }) => dump(&node),
            Ok(Command::Dump { dump: false }) => json!({ "ok": true }),
            Ok(Command::Fault(fault)) => match inject(&node, &fault) {
                Ok(()) => json!({ "ok": true }),
                Err(error) => json!({ "ok": false, "error": error }),
            },
            Err(error) => json!({ "ok": false, "error": error.to_string() }),
        };
        line.clear();
        if stream.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

pub(super) fn inject(node: &Arc<Node>, fault: &Fault) -> Result<(), String> {
    if node.faults.note(fault) {
        return Ok(());
    }
    match fault {
        Fault::LoseTail => node
            .core()
            .disk
            .log
            .lose_tail()
            .map_err(|error| error.to_string()),
        Fault::CorruptWal => node.core().disk.log.corrupt().map_err(|error| error.to_string()),
        Fault::HangEngine { ms } => {
            let ms = *ms;
            let engine = Arc::clone(node);
            node.spawn(async move {
                let _engine = engine.engine.lock().await;
                sleep(Duration::from_millis(ms)).await;
            });
            Ok(())
        }
        Fault::Freeze => {
            let frozen = Arc::clone(node);
            node.spawn(async move { frozen.freeze().await });
            Ok(())
        }
        _ => Err("not a fault that can be injected".to_owned()),
    }
}

pub(super) fn dump(node: &Node) -> Value {
    let core = node.core();
    let lineage = core.model.lineage();
    let replicas: Vec<Value> = core
        .model
        .registrations()
        .iter()
        .map(|entry| {
            json!({
                "name": core.name(entry.name()),
                "address": core.address(entry.peer()).map(|address| address.to_string()),
                "mode": entry.mode(),
                "attached": entry.is_attached(),
                "status": format!("{:?}", entry.status()),
                "ts": entry.ts(),
            })
        })
        .collect();
    json!({
        "role": match core.model.role() { Role::Main => "main", Role::Replica => "replica" },
        "main_id": core.model.main_id(),
        "database_uuid": uuid_of(core.database().0),
        "epoch": lineage.epoch,
        "history": lineage.history,
        "runs": lineage.runs,
        "ldt": lineage.ldt,
        "prepared": core.model.is_prepared(),
        "vertices": core.model.store().0.vertices.len(),
        "replicas": replicas,
        "users": core.users.keys().collect::<Vec<_>>(),
        "run_id": node.run_id,
    })
}
