//! ScyllaDB: its own tool answers a query of its tables, and everything of a start is on the command line, but where the
//! node lives: that it reads from a file.

use super::files::{entries, io, replace};
use super::tool;
use super::{GateError, Launch, RingTask};
use mainstay_core::ring::gate::Start;
use mainstay_core::ring::ids::{Address, HostId, Location};
use mainstay_core::ring::options;
use mainstay_core::ring::spec::ScyllaVersion;
use mainstay_core::ring::stamp::Bootstrapped;
use serde::Deserialize;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
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

/// How ScyllaDB is found and started in this image.
#[derive(Clone, Debug)]
pub struct ScyllaHome {
    /// Which version.
    pub version: ScyllaVersion,
    /// The folder of its configuration, if it is there.
    pub config: PathBuf,
    /// Where it lives.
    pub location: Location,
}

/// In which file `GossipingPropertyFileSnitch` reads where a node lives.
const PLACE: &str = "cassandra-rackdc.properties";
/// How a node knows where it lives. Without a word about it, every node is in datacenter1 and rack1.
const SNITCH: &str = "GossipingPropertyFileSnitch";

/// Writes where this node lives, and says how it is called.
pub(super) fn launch(
    task: &RingTask,
    home: &ScyllaHome,
    start: &Start,
    address: Address,
) -> Result<Launch, GateError> {
    let (program, given) = task.command.split_first().ok_or(GateError::NoProgram)?;
    let config = configuration(task, home)?;
    let mut args = without_ours(given);
    args.push(format!("--endpoint-snitch={SNITCH}"));
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
        env: vec![("SCYLLA_CONF".to_owned(), config.display().to_string())],
    })
}

/// A folder of configuration of our own: everything that the image has in its own one, by links, and where this node
/// lives. The database finds that file by the folder's name only, and the image's folder need not be writable.
fn configuration(task: &RingTask, home: &ScyllaHome) -> Result<PathBuf, GateError> {
    let folder = task.state.join("scylla-conf");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(&folder)(error)),
        Ok(()) | Err(_) => {}
    }
    fs::create_dir_all(&folder).map_err(io(&folder))?;
    for theirs in entries(&home.config).map_err(io(&home.config))? {
        let Some(name) = theirs.file_name().filter(|name| *name != PLACE) else {
            continue;
        };
        let link = folder.join(name);
        symlink(&theirs, &link).map_err(io(&link))?;
    }
    let Location { dc, rack } = &home.location;
    replace(&folder.join(PLACE), &format!("dc={dc}\nrack={rack}\n"))?;
    Ok(folder)
}

/// Whom it replaces is said by the record, and where it lives by the ring: both win over what is there already, with its
/// value in the same word or in the next.
pub(super) fn without_ours(given: &[String]) -> Vec<String> {
    let mut left = Vec::new();
    let mut words = given.iter().peekable();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or_default().replace('_', "-");
        if !name.starts_with("--replace-") && name != "--endpoint-snitch" {
            left.push(word.clone());
        } else if !word.contains('=') {
            words.next_if(|next| !next.starts_with("--"));
        }
    }
    left
}
