//! What a program says while others run beside it: kept until it ended.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// A file in the target folder, because a pipe that nobody reads would stop a talkative program.
pub(crate) struct Said {
    file: File,
}

impl Said {
    /// Of the program of this name. Nothing yet.
    pub(crate) fn new(workspace: &Workspace, name: &str) -> Result<Self> {
        let folder = workspace.target().join("said");
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join(name.replace("::", "-"));
        let file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        file.set_len(0)?;
        Ok(Self { file })
    }

    /// For its output, and once more for its errors: both are kept in their order.
    pub(crate) fn writer(&self) -> Result<Stdio> {
        Ok(self.file.try_clone()?.into())
    }

    /// All of it.
    pub(crate) fn read(mut self) -> Result<String> {
        self.file.rewind()?;
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
