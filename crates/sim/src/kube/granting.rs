//! Nobody grants what he has not: roles and bindings are judged by what they give away, as upstream does.

use serde_json::Value;

use super::failure::Failure;
use super::kinds::Kind;
use super::rbac::{self, Attributes};
use super::request::User;
use super::store::{Call, Store};
use super::value::{items, text};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Refuse a role that has, or a binding that gives, what its writer may not do himself. Whoever changes neither rules
/// nor subjects gives nothing.
pub(super) fn check(store: &Store, call: &Call<'_>, old: Option<&Value>, new: &Value) -> Result<(), Failure> {
    let same = |field: &str| old.is_some_and(|old| old.get(field) == new.get(field));
    let namespace = text(new, "/metadata/namespace");
    let (given, exempt) = match call.resource.kind {
        Kind::ROLE | Kind::CLUSTER_ROLE if !same("rules") => (Some(new), "escalate"),
        Kind::ROLE_BINDING | Kind::CLUSTER_ROLE_BINDING if !same("subjects") || !same("roleRef") => {
            (rbac::role(store, new), "bind")
        }
        _ => return Ok(()),
    };
    let user = &call.request.user;
    let may = Attributes {
        verb: exempt.to_owned(),
        group: GROUP.to_owned(),
        resource: call.info.plural.clone(),
        namespace: namespace.to_owned(),
        name: text(new, "/metadata/name").to_owned(),
        path: String::new(),
    };
    // A binding to a role that is not there gives nothing yet; upstream refuses it to everybody but those.
    if rbac::allowed(store, user, &may) {
        return Ok(());
    }
    let missing = given.map(|role| missing(store, user, namespace, role));
    match missing {
        Some(missing) if missing.is_empty() => Ok(()),
        missing => Err(Failure::forbidden(format!(
            "{} {:?} is forbidden: user {:?} (groups={:?}) is attempting to grant RBAC permissions not currently held:\n{}",
            call.info.qualified(),
            text(new, "/metadata/name"),
            user.name,
            user.groups,
            missing.unwrap_or_default().join("\n"),
        ))),
    }
}

/// What of a role this user may not do.
fn missing(store: &Store, user: &User, namespace: &str, role: &Value) -> Vec<String> {
    let mut missing = Vec::new();
    for rule in items(role, "/rules") {
        for wanted in wanted(rule, namespace) {
            if !rbac::allowed(store, user, &wanted) {
                missing.push(format!(
                    "{{APIGroups:[{:?}], Resources:[{:?}], Verbs:[{:?}]}}",
                    wanted.group, wanted.resource, wanted.verb
                ));
            }
        }
    }
    missing
}

/// A rule as single questions.
fn wanted(rule: &Value, namespace: &str) -> Vec<Attributes> {
    let texts = |field: &str| -> Vec<String> {
        let all = items(rule, field).iter();
        all.filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let mut names = texts("/resourceNames");
    if names.is_empty() {
        names.push(String::new());
    }
    let mut all = Vec::new();
    for verb in texts("/verbs") {
        for group in texts("/apiGroups") {
            for resource in texts("/resources") {
                all.extend(names.iter().map(|name| Attributes {
                    verb: verb.clone(),
                    group: group.clone(),
                    resource: resource.clone(),
                    namespace: namespace.to_owned(),
                    name: name.clone(),
                    path: String::new(),
                }));
            }
        }
        all.extend(texts("/nonResourceURLs").into_iter().map(|path| Attributes {
            verb: verb.clone(),
            path,
            ..Attributes::default()
        }));
    }
    all
}
