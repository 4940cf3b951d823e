//! Single file operations.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Each is one change that a crash leaves done or not done.
pub trait Disk {
    /// A folder is there afterwards.
    fn make_folder(&mut self, path: &Path) -> io::Result<()>;
    /// A file has this text, on the medium itself.
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()>;
    /// Something has another name.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// A file is not there afterwards.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    /// A folder and all that is in it are not there afterwards. Alone among these it can be cut off in the middle.
    fn remove_folder(&mut self, path: &Path) -> io::Result<()>;
    /// The names in a folder are on the medium itself.
    fn sync(&mut self, folder: &Path) -> io::Result<()>;
}

/// The disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn sync(&mut self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}
