//! A sandbox says in a file what it is, and another process finds it there.

use super::control::{Request, ask};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use thiserror::Error;

/// The file.
const FILE: &str = "sandbox.json";

/// What a running sandbox says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Description {
    /// Everything of it is in this folder.
    pub(crate) folder: PathBuf,
    /// Its process.
    pub(crate) pid: u32,
    /// Where clients connect.
    pub(crate) bolt: SocketAddr,
    /// Where clients connect that only read.
    pub(crate) reads: SocketAddr,
    /// For kubectl.
    pub(crate) kubeconfig: PathBuf,
    /// Where it takes requests of [`control`](super::control).
    pub(crate) control: PathBuf,
    /// The namespace of the cluster.
    pub(crate) namespace: String,
    /// The cluster.
    pub(crate) cluster: String,
    /// Whether its databases are stand-ins.
    pub(crate) stand_ins: bool,
    /// On which port the first database listens for its MAIN, the others on the next ones, each at every address of the
    /// machine. `None`: all on the usual port, each at an address of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replication_port: Option<u16>,
}

/// Why no sandbox was found.
#[derive(Debug, Error)]
pub(crate) enum FindError {
    /// There is none.
    #[error("no sandbox runs; start one with `mainstay sandbox`")]
    None,
    /// What it says of itself cannot be read.
    #[error("{path} cannot be read")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What it says of itself is something else.
    #[error("{path} does not describe a sandbox")]
    Parse {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

/// The folder in which all sandboxes of this user have theirs.
pub(crate) fn home() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    std::env::temp_dir().join(format!("mainstay-{user}"))
}

impl Description {
    /// Writes it where others find it, as a whole or not at all.
    pub(crate) fn write(&self) -> io::Result<()> {
        let new = self.folder.join(format!("{FILE}.new"));
        std::fs::write(&new, serde_json::to_string_pretty(self)?)?;
        std::fs::rename(&new, self.folder.join(FILE))
    }

    /// Reads that of the sandbox in this folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, FindError> {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(|source| FindError::Read {
            path: path.clone(),
            source,
        })?;
        serde_json::from_str(&text).map_err(|source| FindError::Parse { path, source })
    }
}

/// The sandbox in this folder; or the one that was started last and still answers.
pub(crate) async fn find(folder: Option<&Path>) -> Result<Description, FindError> {
    if let Some(folder) = folder {
        return Description::read(folder);
    }
    let entries = std::fs::read_dir(home()).map_err(|_| FindError::None)?;
    let mut folders: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let written = entry.path().join(FILE).metadata().ok()?.modified().ok()?;
            Some((written, entry.path()))
        })
        .collect();
    folders.sort();
    for (_, folder) in folders.into_iter().rev() {
        if let Ok(found) = Description::read(&folder)
            && ask(&found.control, &Request::Ping).await.is_ok()
        {
            return Ok(found);
        }
    }
    Err(FindError::None)
}
