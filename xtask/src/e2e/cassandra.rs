//! `cargo xtask e2e cassandra`: Cassandra from Maven Central, laid out as its distribution is, and the tests that run it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::Verdict;
use crate::tools::home;
use crate::workspace::{Workspace, stream};

/// As in `e2e/cassandra/pom.xml`.
const VERSION: &str = "5.0.9";
/// Where our part of it is.
const SOURCE: &str = "e2e/cassandra";
/// What is laid beside the jars.
const FILES: &[&str] = &[
    "bin/cassandra",
    "tools/bin/sstabledump",
    "cassandra.yaml",
    "jvm.options",
    "logback.xml",
    "quiet.xml",
];

/// Which scenarios.
#[derive(Debug, Args)]
pub(crate) struct CassandraArgs {
    /// Only these scenarios
    #[arg(long, value_name = "SCENARIO", value_delimiter = ',')]
    only: Vec<String>,
}

/// Runs the scenarios; they print their own table.
pub(crate) fn run(workspace: &Workspace, args: &CassandraArgs) -> Result<Verdict> {
    java(workspace)?;
    let folder = lay_out(workspace)?;
    let mut test = workspace.cargo();
    test.args([
        "test",
        "--locked",
        "--workspace",
        "--all-features",
        "--test",
        "cassandra",
        "--",
        "--ignored",
        "--nocapture",
    ]);
    test.env("MAINSTAY_CASSANDRA", folder)
        .env("MAINSTAY_SCENARIOS", args.only.join(","));
    Ok(match stream(&mut test) {
        Ok(()) => Verdict::Good,
        Err(error) => {
            println!("{error:#}");
            Verdict::Bad
        }
    })
}

/// Cassandra 5 runs on Java 11 and 17, and the options here are those for 17.
fn java(workspace: &Workspace) -> Result<()> {
    let asked = workspace.command("java").arg("-version").output();
    let said = asked.context("there is no `java`: Cassandra 5 needs a Java 17")?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    ensure!(
        is_17(&said),
        "Cassandra 5 needs a Java 17, and `java -version` says:\n{said}"
    );
    Ok(())
}

fn is_17(said: &str) -> bool {
    let version = said.split('"').nth(1).unwrap_or_default();
    version == "17" || version.starts_with("17.")
}

/// A folder with everything that a start needs. Jars are fetched once.
fn lay_out(workspace: &Workspace) -> Result<PathBuf> {
    let folder = home(workspace).join(format!("cassandra-{VERSION}"));
    let lib = folder.join("lib");
    if !lib.join(format!("apache-cassandra-{VERSION}.jar")).is_file()
        && !lib.join(format!("cassandra-all-{VERSION}.jar")).is_file()
    {
        fs::create_dir_all(&lib).with_context(|| format!("cannot make {}", lib.display()))?;
        println!("fetching Cassandra {VERSION} into {}", folder.display());
        let mut maven = workspace.command("mvn");
        maven.args(["-B", "-q", "-ntp", "-f"]);
        maven.arg(workspace.root().join(SOURCE).join("pom.xml"));
        maven.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
        maven.arg(format!("-DoutputDirectory={}", lib.display()));
        stream(&mut maven).context("Maven (`mvn`) and Maven Central are needed")?;
    }
    for file in FILES {
        copy(&workspace.root().join(SOURCE).join(file), &folder.join(file))?;
    }
    Ok(folder)
}

/// With its rights: some of them are programs.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(from, to).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_17_is_known_by_what_it_says() {
        assert!(is_17("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime"));
        assert!(is_17("openjdk version \"17\" 2021-09-14"));
        for other in [
            "openjdk version \"21.0.2\"",
            "java version \"1.8.0_392\"",
            "",
            "\"170\"",
        ] {
            assert!(!is_17(other), "{other}");
        }
    }
}
