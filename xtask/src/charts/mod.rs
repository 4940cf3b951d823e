//! The charts: linted, rendered and compared with what is committed, and asked to refuse what is wrong.

mod refused;
mod rendered;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::Verdict;
use crate::helm;
use crate::workspace::{Workspace, display, stream};

/// What to do about what is rendered.
#[derive(Debug, Args)]
pub(crate) struct ChartArgs {
    /// Write the snapshots anew, to be looked at and committed
    #[arg(long)]
    accept: bool,
}

const CHARTS: [&str; 2] = ["mainstay", "memgraph-ha"];

/// Helm, and where it looks.
struct Helm<'a> {
    program: PathBuf,
    workspace: &'a Workspace,
}

impl Helm<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.workspace.command(&self.program);
        command.args(args);
        // Nothing of the machine may change what is rendered.
        for variable in ["KUBECONFIG", "HELM_NAMESPACE", "HELM_DEBUG", "HELM_PLUGINS"] {
            command.env_remove(variable);
        }
        command
    }

    fn template(&self, chart: &str, args: &[&str]) -> Result<Answer> {
        let path = format!("charts/{chart}");
        let mut command = self.command(&["template", chart, &path, "--namespace", "somewhere"]);
        command.args(args).stderr(Stdio::piped());
        let output = command
            .output()
            .with_context(|| format!("cannot start {}", display(&command)))?;
        let said = |bytes: Vec<u8>| String::from_utf8(bytes).context("helm did not print text");
        Ok(if output.status.success() {
            Answer::Rendered(said(output.stdout)?)
        } else {
            Answer::Refused(said(output.stderr)?)
        })
    }
}

/// What helm makes of a chart and values.
enum Answer {
    Rendered(String),
    Refused(String),
}

/// `cargo xtask charts`.
pub(crate) fn charts(workspace: &Workspace, args: &ChartArgs) -> Result<Verdict> {
    check(workspace, args.accept)?;
    Ok(Verdict::Good)
}

/// The stage.
pub(crate) fn stage(workspace: &Workspace) -> Result<()> {
    check(workspace, false)
}

fn check(workspace: &Workspace, accept: bool) -> Result<()> {
    let helm = Helm {
        program: helm::ensure(workspace)?,
        workspace,
    };
    for chart in CHARTS {
        let path = format!("charts/{chart}");
        let mut lint = helm.command(&["lint", "--strict", "--quiet", &path]);
        println!("$ {}", display(&lint));
        stream(&mut lint)?;
    }
    let mut wrong = rendered::check(&helm, accept)?;
    wrong.extend(refused::check(&helm)?);
    for line in &wrong {
        eprintln!("{line}");
    }
    match wrong.len() {
        0 => Ok(()),
        n => bail!("{n} things are wrong with the charts"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_have_the_version_of_the_workspace() {
        for chart in CHARTS {
            // `cargo test` starts a test in the folder of its package.
            let text = std::fs::read_to_string(format!("../charts/{chart}/Chart.yaml")).unwrap();
            let version = env!("CARGO_PKG_VERSION");
            assert!(text.contains(&format!("\nversion: {version}\n")), "{chart}");
            assert!(
                text.contains(&format!("\nappVersion: \"{version}\"\n")),
                "{chart}"
            );
        }
    }

    #[test]
    fn every_chart_says_what_it_is_and_what_may_be_set() {
        for chart in CHARTS {
            for file in [
                "README.md",
                "values.yaml",
                "values.schema.json",
                "templates/NOTES.txt",
            ] {
                let path = format!("../charts/{chart}/{file}");
                assert!(std::path::Path::new(&path).is_file(), "{path}");
            }
        }
    }
}
