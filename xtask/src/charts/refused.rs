//! Values that must be refused, each with words that say what is wrong.

use anyhow::Result;

use super::{Answer, Helm};

/// Chart, values, and what the refusal must say.
const BAD: &[(&str, &str, &str)] = &[
    (
        "mainstay",
        "replica=3",
        "additional properties 'replica' not allowed",
    ),
    ("mainstay", "replicas=0", "at '/replicas': minimum: got 0, want 1"),
    (
        "mainstay",
        "replicas=two",
        "at '/replicas': got string, want integer",
    ),
    (
        "mainstay",
        "scope=Everywhere",
        "at '/scope': value must be one of 'Cluster', 'Namespace'",
    ),
    (
        "mainstay",
        "scope=Namespace,watchNamespace=No_Name",
        "at '/watchNamespace'",
    ),
    (
        "mainstay",
        "watchNamespace=db",
        "watchNamespace is given and scope is Cluster",
    ),
    ("mainstay", "image.tag=latest", "image.tag is `latest`"),
    ("mainstay", "image.tag=a b", "at '/image/tag'"),
    ("mainstay", "image.digest=sha256:12", "at '/image/digest'"),
    ("mainstay", "image.repository=", "at '/image/repository'"),
    ("mainstay", "image.pullPolicy=Sometimes", "at '/image/pullPolicy'"),
    (
        "mainstay",
        "rbac.create=false",
        "name an account that has the rights",
    ),
    (
        "mainstay",
        "podDisruptionBudget.minAvailable=2",
        "no node could ever be drained",
    ),
    ("mainstay", "extraArgs[0]=verbose", "at '/extraArgs/0'"),
    (
        "mainstay",
        "resources.limit.memory=1Gi",
        "additional properties 'limit' not allowed",
    ),
    (
        "mainstay",
        "metrics.serviceMonitor.enabled=yes",
        "got string, want boolean",
    ),
    (
        "memgraph-ha",
        "replicas=3",
        "additional properties 'replicas' not allowed",
    ),
    (
        "memgraph-ha",
        "spec.replica=3",
        "at '/spec': additional properties 'replica' not allowed",
    ),
    (
        "memgraph-ha",
        "spec.replicas=1",
        "at '/spec/replicas': minimum: got 1, want 2",
    ),
    (
        "memgraph-ha",
        "spec.replicas=10",
        "at '/spec/replicas': maximum: got 10, want 9",
    ),
    ("memgraph-ha", "spec.image=memgraph/memgraph", "at '/spec/image'"),
    (
        "memgraph-ha",
        "spec.image=memgraph/memgraph:latest",
        "spec.image is `latest`",
    ),
    ("memgraph-ha", "spec.flags[0]=log-level", "at '/spec/flags/0'"),
    ("memgraph-ha", "spec.storage.size=ten", "at '/spec/storage/size'"),
    (
        "memgraph-ha",
        "spec.credentials.usernameKey=u",
        "missing property 'secretName'",
    ),
    (
        "memgraph-ha",
        "spec.failover.writesWithoutSync=Sometimes",
        "at '/spec/failover/writesWithoutSync'",
    ),
    (
        "memgraph-ha",
        "spec.failover.drain=10",
        "at '/spec/failover/drain'",
    ),
    (
        "memgraph-ha",
        "spec.gateway.replicas=0",
        "at '/spec/gateway/replicas'",
    ),
    (
        "memgraph-ha",
        "spec.hibernated=maybe",
        "at '/spec/hibernated': got string, want boolean",
    ),
    ("memgraph-ha", "name=Capital", "at '/name'"),
    (
        "memgraph-ha",
        "name=a-name-of-more-than-forty-characters-is-too-long",
        "at '/name'",
    ),
];

/// What was rendered all the same, or refused in other words.
pub(super) fn check(helm: &Helm<'_>) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (chart, values, words) in BAD {
        match helm.template(chart, &["--set", values])? {
            Answer::Rendered(_) => wrong.push(format!("{chart}: `{values}` is not refused")),
            Answer::Refused(why) if why.contains(words) => {}
            Answer::Refused(why) => {
                wrong.push(format!(
                    "{chart}: `{values}` is refused without `{words}`: {}",
                    why.trim()
                ));
            }
        }
    }
    println!("{} bad values refused", BAD.len());
    Ok(wrong)
}
