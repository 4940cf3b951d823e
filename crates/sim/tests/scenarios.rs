//! Every scenario file goes wrong without its rule and is clean with it; the transcripts are committed, so that
//! a reviewer reads a change of behaviour as a diff.

use sim::memgraph::scenario::Scenario;
use std::path::{Path, PathBuf};

fn files() -> std::io::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "txt") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[test]
fn every_scenario_goes_wrong_without_its_rule_and_is_clean_with_it() {
    let files = files().unwrap();
    let there = |name: &str| {
        files
            .iter()
            .any(|f| f.file_stem().is_some_and(|stem| stem == name))
    };
    let traces = (1..=15).map(|n| format!("T{n}"));
    let rules = [12, 13, 15, 17, 18, 25, 26, 27, 28, 30, 31, 32, 33, 36, 37].map(|n| format!("R{n}"));
    let second = ["R26-lagging", "R34-renew"].map(str::to_owned);
    for name in traces.chain(rules).chain(second) {
        assert!(there(&name), "there is no scenario {name}");
    }
    let mut wrong = Vec::new();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../scenarios/transcripts");
    settings.set_prepend_module_to_snapshot(false);
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let scenario = Scenario::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let played = scenario.play();
        if !played.as_expected {
            wrong.push(format!("{name}:\n{}", played.transcript));
            continue;
        }
        settings.bind(|| insta::assert_snapshot!(name, played.transcript));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_scenario_that_ends_otherwise_than_its_file_says_is_noticed() {
    let hang = |rule: &str, expect: &str| format!("world: G1\nwithout: {rule}\nexpect: {expect}\nB hangs\n");
    for (text, holds) in [
        (hang("R30", "not whole"), true),
        // With or without R36 the cluster is whole in the end.
        (hang("R36", "not whole"), false),
        (hang("R30", "acknowledged write w0 is lost"), false),
        // Nobody ends a process that policy `AfterFailover` waits for: not whole, with the rule as without it.
        (hang("R30", "not whole").replace("G1", "F5"), false),
    ] {
        let played = Scenario::parse(&text).unwrap().play();
        assert_eq!(played.as_expected, holds, "{text}\n{}", played.transcript);
    }
}

#[test]
fn a_scenario_that_cannot_be_read_says_where() {
    for (text, part) in [
        ("expect: x\n", "no `world:` line"),
        ("world: Q\n", "no world is called `Q`"),
        ("world: F5\n", "no `expect:` line"),
        ("world: F5\nexpect: x\nA flies\n", "line 3: `A flies`"),
        ("world: F5\nwithout: R99\n", "no rule is called `R99`"),
        ("world: F5\nset: gravity\n", "`gravity` is no setting"),
    ] {
        let error = Scenario::parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text:?}: {error}");
    }
}
