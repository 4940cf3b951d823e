//! A ring of three real Cassandra nodes under the real operator and gate: disks are lost in every way, and every row that
//! was acknowledged is read back at ALL.
//!
//! `cargo xtask e2e cassandra` runs it. It takes Cassandra from Maven Central, and minutes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests"
)]

mod bed;
mod rows;
mod scenarios;

use anyhow::{Context, Result, ensure};
use bed::Bed;
use scenarios::{SCENARIOS, Scenario};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Java 17 and Cassandra: `cargo xtask e2e cassandra` has both"]
async fn real_nodes() -> Result<()> {
    let home: PathBuf = std::env::var_os("MAINSTAY_CASSANDRA")
        .context("MAINSTAY_CASSANDRA is the folder that `cargo xtask e2e cassandra` makes")?
        .into();
    let only = std::env::var("MAINSTAY_SCENARIOS").unwrap_or_default();
    let wanted: Vec<&str> = only.split(',').filter(|name| !name.is_empty()).collect();
    let chosen: Vec<&Scenario> = SCENARIOS
        .iter()
        .filter(|s| wanted.is_empty() || wanted.contains(&s.name))
        .collect();
    ensure!(!chosen.is_empty(), "no scenario of this name: {only}");
    let started = Instant::now();
    let mut bed = Bed::whole(&home).await?;
    bed.is_sound().await?;
    let mut table = vec![("three nodes, from nothing", started.elapsed())];
    println!("== whole after {:.0?}", started.elapsed());
    let mut went = Ok(());
    for scenario in chosen {
        println!("== {}: {}", scenario.name, scenario.about);
        let started = Instant::now();
        went = run(scenario, &mut bed).await;
        println!("== {} took {:.0?}", scenario.name, started.elapsed());
        if went.is_err() {
            break;
        }
        table.push((scenario.name, started.elapsed()));
    }
    print(&table);
    went?;
    bed.end().await
}

/// Whatever was lost: in the end the ring is whole, everybody says so, and no row is missing.
async fn run(scenario: &Scenario, bed: &mut Bed) -> Result<()> {
    (scenario.play)(bed).await.context(scenario.name)?;
    bed.is_sound().await.context(scenario.name)?;
    bed.has_every_row().await.context(scenario.name)
}

fn print(table: &[(&str, Duration)]) {
    println!("\n{:28} {:>8}", "scenario", "seconds");
    for (name, took) in table {
        println!("{name:28} {:>8.1}", took.as_secs_f64());
    }
}
