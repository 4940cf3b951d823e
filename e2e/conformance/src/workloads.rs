//! The built-in kinds that an operator of databases lives on.

use anyhow::Result;
use serde_json::{Value, json};

use crate::world::set;
use crate::{World, checks};

checks![
    a_stateful_set_has_its_defaults,
    most_of_a_stateful_set_cannot_change,
    a_stateful_set_scales,
    a_selector_must_match_its_template,
    a_pod_has_its_defaults,
    the_spec_of_a_pod_is_fixed,
    a_service_gets_an_address_and_keeps_it,
    a_headless_service_has_none,
    a_lease_is_taken_by_compare_and_swap,
    an_eviction_deletes_what_no_budget_protects,
    a_budget_blocks_an_eviction,
    logs_of_a_pod_on_no_node_are_refused,
];

const SETS: &str = "/apis/apps/v1/{ns}/statefulsets";

fn stateful_set() -> Value {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    json!({
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db", "replicas": 0, "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db", "image": "example.com/db:1"}]}},
            "volumeClaimTemplates": [claim],
        },
    })
}

async fn a_stateful_set_has_its_defaults(world: World) -> Result<()> {
    let made = world.post(SETS, &stateful_set()).await?;
    let made = world.worked("made", made)?;
    world.same("policy", made.text("/spec/podManagementPolicy"), "OrderedReady")?;
    world.same(
        "strategy",
        made.text("/spec/updateStrategy/type"),
        "RollingUpdate",
    )?;
    world.same(
        "partition",
        made.at("/spec/updateStrategy/rollingUpdate/partition"),
        json!(0),
    )?;
    world.same("history", made.at("/spec/revisionHistoryLimit"), json!(10))?;
    world.same(
        "claims are kept",
        made.text("/spec/persistentVolumeClaimRetentionPolicy/whenDeleted"),
        "Retain",
    )?;
    world.same(
        "grace",
        made.at("/spec/template/spec/terminationGracePeriodSeconds"),
        json!(30),
    )?;
    world.same(
        "pull",
        made.text("/spec/template/spec/containers/0/imagePullPolicy"),
        "IfNotPresent",
    )?;
    world.same("generation", made.at("/metadata/generation"), json!(1))
}

async fn most_of_a_stateful_set_cannot_change(world: World) -> Result<()> {
    world.worked("made", world.post(SETS, &stateful_set()).await?)?;
    let path = format!("{SETS}/db");
    for patch in [
        json!({"spec": {"serviceName": "other"}}),
        json!({"spec": {"podManagementPolicy": "Parallel"}}),
        json!({"spec": {"volumeClaimTemplates": []}}),
        json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}}),
    ] {
        let patched = world.patch("merge-patch+json", &path, &patch).await?;
        world.refused(&patch.to_string(), &patched, 422, "Invalid")?;
    }
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "db", "image": "example.com/db:2"}]}}}});
    let patched = world.patch("strategic-merge-patch+json", &path, &image).await?;
    world.same(
        "the template can",
        (patched.code, patched.at("/metadata/generation")),
        (200, json!(2)),
    )
}

async fn a_stateful_set_scales(world: World) -> Result<()> {
    world.worked("made", world.post(SETS, &stateful_set()).await?)?;
    let path = format!("{SETS}/db/scale");
    let mut scale = world.get(&path).await?.body;
    world.same(
        "selector",
        scale.pointer("/status/selector").cloned().unwrap_or_default(),
        json!("app=db"),
    )?;
    set(&mut scale, "/spec/replicas", json!(0));
    let mut put = world.put(&path, &scale).await?;
    // The controller writes the status of a new set at the same time.
    for _ in 0..10 {
        if put.code != 409 {
            break;
        }
        scale = world.get(&path).await?.body;
        set(&mut scale, "/spec/replicas", json!(0));
        put = world.put(&path, &scale).await?;
    }
    world.same("put", put.code, 200)?;
    let below = world
        .patch("merge-patch+json", &path, &json!({"spec": {"replicas": -1}}))
        .await?;
    world.refused("below zero", &below, 422, "Invalid")
}

async fn a_selector_must_match_its_template(world: World) -> Result<()> {
    let mut other = stateful_set();
    set(&mut other, "/spec/selector/matchLabels/app", json!("other"));
    world.refused("no match", &world.post(SETS, &other).await?, 422, "Invalid")?;
    let mut none = stateful_set();
    set(&mut none, "/spec/selector", json!(null));
    world.refused("no selector", &world.post(SETS, &none).await?, 422, "Invalid")?;
    let mut typed = stateful_set();
    set(&mut typed, "/spec/replicas", json!("three"));
    world.refused("no number", &world.post(SETS, &typed).await?, 400, "BadRequest")
}

fn pod(name: &str, labels: &Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "example.com/nothing:1", "ports": [{"containerPort": 7687}]}]}})
}

async fn make_pod(world: &World, name: &str, labels: &Value) -> Result<crate::Reply> {
    world
        .eventually("/api/v1/{ns}/serviceaccounts/default", |reply| reply.code == 200)
        .await?;
    let made = world.post("/api/v1/{ns}/pods", &pod(name, labels)).await?;
    world.worked("a pod", made)
}

async fn a_pod_has_its_defaults(world: World) -> Result<()> {
    let made = make_pod(&world, "p", &json!({})).await?;
    world.same("phase", made.text("/status/phase"), "Pending")?;
    world.same("restart", made.text("/spec/restartPolicy"), "Always")?;
    world.same(
        "protocol",
        made.text("/spec/containers/0/ports/0/protocol"),
        "TCP",
    )?;
    world.same("account", made.text("/spec/serviceAccountName"), "default")?;
    let tolerations = made.at("/spec/tolerations").to_string();
    world.so(
        "five minutes on a lost node",
        tolerations.contains("node.kubernetes.io/unreachable") && tolerations.contains("300"),
        &made.body,
    )?;
    let empty = world
        .post(
            "/api/v1/{ns}/pods",
            &json!({"metadata": {"name": "q"}, "spec": {"containers": []}}),
        )
        .await?;
    world.refused("no container", &empty, 422, "Invalid")
}

async fn the_spec_of_a_pod_is_fixed(world: World) -> Result<()> {
    make_pod(&world, "p", &json!({})).await?;
    let path = "/api/v1/{ns}/pods/p";
    let node = world
        .patch("merge-patch+json", path, &json!({"spec": {"nodeName": "x"}}))
        .await?;
    world.refused("the node", &node, 422, "Invalid")?;
    let image = json!({"spec": {"containers": [{"name": "c", "image": "example.com/nothing:2"}]}});
    let image = world.patch("strategic-merge-patch+json", path, &image).await?;
    world.same("the image is not", image.code, 200)?;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let status = world
        .patch("strategic-merge-patch+json", &format!("{path}/status"), &status)
        .await?;
    world.same("the status is written", status.text("/status/phase"), "Running")?;
    let labelled = world
        .patch(
            "merge-patch+json",
            &format!("{path}/status"),
            &json!({"metadata": {"labels": {"a": "b"}}}),
        )
        .await?;
    world.same(
        "and carries labels along",
        labelled.text("/metadata/labels/a"),
        "b",
    )
}

async fn a_service_gets_an_address_and_keeps_it(world: World) -> Result<()> {
    let made = world
        .post(
            "/api/v1/{ns}/services",
            &json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 7687}]}}),
        )
        .await?;
    world.so("address", !made.text("/spec/clusterIP").is_empty(), &made.body)?;
    world.same("type", made.text("/spec/type"), "ClusterIP")?;
    world.same("target", made.at("/spec/ports/0/targetPort"), json!(7687))?;
    let changed = world
        .patch(
            "merge-patch+json",
            "/api/v1/{ns}/services/s",
            &json!({"spec": {"clusterIP": "10.96.250.250", "clusterIPs": ["10.96.250.250"]}}),
        )
        .await?;
    world.refused("another address", &changed, 422, "Invalid")
}

async fn a_headless_service_has_none(world: World) -> Result<()> {
    let body = json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "ports": [{"port": 7687}], "publishNotReadyAddresses": true}});
    let made = world.post("/api/v1/{ns}/services", &body).await?;
    world.same("none", made.text("/spec/clusterIP"), "None")
}

async fn a_lease_is_taken_by_compare_and_swap(world: World) -> Result<()> {
    let leases = "/apis/coordination.k8s.io/v1/{ns}/leases";
    let lease = |holder: &str| json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z", "leaseTransitions": 0}});
    let made = world.post(leases, &lease("one")).await?;
    let made = world.worked("made", made)?;
    world.same(
        "micro seconds are kept",
        made.text("/spec/renewTime"),
        "2026-01-01T00:00:00.000000Z",
    )?;
    let second = world.post(leases, &lease("two")).await?;
    world.refused("made by another", &second, 409, "AlreadyExists")?;
    let take = |holder: &str| {
        let mut body = lease(holder);
        set(&mut body, "/metadata/resourceVersion", json!(made.version()));
        body
    };
    let path = format!("{leases}/l");
    world.worked("taken", world.put(&path, &take("two")).await?)?;
    world.refused(
        "taken late",
        &world.put(&path, &take("three")).await?,
        409,
        "Conflict",
    )?;
    let zero = world
        .patch(
            "merge-patch+json",
            &path,
            &json!({"spec": {"leaseDurationSeconds": 0}}),
        )
        .await?;
    world.refused("for no time", &zero, 422, "Invalid")
}

fn eviction(pod: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}})
}

async fn an_eviction_deletes_what_no_budget_protects(world: World) -> Result<()> {
    make_pod(&world, "p", &json!({})).await?;
    let evicted = world.post("/api/v1/{ns}/pods/p/eviction", &eviction("p")).await?;
    world.same(
        "evicted",
        (evicted.code, evicted.text("/status")),
        (201, "Success"),
    )?;
    let gone = world.get("/api/v1/{ns}/pods/p").await?;
    world.same("gone", gone.code, 404)?;
    let none = world.post("/api/v1/{ns}/pods/p/eviction", &eviction("p")).await?;
    world.refused("none", &none, 404, "NotFound")
}

async fn a_budget_blocks_an_eviction(world: World) -> Result<()> {
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}});
    world.worked(
        "budget",
        world
            .post("/apis/policy/v1/{ns}/poddisruptionbudgets", &budget)
            .await?,
    )?;
    make_pod(&world, "p", &json!({"app": "db"})).await?;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let running = world
        .patch(
            "strategic-merge-patch+json",
            "/api/v1/{ns}/pods/p/status",
            &status,
        )
        .await?;
    world.worked("running", running)?;
    let evicted = world.post("/api/v1/{ns}/pods/p/eviction", &eviction("p")).await?;
    world.refused("blocked", &evicted, 429, "TooManyRequests")?;
    world.same(
        "why",
        evicted.text("/details/causes/0/reason"),
        "DisruptionBudget",
    )?;
    let there = world.get("/api/v1/{ns}/pods/p").await?;
    world.same("still there", there.code, 200)
}

async fn logs_of_a_pod_on_no_node_are_refused(world: World) -> Result<()> {
    make_pod(&world, "p", &json!({})).await?;
    let none = world.get("/api/v1/{ns}/pods/none/log").await?;
    world.refused("no pod", &none, 404, "NotFound")?;
    let wrong = world.get("/api/v1/{ns}/pods/p/log?container=nope").await?;
    world.refused("no container", &wrong, 400, "BadRequest")
}
