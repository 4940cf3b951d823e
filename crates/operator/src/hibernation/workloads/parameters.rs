//! What a target of workloads selects.

use super::kinds::Workload;
use crate::hibernation::executor::permanent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::{Selector, SelectorExt};
use mainstay_core::hibernation::observed::Refusal;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Written {
    included_groups: Vec<String>,
    workload_selector: Option<LabelSelector>,
    names: Vec<String>,
    namespace: Option<Namespaces>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Namespaces {
    literals: Vec<String>,
}

/// What is selected, in a form that cannot be wrong.
#[derive(Debug)]
pub(super) struct Parameters {
    kinds: Vec<Workload>,
    selector: Selector,
    names: Vec<String>,
}

impl Parameters {
    pub(super) fn parse(value: &Value, namespace: &str) -> Result<Self, Refusal> {
        let written = if value.is_null() {
            Written::default()
        } else {
            let read = serde_json::from_value(value.clone());
            read.map_err(|error| permanent(format!("parameters of workloads: {error}")))?
        };
        let Written {
            included_groups,
            workload_selector,
            names,
            namespace: elsewhere,
        } = written;
        if let Some(other) = elsewhere
            .unwrap_or_default()
            .literals
            .iter()
            .find(|n| *n != namespace)
        {
            // Whoever may write a plan here may not thereby stop things there.
            return Err(permanent(format!(
                "a plan reaches its own namespace only: write a plan in `{other}`"
            )));
        }
        let kinds = included_groups.iter().map(|text| {
            Workload::parse(text).ok_or_else(|| {
                permanent(format!(
                    "`{text}` is no kind of workload: write Deployment, StatefulSet, ReplicaSet, CronJob, or group/version/resource of something with a scale"
                ))
            })
        });
        let kinds = kinds.collect::<Result<Vec<_>, _>>()?;
        let selector = match workload_selector {
            None => Selector::default(),
            Some(selector) => Selector::try_from(selector)
                .map_err(|error| permanent(format!("workloadSelector: {error}")))?,
        };
        Ok(Self {
            kinds: if kinds.is_empty() {
                Workload::usual()
            } else {
                kinds
            },
            selector,
            names,
        })
    }

    pub(super) fn kinds(&self) -> &[Workload] {
        &self.kinds
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// `Deployment, StatefulSet or CronJob`.
    pub(super) fn kinds_in_words(&self) -> String {
        let names: Vec<String> = self.kinds.iter().map(ToString::to_string).collect();
        match names.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }

    pub(super) fn selects(&self, kind: &Workload, object: &DynamicObject) -> bool {
        // A ReplicaSet of a Deployment is not somebody's workload, it is how the Deployment works.
        let inner = matches!(kind, Workload::Replicas("ReplicaSet", _))
            && object
                .owner_references()
                .iter()
                .any(|o| o.controller == Some(true));
        let named = self.names.is_empty() || self.names.contains(&object.name_any());
        named && !inner && self.selector.matches(object.labels())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(value: &Value) -> String {
        Parameters::parse(value, "staging").unwrap_err().message
    }

    #[test]
    fn what_is_not_understood_is_refused_for_good() {
        assert!(refused(&json!({ "selector": {} })).contains("unknown field"));
        assert!(refused(&json!({ "includedGroups": ["DaemonSet"] })).contains("DaemonSet"));
        assert!(refused(&json!({ "namespace": { "literals": ["production"] } })).contains("own namespace"));
        let bad = json!({ "workloadSelector": { "matchExpressions": [{ "key": "a", "operator": "Like" }] } });
        assert!(refused(&bad).contains("workloadSelector"));
    }

    #[test]
    fn labels_and_names_select() {
        let object = |name: &str, tier: &str| -> DynamicObject {
            serde_json::from_value(json!({ "metadata": { "name": name, "labels": { "tier": tier } } }))
                .unwrap()
        };
        let web = json!({ "workloadSelector": { "matchExpressions": [{ "key": "tier", "operator": "NotIn", "values": ["db"] }] } });
        let parsed = Parameters::parse(&web, "staging").unwrap();
        let kind = &Workload::usual()[0];
        assert!(parsed.selects(kind, &object("a", "web")));
        assert!(!parsed.selects(kind, &object("a", "db")));
        let named = Parameters::parse(&json!({ "names": ["a"] }), "staging").unwrap();
        assert!(named.selects(kind, &object("a", "db")));
        assert!(!named.selects(kind, &object("b", "db")));
        let usual = Parameters::parse(&Value::Null, "staging").unwrap();
        assert_eq!(usual.kinds_in_words(), "Deployment, StatefulSet or CronJob");
        let one = Parameters::parse(&json!({ "includedGroups": ["a.io/v1/things"] }), "staging").unwrap();
        assert_eq!(one.kinds_in_words(), "a.io/v1/things");
    }
}
