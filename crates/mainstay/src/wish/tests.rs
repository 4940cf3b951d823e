use super::*;

#[test]
fn what_was_set_aside_is_listed_in_lines() {
    let all = [QuarantineStatus {
        pod: "memgraph-ha-2".to_owned(),
        id: 17,
        bytes: 4096,
        kept: false,
    }];
    let listed = "POD                ID           BYTES\nmemgraph-ha-2      17            4096\n";
    assert_eq!(table(&all), listed);
    let kept = all.map(|one| QuarantineStatus { kept: true, ..one });
    assert!(table(&kept).ends_with("4096  kept: it may hold a write that a failover lost\n"));
    assert_eq!(table(&[]), "nothing was set aside\n");
}

#[test]
fn what_somebody_else_wants_to_be_deleted_is_not_forgotten_for_us() {
    let cluster = |asked: &str| -> MemgraphCluster {
        serde_json::from_value(json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
            "metadata": { "name": "memgraph-ha", "annotations": { PURGE: asked } },
            "spec": {},
            "status": { "quarantines": [{ "pod": "memgraph-ha-2", "id": 3, "bytes": 1 }] },
        }))
        .unwrap()
    };
    let other = other_purge(&cluster("2 3"), "2 5");
    assert_eq!(other.as_deref(), Some("request 3 on memgraph-ha-2"));
    assert_eq!(other_purge(&cluster("2 3"), "2 3"), None, "our own, cut off");
    assert_eq!(other_purge(&cluster("2 4"), "2 3"), None, "it is done");
    assert_eq!(other_purge(&cluster("everything"), "2 3"), None);
}

#[test]
fn a_dry_run_says_that_nothing_was_asked() {
    let told = |dry_run| {
        json!({
            "asked": "reset", "pod": "memgraph-ha-2", "cluster": "memgraph-ha",
            "annotation": RESET, "value": "2 ab", "dryRun": dry_run,
        })
    };
    let said = answer(&told(true), None).unwrap();
    assert!(
        said.starts_with("would ask for `reset` of memgraph-ha-2"),
        "{said}"
    );
    assert!(answer(&told(false), None).unwrap().starts_with("asked for"));
    let parsed: Value = serde_json::from_str(&answer(&told(true), Some(Output::Json)).unwrap()).unwrap();
    assert_eq!(parsed["dryRun"], true);
}
