//! `cargo xtask fuzz`: garbage for everything that reads what strangers send, for so much CPU time each.

use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::Verdict;
use crate::said::Said;
use crate::summary::seconds;
use crate::tools;
use crate::workspace::{Workspace, display, stream};

/// The crates that have targets, and how long an input of theirs may be.
const CRATES: &[(&str, u32)] = &[("bolt", 4096), ("gateway", 4096)];

/// No input of a few kilobytes is worth more memory than this, in MiB: it is what "bounded" means here. The sanitiser
/// and the corpus are in it.
const MEMORY: u32 = 512;

/// Nor is any of it worth so much at once, in MiB. Whoever believes a size that is only announced asks for far more, and
/// what is asked for and not used is not in the memory above.
const AT_ONCE: u32 = 16;

/// Seconds that one input may take.
const PATIENCE: u32 = 10;

/// The signal of a process that has used up its CPU time, by POSIX.
const OUT_OF_TIME: i32 = 24;

/// How much.
#[derive(Debug, Args)]
pub(crate) struct FuzzArgs {
    /// CPU-minutes for each target
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: u32,
    /// Only these targets, as `--list` prints them
    #[arg(long, value_name = "TARGET", value_delimiter = ',')]
    only: Vec<String>,
    /// Print the targets and run none
    #[arg(long)]
    list: bool,
}

/// Something that is fuzzed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    krate: &'static str,
    name: String,
    longest: u32,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.krate, self.name)
    }
}

/// One after the other, each on one core.
pub(crate) fn fuzz(workspace: &Workspace, args: &FuzzArgs) -> Result<Verdict> {
    let targets = chosen(all(workspace.root())?, &args.only)?;
    if args.list {
        for target in &targets {
            println!("{target}");
        }
        return Ok(Verdict::Good);
    }
    let cargo_fuzz = tools::FUZZ.ensure(workspace)?;
    let mut rows = Vec::new();
    let mut good = true;
    for target in &targets {
        let folder = workspace.root().join("crates").join(target.krate);
        let mut build = workspace.command(&cargo_fuzz);
        build.args(["build", &target.name]).current_dir(&folder);
        // libFuzzer's instrumentation is not in a stable compiler, and its build is not for the shared target folder.
        build
            .env("RUSTUP_TOOLCHAIN", "nightly")
            .env_remove("CARGO_TARGET_DIR");
        println!("$ {}", display(&build));
        stream(&mut build).context("a nightly compiler is needed: `rustup toolchain install nightly`")?;
        let row = run(workspace, target, args.minutes)?;
        println!("{row}");
        good &= row.good;
        rows.push(row);
    }
    println!("\ntarget                         CPU-min  seconds  what libFuzzer said last");
    for row in &rows {
        println!("{row}");
    }
    Ok(if good { Verdict::Good } else { Verdict::Bad })
}

/// What came of a target.
struct Row {
    target: Target,
    minutes: u32,
    took: String,
    last: String,
    good: bool,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            target,
            minutes,
            took,
            last,
            good,
        } = self;
        let verdict = if *good { "" } else { "FAILED: " };
        let name = target.to_string();
        write!(f, "{name:<30} {minutes:>7}  {took:>7}  {verdict}{last}")
    }
}

/// Until its CPU time is used up: that is how a good run ends. One that ends before has found something.
fn run(workspace: &Workspace, target: &Target, minutes: u32) -> Result<Row> {
    let folder = workspace.root().join("crates").join(target.krate).join("fuzz");
    let corpus = folder.join("corpus").join(&target.name);
    let artifacts = folder.join("artifacts").join(&target.name);
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let program = folder
        .join("target")
        .join(host)
        .join("release")
        .join(&target.name);
    let said = Said::new(workspace, &format!("fuzz-{}-{}", target.krate, target.name))?;
    // The soft limit alone: at the hard one the kernel kills at once, and nobody could tell that from a crash.
    let limited = format!("ulimit -S -t {} && exec \"$@\"", minutes.saturating_mul(60));
    let mut command = workspace.command("sh");
    command.args(["-c", &limited, "sh"]).arg(program);
    command
        .arg(format!("-rss_limit_mb={MEMORY}"))
        .arg(format!("-malloc_limit_mb={AT_ONCE}"))
        .arg(format!("-timeout={PATIENCE}"))
        .arg(format!("-max_len={}", target.longest))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        // What is found goes here and not into the corpus that is committed.
        .arg(scratch(workspace, target)?)
        .arg(&corpus)
        .stdout(said.writer()?)
        .stderr(said.writer()?);
    let started = Instant::now();
    let status = command.status().context("the target cannot be started")?;
    let took = seconds(started.elapsed());
    let text = said.read()?;
    let good = status.signal() == Some(OUT_OF_TIME);
    if !good {
        println!("{text}");
    }
    let last = text.lines().rfind(|line| line.starts_with('#'));
    Ok(Row {
        target: target.clone(),
        minutes,
        took,
        last: last.unwrap_or("nothing").to_owned(),
        good,
    })
}

fn scratch(workspace: &Workspace, target: &Target) -> Result<std::path::PathBuf> {
    let folder = workspace
        .target()
        .join("fuzz")
        .join(target.krate)
        .join(&target.name);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

fn all(root: &Path) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for (krate, longest) in CRATES {
        let folder = root.join("crates").join(krate).join("fuzz/fuzz_targets");
        let entries =
            std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            targets.push(Target {
                krate,
                name,
                longest: *longest,
            });
        }
    }
    targets.sort_by_key(ToString::to_string);
    Ok(targets)
}

fn chosen(targets: Vec<Target>, only: &[String]) -> Result<Vec<Target>> {
    let names: Vec<_> = targets.iter().map(ToString::to_string).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
        bail!("there is no target `{unknown}`; there are {}", names.join(", "));
    }
    let wanted = |target: &Target| only.is_empty() || only.contains(&target.to_string());
    Ok(targets.into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parser_of_what_strangers_send_has_a_target() {
        let workspace = Workspace::locate().unwrap();
        let names: Vec<_> = all(workspace.root())
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        for name in [
            "bolt::framing",
            "bolt::packstream",
            "gateway::header",
            "gateway::read_only",
            "gateway::requests",
        ] {
            assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
        }
    }

    #[test]
    fn an_unknown_target_is_refused_by_name() {
        let target = Target {
            krate: "bolt",
            name: "framing".to_owned(),
            longest: 1,
        };
        let error = chosen(vec![target.clone()], &["framing".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("bolt::framing"), "{error}");
        let found = chosen(vec![target.clone()], &["bolt::framing".to_owned()]).unwrap();
        assert_eq!(found, [target]);
    }
}
