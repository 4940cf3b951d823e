//! What the gate reads and writes on its volume and in its pod.

use super::GateError;
use mainstay_core::ring::stamp::STAMP_FILE;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> GateError {
    let path = path.to_owned();
    move |source| GateError::Io { path, source }
}

/// Writes a file as a whole or not at all, and for certain.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), GateError> {
    let new = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = fs::File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        path.parent()
            .map_or(Ok(()), |parent| fs::File::open(parent)?.sync_all())
    };
    write().map_err(io(path))
}

pub(super) fn read(path: &Path) -> Result<Option<String>, GateError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io(path)(error)),
    }
}

/// The files of `system.local`, below the data folder.
pub(super) fn local_tables(data: &Path) -> io::Result<Vec<PathBuf>> {
    let system = data.join("data").join("system");
    let mut found = Vec::new();
    for folder in entries(&system)? {
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !name.starts_with("local-") {
            continue;
        }
        let files = entries(&folder)?;
        found.extend(
            files
                .into_iter()
                .filter(|f| f.to_string_lossy().ends_with("-Data.db")),
        );
    }
    found.sort();
    Ok(found)
}

/// By what a file is known to be the same: its path, device, inode, length, and when it was last changed.
pub(super) type Sign = (PathBuf, u64, u64, u64, i64, i64);

/// The signs of these files.
pub(super) fn signs(files: &[PathBuf]) -> io::Result<Vec<Sign>> {
    let sign = |path: &PathBuf| {
        let meta = fs::metadata(path)?;
        let (seconds, nanos) = (meta.ctime(), meta.ctime_nsec());
        Ok((path.clone(), meta.dev(), meta.ino(), meta.len(), seconds, nanos))
    };
    files.iter().map(sign).collect()
}

/// What is in a folder; nothing if there is none.
pub(super) fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Removes what an unfinished start left, but not the gate's own file.
pub(super) fn wipe(data: &Path) -> io::Result<()> {
    for path in entries(data)? {
        if path.file_name().is_some_and(|name| name == STAMP_FILE) {
            continue;
        }
        if path.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
