//! Which Kubernetes a command talks to.

use crate::sandbox::found::find;
use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::Path;

/// That of a file; without one the pod's own service account, or what kubectl would use. Nothing is tried again by
/// the client itself: what is tried again, and when, is decided by whoever asks, and kube would go on for minutes.
pub(crate) async fn client(kubeconfig: Option<&Path>) -> Result<Client> {
    let mut config = config(kubeconfig).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// How that Kubernetes is reached.
pub(crate) async fn config(kubeconfig: Option<&Path>) -> Result<Config> {
    Ok(match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => Config::infer()
            .await
            .context("no Kubernetes: neither a service account nor a kubeconfig")?,
    })
}

/// For people: a file, a sandbox that runs, or what kubectl would use.
pub(crate) async fn client_for_people(kubeconfig: Option<&Path>) -> Result<Client> {
    install_tls();
    match (kubeconfig, find(None).await) {
        (None, Ok(sandbox)) => client(Some(&sandbox.kubeconfig)).await,
        (given, _) => client(given).await,
    }
}

/// One TLS provider; whoever installed it before chose the same one.
pub(crate) fn install_tls() {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .ok();
}
