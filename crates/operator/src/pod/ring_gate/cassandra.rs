//! Cassandra: its tables are dumped by its own tool, and a start is a configuration file, options of Java, and who may
//! ask the agent in it what.
//!
//! Each start has a configuration of its own name. `mainstay pod ring-seeds` beside the database rewrites the one of the
//! start that it saw finish; the next start is never handed a file that somebody still writes.

use super::files::{entries, io, read, replace};
use super::{GateError, Launch, RingTask, tool, yaml};
use crate::ring::cassandra::JOLOKIA_PORT;
use mainstay_core::ring::gate::Start;
use mainstay_core::ring::ids::{Address, HostId, Location};
use mainstay_core::ring::options;
use mainstay_core::ring::spec::Engine;
use mainstay_core::ring::stamp::Bootstrapped;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// Names the configuration of the last start.
const CURRENT: &str = "config";
/// What the agent lets anybody do.
const POLICY: &str = include_str!("jolokia-access.xml");
/// Keys that would take back what ours say.
const NOT_THEIRS: &[&str] = &[
    "auto_bootstrap",
    "initial_token",
    "listen_interface",
    "listen_on_broadcast_address",
    "rpc_interface",
];

/// How Cassandra is found and started in this image.
#[derive(Clone, Debug)]
pub struct CassandraHome {
    /// `sstabledump`.
    pub dump: PathBuf,
    /// The configuration to begin with, if it is there.
    pub config: PathBuf,
    /// The jar of the agent.
    pub jolokia: PathBuf,
    /// Where it listens: the address of the pod.
    pub listen: IpAddr,
    /// Where it lives.
    pub location: Location,
    /// Options of Java.
    pub java: String,
}

/// What these tables say: the newest word in any of the files. The database writes them out at each step of a start.
pub(super) async fn bootstrapped(
    task: &RingTask,
    home: &CassandraHome,
    files: Vec<PathBuf>,
) -> Result<Bootstrapped, GateError> {
    let scratch = task.state.join("dump");
    fs::create_dir_all(&scratch).map_err(io(&scratch))?;
    let config = scratch.join("cassandra.yaml");
    replace(&config, &for_the_tool(&scratch))?;
    let mut newest = Newest::default();
    for file in files {
        let mut dump = Command::new(&home.dump);
        dump.arg(file)
            .arg("-t")
            .env(
                "JVM_OPTS",
                format!("-Dcassandra.config=file://{}", config.display()),
            )
            .env("cassandra_storagedir", &scratch);
        newest.read(&tool::output(dump, task.patience * 12).await?)?;
    }
    newest.meaning()
}

/// A configuration that the tool accepts. Nothing of it is about the disk that is read.
fn for_the_tool(scratch: &Path) -> String {
    let seeds = options::file(Engine::Cassandra, None, &[Address(IpAddr::from([127, 0, 0, 1]))]);
    let mut keys = folders(scratch);
    keys.extend(seeds);
    for (key, value) in [
        ("cluster_name", "gate"),
        ("partitioner", PARTITIONER),
        ("endpoint_snitch", "SimpleSnitch"),
        ("listen_address", "127.0.0.1"),
        ("commitlog_sync", "periodic"),
        ("commitlog_sync_period", "10s"),
    ] {
        keys.insert(key.to_owned(), value.to_owned());
    }
    yaml::with("", &[], &keys)
}

const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

fn folders(data: &Path) -> BTreeMap<String, String> {
    let below = |name: &str| data.join(name).display().to_string();
    let mut keys: BTreeMap<String, String> = ["commitlog", "hints", "saved_caches", "cdc_raw"]
        .into_iter()
        .map(|name| (format!("{name}_directory"), below(name)))
        .collect();
    keys.insert("data_file_directories".to_owned(), format!("[{}]", below("data")));
    keys
}

/// The newest cells of `system.local`, of all files.
#[derive(Debug, Default)]
pub(super) struct Newest {
    bootstrapped: Option<(i64, Option<String>)>,
    host: Option<(i64, Option<HostId>)>,
}

impl Newest {
    /// Takes what the tool printed of one file.
    pub(super) fn read(&mut self, output: &[u8]) -> Result<(), GateError> {
        #[derive(Deserialize)]
        struct Partition {
            rows: Vec<Row>,
        }
        #[derive(Deserialize)]
        struct Row {
            #[serde(default)]
            liveness_info: Liveness,
            #[serde(default)]
            cells: Vec<Cell>,
        }
        #[derive(Default, Deserialize)]
        struct Liveness {
            tstamp: Option<String>,
        }
        #[derive(Deserialize)]
        struct Cell {
            name: String,
            value: Option<serde_json::Value>,
            tstamp: Option<String>,
        }
        let text = String::from_utf8_lossy(output);
        // A logger may have had its say before.
        let json = text.lines().position(|line| line.trim_end() == "[").map(|at| {
            let lines: Vec<&str> = text.lines().skip(at).collect();
            lines.join("\n")
        });
        let json = json.ok_or_else(|| GateError::Tables("the dump is not what it should be".to_owned()))?;
        let bad = |error: serde_json::Error| GateError::Tables(error.to_string());
        let partitions: Vec<Partition> = serde_json::from_str(&json).map_err(bad)?;
        for row in partitions.into_iter().flat_map(|p| p.rows) {
            for cell in row.cells {
                let at = cell.tstamp.as_ref().or(row.liveness_info.tstamp.as_ref());
                let at = at.and_then(|text| text.parse().ok()).unwrap_or(0);
                let word = cell.value.as_ref().and_then(serde_json::Value::as_str);
                match cell.name.as_str() {
                    "bootstrapped" => take(&mut self.bootstrapped, at, word.map(str::to_owned)),
                    "host_id" => take(&mut self.host, at, word.and_then(|text| text.parse().ok())),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    pub(super) fn meaning(self) -> Result<Bootstrapped, GateError> {
        let word = self.bootstrapped.and_then(|(_, word)| word);
        super::meant(word.as_deref(), self.host.and_then(|(_, host)| host))
    }
}

fn take<T>(newest: &mut Option<(i64, T)>, at: i64, value: T) {
    if newest.as_ref().is_none_or(|(known, _)| *known <= at) {
        *newest = Some((at, value));
    }
}

/// Writes the files of this start, and says how Java is called.
pub(super) fn launch(
    task: &RingTask,
    home: &CassandraHome,
    start: &Start,
    address: Address,
    number: u64,
) -> Result<Launch, GateError> {
    let (program, given) = task.command.split_first().ok_or(GateError::NoProgram)?;
    let state = &task.state;
    for old in entries(state).map_err(io(state))? {
        let name = old.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("cassandra-") {
            fs::remove_file(&old).map_err(io(&old))?;
        }
    }
    let name = format!("cassandra-{number:x}.yaml");
    let config = state.join(&name);
    let rack = state.join("cassandra-rackdc.properties");
    let policy = state.join("jolokia-access.xml");
    let base = read(&home.config)?.unwrap_or_default();
    replace(&config, &configuration(task, home, start, address, &base))?;
    let Location { dc, rack: in_rack } = &home.location;
    replace(&rack, &format!("dc={dc}\nrack={in_rack}\n"))?;
    replace(&policy, POLICY)?;
    replace(&state.join(CURRENT), &name)?;
    let mut args = given.to_vec();
    args.push(format!("-Dcassandra.config=file://{}", config.display()));
    args.push(format!("-Dcassandra-rackdc.properties=file://{}", rack.display()));
    args.push(format!("-Dcassandra.storagedir={}", task.data.display()));
    args.extend(options::arguments(
        Engine::Cassandra,
        start.replaces,
        &start.seeds,
    ));
    let agent = format!(
        "-javaagent:{}=host={},port={JOLOKIA_PORT},discoveryEnabled=false,policyLocation=file://{}",
        home.jolokia.display(),
        home.listen,
        policy.display()
    );
    let java = format!("{} {agent}", without_replace(&home.java));
    Ok(Launch {
        program: program.clone(),
        args,
        env: vec![("JVM_EXTRA_OPTS".to_owned(), java.trim_start().to_owned())],
    })
}

/// The record's option wins over one that is there already, and what makes the database skip its own checks is not
/// passed on.
pub(super) fn without_replace(java: &str) -> String {
    let theirs = |word: &&str| {
        !word.starts_with("-Dcassandra.replace_") && !word.starts_with("-Dcassandra.allow_unsafe_")
    };
    java.split_whitespace()
        .filter(theirs)
        .collect::<Vec<_>>()
        .join(" ")
}

pub(super) fn configuration(
    task: &RingTask,
    home: &CassandraHome,
    start: &Start,
    address: Address,
    base: &str,
) -> String {
    let mut keys = folders(&task.data);
    keys.extend(options::file(Engine::Cassandra, start.replaces, &start.seeds));
    for (key, value) in [
        ("cluster_name", format!("'{}'", task.cluster)),
        ("endpoint_snitch", "GossipingPropertyFileSnitch".to_owned()),
        ("listen_address", home.listen.to_string()),
        ("broadcast_address", address.to_string()),
        ("rpc_address", home.listen.to_string()),
        ("broadcast_rpc_address", address.to_string()),
        ("storage_port", "7000".to_owned()),
        ("native_transport_port", "9042".to_owned()),
    ] {
        keys.insert(key.to_owned(), value);
    }
    // Without a word about it, a broken disk is ignored.
    for (key, value) in [
        ("disk_failure_policy", "stop"),
        ("partitioner", PARTITIONER),
        ("commitlog_sync", "periodic"),
    ] {
        if !yaml::has(base, key) {
            keys.insert(key.to_owned(), value.to_owned());
        }
    }
    if !yaml::has(base, "commitlog_sync_period") && !yaml::has(base, "commitlog_sync") {
        keys.insert("commitlog_sync_period".to_owned(), "10s".to_owned());
    }
    yaml::with(base, NOT_THEIRS, &keys)
}

/// The configuration of the start that is under way, or has ended.
pub(in crate::pod) fn current(state: &Path) -> Result<Option<PathBuf>, GateError> {
    Ok(read(&state.join(CURRENT))?.map(|name| state.join(name)))
}

/// Puts other seeds into a configuration; `true` if there were others in it.
pub(in crate::pod) fn reseed(config: &Path, seeds: &[Address]) -> Result<bool, GateError> {
    let Some(text) = read(config)? else {
        return Ok(false);
    };
    let next = yaml::with(&text, &[], &options::file(Engine::Cassandra, None, seeds));
    if next == text {
        return Ok(false);
    }
    replace(config, &next)?;
    Ok(true)
}
