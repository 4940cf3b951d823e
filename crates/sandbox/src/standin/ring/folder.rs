//! What a node keeps in its data folder, and how it is read while nothing runs.
//!
//! The file lies where ScyllaDB keeps `system.local`, and `sstable query` answers as `scylla sstable query` does: so a
//! gate asks a stand-in and a real database alike.

use serde_json::{Value, json};
use sim::ring::model::{Disk, Stage};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use thiserror::Error;

/// Where `system.local` is, below the data folder.
const LOCAL: &str = "data/system/local-7ad54392bcdd35a684174e047860b377";
const FILE: &str = "me-1-big-Data.db";

/// The folder cannot be used.
#[derive(Debug, Error)]
pub enum FolderError {
    /// Reading or writing failed.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what a stand-in wrote.
    #[error("{path} is damaged: {source}")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

/// A data folder.
#[derive(Debug)]
pub(super) struct Folder {
    file: PathBuf,
    /// What was last written; nothing before that.
    saved: Option<Disk>,
    /// Somebody emptied the folder under the process: nothing is written to it any more, as by a process whose files
    /// were deleted.
    lost: bool,
}

impl Folder {
    pub(super) fn open(workdir: &Path) -> Result<(Self, Disk), FolderError> {
        let file = workdir.join(LOCAL).join(FILE);
        let found = match fs::read_to_string(&file) {
            Ok(text) => Some(
                serde_json::from_str::<Disk>(&text).map_err(|source| FolderError::Damaged {
                    path: file.clone(),
                    source,
                })?,
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(FolderError::Io { path: file, source }),
        };
        let disk = found.clone().unwrap_or_default();
        let folder = Self {
            file,
            saved: found,
            lost: false,
        };
        Ok((folder, disk))
    }

    /// Writes what changed, as a whole or not at all.
    pub(super) fn save(&mut self, disk: &Disk) -> Result<(), FolderError> {
        let Self { file, saved, lost } = self;
        *lost = *lost || (saved.is_some() && !file.exists());
        if *lost || saved.as_ref() == Some(disk) {
            return Ok(());
        }
        let io = |source| FolderError::Io {
            path: file.clone(),
            source,
        };
        let text = serde_json::to_string(disk).map_err(|source| FolderError::Damaged {
            path: file.clone(),
            source,
        })?;
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).map_err(io)?;
        }
        let new = file.with_extension("new");
        fs::write(&new, text).map_err(io)?;
        fs::rename(&new, &*file).map_err(io)?;
        *saved = Some(disk.clone());
        Ok(())
    }
}

/// `scylla sstable query … FILES`: `bootstrapped` and `host_id` of `system.local`.
pub(super) fn query(args: &[String]) -> ExitCode {
    let file = args.iter().rev().find(|word| word.ends_with("-Data.db"));
    let asked = args.iter().any(|word| word == "query");
    let row = file.filter(|_| asked).and_then(|file| {
        let text = fs::read_to_string(file).ok()?;
        row(&serde_json::from_str(&text).ok()?)
    });
    if let Some(row) = row {
        println!("{}", json!([row]));
        ExitCode::SUCCESS
    } else {
        eprintln!("error: could not load sstable(s)");
        ExitCode::FAILURE
    }
}

fn row(disk: &Disk) -> Option<Value> {
    let word = match disk.stage() {
        Stage::Needs => "NEEDS_BOOTSTRAP",
        Stage::InProgress => "IN_PROGRESS",
        Stage::Completed => "COMPLETED",
    };
    Some(json!({ "bootstrapped": word, "host_id": disk.host()? }))
}
