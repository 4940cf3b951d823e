//! The catalogue: every world that is searched, by name.
//!
//! `docs/protocol.md` has what each of them is for and what came of it.

use super::instance::Profile;
use super::world::{Bounds, Budget, Config};
use mainstay_core::memgraph::Rule;
use mainstay_core::memgraph::spec::WritesWithoutSync;

/// A world of the catalogue.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The world.
    pub config: Config,
    /// Is the question whether every state heals asked, too?
    pub liveness: bool,
}

/// What differs from a small calm world.
#[derive(Clone, Copy, Debug)]
struct Row {
    name: &'static str,
    operators: u8,
    gateways: u8,
    writes: u16,
    terms: u64,
    record_writes: u64,
    budget: Budget,
    change: fn(&mut Config),
    liveness: bool,
}

const NONE: Budget = Budget::NONE;

const ROW: Row = Row {
    name: "",
    operators: 1,
    gateways: 1,
    writes: 1,
    terms: 3,
    record_writes: 7,
    budget: NONE,
    change: |_| {},
    liveness: false,
};

fn snapshots(config: &mut Config) {
    config.snapshot_recovery = true;
}

fn from_nothing(config: &mut Config) {
    config.from_nothing = true;
}

fn always(config: &mut Config) {
    config.spec.writes_without_sync = WritesWithoutSync::Always;
}

fn deadlines(config: &mut Config) {
    config.deadlines = true;
}

fn commands(config: &mut Config) {
    config.from_nothing = true;
    config.report_drops = true;
}

fn stalls(config: &mut Config) {
    config.report_stalls = true;
    config.writes = 0;
    config.operators_die = false;
}

fn slow_looks(config: &mut Config) {
    commands(config);
    config.report_stalls = true;
    config.slow_looks = true;
    config.operators_die = false;
}

fn held_up(config: &mut Config) {
    config.profile = Profile::V3_12;
    config.deadlines = true;
    // What restarts while MAIN lives may get a wrong history. It is known to the record, and nobody is reset for it.
    config.report_false_divergence = false;
}

fn no_fsync(config: &mut Config) {
    config.fsync = false;
}

fn resets_only(config: &mut Config) {
    config.report_false_divergence = false;
}

/// What R26 is left with if R25 does not keep the history right.
fn history_unguarded(config: &mut Config) {
    resets_only(config);
    config.spec.rules = config.spec.rules.without(Rule::R25);
}

fn three_pods(config: &mut Config) {
    config.pods = 3;
    config.spec.replicas = 3;
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // The first search: failover, re-promotion, join, proof.
    Row { name: "F1", writes: 2, terms: 4, record_writes: 9, budget: Budget { crashes: 2, partitions: 1, suspicions: 1, ..NONE }, change: snapshots, ..ROW },
    Row { name: "F2", terms: 4, record_writes: 9, budget: Budget { crashes: 2, volumes: 1, partitions: 1, suspicions: 1, ..NONE }, ..ROW },
    Row { name: "F3", operators: 2, writes: 2, record_writes: 6, budget: Budget { crashes: 1, partitions: 1, suspicions: 1, ..NONE }, ..ROW },
    Row { name: "F4", operators: 2, budget: Budget { crashes: 1, partitions: 1, late: 1, ..NONE }, ..ROW },
    Row { name: "F5", operators: 2, budget: Budget { crashes: 2, ..NONE }, ..ROW },
    Row { name: "F6", operators: 2, gateways: 2, budget: Budget { crashes: 1, suspicions: 1, ..NONE }, ..ROW },
    Row { name: "F7", terms: 6, record_writes: 14, budget: Budget { crashes: 2, partitions: 1, suspicions: 1, ..NONE }, liveness: true, ..ROW },
    Row { name: "F8", terms: 6, record_writes: 14, budget: Budget { crashes: 2, volumes: 1, ..NONE }, liveness: true, ..ROW },
    // The second search: renew, switchover, reset, bootstrap, late role commands.
    Row { name: "N3b", terms: 4, record_writes: 9, budget: Budget { crashes: 2, late: 2, ..NONE }, ..ROW },
    Row { name: "N7", terms: 4, record_writes: 9, budget: Budget { crashes: 1, suspicions: 2, late: 2, ..NONE }, ..ROW },
    Row { name: "N7c", terms: 4, record_writes: 9, budget: Budget { crashes: 1, suspicions: 1, late: 2, ..NONE }, ..ROW },
    Row { name: "N7d", operators: 2, budget: Budget { crashes: 1, suspicions: 1, ..NONE }, ..ROW },
    Row { name: "N7e", operators: 2, budget: Budget { crashes: 2, late: 1, ..NONE }, ..ROW },
    Row { name: "S1", terms: 4, record_writes: 9, budget: Budget { crashes: 1, late: 1, switchovers: 1, ..NONE }, ..ROW },
    Row { name: "S1b", terms: 4, record_writes: 9, budget: Budget { crashes: 2, switchovers: 1, ..NONE }, ..ROW },
    Row { name: "S2", operators: 2, budget: Budget { crashes: 1, switchovers: 1, ..NONE }, ..ROW },
    Row { name: "S3", operators: 2, budget: Budget { suspicions: 1, switchovers: 1, ..NONE }, ..ROW },
    Row { name: "S4", operators: 2, gateways: 2, budget: Budget { late: 1, switchovers: 1, ..NONE }, ..ROW },
    Row { name: "S5d", budget: Budget { crashes: 1, suspicions: 1, switchovers: 1, ..NONE }, terms: 4, record_writes: 9, change: deadlines, ..ROW },
    Row { name: "Z1", operators: 2, budget: Budget { crashes: 1, suspicions: 1, late: 1, switchovers: 1, ..NONE }, ..ROW },
    Row { name: "Z2", terms: 4, record_writes: 8, budget: Budget { crashes: 1, suspicions: 1, late: 2, switchovers: 1, ..NONE }, ..ROW },
    Row { name: "Z3", operators: 2, terms: 4, record_writes: 8, budget: Budget { crashes: 2, switchovers: 1, ..NONE }, ..ROW },
    Row { name: "Z4", operators: 2, gateways: 2, budget: Budget { crashes: 1, suspicions: 1, switchovers: 1, ..NONE }, ..ROW },
    Row { name: "Z5", writes: 2, terms: 4, record_writes: 9, budget: Budget { crashes: 1, partitions: 1, suspicions: 1, switchovers: 1, ..NONE }, ..ROW },
    Row { name: "Z6", operators: 2, budget: Budget { crashes: 1, partitions: 1, late: 1, ..NONE }, change: always, ..ROW },
    Row { name: "Z7", terms: 4, record_writes: 9, budget: Budget { crashes: 2, suspicions: 1, late: 1, ..NONE }, change: always, ..ROW },
    Row { name: "W7", terms: 4, record_writes: 9, budget: Budget { crashes: 2, suspicions: 1, ..NONE }, ..ROW },
    Row { name: "W2", terms: 4, record_writes: 9, budget: Budget { crashes: 2, switchovers: 1, ..NONE }, change: history_unguarded, ..ROW },
    Row { name: "W2b", operators: 2, budget: Budget { crashes: 1, suspicions: 1, ..NONE }, change: history_unguarded, ..ROW },
    Row { name: "W6c", terms: 4, record_writes: 9, budget: Budget { crashes: 1, volumes: 1, suspicions: 1, late: 1, switchovers: 1, ..NONE }, ..ROW },
    Row { name: "B1", operators: 2, record_writes: 9, budget: Budget { crashes: 2, ..NONE }, change: from_nothing, ..ROW },
    Row { name: "B2", operators: 2, record_writes: 9, budget: Budget { crashes: 1, volumes: 1, late: 1, ..NONE }, change: from_nothing, ..ROW },
    Row { name: "L1", terms: 9, record_writes: 18, budget: Budget { crashes: 1, ..NONE }, liveness: true, ..ROW },
    // A candidate refuses its promotion while a transaction of a MAIN that is cut off is prepared on it (R37).
    Row { name: "V1", terms: 4, record_writes: 9, budget: Budget { crashes: 1, partitions: 1, suspicions: 3, ..NONE }, change: held_up, ..ROW },
    Row { name: "V2", terms: 4, record_writes: 10, budget: Budget { crashes: 2, partitions: 1, ..NONE }, change: held_up, ..ROW },
    Row { name: "V3", operators: 2, record_writes: 7, budget: Budget { partitions: 1, suspicions: 3, ..NONE }, change: held_up, ..ROW },
    Row { name: "V4", terms: 4, record_writes: 10, budget: Budget { volumes: 1, crashes: 1, partitions: 1, suspicions: 2, ..NONE }, change: held_up, ..ROW },
    // The same in a planned move.
    Row { name: "V5", terms: 4, record_writes: 10, budget: Budget { crashes: 1, partitions: 1, switchovers: 1, ..NONE }, change: held_up, ..ROW },
    // Commands that a real MAIN does not survive; without races, so that only the plan can be at fault.
    Row { name: "K1", writes: 2, record_writes: 9, change: commands, ..ROW },
    Row { name: "K2", budget: Budget { crashes: 1, ..NONE }, change: stalls, ..ROW },
    // A pod dies after it answered and before its port was looked at.
    Row { name: "K3", writes: 0, record_writes: 9, budget: Budget { crashes: 1, ..NONE }, change: slow_looks, ..ROW },
    // No fsync: what R12 forbids.
    Row { name: "P1", terms: 3, budget: Budget { crashes: 2, ..NONE }, change: no_fsync, ..ROW },
    // Without R25 and R26: what a false `Error: 3` costs.
    Row { name: "W1", terms: 4, record_writes: 9, budget: Budget { crashes: 1, switchovers: 1, ..NONE }, change: resets_only, ..ROW },
    // Two false suspicions: a role command may reach another process than the one it was meant for.
    Row { name: "Y1", operators: 2, budget: Budget { crashes: 1, suspicions: 2, ..NONE }, ..ROW },
    // Long traces: three crashes in a row.
    Row { name: "X1", terms: 4, record_writes: 13, budget: Budget { crashes: 3, ..NONE }, ..ROW },
    // What was only reasoned about before: a third pod, sleep, a lost record.
    Row { name: "C1", budget: Budget { crashes: 1, suspicions: 1, ..NONE }, change: three_pods, ..ROW },
    Row { name: "H1", operators: 2, budget: Budget { crashes: 1, sleeps: 1, ..NONE }, ..ROW },
    Row { name: "D1", operators: 1, terms: 4, record_writes: 9, budget: Budget { crashes: 1, suspicions: 1, records: 1, ..NONE }, ..ROW },
    // The record is lost while an operator sleeps in the middle of a failover: what it still sends, the next record does not know.
    Row { name: "D2", operators: 2, terms: 4, record_writes: 13, budget: Budget { suspicions: 2, records: 1, ..NONE }, ..ROW },
    // A client deletes the mark; a human names the MAIN; a replica hangs.
    Row { name: "U1", terms: 4, record_writes: 9, budget: Budget { unmarks: 1, crashes: 1, suspicions: 1, ..NONE }, ..ROW },
    Row { name: "O1", terms: 4, record_writes: 9, budget: Budget { overrides: 1, volumes: 1, crashes: 1, ..NONE }, change: resets_only, ..ROW },
    Row { name: "G1", terms: 6, record_writes: 14, budget: Budget { hangs: 1, ..NONE }, change: always, liveness: true, ..ROW },
];

/// Worlds that scenarios are played in and that must go wrong when they are searched.
pub const FOR_SCENARIOS: &[&str] = &["P1", "W1"];

/// Every world.
pub fn all() -> Vec<Entry> {
    ROWS.iter().map(entry).collect()
}

/// The world of this name.
pub fn named(name: &str) -> Option<Entry> {
    ROWS.iter().find(|row| row.name == name).map(entry)
}

fn entry(row: &Row) -> Entry {
    let Row {
        name,
        operators,
        gateways,
        writes,
        terms,
        record_writes,
        budget,
        change,
        liveness,
    } = *row;
    let mut config = Config {
        operators,
        gateways,
        writes,
        budget,
        bounds: Bounds {
            terms,
            writes: record_writes,
        },
        ..Config::small(name)
    };
    change(&mut config);
    Entry { config, liveness }
}
