//! `cargo xtask mutants`: would the tests notice a wrong protocol?

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::Verdict;
use crate::tools;
use crate::workspace::{Workspace, display};

/// The crate that is broken on purpose, and the part of it that matters most: what decides, and what judges.
const PACKAGE: &str = "mainstay-core";
const DECISIONS: &[&str] = &[
    "crates/core/src/memgraph/async_pods.rs",
    "crates/core/src/memgraph/bootstrap.rs",
    "crates/core/src/memgraph/claim.rs",
    "crates/core/src/memgraph/decide.rs",
    "crates/core/src/memgraph/failover.rs",
    "crates/core/src/memgraph/gate.rs",
    "crates/core/src/memgraph/hibernation.rs",
    "crates/core/src/memgraph/observed.rs",
    "crates/core/src/memgraph/overriding.rs",
    "crates/core/src/memgraph/pair.rs",
    "crates/core/src/memgraph/prepare.rs",
    "crates/core/src/memgraph/record.rs",
    "crates/core/src/memgraph/reset.rs",
    "crates/core/src/memgraph/serving.rs",
    "crates/core/src/memgraph/switchover.rs",
    "crates/core/src/memgraph/term.rs",
    "crates/core/src/memgraph/turn.rs",
    "crates/core/src/memgraph/view.rs",
];
const JUDGES: &[&str] = &["crates/core/src/memgraph/invariants/*.rs"];

/// Some of the tests against some of the mutants.
struct Round {
    files: &'static [&'static [&'static str]],
    /// Which test program. Also the build is told: one of all of them takes four times as long, for each mutant.
    program: &'static str,
    /// Which of its tests.
    tests: &'static [&'static str],
}

/// What a round caught the next one leaves out. Each mutant is compiled with the tests that judge it, so the tables,
/// which compile soonest and catch most, come first, and the plans drawn at random, which take ten seconds, last.
const ROUNDS: &[Round] = &[
    Round {
        files: &[DECISIONS],
        program: "--test=decisions",
        tests: &[],
    },
    Round {
        files: &[DECISIONS, JUDGES],
        program: "--lib",
        tests: &["memgraph", "--skip", "decided::"],
    },
    Round {
        files: &[DECISIONS, JUDGES],
        program: "--lib",
        tests: &["decided::"],
    },
];

/// The packages whose tests judge a mutant.
const TEST_PACKAGES: &[&str] = &["mainstay-core"];

/// The profile of those tests: quick to build.
const PROFILE: &str = "mutants";

/// Seconds a mutant's tests get at least. The tool takes five times the
/// baseline; on a busy machine that is too little for tests of a second.
const MINIMUM_TIMEOUT: &str = "60";

/// Mutants that say nothing about the protocol: a regular expression on the
/// name of the mutant, and why.
const EXCLUDED: &[(&str, &str)] = &[
    (r"impl (\w+::)*Display for", "wording, for people"),
    (r"impl (\w+::)*Debug for", "wording, for developers"),
];

/// Percent of the viable mutants that the tests must notice.
const THRESHOLD: usize = 85;

/// What to break, and how fast.
#[derive(Debug, Args)]
pub(crate) struct MutantsArgs {
    /// Break only files that match, instead of the protocol
    #[arg(long, value_name = "GLOB")]
    file: Vec<String>,
    /// Run one part of all mutants: k/n, with k from 0 to n-1
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Mutants tested at once; each has a copy of the tree and a build of its own
    #[arg(long, default_value_t = 1)]
    jobs: u8,
    /// Print the mutants and test none
    #[arg(long)]
    list: bool,
}

/// Part `k` of `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shard {
    k: u32,
    n: u32,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.parse::<u32>().map_err(|error| format!("`{part}`: {error}"));
        let (k, n) = text.split_once('/').ok_or("expected k/n")?;
        let (k, n) = (number(k)?, number(n)?);
        if k < n {
            Ok(Self { k, n })
        } else {
            Err(format!("{k} is not below {n}"))
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.k, self.n)
    }
}

/// Break, test, count.
pub(crate) fn mutants(workspace: &Workspace, args: &MutantsArgs) -> Result<Verdict> {
    let program = tools::MUTANTS.ensure(workspace)?;
    let folder = output_folder(workspace, args.shard);
    let output = folder.join("mutants.out");
    // What an earlier run caught says nothing about today's tests.
    if output.exists() {
        fs::remove_dir_all(&output).with_context(|| format!("cannot remove {}", output.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let start = |round: &Round| {
        let mut command = workspace.command(&program);
        command
            .args(arguments(args, round))
            .arg("--output")
            .arg(&folder)
            // The copies of the tree must not share one target folder.
            .env_remove("CARGO_TARGET_DIR");
        command
    };
    if args.list {
        return list(start);
    }
    let mut tally = Tally::default();
    for round in ROUNDS {
        let mut command = start(round);
        command.args(["--iterate", "--", "--"]).args(round.tests);
        run(&mut command)?;
        tally.then(Tally::read(&output)?);
    }
    println!("\n{tally}");
    println!("details: {}", output.display());
    tally.verdict()
}

/// The last round has every file.
fn list(start: impl Fn(&Round) -> Command) -> Result<Verdict> {
    let round = ROUNDS.last().context("there are no rounds")?;
    run(start(round).arg("--list"))?;
    Ok(Verdict::Good)
}

fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", display(command));
    let status = command.status().context("cannot start cargo-mutants")?;
    // 2: some survived, 3: some timed out. Both are for us to judge. All other
    // failures (usage, a baseline that is already red) tell nothing about mutants.
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        bail!("cargo-mutants ended with {status}");
    }
    Ok(())
}

/// In the target folder: ignored by git, and not copied with the tree.
fn output_folder(workspace: &Workspace, shard: Option<Shard>) -> PathBuf {
    let folder = workspace.target().join("mutants");
    // Shards may run side by side.
    match shard {
        None => folder,
        Some(Shard { k, n }) => folder.join(format!("{k}-of-{n}")),
    }
}

fn arguments(args: &MutantsArgs, round: &Round) -> Vec<String> {
    let MutantsArgs {
        file,
        shard,
        jobs,
        list: _,
    } = args;
    let mut list: Vec<String> = ["mutants", "--no-config", "--all-features", "--cargo-arg=--locked"]
        .into_iter()
        .map(str::to_owned)
        .collect();
    list.push(format!("--cargo-arg={}", round.program));
    let mut option = |name: &str, value: &str| list.extend([name.to_owned(), value.to_owned()]);
    option("--package", PACKAGE);
    for package in TEST_PACKAGES {
        option("--test-package", package);
    }
    option("--profile", PROFILE);
    option("--baseline", "run");
    option("--minimum-test-timeout", MINIMUM_TIMEOUT);
    option("--jobs", &jobs.to_string());
    if file.is_empty() {
        for glob in round.files.iter().copied().flatten() {
            option("--file", glob);
        }
    }
    for glob in file {
        option("--file", glob);
    }
    for (pattern, _why) in EXCLUDED {
        option("--exclude-re", pattern);
    }
    if let Some(shard) = shard {
        option("--shard", &shard.to_string());
        // Neighbours are alike; this way every shard sees every file.
        option("--sharding", "round-robin");
    }
    list
}

/// What became of the mutants, by name.
#[derive(Debug, Default)]
struct Tally {
    caught: Vec<String>,
    missed: Vec<String>,
    timeout: Vec<String>,
    unviable: Vec<String>,
}

impl Tally {
    fn read(folder: &Path) -> Result<Self> {
        let list = |name: &str| -> Result<Vec<String>> {
            let path = folder.join(name);
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            Ok(names(&text))
        };
        Ok(Self {
            caught: list("caught.txt")?,
            missed: list("missed.txt")?,
            timeout: list("timeout.txt")?,
            unviable: list("unviable.txt")?,
        })
    }

    /// A further round, against those that no round before it caught.
    fn then(&mut self, round: Self) {
        let Self {
            caught,
            missed,
            timeout,
            unviable,
        } = round;
        self.caught.extend(caught);
        self.unviable.extend(unviable);
        (self.missed, self.timeout) = (missed, timeout);
    }

    /// Those that build. A timeout counts as viable and not as caught: on a
    /// busy machine it may be the machine that was noticed.
    fn viable(&self) -> usize {
        self.caught.len() + self.missed.len() + self.timeout.len()
    }

    fn verdict(&self) -> Result<Verdict> {
        if self.viable() == 0 {
            bail!("no mutant was viable: nothing was tested");
        }
        let enough = self.caught.len() * 100 >= THRESHOLD * self.viable();
        Ok(if enough { Verdict::Good } else { Verdict::Bad })
    }

    /// Tenths of a percent, rounded down: 84.99 must not read as 85.
    fn permille(&self) -> usize {
        (self.caught.len() * 1000).checked_div(self.viable()).unwrap_or(0)
    }
}

fn names(text: &str) -> Vec<String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            caught,
            missed,
            timeout,
            unviable,
        } = self;
        for name in missed {
            writeln!(f, "survived: {name}")?;
        }
        for name in timeout {
            writeln!(f, "timed out: {name}")?;
        }
        writeln!(
            f,
            "caught {}, missed {}, timeout {}, unviable {}",
            caught.len(),
            missed.len(),
            timeout.len(),
            unviable.len()
        )?;
        let permille = self.permille();
        write!(
            f,
            "{}.{} % of {} viable mutants caught; {THRESHOLD} % are required",
            permille / 10,
            permille % 10,
            self.viable()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("mutant {n}")).collect()
    }

    fn tally(caught: usize, missed: usize, timeout: usize) -> Tally {
        Tally {
            caught: some(caught),
            missed: some(missed),
            timeout: some(timeout),
            unviable: some(3),
        }
    }

    #[test]
    fn the_threshold_itself_is_enough_and_one_less_is_not() {
        assert_eq!(tally(85, 15, 0).verdict().unwrap(), Verdict::Good);
        assert_eq!(tally(84, 16, 0).verdict().unwrap(), Verdict::Bad);
        assert_eq!(tally(8_499, 1_501, 0).verdict().unwrap(), Verdict::Bad);
    }

    #[test]
    fn a_timeout_is_not_a_catch() {
        assert_eq!(tally(84, 0, 16).verdict().unwrap(), Verdict::Bad);
    }

    #[test]
    fn no_mutants_is_no_success() {
        assert!(tally(0, 0, 0).verdict().is_err());
    }

    #[test]
    fn the_report_names_survivors_and_rounds_down() {
        let tally = Tally {
            caught: some(8_499),
            missed: vec!["a.rs:1: replace x".to_owned()],
            timeout: some(1_500),
            unviable: vec![],
        };
        let text = tally.to_string();
        assert!(text.starts_with("survived: a.rs:1: replace x\n"), "{text}");
        assert!(
            text.contains("caught 8499, missed 1, timeout 1500, unviable 0"),
            "{text}"
        );
        assert!(text.contains("84.9 % of 10000 viable"), "{text}");
    }

    #[test]
    fn a_shard_is_a_part_that_exists() {
        assert_eq!("0/4".parse(), Ok(Shard { k: 0, n: 4 }));
        assert_eq!("3/4".parse(), Ok(Shard { k: 3, n: 4 }));
        for bad in ["4/4", "1", "a/2", "1/0", "-1/2", ""] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_glob_of_the_caller_replaces_the_usual_files() {
        let args = |file: &[&str], shard| {
            let args = MutantsArgs {
                file: file.iter().map(|f| (*f).to_owned()).collect(),
                shard,
                jobs: 2,
                list: false,
            };
            arguments(&args, ROUNDS.last().unwrap()).join(" ")
        };
        assert!(args(&[], None).contains("--file crates/core/src/memgraph/decide.rs"));
        let own = args(&["a/*.rs"], Some(Shard { k: 1, n: 3 }));
        assert!(
            own.contains("--file a/*.rs") && !own.contains("memgraph"),
            "{own}"
        );
        assert!(own.contains("--shard 1/3") && own.contains("--jobs 2"), "{own}");
        assert!(
            own.contains("--cargo-arg=--lib "),
            "only what is run is built: {own}"
        );
    }

    #[test]
    fn a_later_round_only_adds_to_what_is_caught() {
        let mut all = tally(80, 20, 0);
        all.then(Tally {
            caught: some(15),
            missed: some(4),
            timeout: some(1),
            unviable: vec![],
        });
        assert_eq!((all.caught.len(), all.missed.len()), (95, 4));
        assert_eq!((all.viable(), all.unviable.len()), (100, 3));
    }

    #[test]
    fn a_list_of_names_is_read_line_by_line() {
        assert_eq!(names("a\nb\n\n"), ["a", "b"]);
        assert!(names("").is_empty());
    }
}
