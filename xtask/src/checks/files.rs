//! The text files of the repository.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// A file with its path from the top of the checkout, written with `/`.
#[derive(Debug)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All text files that are tracked or about to be. What is not UTF-8 is not ours to judge.
pub(crate) fn read(workspace: &Workspace) -> Result<Vec<TextFile>> {
    let root = workspace.root();
    let mut paths = match tracked(workspace) {
        Some(paths) => paths,
        None => walk(root)?,
    };
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        // Tracked, but deleted in the working tree: nothing to read.
        let Ok(bytes) = fs::read(root.join(&path)) else {
            continue;
        };
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(TextFile { path, text });
        }
    }
    Ok(files)
}

/// What git knows, and what it would add; `None` outside of a git checkout.
fn tracked(workspace: &Workspace) -> Option<Vec<String>> {
    let output = workspace
        .command("git")
        // A CI machine often checks out as one user and builds as another.
        .args(["-c", "safe.directory=*"])
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let names = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<_> = names.split_terminator('\0').map(str::to_owned).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

/// An unpacked archive has no git: everything but what builds leave behind.
fn walk(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut pending = vec![String::new()];
    while let Some(folder) = pending.pop() {
        let entries = fs::read_dir(root.join(&folder)).with_context(|| format!("cannot list {folder}"))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() {
                name.clone()
            } else {
                format!("{folder}/{name}")
            };
            let kind = entry.file_type()?;
            if kind.is_file() {
                paths.push(path);
            } else if kind.is_dir() && !matches!(name.as_str(), ".git" | "target") {
                pending.push(path);
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_git_the_files_are_found_all_the_same() {
        // `cargo test` starts a test in the folder of its package.
        let found = walk(Path::new(".")).unwrap();
        assert!(found.iter().any(|path| path == "Cargo.toml"), "{found:?}");
        assert!(
            found.iter().any(|path| path == "src/checks/files.rs"),
            "{found:?}"
        );
    }
}
