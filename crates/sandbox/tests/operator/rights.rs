//! Every right that Memgraph clusters are given for is needed: the operator works with exactly the rules of the chart, and whichever verb is taken
//! away is one that it asked for, or that it has to give to its gateways and databases.

use crate::bed::{Bed, NAME};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use operator::install::{self, Install};
use operator::rights as granted;
use serde_json::{Value, json};
use sim::kube::{Asked, Kind, User};
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_mins(3);
/// What the operator notes on an object about what it was built from.
const APPLIED: &str = "mainstay.dev/applied";

/// One verb on one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    group: String,
    resource: String,
    verb: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            resource,
            verb,
        } = self;
        write!(f, "{verb} {resource}.{group}")
    }
}

fn texts(rule: &Value, field: &str) -> Vec<String> {
    let all = rule.get(field).and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

/// Each verb of each rule by itself.
fn rights(rules: &Value) -> BTreeSet<Right> {
    let mut all = BTreeSet::new();
    for rule in rules.as_array().into_iter().flatten() {
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                all.extend(texts(rule, "verbs").into_iter().map(|verb| Right {
                    group: group.clone(),
                    resource: resource.clone(),
                    verb,
                }));
            }
        }
    }
    all
}

/// The rules of these rights.
fn rules(rights: impl Iterator<Item = Right>) -> Value {
    let rule = |Right {
                    group,
                    resource,
                    verb,
                }: Right| json!({ "apiGroups": [group], "resources": [resource], "verbs": [verb] });
    rights.map(rule).collect()
}

fn dynamic(client: &Client, object: &Value) -> Result<(Api<DynamicObject>, DynamicObject)> {
    let parsed: DynamicObject = serde_json::from_value(object.clone())?;
    let types = parsed.types.clone().context("no kind")?;
    let kind = GroupVersionKind::try_from(&types)?;
    let resource = ApiResource::from_gvk(&kind);
    let api = match parsed.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    Ok((api, parsed))
}

/// The account, its role and its binding, as they are installed.
async fn install_rights(bed: &Bed) -> Result<()> {
    let objects = install::objects(&Install {
        namespace: "default".to_owned(),
        image: "mainstay:latest".to_owned(),
        replicas: 1,
        args: Vec::new(),
    });
    for object in objects {
        if ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
            .contains(&object.get("kind").and_then(Value::as_str).unwrap_or_default())
        {
            let (api, parsed) = dynamic(&bed.client, &object)?;
            api.create(&PostParams::default(), &parsed).await?;
        }
    }
    Ok(())
}

/// The operator is given other rules.
async fn change_rules(bed: &Bed, rules: Value) -> Result<()> {
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": install::NAME } });
    let (api, _) = dynamic(&bed.client, &role)?;
    let patch = Patch::Merge(json!({ "rules": rules }));
    api.patch(install::NAME, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// What each kind of a cluster's objects is called.
const OWNED: &[(&str, &str)] = &[
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("policy/v1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "Deployment"),
];

/// As if an earlier operator had built everything a little differently: this one puts it right.
async fn built_by_an_earlier_operator(bed: &Bed) -> Result<()> {
    for (version, kind) in OWNED {
        let (api, _) = dynamic(
            &bed.client,
            &json!({ "apiVersion": version, "kind": kind, "metadata": { "namespace": "default" } }),
        )?;
        let ours: Vec<DynamicObject> = api
            .list(&ListParams::default())
            .await?
            .into_iter()
            .filter(|object| object.annotations().contains_key(APPLIED))
            .collect();
        ensure!(!ours.is_empty(), "no {kind} was made");
        for object in &ours {
            let patch = Patch::Merge(json!({ "metadata": { "annotations": { APPLIED: "earlier" } } }));
            api.patch(&object.name_any(), &PatchParams::default(), &patch)
                .await?;
        }
        let deadline = Instant::now() + PATIENCE;
        for object in &ours {
            while api
                .get(&object.name_any())
                .await?
                .annotations()
                .get(APPLIED)
                .is_none_or(|print| print == "earlier")
            {
                ensure!(
                    Instant::now() < deadline,
                    "{kind} {} stays as it is",
                    object.name_any()
                );
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
    Ok(())
}

/// Databases are to be different: every pod is deleted by the operator, and comes back.
async fn every_pod_is_made_anew(bed: &Bed) -> Result<()> {
    let uids = async || -> Result<BTreeSet<String>> {
        let pods: Vec<Pod> = bed.pods().list(&ListParams::default()).await?.items;
        let databases = pods.iter().filter(|pod| {
            pod.labels()
                .get("mainstay.dev/role")
                .is_some_and(|role| role == "database")
        });
        Ok(databases.filter_map(ResourceExt::uid).collect())
    };
    let before = uids().await?;
    let patch = Patch::Merge(json!({ "spec": { "resources": { "requests": { "cpu": "10m" } } } }));
    bed.clusters()
        .patch(NAME, &PatchParams::default(), &patch)
        .await?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = uids().await?;
        if now.len() == before.len() && now.is_disjoint(&before) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "not every pod was made anew");
        sleep(Duration::from_millis(50)).await;
    }
}

/// What the operator asked for, and was let.
fn asked(bed: &Bed, user: &User) -> Result<Vec<Asked>> {
    let audit = bed.kubernetes.with_store(|store| store.audit().clone());
    let mut all = Vec::new();
    for (asked, times) in audit.into_iter().filter(|(asked, _)| asked.user == user.name) {
        ensure!(times.refused == 0, "the operator was refused: {asked:?}");
        all.push(asked);
    }
    Ok(all)
}

/// Whether the operator may do this now.
async fn may(bed: &Bed, user: &User, asked: &Asked) -> Result<bool> {
    let (resource, subresource) = asked.resource.split_once('/').unwrap_or((&asked.resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
        "spec": {
            "user": user.name, "groups": user.groups,
            "resourceAttributes": {
                "verb": asked.verb, "group": asked.group, "resource": resource,
                "subresource": subresource, "namespace": asked.namespace,
            },
        },
    });
    let (api, parsed) = dynamic(&bed.client, &review)?;
    let said = api.create(&PostParams::default(), &parsed).await?;
    said.data
        .pointer("/status/allowed")
        .and_then(Value::as_bool)
        .context("no answer")
}

/// Whether the operator could give its gateways and databases what they have, now: tried, and not done.
async fn may_grant(bed: &Bed, user: &User) -> Result<bool> {
    let roles: Vec<Value> = bed.kubernetes.with_store(|store| {
        let all = store.list(Kind::ROLE, Some("default"));
        all.into_iter().cloned().collect()
    });
    ensure!(roles.len() == 2, "gateways and databases have a role each");
    let client = bed.kubernetes.client_as(user.clone());
    for role in roles {
        let name = role
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let copy = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": { "name": format!("{name}-copy"), "namespace": "default" },
            "rules": role.get("rules"),
        });
        let (api, parsed) = dynamic(&client, &copy)?;
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        match api.create(&params, &parsed).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_single_right_something_is_refused() -> Result<()> {
    let bed = Bed::new().await?;
    install_rights(&bed).await?;
    let user = User::service_account("default", install::NAME);
    let operator = bed.operator_as(&user).await?;
    bed.create_with_gateway(2).await?;
    bed.until_protected().await?;
    built_by_an_earlier_operator(&bed).await?;
    every_pod_is_made_anew(&bed).await?;
    bed.until_protected().await?;
    operator.stop().await?;

    let asked = asked(&bed, &user)?;
    let (all, of_clusters) = (rights(&granted::all()), rights(&granted::memgraph()));
    ensure!(of_clusters.len() > 40, "{} rights", of_clusters.len());
    ensure!(may_grant(&bed, &user).await?, "with all rights it can");
    let mut needless = Vec::new();
    for gone in &of_clusters {
        change_rules(&bed, rules(all.iter().filter(|right| *right != gone).cloned())).await?;
        let mut refused = Vec::new();
        for one in &asked {
            if !may(&bed, &user, one).await? {
                refused.push(format!("{} {}", one.verb, one.resource));
            }
        }
        if !may_grant(&bed, &user).await? {
            refused.push("to give gateways or databases their role".to_owned());
        }
        eprintln!("without {gone}: {}", refused.join(", "));
        if refused.is_empty() {
            needless.push(gone.to_string());
        }
    }
    ensure!(needless.is_empty(), "granted, and needed by nobody: {needless:?}");
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_lacks_one_right_does_not_get_there() -> Result<()> {
    let bed = Bed::new().await?;
    install_rights(&bed).await?;
    let lost = |right: &Right| right.resource == "statefulsets" && right.verb == "create";
    let left = rights(&granted::all()).into_iter().filter(|right| !lost(right));
    change_rules(&bed, rules(left)).await?;
    let user = User::service_account("default", install::NAME);
    let operator = bed.operator_as(&user).await?;
    bed.create_with_gateway(2).await?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let audit = bed.kubernetes.with_store(|store| store.audit().clone());
        let refused = audit.iter().any(|(asked, times)| {
            asked.resource == "statefulsets"
                && asked.verb == "create"
                && times.refused > 0
                && times.allowed == 0
        });
        if refused {
            break;
        }
        ensure!(Instant::now() < deadline, "nothing was refused");
        sleep(Duration::from_millis(50)).await;
    }
    ensure!(bed.record().await?.is_none(), "nobody serves");
    operator.stop().await?;
    bed.end().await
}
