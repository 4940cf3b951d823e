//! The data folder, laid out like that of a real server: emptying `wal` and
//! `snapshots` is a hard reset, and `replication` survives it.

use super::address::Address;
use super::clock::{Stamp, random_id};
use super::config::Config;
use super::graph::Graph;
use super::wal::{Log, State};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sim::memgraph::instance::{DatabaseId, MainId, Mode, Role, Run, Snapshot};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Why the data folder cannot be used.
#[derive(Debug, Error)]
pub(super) enum DiskError {
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{} is spoilt: {error}", path.display())]
    Content { path: PathBuf, error: serde_json::Error },
    #[error("{} is used by another process", .0.display())]
    Locked(PathBuf),
}

impl DiskError {
    pub(super) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            error,
        }
    }
}

/// Role and replicas.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Replication {
    pub(super) role: Role,
    /// Where a REPLICA listens.
    pub(super) port: Option<u16>,
    pub(super) main: MainId,
    pub(super) replicas: Vec<Replica>,
}

/// One entry of the list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Replica {
    pub(super) name: String,
    pub(super) mode: Mode,
    pub(super) address: Address,
}

/// A trigger, kept by name and never run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Trigger {
    pub(super) statement: String,
    pub(super) event: String,
    pub(super) phase: String,
}

/// Names and passwords. Only tests use a stand-in, so they are kept as they are.
pub(super) type Users = BTreeMap<String, Option<String>>;

/// What was found.
pub(super) struct Contents {
    pub(super) state: State,
    pub(super) snapshot: Option<Snapshot>,
    pub(super) replication: Option<Replication>,
    pub(super) database: DatabaseId,
    pub(super) users: Users,
    pub(super) triggers: BTreeMap<String, Trigger>,
}

/// The data folder of a running process.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    pub(super) log: Log,
    /// Held as long as the process lives.
    _lock: File,
}

#[derive(Serialize, Deserialize)]
struct SnapshotFile {
    snapshot: Snapshot,
    store: Graph,
    runs: Vec<Run>,
    created: String,
}

/// One row of `SHOW SNAPSHOTS`.
pub(super) struct SnapshotRow {
    pub(super) path: PathBuf,
    pub(super) ts: i64,
    pub(super) created: String,
    pub(super) size: u64,
}

const FOLDERS: [&str; 9] = [
    "wal",
    "snapshots",
    "replication",
    "auth",
    "databases",
    "settings",
    "triggers",
    "streams",
    "internal_modules",
];
/// A real server keeps three.
const SNAPSHOTS_KEPT: usize = 3;

impl Disk {
    /// Takes possession of the folder and reads it.
    pub(super) async fn open(config: &Config) -> Result<(Self, Contents), DiskError> {
        let folder = config.data_directory.clone();
        for name in FOLDERS {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(|error| DiskError::io(&path, error))?;
        }
        let lock = lock(&folder, config.timing.scaled(Duration::from_secs(30))).await?;
        if !config.recover_data {
            set_aside(&folder)?;
        }
        let newest = newest_snapshot(&folder)?;
        let base = newest.as_ref().map(|file| State {
            store: file.store.clone(),
            runs: file.runs.clone(),
        });
        let (log, state) = Log::open(&folder.join("wal"), base.as_ref(), config.flush_every)?;
        let database = if let Some(database) = read_json(&durability(&folder))? {
            database
        } else {
            let database = DatabaseId(random_id());
            write_json(&durability(&folder), &database)?;
            database
        };
        let contents = Contents {
            state,
            snapshot: newest.map(|file| file.snapshot),
            replication: if config.restore_state {
                read_json(&replication(&folder))?
            } else {
                None
            },
            database,
            users: read_json(&users(&folder))?.unwrap_or_default(),
            triggers: read_json(&triggers(&folder))?.unwrap_or_default(),
        };
        Ok((
            Self {
                folder,
                log,
                _lock: lock,
            },
            contents,
        ))
    }

    pub(super) fn save_replication(&self, state: &Replication) -> Result<(), DiskError> {
        write_json(&replication(&self.folder), state)
    }

    pub(super) fn save_database(&self, database: DatabaseId) -> Result<(), DiskError> {
        write_json(&durability(&self.folder), &database)
    }

    pub(super) fn save_users(&self, all: &Users) -> Result<(), DiskError> {
        write_json(&users(&self.folder), all)
    }

    pub(super) fn save_triggers(&self, all: &BTreeMap<String, Trigger>) -> Result<(), DiskError> {
        write_json(&triggers(&self.folder), all)
    }

    /// Writes a snapshot and forgets the oldest ones.
    pub(super) fn save_snapshot(&self, snapshot: &Snapshot, state: &State) -> Result<PathBuf, DiskError> {
        let now = Stamp::now();
        let path =
            self.folder
                .join("snapshots")
                .join(format!("{}_timestamp_{}", now.for_file(), snapshot.ldt.0));
        let file = SnapshotFile {
            snapshot: snapshot.clone(),
            store: state.store.clone(),
            runs: state.runs.clone(),
            created: now.for_row(),
        };
        write_json(&path, &file)?;
        let all = snapshots(&self.folder)?;
        for old in all.iter().rev().skip(SNAPSHOTS_KEPT) {
            fs::remove_file(old).map_err(|error| DiskError::io(old, error))?;
        }
        Ok(path)
    }

    pub(super) fn clear_snapshots(&self) -> Result<(), DiskError> {
        for path in snapshots(&self.folder)? {
            fs::remove_file(&path).map_err(|error| DiskError::io(&path, error))?;
        }
        Ok(())
    }

    pub(super) fn snapshot_rows(&self) -> Result<Vec<SnapshotRow>, DiskError> {
        let mut rows = Vec::new();
        for path in snapshots(&self.folder)? {
            let Some(SnapshotFile {
                snapshot, created, ..
            }) = read_json(&path)?
            else {
                continue;
            };
            let size = fs::metadata(&path)
                .map_err(|error| DiskError::io(&path, error))?
                .len();
            rows.push(SnapshotRow {
                path,
                ts: i64::from(snapshot.ldt.0),
                created,
                size,
            });
        }
        Ok(rows)
    }
}

fn replication(folder: &Path) -> PathBuf {
    folder.join("replication").join("state.json")
}

fn durability(folder: &Path) -> PathBuf {
    folder.join("databases").join(".durability")
}

fn users(folder: &Path) -> PathBuf {
    folder.join("auth").join("users.json")
}

fn triggers(folder: &Path) -> PathBuf {
    folder.join("triggers").join("triggers.json")
}

/// Waits for the process before, as a real server does.
async fn lock(folder: &Path, patience: Duration) -> Result<File, DiskError> {
    let path = folder.join(".lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|error| DiskError::io(&path, error))?;
    let deadline = Instant::now() + patience;
    while file.try_lock().is_err() {
        if Instant::now() >= deadline {
            return Err(DiskError::Locked(path));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(file)
}

fn snapshots(folder: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let folder = folder.join("snapshots");
    let entries = fs::read_dir(&folder).map_err(|error| DiskError::io(&folder, error))?;
    let mut all = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| DiskError::io(&folder, error))?.path();
        if path.is_file() && path.extension().is_none() {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

fn newest_snapshot(folder: &Path) -> Result<Option<SnapshotFile>, DiskError> {
    match snapshots(folder)?.last() {
        Some(path) => read_json(path),
        None => Ok(None),
    }
}

/// `--data-recovery-on-startup=false`: the files are kept elsewhere.
fn set_aside(folder: &Path) -> Result<(), DiskError> {
    for name in ["wal", "snapshots"] {
        let (from, to) = (folder.join(name), folder.join(".backup").join(name));
        fs::create_dir_all(&to).map_err(|error| DiskError::io(&to, error))?;
        let entries = fs::read_dir(&from).map_err(|error| DiskError::io(&from, error))?;
        for entry in entries {
            let path = entry.map_err(|error| DiskError::io(&from, error))?.path();
            let target = to.join(path.file_name().unwrap_or_default());
            fs::rename(&path, &target).map_err(|error| DiskError::io(&path, error))?;
        }
    }
    Ok(())
}

/// Nothing if there is no such file.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, DiskError> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| DiskError::Content {
                path: path.to_owned(),
                error,
            }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(DiskError::io(path, error)),
    }
}

/// All of it or nothing: written beside, synced, renamed.
pub(super) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), DiskError> {
    let io = |error| DiskError::io(path, error);
    let bytes = serde_json::to_vec(value).map_err(|error| DiskError::Content {
        path: path.to_owned(),
        error,
    })?;
    let beside = path.with_extension("new");
    let mut file = File::create(&beside).map_err(io)?;
    file.write_all(&bytes).map_err(io)?;
    file.sync_data().map_err(io)?;
    fs::rename(&beside, path).map_err(io)
}
