//! Who reaches whom, and what a cut looks like from both ends.

use anyhow::{Context, Result};
use sandbox::node::{Direction, Fault, Party};
use serde_json::{Value, json};

use crate::bed::{Bed, eventually, party, pod};

fn helper(name: &str, program: &str, env: &[(&str, &str)]) -> Value {
    let env: Vec<Value> = env
        .iter()
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": name } },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": "helper", "args": [format!("helper::{program}")], "env": env,
            }],
        },
    })
}

fn server(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": name } },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "hostname": name, "subdomain": name,
            "containers": [{
                "name": "main", "image": "helper", "args": ["helper::serve"],
                "env": [{ "name": "LISTEN", "value": "0.0.0.0:7687" }],
                "readinessProbe": { "tcpSocket": { "port": 7687 }, "periodSeconds": 1 },
            }],
        },
    })
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": "default" },
        "spec": { "clusterIP": "None", "selector": { "app": name }, "ports": [{ "port": 7687 }] },
    })
}

async fn servers() -> Result<Bed> {
    let bed = Bed::new()?;
    for name in ["a", "b"] {
        bed.create(service(name)).await?;
        bed.create(server(name)).await?;
    }
    for name in ["a", "b"] {
        bed.until_ready(name).await?;
    }
    eventually("names", || {
        let hosts = std::fs::read_to_string(bed.nodes.hosts_file("default")).unwrap_or_default();
        ["a.a", "b.b"]
            .iter()
            .all(|name| !sandbox::node::lookup(&hosts, name).is_empty())
    })
    .await?;
    Ok(bed)
}

/// What a connection from a pod to an address comes to.
async fn ask(bed: &Bed, from: &str, to: &str) -> Result<String> {
    let program = std::env::current_exe()?.display().to_string();
    let (output, _, _) = bed
        .exec(
            from,
            &[&program, "--ignored", "--exact", "--nocapture", "helper::ask", to],
            "",
        )
        .await?;
    let result = output
        .lines()
        .find_map(|line| line.split_once("result: "))
        .context("a result")?
        .1;
    Ok(result.to_owned())
}

async fn until_answer(bed: &Bed, from: &str, to: &str, expected: &str) -> Result<()> {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
    loop {
        let answer = ask(bed, from, to).await?;
        if answer == expected {
            return Ok(());
        }
        anyhow::ensure!(
            tokio::time::Instant::now() < deadline,
            "{from} to {to}: {answer}, not {expected}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_have_the_same_port_and_reach_each_other_by_name() -> Result<()> {
    let bed = servers().await?;
    until_answer(&bed, "a", "b.b.default.svc.cluster.local:7687", "tick 0").await?;
    until_answer(&bed, "b", "a.a:7687", "tick 0").await?;
    // The server sees who it is, although a loopback address was connected to.
    let a = bed.pod("a").await?["status"]["podIP"]
        .as_str()
        .context("an address")?
        .to_owned();
    assert!(
        bed.log("b", false).await?.contains(&format!("accepted {a}\n")),
        "{}",
        bed.log("b", false).await?
    );
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_listens_a_connection_is_refused() -> Result<()> {
    let bed = Bed::with(|config| config.back_off.first = jiff::SignedDuration::from_secs(300))?;
    bed.create(server("a")).await?;
    bed.create(server("b")).await?;
    bed.until_ready("a").await?;
    let b = bed.until_ready("b").await?["status"]["podIP"]
        .as_str()
        .context("an address")?
        .to_owned();
    until_answer(&bed, "a", &format!("{b}:7687"), "tick 0").await?;
    assert_eq!(ask(&bed, "a", &format!("{b}:7688")).await?, "ConnectionRefused");
    for restarts in 1..=2 {
        bed.nodes.kill(&party("b"), None)?;
        bed.until("b", "restarted or waiting", |pod| {
            let status = &pod["status"]["containerStatuses"][0];
            status["restartCount"] == restarts || status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        })
        .await?;
    }
    assert_eq!(ask(&bed, "a", &format!("{b}:7687")).await?, "ConnectionRefused");
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_is_silence_for_the_two_that_it_is_between_and_for_nobody_else() -> Result<()> {
    let bed = servers().await?;
    bed.create(server("c")).await?;
    bed.until_ready("c").await?;
    until_answer(&bed, "a", "b.b:7687", "tick 0").await?;
    bed.nodes.cut(&party("a"), &party("b"), Direction::Both);
    assert_eq!(ask(&bed, "a", "b.b:7687").await?, "silence");
    assert_eq!(ask(&bed, "b", "a.a:7687").await?, "silence");
    assert_eq!(ask(&bed, "c", "b.b:7687").await?, "tick 0");
    assert_eq!(ask(&bed, "c", "a.a:7687").await?, "tick 0");
    bed.nodes.heal(&party("a"), &party("b"), Direction::Both);
    assert_eq!(ask(&bed, "a", "b.b:7687").await?, "tick 0");
    let faults: Vec<Fault> = bed
        .nodes
        .happened()
        .into_iter()
        .map(|happened| happened.fault)
        .collect();
    let (a, b) = (party("a"), party("b"));
    assert_eq!(
        faults,
        [
            Fault::Cut(a.clone(), b.clone()),
            Fault::Cut(b.clone(), a.clone()),
            Fault::Heal(a.clone(), b.clone()),
            Fault::Heal(b, a),
        ]
    );
    bed.end().await
}

/// How many lines of a pod's log contain a word, and whether more come.
async fn grows(bed: &Bed, name: &str, word: &str) -> Result<bool> {
    let count = async || Ok::<_, anyhow::Error>(bed.log(name, false).await?.matches(word).count());
    // What is on its way when a cut begins still arrives.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let before = count().await?;
    for _ in 0..15 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        if count().await? > before {
            return Ok(true);
        }
    }
    Ok(false)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_in_one_direction_leaves_the_other_and_the_connection_survives_it() -> Result<()> {
    let bed = servers().await?;
    bed.create(helper("talker", "chat", &[("TARGET", "b.b:7687")]))
        .await?;
    let (talker, b) = (party("talker"), party("b"));
    bed.until_ready("talker").await?;
    assert!(grows(&bed, "b", "heard line").await? && grows(&bed, "talker", "got tick").await?);
    bed.nodes.cut(&talker, &b, Direction::OneWay);
    assert!(!grows(&bed, "b", "heard line").await?, "cut");
    assert!(grows(&bed, "talker", "got tick").await?, "the other way is open");
    bed.nodes.heal(&talker, &b, Direction::OneWay);
    bed.nodes.cut(&b, &talker, Direction::OneWay);
    assert!(
        grows(&bed, "b", "heard line").await?,
        "healed, in the same connection"
    );
    assert!(!grows(&bed, "talker", "got tick").await?, "cut");
    bed.nodes.heal(&b, &talker, Direction::OneWay);
    assert!(grows(&bed, "talker", "got tick").await?);
    // Nothing was lost in between, and nothing came twice.
    let heard = bed.log("b", false).await?;
    let numbers: Vec<u32> = heard
        .lines()
        .filter_map(|line| line.strip_prefix("heard line ")?.parse().ok())
        .collect();
    assert_eq!(numbers, (0..u32::try_from(numbers.len())?).collect::<Vec<_>>());
    let address = bed.pod("talker").await?["status"]["podIP"]
        .as_str()
        .context("an address")?
        .to_owned();
    assert_eq!(heard.matches(&format!("accepted {address}\n")).count(), 1);
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_process_is_silent_and_goes_on_later() -> Result<()> {
    let bed = servers().await?;
    until_answer(&bed, "a", "b.b:7687", "tick 0").await?;
    bed.nodes.stop_processes(&party("b"), None)?;
    assert_eq!(ask(&bed, "a", "b.b:7687").await?, "silence");
    bed.nodes.continue_processes(&party("b"), None)?;
    until_answer(&bed, "a", "b.b:7687", "tick 0").await?;
    assert_eq!(
        bed.pod("b").await?["status"]["containerStatuses"][0]["restartCount"],
        0
    );
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_uses_the_api_with_its_own_token_and_can_be_cut_off_from_it() -> Result<()> {
    let bed = Bed::listening().await?;
    bed.create(pod("user", "while :; do sleep 1; done")).await?;
    bed.until_ready("user").await?;
    let program = std::env::current_exe()?.display().to_string();
    let list = async || {
        let words = [
            program.as_str(),
            "--ignored",
            "--exact",
            "--nocapture",
            "helper::list_pods",
        ];
        let (output, _, _) = bed.exec("user", &words, "").await?;
        let result = output
            .lines()
            .find_map(|line| line.split_once("result: "))
            .context("a result")?
            .1;
        Ok::<_, anyhow::Error>(result.to_owned())
    };
    let refusal = list().await?;
    assert!(
        refusal.contains("system:serviceaccount:default:default"),
        "known, but not allowed: {refusal}"
    );
    for object in [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": { "name": "reader", "namespace": "default" },
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["list"] }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": "reader", "namespace": "default" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" },
            "subjects": [{ "kind": "ServiceAccount", "name": "default", "namespace": "default" }],
        }),
    ] {
        bed.create(object).await?;
    }
    assert_eq!(list().await?, "1 pods");
    bed.nodes.cut(&Party::Api, &party("user"), Direction::OneWay);
    assert_eq!(list().await?, "silence");
    bed.nodes.heal(&Party::Api, &party("user"), Direction::OneWay);
    assert_eq!(list().await?, "1 pods");
    bed.end().await
}
