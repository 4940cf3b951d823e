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
