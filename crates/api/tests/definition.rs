//! What is committed is what is built.

#[test]
fn the_committed_definition_is_the_one_that_is_built() {
    let committed = include_str!("../../../charts/mainstay/files/memgraphclusters.mainstay.dev.json");
    let built = api::definition().unwrap();
    let fresh = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("memgraphclusters.mainstay.dev.json");
    std::fs::write(&fresh, &built).unwrap();
    assert!(
        committed == built,
        "the definition changed: mainstay crd > charts/mainstay/files/memgraphclusters.mainstay.dev.json (or copy {})",
        fresh.display()
    );
}

#[test]
fn the_committed_definition_of_a_ring_is_the_one_that_is_built() {
    let committed = include_str!("../../../charts/mainstay/files/ringclusters.mainstay.dev.json");
    let built = api::ring_definition().unwrap();
    let fresh = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("ringclusters.mainstay.dev.json");
    std::fs::write(&fresh, &built).unwrap();
    assert!(
        committed == built,
        "the definition changed: copy {} to charts/mainstay/files",
        fresh.display()
    );
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
    }
    let mut endless = Vec::new();
    for text in [api::definition().unwrap(), api::ring_definition().unwrap()] {
        let definition: serde_json::Value = serde_json::from_str(&text).unwrap();
        let schema = definition
            .pointer("/spec/versions/0/schema/openAPIV3Schema")
            .unwrap();
        walk("", schema, &mut endless);
    }
    assert_eq!(endless, Vec::<String>::new());
}
