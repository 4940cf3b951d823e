//! The debug commands that the seed prints, as written, by a current `kubectl` and `jq`; and the examples.

use crate::bed::{Bed, DEPLOYMENTS, HOUR, target};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Built once into the cache of tools.
fn kubectl() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/kube/build.sh");
    let output = Command::new("bash")
        .arg(script)
        .arg("kubectl")
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "kubectl could not be built");
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

struct Shell {
    folder: PathBuf,
    path: String,
}

impl Shell {
    /// Runs a line as a person would type it.
    async fn run(&self, line: &str) -> Result<String> {
        let mut command = Command::new("bash");
        command
            .args(["-o", "pipefail", "-c", line])
            .env("PATH", &self.path)
            .env("KUBECONFIG", self.folder.join("config"))
            .env("KUBECACHEDIR", self.folder.join("cache"))
            .env("HOME", &self.folder)
            .stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        ensure!(output.status.success(), "{line}\n{out}\n{err}");
        Ok(out)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _: std::io::Result<()> = std::fs::remove_dir_all(&self.folder);
    }
}

async fn shell(bed: &Bed) -> Result<Shell> {
    let listening = bed
        .kubernetes
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await?;
    let folder = std::env::temp_dir().join(format!("mainstay-hibernation-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("config"), listening.kubeconfig())?;
    let tools = tokio::task::spawn_blocking(kubectl).await??;
    let path = format!(
        "{}:{}",
        tools.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    Ok(Shell { folder, path })
}

async fn wait_for(bed: &Bed, phase: &str) -> Result<()> {
    for _ in 0..600 {
        if bed.phase().await.unwrap_or_default() == phase {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("not {phase}: {:#?}", bed.hplan().await?.status)
}

/// In real time: kubectl is another process. The clock of the plan is put forward instead.
#[tokio::test(flavor = "multi_thread")]
async fn the_debug_commands_of_the_seed_work_as_written_and_the_examples_apply() -> Result<()> {
    let bed = Bed::new().await?;
    let shell = shell(&bed).await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.workload(DEPLOYMENTS, "idle", 0).await?;
    let targets = json!([
        target("cluster-1", json!({ "names": ["web"] })),
        target("db-1", json!({ "names": ["idle"] })),
    ]);
    bed.plan(targets).await?;
    let operator = bed.operator();
    wait_for(&bed, "Active").await?;
    bed.clock.jump(HOUR * 3);
    bed.annotate("mainstay.dev/retry", Some("look")).await?;
    wait_for(&bed, "Hibernated").await?;

    // View restore data for a plan
    let yaml = shell
        .run("kubectl get cm hibernator-restore-my-plan -o yaml")
        .await?;
    ensure!(
        yaml.contains("workloads_cluster-1.json:") && yaml.contains("kind: ConfigMap"),
        "{yaml}"
    );
    // Check lock status (annotations)
    let lock = shell
        .run("kubectl get cm hibernator-restore-my-plan -o jsonpath='{.metadata.annotations}'")
        .await?;
    ensure!(!lock.contains("restored-"), "{lock}");
    in_the_morning(&bed, &shell).await?;
    // View restore data quality
    let quality = shell
        .run(r#"kubectl get cm hibernator-restore-my-plan -o json | jq '.data | to_entries[] | .key + ": isLive=" + (.value | fromjson | .isLive | tostring)'"#)
        .await?;
    ensure!(
        quality == "\"workloads_cluster-1.json: isLive=true\"\n\"workloads_db-1.json: isLive=false\"\n",
        "{quality}"
    );
    // Check suspension tracking
    shell
        .run("kubectl annotate hibernateplan my-plan hibernator.ardikabs.com/suspend=true")
        .await?;
    wait_for(&bed, "Suspended").await?;
    let tracking = r"kubectl get hibernateplan my-plan -o jsonpath='{.metadata.annotations.hibernator\.ardikabs\.com/suspended-at-phase}'";
    ensure!(shell.run(tracking).await? == "Hibernated");
    // What people do daily.
    let table = shell.run("kubectl get hplan").await?;
    ensure!(table.contains("PHASE") && table.contains("Suspended"), "{table}");

    examples(&bed, &shell).await?;
    drop(operator);
    bed.end().await;
    Ok(())
}

/// The same command while it wakes: it shows which targets are back. Then it is night again.
async fn in_the_morning(bed: &Bed, shell: &Shell) -> Result<()> {
    let line = "kubectl get cm hibernator-restore-my-plan -o jsonpath='{.metadata.annotations}'";
    let mark = r#""hibernator.ardikabs.com/restored-cluster-1":"#;
    // It is started, and not usable yet: nothing is unlocked before it is.
    let stuck = |yes: Value| json!({ "metadata": { "annotations": { "stuck": yes } } });
    bed.patch(DEPLOYMENTS, "web", stuck(json!("yes"))).await?;
    bed.clock.jump(HOUR * 2);
    bed.annotate("mainstay.dev/retry", Some("the morning")).await?;
    let mut lock = String::new();
    for _ in 0..100 {
        lock = shell.run(line).await?;
        if lock.contains(mark) {
            break;
        }
    }
    ensure!(lock.contains(mark), "{lock}");
    ensure!(bed.phase().await? == "WakingUp", "{}", bed.phase().await?);
    bed.patch(DEPLOYMENTS, "web", stuck(Value::Null)).await?;
    wait_for(bed, "Active").await?;
    let lock = shell.run(line).await?;
    ensure!(!lock.contains("restored-"), "{lock}");
    bed.clock.jump(HOUR * 3);
    bed.annotate("mainstay.dev/retry", Some("the next night")).await?;
    wait_for(bed, "Hibernated").await
}

/// Every file of `examples/hibernation` is accepted.
async fn examples(bed: &Bed, shell: &Shell) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hibernation");
    let mut found = 0;
    for entry in std::fs::read_dir(&folder)? {
        let file = entry?.path();
        let line = format!("kubectl apply -f {}", file.display());
        let said = shell.run(&line).await?;
        ensure!(said.contains("created") || said.contains("configured"), "{said}");
        found += 1;
    }
    ensure!(found >= 3, "only {found} examples");
    let plans = bed.api("mainstay.dev/v1alpha1/hibernateplans");
    for plan in plans.list(&kube::api::ListParams::default()).await?.items {
        let object: api::HibernatePlan = serde_json::from_value(serde_json::to_value(&plan)?)?;
        let name = plan.metadata.name.clone().unwrap_or_default();
        let followed = api::hibernation::follow(&name, &object.spec, &[], None);
        followed.with_context(|| format!("{name} cannot be followed"))?;
    }
    Ok(())
}
