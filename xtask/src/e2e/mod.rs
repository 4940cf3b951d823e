//! `cargo xtask e2e`: the charts and the image on a real Kubernetes with nodes, and what clients notice.

mod cassandra;
mod goals;
mod ledger;
mod look;
mod nights;
mod nodes;
mod place;
mod pods;
mod resets;
mod rights;
mod ring;
mod suites;
mod table;
mod undo;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use clap::{Args, Subcommand};

use crate::Verdict;
use crate::image;
use crate::packages::{self, Needed};
use crate::workspace::Workspace;
use ledger::Heard;
use place::{Databases, Place, Profile};
use suites::{SUITES, Suite};
use table::Row;

/// Something else than the suites on Kubernetes.
#[derive(Debug, Subcommand)]
enum Other {
    /// Three real Cassandra nodes on this machine: lose their disks in every way, and read every row back
    Cassandra(cassandra::CassandraArgs),
}

/// What to run, and on what.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct E2eArgs {
    #[command(subcommand)]
    other: Option<Other>,
    /// How many nodes
    #[arg(long, default_value_t = 3)]
    nodes: u8,
    /// Only these suites
    #[arg(long, value_name = "SUITE", value_delimiter = ',')]
    only: Vec<String>,
    /// How often each suite is run
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// A program that was built before for the image, statically linked
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// A real `memgraph` program for the databases, with the libraries it is linked with; the stand-in if not given
    #[arg(long, value_name = "PATH", conflicts_with = "again")]
    memgraph: Option<PathBuf>,
    /// Which Memgraph the stand-ins imitate; 3.6 is what memgraph-controller was measured with
    #[arg(long, value_name = "VERSION", default_value = Profile::V3_12.name(), conflicts_with_all = ["memgraph", "again"])]
    profile: Profile,
    /// The operator serves one namespace, with a Role and no ClusterRole
    #[arg(long)]
    one_namespace: bool,
    /// Leave the Kubernetes running, to look at it; the next run replaces it
    #[arg(long)]
    keep: bool,
    /// On the Kubernetes that `--keep` left running, with what is installed there
    #[arg(long)]
    again: bool,
    /// Print the suites, and run none
    #[arg(long)]
    list: bool,
}

/// What the distribution brings, and the package it comes in.
const NEEDED: &[Needed] = &[
    (&["containerd", "ctr"], "containerd"),
    (&["runc"], "runc"),
    (&["iptables"], "iptables"),
    (&["/usr/lib/cni/bridge"], "containernetworking-plugins"),
];
/// The same, to build a program that is statically linked.
const BUILDING: &[Needed] = &[(&["musl-gcc"], "musl-tools")];

/// All that was run. What went wrong does not take away what was measured.
#[derive(Default)]
struct Went {
    rows: Vec<Row>,
    failed: Vec<(&'static str, Error)>,
}

impl Went {
    fn failed(&mut self, place: &Place<'_>, name: &'static str, error: Error) {
        println!("FAILED {name}: {error:#}");
        place.tell();
        self.failed.push((name, error));
    }
}

impl Went {
    /// What a person had to decide is a failure of the suite after which he had to, whatever its clients noticed.
    fn needed_a_human(&mut self, place: &Place<'_>, error: &Error) {
        let name = self.rows.last_mut().map_or("start", |row| {
            row.failed = true;
            row.suite.name
        });
        self.failed(place, name, anyhow!("needed a human: {error:#}"));
    }
}

/// Starts everything, runs the suites, and ends everything also when one of them fails.
pub(crate) fn e2e(workspace: &Workspace, args: &E2eArgs) -> Result<Verdict> {
    if let Some(Other::Cassandra(args)) = &args.other {
        return cassandra::run(workspace, args);
    }
    if args.list {
        for suite in SUITES {
            println!("{:20} {}", suite.name, suite.about);
        }
        return Ok(Verdict::Good);
    }
    ensure!((1..=9).contains(&args.nodes), "--nodes is 1 to 9");
    let chosen = chosen(&args.only, args.one_namespace)?;
    let program = args.program.as_deref();
    let mut went = Went::default();
    let place = if args.again {
        Place::found(workspace, args.nodes, program)?
    } else {
        packages::ensure(workspace, NEEDED)?;
        if program.is_none() {
            packages::ensure(workspace, BUILDING)?;
            image::ensure_target(workspace);
        }
        let databases = match args.memgraph.as_deref() {
            Some(program) => Databases::Real(program),
            None => Databases::StandIn(args.profile),
        };
        let place = Place::prepare(workspace, args.nodes, program, databases)?;
        println!("databases: {}", place.databases());
        if let Err(error) = place.up().and_then(|()| install(&place, args)) {
            went.failed(&place, "start", error);
        }
        place
    };
    if went.failed.is_empty() {
        run(&place, &chosen, args.rounds, &mut went);
    }
    // An operator of one namespace is refused what it may do without.
    if !went.rows.is_empty() && !args.one_namespace {
        println!("\n== rights: none is missing, and every verb of the chart is needed");
        // A part of the suites does not need every right.
        let all = went.failed.is_empty() && chosen.len() == SUITES.len();
        if let Err(error) = rights::check(&place, all) {
            went.failed.push(("rights", error));
        }
    }
    let ended = if args.keep {
        println!("left running: {}", place.kubeconfig().display());
        Ok(())
    } else {
        place.down()
    };
    let verdict = tell(&place, &went);
    ended.map(|()| verdict)
}

/// The table, and what is wrong. A goal that was missed is said, and is no failure.
fn tell(place: &Place<'_>, went: &Went) -> Verdict {
    let Went { rows, failed } = went;
    println!("\n{}", table::table(place.databases(), rows));
    for missed in table::missed(rows) {
        println!("MISSED {missed}");
    }
    let broken = table::broken(rows);
    for broken in &broken {
        println!("{broken}");
    }
    for (name, error) in failed {
        println!("FAILED {name}: {error:#}");
    }
    if broken.is_empty() && failed.is_empty() {
        Verdict::Good
    } else {
        Verdict::Bad
    }
}

fn install(place: &Place<'_>, args: &E2eArgs) -> Result<()> {
    let began = Instant::now();
    place.install(args.one_namespace)?;
    place.until_protected()?;
    println!(
        "serving and protected {:.1} s after the charts were installed",
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

/// A suite that fails does not keep the others from being run, if the cluster becomes whole again.
fn run(place: &Place<'_>, chosen: &[&'static Suite], rounds: u32, went: &mut Went) {
    for suite in chosen {
        for round in 1..=rounds {
            if let Err(error) = place.until_whole() {
                went.needed_a_human(place, &error);
                if let Err(error) = place.approve_and_wait() {
                    let error = error.context(
                        "the cluster does not become whole: neither this suite nor a later one was run",
                    );
                    went.failed(place, suite.name, error);
                    return;
                }
            }
            if let Err(error) = play(place, suite, round, &mut went.rows) {
                went.failed(place, suite.name, error);
            }
        }
    }
}

/// What was counted is kept, whether the fault went well or not.
fn play(place: &Place<'_>, suite: &'static Suite, round: u32, rows: &mut Vec<Row>) -> Result<()> {
    let name = suite.name;
    println!("\n== {name} {round}: {}", suite.about);
    (suite.before)(place).context("before clients wrote")?;
    let (began, term) = (Instant::now(), place.term()?);
    let Heard { counted, fault } = ledger::during(place, suite.fault)?;
    let took = began.elapsed();
    if !counted.last_error.is_empty() {
        println!("the last error of a client: {}", counted.last_error);
    }
    let acknowledged = counted.acknowledged;
    println!("== {name} {round}: {:.1} s: {counted:?}", took.as_secs_f64());
    rows.push(Row {
        suite,
        took,
        counted,
        failed: fault.is_err() || acknowledged == 0,
    });
    fault?;
    ensure!(acknowledged > 0, "nothing was acknowledged");
    for term in place.terms_after(term)? {
        println!("{term}");
    }
    Ok(())
}

fn chosen(only: &[String], one_namespace: bool) -> Result<Vec<&'static Suite>> {
    let known = || {
        SUITES
            .iter()
            .map(|suite| suite.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    for name in only {
        match SUITES.iter().find(|suite| suite.name == name) {
            None => bail!("there is no suite `{name}`; there are {}", known()),
            Some(suite) if suite.everywhere && one_namespace => {
                bail!("the suite `{name}` needs an operator of all namespaces: leave --one-namespace out")
            }
            Some(_) => {}
        }
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
    Ok(SUITES
        .iter()
        .filter(|suite| wanted(suite.name) && !(suite.everywhere && one_namespace))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, one_namespace: bool) -> String {
        let refused = chosen(&[name.to_owned()], one_namespace);
        refused.err().unwrap().to_string()
    }

    #[test]
    fn a_suite_that_does_not_exist_is_refused_by_name() {
        let error = refused("boostrap", false);
        assert!(
            error.contains("`boostrap`") && error.contains("bootstrap"),
            "{error}"
        );
        assert_eq!(chosen(&[], false).unwrap().len(), SUITES.len());
    }

    #[test]
    fn with_one_namespace_nothing_is_run_that_needs_another() {
        let run = chosen(&[], true).unwrap();
        assert!(run.len() < SUITES.len() && run.iter().all(|suite| !suite.everywhere));
        assert!(refused("ring", true).contains("all namespaces"));
        assert!(chosen(&["ring".to_owned()], false).is_ok());
    }
}
