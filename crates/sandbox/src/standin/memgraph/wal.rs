//! The log: one JSON line per committed transaction, in files that are named
//! like those of a real server. Flushed to the kernel before anybody is
//! answered, fsynced as often as the flag says.

use super::clock::Stamp;
use super::disk::DiskError;
use super::graph::{Change, Graph};
use serde::{Deserialize, Serialize};
use sim::memgraph::instance::{Lineage, Run, Store, Transaction, Ts};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// One transaction, as it is kept and sent.
pub(super) type Committed = Transaction<Vec<Change>>;

/// One line.
#[derive(Serialize, Deserialize)]
enum Line {
    /// Everything so far: what recovery from a MAIN leaves behind.
    Base {
        store: Graph,
        runs: Vec<Run>,
    },
    Commit(Committed),
}

/// The data and the runs behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) store: Graph,
    pub(super) runs: Vec<Run>,
}

impl State {
    pub(super) fn ldt(&self) -> Ts {
        self.runs.last().map_or(Ts::ZERO, |run| run.last)
    }

    fn apply(&mut self, committed: &Committed) {
        let Transaction {
            epoch,
            writer,
            after: _,
            ts,
            delta,
        } = committed;
        self.store.apply(delta);
        let mut lineage = Lineage::fresh(*epoch);
        lineage.runs = std::mem::take(&mut self.runs);
        lineage.append(*writer, *ts);
        self.runs = lineage.runs;
    }
}

/// The log of a running process.
#[derive(Debug)]
pub(super) struct Log {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    flush_every: u64,
    unsynced: u64,
    length: u64,
    synced: u64,
    first: Option<Ts>,
    last: Ts,
    /// Whether the next start is to find only what was fsynced.
    tail_to_lose: bool,
}

/// Where it is noted how much of which file is safe, while somebody wants to know.
const SAFE: &str = ".safe";

#[derive(Serialize, Deserialize)]
struct Safe {
    file: String,
    length: u64,
}

impl Log {
    /// Reads what is there, on top of `snapshot` if the log begins after one,
    /// and begins a new file.
    pub(super) fn open(
        folder: &Path,
        snapshot: Option<&State>,
        flush_every: u64,
    ) -> Result<(Self, State), DiskError> {
        fs::create_dir_all(folder).map_err(|error| DiskError::io(folder, error))?;
        lose_tail(folder)?;
        let mut state = None;
        for path in files(folder)? {
            state = read(&path, state, snapshot)?;
            close(&path)?;
        }
        let state = match (state, snapshot) {
            (Some(state), Some(snapshot)) if snapshot.ldt() > state.ldt() => snapshot.clone(),
            (Some(state), _) => state,
            (None, snapshot) => snapshot.cloned().unwrap_or_default(),
        };
        Ok((Self::begin(folder, flush_every)?, state))
    }

    fn begin(folder: &Path, flush_every: u64) -> Result<Self, DiskError> {
        let path = folder.join(format!("{}_current", Stamp::now().for_file()));
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|error| DiskError::io(&path, error))?;
        Ok(Self {
            folder: folder.to_owned(),
            path,
            file,
            flush_every: flush_every.max(1),
            unsynced: 0,
            length: 0,
            synced: 0,
            first: None,
            last: Ts::ZERO,
            tail_to_lose: false,
        })
    }

    /// One more transaction.
    pub(super) fn append(&mut self, committed: &Committed) -> Result<(), DiskError> {
        self.first.get_or_insert(committed.ts);
        self.last = committed.ts;
        self.write(&Line::Commit(committed.clone()))?;
        self.unsynced += 1;
        if self.unsynced >= self.flush_every {
            self.sync()?;
        }
        Ok(())
    }

    /// Everything so far is replaced.
    pub(super) fn replace(&mut self, state: &State) -> Result<(), DiskError> {
        let old = files(&self.folder)?;
        let (flush_every, tail_to_lose) = (self.flush_every, self.tail_to_lose);
        *self = Self::begin(&self.folder, flush_every)?;
        self.tail_to_lose = tail_to_lose;
        if !state.runs.is_empty() {
            self.first = Some(state.ldt());
            self.last = state.ldt();
            self.write(&Line::Base {
                store: state.store.clone(),
                runs: state.runs.clone(),
            })?;
        }
        self.sync()?;
        for path in old.into_iter().filter(|path| *path != self.path) {
            fs::remove_file(&path).map_err(|error| DiskError::io(&path, error))?;
        }
        Ok(())
    }

    /// From now on it is noted what is safe, for the next start to cut the rest off.
    pub(super) fn lose_tail(&mut self) -> Result<(), DiskError> {
        self.tail_to_lose = true;
        self.note_safe()
    }

    /// Spoils the log: half a line in the middle.
    pub(super) fn corrupt(&mut self) -> Result<(), DiskError> {
        let broken = self.file.write_all(b"{\"Commit\":\n{}\n");
        broken
            .and_then(|()| self.file.sync_all())
            .map_err(|error| DiskError::io(&self.path, error))
    }

    fn write(&mut self, line: &Line) -> Result<(), DiskError> {
        let mut bytes = serde_json::to_vec(line).map_err(|error| DiskError::Content {
            path: self.path.clone(),
            error,
        })?;
        bytes.push(b'\n');
        self.file
            .write_all(&bytes)
            .map_err(|error| DiskError::io(&self.path, error))?;
        self.length += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<(), DiskError> {
        self.file
            .sync_data()
            .map_err(|error| DiskError::io(&self.path, error))?;
        (self.unsynced, self.synced) = (0, self.length);
        if self.tail_to_lose {
            self.note_safe()?;
        }
        Ok(())
    }

    fn note_safe(&self) -> Result<(), DiskError> {
        let name = self.path.file_name().unwrap_or_default();
        let safe = Safe {
            file: name.to_string_lossy().into_owned(),
            length: self.synced,
        };
        super::disk::write_json(&self.folder.join(SAFE), &safe)
    }
}

/// Cuts off what was not fsynced, if that was asked for.
fn lose_tail(folder: &Path) -> Result<(), DiskError> {
    let note = folder.join(SAFE);
    let Some(Safe { file, length }) = super::disk::read_json(&note)? else {
        return Ok(());
    };
    let path = folder.join(file);
    if path.exists() {
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(length))
            .map_err(|error| DiskError::io(&path, error))?;
    }
    fs::remove_file(&note).map_err(|error| DiskError::io(&note, error))
}

/// The files, oldest first: their names begin with a time.
fn files(folder: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| DiskError::io(folder, error))?;
    for entry in entries {
        let path = entry.map_err(|error| DiskError::io(folder, error))?.path();
        let hidden = path
            .file_name()
            .is_none_or(|name| name.to_string_lossy().starts_with('.'));
        if !hidden && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads one file on top of what was read before.
fn read(path: &Path, before: Option<State>, snapshot: Option<&State>) -> Result<Option<State>, DiskError> {
    let bytes = fs::read(path).map_err(|error| DiskError::io(path, error))?;
    let mut state = before;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        // A line without an end was being written when the process died.
        let Some(line) = line.strip_suffix(b"\n") else {
            break;
        };
        let line = serde_json::from_slice(line).map_err(|error| DiskError::Content {
            path: path.to_owned(),
            error,
        })?;
        match line {
            Line::Base { store, runs } => state = Some(State { store, runs }),
            Line::Commit(committed) => {
                let from_nothing = committed.after.is_none();
                let state = state.get_or_insert_with(|| match snapshot {
                    Some(snapshot) if !from_nothing => snapshot.clone(),
                    _ => State::default(),
                });
                if committed.ts > state.ldt() {
                    state.apply(&committed);
                }
            }
        }
    }
    Ok(state)
}

/// The file of an ended process gets its final name; an empty one goes.
fn close(path: &Path) -> Result<(), DiskError> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let Some(stamp) = name.strip_suffix("_current") else {
        return Ok(());
    };
    let error = |error| DiskError::io(path, error);
    let bytes = fs::read(path).map_err(error)?;
    let stamps: Vec<Ts> = bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| match serde_json::from_slice(line).ok()? {
            Line::Base { runs, .. } => runs.last().map(|run| run.last),
            Line::Commit(committed) => Some(committed.ts),
        })
        .collect();
    let (Some(first), Some(last)) = (stamps.first(), stamps.last()) else {
        return fs::remove_file(path).map_err(error);
    };
    let closed = format!("{stamp}_from_{}_to_{}", first.0, last.0);
    // What is being cut off must not come back when the file is read again.
    let whole = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    let file = OpenOptions::new().write(true).open(path).map_err(error)?;
    file.set_len(u64::try_from(whole).unwrap_or(u64::MAX))
        .map_err(error)?;
    fs::rename(path, path.with_file_name(closed)).map_err(error)
}
