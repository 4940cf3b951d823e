//! `conformance --kubeconfig FILE`: the suite against any cluster.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Parser;
use conformance::Login;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Assert what Mainstay relies on against a cluster. Makes and removes its own namespaces.
#[derive(Parser)]
struct Cli {
    /// Which cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Only checks whose name contains this
    #[arg(long, default_value = "")]
    only: String,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let file = Kubeconfig::read_from(&cli.kubeconfig).context("cannot read the kubeconfig")?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    // A refusal is what is looked for, so it must not be tried again.
    config.default_retry = false;
    let client = Client::try_from(config.clone())?;
    let version = client.apiserver_version().await?;
    let login: Login = Arc::new(move |token| {
        let mut config = config.clone();
        config.auth_info = kube::config::AuthInfo {
            token: Some(token.to_owned().into()),
            ..Default::default()
        };
        Client::try_from(config)
    });
    let report = conformance::run(&client, Some(&login), &cli.only).await;
    for (name, why) in &report.failures {
        println!("FAILED {name}\n       {why}");
    }
    for (name, why) in &report.skipped {
        println!("skipped {name}: {why}");
    }
    println!(
        "{}: {} checks, {} assertions, {} skipped, {} failed",
        version.git_version,
        report.checks,
        report.assertions,
        report.skipped.len(),
        report.failures.len()
    );
    Ok(if report.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
