//! Who may do what: roles and their bindings, evaluated as upstream does.

use serde_json::{Value, json};

use super::audit::Asked;
use super::failure::Failure;
use super::kinds::Kind;
use super::request::{ApiRequest, Method, Target, User};
use super::store::Store;
use super::value::{items, text};

/// What somebody wants to do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    /// `pods` or `pods/log`.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Set instead of the resource for everything that is none.
    pub(crate) path: String,
}

impl Attributes {
    fn of(request: &ApiRequest, target: Option<&Target>) -> Self {
        let Some(target) = target else {
            return Self {
                verb: if request.method == Method::Get {
                    "get"
                } else {
                    "post"
                }
                .to_owned(),
                path: request.path.clone(),
                ..Self::default()
            };
        };
        let streamed = matches!(
            target.subresource.as_deref(),
            Some("exec" | "attach" | "portforward")
        );
        let verb = match (request.method, target.name.is_some()) {
            _ if streamed => "create",
            (Method::Get, true) => "get",
            (Method::Get, false) if request.flag("watch") => "watch",
            (Method::Get, false) => "list",
            (Method::Post, _) => "create",
            (Method::Put, _) => "update",
            (Method::Patch, _) => "patch",
            (Method::Delete, true) => "delete",
            (Method::Delete, false) => "deletecollection",
        };
        let resource = match &target.subresource {
            Some(subresource) => format!("{}/{subresource}", target.plural),
            None => target.plural.clone(),
        };
        // Whoever lists or watches one object by its name is judged by that name, as upstream does.
        let selected = || request.query("fieldSelector").and_then(only_name);
        let name = target.name.clone().or_else(selected).unwrap_or_default();
        // The namespace itself is judged inside itself, as upstream does.
        let of_namespace = target.group.is_empty() && target.plural == "namespaces";
        let namespace = target
            .namespace
            .clone()
            .or_else(|| target.name.clone().filter(|_| of_namespace));
        Self {
            verb: verb.to_owned(),
            group: target.group.clone(),
            resource,
            namespace: namespace.unwrap_or_default(),
            name,
            path: String::new(),
        }
    }
}

/// What the log keeps of a request: those of service accounts for objects.
pub(super) fn asked(request: &ApiRequest, target: Option<&Target>) -> Option<Asked> {
    if !request.user.name.starts_with("system:serviceaccount:") {
        return None;
    }
    let Attributes {
        verb,
        group,
        resource,
        namespace,
        name: _,
        path: _,
    } = Attributes::of(request, Some(target?));
    Some(Asked {
        user: request.user.name.clone(),
        verb,
        group,
        resource,
        namespace,
    })
}

/// The name that a field selector asks for, if it asks for one.
fn only_name(selector: &str) -> Option<String> {
    let parts = selector.split(',');
    let mut names = parts.filter_map(|part| part.trim().strip_prefix("metadata.name="));
    let name = names.next()?.trim_start_matches('=');
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// Refuse what is not allowed.
pub(crate) fn authorize(store: &Store, request: &ApiRequest, target: Option<&Target>) -> Result<(), Failure> {
    let wanted = Attributes::of(request, target);
    if allowed(store, &request.user, &wanted) {
        return Ok(());
    }
    if !wanted.path.is_empty() {
        return Err(Failure::forbidden(format!(
            "forbidden: User {:?} cannot {} path {:?}",
            request.user.name, wanted.verb, wanted.path
        )));
    }
    let qualified = match target {
        Some(target) if !target.group.is_empty() => format!("{}.{}", target.plural, target.group),
        Some(target) => target.plural.clone(),
        None => String::new(),
    };
    let named = if wanted.name.is_empty() {
        String::new()
    } else {
        format!(" {:?}", wanted.name)
    };
    let place = if wanted.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {:?}", wanted.namespace)
    };
    let mut failure = Failure::forbidden(format!(
        "{qualified}{named} is forbidden: User {:?} cannot {} resource {:?} in API group {:?} {place}",
        request.user.name, wanted.verb, wanted.resource, wanted.group
    ));
    failure.details =
        json!({"name": wanted.name, "group": wanted.group, "kind": target.map(|target| &target.plural)});
    Err(failure)
}

/// Whether any binding gives it.
pub(crate) fn allowed(store: &Store, user: &User, wanted: &Attributes) -> bool {
    if user.groups.iter().any(|group| group == "system:masters") {
        return true;
    }
    let everywhere = store.list(Kind::CLUSTER_ROLE_BINDING, None);
    let here = if wanted.namespace.is_empty() {
        Vec::new()
    } else {
        store.list(Kind::ROLE_BINDING, Some(&wanted.namespace))
    };
    everywhere.into_iter().chain(here).any(|binding| {
        let bound = items(binding, "/subjects")
            .iter()
            .any(|subject| is_subject(subject, user));
        bound
            && role(store, binding)
                .is_some_and(|role| items(role, "/rules").iter().any(|rule| gives(rule, wanted)))
    })
}

fn is_subject(subject: &Value, user: &User) -> bool {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "User" => user.name == name,
        "Group" => user.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            user.name == format!("system:serviceaccount:{}:{name}", text(subject, "/namespace"))
        }
        _ => false,
    }
}

/// What a binding binds to.
pub(super) fn role<'a>(store: &'a Store, binding: &Value) -> Option<&'a Value> {
    let name = text(binding, "/roleRef/name");
    match text(binding, "/roleRef/kind") {
        "ClusterRole" => store.get(Kind::CLUSTER_ROLE, "", name),
        "Role" => store.get(Kind::ROLE, text(binding, "/metadata/namespace"), name),
        _ => None,
    }
}

fn has(rule: &Value, field: &str, wanted: &str) -> bool {
    items(rule, field)
        .iter()
        .any(|item| item.as_str() == Some("*") || item.as_str() == Some(wanted))
}

fn gives(rule: &Value, wanted: &Attributes) -> bool {
    if !has(rule, "/verbs", &wanted.verb) {
        return false;
    }
    if !wanted.path.is_empty() {
        return items(rule, "/nonResourceURLs")
            .iter()
            .filter_map(Value::as_str)
            .any(|url| match url.strip_suffix('*') {
                Some(prefix) => wanted.path.starts_with(prefix),
                None => wanted.path == url,
            });
    }
    let resource = has(rule, "/resources", &wanted.resource)
        // `*/scale` is the subresource of everything.
        || wanted.resource.split_once('/').is_some_and(|(_, sub)| {
            items(rule, "/resources").iter().any(|item| item.as_str() == Some(format!("*/{sub}").as_str()))
        });
    let names = items(rule, "/resourceNames");
    resource
        && has(rule, "/apiGroups", &wanted.group)
        && (names.is_empty() || names.iter().any(|name| name.as_str() == Some(&wanted.name)))
}

/// The roles that every cluster has and that the sandbox needs.
pub(crate) fn first_roles() -> Vec<Value> {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let role = |name: &str, rules: Value| json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    let binding = |name: &str, group: &str| {
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
        })
    };
    let urls = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/openapi",
        "/openapi/*",
        "/version",
        "/version/",
        "/healthz",
        "/livez",
        "/readyz",
    ];
    vec![
        role(
            "cluster-admin",
            json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]),
        ),
        binding("cluster-admin", "system:masters"),
        role(
            "system:discovery",
            json!([{"nonResourceURLs": urls, "verbs": ["get"]}]),
        ),
        binding("system:discovery", "system:authenticated"),
        role(
            "system:basic-user",
            json!([
                {"apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews"], "verbs": ["create"]},
                {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
            ]),
        ),
        binding("system:basic-user", "system:authenticated"),
    ]
}
