//! What is in the program: a CycloneDX document, made from the lock file and from what cargo resolves with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::workspace::{Workspace, capture};

/// The document for the program `mainstay` as it is built for this target. It has no time and no number of its own:
/// the same lock file gives the same document.
pub(super) fn document(workspace: &Workspace, target: &str) -> Result<String> {
    let mut command = workspace.cargo();
    command.args([
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        target,
    ]);
    let metadata: Metadata =
        serde_json::from_slice(&capture(&mut command)?).context("cargo metadata cannot be read")?;
    let lock = fs::read_to_string(workspace.root().join("Cargo.lock")).context("no lock file")?;
    Ok(serde_json::to_string_pretty(&describe(&metadata, &checksums(&lock))?)? + "\n")
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    /// Nothing for a dependency that is linked; `build` and `dev` are not in the program.
    kind: Option<String>,
}

type Name = (String, String);

/// The checksum of each crate that has one: ours have none.
fn checksums(lock: &str) -> BTreeMap<Name, String> {
    let value = |block: &str, key: &str| {
        let start = format!("{key} = \"");
        let line = block.lines().find_map(|line| line.strip_prefix(&start))?;
        line.strip_suffix('"').map(str::to_owned)
    };
    lock.split("[[package]]")
        .filter_map(|block| {
            let name = (value(block, "name")?, value(block, "version")?);
            Some((name, value(block, "checksum")?))
        })
        .collect()
}

/// Everything that is linked into the program, by id.
fn linked<'a>(metadata: &'a Metadata, root: &'a str) -> BTreeSet<&'a str> {
    let nodes: BTreeMap<&str, &Node> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node))
        .collect();
    let mut found = BTreeSet::new();
    let mut pending = vec![root];
    while let Some(id) = pending.pop() {
        if !found.insert(id) {
            continue;
        }
        let edges = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        pending.extend(
            edges
                .filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none()))
                .map(|edge| edge.pkg.as_str()),
        );
    }
    found
}

fn describe(metadata: &Metadata, checksums: &BTreeMap<Name, String>) -> Result<Value> {
    let root = metadata
        .packages
        .iter()
        .find(|package| package.name == "mainstay")
        .context("there is no package `mainstay`")?;
    let linked = linked(metadata, &root.id);
    let mut parts: Vec<&Package> = metadata
        .packages
        .iter()
        .filter(|package| linked.contains(package.id.as_str()) && package.id != root.id)
        .collect();
    parts.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    let parts: Vec<Value> = parts.into_iter().map(|part| component(part, checksums)).collect();
    let mut main = component(root, checksums);
    if let Value::Object(main) = &mut main {
        main.insert("type".to_owned(), json!("application"));
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": main },
        "components": parts,
    }))
}

fn component(package: &Package, checksums: &BTreeMap<Name, String>) -> Value {
    let Package {
        id: _,
        name,
        version,
        license,
    } = package;
    let purl = format!("pkg:cargo/{name}@{version}");
    let mut component = json!({
        "type": "library", "name": name, "version": version, "bom-ref": purl, "purl": purl,
    });
    if let Value::Object(component) = &mut component {
        if let Some(license) = license {
            // The old way to write "or", which is no expression.
            let expression = license.replace('/', " OR ");
            component.insert("licenses".to_owned(), json!([{ "expression": expression }]));
        }
        if let Some(sum) = checksums.get(&(name.clone(), version.clone())) {
            component.insert("hashes".to_owned(), json!([{ "alg": "SHA-256", "content": sum }]));
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"x\"\nchecksum = \"12ab\"\n\
                        dependencies = [\n \"b\",\n]\n\n[[package]]\nname = \"mainstay\"\nversion = \"0.1.0\"\n";

    fn metadata() -> Metadata {
        let package = |name: &str, version: &str, license: &str| json!({ "id": name, "name": name, "version": version, "license": license });
        let edge = |to: &str, kind: Value| json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] });
        serde_json::from_value(json!({
            "packages": [
                package("a", "1.0.0", "MIT/Apache-2.0"),
                package("mainstay", "0.1.0", "Apache-2.0"),
                package("only-in-tests", "1.0.0", "MIT"),
                package("builds", "1.0.0", "MIT"),
            ],
            "resolve": { "nodes": [
                { "id": "mainstay", "deps": [edge("a", Value::Null), edge("only-in-tests", json!("dev"))] },
                { "id": "a", "deps": [edge("builds", json!("build")), edge("mainstay", Value::Null)] },
            ] },
        }))
        .unwrap()
    }

    #[test]
    fn what_is_linked_is_listed_with_licence_and_sum_and_nothing_else() {
        let document = describe(&metadata(), &checksums(LOCK)).unwrap();
        assert_eq!(
            document["components"],
            json!([{
                "type": "library", "name": "a", "version": "1.0.0",
                "bom-ref": "pkg:cargo/a@1.0.0", "purl": "pkg:cargo/a@1.0.0",
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
                "hashes": [{ "alg": "SHA-256", "content": "12ab" }],
            }])
        );
        let main = &document["metadata"]["component"];
        assert_eq!(
            (&main["type"], &main["name"]),
            (&json!("application"), &json!("mainstay"))
        );
        assert!(main.get("hashes").is_none());
    }
}
