//! A question to the operator that leads, through the API server: nothing has to be reachable but that.

use crate::sentence::sentence;
use anyhow::{Context, Result, bail, ensure};
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

/// GETs this path from the leader that knows it: with an operator for each namespace there are several.
pub(super) async fn ask_leaders(client: &Client, path: &str) -> Result<Value> {
    let found = operators(client).await?;
    ensure!(
        !found.is_empty(),
        "there is no lease `{LEASE}`: no operator has ever run here"
    );
    first_to_answer(&leaders(found), async |(namespace, pod)| {
        timeout(PATIENCE, ask(client, namespace, pod, path))
            .await
            .with_context(|| format!("{pod} does not answer"))?
    })
    .await
}

/// The leases for which operators compete.
pub(super) async fn operators(client: &Client) -> Result<Vec<Lease>> {
    let leases: Api<Lease> = Api::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={LEASE}"));
    Ok(leases
        .list(&named)
        .await
        .context("leases cannot be listed")?
        .items)
}

/// The pods that hold the leases, with their namespaces.
fn leaders(leases: Vec<Lease>) -> Vec<(String, String)> {
    let holders = leases.into_iter().filter_map(|lease| {
        let namespace = lease.namespace().unwrap_or_default();
        let holder = lease.spec?.holder_identity?;
        // The run is behind the last `_`; a pod's name has none.
        let (pod, _) = holder.rsplit_once('_').filter(|(pod, _)| !pod.is_empty())?;
        Some((namespace, pod.to_owned()))
    });
    holders.collect()
}

/// One after the other. A lease may be left of an operator that is gone, and an operator of another namespace knows
/// nothing of this cluster.
async fn first_to_answer<T>(
    leaders: &[(String, String)],
    ask: impl AsyncFn(&(String, String)) -> Result<T>,
) -> Result<T> {
    let mut refused = Vec::new();
    for leader in leaders {
        match ask(leader).await {
            Ok(answer) => return Ok(answer),
            Err(error) => refused.push(sentence(&error)),
        }
    }
    ensure!(!refused.is_empty(), "no operator leads now");
    bail!(refused.join("; "))
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
        ensure!(status.is_success(), "{pod} answered {status}");
        Ok(serde_json::from_slice(&body)?)
    };
    // The connection moves the bytes; it has no life of its own.
    tokio::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        ended = connection => { ended?; exchange.await }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lease(namespace: &str, holder: Option<&str>) -> Lease {
        serde_json::from_value(json!({
            "metadata": { "name": LEASE, "namespace": namespace }, "spec": { "holderIdentity": holder },
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn the_operator_that_knows_the_cluster_answers_whichever_lease_is_listed_first() {
        let found = leaders(vec![
            lease("a", None),
            lease("b", Some("_1")),
            lease("c", Some("mainstay-c_17")),
            lease("d", Some("mainstay-d_4")),
        ]);
        let named = |namespace: &str, pod: &str| (namespace.to_owned(), pod.to_owned());
        assert_eq!(found, [named("c", "mainstay-c"), named("d", "mainstay-d")]);
        let knows = |one: &'static str| {
            async move |(_, pod): &(String, String)| {
                ensure!(pod == one, "{pod} answered 404");
                Ok(pod.clone())
            }
        };
        let answer = first_to_answer(&found, knows("mainstay-d")).await;
        assert_eq!(answer.unwrap(), "mainstay-d");
        let nobody = first_to_answer(&found, knows("x")).await.unwrap_err().to_string();
        assert_eq!(nobody, "mainstay-c answered 404; mainstay-d answered 404");
        let none = first_to_answer(&[], knows("x")).await.unwrap_err().to_string();
        assert_eq!(none, "no operator leads now");
    }
}
