use super::*;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::rbac::v1::Role;

fn ring(spec: Value) -> RingCluster {
    let mut whole = json!({ "image": "scylladb/scylla:2025.2.0", "racks": [
        { "name": "a", "members": 2 }, { "name": "b", "members": 1, "zone": "z2" },
    ] });
    if let (Value::Object(whole), Value::Object(spec)) = (&mut whole, spec) {
        whole.extend(spec);
    }
    serde_json::from_value(json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "RingCluster",
        "metadata": { "name": "ring", "namespace": "db", "uid": "u" }, "spec": whole,
    }))
    .unwrap()
}

fn built(spec: Value) -> Vec<Owned> {
    running(spec, Running::Everybody)
}

fn running(spec: Value, running: Running) -> Vec<Owned> {
    let known = vec!["ring-a-2".parse().unwrap(), "ring-b-0".parse().unwrap()];
    objects(&ring(spec), &RingSettings::default(), &Pods { running, known })
}

fn named(all: &[Owned], kind: &str, name: &str) -> Value {
    let found = all
        .iter()
        .find(|o| o.kind == kind && o.object["metadata"]["name"] == name);
    found.unwrap().object.clone()
}

#[test]
fn a_set_per_rack_and_a_service_per_member() {
    let all = built(json!({}));
    let names = |kind: &str| -> Vec<String> {
        let found = all.iter().filter(|o| o.kind == kind);
        found
            .map(|o| o.object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names("StatefulSet"), ["ring-a", "ring-b"]);
    assert_eq!(names("Service"), ["ring", "ring-a-0", "ring-a-1", "ring-b-0"]);
    for owned in &all {
        assert_eq!(owned.object["metadata"]["labels"][RING_LABEL], "ring");
    }
    serde_json::from_value::<StatefulSet>(named(&all, "StatefulSet", "ring-b")).unwrap();
    let service: Service = serde_json::from_value(named(&all, "Service", "ring-a-0")).unwrap();
    assert_eq!(service.spec.unwrap().publish_not_ready_addresses, Some(true));
}

#[test]
fn nothing_starts_but_through_the_gate_and_the_gate_may_do_little() {
    let all = built(json!({ "flags": ["--smp=2", "--rack=$(RACK)"] }));
    let set = named(&all, "StatefulSet", "ring-a");
    let pod = set.pointer("/spec/template/spec").unwrap();
    let container = &pod["containers"][0];
    assert_eq!(container["command"], json!(["/opt/mainstay/mainstay"]));
    let args: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
    assert_eq!(args[..2], ["pod", "ring-gate"]);
    assert!(args.contains(&"--scylla=2025.2.0".to_owned()));
    assert!(args.contains(&"--rack=a".to_owned()));
    assert!(!args.iter().any(|a| a.contains("replace") || a.contains("seed")));
    assert_eq!(pod["serviceAccountName"], "ring-a-member");
    for rack in ["ring-a-member", "ring-b-member"] {
        let role: Role = serde_json::from_value(named(&all, "Role", rack)).unwrap();
        for rule in role.rules.unwrap() {
            let list = rule.verbs == ["list"];
            assert!(list || rule.resource_names.is_some(), "{rule:?}");
        }
    }
}

#[test]
fn a_gate_may_write_to_pods_of_its_rack_only_and_one_that_leaves_keeps_its_rights() {
    // `ring-a-2` is known and not declared any more.
    let all = built(json!({}));
    let patched = |name: &str| {
        let role: Role = serde_json::from_value(named(&all, "Role", name)).unwrap();
        let rules = role.rules.unwrap();
        let of = |resource: &str| {
            let found = rules
                .iter()
                .find(|r| r.resources == Some(vec![resource.to_owned()]));
            found.and_then(|r| r.resource_names.clone()).unwrap()
        };
        (of("pods"), of("persistentvolumeclaims"), of("configmaps"))
    };
    let (pods, claims, maps) = patched("ring-a-member");
    assert_eq!(pods, ["ring-a-0", "ring-a-1", "ring-a-2"]);
    assert_eq!(claims, ["data-ring-a-0", "data-ring-a-1", "data-ring-a-2"]);
    assert!(
        maps.contains(&"ring-ring".to_owned()) && maps.len() == 4,
        "{maps:?}"
    );
    assert_eq!(patched("ring-b-member").0, ["ring-b-0"]);
}

#[test]
fn a_rack_is_never_made_smaller_here_and_a_label_of_a_human_stays() {
    let found = |kind: &str, replicas: i64| -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": { "name": "x", "resourceVersion": "7", "labels": { "scylla/replace": "" } },
            "spec": { "replicas": replicas, "clusterIP": "10.0.0.1", "volumeClaimTemplates": ["as they are"] },
        }))
        .unwrap()
    };
    let set = |replicas: i64| json!({ "metadata": {}, "spec": { "replicas": replicas } });
    let kept = |wanted, is| carry_over("StatefulSet", set(wanted), &found("StatefulSet", is));
    assert_eq!(kept(2, 3)["spec"]["replicas"], 3);
    assert_eq!(kept(4, 3)["spec"]["replicas"], 4);
    assert_eq!(kept(0, 3)["spec"]["replicas"], 3, "they leave first");
    let mut asleep = set(0);
    asleep["metadata"]["labels"] = json!({ ASLEEP_LABEL: "true" });
    let asleep = carry_over("StatefulSet", asleep, &found("StatefulSet", 3));
    assert_eq!(asleep["spec"]["replicas"], 0);
    assert_eq!(kept(2, 3)["spec"]["volumeClaimTemplates"], json!(["as they are"]));
    let service = json!({ "metadata": { "labels": { "a": "b" } }, "spec": {} });
    let service = carry_over("Service", service, &found("Service", 0));
    assert_eq!(
        service["metadata"]["labels"],
        json!({ "a": "b", "scylla/replace": "" })
    );
    assert_eq!(service["spec"]["clusterIP"], "10.0.0.1");
}

#[test]
fn s84_the_pods_of_a_ring_that_sleeps_and_wakes_with_its_seeds_first() {
    let replicas = |which: Running, is: i64| -> Vec<i64> {
        let all = running(json!({}), which).into_iter();
        let sets = all.filter(|o| o.kind == "StatefulSet");
        let found = json!({ "metadata": {}, "spec": { "replicas": is } });
        let found: DynamicObject = serde_json::from_value(found).unwrap();
        sets.map(|o| carry_over("StatefulSet", o.object, &found))
            .map(|o| o["spec"]["replicas"].as_i64().unwrap())
            .collect()
    };
    assert_eq!(
        replicas(Running::AsTheyAre, 2),
        [2, 2],
        "nobody is stopped undrained"
    );
    assert_eq!(replicas(Running::Nobody, 2), [0, 0]);
    assert_eq!(replicas(Running::Seeds, 0), [1, 1]);
    // Who is not declared any more leaves the ring before its pod goes.
    assert_eq!(replicas(Running::Everybody, 1), [3, 1]);
}

#[test]
fn a_rack_keeps_to_its_zone() {
    let set = named(&built(json!({})), "StatefulSet", "ring-b");
    let selector = set.pointer("/spec/template/spec/nodeSelector").unwrap();
    assert_eq!(selector, &json!({ "topology.kubernetes.io/zone": "z2" }));
}

#[test]
fn cassandra_starts_through_the_same_gate_and_somebody_keeps_its_seeds() {
    let all = built(json!({
        "engine": "Cassandra", "image": "cassandra:5.0.9", "flags": ["-Xmx512m", "-Dx.rack=$(RACK)"],
    }));
    let set = named(&all, "StatefulSet", "ring-a");
    serde_json::from_value::<StatefulSet>(set.clone()).unwrap();
    let containers = &set["spec"]["template"]["spec"]["containers"];
    let container = &containers[0];
    assert_eq!(container["command"], json!(["/opt/mainstay/mainstay"]));
    let args: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
    assert!(
        args.ends_with(&["--", "/opt/cassandra/bin/cassandra", "-f", "-R"].map(str::to_owned)),
        "{args:?}"
    );
    assert!(
        !args.iter().any(|a| a.contains("replace") || a.contains("scylla")),
        "{args:?}"
    );
    let env: Vec<Value> = serde_json::from_value(container["env"].clone()).unwrap();
    let java = env.iter().find(|e| e["name"] == "JVM_EXTRA_OPTS").unwrap();
    assert_eq!(java["value"], "-Xmx512m -Dx.rack=a");
    assert_eq!(containers[1]["args"][1], "ring-seeds");
    let service = named(&all, "Service", "ring-a-0");
    assert_eq!(service["spec"]["ports"][2]["port"], 8778);
    assert_eq!(
        service["metadata"]["labels"]["app.kubernetes.io/name"],
        "cassandra"
    );
}

#[test]
fn pods_that_are_known_not_to_begin_as_root_meet_restricted() {
    let pod = |spec: Value| {
        let set = named(&built(spec), "StatefulSet", "ring-a");
        crate::security::forbidden(&set["spec"]["template"]["spec"])
    };
    let none = Vec::<String>::new();
    let cassandra = json!({ "engine": "Cassandra", "image": "cassandra:5.0.2" });
    assert_eq!(pod(cassandra), none);
    assert!(
        !pod(json!({})).is_empty(),
        "the official image of ScyllaDB begins as root"
    );
    let own = json!({ "runAs": { "user": 999, "group": 1000 } });
    assert_eq!(pod(own), none);
}
