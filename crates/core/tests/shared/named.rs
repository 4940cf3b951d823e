//! The names of all tests, for the tables that say which scenario is shown where.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the project.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What stands between `begin` and `end` in the code of all crates: `fn ` and `(` give the functions.
pub(crate) fn between(begin: &str, end: char) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    gather(&root().join("crates"), begin, end, &mut found);
    found
}

fn gather(folder: &Path, begin: &str, end: char, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, begin, end, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let rests = text.split(begin).skip(1);
            found.extend(rests.filter_map(|rest| Some(rest.split(end).next()?.to_owned())));
        }
    }
}
