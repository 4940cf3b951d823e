//! `cargo xtask e2e`: the charts and the image on a real Kubernetes with nodes, and what clients notice.

mod ledger;
mod place;
mod rights;
mod suites;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::Verdict;
use crate::workspace::Workspace;
use ledger::Counted;
use place::Place;
use suites::{SUITES, Suite};

/// What to run, and on what.
#[derive(Debug, Args)]
pub(crate) struct E2eArgs {
    /// How many nodes
    #[arg(long, default_value_t = 3)]
    nodes: u8,
    /// Only these suites
    #[arg(long, value_name = "SUITE", value_delimiter = ',')]
    only: Vec<String>,
    /// A program that was built before for the image, statically linked
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// The operator serves one namespace, with a Role and no ClusterRole
    #[arg(long)]
    one_namespace: bool,
    /// Leave the Kubernetes running, to look at it; the next run replaces it
    #[arg(long)]
    keep: bool,
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
    if args.list {
        for Suite {
            name,
            about,
            fault: _,
        } in SUITES
        {
            println!("{name:16} {about}");
        }
        return Ok(Verdict::Good);
    }
    ensure!((1..=9).contains(&args.nodes), "--nodes is 1 to 9");
    let chosen = chosen(&args.only)?;
    let place = Place::prepare(workspace, args.nodes, args.program.as_deref())?;
    let went = place.up().and_then(|()| run(&place, &chosen, args.one_namespace));
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
    let rows = went?;
    println!(
        "\n{:16} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6}",
        "suite", "seconds", "gap ms", "acked", "failed", "unknown", "lost", "twice"
    );
    for Row { name, took, counted } in &rows {
        let Counted {
            acknowledged,
            failed,
            unknown,
            gap_ms,
            lost,
            twice,
            last_error: _,
        } = counted;
        println!(
            "{name:16} {:>8.1} {gap_ms:>8} {acknowledged:>8} {failed:>8} {unknown:>8} {lost:>6} {twice:>6}",
            took.as_secs_f64()
        );
    }
    rights?;
    let whole = rows
        .iter()
        .all(|row| row.counted.lost == 0 && row.counted.twice == 0);
    Ok(if whole { Verdict::Good } else { Verdict::Bad })
}

fn run(place: &Place<'_>, chosen: &[&'static Suite], one_namespace: bool) -> Result<Vec<Row>> {
    let began = Instant::now();
    place.install(one_namespace)?;
    place.until_protected(Duration::from_mins(3))?;
    println!(
        "serving and protected {:.1} s after the charts were installed",
        began.elapsed().as_secs_f64()
    );
    let mut rows = Vec::new();
    for Suite { name, about, fault } in chosen {
        println!("\n== {name}: {about}");
        let began = Instant::now();
        let counted = ledger::during(place, *fault).with_context(|| format!("suite {name}"))?;
        ensure!(counted.acknowledged > 0, "suite {name}: nothing was acknowledged");
        if !counted.last_error.is_empty() {
            println!("the last error of a client: {}", counted.last_error);
        }
        println!("== {name}: ok in {:.1} s", began.elapsed().as_secs_f64());
        rows.push(Row {
            name,
            took: began.elapsed(),
            counted,
        });
    }
    Ok(rows)
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
