use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::node::env::{Facts, Surroundings, launch, variables};
use crate::node::images::Program;
use crate::node::paths::Paths;
use crate::node::volumes::{Asked, Content, place};

fn facts() -> Facts {
    Facts {
        host: [127, 1, 0, 1].into(),
        pod: [127, 1, 0, 2].into(),
    }
}

fn source(kind: &str, name: &str) -> Option<Value> {
    match (kind, name) {
        ("ConfigMap", "words") => Some(
            json!({ "kind": "ConfigMap", "data": { "a": "1", "b": "2" }, "binaryData": { "c": "AAE=" } }),
        ),
        ("Secret", "keys") => Some(json!({ "kind": "Secret", "data": { "k": "c2VjcmV0" } })),
        _ => None,
    }
}

fn pod() -> Value {
    json!({
        "metadata": { "name": "db-0", "namespace": "ns", "uid": "u", "labels": { "app/role": "x" } },
        "spec": { "nodeName": "n1", "serviceAccountName": "sa" },
    })
}

#[test]
fn variables_come_from_everywhere_and_in_order() {
    let container = json!({
        "envFrom": [
            { "prefix": "W_", "configMapRef": { "name": "words" } },
            { "secretRef": { "name": "nowhere", "optional": true } },
        ],
        "env": [
            { "name": "NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
            { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
            { "name": "ROLE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels['app/role']" } } },
            { "name": "KEY", "valueFrom": { "secretKeyRef": { "name": "keys", "key": "k" } } },
            { "name": "NONE", "valueFrom": { "configMapKeyRef": { "name": "words", "key": "z", "optional": true } } },
            { "name": "ALL", "value": "$(NAME)/$(KEY)/$(LATER)" },
            { "name": "LATER", "value": "x" },
        ],
    });
    let variables = variables(&pod(), &container, facts(), &source).unwrap();
    let expected = [
        ("ALL", "db-0/secret/$(LATER)"),
        ("IP", "127.1.0.2"),
        ("KEY", "secret"),
        ("LATER", "x"),
        ("NAME", "db-0"),
        ("ROLE", "x"),
        ("W_a", "1"),
        ("W_b", "2"),
        ("W_c", "\0\u{1}"),
    ];
    assert_eq!(
        variables,
        expected
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    );
}

#[test]
fn a_variable_without_its_source_is_an_error_that_names_it() {
    for (env, expected) in [
        (
            json!({ "secretKeyRef": { "name": "keys", "key": "z" } }),
            "couldn't find key z in Secret keys",
        ),
        (
            json!({ "fieldRef": { "fieldPath": "status.phase" } }),
            "field \"status.phase\" is not supported here",
        ),
    ] {
        let container = json!({ "env": [{ "name": "X", "valueFrom": env }] });
        assert_eq!(
            variables(&pod(), &container, facts(), &source),
            Err(expected.to_owned())
        );
    }
}

#[test]
fn a_command_that_is_not_on_this_machine_is_the_program_of_its_image() {
    let around = Surroundings {
        paths: Paths::new(
            [("/data".to_owned(), PathBuf::from("/x"))],
            [127, 1, 128, 2].into(),
        ),
        folder: "/".into(),
        base: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
    };
    let program = || Program {
        path: "/opt/stand-in".into(),
        args: vec!["memgraph".to_owned()],
        env: BTreeMap::new(),
    };
    let started = |container: Value| {
        let launch = launch(
            &container,
            program(),
            &BTreeMap::from([("N".to_owned(), "7".to_owned())]),
            &around,
        );
        [vec![launch.program.display().to_string()], launch.args].concat()
    };
    assert_eq!(
        started(json!({ "args": ["--dir=/data", "$(N)"] })),
        ["/opt/stand-in", "memgraph", "--dir=/x", "7"]
    );
    assert_eq!(
        started(json!({ "command": ["/usr/lib/memgraph/memgraph", "-x"], "args": ["--a=0.0.0.0"] })),
        ["/opt/stand-in", "memgraph", "-x", "--a=127.1.128.2"]
    );
    assert_eq!(
        started(json!({ "command": ["sh", "-c", "ls /data"] }))[1..],
        ["-c", "ls /x"]
    );
    assert_eq!(started(json!({ "command": ["/bin/sh"] })), ["/bin/sh"]);
}

#[test]
fn a_program_has_its_own_variables_and_those_of_the_pod_win() {
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        let owned = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect()
    };
    let around = Surroundings {
        paths: Paths::new([], [127, 1, 128, 2].into()),
        folder: "/".into(),
        base: map(&[("HOME", "/root"), ("PATH", "/bin")]),
    };
    let program = Program {
        path: "/opt/memgraph".into(),
        args: vec![],
        env: map(&[("LD_LIBRARY_PATH", "/opt/lib"), ("N", "1"), ("PATH", "/opt/bin")]),
    };
    let launch = launch(&json!({}), program, &map(&[("N", "7")]), &around);
    assert_eq!(
        launch.env,
        map(&[
            ("HOME", "/root"),
            ("LD_LIBRARY_PATH", "/opt/lib"),
            ("N", "7"),
            ("PATH", "/opt/bin")
        ])
    );
}

fn content(volume: &Value) -> Result<Content, String> {
    let pod = pod();
    let claim = |name: &str| (name == "bound").then(|| PathBuf::from("/volumes/x"));
    Asked {
        pod: &pod,
        facts: facts(),
        sources: &source,
        claim: &claim,
        token: "T",
    }
    .content(volume)
}

#[test]
fn a_volume_is_a_folder_or_exactly_its_files() {
    let files = |list: &[(&str, &[u8])]| {
        Ok(Content::Files(
            list.iter()
                .map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()))
                .collect(),
        ))
    };
    for (volume, expected) in [
        (json!({ "emptyDir": {} }), Ok(Content::Empty)),
        (
            json!({ "persistentVolumeClaim": { "claimName": "bound" } }),
            Ok(Content::Elsewhere("/volumes/x".into())),
        ),
        (
            json!({ "persistentVolumeClaim": { "claimName": "other" } }),
            Err("claim \"other\" is not bound".to_owned()),
        ),
        (
            json!({ "configMap": { "name": "words", "items": [{ "key": "a", "path": "d/e" }] } }),
            files(&[("d/e", b"1")]),
        ),
        (
            json!({ "secret": { "secretName": "keys" } }),
            files(&[("k", b"secret")]),
        ),
        (
            json!({ "secret": { "secretName": "none", "optional": true } }),
            files(&[]),
        ),
        (
            json!({ "configMap": { "name": "none" } }),
            Err("configmap \"none\" not found".to_owned()),
        ),
        (
            json!({ "configMap": { "name": "words", "items": [{ "key": "z", "path": "z" }] } }),
            Err("ConfigMap \"words\" has no key \"z\"".to_owned()),
        ),
        (
            json!({ "projected": { "sources": [
                { "serviceAccountToken": { "path": "token" } },
                { "secret": { "name": "keys" } },
                { "downwardAPI": { "items": [{ "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }] } },
            ] } }),
            files(&[("k", b"secret"), ("name", b"db-0"), ("token", b"T")]),
        ),
        (
            json!({ "name": "v", "nfs": {} }),
            Err("volume \"v\" is of a kind that is not supported here".to_owned()),
        ),
    ] {
        assert_eq!(content(&volume), expected, "{volume}");
    }
}

#[test]
fn files_follow_their_source_and_stay_inside() {
    let folder = std::env::temp_dir().join(format!("mainstay-files-{}", std::process::id()));
    let files = |list: &[(&str, &str)]| {
        Content::Files(
            list.iter()
                .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()))
                .collect(),
        )
    };
    let escape = "../mainstay-escaped";
    place(folder.clone(), &files(&[("a", "1"), ("d/b", "2"), (escape, "x")])).unwrap();
    place(folder.clone(), &files(&[("a", "3")])).unwrap();
    assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "3");
    assert!(!folder.join("d/b").exists());
    assert!(!folder.join(escape).exists());
    std::fs::remove_dir_all(folder).unwrap();
}
