//! Are the rights of the chart the ones that the operator uses? The API server wrote down what it asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::place::Place;

/// One verb on one kind: what a rule grants and a request needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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
        write!(f, "{verb} {resource}")?;
        if group.is_empty() {
            Ok(())
        } else {
            write!(f, ".{group}")
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

/// A line of the audit log, as far as it says who may what.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    verb: String,
    object_ref: Option<Object>,
    response_status: Option<Status>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    resource: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    api_group: String,
}

#[derive(Debug, Deserialize)]
struct Status {
    code: u16,
    #[serde(default)]
    message: String,
}

impl Status {
    /// By RBAC. Nobody may make anything in a namespace that is going away, whatever the chart grants.
    fn is_refused(&self) -> bool {
        self.code == 403 && !self.message.contains("because it is being terminated")
    }
}

const LATER: &str = "a later operator builds it differently and replaces it";

/// What no suite makes the operator ask for, and why it needs it all the same.
const OTHERWISE: &[(&str, &str)] = &[
    ("update services", LATER),
    ("update serviceaccounts", LATER),
    ("update poddisruptionbudgets.policy", LATER),
    ("update roles.rbac.authorization.k8s.io", LATER),
    ("update rolebindings.rbac.authorization.k8s.io", LATER),
    (
        "patch pods",
        "granted on to the gates of a ring, whose Role goes with the ring",
    ),
];

/// Every request was allowed, and after a run of all suites every verb of the chart was needed by one, or is granted on
/// by the operator, or is in the list above.
pub(crate) fn check(place: &Place<'_>, all: bool) -> Result<()> {
    let rules = place.file("charts/mainstay/files/rules.json")?;
    let rules: Vec<Rule> = serde_json::from_str(&rules).context("the rules cannot be read")?;
    let log = fs::read_to_string(place.audit()).context("there is no audit log")?;
    let (used, refused) = asked(&log)?;
    ensure!(
        refused.is_empty(),
        "the operator was refused what the chart does not grant: {}",
        listed(&refused)
    );
    if !all {
        println!(
            "{} rights used, none refused; which are needed only a whole run can tell",
            used.len()
        );
        return Ok(());
    }
    let granted_on = place.object(Place::DATABASES, "roles")?;
    let passed_on = passed_on(&granted_on)?;
    let unused: BTreeSet<Right> = granted(&rules)
        .into_iter()
        .filter(|right| !used.contains_key(right) && !passed_on.contains(right))
        .collect();
    for right in &unused {
        let why = OTHERWISE.iter().find(|(known, _)| *known == right.to_string());
        println!(
            "not used here: {right}: {}",
            why.map_or("NOBODY KNOWS WHY", |(_, why)| why)
        );
    }
    println!("{} rights used, {} not", used.len(), unused.len());
    let unexplained: BTreeSet<Right> = unused
        .into_iter()
        .filter(|right| OTHERWISE.iter().all(|(known, _)| *known != right.to_string()))
        .collect();
    ensure!(
        unexplained.is_empty(),
        "the chart grants what nobody needed: {}",
        listed(&unexplained)
    );
    Ok(())
}

fn listed(rights: &BTreeSet<Right>) -> String {
    rights
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Each verb of each rule by itself.
fn granted(rules: &[Rule]) -> BTreeSet<Right> {
    let mut all = BTreeSet::new();
    for Rule {
        api_groups,
        resources,
        verbs,
    } in rules
    {
        for group in api_groups {
            for resource in resources {
                all.extend(verbs.iter().map(|verb| Right {
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                }));
            }
        }
    }
    all
}

/// What the operator gave to others: nobody can grant what he has not.
fn passed_on(roles: &Value) -> Result<BTreeSet<Right>> {
    let mut all = BTreeSet::new();
    for role in roles["items"].as_array().into_iter().flatten() {
        let given: Vec<Rule> = serde_json::from_value(role["rules"].clone())?;
        all.extend(granted(&given));
    }
    Ok(all)
}

/// What was asked for and how often, and what was refused.
fn asked(audit: &str) -> Result<(BTreeMap<Right, u64>, BTreeSet<Right>)> {
    let (mut used, mut refused) = (BTreeMap::new(), BTreeSet::new());
    for line in audit.lines() {
        let event: Event =
            serde_json::from_str(line).with_context(|| format!("no line of an audit log: {line}"))?;
        // Versions and kinds: everybody may ask for those.
        let Some(object) = event.object_ref else {
            continue;
        };
        let resource = if object.subresource.is_empty() {
            object.resource
        } else {
            format!("{}/{}", object.resource, object.subresource)
        };
        let right = Right {
            group: object.api_group,
            resource,
            verb: event.verb,
        };
        if event.response_status.is_some_and(|status| status.is_refused()) {
            refused.insert(right);
        } else {
            *used.entry(right).or_default() += 1;
        }
    }
    Ok((used, refused))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_asked_for_is_told_from_what_was_refused() {
        let log = [
            json!({ "verb": "get", "objectRef": { "resource": "pods" }, "responseStatus": { "code": 200 } }),
            json!({ "verb": "get", "objectRef": { "resource": "pods" }, "responseStatus": { "code": 404 } }),
            json!({ "verb": "patch", "objectRef": { "resource": "memgraphclusters", "subresource": "status", "apiGroup": "mainstay.dev" } }),
            json!({ "verb": "get", "responseStatus": { "code": 200 } }),
            json!({ "verb": "list", "objectRef": { "resource": "secrets" }, "responseStatus": { "code": 403 } }),
            json!({ "verb": "create", "objectRef": { "resource": "events" }, "responseStatus": { "code": 403, "message":
                "events \"a\" is forbidden: unable to create new content in namespace db because it is being terminated" } }),
        ];
        let text: Vec<String> = log.iter().map(Value::to_string).collect();
        let (used, refused) = asked(&text.join("\n")).unwrap();
        let used: Vec<String> = used
            .iter()
            .map(|(right, times)| format!("{right} {times}"))
            .collect();
        assert_eq!(
            used,
            [
                "create events 1",
                "get pods 2",
                "patch memgraphclusters/status.mainstay.dev 1"
            ]
        );
        assert_eq!(listed(&refused), "list secrets");
        assert!(asked("no json").is_err());
    }

    #[test]
    fn every_right_that_is_explained_is_granted() {
        let rules = fs::read_to_string("../charts/mainstay/files/rules.json").unwrap();
        let rules: Vec<Rule> = serde_json::from_str(&rules).unwrap();
        let granted: Vec<String> = granted(&rules).iter().map(ToString::to_string).collect();
        for (right, _) in OTHERWISE {
            assert!(granted.iter().any(|one| one == right), "{right}");
        }
    }
}
