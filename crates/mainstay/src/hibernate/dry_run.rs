//! Which resources a shutdown would stop now.

use super::{Where, table, written};
use ::operator::hibernation::Settings;
use ::operator::hibernation::dry_run::{DryRun, Line, Would, dry_run};
use anyhow::{Context, Result};
use clap::Args;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The plan.
    name: String,
    #[command(flatten)]
    place: Where,
}

pub(crate) async fn command(arguments: Arguments) -> Result<()> {
    let Arguments { name, place } = arguments;
    let client = place.client().await?;
    let found = dry_run(client, &place.namespace, &name, Settings::default()).await;
    let found = found.with_context(|| format!("the HibernatePlan `{name}` in `{}`", place.namespace))?;
    print!("{}", written(&found, place.output, text)?);
    anyhow::ensure!(found.failed.is_empty(), "not every target could be looked at");
    Ok(())
}

fn text(found: &DryRun) -> String {
    let DryRun { resources, failed } = found;
    let mut rows = vec![
        ["TARGET", "RESOURCE", "WOULD", "STATE OR REASON"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for line in resources {
        let Line {
            target,
            executor: _,
            resource,
            would,
            why,
            state,
        } = line;
        let word = match would {
            Would::Stop => "stop",
            Would::Leave => "leave",
            Would::Skip => "skip",
        };
        let rest = why.clone().unwrap_or_else(|| state.to_string());
        rows.push(vec![target.clone(), resource.clone(), word.to_owned(), rest]);
    }
    let failed = failed
        .iter()
        .map(|(target, why)| format!("! `{target}` could not be looked at: {why}\n"));
    let stops = resources.iter().filter(|l| l.would == Would::Stop).count();
    let sum = format!("{stops} would be stopped, nothing was touched\n");
    std::iter::once(table(&rows)).chain(failed).chain([sum]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_would_be_done_is_told_with_the_reason() {
        let line = |resource: &str, would, why: Option<&str>| Line {
            target: "apps".to_owned(),
            executor: "workloads".to_owned(),
            resource: resource.to_owned(),
            would,
            why: why.map(str::to_owned),
            state: json!({ "replicas": 3 }),
        };
        let found = DryRun {
            resources: vec![
                line("apps/v1/deployments/web", Would::Stop, None),
                line("apps/v1/deployments/off", Would::Leave, Some("it does not run")),
                line("apps/v1/deployments/db", Would::Skip, Some("it is protected")),
            ],
            failed: vec![("cloud".to_owned(), "access denied".to_owned())],
        };
        insta::assert_snapshot!(text(&found));
    }
}
