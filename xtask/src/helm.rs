//! Helm at one version, from the Go module proxy: installed on demand, once, outside the checkout.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::summary::seconds;
use crate::tools;
use crate::workspace::{Workspace, stream};

const VERSION: &str = "4.3.1";

/// The path of the program, after installing it if need be. One on the path is never used: it does not say exactly
/// which release it is, and another one formats differently.
pub(crate) fn ensure(workspace: &Workspace) -> Result<PathBuf> {
    let folder = tools::home(workspace).join(format!("helm-{VERSION}")).join("bin");
    let program = folder.join("helm");
    if program.is_file() {
        return Ok(program);
    }
    println!("installing helm {VERSION} into {}", folder.display());
    let started = Instant::now();
    // Beside each other several may install: whole files only.
    let own = folder.join(format!("new-{}", std::process::id()));
    fs::create_dir_all(&own).with_context(|| format!("cannot make {}", own.display()))?;
    let mut install = workspace.command("go");
    install
        .args(["install", &format!("helm.sh/helm/v4/cmd/helm@v{VERSION}")])
        .env("GOBIN", &own)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-trimpath -buildvcs=false")
        .env("GOWORK", "off");
    stream(&mut install).with_context(|| format!("helm {VERSION} could not be built; it needs go"))?;
    fs::rename(own.join("helm"), &program).context("helm cannot be put in its place")?;
    fs::remove_dir(&own).with_context(|| format!("cannot remove {}", own.display()))?;
    println!("installed helm {VERSION} in {} s", seconds(started.elapsed()));
    Ok(program)
}
