//! `mainstay status` and `mainstay why`: what is, and which rule made it so.

mod alive;
mod forward;
mod gateways;
mod ring;
mod status;
mod why;

use crate::kubernetes::{Both, Meant};
use crate::sentence::sentence;
use alive::Heard;
use anyhow::{Context, Result};
use api::{MemgraphCluster, RingCluster};
use clap::Args;
use jiff::Timestamp;
use kube::{Api, Client};
use serde_json::Value;
use std::process::ExitCode;

/// What both are given.
#[derive(Args)]
struct Where {
    #[command(flatten)]
    meant: Meant,
    /// Only this namespace.
    #[arg(long, short)]
    namespace: Option<String>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl Where {
    async fn client(&self) -> Result<Client> {
        self.meant.client(Both::Sandbox, self.json).await
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
        let (heard, now) = (heard(&client).await, Timestamp::now());
        if place.json {
            let all = all(&clusters, &rings, &heard.json(now))?;
            println!("{}", serde_json::to_string_pretty(&all)?);
        } else {
            print!("{}", first_line(&heard, now));
            print!("{}", status::render(&clusters, now));
            print!("{}", ring::table(&rings));
        }
        Ok(())
    })
}

/// When an operator was last heard of. Who may not see leases sees the rest.
async fn heard(client: &Client) -> Heard {
    match forward::operators(client).await {
        Ok(leases) => Heard::of(&leases),
        Err(error) => Heard::Hidden(sentence(&error)),
    }
}

fn first_line(heard: &Heard, now: Timestamp) -> String {
    heard
        .warning(now)
        .map_or_else(String::new, |warning| format!("{warning}\n"))
}

/// Both kinds in one list: each object says what it is, and each has beside it when an operator was last heard of.
fn all(
    clusters: &[MemgraphCluster],
    rings: &[RingCluster],
    operator: &Value,
) -> serde_json::Result<Vec<Value>> {
    let clusters = clusters.iter().map(serde_json::to_value);
    let objects = clusters.chain(rings.iter().map(serde_json::to_value));
    objects
        .map(|object| {
            let mut object = object?;
            if let Value::Object(fields) = &mut object {
                fields.insert("operator".to_owned(), operator.clone());
            }
            Ok(object)
        })
        .collect()
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
        // Read after the turn: whoever is newer than it is left out.
        let registered = gateways::registered(&client, &namespace, &cluster).await;
        let (heard, now) = (heard(&client).await, Timestamp::now());
        print!("{}", first_line(&heard, now));
        print!("{}", status::render(std::slice::from_ref(&object), now));
        match asked {
            // Without their names gateways are told by their places.
            Ok(turn) => print!("{}", why::render(&turn, registered.unwrap_or_default(), now)?),
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
        print!("{}", first_line(&heard(client).await, Timestamp::now()));
        print!("{}", ring::why(&object));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn programs_are_told_with_each_object_when_an_operator_was_last_heard_of() {
        let cluster: MemgraphCluster = serde_json::from_value(json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster", "metadata": { "name": "db" }, "spec": {},
        }))
        .unwrap();
        let now = "2026-11-16T12:00:00Z".parse().unwrap();
        let heard = Heard::At("2026-11-16T11:00:00Z".parse().unwrap());
        let shown = all(&[cluster], &[], &heard.json(now)).unwrap();
        assert_eq!(shown[0]["kind"], "MemgraphCluster");
        assert_eq!(shown[0]["operator"]["renewed"], "2026-11-16T11:00:00Z");
        assert!(shown[0]["operator"]["warning"].is_string());
        assert!(first_line(&heard, now).ends_with("last said\n"));
        assert_eq!(first_line(&Heard::At(now), now), "");
    }
}
