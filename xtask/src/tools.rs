//! Tools that are not part of the toolchain: installed on demand, once, at an
//! exact version, outside the checkout.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::summary::seconds;
use crate::workspace::{Workspace, stream};

/// A cargo plugin at one version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// How it is asked for its version.
    version_args: &'static [&'static str],
}

/// Licences, bans and sources of the dependencies.
pub(crate) const DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
    version_args: &["--version"],
};

/// Changes the code a little and runs the tests, again and again.
pub(crate) const MUTANTS: Tool = Tool {
    name: "cargo-mutants",
    version: "27.1.0",
    version_args: &["mutants", "--version"],
};

/// Builds what libFuzzer drives.
pub(crate) const FUZZ: Tool = Tool {
    name: "cargo-fuzz",
    version: "0.13.2",
    version_args: &["--version"],
};

impl Tool {
    /// The path of the program, after installing it if need be.
    pub(crate) fn ensure(self, workspace: &Workspace) -> Result<PathBuf> {
        let Self {
            name,
            version,
            version_args: _,
        } = self;
        if self.is_on_path() {
            return Ok(PathBuf::from(name));
        }
        // The version is in the path: a new one never runs as the old one.
        let root = home(workspace).join(format!("{name}-{version}"));
        let program = root
            .join("bin")
            .join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        if program.is_file() {
            return Ok(program);
        }
        println!("installing {name} {version} into {}", root.display());
        let started = Instant::now();
        let mut install = workspace.cargo();
        // Unoptimised: no tool spends its time in its own code, and a
        // fresh machine waits for the build. Without our target folder, so
        // that a cache of it keeps only what belongs to the project.
        install
            .args([
                "install",
                "--locked",
                "--debug",
                name,
                "--version",
                version,
                "--root",
            ])
            .arg(&root)
            .env_remove("CARGO_TARGET_DIR");
        stream(&mut install).with_context(|| format!("{name} {version} could not be installed"))?;
        println!("installed {name} {version} in {} s", seconds(started.elapsed()));
        Ok(program)
    }

    fn is_on_path(self) -> bool {
        let output = Command::new(self.name)
            .args(self.version_args)
            .stdin(Stdio::null())
            .output();
        output.is_ok_and(|output| {
            output.status.success() && self.announces(&String::from_utf8_lossy(&output.stdout))
        })
    }

    fn announces(self, version_line: &str) -> bool {
        version_line.split_whitespace().eq([self.name, self.version])
    }
}

/// The folder of all tools.
pub(crate) fn home(workspace: &Workspace) -> PathBuf {
    cache(|key| std::env::var_os(key)).unwrap_or_else(|| workspace.root().join("target").join("tools"))
}

/// The first that is set: `$MAINSTAY_TOOLS`, `$XDG_CACHE_HOME`, `$HOME/.cache`.
fn cache(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |key| var(key).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("MAINSTAY_TOOLS").or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
        Some(cache.join("mainstay").join("tools"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache_with(vars: &[(&str, &str)]) -> Option<PathBuf> {
        cache(|key| {
            vars.iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_tools_folder_follows_the_most_specific_variable() {
        let home = ("HOME", "/h");
        let xdg = ("XDG_CACHE_HOME", "/x");
        let own = ("MAINSTAY_TOOLS", "/t");
        assert_eq!(cache_with(&[home, xdg, own]), Some(PathBuf::from("/t")));
        assert_eq!(cache_with(&[home, xdg]), Some(PathBuf::from("/x/mainstay/tools")));
        assert_eq!(
            cache_with(&[home]),
            Some(PathBuf::from("/h/.cache/mainstay/tools"))
        );
        assert_eq!(cache_with(&[]), None);
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let vars = [("MAINSTAY_TOOLS", ""), ("XDG_CACHE_HOME", ""), ("HOME", "/h")];
        assert_eq!(cache_with(&vars), Some(PathBuf::from("/h/.cache/mainstay/tools")));
    }

    #[test]
    fn a_tool_on_the_path_is_used_only_at_the_exact_version() {
        let tool = Tool {
            name: "cargo-deny",
            version: "0.20.2",
            version_args: &[],
        };
        assert!(tool.announces("cargo-deny 0.20.2\n"));
        assert!(!tool.announces("cargo-deny 0.20.20\n"));
        assert!(!tool.announces("cargo-deny 0.19.0\n"));
    }
}
