//! `mainstay hibernate`: what people do with plans that sleep.
//!
//! What changes a plan is an annotation or a field of its object: the operator reads it, decides by the same rules as
//! always, and says in the status what came of it.

mod dry_run;
mod files;
mod preview;
mod restore;
mod savings;
mod wishes;

use crate::kubernetes::{Both, Meant};
use anyhow::{Context, Result};
use api::{HibernatePlan, ScheduleException};
use clap::{Args, Subcommand, ValueEnum};
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Serialize;
use std::process::ExitCode;

#[derive(Subcommand)]
pub(crate) enum Hibernate {
    /// The next 14 days: when it sleeps, why each edge, changes of the clocks, and sleeps of more than 72 hours.
    ///
    /// By the code that the operator runs, from files, before anything is applied.
    Preview(preview::Arguments),
    /// Which resources a shutdown would stop now, which it would skip, and why. Reads only.
    DryRun(dry_run::Arguments),
    /// Wake up now, until the schedule would have woken it.
    Wake(wishes::UntilArguments),
    /// Go to sleep now, until the schedule would have put it to sleep and wakes it.
    Sleep(wishes::UntilArguments),
    /// Be awake for a while, whatever the schedule says; it ends by itself.
    AwakeFor(wishes::ForArguments),
    /// Touch nothing until it is resumed. What sleeps goes on sleeping.
    Suspend(wishes::SuspendArguments),
    /// The end of a suspension, or of a wish to be awake or asleep.
    Resume(wishes::PlanArguments),
    /// Try again now what has failed.
    Retry(wishes::PlanArguments),
    /// Restore points: look at them, check them, take them elsewhere and bring them back.
    #[command(subcommand)]
    Restore(restore::Restore),
    /// What sleeping saved, by a table of prices.
    Savings(savings::Arguments),
}

/// How the answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Where, and how it is told.
#[derive(Args)]
struct Where {
    #[command(flatten)]
    meant: Meant,
    /// In this namespace.
    #[arg(long, short, default_value = "default")]
    namespace: String,
    /// JSON or YAML instead of text.
    #[arg(long, short)]
    output: Option<Output>,
}

impl Where {
    async fn client(&self) -> Result<Client> {
        self.meant.client(Both::Exported, self.output.is_some()).await
    }

    fn plans(&self, client: &Client) -> Api<HibernatePlan> {
        Api::namespaced(client.clone(), &self.namespace)
    }

    /// The exceptions to a plan.
    async fn exceptions(&self, client: &Client, plan: &str) -> Result<Vec<ScheduleException>> {
        let api: Api<ScheduleException> = Api::namespaced(client.clone(), &self.namespace);
        let listed = api.list(&ListParams::default()).await;
        let mut exceptions = listed.context("the exceptions cannot be listed")?.items;
        exceptions.retain(|e| e.spec.plan_ref.name == plan);
        Ok(exceptions)
    }

    async fn plan(&self, client: &Client, name: &str) -> Result<HibernatePlan> {
        let found = self.plans(client).get(name).await;
        found.with_context(|| {
            format!(
                "the HibernatePlan `{name}` in `{}` cannot be read",
                self.namespace
            )
        })
    }
}

pub(crate) fn command(command: Hibernate) -> ExitCode {
    match command {
        Hibernate::Preview(arguments) => crate::run_to_end("hibernate preview", preview::command(arguments)),
        Hibernate::DryRun(arguments) => crate::run_to_end("hibernate dry-run", dry_run::command(arguments)),
        Hibernate::Wake(arguments) => crate::run_to_end("hibernate wake", wishes::wake(arguments)),
        Hibernate::Sleep(arguments) => crate::run_to_end("hibernate sleep", wishes::sleep(arguments)),
        Hibernate::AwakeFor(arguments) => {
            crate::run_to_end("hibernate awake-for", wishes::awake_for(arguments))
        }
        Hibernate::Suspend(arguments) => crate::run_to_end("hibernate suspend", wishes::suspend(arguments)),
        Hibernate::Resume(arguments) => crate::run_to_end("hibernate resume", wishes::resume(arguments)),
        Hibernate::Retry(arguments) => crate::run_to_end("hibernate retry", wishes::retry(arguments)),
        Hibernate::Restore(command) => crate::run_to_end("hibernate restore", restore::command(command)),
        Hibernate::Savings(arguments) => crate::run_to_end("hibernate savings", savings::command(arguments)),
    }
}

/// As it is asked for: as text for people, or as data for programs.
fn written<T: Serialize>(
    data: &T,
    output: Option<Output>,
    text: impl FnOnce(&T) -> String,
) -> Result<String> {
    Ok(match output {
        None => text(data),
        Some(Output::Json) => serde_json::to_string_pretty(data)? + "\n",
        Some(Output::Yaml) => serde_saphyr::to_string(data)?,
    })
}

/// Lines of a table: every column as wide as it must be.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let text = cells.collect::<Vec<_>>().join("  ");
        format!("{}\n", text.trim_end())
    };
    rows.iter().map(line).collect()
}
