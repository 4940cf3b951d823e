//! `sim run` and `sim replay`.

use super::{cpu_seconds, stopwatch};
use mainstay_core::memgraph::Rule;
use serde_json::json;
use sim::memgraph::simulate::{Report, config, run_with};
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;

/// What was asked for.
pub(crate) struct Request {
    pub(crate) seeds: Range<u64>,
    pub(crate) jobs: u64,
    pub(crate) without: Vec<Rule>,
    pub(crate) json: bool,
}

/// What all seeds together gave.
#[derive(Default)]
struct Sum {
    seeds: u64,
    hours: f64,
    acknowledged: u64,
    terms: u64,
    faults: u64,
    humans: BTreeMap<String, u64>,
    bad: Vec<(u64, String)>,
}

impl Sum {
    fn add(&mut self, report: Report) {
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
        self.seeds += 1;
        self.hours += simulated.as_secs_f64() / 3600.0;
        self.acknowledged += u64::from(acknowledged);
        self.terms += terms;
        self.faults += u64::from(faults);
        if let Some(sentence) = human {
            *self.humans.entry(sentence).or_default() += 1;
        }
        if let Some(violation) = violation {
            self.bad.push((seed, violation));
        }
    }

    fn join(&mut self, other: Self) {
        let Self {
            seeds,
            hours,
            acknowledged,
            terms,
            faults,
            humans,
            bad,
        } = other;
        self.seeds += seeds;
        self.hours += hours;
        self.acknowledged += acknowledged;
        self.terms += terms;
        self.faults += faults;
        for (sentence, count) in humans {
            *self.humans.entry(sentence).or_default() += count;
        }
        self.bad.extend(bad);
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
    let took = stopwatch();
    let jobs = request.jobs.max(1);
    let mut sum = Sum::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs)
            .map(|job| scope.spawn(move || worker(request, job, jobs)))
            .collect();
        for worker in workers {
            match worker.join() {
                Ok(part) => sum.join(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    sum.bad.sort_unstable();
    let wall = || took() * f64::from(u32::try_from(jobs).unwrap_or(1));
    let minutes = cpu_seconds().unwrap_or_else(wall) / 60.0;
    print(request, &sum, minutes, out)?;
    Ok(sum.bad.is_empty())
}

fn worker(request: &Request, job: u64, jobs: u64) -> Sum {
    let mut sum = Sum::default();
    for seed in request.seeds.clone().filter(|s| s % jobs == job) {
        sum.add(one(seed, &request.without, false));
        if sum.bad.len() >= 20 {
            break;
        }
    }
    sum
}

fn print(request: &Request, sum: &Sum, minutes: f64, out: &mut impl Write) -> anyhow::Result<()> {
    let humans: u64 = sum.humans.values().sum();
    if request.json {
        writeln!(
            out,
            "{}",
            json!({
                "seeds": sum.seeds, "clusterHours": sum.hours, "acknowledged": sum.acknowledged, "terms": sum.terms,
                "faults": sum.faults, "human": sum.humans, "violations": sum.bad,
                "clusterHoursPerCpuMinute": sum.hours / minutes,
            })
        )?;
        return Ok(());
    }
    writeln!(
        out,
        "{} seeds, {:.0} cluster-hours, {} faults, {} terms, {} writes acknowledged, {} violations, {humans} wait for a human",
        sum.seeds,
        sum.hours,
        sum.faults,
        sum.terms,
        sum.acknowledged,
        sum.bad.len()
    )?;
    for (sentence, count) in &sum.humans {
        writeln!(out, "  {count:>6} × {sentence}")?;
    }
    writeln!(out, "{:.0} cluster-hours per CPU-minute", sum.hours / minutes)?;
    for (seed, violation) in sum.bad.iter().take(10) {
        writeln!(out, "seed {seed}: {violation}")?;
    }
    if let Some((seed, _)) = sum.bad.first() {
        let switches: Vec<_> = request
            .without
            .iter()
            .map(|r| format!(" --without {r}"))
            .collect();
        let switches = switches.concat();
        writeln!(out, "sim replay --seed {seed}{switches}")?;
        let trace = one(*seed, &request.without, true).trace;
        let tail: Vec<&str> = trace.lines().rev().take(60).collect();
        for line in tail.into_iter().rev() {
            writeln!(out, "{line}")?;
        }
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
