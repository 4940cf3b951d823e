//! `sim run --world hibernation` and its replay.

use super::{cpu_seconds, stopwatch};
use serde_json::json;
use sim::hibernation::{Report, run as simulate, shortest};
use std::io::Write;
use std::ops::Range;

/// What was asked for.
pub(crate) struct Request {
    pub(crate) seeds: Range<u64>,
    pub(crate) jobs: u64,
    pub(crate) json: bool,
}

/// What all seeds together gave.
#[derive(Default)]
struct Sum {
    seeds: u64,
    hours: f64,
    cycles: u64,
    moves: u64,
    faults: u64,
    bad: Vec<(u64, String)>,
}

impl Sum {
    fn add(&mut self, report: Report) {
        let Report {
            seed,
            simulated,
            cycles,
            moves,
            faults,
            violation,
            trace: _,
        } = report;
        self.seeds += 1;
        self.hours += simulated.as_secs_f64() / 3600.0;
        self.cycles += cycles;
        self.moves += moves;
        self.faults += u64::from(faults);
        if let Some(violation) = violation {
            self.bad.push((seed, violation));
        }
    }

    fn join(&mut self, other: Self) {
        let Self {
            seeds,
            hours,
            cycles,
            moves,
            faults,
            bad,
        } = other;
        self.seeds += seeds;
        self.hours += hours;
        self.cycles += cycles;
        self.moves += moves;
        self.faults += faults;
        self.bad.extend(bad);
    }
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
    let seconds = cpu_seconds().unwrap_or_else(&took);
    print(request, &sum, seconds, out)?;
    Ok(sum.bad.is_empty())
}

fn worker(request: &Request, job: u64, jobs: u64) -> Sum {
    let mut sum = Sum::default();
    for seed in request.seeds.clone().filter(|s| s % jobs == job) {
        sum.add(simulate(seed, false));
        if sum.bad.len() >= 20 {
            break;
        }
    }
    sum
}

/// The violation that is easiest to understand: the one with the shortest trace.
fn easiest(sum: &Sum) -> Option<Report> {
    let reports = sum.bad.iter().take(10).map(|(seed, _)| shortest(*seed));
    reports.min_by_key(|r| r.trace.len())
}

fn print(request: &Request, sum: &Sum, seconds: f64, out: &mut impl Write) -> anyhow::Result<()> {
    let shown = easiest(sum);
    if request.json {
        let told = json!({
            "world": "hibernation", "seeds": sum.seeds, "planHours": sum.hours, "cycles": sum.cycles,
            "moves": sum.moves, "faults": sum.faults, "violations": sum.bad, "cpuSeconds": seconds,
            "trace": shown.map(|r| r.trace.lines().map(str::to_owned).collect::<Vec<_>>()),
        });
        writeln!(out, "{told}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{} seeds, {:.0} plan-hours, {} cycles, {} moves of operators, {} faults, {} violations, {seconds:.0} CPU-seconds",
        sum.seeds,
        sum.hours,
        sum.cycles,
        sum.moves,
        sum.faults,
        sum.bad.len()
    )?;
    for (seed, violation) in sum.bad.iter().take(10) {
        writeln!(out, "seed {seed}: {violation}")?;
    }
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
