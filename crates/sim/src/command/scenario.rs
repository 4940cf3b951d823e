//! `sim scenario`.

use anyhow::Context;
use serde_json::json;
use sim::memgraph::scenario::Scenario;
use std::io::Write;
use std::path::PathBuf;

/// Runs scenario files; `true` if each went as its file says.
pub(crate) fn run(files: &[PathBuf], json: bool, out: &mut impl Write) -> anyhow::Result<bool> {
    let mut clean = true;
    for file in files {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let scenario =
            Scenario::parse(&text).with_context(|| format!("cannot understand {}", file.display()))?;
        let played = scenario.play();
        if json {
            let lines: Vec<&str> = played.transcript.lines().collect();
            let told = json!({ "file": file, "asExpected": played.as_expected, "transcript": lines });
            writeln!(out, "{told}")?;
        } else {
            writeln!(out, "{}", played.transcript)?;
        }
        clean &= played.as_expected;
    }
    Ok(clean)
}
