//! What a person, or a script, meets at the command line of `sim`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_types,
    reason = "a test that meets a surprise should stop; a command line is tested by running it"
)]

use std::process::{Command, Output, Stdio};

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(arguments)
        .output()
        .expect("sim starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_cannot_be_done_is_refused_with_a_sentence() {
    for (arguments, part) in [
        (["run", "--seeds", "0"].as_slice(), "0 is not in 1.."),
        (&["run", "--jobs", "0"], "0 is not in 1..=256"),
        (
            &["run", "--seed", "18446744073709551615"],
            "there is no such seed",
        ),
        (&["explore", "--max-states", "0"], "0 is not in 1.."),
        (&["explore", "--only", "Q"], "no world is called `Q`"),
        (&["explore", "--without", "R99"], "no rule is called `R99`"),
        (&["scenario"], "required"),
        (&["scenario", "no-such-file.txt"], "cannot read no-such-file.txt"),
        (
            &["scenario", "--world", "ring", "x.txt"],
            "written in the world of Memgraph",
        ),
    ] {
        let output = sim(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            text(&output.stderr).contains(part),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_search_that_is_cut_short_fails_only_if_it_had_to_be_finished() {
    let short = ["explore", "--only", "K2", "--max-states", "50"];
    assert!(sim(&short).status.success());
    let required = [short.as_slice(), &["--require-exhausted"]].concat();
    assert_eq!(sim(&required).status.code(), Some(1));
    assert!(
        sim(&["explore", "--only", "K2", "--require-exhausted"])
            .status
            .success()
    );
}

#[test]
fn json_is_one_object_per_line_and_nothing_else() {
    let runs: [&[&str]; 4] = [
        &["explore", "--only", "K2", "--json"],
        &["explore", "--only", "K2", "--without", "R28", "--json"],
        &["run", "--seeds", "3", "--json"],
        &["replay", "--seed", "3", "--json"],
    ];
    for arguments in runs {
        let output = sim(arguments);
        let lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 1, "{arguments:?}: {lines:?}");
        let value: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
        assert!(value.is_object());
    }
}

#[test]
fn a_reader_that_has_read_enough_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(["replay", "--seed", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sim starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("sim ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn the_list_says_in_words_what_may_go_wrong() {
    let output = sim(&["explore", "--list"]);
    let list = text(&output.stdout);
    assert!(
        list.contains("2 crashes, 1 partitions, 1 false suspicions"),
        "{list}"
    );
    assert!(!list.contains("Budget {"));
}

#[test]
fn a_scenario_is_told_to_people_and_to_programs() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/T1.txt");
    let people = sim(&["scenario", file]);
    let programs = sim(&["scenario", "--json", "--world", "memgraph", file]);
    assert!(people.status.success() && programs.status.success());
    let told: serde_json::Value = serde_json::from_slice(&programs.stdout).unwrap();
    assert_eq!(told["asExpected"], true);
    let lines: Vec<&str> = told["transcript"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|l| l.as_str())
        .collect();
    assert_eq!(lines.join("\n"), text(&people.stdout).trim_end_matches('\n'));
}
