//! The direction of dependencies between our crates.

use super::Violation;
use super::metadata::{Metadata, Package};

/// Every crate of ours, with those it may name in its manifest, for whatever
/// purpose. Nothing may name `mainstay` or `xtask`. A crate without a row
/// fails the check: where it belongs is a decision.
const ALLOWED: &[(&str, &[&str])] = &[
    ("mainstay-core", &[]),
    ("bolt", &[]),
    ("sim", &["mainstay-core", "bolt"]),
    ("gateway", &["mainstay-core", "bolt"]),
    ("api", &["mainstay-core"]),
    ("operator", &["mainstay-core", "bolt", "api", "gateway"]),
    (
        "sandbox",
        &["mainstay-core", "bolt", "sim", "api", "operator", "gateway"],
    ),
    (
        "mainstay",
        &[
            "mainstay-core",
            "bolt",
            "sim",
            "api",
            "gateway",
            "operator",
            "sandbox",
        ],
    ),
    // The suite knows nothing of ours; its tests bring the small Kubernetes.
    ("conformance", &["sandbox"]),
    ("bench-bolt", &["bolt"]),
    // It runs the gateway it measures, and tells it of records.
    ("bench-gateway", &["mainstay-core", "bolt", "gateway"]),
    ("xtask", &[]),
];

/// The feature that turns single safety rules off, and the only crates that
/// may ask for it. The gateway and the operator never may.
///
/// Declared, not resolved: today the binary contains `sim`, which asks for it.
const SWITCHES: (&str, &str) = ("mainstay-core", "rule-switches");
const SWITCH_USERS: &[&str] = &["sim", "sandbox"];

/// All rules of this file.
pub(crate) fn check(metadata: &Metadata) -> Vec<Violation> {
    metadata
        .packages
        .iter()
        .flat_map(|package| {
            let mut found = direction(package, metadata);
            found.extend(switches(package));
            found
        })
        .collect()
}

fn direction(package: &Package, metadata: &Metadata) -> Vec<Violation> {
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package.name) else {
        return vec![Violation(format!(
            "crate `{}` has no row in the table of allowed edges",
            package.name
        ))];
    };
    package
        .dependencies
        .iter()
        .filter(|dependency| metadata.package(&dependency.name).is_some())
        .filter(|dependency| !allowed.contains(&dependency.name.as_str()))
        .map(|dependency| {
            Violation(format!(
                "crate `{}` must not depend on `{}`",
                package.name, dependency.name
            ))
        })
        .collect()
}

fn switches(package: &Package) -> Vec<Violation> {
    let (owner, feature) = SWITCHES;
    let mut found = Vec::new();
    if !SWITCH_USERS.contains(&package.name.as_str()) {
        let by_dependency = package
            .dependencies
            .iter()
            .any(|dependency| dependency.name == owner && dependency.features.iter().any(|f| f == feature));
        let qualified = [format!("{owner}/{feature}"), format!("{owner}?/{feature}")];
        let by_feature = package.features.values().flatten().any(|f| qualified.contains(f));
        if by_dependency || by_feature {
            found.push(Violation(format!(
                "crate `{}` must not enable `{owner}/{feature}`",
                package.name
            )));
        }
    }
    // A feature of the owner that implies it would let anyone enable it under another name.
    if package.name == owner {
        for (name, implied) in &package.features {
            if implied.iter().any(|f| f == feature) {
                found.push(Violation(format!(
                    "feature `{owner}/{name}` must not imply `{feature}`"
                )));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::metadata::Dependency;
    use super::*;

    fn crate_with(name: &str, dependencies: &[(&str, &[&str])]) -> Package {
        Package {
            name: name.to_owned(),
            dependencies: dependencies
                .iter()
                .map(|(name, features)| Dependency {
                    name: (*name).to_owned(),
                    features: features.iter().map(|f| (*f).to_owned()).collect(),
                })
                .collect(),
            features: BTreeMap::new(),
        }
    }

    fn with_feature(mut package: Package, name: &str, implies: &str) -> Package {
        package.features.insert(name.to_owned(), vec![implies.to_owned()]);
        package
    }

    fn messages(packages: Vec<Package>) -> Vec<String> {
        check(&Metadata { packages })
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn the_intended_layout_is_accepted() {
        let found = messages(vec![
            crate_with("mainstay-core", &[("serde", &[])]),
            crate_with("bolt", &[]),
            crate_with("sim", &[("mainstay-core", &["rule-switches"]), ("bolt", &[])]),
            crate_with("gateway", &[("mainstay-core", &[]), ("bolt", &[])]),
            crate_with("operator", &[("gateway", &[])]),
            crate_with("sandbox", &[("sim", &[]), ("operator", &[])]),
            crate_with("mainstay", &[("sandbox", &[]), ("sim", &[])]),
            crate_with("xtask", &[("clap", &[])]),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn an_edge_against_the_direction_is_named() {
        let found = messages(vec![
            crate_with("mainstay-core", &[("sim", &[])]),
            crate_with("sim", &[]),
        ]);
        assert_eq!(found, ["crate `mainstay-core` must not depend on `sim`"]);
    }

    #[test]
    fn nothing_may_depend_on_the_binary_or_on_the_tasks() {
        for (_, allowed) in ALLOWED {
            assert!(!allowed.contains(&"mainstay") && !allowed.contains(&"xtask"));
        }
    }

    #[test]
    fn the_table_has_no_cycle_because_each_row_names_only_rows_above_it() {
        for (row, (name, allowed)) in ALLOWED.iter().enumerate() {
            let above: Vec<_> = ALLOWED[..row].iter().map(|(name, _)| *name).collect();
            for dependency in *allowed {
                assert!(above.contains(dependency), "{name} -> {dependency}");
            }
        }
    }

    #[test]
    fn a_crate_nobody_placed_is_a_violation() {
        let found = messages(vec![crate_with("mystery", &[])]);
        assert_eq!(
            found,
            ["crate `mystery` has no row in the table of allowed edges"]
        );
    }

    #[test]
    fn the_operator_cannot_switch_rules_off_by_a_dependency() {
        let found = messages(vec![
            crate_with("mainstay-core", &[]),
            crate_with("operator", &[("mainstay-core", &["rule-switches"])]),
        ]);
        assert_eq!(
            found,
            ["crate `operator` must not enable `mainstay-core/rule-switches`"]
        );
    }

    #[test]
    fn the_gateway_cannot_switch_rules_off_by_a_feature_of_its_own() {
        for spelled in ["mainstay-core/rule-switches", "mainstay-core?/rule-switches"] {
            let found = messages(vec![with_feature(crate_with("gateway", &[]), "testing", spelled)]);
            assert_eq!(
                found,
                ["crate `gateway` must not enable `mainstay-core/rule-switches`"]
            );
        }
    }

    #[test]
    fn rules_are_not_switched_off_by_default_or_under_another_name() {
        let found = messages(vec![with_feature(
            crate_with("mainstay-core", &[]),
            "default",
            "rule-switches",
        )]);
        assert_eq!(
            found,
            ["feature `mainstay-core/default` must not imply `rule-switches`"]
        );
    }

    #[test]
    fn the_feature_itself_may_exist_and_be_empty() {
        let mut core = crate_with("mainstay-core", &[]);
        core.features.insert("rule-switches".to_owned(), Vec::new());
        assert!(messages(vec![core]).is_empty());
    }
}
