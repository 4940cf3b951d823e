//! A folder on its way to a person: sent as a stream, and received so that a part of it is never taken for all of it.
//!
//! A file is a line of JSON and its bytes; the last line says how many there were. Whatever ends before that line was
//! cut off.

use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use thiserror::Error;

/// The longest line that is read: a name, and some numbers.
const LONGEST: usize = 64 * 1024;

/// How much was sent or received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Files.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// Why a folder did not arrive, or did not leave.
#[derive(Debug, Error)]
pub enum CopyError {
    /// The disk or the stream said no.
    #[error("{what} {path}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A name that cannot be written in a line of text.
    #[error("{0} has a name that is no text")]
    Name(PathBuf),
    /// A file became shorter while it was read.
    #[error("{0} changed while it was read")]
    Changed(PathBuf),
    /// What arrived is not what is sent.
    #[error("not a copy: {0}")]
    Line(#[from] serde_json::Error),
    /// Nobody sends such a line.
    #[error("not a copy: a line is longer than {LONGEST} bytes")]
    LongLine,
    /// A file that would be somewhere else.
    #[error("not a copy: `{0}` leads out of it")]
    Outside(String),
    /// The end is missing.
    #[error("it was cut off after {} files", .0.files)]
    CutOff(Sum),
    /// The end says something else.
    #[error("{} files of {} arrived", arrived.files, sent.files)]
    Other {
        /// What arrived.
        arrived: Sum,
        /// What the end says.
        sent: Sum,
    },
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CopyError {
    let path = path.to_owned();
    move |source| CopyError::Io { what, path, source }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Line {
    File { path: String, bytes: u64 },
    End(Sum),
}

/// Writes all files below a folder.
pub fn send(folder: &Path, to: &mut impl Write) -> Result<Sum, CopyError> {
    let mut sum = Sum::default();
    send_below(folder, folder, to, &mut sum)?;
    say(to, &Line::End(sum))?;
    to.flush().map_err(failed("cannot send", folder))?;
    Ok(sum)
}

fn send_below(root: &Path, folder: &Path, to: &mut impl Write, sum: &mut Sum) -> Result<(), CopyError> {
    let list = || failed("cannot list", folder);
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(list())? {
        entries.push(entry.map_err(list())?.path());
    }
    entries.sort_unstable();
    for path in entries {
        // A link could lead anywhere: what it is, is not followed, and a database makes none.
        let meta = fs::symlink_metadata(&path).map_err(failed("cannot look at", &path))?;
        if meta.is_dir() {
            send_below(root, &path, to, sum)?;
        } else if meta.is_file() {
            send_file(root, &path, meta.len(), to)?;
            sum.files += 1;
            sum.bytes += meta.len();
        }
    }
    Ok(())
}

fn send_file(root: &Path, path: &Path, bytes: u64, to: &mut impl Write) -> Result<(), CopyError> {
    let name = path.strip_prefix(root).unwrap_or(path).to_str();
    let name = name.ok_or_else(|| CopyError::Name(path.to_owned()))?.to_owned();
    say(to, &Line::File { path: name, bytes })?;
    let file = File::open(path).map_err(failed("cannot read", path))?;
    let sent = io::copy(&mut file.take(bytes), to).map_err(failed("cannot send", path))?;
    if sent == bytes {
        Ok(())
    } else {
        Err(CopyError::Changed(path.to_owned()))
    }
}

fn say(to: &mut impl Write, line: &Line) -> Result<(), CopyError> {
    let text = serde_json::to_string(line)?;
    writeln!(to, "{text}").map_err(failed("cannot send", Path::new("a line")))
}

/// Takes what [`send`] wrote, in pieces of any size.
#[derive(Debug)]
pub struct Receiver {
    folder: PathBuf,
    /// The beginning of a line.
    line: Vec<u8>,
    /// The file that arrives, and how much of it is still to come.
    file: Option<(PathBuf, File, u64)>,
    arrived: Sum,
    end: Option<Sum>,
}

impl Receiver {
    /// Puts files into this folder, which is made, and must not be there.
    pub fn new(folder: impl Into<PathBuf>) -> Result<Self, CopyError> {
        let folder = folder.into();
        fs::create_dir(&folder).map_err(failed("cannot make", &folder))?;
        Ok(Self {
            folder,
            line: Vec::new(),
            file: None,
            arrived: Sum::default(),
            end: None,
        })
    }

    /// The next piece.
    pub fn take(&mut self, mut piece: &[u8]) -> Result<(), CopyError> {
        while !piece.is_empty() {
            piece = match self.file.take() {
                Some(file) => self.take_bytes(file, piece)?,
                None => self.take_line(piece)?,
            };
        }
        Ok(())
    }

    fn take_bytes<'p>(&mut self, file: (PathBuf, File, u64), piece: &'p [u8]) -> Result<&'p [u8], CopyError> {
        let (path, mut to, left) = file;
        let now = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        let (these, rest) = piece.split_at(now);
        to.write_all(these).map_err(failed("cannot write", &path))?;
        let left = left.saturating_sub(now as u64);
        self.file = Some((path, to, left));
        self.close_if_whole()?;
        Ok(rest)
    }

    fn close_if_whole(&mut self) -> Result<(), CopyError> {
        if let Some((path, file, _)) = self.file.take_if(|(_, _, left)| *left == 0) {
            file.sync_all().map_err(failed("cannot write", &path))?;
            self.arrived.files += 1;
        }
        Ok(())
    }

    fn take_line<'p>(&mut self, piece: &'p [u8]) -> Result<&'p [u8], CopyError> {
        let Some(end) = piece.iter().position(|byte| *byte == b'\n') else {
            self.line.extend_from_slice(piece);
            return if self.line.len() > LONGEST {
                Err(CopyError::LongLine)
            } else {
                Ok(&[])
            };
        };
        let (line, rest) = piece.split_at(end);
        self.line.extend_from_slice(line);
        match serde_json::from_slice(&std::mem::take(&mut self.line))? {
            Line::File { path, bytes } => self.open(&path, bytes)?,
            Line::End(sum) => self.end = Some(sum),
        }
        Ok(rest.get(1..).unwrap_or_default())
    }

    fn open(&mut self, name: &str, bytes: u64) -> Result<(), CopyError> {
        let inside = Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if name.is_empty() || !inside {
            return Err(CopyError::Outside(name.to_owned()));
        }
        let path = self.folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed("cannot make", parent))?;
        }
        let file = File::create_new(&path).map_err(failed("cannot make", &path))?;
        self.arrived.bytes += bytes;
        self.file = Some((path, file, bytes));
        self.close_if_whole()
    }

    /// Nothing more comes: was it all?
    pub fn finish(self) -> Result<Sum, CopyError> {
        let Self {
            folder: _,
            line: _,
            file: _,
            arrived,
            end,
        } = self;
        match end {
            Some(sent) if sent == arrived => Ok(sent),
            Some(sent) => Err(CopyError::Other { arrived, sent }),
            None => Err(CopyError::CutOff(arrived)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("mainstay-copy-{}-{number}", std::process::id()));
            fs::create_dir_all(path.join("from/wal")).unwrap();
            fs::write(path.join("from/wal/1"), "precious\nlines").unwrap();
            fs::write(path.join("from/wal/empty"), "").unwrap();
            fs::write(path.join("from/settings"), [0, 10, 255]).unwrap();
            Self(path)
        }

        fn sent(&self) -> Vec<u8> {
            let mut sent = Vec::new();
            let sum = send(&self.0.join("from"), &mut sent).unwrap();
            assert_eq!(sum, Sum { files: 3, bytes: 17 });
            sent
        }

        fn received(&self, bytes: &[u8], piece: usize) -> Result<Sum, CopyError> {
            let to = self.0.join("to");
            fs::remove_dir_all(&to).ok();
            let mut receiver = Receiver::new(&to)?;
            for piece in bytes.chunks(piece) {
                receiver.take(piece)?;
            }
            receiver.finish()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn what_is_sent_arrives_in_pieces_of_any_size() {
        let folder = Folder::new();
        let sent = folder.sent();
        for piece in [1, 2, 7, 64, sent.len()] {
            let sum = folder.received(&sent, piece).unwrap();
            assert_eq!(sum, Sum { files: 3, bytes: 17 }, "pieces of {piece}");
            for file in ["wal/1", "wal/empty", "settings"] {
                let read = |from: &str| fs::read(folder.0.join(from).join(file)).unwrap();
                assert_eq!(read("to"), read("from"), "{file}");
            }
        }
    }

    #[test]
    fn a_copy_that_was_cut_off_anywhere_is_not_taken_for_a_whole_one() {
        let folder = Folder::new();
        let sent = folder.sent();
        for length in 0..sent.len() {
            let cut = sent.get(..length).unwrap();
            assert!(folder.received(cut, 16).is_err(), "cut off after {length} bytes");
        }
    }

    #[test]
    fn a_name_that_leads_out_of_the_folder_is_refused() {
        let folder = Folder::new();
        for name in ["../evil", "/etc/evil", "a/../../evil", ""] {
            let line = serde_json::to_string(&Line::File {
                path: name.to_owned(),
                bytes: 0,
            });
            let error = folder.received(format!("{}\n", line.unwrap()).as_bytes(), 9);
            assert!(matches!(error, Err(CopyError::Outside(_))), "{name}: {error:?}");
        }
        assert!(!folder.0.join("evil").exists());
    }

    #[test]
    fn something_else_than_a_copy_is_refused() {
        let folder = Folder::new();
        assert!(matches!(
            folder.received(b"exec: no such program\n", 5),
            Err(CopyError::Line(_))
        ));
        let long = vec![b'x'; LONGEST + 2];
        assert!(matches!(folder.received(&long, 999), Err(CopyError::LongLine)));
        let lie = br#"{"end":{"files":4,"bytes":17}}"#;
        let lied = [lie.as_slice(), b"\n"].concat();
        assert!(matches!(folder.received(&lied, 99), Err(CopyError::Other { .. })));
    }
}
