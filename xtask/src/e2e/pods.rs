//! Faults of processes and pods, and changes that restart them.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::look::PATIENCE;
use super::place::Place;
use super::undo::Undo;
use crate::workspace::stream;

/// So long MAIN's process stands still.
const HANGS: Duration = Duration::from_mins(1);

/// MAIN is lost, and a later term serves; then all is whole.
fn replaced(place: &Place<'_>, lose: impl Fn(&str) -> Result<()>) -> Result<()> {
    let term = place.term()?;
    lose(&place.main_pod()?)?;
    place.until_serving_after(term, PATIENCE)?;
    place.until_whole()
}

pub(super) fn kill_main(place: &Place<'_>) -> Result<()> {
    replaced(place, |main| kill(place, Place::DATABASES, main, "memgraph"))
}

/// Its node, its pod and its connections are there, and nobody answers.
pub(super) fn hang_main(place: &Place<'_>) -> Result<()> {
    let (main, term) = (place.main_pod()?, place.term()?);
    let container = container(place, Place::DATABASES, &main, "memgraph")?;
    let began = Instant::now();
    let goes_on = Undo::by(|| match process_of(&container)? {
        Some(process) => signal("CONT", process, &main),
        // Somebody has ended it since.
        None => Ok(()),
    });
    signal("STOP", running(&container)?, &main)?;
    let served = place.until_serving_after(term, HANGS);
    sleep(HANGS.saturating_sub(began.elapsed()));
    goes_on.now()?;
    if let Err(error) = served {
        println!("nobody else served while {main} hung: {error:#}");
    }
    place.until_whole()
}

pub(super) fn delete_main(place: &Place<'_>) -> Result<()> {
    replaced(place, |main| {
        place.kubectl(&["-n", Place::DATABASES, "delete", "pod", main, "--wait=false"])
    })
}

pub(super) fn force_delete_main(place: &Place<'_>) -> Result<()> {
    replaced(place, |main| force_delete(place, main))
}

/// The object goes at once; its process ends when its node hears of it.
pub(super) fn force_delete(place: &Place<'_>, pod: &str) -> Result<()> {
    place.kubectl(&[
        "-n",
        Place::DATABASES,
        "delete",
        "pod",
        pod,
        "--force",
        "--grace-period=0",
    ])
}

pub(super) fn delete_operators(place: &Place<'_>) -> Result<()> {
    let all = "app.kubernetes.io/name=mainstay-operator";
    place.kubectl(&["-n", Place::OPERATORS, "delete", "pod", "-l", all])?;
    place.until_whole()
}

pub(super) fn kill_leader(place: &Place<'_>) -> Result<()> {
    kill(place, Place::OPERATORS, &place.leader()?, "operator")?;
    place.until_whole()
}

/// So many operators.
fn operators(place: &Place<'_>, replicas: u8) -> Result<()> {
    let replicas = format!("--replicas={replicas}");
    let deployment = "deployment/mainstay-operator";
    place.kubectl(&["-n", Place::OPERATORS, "scale", deployment, &replicas])?;
    let rolled = [
        "-n",
        Place::OPERATORS,
        "rollout",
        "status",
        deployment,
        "--timeout=120s",
    ];
    place.kubectl(&rolled)
}

/// No operator runs until this is undone.
pub(super) fn no_operators<'a>(place: &'a Place<'_>) -> Result<Undo<'a>> {
    let undo = Undo::by(move || operators(place, 2));
    operators(place, 0)?;
    Ok(undo)
}

/// Databases ask for a little more processor each time, and there are three gateways.
pub(super) fn roll(place: &Place<'_>) -> Result<()> {
    let before = place.generation()?;
    let cpu = format!("{}m", 10 + before);
    place.patch(
        &json!({ "spec": { "resources": { "requests": { "cpu": cpu } }, "gateway": { "replicas": 3 } } }),
    )?;
    place.until_all_new(before)?;
    place.until_whole()
}

pub(super) fn upgrade(place: &Place<'_>) -> Result<()> {
    let before = place.generation()?;
    place.upgrade()?;
    let deployment = "deployment/mainstay-operator";
    let rolled = [
        "-n",
        Place::OPERATORS,
        "rollout",
        "status",
        deployment,
        "--timeout=120s",
    ];
    place.kubectl(&rolled)?;
    place.until_all_new(before)?;
    place.until(PATIENCE, "whole cluster of the new image", |_| {
        place
            .object(
                Place::DATABASES,
                &format!("deployment/{}-gateway", Place::CLUSTER),
            )
            .is_ok_and(|gateways| {
                let image = gateways.pointer("/spec/template/spec/containers/0/image");
                image
                    .and_then(Value::as_str)
                    .is_some_and(|image| image.ends_with("next"))
            })
    })?;
    place.until_whole()
}

/// `kill -9` of a container's first process.
fn kill(place: &Place<'_>, namespace: &str, pod: &str, name: &str) -> Result<()> {
    let container = container(place, namespace, pod, name)?;
    signal("KILL", running(&container)?, pod)
}

/// The id of a container of a pod.
fn container(place: &Place<'_>, namespace: &str, pod: &str, name: &str) -> Result<String> {
    let object = place.object(namespace, &format!("pod/{pod}"))?;
    let all = object
        .pointer("/status/containerStatuses")
        .and_then(Value::as_array);
    let id = all
        .into_iter()
        .flatten()
        .find(|one| one["name"] == name)
        .and_then(|one| one["containerID"].as_str())
        .and_then(|id| id.rsplit('/').next());
    let id = id.with_context(|| format!("{pod} has no container {name} that runs"))?;
    Ok(id.to_owned())
}

fn signal(which: &str, process: u32, whose: &str) -> Result<()> {
    println!("$ kill -{which} {process}  # {whose}");
    stream(Command::new("kill").args([format!("-{which}"), process.to_string()]))
}

fn running(container: &str) -> Result<u32> {
    process_of(container)?.with_context(|| format!("no process of container {container} is on this machine"))
}

/// A container's first process: containers share the kernel of this machine, and their cgroup names them.
fn process_of(container: &str) -> Result<Option<u32>> {
    let mut found: Option<u32> = None;
    for entry in fs::read_dir("/proc").context("there is no /proc")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Ok(pid) = name.parse::<u32>() else {
            continue;
        };
        // It may have ended since.
        let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        if group.contains(container) {
            found = Some(found.map_or(pid, |other| other.min(pid)));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_does_not_run_here_is_an_error() {
        let error = running("no-container-has-this-name").unwrap_err().to_string();
        assert!(error.contains("no process"), "{error}");
    }
}
