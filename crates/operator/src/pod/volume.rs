//! The volume of a database pod.

use super::disk::Disk;
use crate::clock::wall;
use mainstay_core::memgraph::helper::{Quarantine, VolumeReport};
use mainstay_core::memgraph::ids::{PodUid, ResetId};
use mainstay_core::memgraph::marker::{DATA_FOLDER_NAME, MARKER_FILE};
use mainstay_core::memgraph::prepare::{Done, Marker, Volume};
use mainstay_core::memgraph::quarantine::Note;
use mainstay_core::time::Time;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A marker that had no effect is kept here, for whoever asks.
const STALE_MARKER: &str = ".hard-reset-requested.stale";
/// Which request was carried out last.
const DONE: &str = ".hard-reset-done";
/// Which pod was prepared last.
const LAST_POD: &str = ".mainstay-pod";
/// Where data is set aside, one folder per request. The init container deletes nothing in it.
const QUARANTINE: &str = "quarantine";
/// What is being deleted, in there. No number, so it is never taken for a request.
const PURGED: &str = "purged";

/// Why the volume could not be read or changed. The marker stays, and the next run begins again.
#[derive(Debug, Error)]
pub enum ChangeError {
    /// The disk said no.
    #[error("{what} {path}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It said yes, and the data is still there.
    #[error("{0} was set aside and is still there")]
    StillThere(PathBuf),
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ChangeError {
    let path = path.to_owned();
    move |source| ChangeError::Io { what, path, source }
}

/// A mounted volume.
#[derive(Debug)]
pub struct DataVolume<D> {
    root: PathBuf,
    disk: D,
}

impl<D: Disk> DataVolume<D> {
    /// That which is mounted here.
    pub fn new(root: impl Into<PathBuf>, disk: D) -> Self {
        Self {
            root: root.into(),
            disk,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Where the data of a request is set aside.
    pub fn quarantine(&self, ResetId(id): ResetId) -> PathBuf {
        self.at(QUARANTINE).join(id.to_string())
    }

    /// What is there.
    pub fn read(&self) -> Result<Volume, ChangeError> {
        self.look().map(|(volume, _)| volume)
    }

    /// The same, and what is noted about what was set aside.
    fn look(&self) -> Result<(Volume, Vec<(ResetId, Note)>), ChangeError> {
        let aside = self.set_aside_before()?;
        let volume = Volume {
            marker: self.text(MARKER_FILE)?,
            // Written by us as a whole: what cannot be read says nothing.
            last_pod: self.text(LAST_POD)?.and_then(|text| text.trim().parse().ok()),
            done: self.text(DONE)?.as_deref().and_then(Done::parse),
            data: exists(&self.at(DATA_FOLDER_NAME))?,
            set_aside: aside.iter().map(|(id, _)| *id).collect(),
        };
        Ok((volume, aside))
    }

    fn text(&self, name: &str) -> Result<Option<String>, ChangeError> {
        let path = self.at(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("cannot read", &path)(error)),
        }
    }

    /// What was set aside, the oldest first.
    fn set_aside_before(&self) -> Result<Vec<(ResetId, Note)>, ChangeError> {
        let path = self.at(QUARANTINE);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(failed("cannot list", &path)(error)),
        };
        let mut all = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed("cannot list", &path))?;
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(id) = id.map(ResetId) {
                all.push((id, self.noted(id)?));
            }
        }
        all.sort_unstable_by_key(|(id, note)| (note.at, *id));
        Ok(all)
    }

    /// What is noted about it. The first versions noted nothing: then it is as old as its folder's last change, which was
    /// to be moved. A note that is there and cannot be read may have said that it is to be kept.
    fn noted(&self, id: ResetId) -> Result<Note, ChangeError> {
        let text = self.text(&format!("{QUARANTINE}/{}", note_name(id)))?;
        if let Some(note) = text.as_ref().and_then(|text| serde_json::from_str(text).ok()) {
            return Ok(note);
        }
        let path = self.quarantine(id);
        let meta = fs::metadata(&path).map_err(failed("cannot look at", &path))?;
        let millis = meta
            .ctime()
            .saturating_mul(1000)
            .saturating_add(meta.ctime_nsec() / 1_000_000);
        Ok(Note {
            at: Time(u64::try_from(millis).unwrap_or_default()),
            keep: text.is_some(),
        })
    }

    /// Moves the data under this id, at once or not at all, and sees that it is gone. What is noted about it is there
    /// before: data without its note could be trimmed although it is to be kept.
    pub fn set_aside(&mut self, id: ResetId, keep: bool) -> Result<(), ChangeError> {
        let (data, quarantine, to) = (
            self.at(DATA_FOLDER_NAME),
            self.at(QUARANTINE),
            self.quarantine(id),
        );
        let before = self.set_aside_before()?;
        let note = Note::after(before.into_iter().map(|(_, note)| note), wall(), keep);
        self.disk
            .make_folder(&quarantine)
            .map_err(failed("cannot make", &quarantine))?;
        self.sync_root()?;
        let name = note_name(id);
        let text = serde_json::to_string(&note)
            .map_err(|error| failed("cannot write", &quarantine.join(&name))(error.into()))?;
        self.note_in(&quarantine, &name, &text)?;
        self.disk
            .rename(&data, &to)
            .map_err(failed("cannot set aside", &data))?;
        self.sync(&quarantine)?;
        self.sync_root()?;
        if exists(&data)? || !exists(&to)? {
            return Err(ChangeError::StillThere(data));
        }
        Ok(())
    }

    /// Writes the marker that asks the next start for a reset.
    pub fn mark(&mut self, text: &str) -> Result<(), ChangeError> {
        self.note(MARKER_FILE, text.trim_end())
    }

    /// Deletes what was set aside by a request. It gets another name first: what is left of a deletion that was cut
    /// off is never taken for a whole copy, and goes with the next one.
    pub fn purge(&mut self, id: ResetId) -> Result<(), ChangeError> {
        let (quarantine, from) = (self.at(QUARANTINE), self.quarantine(id));
        let (gone, note) = (quarantine.join(PURGED), quarantine.join(note_name(id)));
        self.disk
            .remove_folder(&gone)
            .map_err(failed("cannot delete", &gone))?;
        if exists(&from)? {
            self.disk
                .rename(&from, &gone)
                .map_err(failed("cannot rename", &from))?;
            self.sync(&quarantine)?;
        }
        // Not before: what is noted holds for as long as the data is there.
        self.disk.remove(&note).map_err(failed("cannot remove", &note))?;
        self.disk
            .remove_folder(&gone)
            .map_err(failed("cannot delete", &gone))
    }

    /// What is there, with sizes: takes as long as it takes to look at every file.
    pub fn report(&self, pod_uid: PodUid) -> Result<VolumeReport, ChangeError> {
        let (seen, aside) = self.look()?;
        let stat = rustix::fs::statvfs(&self.root).map_err(|error| {
            let what = "cannot ask for the room on";
            failed(what, &self.root)(error.into())
        })?;
        let quarantines = aside.into_iter().map(|(id, note)| Quarantine {
            id,
            bytes: size(&self.quarantine(id)),
            kept: note.keep,
        });
        Ok(VolumeReport {
            pod_uid,
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            data_bytes: size(&self.at(DATA_FOLDER_NAME)),
            marked: seen.marker.is_some(),
            quarantines: quarantines.collect(),
        })
    }

    /// Notes that the request was carried out, and then removes the marker.
    pub fn finish(&mut self, Marker { id, term }: Marker) -> Result<(), ChangeError> {
        let term = Some(term);
        self.note(DONE, &Done { id, term }.to_string())?;
        let marker = self.at(MARKER_FILE);
        self.disk
            .remove(&marker)
            .map_err(failed("cannot remove", &marker))?;
        self.sync_root()
    }

    /// Gives the marker another name, under which nobody looks for it.
    pub fn set_marker_aside(&mut self) -> Result<(), ChangeError> {
        let marker = self.at(MARKER_FILE);
        let to = self.at(STALE_MARKER);
        self.disk
            .rename(&marker, &to)
            .map_err(failed("cannot set aside", &marker))?;
        self.sync_root()
    }

    /// Notes which pod runs here from now on. If that is impossible nobody is noted: a wrong name could make a marker
    /// look right that is not.
    pub fn note_pod(&mut self, uid: PodUid) -> Result<(), ChangeError> {
        let noted = self.note(LAST_POD, &uid.to_string());
        if noted.is_err() {
            let path = self.at(LAST_POD);
            self.disk.remove(&path).map_err(failed("cannot remove", &path))?;
        }
        noted
    }

    fn note(&mut self, name: &str, text: &str) -> Result<(), ChangeError> {
        self.note_in(&self.root.clone(), name, text)
    }

    fn note_in(&mut self, folder: &Path, name: &str, text: &str) -> Result<(), ChangeError> {
        let (path, new) = (folder.join(name), folder.join(format!("{name}.new")));
        self.disk
            .write(&new, &format!("{text}\n"))
            .map_err(failed("cannot write", &new))?;
        self.disk
            .rename(&new, &path)
            .map_err(failed("cannot write", &path))?;
        self.sync(folder)
    }

    fn sync_root(&mut self) -> Result<(), ChangeError> {
        self.sync(&self.root.clone())
    }

    fn sync(&mut self, folder: &Path) -> Result<(), ChangeError> {
        self.disk.sync(folder).map_err(failed("cannot sync", folder))
    }
}

/// Beside the folder of the request. No number, so it is never taken for one.
fn note_name(ResetId(id): ResetId) -> String {
    format!("{id}.json")
}

/// How much a folder takes. A database works in it meanwhile: what goes away under our eyes takes nothing.
fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

fn exists(path: &Path) -> Result<bool, ChangeError> {
    path.try_exists().map_err(failed("cannot look for", path))
}
