//! The table of scenarios names tests that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text
                .split("fn ")
                .skip(1)
                .filter_map(|rest| rest.split('(').next());
            found.extend(names.map(str::to_owned));
            // The scenarios on real nodes have names of their own.
            let scenarios = text.split("name: \"").skip(1);
            found.extend(scenarios.filter_map(|rest| Some(rest.split('"').next()?.to_owned())));
        }
    }
}

#[test]
fn every_test_in_the_table_exists_and_every_scenario_has_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = fs::read_to_string(root.join("docs/ring-scenarios.md")).unwrap();
    let mut known = BTreeSet::new();
    functions(&root.join("crates"), &mut known);
    let mut numbers = BTreeSet::new();
    for row in table
        .lines()
        .filter(|line| line.starts_with("| S") || line.starts_with("| N"))
    {
        let cells: Vec<&str> = row.split('|').map(str::trim).skip(1).collect();
        let tests: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "nothing shows this: {row}");
        for test in tests {
            assert!(known.contains(test), "{}: there is no test {test}", cells[0]);
        }
        numbers.insert(cells[0].to_owned());
    }
    let never_given = ["S13", "N14", "N16", "N22", "N24"];
    let wanted = (1..=14)
        .map(|n| format!("S{n}"))
        .chain((1..=26).map(|n| format!("N{n}")));
    let missing: Vec<String> = wanted
        .filter(|n| !never_given.contains(&n.as_str()) && !numbers.contains(n))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
