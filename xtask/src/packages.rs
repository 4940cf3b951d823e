//! What the distribution brings: installed where it is missing and this is root, named otherwise.

use std::env;
use std::path::Path;

use anyhow::{Context, Result};

use crate::workspace::{Workspace, display, stream};

/// Programs, by name or by path, and the package of Debian that they come in.
pub(crate) type Needed = (&'static [&'static str], &'static str);

/// All of them are there afterwards.
pub(crate) fn ensure(workspace: &Workspace, needed: &[Needed]) -> Result<()> {
    let missing = missing(needed);
    if missing.is_empty() {
        return Ok(());
    }
    let mut install = workspace.command("apt-get");
    install
        .args(["install", "--yes", "--no-install-recommends"])
        .args(&missing);
    println!("$ {}", display(&install));
    stream(&mut install).with_context(|| {
        format!(
            "{} are needed: as root, on Debian, `apt-get install {}`",
            missing.join(", "),
            missing.join(" ")
        )
    })
}

fn missing(needed: &[Needed]) -> Vec<&'static str> {
    let lacking = needed
        .iter()
        .filter(|(files, _)| !files.iter().all(|file| is_there(file)));
    lacking.map(|(_, package)| *package).collect()
}

/// A path, or a name that is looked for as a shell does; a person's PATH may lack what only root uses.
fn is_there(file: &str) -> bool {
    if file.starts_with('/') {
        return Path::new(file).exists();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.any(|folder| folder.join(file).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_missing_if_one_of_its_files_is() {
        let needed: &[Needed] = &[
            (&["sh"], "dash"),
            (&["sh", "no-such-program"], "half"),
            (&["/no/such/file"], "none"),
        ];
        assert_eq!(missing(needed), ["half", "none"]);
    }
}
