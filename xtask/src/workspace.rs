//! Where the checkout is, and how its commands are started.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The checkout this task works on.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Find the checkout through the variable cargo sets for `cargo run`.
    ///
    /// Not `env!`: a shared target folder may serve an xtask built in another
    /// checkout.
    pub(crate) fn locate() -> Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
        let root = Path::new(&manifest)
            .parent()
            .context("the folder of xtask has no parent")?
            .to_path_buf();
        Ok(Self { root })
    }

    /// The top of the checkout.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where cargo builds.
    pub(crate) fn target(&self) -> PathBuf {
        let chosen = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        self.root.join(chosen)
    }

    /// The cargo that started this task.
    pub(crate) fn cargo(&self) -> Command {
        self.command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
    }

    /// A program with the top of the checkout as working directory and no stdin.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).stdin(Stdio::null());
        // What `cargo run` says about xtask itself would make the fingerprint
        // of a nested build differ from one started by hand.
        for (key, _) in std::env::vars_os() {
            let name = key.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&key);
            }
        }
        command
    }
}

/// Run with the terminal's own output; a failure names the command.
pub(crate) fn stream(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", display(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", display(command));
    }
    Ok(())
}

/// Run and hand back what it wrote to stdout; stderr stays on the terminal.
pub(crate) fn capture(command: &mut Command) -> Result<Vec<u8>> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", display(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", display(command), output.status);
    }
    Ok(output.stdout)
}

/// The command as a person would type it.
pub(crate) fn display(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_stem()
        .map_or_else(|| command.get_program().to_string_lossy(), OsStr::to_string_lossy);
    let args = command.get_args().map(OsStr::to_string_lossy);
    std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_without_the_folder_of_its_program() {
        let mut command = Command::new("/some/where/cargo");
        command.args(["test", "--locked"]);
        assert_eq!(display(&command), "cargo test --locked");
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = stream(Command::new("sh").args(["-c", "exit 3"]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("sh -c exit 3"), "{error}");
        assert!(error.contains('3'), "{error}");
    }

    #[test]
    fn nothing_of_xtask_leaks_into_a_nested_build() {
        let workspace = Workspace {
            root: PathBuf::from("."),
        };
        let command = workspace.command("cargo");
        let removed: Vec<_> = command
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .map(|(key, _)| key)
            .collect();
        assert!(removed.contains(&OsStr::new("CARGO_PKG_NAME")), "{removed:?}");
        assert!(removed.contains(&OsStr::new("CARGO_MANIFEST_DIR")), "{removed:?}");
    }
}
