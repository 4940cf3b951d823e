//! The command line of the real server, in gflags' manner.

use super::config::{Config, Timing};
use sim::memgraph::instance::Profile;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// A command line that cannot be followed.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum FlagError {
    /// A value that is not of its flag's type.
    #[error("--{flag}: `{value}` is not {wanted}")]
    Value {
        /// The flag.
        flag: String,
        /// What was given.
        value: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// A word that belongs to no flag.
    #[error("`{0}` is not a flag")]
    Stray(String),
    /// A flag at the end that needs a value.
    #[error("--{0} needs a value")]
    Missing(String),
    /// `--flag-file` that cannot be read.
    #[error("cannot read the flag file {0}")]
    File(PathBuf),
}

/// A command line, understood.
#[derive(Debug)]
pub struct Flags {
    /// What it asks for.
    pub config: Config,
    /// Flags that mean nothing to the stand-in. A real deployment passes many.
    pub ignored: Vec<String>,
}

/// Flags of the real server without a value that are on by their name alone.
const SWITCHES: [&str; 9] = [
    "storage-wal-enabled",
    "storage-snapshot-on-exit",
    "data-recovery-on-startup",
    "storage-recover-on-startup",
    "replication-restore-state-on-startup",
    "storage-properties-on-edges",
    "telemetry-enabled",
    "also-log-to-stderr",
    "storage-gc-aggressive",
];

impl Flags {
    /// Reads `--name=value`, `--name value`, `--name` and `--noname`, with `_` for `-` if wanted.
    pub fn read(args: impl IntoIterator<Item = String>) -> Result<Self, FlagError> {
        let mut config = Config::new(Profile::V3_12, "/var/lib/memgraph");
        // As the packaged server listens: everywhere.
        config.bolt_address = IpAddr::from([0, 0, 0, 0]);
        config.replication_address = IpAddr::from([0, 0, 0, 0]);
        config.bolt_port = 7687;
        let mut flags = Self {
            config,
            ignored: Vec::new(),
        };
        let mut clock = (1.0, Duration::from_secs(1));
        flags.read_all(args.into_iter().collect(), &mut clock)?;
        flags.config.timing = Timing::new(clock.0, clock.1);
        Ok(flags)
    }

    fn read_all(&mut self, args: Vec<String>, clock: &mut (f64, Duration)) -> Result<(), FlagError> {
        let mut args = args.into_iter().peekable();
        while let Some(arg) = args.next() {
            let Some(name) = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')) else {
                return Err(FlagError::Stray(arg));
            };
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name.replace('_', "-"), Some(value.to_owned())),
                None => (name.replace('_', "-"), None),
            };
            let off = name
                .strip_prefix("no")
                .filter(|rest| SWITCHES.contains(rest))
                .map(str::to_owned);
            let (name, value) = match (off, value) {
                (Some(name), None) => (name, "false".to_owned()),
                (_, Some(value)) => (name, value),
                (None, None) if SWITCHES.contains(&name.as_str()) => (name, "true".to_owned()),
                (None, None) => match args.next_if(|next| !next.starts_with('-')) {
                    Some(value) => (name, value),
                    // Of an unknown flag we cannot know; most that stand alone are switches.
                    None => (name, "true".to_owned()),
                },
            };
            if name == "flag-file" || name == "flagfile" {
                let lines = std::fs::read_to_string(&value).map_err(|_| FlagError::File(value.into()))?;
                let lines = lines
                    .lines()
                    .map(str::trim)
                    .filter(|line| line.starts_with('-'))
                    .map(str::to_owned)
                    .collect();
                self.read_all(lines, clock)?;
                continue;
            }
            if !self.apply(&name, &value, clock)? {
                self.ignored.push(name.clone());
            }
            self.config.given.push((name, value));
        }
        Ok(())
    }

    /// Whether the flag means anything here.
    fn apply(&mut self, name: &str, value: &str, clock: &mut (f64, Duration)) -> Result<bool, FlagError> {
        let config = &mut self.config;
        match name {
            "data-directory" => config.data_directory = value.into(),
            "bolt-address" => config.bolt_address = parse(name, value, "an address")?,
            "bolt-port" => config.bolt_port = parse(name, value, "a port")?,
            "bolt-server-name-for-init" => value.clone_into(&mut config.server_name),
            "init-file" => config.init_file = (!value.is_empty()).then(|| value.into()),
            "replication-restore-state-on-startup" => config.restore_state = switch(name, value)?,
            "replication-replica-check-frequency-sec" => {
                clock.1 = Duration::from_secs(parse(name, value, "a number of seconds")?);
            }
            "data-recovery-on-startup" | "storage-recover-on-startup" => {
                config.recover_data = switch(name, value)?;
            }
            "storage-wal-enabled" => config.wal_enabled = switch(name, value)?,
            "storage-snapshot-interval-sec" | "storage-snapshot-interval" => {
                // The newer flag takes a cron expression too, and empty for never.
                config.snapshot_interval = match value {
                    "" => Duration::ZERO,
                    cron if cron.contains(' ') => Duration::from_mins(5),
                    seconds => Duration::from_secs(parse(name, seconds, "a number of seconds")?),
                };
            }
            "storage-snapshot-on-exit" => config.snapshot_on_exit = switch(name, value)?,
            "storage-wal-file-flush-every-n-tx" => {
                config.flush_every = parse(name, value, "a number of transactions")?;
            }
            "profile" => config.profile = profile(value)?,
            "admin-port" => config.admin_port = Some(parse(name, value, "a port")?),
            "replication-address" => config.replication_address = parse(name, value, "an address")?,
            "replica-check-ms" => {
                clock.1 = Duration::from_millis(parse(name, value, "a number of milliseconds")?);
            }
            "time-scale" => clock.0 = parse(name, value, "a number")?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn parse<T: FromStr>(flag: &str, value: &str, wanted: &'static str) -> Result<T, FlagError> {
    value.parse().map_err(|_| FlagError::Value {
        flag: flag.to_owned(),
        value: value.to_owned(),
        wanted,
    })
}

fn switch(flag: &str, value: &str) -> Result<bool, FlagError> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "0" => Ok(false),
        _ => Err(FlagError::Value {
            flag: flag.to_owned(),
            value: value.to_owned(),
            wanted: "true or false",
        }),
    }
}

fn profile(value: &str) -> Result<Profile, FlagError> {
    match value {
        "3.6" | "3.7" => Ok(Profile::V3_6),
        "3.8" | "3.9" => Ok(Profile::V3_9),
        "3.12" => Ok(Profile::V3_12),
        "next" => Ok(Profile::Next),
        _ => Err(FlagError::Value {
            flag: "profile".to_owned(),
            value: value.to_owned(),
            wanted: "one of 3.6, 3.9, 3.12, next",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<Flags, FlagError> {
        Flags::read(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn the_flags_of_a_real_deployment_are_understood_or_named() {
        let flags = read(&[
            "--data-directory=/data",
            "--bolt-port",
            "7688",
            "--storage-wal-file-flush-every-n-tx=1",
            "--nostorage-snapshot-on-exit",
            "--storage_wal_enabled",
            "--log-level=WARNING",
            "--memory-limit",
            "512",
            "--replication-restore-state-on-startup=true",
            "--profile=3.6",
        ])
        .unwrap();
        assert_eq!(flags.ignored, ["log-level", "memory-limit"]);
        let config = flags.config;
        assert_eq!((config.bolt_port, config.flush_every), (7688, 1));
        assert!(!config.snapshot_on_exit && config.wal_enabled && config.restore_state);
        assert_eq!(config.profile, Profile::V3_6);
    }

    #[test]
    fn a_value_of_the_wrong_type_is_refused() {
        assert!(matches!(
            read(&["--bolt-port=many"]),
            Err(FlagError::Value { .. })
        ));
        assert!(matches!(
            read(&["--storage-wal-enabled=perhaps"]),
            Err(FlagError::Value { .. })
        ));
        assert!(matches!(read(&["7687"]), Err(FlagError::Stray(_))));
    }
}
