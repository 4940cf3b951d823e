//! What cargo says about our own crates.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::workspace::{Workspace, capture};

/// The workspace's own packages (`--no-deps`), as far as the rules need them.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
}

/// One of our crates, as its manifest declares it.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) features: BTreeMap<String, Vec<String>>,
}

/// One line of a manifest's dependency tables, of whatever kind: a
/// dev-dependency is an edge too.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    /// The package's real name, also when it is renamed.
    pub(crate) name: String,
    pub(crate) features: Vec<String>,
}

impl Metadata {
    pub(crate) fn read(workspace: &Workspace) -> Result<Self> {
        let mut command = workspace.cargo();
        command.args(["metadata", "--locked", "--no-deps", "--format-version", "1"]);
        Self::parse(&capture(&mut command)?)
    }

    fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).context("cargo metadata has a shape this task does not know")
    }

    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_prints_is_read_and_the_rest_ignored() {
        let json = br#"{
            "packages": [{
                "name": "sim", "version": "0.1.0", "license": null,
                "features": {"extra": ["mainstay-core/x"]},
                "dependencies": [
                    {"name": "mainstay-core", "rename": "core", "kind": null, "features": ["rule-switches"]},
                    {"name": "insta", "kind": "dev", "features": []}
                ]
            }],
            "workspace_members": ["path+file:///x#sim@0.1.0"], "resolve": null
        }"#;
        let metadata = Metadata::parse(json).unwrap();
        let sim = metadata.package("sim").unwrap();
        assert_eq!(sim.dependencies[0].name, "mainstay-core");
        assert_eq!(sim.dependencies[0].features, ["rule-switches"]);
        assert_eq!(sim.features["extra"], ["mainstay-core/x"]);
        assert!(metadata.package("insta").is_none());
    }
}
