//! What the pure crates bring along, however deep.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::Violation;
use super::metadata::Metadata;
use crate::workspace::{Workspace, capture};

/// Crates that decide or model, and do nothing else.
const PURE: &[&str] = &["mainstay-core", "bolt", "sim"];

/// Crates that wait, talk or draw. The clippy lists of the pure crates name
/// the functions of `std`; this list names the other way in.
const IMPURE: &[&str] = &["tokio", "hyper", "kube-client", "rand", "getrandom"];

/// Look at the tree of each pure crate that exists.
pub(crate) fn check(workspace: &Workspace, metadata: &Metadata) -> Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for name in PURE.iter().filter(|name| metadata.package(name).is_some()) {
        // `cargo tree`, because the graph of `cargo metadata` unites the
        // features of all members: there, a pure crate seems to bring what only
        // the operator asked for.
        let mut command = workspace.cargo();
        command.args([
            "tree",
            "--locked",
            "--edges",
            "normal",
            "--all-features",
            "--target",
            "all",
        ]);
        command.args(["--prefix", "none", "--format", "{p}", "--package", name]);
        let tree = String::from_utf8(capture(&mut command)?).context("cargo tree did not print text")?;
        violations.extend(judge(name, &tree));
    }
    Ok(violations)
}

fn judge(name: &str, tree: &str) -> Vec<Violation> {
    let present: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    IMPURE
        .iter()
        .filter(|impure| present.contains(**impure))
        .map(|impure| {
            Violation(format!(
                "crate `{name}` must not bring `{impure}`: see cargo tree -e normal -p {name} -i {impure}"
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_draws_deep_in_the_tree_is_found() {
        let tree = "mainstay-core v0.1.0 (somewhere)\nahash v0.8.12\ngetrandom v0.3.3\nahash v0.8.12 (*)\n";
        let found = judge("mainstay-core", tree);
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .to_string()
                .starts_with("crate `mainstay-core` must not bring `getrandom`")
        );
    }

    #[test]
    fn a_name_that_only_begins_like_a_forbidden_one_is_fine() {
        assert!(judge("sim", "sim v0.1.0\nrand_core v0.10.0\nrand_chacha v0.10.0\n").is_empty());
    }
}
