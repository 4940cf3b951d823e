//! Many seeds of one world, on several threads, added up.

use super::{cpu_seconds, stopwatch};
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::time::Duration;

/// A thread that has met so many violations has shown enough.
const ENOUGH: usize = 20;
/// How many violations are printed.
const SHOWN: usize = 10;
/// How much of a trace is printed.
const TAIL: usize = 60;

/// How one seed ended. The counts are the world's own.
pub(crate) struct Ending<const N: usize> {
    pub(crate) seed: u64,
    pub(crate) simulated: Duration,
    pub(crate) counts: [u64; N],
    pub(crate) violation: Option<String>,
    pub(crate) human: Option<String>,
}

/// What all seeds together gave.
pub(crate) struct Sum<const N: usize> {
    pub(crate) seeds: u64,
    pub(crate) hours: f64,
    pub(crate) counts: [u64; N],
    pub(crate) humans: BTreeMap<String, u64>,
    pub(crate) bad: Vec<(u64, String)>,
    pub(crate) cpu_seconds: f64,
}

impl<const N: usize> Sum<N> {
    fn empty() -> Self {
        Self {
            seeds: 0,
            hours: 0.0,
            counts: [0; N],
            humans: BTreeMap::new(),
            bad: Vec::new(),
            cpu_seconds: 0.0,
        }
    }

    fn add(&mut self, ending: Ending<N>) {
        let Ending {
            seed,
            simulated,
            counts,
            violation,
            human,
        } = ending;
        self.seeds += 1;
        self.hours += simulated.as_secs_f64() / 3600.0;
        self.count(counts);
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
            counts,
            humans,
            bad,
            cpu_seconds: _,
        } = other;
        self.seeds += seeds;
        self.hours += hours;
        self.count(counts);
        for (sentence, count) in humans {
            *self.humans.entry(sentence).or_default() += count;
        }
        self.bad.extend(bad);
    }

    fn count(&mut self, more: [u64; N]) {
        for (count, more) in self.counts.iter_mut().zip(more) {
            *count += more;
        }
    }

    /// Simulated hours in a minute of CPU.
    pub(crate) fn speed(&self) -> f64 {
        self.hours / (self.cpu_seconds / 60.0)
    }

    /// The first violations, a line each.
    pub(crate) fn print_bad(&self, out: &mut impl Write) -> std::io::Result<()> {
        for (seed, violation) in self.bad.iter().take(SHOWN) {
            writeln!(out, "seed {seed}: {violation}")?;
        }
        Ok(())
    }

    /// What waits for a human, and the speed.
    pub(crate) fn print_humans(&self, out: &mut impl Write) -> std::io::Result<()> {
        for (sentence, count) in &self.humans {
            writeln!(out, "  {count:>6} × {sentence}")?;
        }
        writeln!(out, "{:.0} cluster-hours per CPU-minute", self.speed())
    }
}

/// Simulates all seeds.
pub(crate) fn simulate<const N: usize>(
    seeds: &Range<u64>,
    jobs: u64,
    one: impl Fn(u64) -> Ending<N> + Sync,
) -> Sum<N> {
    let took = stopwatch();
    let jobs = jobs.max(1);
    let mut sum = Sum::empty();
    let worker = |job: u64| {
        let mut part = Sum::empty();
        for seed in seeds.clone().filter(|seed| seed % jobs == job) {
            part.add(one(seed));
            if part.bad.len() >= ENOUGH {
                break;
            }
        }
        part
    };
    let worker = &worker;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|job| scope.spawn(move || worker(job))).collect();
        for worker in workers {
            match worker.join() {
                Ok(part) => sum.join(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    sum.bad.sort_unstable();
    let wall = || took() * f64::from(u32::try_from(jobs).unwrap_or(1));
    sum.cpu_seconds = cpu_seconds().unwrap_or_else(wall);
    sum
}

/// The end of a trace.
pub(crate) fn print_tail(trace: &str, out: &mut impl Write) -> std::io::Result<()> {
    let tail: Vec<&str> = trace.lines().rev().take(TAIL).collect();
    for line in tail.into_iter().rev() {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
