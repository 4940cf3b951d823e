//! What the small Kubernetes costs: 1,000 objects, 10,000 watch events, through
//! `kube::Client`. Printed by `cargo xtask bench kube`; fails above its limits.

use std::process::ExitCode;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams, WatchParams};
use sandbox::kube::Kubernetes;
use serde_json::json;

const OBJECTS: usize = 1_000;
const EVENTS: usize = 10_000;
const MOST_CPU: Duration = Duration::from_secs(1);
const MOST_MEMORY_KIB: u64 = 64 << 10;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// One number of `/proc/self/status`, in KiB.
fn status(field: &str) -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text
        .lines()
        .find(|line| line.starts_with(field))
        .ok_or("no such field")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse()?)
}

/// CPU time of all threads of this process.
fn cpu() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    // Of the main thread only, which is the only one: the runtime is of the current thread.
    let nanos = text.split_whitespace().next().ok_or("no number")?.parse()?;
    Ok(Duration::from_nanos(nanos))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let kubernetes = Kubernetes::new(1);
    let api: Api<ConfigMap> = Api::default_namespaced(kubernetes.client());
    let before = cpu()?;
    let mut seen = 0_usize;
    let mut watch = Box::pin(api.watch(&WatchParams::default(), "0").await?);
    for number in 0..EVENTS {
        let name = format!("object-{:04}", number % OBJECTS);
        let data =
            json!({"number": number.to_string(), "text": "the quick brown fox jumps over the lazy dog"});
        if number < OBJECTS {
            let object = serde_json::from_value(
                json!({"metadata": {"name": name, "labels": {"app": "bench"}}, "data": data}),
            )?;
            api.create(&PostParams::default(), &object).await?;
        } else {
            let patch = Patch::Merge(json!({"data": data}));
            api.patch(&name, &PatchParams::default(), &patch).await?;
        }
        // The watch is read as an operator reads it: while things happen.
        while let Some(Some(event)) = futures::FutureExt::now_or_never(watch.next()) {
            event?;
            seen += 1;
        }
    }
    while seen < EVENTS {
        watch.next().await.ok_or("the watch ended")??;
        seen += 1;
    }
    let (spent, memory) = (cpu()?.saturating_sub(before), status("VmHWM:")?);
    println!(
        "{OBJECTS} objects, {seen} watch events: {:.2} s CPU (at most {:.0}), {} MiB peak (at most {})",
        spent.as_secs_f64(),
        MOST_CPU.as_secs_f64(),
        memory >> 10,
        MOST_MEMORY_KIB >> 10
    );
    let good = spent < MOST_CPU && memory < MOST_MEMORY_KIB;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
