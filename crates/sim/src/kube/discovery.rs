//! What clients ask before they ask for anything: versions, groups, resources,
//! and as much OpenAPI as `kubectl` needs.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::kinds::{Kind, KindInfo, Registry};
use super::request::{ApiRequest, Method};
use super::subresources;

/// The version of Kubernetes that this behaves like.
const VERSION: (&str, &str, &str) = ("1", "37", "v1.37.1+sandbox");

const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// Kinds that are asked and not stored: group, resource, kind.
const REVIEWS: &[(&str, &str, &str)] = &[
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    ("authentication.k8s.io", "tokenreviews", "TokenReview"),
    (
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
    ),
    (
        "authorization.k8s.io",
        "subjectaccessreviews",
        "SubjectAccessReview",
    ),
];

/// One resource of one version.
struct Resource<'a> {
    kind: Option<(Kind, &'a KindInfo)>,
    plural: &'a str,
    name: &'a str,
    verbs: &'a [&'a str],
}

impl Resource<'_> {
    fn namespaced(&self) -> bool {
        self.kind.is_some_and(|(_, info)| info.namespaced)
    }
}

/// Group, then version, then resources.
type Served<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Vec<Resource<'a>>>>;

fn served(kinds: &Registry) -> Served<'_> {
    let mut groups = Served::new();
    for (kind, info) in kinds.served() {
        for version in info.versions.iter().filter(|version| version.served) {
            let mut add = |group| {
                groups
                    .entry(group)
                    .or_default()
                    .entry(version.name.as_str())
                    .or_default()
                    .push(Resource {
                        kind: Some((kind, info)),
                        plural: &info.plural,
                        name: &info.kind,
                        verbs: VERBS,
                    });
            };
            add(info.group.as_str());
            if kind == Kind::EVENT {
                add("events.k8s.io");
            }
        }
    }
    for (group, plural, name) in REVIEWS {
        groups
            .entry(group)
            .or_default()
            .entry("v1")
            .or_default()
            .push(Resource {
                kind: None,
                plural,
                name,
                verbs: &["create"],
            });
    }
    groups
}

/// The answer to a path that is no resource; `None` if it may be one.
pub(crate) fn answer(
    kinds: &Registry,
    request: &ApiRequest,
    segments: &[String],
) -> Option<Result<Value, Failure>> {
    if request.method != Method::Get {
        return None;
    }
    let groups = served(kinds);
    let aggregated = request
        .accept
        .as_deref()
        .is_some_and(|accept| accept.contains("as=APIGroupDiscoveryList") && accept.contains("v=v2;"));
    let segments: Vec<_> = segments.iter().map(String::as_str).collect();
    let found = match segments.as_slice() {
        [""] => Some(json!({"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]})),
        ["healthz" | "livez" | "readyz", ..] => Some(json!("ok")),
        ["version"] => Some(version()),
        ["api"] if aggregated => Some(aggregate(&groups, true)),
        ["apis"] if aggregated => Some(aggregate(&groups, false)),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        ["apis"] => {
            let listed = groups.iter().filter(|(name, _)| !name.is_empty());
            let listed: Vec<_> = listed.map(|(name, versions)| group(name, versions)).collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}))
        }
        ["apis", name] => groups.get(name).map(|versions| group(name, versions)),
        ["api", version] => groups
            .get("")
            .and_then(|group| group.get(version))
            .map(|all| resources("", version, all)),
        ["apis", name, version] => groups
            .get(name)
            .and_then(|group| group.get(version))
            .map(|all| resources(name, version, all)),
        ["openapi", "v3"] => Some(openapi_root(&groups)),
        ["openapi", "v3", "api", version] => openapi(&groups, "", version),
        ["openapi", "v3", "apis", name, version] => openapi(&groups, name, version),
        ["openapi", ..] => None,
        _ => return None,
    };
    Some(found.ok_or_else(Failure::no_such_path))
}

fn version() -> Value {
    let (major, minor, full) = VERSION;
    json!({
        "major": major, "minor": minor, "gitVersion": full, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc", "platform": "sandbox",
    })
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn group(name: &str, versions: &BTreeMap<&str, Vec<Resource<'_>>>) -> Value {
    let listed: Vec<_> = versions
        .keys()
        .map(|version| json!({"groupVersion": api_version(name, version), "version": version}))
        .collect();
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": listed, "preferredVersion": listed.first()})
}

fn resources(group: &str, version: &str, all: &[Resource<'_>]) -> Value {
    let mut listed = Vec::new();
    for resource in all {
        let (singular, short, categories) = names(resource);
        listed.push(json!({
            "name": resource.plural, "singularName": singular, "namespaced": resource.namespaced(), "kind": resource.name,
            "verbs": resource.verbs, "shortNames": short, "categories": categories,
        }));
        for (sub, group_version, kind, verbs) in below(resource, version) {
            let mut entry = json!({
                "name": format!("{}/{sub}", resource.plural), "singularName": "", "namespaced": resource.namespaced(),
                "kind": if kind.is_empty() { resource.name } else { kind }, "verbs": verbs,
            });
            if let Some((group, version)) = group_version.split_once('/') {
                super::value::put(&mut entry, &["group"], group);
                super::value::put(&mut entry, &["version"], version);
            }
            listed.push(entry);
        }
    }
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(group, version), "resources": listed})
}

fn names<'a>(resource: &'a Resource<'_>) -> (String, &'a [String], &'a [String]) {
    match resource.kind {
        Some((_, info)) => (info.singular.clone(), &info.short, &info.categories),
        None => (resource.name.to_lowercase(), &[], &[]),
    }
}

fn below(
    resource: &Resource<'_>,
    version: &str,
) -> Vec<(&'static str, &'static str, &'static str, &'static [&'static str])> {
    match resource.kind {
        Some((kind, info)) => subresources::names(kind, info, version),
        None => Vec::new(),
    }
}

fn aggregate(groups: &Served<'_>, core: bool) -> Value {
    let kind_of =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut listed = Vec::new();
    for (group, versions) in groups.iter().filter(|(name, _)| name.is_empty() == core) {
        let mut of_group = Vec::new();
        for (version, all) in versions {
            let mut of_version = Vec::new();
            for resource in all {
                let (singular, short, categories) = names(resource);
                let subs: Vec<_> = below(resource, version)
                    .into_iter()
                    .map(|(sub, group_version, kind, verbs)| {
                        let (of, at) = group_version.split_once('/').unwrap_or((group, version));
                        let kind = if kind.is_empty() { resource.name } else { kind };
                        json!({"subresource": sub, "responseKind": kind_of(of, at, kind), "verbs": verbs})
                    })
                    .collect();
                of_version.push(json!({
                    "resource": resource.plural, "responseKind": kind_of(group, version, resource.name),
                    "scope": if resource.namespaced() { "Namespaced" } else { "Cluster" },
                    "singularResource": singular, "verbs": resource.verbs, "shortNames": short,
                    "categories": categories, "subresources": subs,
                }));
            }
            of_group.push(json!({"version": version, "resources": of_version, "freshness": "Current"}));
        }
        listed.push(json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": of_group}));
    }
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": listed})
}

fn openapi_root(groups: &Served<'_>) -> Value {
    let mut paths = Map::new();
    for (group, versions) in groups {
        for version in versions.keys() {
            let path = if group.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{group}/{version}")
            };
            let url = format!("/openapi/v3/{path}?hash=sandbox");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// No schemas of built-in kinds: `kubectl` only needs to see that the server
/// validates fields itself. Custom kinds show theirs, for `kubectl explain`.
fn openapi(groups: &Served<'_>, group: &str, version: &str) -> Option<Value> {
    let all = groups.get(group)?.get(version)?;
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    let root = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    for resource in all {
        let gvk = json!({"group": group, "version": version, "kind": resource.name});
        let scope = if resource.namespaced() {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let parameter = json!({"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": true}});
        let operation =
            json!({"parameters": [parameter], "x-kubernetes-group-version-kind": gvk, "responses": {}});
        let path = format!("{root}{scope}/{}/{{name}}", resource.plural);
        paths.insert(
            path,
            json!({"get": operation, "put": operation, "patch": operation}),
        );
        let schema = resource
            .kind
            .and_then(|(_, info)| info.version(version)?.schema.clone());
        if let Some(mut schema) = schema {
            super::value::put(&mut schema, &["x-kubernetes-group-version-kind"], json!([gvk]));
            schemas.insert(format!("{group}.{version}.{}", resource.name), schema);
        }
    }
    let info = json!({"title": "Kubernetes", "version": VERSION.2});
    Some(json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}))
}
