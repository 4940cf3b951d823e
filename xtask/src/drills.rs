//! `cargo xtask drills`: every drill, with the drivers of applications as clients, and one table.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;

use crate::Verdict;
use crate::drivers;
use crate::said::Said;
use crate::several::several;
use crate::tools::home;
use crate::workspace::{Workspace, capture, display, stream};

/// Rounds over all drills together, if nobody says otherwise.
const ROUNDS: u32 = 40;
/// Rounds with every official driver that each change is put through.
const MANAGED_ROUNDS: u32 = 4;

/// One in so many rounds is said while a drill goes on.
const SAID: u32 = 10;
/// How many drills each change is put through at a time. They wait for most of their time, and what they are judged by
/// there, the ledger, does not depend on the clock.
const AT_ONCE: u8 = 2;

/// How much to drill.
#[derive(Debug, Args)]
pub(crate) struct DrillArgs {
    /// Rounds over all drills together
    #[arg(long, default_value_t = ROUNDS)]
    rounds: u32,
    /// Optimised, as a release; otherwise as the tests are built
    #[arg(long)]
    release: bool,
    /// Only these drills; `alive` is kill-main with a MAIN that still takes writes, and `alive-delete`, `alive-stall` and
    /// `alive-hide` are one of its three kinds alone, which nobody drills who does not ask for them
    #[arg(long, value_name = "DRILL", value_delimiter = ',')]
    only: Vec<String>,
    /// Every official driver, with its own retries and by bolt:// and neo4j://; a switchover must then cost no error.
    /// Needs python3, node, go, a JDK and mvn
    #[arg(long)]
    managed: bool,
    /// Writes a second, of all clients of a drill together; otherwise as fast as they are answered, with a pause
    #[arg(long, value_name = "WRITES")]
    rate: Option<std::num::NonZeroU32>,
    /// A real `memgraph` program in place of the stand-in
    #[arg(long, value_name = "PATH")]
    memgraph: Option<PathBuf>,
    /// Drills at the same time. With more than one the gaps say more about the machine than about the cluster
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    at_once: u8,
}

/// Where the sandbox of a drill is, and nobody else's: a drill takes the one that it finds. Its path is short, for there
/// are sockets in it.
struct Place(PathBuf);

impl Place {
    fn new(turn: u32) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("drills-{}-{turn}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left over is in the way of nobody.
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// What the drills are called here, and how they are asked for.
const DRILLS: &[(&str, &[&str])] = &[
    ("kill-main", &["kill-main"]),
    ("alive", &["kill-main", "--alive"]),
    ("hang-main", &["hang-main"]),
    ("partition-main", &["partition-main"]),
    ("kill-sync", &["kill-sync"]),
    ("kill-operator", &["kill-operator"]),
    ("restart-all", &["restart-all"]),
    ("rolling-restart", &["rolling-restart"]),
    ("switchover", &["switchover"]),
];

/// Those that are drilled only when they are asked for: what one of the others does in turn.
const MORE: &[(&str, &[&str])] = &[
    ("alive-delete", &["kill-main", "--alive=delete"]),
    ("alive-stall", &["kill-main", "--alive=stall"]),
    ("alive-hide", &["kill-main", "--alive=hide"]),
];

/// What applications must not notice, but for a wait.
const PLANNED: &str = "switchover";

const PACKAGES: [&str; 2] = ["neo4j==6.4.1", "pymgclient==1.6.0"];

/// What every change is put through: so many rounds, on the build that the tests have made.
pub(crate) fn stage(workspace: &Workspace) -> Result<()> {
    let args = DrillArgs {
        rounds: ROUNDS,
        release: false,
        only: Vec::new(),
        managed: false,
        rate: None,
        memgraph: None,
        at_once: AT_ONCE,
    };
    passed(drills(workspace, &args)?)
}

/// The same with every official driver and its own retries, a few rounds of what they notice most.
pub(crate) fn managed_stage(workspace: &Workspace) -> Result<()> {
    let args = DrillArgs {
        rounds: MANAGED_ROUNDS,
        release: false,
        only: ["switchover", "kill-main"].map(str::to_owned).into(),
        managed: true,
        rate: None,
        memgraph: None,
        at_once: 1,
    };
    passed(drills(workspace, &args)?)
}

fn passed(verdict: Verdict) -> Result<()> {
    match verdict {
        Verdict::Good => Ok(()),
        Verdict::Bad => bail!(
            "a drill lost a write, was not done to its end or without all its clients, or a planned switchover was noticed"
        ),
    }
}

/// Drills, each on a sandbox of its own.
pub(crate) fn drills(workspace: &Workspace, args: &DrillArgs) -> Result<Verdict> {
    let drills = shared_out(&chosen(&args.only)?, args.rounds)?;
    let clients = if args.managed {
        drivers::clients(workspace)?
    } else {
        plain(workspace)?
    };
    let mainstay = build(workspace, args.release)?;
    let outcomes = several(drills, args.at_once.into(), |drill| {
        let mut command = drill.command(workspace.command(&mainstay), &clients, args);
        drill.run(workspace, &mut command)
    });
    let rows: Vec<Drilled> = outcomes.into_iter().collect::<Result<_>>()?;
    println!("\n{}", Row::HEAD);
    for drilled in &rows {
        println!("{}", Row(drilled.name, &drilled.summary));
    }
    println!("\nRules that began new terms:");
    for Drilled { name, summary, .. } in &rows {
        println!("{name:<16} {}", summary.terms());
    }
    let total: u32 = rows.iter().map(|drilled| drilled.summary.rounds).sum();
    let lost: u64 = rows.iter().map(|drilled| drilled.summary.lost).sum();
    println!("{total} rounds, {lost} acknowledged writes lost");
    Ok(if rows.iter().all(|drilled| drilled.whole) {
        Verdict::Good
    } else {
        Verdict::Bad
    })
}

/// One drill, and how often.
#[derive(Debug, Clone, Copy)]
struct Drill {
    name: &'static str,
    words: &'static [&'static str],
    rounds: u32,
    turn: u32,
}

/// What came of it.
struct Drilled {
    name: &'static str,
    summary: Summary,
    /// Every promise was kept, in every round, with every client.
    whole: bool,
}

/// Every drill that has a round.
fn shared_out(chosen: &[(&'static str, &'static [&'static str])], rounds: u32) -> Result<Vec<Drill>> {
    let drills = u32::try_from(chosen.len())?;
    let given = (0u32..).zip(chosen).map(|(turn, (name, words))| Drill {
        name,
        words,
        rounds: share(rounds, turn, drills),
        turn,
    });
    Ok(given.filter(|drill| drill.rounds > 0).collect())
}

impl Drill {
    fn command(&self, mut drill: Command, clients: &[String], args: &DrillArgs) -> Command {
        drill.arg("drill").args(self.words).arg("--json");
        drill.args(["--rounds", &self.rounds.to_string()]);
        for client in clients {
            drill.arg("--client").arg(client);
        }
        if args.managed {
            drill.args(["--writers", &clients.len().to_string()]);
        }
        match args.rate {
            Some(rate) => drill.args(["--rate", &rate.to_string()]),
            None if args.managed => drill.args(["--pace-ms", "20"]),
            None => &mut drill,
        };
        if self.name == PLANNED {
            drill.arg("--strict");
        }
        if let Some(path) = &args.memgraph {
            drill.arg("--memgraph").arg(path);
        }
        drill
    }

    fn run(self, workspace: &Workspace, drill: &mut Command) -> Result<Drilled> {
        let Self {
            name, rounds, turn, ..
        } = self;
        let place = Place::new(turn)?;
        println!("$ {}", display(drill));
        let said = Said::new(workspace, &format!("drill-{name}"))?;
        // A sandbox of its own, not one that another drill, a test or a person happens to run.
        drill.env("TMPDIR", &place.0).stderr(said.writer()?);
        let judged = judged(name, drill, rounds);
        // What it says of a write that is lost is the most important of all: never without its drill.
        for line in said.read()?.lines() {
            println!("{name}: {line}");
        }
        let (summary, mut whole) = judged?;
        println!("{}", Row(name, &summary));
        for client in summary.idle() {
            println!("{name}: {client}");
            whole = false;
        }
        Ok(Drilled { name, summary, whole })
    }
}

/// The drivers without retries: what they say of each write is what counts.
fn plain(workspace: &Workspace) -> Result<Vec<String>> {
    let python = python(workspace)?;
    let script = workspace.root().join("crates/mainstay/tests/client.py");
    let client = |driver| format!("'{}' '{}' {driver}", python.display(), script.display());
    Ok(["neo4j", "pymgclient"].map(client).into())
}

/// The last line of a drill, and whether the drill kept every promise in every round. Every other line is a round: a
/// thousand of them take an hour, so that some are said.
fn judged(name: &str, drill: &mut Command, rounds: u32) -> Result<(Summary, bool)> {
    let shown = display(drill);
    let mut child = drill
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {shown}"))?;
    let mut last = String::new();
    let said = child.stdout.take().context("a drill has no output")?;
    for (done, line) in (0u32..).zip(BufReader::new(said).lines()) {
        last = line?;
        if done > 0 && done % SAID == 0 && done < rounds {
            println!("{name}: {done} of {rounds} rounds");
        }
    }
    let status = child.wait()?;
    let summary: Summary =
        serde_json::from_str(&last).with_context(|| format!("{shown} ended with {status} and no summary"))?;
    let whole = status.success() && summary.rounds == rounds;
    Ok((summary, whole))
}

fn chosen(only: &[String]) -> Result<Vec<(&'static str, &'static [&'static str])>> {
    if only.is_empty() {
        return Ok(DRILLS.to_vec());
    }
    let all = || DRILLS.iter().chain(MORE).copied();
    if let Some(unknown) = only
        .iter()
        .find(|name| all().all(|(known, _)| known != name.as_str()))
    {
        let known: Vec<&str> = all().map(|(name, _)| name).collect();
        bail!("no drill is called `{unknown}`; there are {}", known.join(", "));
    }
    Ok(all()
        .filter(|(name, _)| only.iter().any(|one| one == name))
        .collect())
}

/// So many of all rounds fall to the one whose turn it is.
fn share(all: u32, turn: u32, drills: u32) -> u32 {
    all / drills + u32::from(turn < all % drills)
}

/// The product itself. The tests have built it with the same features, so that nothing is built twice.
fn build(workspace: &Workspace, release: bool) -> Result<PathBuf> {
    let mut build = workspace.cargo();
    build.args(["build", "--locked", "--package", "mainstay", "--all-features"]);
    build.args(["--message-format", "json-render-diagnostics"]);
    build.args(["--profile", if release { "release" } else { "test" }]);
    println!("$ {}", display(&build));
    let said = String::from_utf8(capture(&mut build)?)?;
    built(&said)
}

/// Where cargo says that it put the product.
pub(crate) fn built(said: &str) -> Result<PathBuf> {
    let program = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter_map(|message| message.executable)
        .find(|path| path.file_stem().is_some_and(|stem| stem == "mainstay"));
    program.context("cargo built no program called mainstay")
}

/// A Python with the drivers, outside the checkout; the versions are in its name.
pub(crate) fn python(workspace: &Workspace) -> Result<PathBuf> {
    let folder = home(workspace)
        .join("drivers")
        .join(format!("python-{}", PACKAGES.join("-")));
    let program = folder.join("bin/python");
    if !folder.join(".complete").exists() {
        println!("installing {} into {}", PACKAGES.join(" and "), folder.display());
        install(workspace, &folder)?;
    }
    Ok(program)
}

fn install(workspace: &Workspace, folder: &Path) -> Result<()> {
    std::fs::remove_dir_all(folder)
        .or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })
        .with_context(|| format!("cannot empty {}", folder.display()))?;
    stream(workspace.command("python3").args(["-m", "venv"]).arg(folder))
        .context("python3 with venv is needed")?;
    let mut pip = workspace.command(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]);
    stream(pip.args(PACKAGES))?;
    std::fs::write(folder.join(".complete"), "")
        .with_context(|| format!("cannot finish {}", folder.display()))
}

/// What cargo says of something that it built.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

/// What a drill says at its end, as far as it is shown here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    rounds: u32,
    gap_p50_ms: u64,
    gap_p99_ms: u64,
    gap_max_ms: u64,
    acknowledged: u64,
    failed: u64,
    unknown: u64,
    lost: u64,
    duplicated: u64,
    despite_refusal: u64,
    new_terms: BTreeMap<String, u64>,
    without_new_term: u64,
    clients: Vec<Client>,
}

/// What one client had of a drill.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Client {
    name: String,
    least_before: u64,
    least_after: u64,
}

impl Summary {
    /// How many rounds led to a new term by each rule, and how many to none: a drill that promoted nobody has not shown
    /// that a promotion loses nothing.
    fn terms(&self) -> String {
        let by_rule = self.new_terms.iter();
        let counted = by_rule.map(|(rule, rounds)| format!("{rounds} {rule}"));
        let none = (self.without_new_term > 0).then(|| format!("{} none", self.without_new_term));
        counted.chain(none).collect::<Vec<_>>().join(", ")
    }

    /// Clients of which nothing is known: the fault came before they wrote, or the round was over before they did again.
    fn idle(&self) -> Vec<String> {
        let idle = |client: &&Client| client.least_before == 0 || client.least_after == 0;
        let none = self
            .clients
            .is_empty()
            .then(|| "the drill had no clients".to_owned());
        let clients = self.clients.iter().filter(idle).map(|client| {
            let Client {
                name,
                least_before,
                least_after,
            } = client;
            format!("in some round a client had {least_before} writes before the fault and {least_after} after it: {name}")
        });
        none.into_iter().chain(clients).collect()
    }
}

/// One line of the table.
struct Row<'a>(&'a str, &'a Summary);

impl Row<'_> {
    const HEAD: &'static str = "drill            rounds  gap p50   p99   max ms    acked  failed  unknown  lost  twice  refused but there";
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, summary) = self;
        let Summary {
            rounds,
            gap_p50_ms,
            gap_p99_ms,
            gap_max_ms,
            acknowledged,
            failed,
            unknown,
            lost,
            duplicated,
            despite_refusal,
            new_terms: _,
            without_new_term: _,
            clients: _,
        } = summary;
        write!(
            f,
            "{name:<16} {rounds:>6}  {gap_p50_ms:>7} {gap_p99_ms:>5} {gap_max_ms:>8} {acknowledged:>8} {failed:>7} {unknown:>8} {lost:>5} {duplicated:>6} {despite_refusal:>18}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rounds_are_given_out() {
        for rounds in [1, 7, 40, 1_000] {
            let given = shared_out(DRILLS, rounds).unwrap();
            assert_eq!(given.iter().map(|drill| drill.rounds).sum::<u32>(), rounds);
            assert!(given.iter().all(|drill| drill.rounds > 0));
        }
    }

    fn summary(terms: &str, clients: &str) -> Summary {
        let numbers = "rounds gapP50Ms gapP99Ms gapMaxMs acknowledged failed unknown lost duplicated despiteRefusal withoutNewTerm";
        let numbers: Vec<String> = numbers
            .split(' ')
            .map(|name| format!("\"{name}\": 1, "))
            .collect();
        let numbers = numbers.concat();
        let text = format!("{{{numbers}\"newTerms\": {{{terms}}}, \"clients\": [{clients}]}}");
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_kinds_of_a_main_that_lives_are_drilled_only_by_name() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            let chosen = chosen(&only).unwrap();
            chosen.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]).len(), 9);
        assert!(!names(&[]).contains(&"alive-stall"));
        assert_eq!(
            names(&["alive-stall", "switchover"]),
            ["switchover", "alive-stall"]
        );
        let only = ["alive-stall".to_owned()];
        let given = shared_out(&chosen(&only).unwrap(), 200).unwrap();
        assert_eq!(
            (given[0].rounds, given[0].words),
            (200, &["kill-main", "--alive=stall"][..])
        );
    }

    #[test]
    fn it_is_said_how_many_rounds_promoted_somebody() {
        let terms = |terms| summary(terms, "").terms();
        assert_eq!(
            terms(r#""FAILOVER": 67, "SWITCHOVER": 66"#),
            "67 FAILOVER, 66 SWITCHOVER, 1 none"
        );
        assert_eq!(terms(""), "1 none");
    }

    #[test]
    fn a_drill_without_one_of_its_clients_is_none() {
        let summary = |clients: &str| summary("", clients);
        let client =
            |before, after| format!(r#"{{"name": "java", "leastBefore": {before}, "leastAfter": {after}}}"#);
        assert!(summary(&client(1, 1)).idle().is_empty());
        for (before, after) in [(0, 1), (1, 0)] {
            let both = format!("{}, {}", client(1, 1), client(before, after));
            let idle = summary(&both).idle();
            assert!(idle.len() == 1 && idle[0].ends_with(": java"), "{idle:?}");
        }
        assert_eq!(summary("").idle().len(), 1);
    }

    #[test]
    fn an_unknown_drill_is_refused_by_name() {
        let error = chosen(&["kill-mian".to_owned()]).unwrap_err().to_string();
        assert!(
            error.contains("`kill-mian`") && error.contains("kill-main"),
            "{error}"
        );
    }
}
