//! The table of scenarios names tests that exist, and every test that names a scenario is in it.

use crate::named;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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
    let mut declared = BTreeSet::new();
    gather(&named::root().join("crates"), &mut declared);
    let listed: BTreeSet<String> = table.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let left: Vec<&String> = declared.difference(&listed).collect();
    assert!(left.is_empty(), "not in the table: {left:?}");
    let never_given = [21, 34, 46, 58, 80];
    let wanted = (1..=66).chain(77..=87).filter(|n| !never_given.contains(n));
    let missing: Vec<u32> = wanted.filter(|n| !numbers.contains(n)).collect();
    assert_eq!(missing, [0_u32; 0]);
}

/// Every test that begins with the number of a scenario. Those of the ring have numbers and a table of their own.
fn gather(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if file.starts_with("ring") {
            continue;
        }
        if path.is_dir() {
            gather(&path, found);
        } else if file.ends_with(".rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text
                .split("fn ")
                .skip(1)
                .filter_map(|rest| rest.split('(').next());
            let numbered = names.filter(|name| {
                let number = name.strip_prefix('s').and_then(|rest| rest.split('_').next());
                number.is_some_and(|n| n.len() == 2 && n.parse::<u32>().is_ok())
            });
            found.extend(numbered.map(str::to_owned));
        }
    }
}
