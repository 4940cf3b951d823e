//! The table of scenarios names tests that exist.

use crate::named;
use std::collections::BTreeSet;
use std::fs;

#[test]
fn every_test_in_the_table_exists_and_every_scenario_has_one() {
    let table = fs::read_to_string(named::root().join("docs/hibernation-scenarios.md")).unwrap();
    let known = named::between("fn ", '(');
    let mut numbers = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let number: u32 = cells.next().unwrap().parse().unwrap();
        let tests = cells.next().unwrap();
        assert!(tests.contains("`s") || tests.starts_with("none: "), "{row}");
        for test in tests.split('`').skip(1).step_by(2) {
            assert!(known.contains(test), "{number}: there is no test {test}");
            let named = test.split('_').any(|part| part == format!("s{number:02}"));
            assert!(named, "{test} is not named by {number}");
        }
        numbers.insert(number);
    }
    let never_given = [21, 34, 46, 58, 80];
    let wanted = (1..=66).chain(77..=87).filter(|n| !never_given.contains(n));
    let missing: Vec<u32> = wanted.filter(|n| !numbers.contains(n)).collect();
    assert_eq!(missing, [0_u32; 0]);
}
