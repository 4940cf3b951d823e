//! `sim run` and `sim replay`.

use super::seeds::{Ending, Sum, print_tail, simulate};
use mainstay_core::memgraph::Rule;
use serde_json::json;
use sim::memgraph::simulate::{Report, config, run_with};
use std::io::Write;
use std::ops::Range;

/// What was asked for.
pub(crate) struct Request {
    pub(crate) seeds: Range<u64>,
    pub(crate) jobs: u64,
    pub(crate) without: Vec<Rule>,
    pub(crate) json: bool,
}

/// Acknowledged writes, terms, faults.
fn ending(report: Report) -> Ending<3> {
    let Report {
        seed,
        simulated,
        acknowledged,
        terms,
        faults,
        violation,
        human,
        trace: _,
    } = report;
    Ending {
        seed,
        simulated,
        counts: [u64::from(acknowledged), terms, u64::from(faults)],
        violation,
        human,
    }
}

fn one(seed: u64, without: &[Rule], tracing: bool) -> Report {
    let config = without
        .iter()
        .fold(config(seed), |config, rule| config.without(*rule));
    run_with(seed, &config, tracing)
}

/// Simulates; `true` if nothing was violated.
pub(crate) fn run(request: &Request, out: &mut impl Write) -> anyhow::Result<bool> {
    let sum = simulate(&request.seeds, request.jobs, |seed| {
        ending(one(seed, &request.without, false))
    });
    print(request, &sum, out)?;
    Ok(sum.bad.is_empty())
}

fn print(request: &Request, sum: &Sum<3>, out: &mut impl Write) -> anyhow::Result<()> {
    let [acknowledged, terms, faults] = sum.counts;
    if request.json {
        writeln!(
            out,
            "{}",
            json!({
                "seeds": sum.seeds, "clusterHours": sum.hours, "acknowledged": acknowledged, "terms": terms,
                "faults": faults, "human": sum.humans, "violations": sum.bad,
                "clusterHoursPerCpuMinute": sum.speed(),
            })
        )?;
        return Ok(());
    }
    let humans: u64 = sum.humans.values().sum();
    writeln!(
        out,
        "{} seeds, {:.0} cluster-hours, {faults} faults, {terms} terms, {acknowledged} writes acknowledged, {} violations, {humans} wait for a human",
        sum.seeds,
        sum.hours,
        sum.bad.len()
    )?;
    sum.print_humans(out)?;
    sum.print_bad(out)?;
    if let Some((seed, _)) = sum.bad.first() {
        let switches: Vec<_> = request
            .without
            .iter()
            .map(|r| format!(" --without {r}"))
            .collect();
        let switches = switches.concat();
        writeln!(out, "sim replay --seed {seed}{switches}")?;
        print_tail(&one(*seed, &request.without, true).trace, out)?;
    }
    Ok(())
}

/// Prints everything that happens in one seed; `true` if nothing was violated.
pub(crate) fn replay(seed: u64, without: &[Rule], json: bool, out: &mut impl Write) -> anyhow::Result<bool> {
    let report = one(seed, without, true);
    if json {
        let told = json!({
            "seed": seed, "terms": report.terms, "faults": report.faults, "acknowledged": report.acknowledged,
            "violation": report.violation, "human": report.human,
            "trace": report.trace.lines().collect::<Vec<_>>(),
        });
        writeln!(out, "{told}")?;
        return Ok(report.violation.is_none());
    }
    write!(out, "{}", report.trace)?;
    writeln!(
        out,
        "seed {seed}: {} terms, {} faults, {} writes acknowledged{}{}",
        report.terms,
        report.faults,
        report.acknowledged,
        report
            .violation
            .as_deref()
            .map(|v| format!(", {v}"))
            .unwrap_or_default(),
        report
            .human
            .as_deref()
            .map(|h| format!(", waits for a human: {h}"))
            .unwrap_or_default(),
    )?;
    Ok(report.violation.is_none())
}
