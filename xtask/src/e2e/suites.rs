//! What is broken, each while clients write.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::place::Place;
use crate::workspace::stream;

/// A fault, and what must be true afterwards.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Breaks something and waits until it is mended.
    pub(crate) fault: fn(&Place<'_>) -> Result<()>,
}

/// Each begins and ends serving and protected.
pub(crate) const SUITES: &[Suite] = &[
    Suite {
        name: "bootstrap",
        about: "a cluster of the chart serves, is protected, and takes writes through its gateway",
        fault: |_| Ok(()),
    },
    Suite {
        name: "kill",
        about: "kill -9 of MAIN's process",
        fault: kill_main,
    },
    Suite {
        name: "forced-delete",
        about: "MAIN's pod is deleted without grace",
        fault: |place| {
            replaced(place, |main| {
                place.kubectl(&[
                    "-n",
                    Place::DATABASES,
                    "delete",
                    "pod",
                    main,
                    "--force",
                    "--grace-period=0",
                ])
            })
        },
    },
    Suite {
        name: "delete",
        about: "MAIN's pod is deleted",
        fault: |place| {
            replaced(place, |main| {
                place.kubectl(&["-n", Place::DATABASES, "delete", "pod", main, "--wait=false"])
            })
        },
    },
    Suite {
        name: "rolling",
        about: "the spec changes, and every pod is made anew, MAIN last",
        fault: roll,
    },
    Suite {
        name: "operator",
        about: "both operators are deleted at once",
        fault: |place| {
            place.kubectl(&[
                "-n",
                Place::OPERATORS,
                "delete",
                "pod",
                "-l",
                "app.kubernetes.io/name=mainstay-operator",
            ])?;
            place.kubectl(&[
                "-n",
                Place::OPERATORS,
                "rollout",
                "status",
                "deployment/mainstay-operator",
                "--timeout=120s",
            ])
        },
    },
];

/// MAIN is lost, and a later term serves and is protected.
fn replaced(place: &Place<'_>, lose: impl Fn(&str) -> Result<()>) -> Result<()> {
    let before = place.cluster()?;
    let main = text(&before, "/status/targetMainPod")?;
    lose(main)?;
    let term = before.pointer("/status/term").and_then(Value::as_u64);
    place.until(Duration::from_mins(2), "a new term", |now| {
        now.pointer("/status/term").and_then(Value::as_u64) > term
    })?;
    place.until_protected(Duration::from_mins(2))
}

/// Databases ask for a little processor, and there is one gateway more.
const CHANGE: &str = r#"{"spec": {"resources": {"requests": {"cpu": "10m"}}, "gateway": {"replicas": 3}}}"#;

fn roll(place: &Place<'_>) -> Result<()> {
    place.kubectl(&[
        "-n",
        Place::DATABASES,
        "patch",
        "mgc/memgraph-ha",
        "--type=merge",
        "-p",
        CHANGE,
    ])?;
    let patience = Duration::from_mins(4);
    place.until_all_new(patience)?;
    place.until_protected(patience)
}

fn kill_main(place: &Place<'_>) -> Result<()> {
    replaced(place, |main| {
        let pod = place.object(Place::DATABASES, &format!("pod/{main}"))?;
        let all = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
        let container = all
            .into_iter()
            .flatten()
            .find(|container| container["name"] == "memgraph")
            .and_then(|container| container["containerID"].as_str())
            .and_then(|id| id.rsplit('/').next())
            .with_context(|| format!("{main} has no container that runs"))?;
        let process = process_of(container)?;
        println!("kill -9 {process}: {main}");
        stream(Command::new("kill").args(["-9", &process]))
    })
}

/// The first process of a container: containers share the kernel of this machine, and their cgroup names them.
fn process_of(container: &str) -> Result<String> {
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
    match found {
        Some(pid) => Ok(pid.to_string()),
        None => bail!("no process of container {container} is on this machine"),
    }
}

fn text<'a>(object: &'a Value, at: &str) -> Result<&'a str> {
    let found = object.pointer(at).and_then(Value::as_str);
    found.with_context(|| format!("the cluster has no {at}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_suite_has_a_name_of_its_own() {
        let names: BTreeSet<_> = SUITES.iter().map(|suite| suite.name).collect();
        assert_eq!(names.len(), SUITES.len());
    }

    #[test]
    fn a_container_that_does_not_run_here_is_an_error() {
        let error = process_of("no-container-has-this-name").unwrap_err().to_string();
        assert!(error.contains("no process"), "{error}");
    }
}
