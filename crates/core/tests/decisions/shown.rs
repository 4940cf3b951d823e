//! The table of faults names tests that exist.

use crate::named;
use std::collections::BTreeSet;

#[test]
fn every_fault_has_its_test_and_every_test_that_is_named_exists() {
    let text = std::fs::read_to_string(named::root().join("docs/faults.md")).unwrap();
    let functions = named::between("fn ", '(');
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1)
        .collect();
    assert!(rows.len() > 15, "{} rows", rows.len());
    for row in rows {
        let tests = row.split('|').nth(3).unwrap();
        let names: BTreeSet<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test: {row}");
        for name in names {
            assert!(functions.contains(name), "there is no `{name}`");
        }
    }
}
