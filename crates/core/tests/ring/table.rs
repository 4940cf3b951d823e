//! The table of scenarios names tests that exist.

use crate::named;
use std::collections::BTreeSet;
use std::fs;

#[test]
fn every_test_in_the_table_exists_and_every_scenario_has_one() {
    let table = fs::read_to_string(named::root().join("docs/ring-scenarios.md")).unwrap();
    let mut known = named::between("fn ", '(');
    // The scenarios on real nodes have names of their own.
    known.extend(named::between("name: \"", '"'));
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
