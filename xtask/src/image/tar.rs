//! Archives in the format `ustar`, without anything of the machine in them: no times, no owners by name.

use std::io::Write as _;

use anyhow::{Context, Result, ensure};

const BLOCK: usize = 512;

/// Who owns a file in it, and what may be done with it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Entry<'a> {
    /// A file of root that everybody may read.
    File(&'a [u8]),
    /// The same, and run.
    Program(&'a [u8]),
    Folder,
}

/// An archive, file by file. The order is the caller's.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
}

impl Archive {
    /// Adds a file under this path, which has no `/` in front.
    pub(crate) fn add(&mut self, path: &str, entry: Entry<'_>) -> Result<()> {
        let (mode, kind, content): (u32, u8, &[u8]) = match entry {
            Entry::File(content) => (0o644, b'0', content),
            Entry::Program(content) => (0o755, b'0', content),
            Entry::Folder => (0o755, b'5', &[]),
        };
        // A longer one needs an extension of the format that nothing here needs.
        ensure!(path.len() < 100, "the path {path} is too long for an archive");
        let size = u64::try_from(content.len())?;
        ensure!(size < 0o777_7777_7777, "{path} is too large for an archive");
        let mut header = Vec::with_capacity(BLOCK);
        header.extend(path.as_bytes());
        header.resize(100, 0);
        write!(
            header,
            "{mode:07o}\0{:07o}\0{:07o}\0{size:011o}\0{:011o}\0",
            0, 0, 0
        )?;
        // The sum is made with blanks in its own place.
        header.extend(b"        ");
        header.push(kind);
        header.resize(257, 0);
        header.extend(b"ustar\x0000");
        header.resize(BLOCK, 0);
        let sum: u32 = header.iter().copied().map(u32::from).sum();
        let place = header.get_mut(148..156).context("a header has 512 bytes")?;
        place.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend(header);
        self.bytes.extend(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
        Ok(())
    }

    /// The whole of it.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * BLOCK, 0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// What the machine's own tar makes of it.
    fn listed(archive: &[u8], args: &[&str]) -> String {
        let mut tar = Command::new("tar")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        tar.stdin.take().unwrap().write_all(archive).unwrap();
        let output = tar.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn another_program_reads_what_was_written() {
        let mut archive = Archive::default();
        archive.add("etc/", Entry::Folder).unwrap();
        archive.add("etc/a", Entry::File(b"hello")).unwrap();
        archive.add("b", Entry::Program(&[7; 1_000])).unwrap();
        let bytes = archive.finish();
        let list = listed(&bytes, &["-tv", "--numeric-owner", "--utc", "--full-time"]);
        let lines: Vec<&str> = list.lines().collect();
        assert_eq!(lines.len(), 3, "{list}");
        assert!(lines[0].starts_with("drwxr-xr-x 0/0"), "{list}");
        assert!(lines[1].starts_with("-rw-r--r-- 0/0"), "{list}");
        assert!(
            lines[2].starts_with("-rwxr-xr-x 0/0") && lines[2].contains("1000"),
            "{list}"
        );
        assert!(
            lines.iter().all(|line| line.contains("1970-01-01 00:00:00")),
            "{list}"
        );
        assert_eq!(listed(&bytes, &["-xO", "etc/a"]), "hello");
    }

    #[test]
    fn a_path_that_does_not_fit_is_refused() {
        let mut archive = Archive::default();
        assert!(archive.add(&"x".repeat(100), Entry::File(b"")).is_err());
    }
}
