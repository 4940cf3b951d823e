//! `sim run --world ring` and `sim replay --world ring`.

use super::seeds::{self, Ending, Sum, print_tail};
use serde_json::json;
use sim::ring::simulate::{Report, run as simulate};
use std::io::Write;
use std::ops::Range;

/// Faults, nodes that took a place, permissions, rows.
fn ending(report: Report) -> Ending<4> {
    let Report {
        seed,
        simulated,
        faults,
        replaced,
        rows,
        grants,
        violation,
        human,
        trace: _,
    } = report;
    Ending {
        seed,
        simulated,
        counts: [u64::from(faults), u64::from(replaced), grants, u64::from(rows)],
        violation,
        human,
    }
}

/// Simulates; `true` if nothing was violated.
pub(crate) fn run(seeds: &Range<u64>, jobs: u64, json: bool, out: &mut impl Write) -> anyhow::Result<bool> {
    let sum = seeds::simulate(seeds, jobs, |seed| ending(simulate(seed, false)));
    if json {
        let [faults, replaced, grants, rows] = sum.counts;
        let told = json!({
            "world": "ring", "seeds": sum.seeds, "clusterHours": sum.hours, "faults": faults,
            "replaced": replaced, "permissions": grants, "rows": rows,
            "human": sum.humans, "violations": sum.bad, "clusterHoursPerCpuMinute": sum.speed(),
        });
        writeln!(out, "{told}")?;
    } else {
        print(&sum, out)?;
    }
    Ok(sum.bad.is_empty())
}

fn print(sum: &Sum<4>, out: &mut impl Write) -> anyhow::Result<()> {
    let [faults, replaced, _, rows] = sum.counts;
    let humans: u64 = sum.humans.values().sum();
    writeln!(
        out,
        "{} seeds, {:.0} cluster-hours, {faults} faults, {replaced} nodes took a place, {rows} rows written, {} violations, {humans} wait for a human",
        sum.seeds,
        sum.hours,
        sum.bad.len()
    )?;
    sum.print_humans(out)?;
    sum.print_bad(out)?;
    if let Some((seed, _)) = sum.bad.first() {
        writeln!(out, "sim replay --world ring --seed {seed}")?;
        print_tail(&simulate(*seed, true).trace, out)?;
    }
    Ok(())
}

/// Prints everything that happens in one seed; `true` if nothing was violated.
pub(crate) fn replay(seed: u64, json: bool, out: &mut impl Write) -> anyhow::Result<bool> {
    let report = simulate(seed, true);
    let clean = report.violation.is_none();
    if json {
        let told = json!({
            "seed": seed, "faults": report.faults, "replaced": report.replaced, "rows": report.rows,
            "violation": report.violation, "human": report.human,
            "trace": report.trace.lines().collect::<Vec<_>>(),
        });
        writeln!(out, "{told}")?;
        return Ok(clean);
    }
    write!(out, "{}", report.trace)?;
    let ending = report
        .violation
        .or(report.human)
        .unwrap_or_else(|| "whole".to_owned());
    writeln!(
        out,
        "seed {seed}: {} faults, {} nodes took a place, {} rows written: {ending}",
        report.faults, report.replaced, report.rows
    )?;
    Ok(clean)
}
