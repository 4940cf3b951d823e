//! What a person may rely on of the program itself: it breaks nothing that was not allowed, and it ends when it is told.

use crate::bed::Whole;
use anyhow::{Context, Result, ensure};
use api::MemgraphCluster;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_owner_did_not_allow_drills_is_not_broken() -> Result<()> {
    let whole = Whole::start().await?;
    let before = whole.document().await?.record;
    let clusters: Api<MemgraphCluster> = Api::namespaced(whole.client.clone(), "default");
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { "mainstay.dev/allow-drills": null } } }));
    clusters
        .patch("memgraph-ha", &PatchParams::default(), &patch)
        .await?;
    let output = Command::new(env!("CARGO_BIN_EXE_mainstay"))
        .args(["drill", "kill-main", "--cluster=memgraph-ha"])
        .arg(format!("--bolt={}", whole.bolt))
        .arg("--kubeconfig")
        .arg(&whole.kubeconfig)
        .output()
        .await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(2), "{output:?}");
    ensure!(
        said.contains("does not allow drills") && said.contains("mainstay.dev/allow-drills=true"),
        "{said}"
    );
    ensure!(whole.document().await?.record == before, "something was broken");
    whole.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_told_to_stop_ends_well_and_frees_its_lease() -> Result<()> {
    let whole = Whole::start().await?;
    let mut operator = Command::new(env!("CARGO_BIN_EXE_mainstay"))
        .args([
            "operator",
            "--lease-namespace=default",
            "--lease-name=another",
            "--http=127.0.0.1:0",
            "--namespace=elsewhere",
        ])
        .arg("--kubeconfig")
        .arg(&whole.kubeconfig)
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let leases: Api<Lease> = Api::namespaced(whole.client.clone(), "default");
    // Whoever creates a lease does not lead yet, and frees nothing: it waits as for a stranger's.
    let holder = || async {
        let lease = leases.get_opt("another").await?.and_then(|lease| lease.spec);
        let led = lease.filter(|lease| lease.lease_transitions > Some(0));
        anyhow::Ok(led.and_then(|lease| lease.holder_identity.filter(|holder| !holder.is_empty())))
    };
    let deadline = Instant::now() + PATIENCE;
    while holder().await?.is_none() {
        ensure!(Instant::now() < deadline, "it does not lead");
        sleep(Duration::from_millis(100)).await;
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(operator.id().context("it ended by itself")?)?);
    rustix::process::kill_process(pid.context("no process")?, rustix::process::Signal::TERM)?;
    let status = timeout(PATIENCE, operator.wait()).await??;
    ensure!(status.code() == Some(0), "{status}");
    ensure!(holder().await?.is_none(), "the lease is not freed");
    whole.end().await
}
