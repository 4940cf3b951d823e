//! A client behind a gateway, while MAIN is lost.

use crate::bed::{Bed, NAME};
use anyhow::{Context, Result, ensure};
use gateway::{Config, Gateway, Plane, PushToken, Resolve};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use mainstay_core::memgraph::ids::Ordinal;
use sandbox::standin::memgraph::client::{Client, Outcome};
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

async fn gateway(bed: &Bed) -> Result<Gateway> {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": format!("{NAME}-gateway-token") },
        "stringData": { "token": "secret" },
    }))?;
    let secrets: Api<Secret> = Api::default_namespaced(bed.client.clone());
    secrets.create(&PostParams::default(), &secret).await?;
    let mut config = Config::new(NAME.parse()?, "default", "one");
    config.token = PushToken::Fixed("secret".to_owned());
    let names = Resolve::HostsFile(bed.nodes.hosts_file("default"));
    let plane = Plane::Kubernetes(bed.kubernetes.client());
    Ok(Gateway::start(config, plane, names).await?)
}

/// One write on a connection of its own: whether it was acknowledged.
async fn write(address: SocketAddr, number: i64) -> bool {
    let auth = bolt::message::Auth::None;
    let Ok(mut client) = Client::connect_within(address, auth, Duration::from_secs(15)).await else {
        return false;
    };
    let query = format!("CREATE (:Numbered {{n: {number}}})");
    matches!(client.query(&query).await, Ok(Outcome::Done(_)))
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_through_the_gateway_go_on_when_main_is_killed_and_none_is_lost() -> Result<()> {
    let bed = Bed::new().await?;
    let gateway = gateway(&bed).await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    bed.until_protected().await?;
    let address = gateway.bolt();
    let mut acknowledged = 0_i64;
    let mut longest = Duration::ZERO;
    let mut last = Instant::now();
    for number in 0..120 {
        if number == 40 {
            bed.nodes.kill(&Bed::party(0), None)?;
        }
        if write(address, number).await {
            acknowledged += 1;
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
    }
    eprintln!("acknowledged {acknowledged} of 120, longest gap {longest:?}");
    ensure!(acknowledged >= 100, "only {acknowledged} were acknowledged");
    let record = bed.until_protected().await?;
    let main = record.main.context("nobody serves")?.pod;
    ensure!(main == Ordinal(1));
    let found = bed.count(main.0, "Numbered").await?;
    // One that was not acknowledged may be there; one that was must be.
    ensure!(found >= acknowledged, "{found} of {acknowledged} are there");
    operator.stop().await?;
    gateway.shutdown().await;
    bed.end().await
}
