//! `cargo xtask test`: the stages, cheap ones first.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;

use crate::Verdict;
use crate::beside::{self, Beside, Pace};
use crate::charts;
use crate::checks;
use crate::conformance;
use crate::drills;
use crate::lanes;
use crate::said::Said;
use crate::summary::{Outcome, Summary, seconds};
use crate::tools;
use crate::watch::Watch;
use crate::workspace::{Workspace, display, stream};

/// What of it to run.
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Run only these stages
    #[arg(long, value_name = "STAGE", value_delimiter = ',')]
    only: Vec<String>,
    /// Leave these stages out
    #[arg(long, value_name = "STAGE", value_delimiter = ',')]
    skip: Vec<String>,
    /// Print the stages and what they do, and run none
    #[arg(long)]
    list: bool,
}

/// One thing that can be wrong with a change.
#[derive(Debug, Clone, Copy)]
struct Stage {
    name: &'static str,
    about: &'static str,
    /// Several times what it takes on two cores when everything has to be built; one that takes longer hangs.
    minutes: u64,
    run: Run,
}

#[derive(Debug, Clone, Copy)]
enum Run {
    /// cargo with these arguments.
    Cargo(&'static [&'static str]),
    /// A check of our own.
    Check(fn(&Workspace) -> Result<()>),
    /// The simulation's command line, optimised, with these arguments.
    Sim(&'static [&'static str]),
}

/// Everything before the simulation. `--locked` everywhere: a run must not
/// change what is being judged.
const STAGES: &[Stage] = &[
    Stage {
        name: "fmt",
        about: "the code is formatted",
        minutes: 5,
        run: Run::Cargo(&["fmt", "--all", "--check"]),
    },
    Stage {
        name: "hygiene",
        about: "file length, unfinished code, machine paths, README and CI agree",
        minutes: 5,
        run: Run::Check(checks::repository),
    },
    Stage {
        name: "dependencies",
        about: "who may depend on whom; the pure crates stay pure",
        minutes: 5,
        run: Run::Check(checks::dependencies),
    },
    Stage {
        name: "clippy",
        about: "no warning, in any target, with every feature",
        minutes: 30,
        run: Run::Cargo(&[
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ]),
    },
    Stage {
        name: "clippy-product",
        about: "no warning in the core as the product builds it, without test-only features",
        minutes: 15,
        run: Run::Cargo(&[
            "clippy",
            "--locked",
            "--package",
            "mainstay-core",
            "--lib",
            "--",
            "-D",
            "warnings",
        ]),
    },
    Stage {
        name: "deny",
        about: "licences, banned crates and sources of all dependencies",
        minutes: 30,
        run: Run::Check(deny),
    },
    Stage {
        name: "charts",
        about: "the charts are linted, render what is committed, and refuse bad values; needs go once",
        minutes: 20,
        run: Run::Check(charts::stage),
    },
    Stage {
        name: "test",
        about: "unit, integration and documentation tests, with every feature, several programs at once",
        minutes: 50,
        run: Run::Check(lanes::stage),
    },
    Stage {
        name: "conformance",
        about: "the Memgraph stand-in does what the operator relies on, as every release it imitates",
        minutes: 30,
        run: Run::Check(conformance::stand_in),
    },
    Stage {
        name: "drivers",
        about: "the drivers of applications work with the stand-in; needs python3, node, npm and go",
        minutes: 30,
        run: Run::Cargo(&[
            "test",
            "--locked",
            "--workspace",
            "--all-features",
            "--test",
            "standin_drivers",
            "--",
            "--ignored",
        ]),
    },
    Stage {
        name: "drills",
        about: "40 rounds over all drills with the drivers of applications: nothing acknowledged is lost; needs python3",
        minutes: 30,
        run: Run::Check(drills::stage),
    },
    Stage {
        name: "drills-managed",
        about: "every official driver with its own retries: a switchover costs no error, a crash no acknowledged write; needs python3, node, npm, go, a JDK and mvn",
        minutes: 30,
        run: Run::Check(drills::managed_stage),
    },
];

/// Runs of the explorer and the simulation: the name of the stage, then the
/// arguments after `cargo run --release -p sim --`. Exit code 0 is a pass, any
/// other fails the stage. Cheapest first; the worlds are those that are exhausted in a minute or two, more than
/// two million states in all.
///
/// Every random run has a fixed seed: the same change must get the same verdict.
const SIM_STAGES: &[(&str, &[&str])] = &[
    ("simulate", &["run", "--seeds", "5000", "--jobs", "2"]),
    (
        "simulate-nights",
        &["run", "--world", "hibernation", "--seeds", "3000", "--jobs", "2"],
    ),
    (
        "simulate-ring",
        &["run", "--world", "ring", "--seeds", "3000", "--jobs", "2"],
    ),
    (
        "explore",
        &[
            "explore",
            "--require-exhausted",
            "--only",
            "K1",
            "--only",
            "K2",
            "--only",
            "L1",
            "--only",
            "S1",
            "--only",
            "S3",
            "--only",
            "S4",
            "--only",
            "S5d",
            "--only",
            "W6c",
        ],
    ),
];

/// Run the chosen stages in order, up to the first that fails.
pub(crate) fn test(workspace: &Workspace, args: &TestArgs) -> Result<Verdict> {
    let stages = all();
    if args.list {
        for stage in &stages {
            println!("{:16} {}", stage.name, stage.about);
        }
        return Ok(Verdict::Good);
    }
    let choice = Choice::new(&stages, &args.only, &args.skip)?;
    let apart = |stage: &Stage, pace| perform_apart(workspace, stage, pace);
    let summary = run_all(&stages, &choice, |stage| perform(workspace, stage), apart);
    println!("\n{summary}");
    Ok(if summary.failed() {
        Verdict::Bad
    } else {
        Verdict::Good
    })
}

fn all() -> Vec<Stage> {
    let sim = SIM_STAGES.iter().map(|(name, args)| Stage {
        name,
        about: "a run of the explorer or the simulation",
        minutes: 60,
        run: Run::Sim(args),
    });
    STAGES.iter().copied().chain(sim).collect()
}

fn run_all(
    stages: &[Stage],
    choice: &Choice,
    mut perform: impl FnMut(&Stage) -> Result<()>,
    apart: impl Fn(&Stage, Pace) -> Result<()> + Sync,
) -> Summary {
    let begun = Instant::now();
    let mut summary = Summary::default();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut beside = Beside::default();
        for stage in stages {
            if !choice.wants(stage.name) {
                summary.add(stage.name, Outcome::Skipped);
                continue;
            }
            if summary.failed() {
                stop.store(true, Ordering::Relaxed);
            }
            if let Some(outcome) = beside.outcome(stage.name) {
                summary.add(stage.name, outcome);
                continue;
            }
            if summary.failed() {
                summary.add(stage.name, Outcome::NotRun);
                continue;
            }
            println!("\n== {}: {}", stage.name, stage.about);
            if stage.name == beside::WITH {
                beside = Beside::begin(scope, &stop, |names, pace| {
                    let wanted = |s: &&Stage| names.contains(&s.name) && choice.wants(s.name);
                    let stages: Vec<&Stage> = stages.iter().filter(wanted).collect();
                    let apart = &apart;
                    let run = move |stage: &&Stage| timed(stage, |stage| apart(stage, pace));
                    stages
                        .into_iter()
                        .map(move |s| (s.name, Box::new(move || run(&s)) as _))
                        .collect()
                });
            }
            summary.add(stage.name, timed(stage, &mut perform));
        }
    });
    summary.ended(begun.elapsed());
    summary
}

fn timed(stage: &Stage, mut perform: impl FnMut(&Stage) -> Result<()>) -> Outcome {
    let started = Instant::now();
    let watch = Watch::over(stage.name, Duration::from_secs(60 * stage.minutes));
    let result = perform(stage);
    drop(watch);
    let took = started.elapsed();
    match result {
        Ok(()) => {
            println!("== {}: ok in {} s", stage.name, seconds(took));
            Outcome::Ok(took)
        }
        Err(error) => {
            println!("== {}: FAILED after {} s: {error:#}", stage.name, seconds(took));
            Outcome::Failed(took)
        }
    }
}

/// In a process of its own, whose words come when it ended.
fn perform_apart(workspace: &Workspace, stage: &Stage, pace: Pace) -> Result<()> {
    let said = Said::new(workspace, stage.name)?;
    // Not by its path: the build of the tests puts another file there.
    let this = format!("/proc/{}/exe", std::process::id());
    let mut command = match pace {
        Pace::Equal => workspace.command(this),
        Pace::Gentle => {
            let mut command = workspace.command("nice");
            command.args(["-n", "19", &this]);
            command
        }
    };
    command
        .args(["test", "--only", stage.name])
        .env("CARGO_MANIFEST_DIR", workspace.root().join("xtask"))
        .stdout(said.writer()?)
        .stderr(said.writer()?);
    let result = stream(&mut command);
    println!("{}", said.read()?);
    result
}

fn perform(workspace: &Workspace, stage: &Stage) -> Result<()> {
    let mut command = workspace.cargo();
    match stage.run {
        Run::Check(check) => return check(workspace),
        Run::Cargo(args) => command.args(args),
        Run::Sim(args) => command
            .args(["run", "--locked", "--release", "--package", "sim", "--"])
            .args(args),
    };
    println!("$ {}", display(&command));
    stream(&mut command)
}

/// Advisories are left out: they change without us, so a change that was good
/// yesterday would fail today.
fn deny(workspace: &Workspace) -> Result<()> {
    let program = tools::DENY.ensure(workspace)?;
    let mut command = workspace.command(program);
    command.args([
        "--locked",
        "--all-features",
        "check",
        "bans",
        "licenses",
        "sources",
    ]);
    println!("$ {}", display(&command));
    stream(&mut command)
}

/// Which stages were asked for; every name in it exists.
#[derive(Debug)]
struct Choice {
    only: Vec<String>,
    skip: Vec<String>,
}

impl Choice {
    fn new(stages: &[Stage], only: &[String], skip: &[String]) -> Result<Self> {
        for name in only.iter().chain(skip) {
            if !stages.iter().any(|stage| stage.name == name) {
                let known: Vec<_> = stages.iter().map(|stage| stage.name).collect();
                bail!("there is no stage `{name}`; there are {}", known.join(", "));
            }
        }
        let choice = Self {
            only: only.to_vec(),
            skip: skip.to_vec(),
        };
        if !stages.iter().any(|stage| choice.wants(stage.name)) {
            bail!("no stage is left to run");
        }
        Ok(choice)
    }

    fn wants(&self, name: &str) -> bool {
        let among = |list: &[String]| list.iter().any(|entry| entry == name);
        (self.only.is_empty() || among(&self.only)) && !among(&self.skip)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use anyhow::anyhow;

    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    fn choose(only: &[&str], skip: &[&str]) -> Result<Choice> {
        Choice::new(&all(), &names(only), &names(skip))
    }

    fn ran(choice: &Choice, failing: &str) -> (Vec<&'static str>, Summary) {
        let ran = Mutex::new(Vec::new());
        let perform = |stage: &Stage| {
            ran.lock().unwrap().push(stage.name);
            if stage.name == failing {
                Err(anyhow!("as told"))
            } else {
                Ok(())
            }
        };
        let summary = run_all(&all(), choice, perform, |stage, _| perform(stage));
        (ran.into_inner().unwrap(), summary)
    }

    #[test]
    fn every_stage_has_a_name_of_its_own() {
        let stages = all();
        let names: BTreeSet<_> = stages.iter().map(|stage| stage.name).collect();
        assert_eq!(names.len(), stages.len());
    }

    #[test]
    fn every_stage_runs_when_nothing_is_chosen() {
        let (ran, summary) = ran(&choose(&[], &[]).unwrap(), "none");
        assert_eq!(ran.len(), all().len());
        assert!(!summary.failed());
    }

    #[test]
    fn nothing_runs_after_a_failure() {
        let (ran, summary) = ran(&choose(&[], &[]).unwrap(), "hygiene");
        assert_eq!(ran, ["fmt", "hygiene"]);
        assert!(summary.failed());
        assert!(summary.to_string().contains("not run"));
    }

    #[test]
    fn what_fails_beside_the_tests_fails_the_run() {
        let (ran, summary) = ran(&choose(&[], &[]).unwrap(), "conformance");
        assert!(summary.failed());
        assert!(ran.contains(&"test") && !ran.contains(&"drills"));
        let (ran, summary) = self::ran(&choose(&[], &[]).unwrap(), "simulate");
        assert!(summary.failed());
        assert!(
            ran.contains(&"drills") && !ran.contains(&"explore"),
            "its lane ends"
        );
    }

    #[test]
    fn every_stage_beside_the_others_exists_and_comes_after_the_tests() {
        let names: Vec<_> = all().iter().map(|stage| stage.name).collect();
        let place = |name: &str| names.iter().position(|n| *n == name).unwrap();
        for (beside, _) in beside::LANES {
            for name in *beside {
                assert!(place(name) > place(beside::WITH), "{name}");
            }
        }
    }

    #[test]
    fn only_and_skip_choose_and_skip_wins() {
        let (ran_stages, _) = ran(&choose(&["test", "fmt"], &[]).unwrap(), "none");
        assert_eq!(ran_stages, ["fmt", "test"]);
        let (ran_stages, _) = ran(&choose(&["test", "fmt"], &["fmt"]).unwrap(), "none");
        assert_eq!(ran_stages, ["test"]);
        let (ran_stages, _) = ran(&choose(&[], &["deny"]).unwrap(), "none");
        assert!(!ran_stages.contains(&"deny") && ran_stages.contains(&"clippy"));
    }

    #[test]
    fn a_stage_that_does_not_exist_is_an_error_and_not_an_empty_pass() {
        let error = choose(&["tset"], &[]).unwrap_err().to_string();
        assert!(error.contains("`tset`") && error.contains("test"), "{error}");
        assert!(choose(&["fmt"], &["fmt"]).is_err());
    }

    #[test]
    fn every_stage_that_resolves_dependencies_is_locked() {
        for stage in STAGES {
            if let Run::Cargo(args) = stage.run {
                assert!(
                    args.contains(&"--locked") || stage.name == "fmt",
                    "{}",
                    stage.name
                );
            }
        }
    }
}
