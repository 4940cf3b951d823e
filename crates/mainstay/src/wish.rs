//! `mainstay reset`, `mainstay approve` and `mainstay quarantine`: what people ask for once.
//!
//! Each but `restore`, which only reads, is an annotation of the cluster's object: the operator reads it, decides by the same rules as always, and says
//! in the status what came of it. Nothing is done behind its back.

use crate::kubernetes::{Both, Meant};
use crate::passing::while_wished;
use crate::restore;
use anyhow::{Context, Result, bail};
use api::MemgraphCluster;
use api::memgraph::QuarantineStatus;
use api::memgraph::wishes::{APPROVE, PURGE, RESET};
use clap::{Args, Subcommand, ValueEnum};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use mainstay_core::memgraph::ids::{Ordinal, ProcessId};
use mainstay_core::memgraph::objects::{CONTAINER, ClusterName};
use operator::pod::Sum;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often the status is read.
const LOOK: Duration = Duration::from_millis(200);

/// How the answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// JSON.
    Json,
}

/// Where, and how it is told.
#[derive(Args)]
pub(crate) struct Where {
    #[command(flatten)]
    meant: Meant,
    /// Only this namespace.
    #[arg(long, short)]
    namespace: Option<String>,
    /// JSON instead of text.
    #[arg(long, short)]
    output: Option<Output>,
}

impl Where {
    /// Also what only lists: the numbers that it shows are typed into what deletes.
    async fn client(&self) -> Result<Client> {
        self.meant.client(Both::Neither, self.output.is_some()).await
    }
}

/// The same, and whether it is only looked at.
#[derive(Args)]
pub(crate) struct Way {
    #[command(flatten)]
    place: Where,
    /// Only say what would be asked for.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl Way {
    pub(crate) async fn client(&self) -> Result<Client> {
        self.place.client().await
    }

    pub(crate) const fn place(&self) -> &Where {
        &self.place
    }

    /// Prints the answer.
    pub(crate) fn say(&self, told: &Value) -> Result<()> {
        print!("{}", answer(told, self.place.output)?);
        Ok(())
    }
}

/// Which pod.
#[derive(Args)]
pub(crate) struct PodArguments {
    /// The pod, such as memgraph-ha-2.
    pod: String,
    #[command(flatten)]
    way: Way,
}

#[derive(Subcommand)]
pub(crate) enum Quarantine {
    /// What resets set aside, on whose volume, and how large it is.
    List(ListArguments),
    /// Fetch a copy: a folder that a Memgraph opens with --data-directory. The pod and its data stay as they are.
    ///
    /// It is read through the API server, by the container `helper`, with your own right to `pods/exec`. It is never
    /// put back onto a pod: MAIN would refuse it, and the operator would reset it again. docs/hard-reset.md says how
    /// to go on.
    Restore(RestoreArguments),
    /// Delete it for good.
    Purge(PurgeArguments),
}

/// What is to be fetched.
#[derive(Args)]
pub(crate) struct RestoreArguments {
    /// The pod on whose volume it is.
    pod: String,
    /// The number that `mainstay quarantine list` shows.
    id: u64,
    /// The folder that is made; POD-ID here, if not given.
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    #[command(flatten)]
    way: Way,
}

/// Of which pods.
#[derive(Args)]
pub(crate) struct ListArguments {
    /// Only of this cluster, or of this pod.
    name: Option<String>,
    #[command(flatten)]
    place: Where,
}

/// What is to be deleted.
#[derive(Args)]
pub(crate) struct PurgeArguments {
    /// The pod on whose volume it is.
    pod: String,
    /// The number that `mainstay quarantine list` shows.
    id: u64,
    /// Give up after so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout: u32,
    #[command(flatten)]
    way: Way,
}

/// Asks for the reset of a pod that nobody calls diverged.
pub(crate) fn reset(arguments: PodArguments) -> ExitCode {
    crate::run_to_end("reset", process_wish(arguments, RESET, "reset"))
}

/// Approves a reset that the operator does not do by itself.
pub(crate) fn approve(arguments: PodArguments) -> ExitCode {
    crate::run_to_end("approve", process_wish(arguments, APPROVE, "approve"))
}

/// What was set aside.
pub(crate) fn quarantine(command: Quarantine) -> ExitCode {
    match command {
        Quarantine::List(arguments) => crate::run_to_end("quarantine list", list(arguments)),
        Quarantine::Restore(arguments) => crate::run_to_end("quarantine restore", restore(arguments)),
        Quarantine::Purge(arguments) => crate::run_to_end("quarantine purge", purge(arguments)),
    }
}

/// A pod and the cluster that it belongs to.
pub(crate) struct Found {
    pub(crate) cluster: MemgraphCluster,
    pub(crate) ordinal: Ordinal,
    pod: Pod,
}

impl Found {
    pub(crate) fn pod_name(&self) -> String {
        self.pod.name_any()
    }

    /// The clusters of its namespace.
    pub(crate) fn api(&self, client: &Client) -> Api<MemgraphCluster> {
        Api::namespaced(client.clone(), &self.cluster.namespace().unwrap_or_default())
    }

    /// Writes a wish, or takes it back.
    pub(crate) async fn annotate(
        &self,
        client: &Client,
        annotation: &str,
        value: Option<&str>,
    ) -> Result<()> {
        let cluster = self.cluster.name_any();
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { annotation: value } } }));
        self.api(client)
            .patch(&cluster, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("the MemgraphCluster `{cluster}` cannot be annotated"))?;
        Ok(())
    }

    /// The container that runs now: a wish about it ends with it, and never hits the next one.
    fn process(&self) -> Result<ProcessId> {
        let statuses = self
            .pod
            .status
            .iter()
            .flat_map(|s| s.container_statuses.iter().flatten());
        let mut running =
            statuses.filter(|c| c.name == CONTAINER && c.state.as_ref().is_some_and(|s| s.running.is_some()));
        let id = running.next().and_then(|c| c.container_id.clone());
        let id = id.with_context(|| format!("the database of {} does not run", self.pod.name_any()))?;
        id.parse()
            .with_context(|| format!("`{id}` is no name of a container"))
    }

    /// What was set aside, as the operator last saw it.
    fn quarantines(&self) -> &[QuarantineStatus] {
        self.cluster
            .status
            .as_ref()
            .map_or(&[], |status| &status.quarantines)
    }

    /// Why a reset of this pod cannot come to anything, if that is plain already.
    fn refusal(&self) -> Option<String> {
        let status = self.cluster.status.as_ref()?;
        let name = self.pod.name_any();
        let main = status.target_main_pod.as_ref() == Some(&name);
        main.then(|| format!("{name} is MAIN, or is to become it: it is never reset; move MAIN first"))
    }
}

async fn clusters(client: &Client, namespace: Option<&str>) -> Result<Vec<MemgraphCluster>> {
    let api: Api<MemgraphCluster> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let listed = api.list(&ListParams::default()).await;
    Ok(listed.context("clusters cannot be listed")?.items)
}

pub(crate) async fn find(client: &Client, place: &Where, name: &str) -> Result<Found> {
    let mut found = Vec::new();
    for cluster in clusters(client, place.namespace.as_deref()).await? {
        let named: Option<ClusterName> = cluster.name_any().parse().ok();
        if let Some(ordinal) = named.and_then(|named| named.ordinal(name)) {
            found.push((cluster, ordinal));
        }
    }
    let Some((cluster, ordinal)) = found.pop() else {
        bail!("`{name}` is no pod of a MemgraphCluster");
    };
    anyhow::ensure!(
        found.is_empty(),
        "several namespaces have a pod `{name}`; say which with --namespace"
    );
    let namespace = cluster.namespace().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let pod = pods
        .get(name)
        .await
        .with_context(|| format!("the pod `{name}` cannot be read"))?;
    Ok(Found {
        cluster,
        ordinal,
        pod,
    })
}

async fn process_wish(arguments: PodArguments, annotation: &'static str, what: &str) -> Result<()> {
    let PodArguments { pod, way } = arguments;
    let client = way.client().await?;
    let found = find(&client, &way.place, &pod).await?;
    if let Some(refusal) = found.refusal() {
        bail!(refusal);
    }
    let value = format!("{} {}", found.ordinal.0, found.process()?);
    ask(&client, &way, &found, what, (annotation, value)).await
}

async fn restore(arguments: RestoreArguments) -> Result<()> {
    let RestoreArguments { pod, id, to, way } = arguments;
    let client = way.client().await?;
    let found = find(&client, &way.place, &pod).await?;
    let bytes = restore::known(found.quarantines(), &pod, id)?;
    let to = to.unwrap_or_else(|| PathBuf::from(format!("{pod}-{id}")));
    let goal = restore::Goal::new(&to)?;
    let mut told =
        json!({ "asked": "restore", "pod": pod, "id": id, "to": to, "bytes": bytes, "dryRun": way.dry_run });
    let mut said = format!(
        "would fetch {bytes} bytes that request {id} set aside on {pod} into {}",
        to.display()
    );
    if !way.dry_run {
        let Sum { files, bytes } = restore::fetch(&client, &found.pod, id, &goal).await?;
        told = json!({ "asked": "restore", "pod": pod, "id": id, "to": to, "bytes": bytes, "files": files, "dryRun": false });
        said = format!(
            "{files} files, {bytes} bytes are in {0}\n`memgraph --data-directory={0} --replication-restore-state-on-startup=false` opens them",
            to.display()
        );
    }
    if way.place.output == Some(Output::Json) {
        said = serde_json::to_string_pretty(&told)?;
    }
    println!("{said}");
    Ok(())
}

async fn purge(arguments: PurgeArguments) -> Result<()> {
    let PurgeArguments {
        pod,
        id,
        timeout,
        way,
    } = arguments;
    let client = way.client().await?;
    let found = find(&client, &way.place, &pod).await?;
    restore::known(found.quarantines(), &pod, id)?;
    let value = format!("{} {id}", found.ordinal.0);
    if way.dry_run {
        return ask(&client, &way, &found, "purge", (PURGE, value)).await;
    }
    if let Some(other) = other_purge(&found.cluster, &value) {
        bail!("somebody else asks for the end of {other} now; try again when that is done");
    }
    let deleted = deleted(&client, &found, id, Duration::from_secs(u64::from(timeout)));
    while_wished(&client, &found, (PURGE, &value), deleted).await?;
    way.say(&json!({
        "asked": "purge", "pod": pod, "cluster": found.cluster.name_any(), "namespace": found.cluster.namespace(),
        "annotation": PURGE, "value": value, "dryRun": false, "deleted": id,
    }))
}

/// There is one annotation: to write it again would take somebody's wish away unseen. One whose data is gone is left of
/// a command that was cut off.
fn other_purge(cluster: &MemgraphCluster, value: &str) -> Option<String> {
    let asked = cluster.annotations().get(PURGE).filter(|there| *there != value)?;
    let (ordinal, id) = asked.trim().split_once(' ')?;
    let (pod, id) = (
        format!("{}-{ordinal}", cluster.name_any()),
        id.trim().parse().ok()?,
    );
    let known = &cluster.status.as_ref()?.quarantines;
    restore::known(known, &pod, id)
        .is_ok()
        .then(|| format!("request {id} on {pod}"))
}

/// Until the operator says that it is gone. Its helper has to say so: a pod that is away keeps it listed.
async fn deleted(client: &Client, found: &Found, id: u64, longest: Duration) -> Result<()> {
    let (api, name, pod) = (found.api(client), found.cluster.name_any(), found.pod_name());
    let late = Instant::now() + longest;
    let mut said = String::new();
    loop {
        let status = api.get(&name).await?.status.unwrap_or_default();
        if restore::known(&status.quarantines, &pod, id).is_err() {
            return Ok(());
        }
        let why = status.reasons.first().cloned().unwrap_or_default();
        if why != said {
            eprintln!("not deleted yet: {why}");
            said = why;
        }
        if Instant::now() >= late {
            bail!(
                "what request {id} set aside on {pod} is there after {} s, and its end is not asked for any more; last: {said}",
                longest.as_secs()
            );
        }
        sleep(LOOK).await;
    }
}

async fn ask(client: &Client, way: &Way, found: &Found, what: &str, wish: (&str, String)) -> Result<()> {
    let (annotation, value) = wish;
    let (cluster, namespace) = (
        found.cluster.name_any(),
        found.cluster.namespace().unwrap_or_default(),
    );
    if !way.dry_run {
        found.annotate(client, annotation, Some(&value)).await?;
    }
    let told = json!({
        "asked": what, "pod": found.pod.name_any(), "cluster": cluster, "namespace": namespace,
        "annotation": annotation, "value": value, "dryRun": way.dry_run,
    });
    way.say(&told)
}

fn answer(told: &Value, output: Option<Output>) -> Result<String> {
    if output == Some(Output::Json) {
        return Ok(format!("{}\n", serde_json::to_string_pretty(told)?));
    }
    let word = |key: &str| told.get(key).and_then(Value::as_str).unwrap_or_default();
    if let Some(term) = told.get("term").and_then(Value::as_u64) {
        let (pod, cluster) = (word("pod"), word("cluster"));
        return Ok(format!(
            "{pod} is MAIN of memgraphcluster/{cluster} in term {term}, and takes writes\n"
        ));
    }
    if let Some(id) = told.get("deleted").and_then(Value::as_u64) {
        return Ok(format!(
            "what request {id} set aside on {} is deleted\n",
            word("pod")
        ));
    }
    let would = if told.get("dryRun") == Some(&Value::Bool(true)) {
        "would ask"
    } else {
        "asked"
    };
    Ok(format!(
        "{would} for `{}` of {}: {}={:?} on memgraphcluster/{}\n`mainstay why {}` says what comes of it\n",
        word("asked"),
        word("pod"),
        word("annotation"),
        word("value"),
        word("cluster"),
        word("cluster"),
    ))
}

async fn list(arguments: ListArguments) -> Result<()> {
    let ListArguments { name, place } = arguments;
    let client = place.client().await?;
    let mut all: Vec<QuarantineStatus> = Vec::new();
    for cluster in clusters(&client, place.namespace.as_deref()).await? {
        let whole = name.is_none() || name.as_ref() == Some(&cluster.name_any());
        let set_aside = cluster.status.unwrap_or_default().quarantines;
        all.extend(
            set_aside
                .into_iter()
                .filter(|q| whole || name.as_ref() == Some(&q.pod)),
        );
    }
    if place.output == Some(Output::Json) {
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        print!("{}", table(&all));
    }
    Ok(())
}

/// What is kept whatever `spec.hardReset.keep` says, and why.
const KEPT: &str = "  kept: it may hold a write that a failover lost";

fn table(all: &[QuarantineStatus]) -> String {
    if all.is_empty() {
        return "nothing was set aside\n".to_owned();
    }
    let width = all.iter().map(|q| q.pod.len()).max().unwrap_or_default().max(3);
    let head = format!("{:width$}  {:>6}  {:>14}\n", "POD", "ID", "BYTES");
    let lines = all.iter().map(|QuarantineStatus { pod, id, bytes, kept }| {
        let kept = if *kept { KEPT } else { "" };
        format!("{pod:width$}  {id:>6}  {bytes:>14}{kept}\n")
    });
    std::iter::once(head).chain(lines).collect()
}

#[cfg(test)]
mod tests;
