//! The official drivers as clients of a drill, each with the retries that applications get from it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::drills::python;
use crate::tools::home;
use crate::workspace::{Workspace, stream};

const JAVASCRIPT: &str = "neo4j-driver@6.3.0";
/// As `crates/mainstay/tests/clients/java/pom.xml` has it.
const JAVA: &str = "5.28.4";

/// Where the clients are.
const CLIENTS: &str = "crates/mainstay/tests/clients";

/// One command line for `sh` per driver and kind of address.
pub(crate) fn clients(workspace: &Workspace) -> Result<Vec<String>> {
    let mut all = Vec::new();
    let (interpreter, script) = (
        quoted(&python(workspace)?),
        quoted(&workspace.root().join("crates/mainstay/tests/client.py")),
    );
    for kind in ["managed", "routed", "pymgclient", "mgtransaction"] {
        all.push(format!("{interpreter} {script} {kind}"));
    }
    let folder = javascript(workspace)?;
    let script = workspace.root().join(CLIENTS).join("client.mjs");
    // The driver is found from where node runs.
    let node = format!(
        "sh -c 'cd \"$0\" && exec node \"$@\"' {} {}",
        quoted(&folder),
        quoted(&script)
    );
    let go = quoted(&go(workspace)?);
    let jars = java(workspace)?;
    let path = format!("{0}/*:{0}/classes", jars.display());
    let java = format!("java -Xmx96m -XX:TieredStopAtLevel=1 -cp '{path}' Client");
    for scheme in ["bolt", "neo4j"] {
        all.extend([&node, &go, &java].map(|client| format!("{client} {scheme}")));
    }
    Ok(all)
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}

fn folder(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let folder = home(workspace).join("drivers").join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// An installation that was broken off is not taken for one.
fn is_complete(folder: &Path) -> bool {
    folder.join(".complete").exists()
}

fn complete(folder: &Path) -> Result<()> {
    std::fs::write(folder.join(".complete"), "")
        .with_context(|| format!("cannot finish {}", folder.display()))
}

fn javascript(workspace: &Workspace) -> Result<PathBuf> {
    let folder = folder(workspace, &format!("javascript-{}", JAVASCRIPT.replace('@', "-")))?;
    if !is_complete(&folder) {
        let mut npm = workspace.command("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", JAVASCRIPT]);
        stream(npm.current_dir(&folder)).context("node with npm is needed")?;
        complete(&folder)?;
    }
    Ok(folder)
}

/// Built each time: go keeps what it has built itself.
fn go(workspace: &Workspace) -> Result<PathBuf> {
    let program = folder(workspace, "go")?.join("drill-client");
    let mut go = workspace.command("go");
    go.args(["build", "-o"]).arg(&program).arg(".");
    stream(go.current_dir(workspace.root().join(CLIENTS).join("go"))).context("go is needed")?;
    Ok(program)
}

/// A folder of jars, with the client's class in it.
fn java(workspace: &Workspace) -> Result<PathBuf> {
    let folder = folder(workspace, &format!("java-neo4j-{JAVA}"))?;
    let source = workspace.root().join(CLIENTS).join("java");
    if !is_complete(&folder) {
        let mut maven = workspace.command("mvn");
        maven.args(["-q", "-B", "dependency:copy-dependencies"]);
        maven.arg(format!("-DoutputDirectory={}", folder.display()));
        stream(maven.current_dir(&source)).context("mvn is needed")?;
        complete(&folder)?;
    }
    let mut javac = workspace.command("javac");
    javac.arg("-cp").arg(folder.join("*"));
    javac
        .arg("-d")
        .arg(folder.join("classes"))
        .arg(source.join("Client.java"));
    stream(&mut javac).context("a JDK is needed")?;
    Ok(folder)
}
