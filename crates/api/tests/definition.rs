//! What is committed is what is built.

use std::path::Path;

#[test]
fn the_committed_definitions_are_those_that_are_built() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/mainstay/files");
    let mut differ = Vec::new();
    for (name, built) in api::definitions().unwrap() {
        let file = format!("{name}.json");
        let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&file);
        std::fs::write(&fresh, &built).unwrap();
        let found = std::fs::read_to_string(committed.join(&file)).unwrap_or_default();
        if found != built {
            differ.push(format!(
                "copy {} to charts/mainstay/files/{file}",
                fresh.display()
            ));
        }
    }
    assert!(differ.is_empty(), "definitions changed:\n{}", differ.join("\n"));
}

/// A real API server refuses the definition otherwise: it estimates what a rule costs from the largest input.
#[test]
fn every_list_that_a_rule_looks_through_has_a_bound() {
    fn walk(at: &str, schema: &serde_json::Value, endless: &mut Vec<String>) {
        let has_rules = schema.get("x-kubernetes-validations").is_some();
        if has_rules && schema["type"] == "array" {
            let texts = schema["items"]["type"] == "string" && schema["items"].get("maxLength").is_none();
            if schema.get("maxItems").is_none() || texts {
                endless.push(at.to_owned());
            }
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            walk(&format!("{at}/{name}"), property, endless);
        }
        walk_items(at, schema, endless);
    }
    fn walk_items(at: &str, schema: &serde_json::Value, endless: &mut Vec<String>) {
        if let Some(items) = schema.get("items") {
            // A rule of an element is paid for once for each of them.
            if items.get("x-kubernetes-validations").is_some() && schema.get("maxItems").is_none() {
                endless.push(at.to_owned());
            }
            walk(&format!("{at}/*"), items, endless);
        }
    }
    let mut endless = Vec::new();
    for (name, text) in api::definitions().unwrap() {
        let definition: serde_json::Value = serde_json::from_str(&text).unwrap();
        let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema");
        walk(&name, schema.unwrap(), &mut endless);
    }
    assert_eq!(endless, Vec::<String>::new());
}

/// Kubernetes says both, and the bounds of a Rust type beside the sentence of a rule are bad advice.
#[test]
fn the_bounds_that_a_rule_names_are_those_of_the_schema() {
    /// Of `self >= 2 && self <= 9`.
    fn bounds(rule: &str) -> Option<[Option<f64>; 2]> {
        let after = |sign: &str| {
            let number = rule.split(" && ").find_map(|part| part.strip_prefix(sign))?;
            number.parse().ok()
        };
        let named = [after("self >= "), after("self <= ")];
        named.iter().any(Option::is_some).then_some(named)
    }
    fn walk(at: &str, schema: &serde_json::Value, seen: &mut usize, wrong: &mut Vec<String>) {
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let named = rule["rule"].as_str().and_then(bounds);
            let Some([least, most]) = named.filter(|_| schema["type"] == "integer") else {
                continue;
            };
            *seen += 1;
            let (minimum, maximum) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
            if minimum != least || most.is_some_and(|most| maximum != Some(most)) {
                wrong.push(format!("{at}: {minimum:?} to {maximum:?}, and {}", rule["rule"]));
            }
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            walk(&format!("{at}/{name}"), property, seen, wrong);
        }
        if let Some(items) = schema.get("items") {
            walk(&format!("{at}/*"), items, seen, wrong);
        }
    }
    let (mut seen, mut wrong) = (0, Vec::new());
    for (name, text) in api::definitions().unwrap() {
        let definition: serde_json::Value = serde_json::from_str(&text).unwrap();
        let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema");
        walk(&name, schema.unwrap(), &mut seen, &mut wrong);
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(seen >= 15, "only {seen} were looked at");
}
