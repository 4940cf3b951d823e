//! A question to the operator that leads, through the API server: nothing has to be reachable but that.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use operator::install::{HTTP_PORT, LEASE};
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

/// Longer than a busy operator takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest answer that is read.
const LARGEST: usize = 4 * 1024 * 1024;

/// GETs this path from the leader.
pub(super) async fn ask_leader(client: &Client, path: &str) -> Result<Value> {
    let (namespace, pod) = leader(client).await?;
    timeout(PATIENCE, ask(client, &namespace, &pod, path))
        .await
        .with_context(|| format!("{pod} does not answer"))?
}

/// The pod that holds the lease.
async fn leader(client: &Client) -> Result<(String, String)> {
    let leases: Api<Lease> = Api::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={LEASE}"));
    let found = leases.list(&named).await.context("leases cannot be listed")?;
    let lease = found
        .items
        .into_iter()
        .next()
        .with_context(|| format!("there is no lease `{LEASE}`: no operator has ever run here"))?;
    let namespace = lease.namespace().unwrap_or_default();
    let holder = lease
        .spec
        .and_then(|spec| spec.holder_identity)
        .unwrap_or_default();
    // The run is behind the last `_`; a pod's name has none.
    match holder.rsplit_once('_') {
        Some((pod, _)) if !pod.is_empty() => Ok((namespace, pod.to_owned())),
        _ => bail!("no operator leads now"),
    }
}

async fn ask(client: &Client, namespace: &str, pod: &str, path: &str) -> Result<Value> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut forwarded = pods
        .portforward(pod, &[HTTP_PORT])
        .await
        .with_context(|| format!("{pod} cannot be reached through the API server"))?;
    let stream = forwarded
        .take_stream(HTTP_PORT)
        .context("no stream to the operator")?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = http::Request::get(path)
        .header(http::header::HOST, pod)
        .body(Empty::<Bytes>::new())?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
        anyhow::ensure!(status.is_success(), "{pod} answered {status}");
        Ok(serde_json::from_slice(&body)?)
    };
    // The connection moves the bytes; it has no life of its own.
    tokio::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        ended = connection => { ended?; exchange.await }
    }
}
