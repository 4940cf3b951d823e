//! `sim run --world ring` and `sim replay --world ring`.

use super::{cpu_seconds, stopwatch};
use serde_json::json;
use sim::ring::simulate::{Report, run as simulate};
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;

/// What all seeds together gave.
#[derive(Default)]
struct Sum {
    seeds: u64,
    hours: f64,
    faults: u64,
    replaced: u64,
    grants: u64,
    rows: u64,
    humans: BTreeMap<String, u64>,
    bad: Vec<(u64, String)>,
}

impl Sum {
    fn add(&mut self, report: Report) {
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
        self.seeds += 1;
        self.hours += simulated.as_secs_f64() / 3600.0;
        self.faults += u64::from(faults);
        self.replaced += u64::from(replaced);
        self.grants += grants;
        self.rows += u64::from(rows);
        if let Some(human) = human {
            *self.humans.entry(human).or_default() += 1;
        }
        if let Some(violation) = violation {
            self.bad.push((seed, violation));
        }
    }

    fn join(&mut self, other: Self) {
        let Self {
            seeds,
            hours,
            faults,
            replaced,
            grants,
            rows,
            humans,
            bad,
        } = other;
        self.seeds += seeds;
        self.hours += hours;
        self.faults += faults;
        self.replaced += replaced;
        self.grants += grants;
        self.rows += rows;
        for (sentence, count) in humans {
            *self.humans.entry(sentence).or_default() += count;
        }
        self.bad.extend(bad);
    }
}

/// Simulates; `true` if nothing was violated.
pub(crate) fn run(seeds: Range<u64>, jobs: u64, json: bool, out: &mut impl Write) -> anyhow::Result<bool> {
    let took = stopwatch();
    let mut sum = Sum::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs)
            .map(|job| {
                let mine = seeds.clone().filter(move |s| s % jobs == job);
                scope.spawn(move || worker(mine))
            })
            .collect();
        for worker in workers {
            match worker.join() {
                Ok(part) => sum.join(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    sum.bad.sort_unstable();
    let minutes = cpu_seconds().unwrap_or_else(took) / 60.0;
    if json {
        let told = json!({
            "world": "ring", "seeds": sum.seeds, "clusterHours": sum.hours, "faults": sum.faults,
            "replaced": sum.replaced, "permissions": sum.grants, "rows": sum.rows,
            "human": sum.humans, "violations": sum.bad, "clusterHoursPerCpuMinute": sum.hours / minutes,
        });
        writeln!(out, "{told}")?;
        return Ok(sum.bad.is_empty());
    }
    print(&sum, minutes, out)?;
    Ok(sum.bad.is_empty())
}

fn worker(seeds: impl Iterator<Item = u64>) -> Sum {
    let mut sum = Sum::default();
    for seed in seeds {
        sum.add(simulate(seed, false));
        if sum.bad.len() >= 20 {
            break;
        }
    }
    sum
}

fn print(sum: &Sum, minutes: f64, out: &mut impl Write) -> anyhow::Result<()> {
    let humans: u64 = sum.humans.values().sum();
    writeln!(
        out,
        "{} seeds, {:.0} cluster-hours, {} faults, {} nodes took a place, {} rows written, {} violations, {humans} wait for a human",
        sum.seeds,
        sum.hours,
        sum.faults,
        sum.replaced,
        sum.rows,
        sum.bad.len()
    )?;
    for (id, count) in &sum.humans {
        writeln!(out, "  {count:>6} × {id}")?;
    }
    writeln!(out, "{:.0} cluster-hours per CPU-minute", sum.hours / minutes)?;
    for (seed, violation) in sum.bad.iter().take(10) {
        writeln!(out, "seed {seed}: {violation}")?;
    }
    if let Some((seed, _)) = sum.bad.first() {
        writeln!(out, "sim replay --world ring --seed {seed}")?;
        let trace = simulate(*seed, true).trace;
        let tail: Vec<&str> = trace.lines().rev().take(60).collect();
        for line in tail.into_iter().rev() {
            writeln!(out, "{line}")?;
        }
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
