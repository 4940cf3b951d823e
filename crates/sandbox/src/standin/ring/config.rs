//! How it is started: the command line with dashes, the file with underscores, as the version obeys them.

use mainstay_core::ring::ids::{Address, Location};
use mainstay_core::ring::record::Replaces;
use sim::ring::model::Profile;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// A command line that the real program refuses.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// Not an option of this version.
    #[error("Bad configuration: unrecognised option '{0}'")]
    Unknown(String),
    /// An option without its value, or a value that cannot be one.
    #[error("Bad configuration: the argument ('{value}') for option '{option}' is invalid")]
    Value {
        /// Which.
        option: String,
        /// What was given.
        value: String,
    },
    /// The file cannot be read.
    #[error("Bad configuration: {path} cannot be read: {source}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// Needed, and not given.
    #[error("standin: {0} is needed")]
    Missing(&'static str),
}

/// How a stand-in runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which version.
    pub profile: Profile,
    /// The data folder.
    pub workdir: PathBuf,
    /// Where gossip is heard.
    pub listen: SocketAddr,
    /// Under which address the others know it.
    pub broadcast: Address,
    /// Where REST is served.
    pub api: SocketAddr,
    /// Where clients are let in, once it is a member: nothing is said there.
    pub native: SocketAddr,
    /// Where faults are ordered.
    pub admin: Option<SocketAddr>,
    /// Its seeds.
    pub seeds: Vec<Address>,
    /// Whom it replaces, if it is not bootstrapped.
    pub replaces: Option<Replaces>,
    /// `replace_address`: fatal on a bootstrapped disk.
    pub replace_always: bool,
    /// Where it lives.
    pub location: Location,
    /// How often each row is kept.
    pub copies: u32,
    /// So many seconds of the database in one of the clock.
    pub time_scale: u32,
    /// How long a start streams, in time of the database.
    pub stream: Duration,
}

/// The options that are known, as on the command line. What is not ours is accepted and ignored, as long as a real
/// server knows it.
const KNOWN: &[&str] = &[
    "workdir",
    "listen-address",
    "broadcast-address",
    "broadcast-rpc-address",
    "rpc-address",
    "api-address",
    "api-port",
    "native-transport-port",
    "storage-port",
    "seeds",
    "seed-provider-parameters",
    "seed-provider",
    "replace-node-first-boot",
    "replace-address-first-boot",
    "replace-address",
    "ignore-dead-nodes-for-replace",
    "options-file",
    "cluster-name",
    "endpoint-snitch",
    "ring-delay-ms",
    "developer-mode",
    "overprovisioned",
    "smp",
    "memory",
    // Ours.
    "profile",
    "time-scale",
    "copies",
    "stream-seconds",
    "admin-port",
];

impl Config {
    /// Reads a command line; `conf` is the folder of its configuration (`SCYLLA_CONF`). The second part are warnings that a
    /// real server prints.
    pub fn read(
        args: impl IntoIterator<Item = String>,
        conf: Option<&str>,
        open: impl Fn(&str) -> io::Result<String>,
    ) -> Result<(Self, Vec<String>), ConfigError> {
        let mut given = arguments(args)?;
        let profile = match given.get("profile").map(String::as_str) {
            None | Some("raft-2025") => Profile::Raft2025,
            Some("raft-2026.2") => Profile::Raft2026,
            Some("gossip-5.2") => Profile::Gossip52,
            Some("gossip-4.x") => Profile::Gossip4,
            Some(other) => return Err(invalid("profile", other)),
        };
        let by_host = |key: &str| key == "replace-node-first-boot" && profile == Profile::Gossip4;
        if let Some(key) = given.keys().find(|key| by_host(key)) {
            return Err(ConfigError::Unknown(format!("--{key}")));
        }
        let mut warnings = Vec::new();
        if let Some(path) = given.get("options-file").cloned() {
            let text = open(&path).map_err(|source| ConfigError::File { path, source })?;
            for (key, value) in file(&text) {
                // In the file a key has underscores; one with dashes is unknown, and only warned of.
                let dashed = key.replace('_', "-");
                if key.contains('-') || !KNOWN.contains(&dashed.as_str()) || by_host(&dashed) {
                    warnings.push(format!("Unknown option : {key}"));
                } else {
                    given.entry(dashed).or_insert(value);
                }
            }
        }
        let location = location(given.get("endpoint-snitch").map(String::as_str), conf, open)?;
        Ok((Self::from(profile, location, &given)?, warnings))
    }

    fn from(
        profile: Profile,
        location: Location,
        given: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigError> {
        let text = |key: &str| given.get(key).map(String::as_str);
        let listen: IpAddr = parsed("listen-address", text("listen-address").unwrap_or("127.0.0.1"))?;
        let api: IpAddr = parsed("api-address", text("api-address").unwrap_or("127.0.0.1"))?;
        let storage: u16 = parsed("storage-port", text("storage-port").unwrap_or("7000"))?;
        let port: u16 = parsed("api-port", text("api-port").unwrap_or("10000"))?;
        let native: IpAddr = parsed("rpc-address", text("rpc-address").unwrap_or("127.0.0.1"))?;
        let native_port: u16 = parsed(
            "native-transport-port",
            text("native-transport-port").unwrap_or("9042"),
        )?;
        let broadcast = match text("broadcast-address") {
            Some(given) => parsed("broadcast-address", given)?,
            None => Address(listen),
        };
        let admin = match text("admin-port") {
            Some(port) => Some(SocketAddr::new(api, parsed("admin-port", port)?)),
            None => None,
        };
        let seeds = match (
            text("seeds"),
            text("seed-provider-parameters"),
            text("seed-provider"),
        ) {
            (Some(list), _, _) => addresses(list)?,
            (None, Some(parameters), _) => addresses(parameters.trim_start_matches("seeds="))?,
            (None, None, Some(provider)) => addresses(quoted(provider).unwrap_or_default())?,
            (None, None, None) => Vec::new(),
        };
        // If both are given, the host id wins.
        let replaces = match (
            text("replace-node-first-boot"),
            text("replace-address-first-boot").or_else(|| text("replace-address")),
        ) {
            (Some(host), _) => Some(Replaces::Host(parsed("replace-node-first-boot", host)?)),
            (None, Some(address)) => Some(Replaces::Address(parsed("replace-address-first-boot", address)?)),
            (None, None) => None,
        };
        let scale: u32 = parsed("time-scale", text("time-scale").unwrap_or("1"))?;
        let stream: u64 = parsed("stream-seconds", text("stream-seconds").unwrap_or("5"))?;
        Ok(Self {
            profile,
            workdir: text("workdir").ok_or(ConfigError::Missing("--workdir"))?.into(),
            listen: SocketAddr::new(listen, storage),
            broadcast,
            api: SocketAddr::new(api, port),
            native: SocketAddr::new(native, native_port),
            admin,
            seeds,
            replaces,
            replace_always: text("replace-address").is_some(),
            location,
            copies: parsed("copies", text("copies").unwrap_or("3"))?,
            time_scale: scale.max(1),
            stream: Duration::from_secs(stream),
        })
    }
}

/// Where it lives, as its snitch says: by a file, or datacenter1 and rack1 for everybody.
fn location(
    snitch: Option<&str>,
    conf: Option<&str>,
    open: impl Fn(&str) -> io::Result<String>,
) -> Result<Location, ConfigError> {
    let (mut dc, mut rack) = ("datacenter1".to_owned(), "rack1".to_owned());
    match snitch {
        None | Some("SimpleSnitch") => {}
        Some("GossipingPropertyFileSnitch") => {
            let path = format!("{}/cassandra-rackdc.properties", conf.unwrap_or("conf"));
            let text = open(&path).map_err(|source| ConfigError::File { path, source })?;
            for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
                match key.trim() {
                    "dc" => value.trim().clone_into(&mut dc),
                    "rack" => value.trim().clone_into(&mut rack),
                    _ => {}
                }
            }
        }
        Some(other) => return Err(invalid("endpoint-snitch", other)),
    }
    Ok(Location {
        dc: parsed("dc", &dc)?,
        rack: parsed("rack", &rack)?,
    })
}

fn invalid(option: &str, value: &str) -> ConfigError {
    ConfigError::Value {
        option: option.to_owned(),
        value: value.to_owned(),
    }
}

fn parsed<T: std::str::FromStr>(option: &str, value: &str) -> Result<T, ConfigError> {
    value.parse().map_err(|_| invalid(option, value))
}

fn addresses(list: &str) -> Result<Vec<Address>, ConfigError> {
    let given = list.split(',').map(str::trim).filter(|text| !text.is_empty());
    given.map(|text| parsed("seeds", text)).collect()
}

/// What stands between the first quotes.
fn quoted(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('"')?;
    rest.split_once('"').map(|(inside, _)| inside)
}

/// `--key=value` and `--key value`; a flag without a value is `true`.
fn arguments(args: impl IntoIterator<Item = String>) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut given = BTreeMap::new();
    let mut args = args.into_iter().peekable();
    while let Some(word) = args.next() {
        let name = word
            .strip_prefix("--")
            .ok_or_else(|| ConfigError::Unknown(word.clone()))?;
        let (key, value) = if let Some((key, value)) = name.split_once('=') {
            (key.to_owned(), value.to_owned())
        } else {
            let value = args.next_if(|next| !next.starts_with("--"));
            (name.to_owned(), value.unwrap_or_else(|| "true".to_owned()))
        };
        if !KNOWN.contains(&key.as_str()) {
            return Err(ConfigError::Unknown(format!("--{key}")));
        }
        given.insert(key, value);
    }
    Ok(given)
}

/// The top-level keys of a configuration file.
fn file(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| !line.starts_with([' ', '#', '-']));
    let pairs = lines.filter_map(|line| line.split_once(':'));
    pairs
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::ring::options;
    use mainstay_core::ring::spec::Engine;

    fn read(args: &[&str], file: &str) -> Result<(Config, Vec<String>), ConfigError> {
        let args = ["--workdir=/w"].iter().chain(args).map(|a| (*a).to_owned());
        Config::read(args, None, |_| Ok(file.to_owned()))
    }

    #[test]
    fn d3_a_dashed_key_in_the_file_is_unknown_and_replaces_nobody() {
        let text = "replace-address-first-boot: 10.0.0.7\ncluster_name: ring\n";
        let (config, warnings) = read(&["--options-file=f"], text).unwrap();
        assert_eq!(warnings, ["Unknown option : replace-address-first-boot"]);
        assert_eq!(config.replaces, None);
        let text = "replace_address_first_boot: 10.0.0.7\n";
        let (config, warnings) = read(&["--options-file=f"], text).unwrap();
        assert!(warnings.is_empty());
        assert!(matches!(config.replaces, Some(Replaces::Address(_))));
    }

    #[test]
    fn n20_what_the_gate_writes_is_obeyed_from_the_file_and_from_the_command_line_alone() {
        let seeds = ["10.0.0.1", "10.0.0.2"].map(|s| s.parse().unwrap());
        for (version, profile) in [
            ("4.6", "gossip-4.x"),
            ("5.4", "gossip-5.2"),
            ("2025.2", "raft-2025"),
        ] {
            let engine = Engine::Scylla(version.parse().unwrap());
            let lost = mainstay_core::ring::ledger::Known {
                host: mainstay_core::ring::ids::HostId(7),
                address: "10.0.0.3".parse().unwrap(),
                location: Location {
                    dc: "dc".parse().unwrap(),
                    rack: "r".parse().unwrap(),
                },
                volume: None,
                disk: None,
            };
            let replaces = Some(Replaces::of(&lost, engine.replace_by()));
            let profile = format!("--profile={profile}");
            let arguments = options::arguments(engine, replaces, &seeds);
            let line: Vec<&str> = std::iter::once(profile.as_str())
                .chain(arguments.iter().map(String::as_str))
                .collect();
            let (by_line, warnings) = read(&line, "").unwrap();
            assert_eq!((by_line.replaces, warnings.len()), (replaces, 0));
            assert_eq!(by_line.seeds, seeds);
            let lines: Vec<String> = options::file(engine, replaces, &seeds)
                .iter()
                .map(|(key, value)| format!("{key}: {value}"))
                .collect();
            let text = lines.join("\n");
            let (by_file, warnings) = read(&[profile.as_str(), "--options-file=f"], &text).unwrap();
            assert_eq!((by_file.replaces, warnings.len()), (replaces, 0), "{text}");
            assert_eq!(by_file.seeds, seeds);
        }
    }

    #[test]
    fn an_old_version_does_not_know_host_ids_and_nobody_knows_a_misspelt_option() {
        let id = "--replace-node-first-boot=e7b1c0de-0000-4000-8000-00000000000f";
        assert!(matches!(
            read(&["--profile=gossip-4.x", id], ""),
            Err(ConfigError::Unknown(_))
        ));
        assert!(read(&[id], "").is_ok());
        assert!(matches!(
            read(&["--replace_node_first_boot=x"], ""),
            Err(ConfigError::Unknown(_))
        ));
        assert!(read(&["--seeds=nobody"], "").is_err());
    }

    #[test]
    fn where_it_lives_is_said_by_the_file_of_its_snitch_and_by_nothing_else() {
        let text = "# a comment\ndc=dc1\nrack = b\n";
        let (by_file, _) = read(&["--endpoint-snitch=GossipingPropertyFileSnitch"], text).unwrap();
        assert_eq!(by_file.location.to_string(), "dc1/b");
        let (simple, _) = read(&[], text).unwrap();
        assert_eq!(simple.location.to_string(), "datacenter1/rack1");
        assert!(matches!(read(&["--dc=dc1"], ""), Err(ConfigError::Unknown(_))));
    }

    #[test]
    fn the_command_line_beats_the_file() {
        let text = "replace_address_first_boot: 10.0.0.9\n";
        let line = ["--options-file=f", "--replace-address-first-boot", "10.0.0.7"];
        let (config, _) = read(&line, text).unwrap();
        assert_eq!(
            config.replaces,
            Some(Replaces::Address("10.0.0.7".parse().unwrap()))
        );
    }
}
