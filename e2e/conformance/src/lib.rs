//! What Mainstay relies on of Kubernetes, written once against `kube::Client`
//! and run against the small one of the sandbox and against real ones.
//!
//! A check gets a namespace of its own. It asserts codes, reasons and fields,
//! never sentences: those change with every release.

mod access;
mod applying;
mod controllers;
mod custom;
mod deletion;
mod lists;
mod objects;
mod patches;
mod watches;
mod workloads;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;

pub use crate::world::{Reply, World};

/// One thing that is relied upon.
pub struct Check {
    /// A sentence.
    pub name: &'static str,
    run: fn(World) -> BoxFuture<'static, anyhow::Result<()>>,
}

/// A table of checks out of functions whose names are sentences.
macro_rules! checks {
    ($($name:ident),* $(,)?) => {
        pub(crate) const CHECKS: &[crate::Check] = &[
            $(crate::Check { name: stringify!($name), run: |world| Box::pin($name(world)) }),*
        ];
    };
}
pub(crate) use checks;

/// Makes a client out of a token.
pub type Login = Arc<dyn Fn(&str) -> kube::Result<Client> + Send + Sync>;

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// How many checks ran.
    pub checks: usize,
    /// How many assertions were made in them.
    pub assertions: usize,
    /// Which checks failed, and why.
    pub failures: Vec<(String, String)>,
    /// Which checks could not ask what they are for, and why.
    pub skipped: Vec<(String, String)>,
}

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// Run every check whose name contains `only`.
pub async fn run(client: &Client, login: Option<&Login>, only: &str) -> Report {
    let mut report = Report::default();
    let assertions = Arc::new(AtomicUsize::new(0));
    let all = [
        objects::CHECKS,
        deletion::CHECKS,
        lists::CHECKS,
        watches::CHECKS,
        patches::CHECKS,
        applying::CHECKS,
        custom::CHECKS,
        workloads::CHECKS,
        controllers::CHECKS,
        access::CHECKS,
    ];
    for check in all
        .into_iter()
        .flatten()
        .filter(|check| check.name.contains(only))
    {
        report.checks += 1;
        let outcome = tokio::time::timeout(PATIENCE, one(check, client, login, &assertions)).await;
        let failure = match outcome {
            Ok(Ok(None)) => continue,
            Ok(Ok(Some(why))) => {
                report.skipped.push((check.name.to_owned(), why.to_owned()));
                continue;
            }
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => format!("not done within {PATIENCE:?}"),
        };
        report.failures.push((check.name.to_owned(), failure));
    }
    report.assertions = assertions.load(Ordering::Relaxed);
    report
}

async fn one(
    check: &Check,
    client: &Client,
    login: Option<&Login>,
    assertions: &Arc<AtomicUsize>,
) -> anyhow::Result<Option<&'static str>> {
    let world = World::new(client.clone(), login.cloned(), Arc::clone(assertions)).await?;
    let cleaning = world.clone();
    let outcome = (check.run)(world).await;
    cleaning.clean().await?;
    outcome?;
    Ok(cleaning.skipped())
}
