//! The test programs, several at a time.
//!
//! Most of them wait for processes they started, so one after the other they leave the machine idle for most of their
//! time: cargo runs them that way.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::said::Said;
use crate::several::several;
use crate::summary::seconds;
use crate::workspace::{Workspace, capture, display, stream};

/// How many run at once. Each has threads of its own, and some watch the clock: with more than this, databases that
/// only had no turn on the processor are taken for dead.
const LANES: usize = 3;

/// Those that take minutes, the longest first: what begins last should be short.
const LONG: &[&str] = &[
    "mainstay::ring",
    "mainstay::whole",
    "sandbox::operator",
    "sandbox::hibernation",
    "mainstay::reset_kills",
    "mainstay::drill",
];

/// Those that follow the time-outs of real servers, with more data than a busy machine moves in time. They come last,
/// and by themselves.
const ALONE: &[&str] = &["sandbox::standin_recordings"];

/// Build every test program with every feature, run them, then the examples in the documentation.
pub(crate) fn stage(workspace: &Workspace) -> Result<()> {
    let programs = build(workspace)?;
    println!("{} test programs, {LANES} at a time", programs.len());
    let is_alone = |program: &Program| ALONE.contains(&program.name.as_str());
    let (alone, together) = programs.into_iter().partition(is_alone);
    run(workspace, together, LANES)?;
    run(workspace, alone, 1)?;
    let mut command = workspace.cargo();
    command.args([
        "test",
        "--locked",
        "--workspace",
        "--all-features",
        "--doc",
        "--quiet",
    ]);
    println!("$ {}", display(&command));
    stream(&mut command)
}

/// What cargo would run.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    /// Package and target.
    name: String,
    package: String,
    path: PathBuf,
    /// The folder of the package: tests find their files from there.
    folder: PathBuf,
}

fn build(workspace: &Workspace) -> Result<Vec<Program>> {
    let mut command = workspace.cargo();
    command.args([
        "test",
        "--locked",
        "--workspace",
        "--all-features",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]);
    println!("$ {}", display(&command));
    let said = capture(&mut command)?;
    let programs = parse(&String::from_utf8_lossy(&said))?;
    if programs.is_empty() {
        bail!("cargo built no test program");
    }
    Ok(programs)
}

/// A line of cargo's JSON, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    package_id: Option<String>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

fn parse(said: &str) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for line in said.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line).context("cargo's JSON is not understood")?;
        let Message {
            package_id: Some(id),
            executable: Some(path),
            manifest_path: Some(manifest),
            target: Some(Target { name }),
            profile: Some(Profile { test: true }),
        } = message
        else {
            continue;
        };
        let folder = manifest
            .parent()
            .context("a manifest has no folder")?
            .to_path_buf();
        let place = folder.file_name().unwrap_or_default().to_string_lossy();
        programs.push(Program {
            name: format!("{place}::{name}"),
            package: package(&id).unwrap_or(&place).to_owned(),
            path,
            folder,
        });
    }
    programs.sort_by_key(|program| {
        let long = LONG.iter().position(|name| *name == program.name);
        (long.unwrap_or(LONG.len()), program.name.clone())
    });
    Ok(programs)
}

/// The name in `path+file:///folder#name@version`. It is left out if the folder is called so.
fn package(id: &str) -> Option<&str> {
    let (_, named) = id.rsplit_once('#')?;
    Some(named.split_once('@')?.0)
}

/// After the first failure none is begun any more; those that run are waited for.
fn run(workspace: &Workspace, programs: Vec<Program>, lanes: usize) -> Result<()> {
    let outcomes = several(programs, lanes, |program| {
        run_one(workspace, &program).with_context(|| program.name.clone())
    });
    let failed: Vec<String> = outcomes
        .into_iter()
        .filter_map(Result::err)
        .map(|error| format!("{error:#}"))
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("{}", failed.join("; "))
    }
}

/// What it says is kept until it ended: two at once would speak across each other.
fn run_one(workspace: &Workspace, program: &Program) -> Result<()> {
    let Program {
        name,
        package,
        path,
        folder,
    } = program;
    let said = Said::new(workspace, name)?;
    let started = Instant::now();
    let status = workspace
        .command(path)
        .current_dir(folder)
        // As cargo starts it.
        .env("CARGO_MANIFEST_DIR", folder)
        .env("CARGO_PKG_NAME", package)
        .stdout(said.writer()?)
        .stderr(said.writer()?)
        .status()
        .context("cannot be started")?;
    let took = seconds(started.elapsed());
    let text = said.read()?;
    if status.success() {
        let results: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("test result:"))
            .collect();
        println!("{name}, {took} s: {}", results.join("; "));
        return Ok(());
    }
    println!("{text}\n{name} FAILED after {took} s");
    bail!("ended with {status}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn line(package: &str, target: &str, test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///w/{package}#mainstay-{package}@0.1.0","manifest_path":"/w/{package}/Cargo.toml","target":{{"name":"{target}"}},"profile":{{"test":{test}}},"executable":"/t/{target}"}}"#
        )
    }

    #[test]
    fn what_cargo_built_is_run_the_longest_first() {
        let said = [
            line("core", "decisions", true),
            line("mainstay", "mainstay", false),
            line("mainstay", "whole", true),
            line("sandbox", "operator", true),
            r#"{"reason":"compiler-artifact","manifest_path":"/w/core/Cargo.toml","target":{"name":"core"},"profile":{"test":true},"executable":null}"#.to_owned(),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ]
        .join("\n");
        let programs = parse(&said).unwrap();
        let names: Vec<_> = programs.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["mainstay::whole", "sandbox::operator", "core::decisions"]);
        assert_eq!(programs[2].folder, Path::new("/w/core"));
        assert_eq!(programs[2].package, "mainstay-core");
        assert_eq!(package("path+file:///w/sim#0.1.0"), None);
    }

    fn shell(name: &str) -> Program {
        Program {
            name: name.to_owned(),
            package: name.to_owned(),
            path: PathBuf::from(name),
            folder: std::env::temp_dir(),
        }
    }

    #[test]
    fn one_that_fails_fails_the_stage_and_is_named() {
        let workspace = Workspace::locate().unwrap();
        run(
            &workspace,
            vec![shell("true"), shell("true"), shell("true")],
            LANES,
        )
        .unwrap();
        let error = run(&workspace, vec![shell("true"), shell("false")], LANES)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("false: ended with"), "{error}");
        let error = run(&workspace, vec![shell("there-is-no-such-program")], 1)
            .unwrap_err()
            .to_string();
        assert!(error.contains("cannot be started"), "{error}");
    }
}
