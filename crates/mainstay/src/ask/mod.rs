//! `mainstay status` and `mainstay why`: what is, and which rule made it so.

mod forward;
mod ring;
mod status;
mod why;

use crate::kubernetes::client_for_people;
use crate::sentence::sentence;
use anyhow::{Context, Result};
use api::{MemgraphCluster, RingCluster};
use clap::Args;
use jiff::Timestamp;
use kube::{Api, Client};
use std::path::PathBuf;
use std::process::ExitCode;

/// What both are given.
#[derive(Args)]
struct Where {
    /// A kubeconfig; without it a sandbox that runs, or what kubectl would use.
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Only this namespace.
    #[arg(long, short)]
    namespace: Option<String>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl Where {
    async fn client(&self) -> Result<Client> {
        client_for_people(self.kubeconfig.as_deref()).await
    }

    fn clusters(&self, client: &Client) -> Api<MemgraphCluster> {
        match &self.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        }
    }

    async fn list(&self, client: &Client) -> Result<Vec<MemgraphCluster>> {
        let listed = self
            .clusters(client)
            .list(&kube::api::ListParams::default())
            .await;
        Ok(listed.context("clusters cannot be listed")?.items)
    }
}

impl Where {
    /// The rings; none where the kind is not known.
    async fn rings(&self, client: &Client) -> Result<Vec<RingCluster>> {
        let api: Api<RingCluster> = match &self.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        match api.list(&kube::api::ListParams::default()).await {
            Ok(listed) => Ok(listed.items),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(error).context("rings cannot be listed"),
        }
    }
}

/// How `mainstay status` is asked.
#[derive(Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    place: Where,
}

/// Prints one line for each cluster, and what it waits for.
pub(crate) fn status(arguments: StatusArguments) -> ExitCode {
    crate::run_to_end("status", async move {
        let StatusArguments { place } = arguments;
        let client = place.client().await?;
        let clusters = place.list(&client).await?;
        let rings = place.rings(&client).await?;
        if place.json {
            println!("{}", serde_json::to_string_pretty(&all(&clusters, &rings)?)?);
        } else {
            print!("{}", status::render(&clusters, Timestamp::now()));
            print!("{}", ring::table(&rings));
        }
        Ok(())
    })
}

/// Both kinds in one list: each object says what it is.
fn all(clusters: &[MemgraphCluster], rings: &[RingCluster]) -> serde_json::Result<Vec<serde_json::Value>> {
    let clusters = clusters.iter().map(serde_json::to_value);
    clusters.chain(rings.iter().map(serde_json::to_value)).collect()
}

/// How `mainstay why` is asked.
#[derive(Args)]
pub(crate) struct WhyArguments {
    /// Which cluster.
    cluster: String,
    #[command(flatten)]
    place: Where,
}

/// Prints what the leading operator saw, decided and did in its last turn.
pub(crate) fn why(arguments: WhyArguments) -> ExitCode {
    crate::run_to_end("why", async move {
        let WhyArguments { cluster, place } = arguments;
        let client = place.client().await?;
        let found = place.list(&client).await?;
        let mut named = found
            .into_iter()
            .filter(|c| c.metadata.name.as_ref() == Some(&cluster));
        let Some(object) = named.next() else {
            return why_ring(&place, &client, &cluster).await;
        };
        anyhow::ensure!(
            named.next().is_none(),
            "several namespaces have a MemgraphCluster `{cluster}`; say which with --namespace"
        );
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let path = format!("/api/v1/clusters/{namespace}/{cluster}");
        let asked = forward::ask_leaders(&client, &path).await;
        if place.json {
            println!("{}", serde_json::to_string_pretty(&asked?)?);
            return Ok(());
        }
        let now = Timestamp::now();
        print!("{}", status::render(std::slice::from_ref(&object), now));
        match asked {
            Ok(turn) => print!("{}", why::render(&turn, now)?),
            Err(error) => println!("\nThe operator's own account cannot be had: {}", sentence(&error)),
        }
        print!("{}", why::history(&object));
        Ok(())
    })
}

/// The same of a ring: its status holds everything that its last turn had to tell.
async fn why_ring(place: &Where, client: &Client, name: &str) -> Result<()> {
    let rings = place.rings(client).await?;
    let mut named = rings
        .into_iter()
        .filter(|ring| ring.metadata.name.as_deref() == Some(name));
    let object = named
        .next()
        .with_context(|| format!("there is neither a MemgraphCluster nor a RingCluster `{name}`"))?;
    anyhow::ensure!(
        named.next().is_none(),
        "several namespaces have a RingCluster `{name}`; say which with --namespace"
    );
    if place.json {
        println!("{}", serde_json::to_string_pretty(&object.status)?);
    } else {
        print!("{}", ring::why(&object));
    }
    Ok(())
}
