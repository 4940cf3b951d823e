//! Who may do what.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{World, checks};

checks![
    a_token_stands_for_its_account,
    a_missing_verb_is_forbidden,
    a_role_gives_what_it_names_and_no_more,
    one_can_ask_what_one_may,
    a_bad_token_is_unauthorized,
    nobody_grants_what_he_has_not,
];

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/{ns}";

/// An account with a role, and the world as it sees it.
async fn account(world: &World, rules: &Value) -> Result<Option<World>> {
    let made = world
        .post(
            "/api/v1/{ns}/serviceaccounts",
            &json!({"metadata": {"name": "robot"}}),
        )
        .await?;
    world.worked("account", made)?;
    let made = world
        .post(
            &format!("{RBAC}/roles"),
            &json!({"metadata": {"name": "robot"}, "rules": rules}),
        )
        .await?;
    world.worked("role", made)?;
    let binding = json!({
        "metadata": {"name": "robot"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "robot"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": world.namespace}],
    });
    let made = world.post(&format!("{RBAC}/rolebindings"), &binding).await?;
    world.worked("binding", made)?;
    let token = world
        .post(
            "/api/v1/{ns}/serviceaccounts/robot/token",
            &json!({"spec": {"expirationSeconds": 3600}}),
        )
        .await?;
    let token = world.worked("token", token)?;
    world.so("a token", token.text("/status/token").len() > 20, &json!(null))?;
    let Some(robot) = world.logged_in(token.text("/status/token"))? else {
        return Ok(None);
    };
    // A real server learns of a new role a moment later.
    robot
        .eventually("/api/v1/{ns}/configmaps", |reply| reply.code == 200)
        .await?;
    Ok(Some(robot))
}

fn reader() -> Value {
    json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}])
}

async fn a_token_stands_for_its_account(world: World) -> Result<()> {
    let Some(robot) = account(&world, &reader()).await? else {
        return Ok(());
    };
    let who = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let who = robot
        .post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &who)
        .await?;
    let name = format!("system:serviceaccount:{}:robot", world.namespace);
    world.same("name", who.text("/status/userInfo/username"), &name)
}

async fn a_missing_verb_is_forbidden(world: World) -> Result<()> {
    let Some(robot) = account(&world, &reader()).await? else {
        return Ok(());
    };
    let made = robot
        .post("/api/v1/{ns}/configmaps", &json!({"metadata": {"name": "a"}}))
        .await?;
    world.refused("create", &made, 403, "Forbidden")?;
    let read = robot.get("/api/v1/{ns}/secrets").await?;
    world.refused("another resource", &read, 403, "Forbidden")?;
    let read = robot.get("/api/v1/configmaps").await?;
    world.refused("every namespace", &read, 403, "Forbidden")?;
    let watched = robot
        .get("/api/v1/{ns}/configmaps?watch=1&timeoutSeconds=1")
        .await?;
    world.refused("watch", &watched, 403, "Forbidden")?;
    let none = robot.get("/api/v1/{ns}/configmaps/none").await?;
    world.same("what is allowed is answered", none.code, 404)
}

async fn a_role_gives_what_it_names_and_no_more(world: World) -> Result<()> {
    world.config_map("mine", &json!({}), &json!({})).await?;
    world.config_map("other", &json!({}), &json!({})).await?;
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["update", "patch", "get"], "resourceNames": ["mine"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"], "resourceNames": ["mine"]},
        {"apiGroups": ["apps"], "resources": ["statefulsets/scale"], "verbs": ["get"]},
    ]);
    let Some(robot) = account(&world, &rules).await? else {
        return Ok(());
    };
    let mine = robot
        .patch(
            "merge-patch+json",
            "/api/v1/{ns}/configmaps/mine",
            &json!({"data": {"k": "v"}}),
        )
        .await?;
    world.same("mine", mine.code, 200)?;
    let other = robot
        .patch(
            "merge-patch+json",
            "/api/v1/{ns}/configmaps/other",
            &json!({"data": {"k": "v"}}),
        )
        .await?;
    world.refused("the other", &other, 403, "Forbidden")?;
    let one = robot
        .get("/api/v1/{ns}/secrets?fieldSelector=metadata.name%3Dmine")
        .await?;
    world.same("a list of one by its name", one.code, 200)?;
    let all = robot.get("/api/v1/{ns}/secrets").await?;
    world.refused("a list of all", &all, 403, "Forbidden")?;
    let scale = robot.get("/apis/apps/v1/{ns}/statefulsets/none/scale").await?;
    world.same("a subresource", scale.code, 404)?;
    let whole = robot.get("/apis/apps/v1/{ns}/statefulsets/none").await?;
    world.same("is not the resource", whole.code, 403)
}

async fn one_can_ask_what_one_may(world: World) -> Result<()> {
    let Some(robot) = account(&world, &reader()).await? else {
        return Ok(());
    };
    for (verb, wanted) in [("list", true), ("delete", false)] {
        let attributes = json!({"namespace": world.namespace, "verb": verb, "resource": "configmaps"});
        let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}});
        let answer = robot
            .post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &body)
            .await?;
        world.same(verb, answer.at("/status/allowed"), json!(wanted))?;
    }
    Ok(())
}

async fn a_bad_token_is_unauthorized(world: World) -> Result<()> {
    let Some(nobody) = world.logged_in("no-such-token")? else {
        return Ok(());
    };
    let read = nobody.get("/api/v1/{ns}/configmaps").await?;
    world.refused("read", &read, 401, "Unauthorized")
}

async fn nobody_grants_what_he_has_not(world: World) -> Result<()> {
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]},
    ]);
    let Some(robot) = account(&world, &rules).await? else {
        return Ok(());
    };
    let role = |name: &str, verb: &str| {
        json!({
            "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}],
        })
    };
    let made = robot.post(&format!("{RBAC}/roles"), &role("has", "get")).await?;
    world.worked("what he has", made)?;
    let refused = robot
        .post(&format!("{RBAC}/roles"), &role("has-not", "delete"))
        .await?;
    world.refused("what he has not", &refused, 403, "Forbidden")
}
