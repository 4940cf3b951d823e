//! The schema of the chart `memgraph-ha` speaks of the same fields as the kind.

use crate::schemas::{chart, differences, kind};

#[cfg(test)]
mod schemas {
    use serde_json::Value;

    /// Their fields are Kubernetes' own, and the chart passes them on.
    const FOREIGN: [&str; 2] = ["/resources", "/gateway/resources"];

    fn properties(schema: &Value) -> Vec<(&String, &Value)> {
        let properties = schema.get("properties").and_then(Value::as_object);
        properties.into_iter().flatten().collect()
    }

    /// Where the two differ in names, types and choices.
    pub(crate) fn differences(at: &str, kind: &Value, chart: &Value) -> Vec<String> {
        let mut found = Vec::new();
        for (field, _) in properties(chart) {
            if kind["properties"].get(field).is_none() {
                found.push(format!("{at}/{field} is in the chart alone"));
            }
        }
        for (field, ours) in properties(kind) {
            let here = format!("{at}/{field}");
            let Some(theirs) = chart["properties"].get(field) else {
                found.push(format!(
                    "{here} is missing in charts/memgraph-ha/values.schema.json"
                ));
                continue;
            };
            for word in ["type", "enum"] {
                // A choice by reference has its type there.
                if theirs.get("$ref").is_none() && ours.get(word) != theirs.get(word) {
                    found.push(format!("{here}: the {word} differs"));
                }
            }
            if ours.get("properties").is_some() && !FOREIGN.contains(&here.as_str()) {
                if theirs["additionalProperties"] != false {
                    found.push(format!("{here}: an unknown name must be refused"));
                }
                found.extend(differences(&here, ours, theirs));
            }
        }
        found
    }

    pub(crate) fn chart() -> Value {
        let text = include_str!("../../../charts/memgraph-ha/values.schema.json");
        let schema: Value = serde_json::from_str(text).unwrap();
        schema["properties"]["spec"].clone()
    }

    pub(crate) fn kind() -> Value {
        let definition: Value = serde_json::from_str(&api::definition().unwrap()).unwrap();
        let spec = definition.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec");
        spec.unwrap().clone()
    }
}

#[test]
fn the_chart_knows_every_field_of_the_kind_and_no_other() {
    assert_eq!(differences("", &kind(), &chart()), Vec::<String>::new());
}

#[test]
fn a_field_that_only_one_of_them_has_is_found() {
    let mut less = chart();
    less["properties"]["failover"]["properties"]
        .as_object_mut()
        .unwrap()
        .remove("drain");
    let found = differences("", &kind(), &less);
    assert_eq!(
        found,
        ["/failover/drain is missing in charts/memgraph-ha/values.schema.json"]
    );
    let mut other = chart();
    other["properties"]["durability"]["enum"] = serde_json::json!(["Strict"]);
    assert_eq!(
        differences("", &kind(), &other),
        ["/durability: the enum differs"]
    );
}
