//! What real servers answered, asked again of the stand-in. The exceptions are
//! the table in `docs/stand-ins.md`, and each of them must be needed.

// Everything here is a test, also what is not marked as one.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing
)]

mod replay;

use replay::{Difference, play};
use sandbox::standin::memgraph::process::Program;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// What real times are multiplied by. Where a process is restarted between two
/// pings, its start, which cannot be made faster, must fit between them here too.
fn scale(name: &str) -> f64 {
    let quick = ["03_", "04b_", "12_", "18"];
    // These send hundreds of thousands of vertices, which has its own speed too.
    let large = ["10_", "15_"];
    if quick.iter().chain(&large).any(|prefix| name.starts_with(prefix)) {
        0.5
    } else {
        0.2
    }
}

/// So many at once: they mostly wait.
const AT_ONCE: usize = 8;

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// `3.6/05_divergence:34` for every step that the table excuses, and whether
/// it always differs or only by chance.
fn excused() -> BTreeMap<String, bool> {
    let page = std::fs::read_to_string(here().join("../../docs/stand-ins.md")).expect("the page");
    let table = page
        .split("<!-- exceptions -->")
        .nth(1)
        .expect("a table between two marks");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(rows.len() < 10, "{} exceptions are too many", rows.len());
    let mut places = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let always = !cells[3].starts_with("chance");
        for place in cells[1].split(',') {
            places.insert(place.trim().trim_matches('`').to_owned(), always);
        }
    }
    places
}

/// Every recording, or those whose name contains `MAINSTAY_RECORDING`.
fn recordings() -> Vec<(String, String, PathBuf)> {
    let wanted = std::env::var("MAINSTAY_RECORDING").unwrap_or_default();
    let mut all = Vec::new();
    for version in ["3.6", "3.12"] {
        let folder = here().join("tests/recordings").join(version);
        for entry in std::fs::read_dir(folder).expect("recordings") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            if format!("{version}/{name}").contains(&wanted) {
                all.push((version.to_owned(), name, path));
            }
        }
    }
    all.sort();
    all
}

/// A recording that differs is played again: on a busy machine a ping comes late, and a server is seen in a state
/// that it only passes through. What really differs differs each time.
const TURNS: u8 = 3;

fn program() -> Program {
    Program {
        path: env!("CARGO_BIN_EXE_standin").into(),
        before: vec!["memgraph".to_owned()],
        stand_in: true,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stand_ins_answer_what_real_servers_answered() {
    let gate = Arc::new(Semaphore::new(AT_ONCE));
    let folder = std::env::temp_dir().join(format!("mainstay-recordings-{}", std::process::id()));
    let mut playing = JoinSet::new();
    let all = recordings();
    let complete = std::env::var("MAINSTAY_RECORDING").is_err();
    let table = Arc::new(excused());
    for (network, (version, name, path)) in (1_u8..).zip(all) {
        let (gate, table) = (Arc::clone(&gate), Arc::clone(&table));
        let folder = folder.join(&version).join(&name);
        playing.spawn(async move {
            let _turn = gate.acquire().await.expect("a turn");
            let recording = std::fs::read_to_string(path).expect("a recording");
            let place = format!("{version}/{name}");
            let mut differences = Vec::new();
            for turn in 1..=TURNS {
                let folder = folder.join(turn.to_string());
                differences = play(program(), &version, &recording, network, &folder, scale(&name)).await;
                let excused = |d: &Difference| table.contains_key(&format!("{place}:{}", d.step));
                if differences.iter().all(excused) {
                    break;
                }
            }
            (place, differences)
        });
    }
    let mut excused = BTreeMap::clone(&table);
    let mut report = Vec::new();
    while let Some(played) = playing.join_next().await {
        let (place, differences) = match played {
            Ok(played) => played,
            Err(error) => {
                report.push(format!("a recording could not be played: {error}"));
                continue;
            }
        };
        for Difference { step, what, how } in differences {
            if excused.remove(&format!("{place}:{step}")).is_none() {
                report.push(format!("{place}:{step}: {what}\n          {how}"));
            }
        }
    }
    if report.is_empty() {
        let _ = std::fs::remove_dir_all(&folder);
    }
    report.sort();
    assert!(
        report.is_empty(),
        "{} differences; logs in {}\n{}",
        report.len(),
        folder.display(),
        report.join("\n")
    );
    excused.retain(|_, always| *always);
    assert!(
        !complete || excused.is_empty(),
        "these exceptions are not needed any more: {excused:?}"
    );
}
