//! ScyllaDB: its own tool answers a query of its tables, and everything of a start is on the command line.

use super::tool;
use super::{GateError, Launch, RingTask};
use mainstay_core::ring::gate::Start;
use mainstay_core::ring::ids::{Address, HostId};
use mainstay_core::ring::options;
use mainstay_core::ring::stamp::Bootstrapped;
use serde::Deserialize;
use std::path::PathBuf;
use tokio::process::Command;

/// What these tables say.
pub(super) async fn bootstrapped(task: &RingTask, files: Vec<PathBuf>) -> Result<Bootstrapped, GateError> {
    let program = task.command.first().ok_or(GateError::NoProgram)?;
    let mut query = Command::new(program);
    query
        .args([
            "sstable",
            "query",
            "--system-schema",
            "--keyspace=system",
            "--table=local",
        ])
        .arg("--output-format=json")
        .arg(format!("--scylla-data-dir={}", task.data.join("data").display()))
        .arg("--query=SELECT bootstrapped, host_id FROM scylla_sstable.local")
        .args(files);
    tables(&tool::output(query, task.patience * 12).await?)
}

/// Reads what `sstable query` printed.
pub(super) fn tables(output: &[u8]) -> Result<Bootstrapped, GateError> {
    #[derive(Deserialize)]
    struct Row {
        bootstrapped: Option<String>,
        host_id: Option<HostId>,
    }
    let bad = |error: serde_json::Error| GateError::Tables(error.to_string());
    let rows: Vec<Row> = serde_json::from_slice(output).map_err(bad)?;
    let Some(row) = rows.into_iter().next() else {
        return Ok(Bootstrapped::Never);
    };
    super::meant(row.bootstrapped.as_deref(), row.host_id)
}

/// The command line of this start.
pub(super) fn launch(task: &RingTask, start: &Start, address: Address) -> Result<Launch, GateError> {
    let (program, given) = task.command.split_first().ok_or(GateError::NoProgram)?;
    let mut args = without_replace(given);
    args.push(format!("--broadcast-address={address}"));
    args.push(format!("--broadcast-rpc-address={address}"));
    args.extend(options::arguments(
        task.database.engine(),
        start.replaces,
        &start.seeds,
    ));
    Ok(Launch {
        program: program.clone(),
        args,
        env: Vec::new(),
    })
}

/// The record's option wins over one that is there already.
pub(super) fn without_replace(given: &[String]) -> Vec<String> {
    let ours = |word: &&String| {
        let name = word.split('=').next().unwrap_or_default().replace('_', "-");
        !name.starts_with("--replace-")
    };
    given.iter().filter(ours).cloned().collect()
}
