//! `sim explore`.

use super::stopwatch;
use mainstay_core::memgraph::Rule;
use serde_json::json;
use sim::memgraph::explore::{Found, Options, explore};
use sim::memgraph::scenario::Scenario;
use sim::memgraph::world::{Action, Budget, Config, State, transcript};
use sim::memgraph::worlds::{self, Entry};
use std::io::Write;
use std::path::PathBuf;

/// What was asked for.
pub(crate) struct Request {
    pub(crate) only: Vec<String>,
    pub(crate) without: Vec<Rule>,
    pub(crate) max_states: u64,
    pub(crate) require_exhausted: bool,
    pub(crate) total_states: Option<u64>,
    pub(crate) json: bool,
    pub(crate) save: Option<PathBuf>,
}

/// Prints the catalogue.
pub(crate) fn list(out: &mut impl Write) -> anyhow::Result<()> {
    for Entry { config, liveness } in worlds::all() {
        let Config {
            name,
            pods,
            gateways,
            operators,
            writes,
            budget,
            bounds,
            ..
        } = config;
        let heals = if liveness { ", must heal" } else { "" };
        writeln!(
            out,
            "{name:5} {pods} pods, {gateways} gateways, {operators} operators, {writes} writes, {} terms, {} record writes{heals}",
            bounds.terms, bounds.writes
        )?;
        writeln!(out, "      {}", in_words(&budget))?;
    }
    Ok(())
}

/// What may go wrong, how often.
fn in_words(budget: &Budget) -> String {
    let words: Vec<_> = budget
        .named()
        .into_iter()
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| format!("{n} {name}"))
        .collect();
    if words.is_empty() {
        "nothing goes wrong".to_owned()
    } else {
        words.join(", ")
    }
}

/// Searches; `true` if nothing was violated and everything heals.
pub(crate) fn run(request: &Request, out: &mut impl Write) -> anyhow::Result<bool> {
    let mut clean = true;
    let mut total = 0;
    for name in &request.only {
        anyhow::ensure!(
            worlds::named(name).is_some(),
            "no world is called `{name}` (see --list)"
        );
    }
    for mut entry in worlds::all() {
        if !request.only.is_empty() && !request.only.contains(&entry.config.name) {
            continue;
        }
        if request.only.is_empty() && worlds::FOR_SCENARIOS.contains(&entry.config.name.as_str()) {
            continue;
        }
        if request.total_states.is_some_and(|limit| total >= limit) {
            eprintln!(
                "{:5} not searched: the budget of states is used up",
                entry.config.name
            );
            clean &= !request.require_exhausted;
            continue;
        }
        for rule in &request.without {
            entry.config = entry.config.without(*rule);
        }
        let took = stopwatch();
        let options = Options {
            max_states: request.max_states,
            liveness: entry.liveness,
            progress: 5_000_000,
        };
        let name = entry.config.name.clone();
        let found = explore(&entry.config, options, |found, queue| {
            eprintln!(
                "{name:5} … {} states, depth {}, {queue} waiting",
                found.states, found.depth
            );
        });
        total += found.states;
        clean &= report(request, &entry, &found, took(), out)?;
        clean &= found.exhausted || !request.require_exhausted;
        if let (Some(file), Some((violation, trace))) = (&request.save, &found.violation) {
            let text = Scenario::render(
                &entry.config.name,
                &request.without,
                trace,
                &violation.to_string(),
            );
            std::fs::write(file, text)?;
        }
    }
    if !request.json {
        writeln!(out, "{total} states in all")?;
    }
    Ok(clean)
}

/// `true` if nothing was violated and everything heals.
fn report(
    request: &Request,
    entry: &Entry,
    found: &Found,
    seconds: f64,
    out: &mut impl Write,
) -> anyhow::Result<bool> {
    if request.json {
        as_json(entry, found, seconds, out)?;
    } else {
        as_text(entry, found, seconds, out)?;
    }
    let heals = found.heal.as_ref().is_none_or(|h| h.example.is_none());
    Ok(found.violation.is_none() && heals)
}

fn as_json(entry: &Entry, found: &Found, seconds: f64, out: &mut impl Write) -> anyhow::Result<()> {
    let heal = found.heal.as_ref().map(|h| {
        json!({
            "whole": h.whole, "stuck": h.stuck, "human": h.human, "trace": h.example.as_deref().map(lines),
        })
    });
    let told = json!({
        "world": entry.config.name, "states": found.states, "transitions": found.transitions, "depth": found.depth,
        "exhausted": found.exhausted, "beyondBounds": found.beyond, "seconds": seconds, "heal": heal,
        "violation": found.violation.as_ref().map(|(v, _)| v.to_string()),
        "trace": found.violation.as_ref().map(|(_, t)| lines(t)),
    });
    writeln!(out, "{told}")?;
    Ok(())
}

fn as_text(entry: &Entry, found: &Found, seconds: f64, out: &mut impl Write) -> anyhow::Result<()> {
    let name = &entry.config.name;
    let done = if found.exhausted {
        "exhausted"
    } else {
        "NOT exhausted"
    };
    writeln!(
        out,
        "{name:5} {:>10} states {:>11} transitions  depth {:>3}  {:>9} beyond the bounds  {done}  {seconds:.1} s",
        found.states, found.transitions, found.depth, found.beyond
    )?;
    let first = State::first(&entry.config);
    if let Some((violation, trace)) = &found.violation {
        writeln!(out, "{name}: {violation}, after {} steps", trace.len())?;
        writeln!(out, "{}", transcript(&entry.config, &first, trace))?;
    }
    let Some(heal) = &found.heal else { return Ok(()) };
    writeln!(
        out,
        "      {} whole, {} cannot heal, of which {} say what a human must decide",
        heal.whole, heal.stuck, heal.human
    )?;
    if let Some(trace) = &heal.example {
        writeln!(out, "{name}: cannot heal, after {} steps", trace.len())?;
        writeln!(out, "{}", transcript(&entry.config, &first, trace))?;
    }
    Ok(())
}

fn lines(trace: &[Action]) -> Vec<String> {
    trace.iter().map(ToString::to_string).collect()
}
