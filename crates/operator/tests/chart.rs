//! The chart grants what the operator says it needs, and runs it as the sandbox does.

use operator::install::{HTTP_PORT, LEASE, NAME};
use operator::security::OWN_USER;

#[test]
fn the_committed_rules_of_the_chart_are_those_that_the_operator_needs() {
    let committed = include_str!("../../../charts/mainstay/files/rules.json");
    let built = serde_json::to_string_pretty(&operator::rights::all()).unwrap() + "\n";
    let fresh = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("rules.json");
    std::fs::write(&fresh, &built).unwrap();
    assert!(
        committed == built,
        "the rules changed: copy {} to charts/mainstay/files/rules.json",
        fresh.display()
    );
}

#[test]
fn the_chart_uses_the_names_and_numbers_of_the_code() {
    let helpers = include_str!("../../../charts/mainstay/templates/_helpers.tpl");
    let deployment = include_str!("../../../charts/mainstay/templates/deployment.yaml");
    assert_eq!(NAME, LEASE, "the chart has one name for both");
    assert!(helpers.contains(&format!("\n{NAME}\n")));
    for expected in [
        format!("runAsUser: {OWN_USER}"),
        format!("runAsGroup: {OWN_USER}"),
        format!("containerPort: {HTTP_PORT}"),
        format!("--http=0.0.0.0:{HTTP_PORT}"),
    ] {
        assert!(deployment.contains(&expected), "{expected}");
    }
}

#[test]
fn whoever_may_view_or_edit_a_namespace_may_do_so_with_every_kind() {
    let rbac = include_str!("../../../charts/mainstay/templates/rbac.yaml");
    let (_, roles) = rbac.split_once("name: mainstay-view").expect("the role");
    let resources: Vec<&str> = roles
        .lines()
        .filter(|line| line.contains("resources: ["))
        .collect();
    assert_eq!(resources.len(), 2, "view and edit: {resources:?}");
    for kind in api::kinds() {
        let plural = kind.spec.names.plural;
        assert!(
            resources.iter().all(|line| line.contains(&plural)),
            "{plural}: {resources:?}"
        );
    }
}
