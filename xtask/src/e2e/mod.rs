//! `cargo xtask e2e`: the charts and the image on a real Kubernetes with nodes, and what clients notice.

mod cassandra;
mod ledger;
mod look;
mod nodes;
mod place;
mod pods;
mod resets;
mod rights;
mod suites;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};

use crate::Verdict;
use crate::workspace::Workspace;
use ledger::Counted;
use place::Place;
use suites::{SUITES, Suite};

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

/// One suite, and how it went.
struct Row {
    name: &'static str,
    took: Duration,
    counted: Counted,
}

/// Starts everything, runs the suites, and ends everything also when one of them fails.
pub(crate) fn e2e(workspace: &Workspace, args: &E2eArgs) -> Result<Verdict> {
    if let Some(Other::Cassandra(args)) = &args.other {
        return cassandra::run(workspace, args);
    }
    if args.list {
        for Suite {
            name,
            about,
            before: _,
            fault: _,
        } in SUITES
        {
            println!("{name:18} {about}");
        }
        return Ok(Verdict::Good);
    }
    ensure!((1..=9).contains(&args.nodes), "--nodes is 1 to 9");
    let chosen = chosen(&args.only)?;
    let (place, up) = if args.again {
        (
            Place::found(workspace, args.nodes, args.program.as_deref())?,
            Ok(()),
        )
    } else {
        let place = Place::prepare(workspace, args.nodes, args.program.as_deref())?;
        let up = place.up().and_then(|()| install(&place, args));
        (place, up)
    };
    let went = up.and_then(|()| run(&place, &chosen, args));
    // A part of the suites does not need every right.
    let rights = if went.is_ok() && chosen.len() == SUITES.len() {
        println!("\n== rights: every verb of the chart is needed, and none is missing");
        rights::check(&place)
    } else {
        Ok(())
    };
    if went.is_err() {
        place.tell();
    }
    if args.keep {
        println!("left running: {}", place.kubeconfig().display());
    } else {
        place.down()?;
    }
    let (rows, failed) = went?;
    table(&rows);
    for (name, error) in &failed {
        println!("FAILED {name}: {error:#}");
    }
    rights?;
    let kept = rows
        .iter()
        .all(|row| row.counted.lost == 0 && row.counted.twice == 0);
    let dark: Vec<&Row> = rows
        .iter()
        .filter(|row| row.counted.gap_ms > longest_gap(row.name))
        .collect();
    for row in &dark {
        println!(
            "TOO LONG {}: {} ms without an acknowledged write",
            row.name, row.counted.gap_ms
        );
    }
    let whole = kept && failed.is_empty() && dark.is_empty();
    Ok(if whole { Verdict::Good } else { Verdict::Bad })
}

/// So many milliseconds without an acknowledged write are no fault of a slow machine any more.
fn longest_gap(name: &str) -> u64 {
    match name {
        // It waits for a person, and MAIN takes no writes until then.
        "sync-protection" => u64::MAX,
        _ => 30_000,
    }
}

/// One line a suite: gaps in the middle and at worst, counts of all its rounds together.
fn table(rows: &[Row]) {
    println!(
        "\n{:18} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6}",
        "suite",
        "rounds",
        "seconds",
        "gap ms",
        "worst",
        "dark ms",
        "acked",
        "failed",
        "unknown",
        "lost",
        "twice"
    );
    for rounds in rows.chunk_by(|one, next| one.name == next.name) {
        let mut gaps: Vec<u64> = rounds.iter().map(|row| row.counted.gap_ms).collect();
        gaps.sort_unstable();
        let sum = |count: fn(&Counted) -> u64| rounds.iter().map(|row| count(&row.counted)).sum::<u64>();
        println!(
            "{:18} {:>6} {:>8.1} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6}",
            rounds.first().map_or("", |row| row.name),
            rounds.len(),
            rounds.iter().map(|row| row.took.as_secs_f64()).sum::<f64>(),
            gaps.get(gaps.len() / 2).copied().unwrap_or_default(),
            gaps.last().copied().unwrap_or_default(),
            rounds
                .iter()
                .map(|row| row.counted.dark_ms)
                .max()
                .unwrap_or_default(),
            sum(|counted| counted.acknowledged),
            sum(|counted| counted.failed),
            sum(|counted| counted.unknown),
            sum(|counted| counted.lost),
            sum(|counted| counted.twice),
        );
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

type Failed = Vec<(&'static str, anyhow::Error)>;

/// A suite that fails does not keep the others from being run, if the cluster becomes whole again.
fn run(place: &Place<'_>, chosen: &[&'static Suite], args: &E2eArgs) -> Result<(Vec<Row>, Failed)> {
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for suite in chosen {
        for round in 1..=args.rounds {
            place.until_whole()?;
            match play(place, suite, round) {
                Ok(row) => rows.push(row),
                Err(error) => {
                    println!("FAILED {}: {error:#}", suite.name);
                    failed.push((suite.name, error));
                }
            }
        }
    }
    Ok((rows, failed))
}

fn play(place: &Place<'_>, suite: &'static Suite, round: u32) -> Result<Row> {
    let Suite {
        name,
        about,
        before,
        fault,
    } = suite;
    println!("\n== {name} {round}: {about}");
    before(place).with_context(|| format!("before suite {name}"))?;
    let (began, term) = (Instant::now(), place.term()?);
    let counted = ledger::during(place, *fault).with_context(|| format!("suite {name}"))?;
    ensure!(counted.acknowledged > 0, "suite {name}: nothing was acknowledged");
    if !counted.last_error.is_empty() {
        println!("the last error of a client: {}", counted.last_error);
    }
    for term in place.terms_after(term)? {
        println!("{term}");
    }
    let took = began.elapsed();
    println!(
        "== {name} {round}: ok in {:.1} s: {counted:?}",
        took.as_secs_f64()
    );
    Ok(Row { name, took, counted })
}

fn chosen(only: &[String]) -> Result<Vec<&'static Suite>> {
    let known = || {
        SUITES
            .iter()
            .map(|suite| suite.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    if let Some(unknown) = only
        .iter()
        .find(|name| SUITES.iter().all(|suite| suite.name != *name))
    {
        bail!("there is no suite `{unknown}`; there are {}", known());
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
    Ok(SUITES.iter().filter(|suite| wanted(suite.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_that_does_not_exist_is_refused_by_name() {
        let error = chosen(&["boostrap".to_owned()]).err().unwrap().to_string();
        assert!(
            error.contains("`boostrap`") && error.contains("bootstrap"),
            "{error}"
        );
        assert_eq!(chosen(&[]).unwrap().len(), SUITES.len());
    }
}
