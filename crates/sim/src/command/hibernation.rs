//! `sim run --world hibernation` and its replay.

use super::seeds::{self, Ending, Sum};
use serde_json::json;
use sim::hibernation::{Report, run as simulate, shortest};
use std::io::Write;
use std::ops::Range;

/// Cycles, moves of operators, faults.
fn ending(report: Report) -> Ending<3> {
    let Report {
        seed,
        simulated,
        cycles,
        moves,
        faults,
        violation,
        trace: _,
    } = report;
    Ending {
        seed,
        simulated,
        counts: [cycles, moves, u64::from(faults)],
        violation,
        human: None,
    }
}

/// Simulates; `true` if nothing was violated.
pub(crate) fn run(seeds: &Range<u64>, jobs: u64, json: bool, out: &mut impl Write) -> anyhow::Result<bool> {
    let sum = seeds::simulate(seeds, jobs, |seed| ending(simulate(seed, false)));
    print(json, &sum, out)?;
    Ok(sum.bad.is_empty())
}

/// The violation that is easiest to understand: the one with the shortest trace.
fn easiest(sum: &Sum<3>) -> Option<Report> {
    let reports = sum.bad.iter().take(10).map(|(seed, _)| shortest(*seed));
    reports.min_by_key(|r| r.trace.len())
}

fn print(json: bool, sum: &Sum<3>, out: &mut impl Write) -> anyhow::Result<()> {
    let shown = easiest(sum);
    let ([cycles, moves, faults], seconds) = (sum.counts, sum.cpu_seconds);
    if json {
        let told = json!({
            "world": "hibernation", "seeds": sum.seeds, "planHours": sum.hours, "cycles": cycles,
            "moves": moves, "faults": faults, "violations": sum.bad, "cpuSeconds": seconds,
            "trace": shown.map(|r| r.trace.lines().map(str::to_owned).collect::<Vec<_>>()),
        });
        writeln!(out, "{told}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{} seeds, {:.0} plan-hours, {cycles} cycles, {moves} moves of operators, {faults} faults, {} violations, {seconds:.0} CPU-seconds",
        sum.seeds,
        sum.hours,
        sum.bad.len()
    )?;
    sum.print_bad(out)?;
    if let Some(report) = shown {
        writeln!(out, "sim replay --world hibernation --seed {}", report.seed)?;
        write!(out, "{}", report.trace)?;
    }
    Ok(())
}

/// Prints everything that happens in one seed; `true` if nothing was violated.
pub(crate) fn replay(seed: u64, json: bool, out: &mut impl Write) -> anyhow::Result<bool> {
    let report = simulate(seed, true);
    if json {
        let told = json!({
            "world": "hibernation", "seed": seed, "cycles": report.cycles, "faults": report.faults,
            "violation": report.violation, "trace": report.trace.lines().collect::<Vec<_>>(),
        });
        writeln!(out, "{told}")?;
    } else {
        write!(out, "{}", report.trace)?;
        writeln!(
            out,
            "seed {seed}: {} cycles, {} faults{}",
            report.cycles,
            report.faults,
            report
                .violation
                .as_deref()
                .map(|v| format!(", {v}"))
                .unwrap_or_default()
        )?;
    }
    Ok(report.violation.is_none())
}
