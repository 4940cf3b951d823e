//! What there is to see, and to wait for.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::place::Place;
use crate::workspace::capture;

/// A slow machine with three nodes on it.
pub(crate) const PATIENCE: Duration = Duration::from_mins(4);

/// A node by its number: `node2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node(pub(crate) u8);

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node{}", self.0)
    }
}

/// Asks again and again until there is an answer. Who cannot be asked may answer later: an error counts if it is the
/// last that was heard.
pub(crate) fn until<T>(
    patience: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let began = Instant::now();
    loop {
        let late = began.elapsed() >= patience;
        match look() {
            Ok(Some(found)) => return Ok(found),
            Ok(None) if late => bail!("no {what} after {patience:?}"),
            Err(error) if late => return Err(error.context(format!("no {what} after {patience:?}"))),
            Ok(None) | Err(_) => sleep(Duration::from_millis(200)),
        }
    }
}

/// A text in an object.
pub(crate) fn text<'a>(object: &'a Value, at: &str) -> Result<&'a str> {
    let found = object.pointer(at).and_then(Value::as_str);
    found.with_context(|| format!("there is no {at} in {object}"))
}

pub(crate) fn condition(object: &Value, kind: &str) -> bool {
    let all = object.pointer("/status/conditions").and_then(Value::as_array);
    all.into_iter()
        .flatten()
        .any(|one| one["type"] == kind && one["status"] == "True")
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.pointer("/items")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

impl Place<'_> {
    pub(crate) fn cluster(&self) -> Result<Value> {
        self.object(Self::DATABASES, &format!("mgc/{}", Self::CLUSTER))
    }

    /// Asks for something in the object of the cluster.
    pub(crate) fn patch(&self, change: &Value) -> Result<()> {
        let object = format!("mgc/{}", Self::CLUSTER);
        let change = change.to_string();
        self.kubectl(&[
            "-n",
            Self::DATABASES,
            "patch",
            &object,
            "--type=merge",
            "-p",
            &change,
        ])
    }

    /// Looks at the cluster until this holds.
    pub(crate) fn until(
        &self,
        patience: Duration,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let mut last = Value::Null;
        until(patience, what, || {
            last = self.cluster()?;
            Ok(holds(&last).then(|| last.clone()))
        })
        .with_context(|| {
            let reasons = last.pointer("/status/reasons").cloned().unwrap_or_default();
            format!("the operator says: {reasons}")
        })
    }

    pub(crate) fn until_serving_after(&self, term: u64, patience: Duration) -> Result<()> {
        self.until(patience, "later term that serves", |now| {
            let later = now.pointer("/status/term").and_then(Value::as_u64) > Some(term);
            later && condition(now, "Ready")
        })?;
        Ok(())
    }

    pub(crate) fn until_protected(&self) -> Result<()> {
        self.until(PATIENCE, "serving and protected cluster", |cluster| {
            condition(cluster, "Ready") && condition(cluster, "Protected")
        })?;
        Ok(())
    }

    /// Serving and protected, and every node and pod of ours is there and ready.
    pub(crate) fn until_whole(&self) -> Result<()> {
        self.until_protected()?;
        until(PATIENCE, "whole cluster", || {
            let nodes = self.object(Self::DATABASES, "nodes")?;
            let ready = items(&nodes).all(|node| condition(node, "Ready"));
            Ok(
                (ready && self.all_pods_ready(Self::DATABASES)? && self.all_pods_ready(Self::OPERATORS)?)
                    .then_some(()),
            )
        })?;
        self.until_protected()
    }

    /// As a person would who is told to decide: each pod in turn. It has no effect on one that nobody accuses.
    pub(crate) fn approve_and_wait(&self) -> Result<()> {
        let main = self.main_pod()?;
        let others = (0..3).map(|pod| format!("{}-{pod}", Self::CLUSTER));
        let mut whole = self.until_whole();
        for pod in others.filter(|pod| *pod != main) {
            if whole.is_ok() {
                break;
            }
            self.mainstay(&["approve", &pod, "--namespace", Self::DATABASES])?;
            whole = self.until_whole();
        }
        whole
    }

    /// As many as their owners want, and no one that ends.
    fn all_pods_ready(&self, namespace: &str) -> Result<bool> {
        let owners = self.object(namespace, "deployments,statefulsets")?;
        let wanted: u64 = items(&owners)
            .filter_map(|owner| owner.pointer("/spec/replicas").and_then(Value::as_u64))
            .sum();
        let pods = self.object(namespace, "pods")?;
        let ready = items(&pods)
            .filter(|pod| condition(pod, "Ready") && pod.pointer("/metadata/deletionTimestamp").is_none())
            .count();
        Ok(u64::try_from(ready)? == wanted && items(&pods).count() == ready)
    }

    /// How often the set of the databases was changed.
    pub(crate) fn generation(&self) -> Result<u64> {
        let set = self.object(Self::DATABASES, &format!("sts/{}", Self::CLUSTER))?;
        let generation = set.pointer("/metadata/generation").and_then(Value::as_u64);
        generation.context("the set has no generation")
    }

    /// The set was changed again, and every pod is of its newest revision and ready.
    pub(crate) fn until_all_new(&self, after: u64) -> Result<()> {
        until(PATIENCE, "new pods", || {
            let set = self.object(Self::DATABASES, &format!("sts/{}", Self::CLUSTER))?;
            let number = |at: &str| set.pointer(at).and_then(Value::as_u64);
            let pods = number("/spec/replicas");
            let changed = number("/metadata/generation") > Some(after);
            let seen = number("/status/observedGeneration") == number("/metadata/generation");
            let new = number("/status/updatedReplicas") == pods && number("/status/readyReplicas") == pods;
            Ok((seen && changed && new).then_some(()))
        })
    }

    pub(crate) fn term(&self) -> Result<u64> {
        let term = self.cluster()?.pointer("/status/term").and_then(Value::as_u64);
        term.context("the cluster has no term")
    }

    /// The terms that were begun since, and where their time went, as the operator says.
    pub(crate) fn terms_after(&self, term: u64) -> Result<Vec<Value>> {
        let cluster = self.cluster()?;
        let history = cluster.pointer("/status/history").and_then(Value::as_array);
        let later = history.into_iter().flatten();
        Ok(later
            .filter(|one| one["term"].as_u64() > Some(term))
            .cloned()
            .collect())
    }

    /// The Events of this reason, by their names.
    pub(crate) fn events(&self, reason: &str) -> Result<BTreeSet<String>> {
        let events = self.object(Self::DATABASES, "events")?;
        Ok(items(&events)
            .filter(|event| event["reason"] == reason)
            .filter_map(|event| Some(event.pointer("/metadata/name")?.as_str()?.to_owned()))
            .collect())
    }

    pub(crate) fn main_pod(&self) -> Result<String> {
        Ok(text(&self.cluster()?, "/status/targetMainPod")?.to_owned())
    }

    pub(crate) fn sync_pod(&self) -> Result<String> {
        Ok(text(&self.cluster()?, "/status/targetSyncReplica")?.to_owned())
    }

    pub(crate) fn pod(&self, name: &str) -> Result<Value> {
        self.object(Self::DATABASES, &format!("pod/{name}"))
    }

    pub(crate) fn uid(&self, pod: &str) -> Result<String> {
        Ok(text(&self.pod(pod)?, "/metadata/uid")?.to_owned())
    }

    /// Where a pod runs.
    pub(crate) fn node_of(&self, namespace: &str, pod: &str) -> Result<Node> {
        let pod = self.object(namespace, &format!("pod/{pod}"))?;
        let name = text(&pod, "/spec/nodeName")?;
        let number = name.strip_prefix("node").and_then(|number| number.parse().ok());
        Ok(Node(
            number.with_context(|| format!("`{name}` is no node of ours"))?,
        ))
    }

    /// What runs on a node.
    pub(crate) fn pods_on(&self, node: Node) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for namespace in [Self::OPERATORS, Self::DATABASES] {
            let pods = self.object(namespace, "pods")?;
            let here =
                items(&pods).filter(|pod| pod.pointer("/spec/nodeName") == Some(&json!(node.to_string())));
            found.extend(here.filter_map(|pod| Some(pod.pointer("/metadata/name")?.as_str()?.to_owned())));
        }
        Ok(found)
    }

    pub(crate) fn main_node(&self) -> Result<Node> {
        self.node_of(Self::DATABASES, &self.main_pod()?)
    }

    /// The operator that leads.
    pub(crate) fn leader(&self) -> Result<String> {
        let lease = self.object(Self::OPERATORS, "lease/mainstay-operator")?;
        // The run is behind the last `_`; the name of a pod has none.
        let holder = text(&lease, "/spec/holderIdentity")?;
        Ok(holder.rsplit_once('_').map_or(holder, |(pod, _)| pod).to_owned())
    }

    /// Where clients of the cluster connect.
    pub(crate) fn service(&self) -> Result<String> {
        let service = self.object(Self::DATABASES, &format!("svc/{}-gateway", Self::CLUSTER))?;
        Ok(text(&service, "/spec/clusterIP")?.to_owned())
    }

    /// The folder that a database has as its volume.
    pub(crate) fn volume(&self, pod: &str) -> Result<PathBuf> {
        let claim = self.object(Self::DATABASES, &format!("pvc/lib-storage-{pod}"))?;
        let volume = self.object(
            Self::DATABASES,
            &format!("pv/{}", text(&claim, "/spec/volumeName")?),
        )?;
        Ok(PathBuf::from(text(&volume, "/spec/local/path")?))
    }

    /// Statements on one database, past every gateway; the rows of each.
    pub(crate) fn ask(&self, pod: &str, statements: &[&str]) -> Result<Vec<Vec<Vec<Value>>>> {
        let object = self.pod(pod)?;
        let address = text(&object, "/status/podIP")?;
        let mut command = self.command(&self.python()?);
        command
            .args(["e2e/statements.py", address, "7687"])
            .args(statements);
        let said = String::from_utf8(capture(&mut command)?)?;
        said.lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("no rows: {line}")))
            .collect()
    }

    /// How many vertices with this label a database has.
    pub(crate) fn count(&self, pod: &str, label: &str) -> Result<u64> {
        let rows = self.ask(pod, &[&format!("MATCH (n:{label}) RETURN count(n)")])?;
        let number = rows
            .first()
            .and_then(|rows| rows.first())
            .and_then(|row| row.first());
        number.and_then(Value::as_u64).context("no number")
    }

    /// An eviction, as a drain asks for it; `false` if the budget forbids it.
    pub(crate) fn evict(&self, pod: &str) -> Result<bool> {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": pod, "namespace": Self::DATABASES },
        });
        let path = format!("/api/v1/namespaces/{}/pods/{pod}/eviction", Self::DATABASES);
        let said = self.create_raw(&path, &eviction)?;
        match said {
            Ok(()) => Ok(true),
            Err(error) if error.contains("disruption budget") => Ok(false),
            Err(error) => bail!("the eviction of {pod} was not understood: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_waited_out_and_said_if_it_is_the_last_that_was_heard() {
        let mut asked = 0;
        let found = until(Duration::from_secs(10), "answer", || {
            asked += 1;
            if asked == 1 {
                bail!("not yet")
            }
            Ok(Some(asked))
        });
        assert_eq!(found.unwrap(), 2);
        let error = until::<()>(Duration::ZERO, "answer", || bail!("nobody is there")).unwrap_err();
        assert_eq!(format!("{error:#}"), "no answer after 0ns: nobody is there");
        let error = until::<()>(Duration::ZERO, "answer", || Ok(None)).unwrap_err();
        assert_eq!(error.to_string(), "no answer after 0ns");
    }
}
