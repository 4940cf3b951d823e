//! What a person sees of a failover with `kubectl`.

use crate::bed::{Whole, protected, serves};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

/// A current one, built once and kept outside the checkout.
async fn kubectl() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/kube/build.sh");
    let built = Command::new("bash")
        .arg(script)
        .arg("kubectl")
        .stderr(Stdio::inherit())
        .output()
        .await?;
    ensure!(built.status.success(), "kubectl could not be built");
    let folder = String::from_utf8(built.stdout)?;
    Ok(PathBuf::from(folder.trim()).join("kubectl"))
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_a_failover_while_it_happens_and_its_events_in_order() -> Result<()> {
    let kubectl = kubectl().await?;
    let whole = Whole::start().await?;
    let command = |args: &[&str]| {
        let mut command = Command::new(&kubectl);
        command
            .arg("--kubeconfig")
            .arg(&whole.kubeconfig)
            .args(args)
            .env("KUBECACHEDIR", whole.kubeconfig.with_extension("cache"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command
    };
    let mut watching = command(&["get", "mgc", "-w"]).spawn()?;
    let mut lines = BufReader::new(watching.stdout.take().context("no output")?).lines();
    let head = timeout(Duration::from_mins(1), lines.next_line()).await??;
    let head = head.context("no table")?;
    for column in ["NAME", "MAIN", "TERM", "PROTECTED", "WRITES", "LAG", "AGE"] {
        ensure!(head.contains(column), "{column} is missing: {head}");
    }
    // Times of Events count in seconds, and kubectl sorts by them.
    sleep(Duration::from_secs(2)).await;
    whole
        .control(json!({ "do": "kill", "pod": "memgraph-ha-0" }))
        .await?;
    whole
        .until("served by pod 1 and protected", |record| {
            serves(record, 1) && protected(record)
        })
        .await?;
    let mut shown = Vec::new();
    let ended = timeout(Duration::from_mins(1), async {
        while let Some(line) = lines.next_line().await? {
            let done = line.contains("memgraph-ha-1") && line.contains("True");
            shown.push(line);
            if done {
                break;
            }
        }
        anyhow::Ok(())
    });
    ended.await.with_context(|| format!("{shown:#?}"))??;
    ensure!(
        shown.first().is_some_and(|line| line.contains("memgraph-ha-0")),
        "{shown:#?}"
    );
    watching.kill().await?;
    // Events are told after the turn that they speak of.
    sleep(Duration::from_secs(2)).await;
    let described = command(&["describe", "mgc", "memgraph-ha"]).output().await?;
    let text = String::from_utf8(described.stdout)?;
    let events = text
        .split_once("\nEvents:")
        .map(|(_, events)| events)
        .context("no Events")?;
    let place = |reason: &str| {
        events
            .lines()
            .position(|line| line.split_whitespace().nth(1) == Some(reason))
            .with_context(|| format!("no Event {reason}: {events}"))
    };
    eprintln!("{events}");
    let order = [
        place("InitialState")?,
        place("PromoteProtected")?,
        place("NewEpoch")?,
    ];
    ensure!(order.is_sorted(), "{order:?}: {events}");
    whole.end().await
}
