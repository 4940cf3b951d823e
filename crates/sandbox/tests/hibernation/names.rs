//! Plans at the edge of what can be written: the longest name of a target, and dependencies that go round in a circle.

use crate::bed::{Bed, DEPLOYMENTS, MINUTE, PLAN, PLANS, STATEFUL_SETS, nightly, target};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use operator::hibernation::Executors;
use operator::tap::Tap;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

type Annotations = BTreeMap<String, String>;

/// The annotations of the restore points whenever a mark was written on them, as the API has them.
fn marks(bed: &Bed) -> (Tap, UnboundedReceiver<Result<Annotations>>) {
    let (sender, seen) = unbounded_channel();
    let client = bed.client.clone();
    let tap = Tap::new(move |place| {
        let marked = place.starts_with("after") && place.ends_with("(MarkRestored)");
        let (sender, client) = (sender.clone(), client.clone());
        Box::pin(async move {
            if marked {
                let maps: Api<ConfigMap> = Api::default_namespaced(client);
                let read = maps.get(&format!("hibernator-restore-{PLAN}")).await;
                let read = read.map(|map| map.metadata.annotations.unwrap_or_default());
                let _ = sender.send(read.map_err(Into::into));
            }
        })
    });
    (tap, seen)
}

fn all(mut seen: UnboundedReceiver<Result<Annotations>>) -> Result<Vec<Annotations>> {
    std::iter::from_fn(|| seen.try_recv().ok()).collect()
}

/// While it wakes, `kubectl` shows which targets are back; when all are, nothing is marked any more.
#[tokio::test(start_paused = true)]
async fn a_mark_is_there_for_people_from_the_target_that_is_back_until_all_are() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.workload(STATEFUL_SETS, "db", 2).await?;
    let one = |name: &str| target(name, json!({ "names": [name] }));
    bed.plan(json!([one("web"), one("db")])).await?;
    let (tap, seen) = marks(&bed);
    let operator = bed.operator_with(tap, Executors::in_cluster());
    bed.at(2).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    let mark = |name: &str| format!("hibernator.ardikabs.com/restored-{name}");
    let marked = async || -> Result<Vec<String>> {
        let map = bed.restore_map().await?;
        let notes = map.metadata.annotations.unwrap_or_default();
        Ok(notes
            .into_keys()
            .filter(|key| key.contains("/restored-"))
            .collect())
    };
    ensure!(marked().await?.is_empty(), "asleep, and {:?}", marked().await?);
    // `db` wakes first; `web` does not become usable, so that people have the time to look.
    let stuck = |yes: Value| json!({ "metadata": { "annotations": { "stuck": yes } } });
    bed.patch(DEPLOYMENTS, "web", stuck(json!("yes"))).await?;
    bed.at(4).await;
    ensure!(bed.phase().await? == "WakingUp", "{}", bed.phase().await?);
    ensure!(marked().await?.contains(&mark("db")), "{:?}", marked().await?);
    let map = bed.restore_map().await?;
    let value = map.metadata.annotations.unwrap_or_default();
    let value = value.get(&mark("db")).cloned().unwrap_or_default();
    let data = map.data.unwrap_or_default();
    ensure!(
        data["workloads_db.json"].contains("\"consumed\":true"),
        "{data:?}"
    );
    ensure!(!value.is_empty(), "a mark says of which cycle it is");
    bed.patch(DEPLOYMENTS, "web", stuck(Value::Null)).await?;
    bed.later(MINUTE * 2).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    ensure!(marked().await?.is_empty(), "all are back: {:?}", marked().await?);
    // The first mark was written while the other target was not back yet.
    let seen = all(seen)?;
    let first = seen.first().context("nothing was marked")?;
    ensure!(
        first.contains_key(&mark("db")) && !first.contains_key(&mark("web")),
        "{seen:?}"
    );
    operator.kill().await;
    bed.end().await;
    Ok(())
}

/// May this be the key of a ConfigMap's data? As the API of Kubernetes has it.
fn is_data_key(key: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=253).contains(&key.len()) && key.chars().all(inner) && key != "." && key != ".."
}

/// May this be the name of an annotation? The part after the slash has 63 characters and a letter or digit at both ends.
fn is_annotation(key: &str) -> bool {
    let Some((domain, name)) = key.split_once('/') else {
        return false;
    };
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let ends = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    domain == "hibernator.ardikabs.com" && (1..=63).contains(&name.len()) && name.chars().all(inner) && ends
}

#[tokio::test(start_paused = true)]
async fn s49_a_target_with_the_longest_name_and_dots_falls_asleep_and_wakes() -> Result<()> {
    // Alike for as long as a mark has room for them: only the hash tells them apart.
    let long = |last: &str| {
        format!(
            "eu-central-1.{}.{last}",
            "a.very-long_Name".repeat(4).chars().take(48).collect::<String>()
        )
    };
    let (one, other) = (long("x"), long("y"));
    ensure!(one.len() == 63 && other.len() == 63, "{}", one.len());
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.workload(DEPLOYMENTS, "api", 2).await?;
    bed.plan(json!([
        target(&one, json!({ "names": ["web"] })),
        target(&other, json!({ "names": ["api"] })),
    ]))
    .await?;
    let (tap, seen) = marks(&bed);
    let operator = bed.operator_with(tap, Executors::in_cluster());
    bed.at(2).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0);
    ensure!(bed.replicas(DEPLOYMENTS, "api").await? == 0);
    let data = bed.restore_map().await?.data.unwrap_or_default();
    let keys: Vec<&String> = data.keys().collect();
    ensure!(
        keys == [
            &format!("workloads_{one}.json"),
            &format!("workloads_{other}.json")
        ],
        "{keys:?}"
    );
    ensure!(keys.iter().all(|key| is_data_key(key)), "{keys:?}");
    bed.at(4).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    ensure!(bed.replicas(DEPLOYMENTS, "api").await? == 2);
    let seen = all(seen)?;
    let last = seen.last().context("nothing was marked")?;
    let marks: Vec<&String> = last.keys().filter(|key| key.contains("/restored-")).collect();
    ensure!(marks.len() == 2, "each has a mark of its own: {marks:?}");
    ensure!(marks.iter().all(|mark| is_annotation(mark)), "{marks:?}");
    let notes = bed.restore_map().await?.metadata.annotations.unwrap_or_default();
    ensure!(!notes.keys().any(|key| key.contains("/restored-")), "{notes:?}");
    operator.kill().await;
    bed.end().await;
    Ok(())
}

/// What is admitted by the API and makes no sense all the same: no schema sees a circle.
#[tokio::test(start_paused = true)]
async fn a_circle_of_dependencies_touches_nothing_and_says_which_edge_to_remove() -> Result<()> {
    let bed = Bed::new().await?;
    for name in ["a", "b", "c"] {
        bed.workload(DEPLOYMENTS, name, 1).await?;
    }
    let one = |name: &str| target(name, json!({ "names": [name] }));
    let edges = |edges: &[(&str, &str)]| {
        let edges: Vec<Value> = edges
            .iter()
            .map(|(from, to)| json!({ "from": from, "to": to }))
            .collect();
        json!({ "strategy": { "type": "DAG", "dependencies": edges } })
    };
    let circle = edges(&[("a", "b"), ("b", "c"), ("c", "a")]);
    let spec = json!({
        "schedule": nightly(), "execution": circle, "targets": [one("a"), one("b"), one("c")],
    });
    bed.plan_with(PLAN, spec).await?;
    let operator = bed.operator();
    bed.at(3).await;
    ensure!(bed.condition("Followed").await? == (false, "PlanInvalid".to_owned()));
    let message = bed.hplan().await?.status.unwrap_or_default().message;
    ensure!(
        message.contains("the dependencies go round in a circle through `a`: remove one of its edges")
            && message.contains("nothing is touched"),
        "{message}"
    );
    let replicas = async || -> Result<Vec<i64>> {
        let mut all = Vec::new();
        for name in ["a", "b", "c"] {
            all.push(bed.replicas(DEPLOYMENTS, name).await?);
        }
        Ok(all)
    };
    ensure!(replicas().await? == [1, 1, 1], "{:?}", replicas().await?);
    let maps: Api<ConfigMap> = Api::default_namespaced(bed.client.clone());
    let point = maps.get_opt(&format!("hibernator-restore-{PLAN}")).await?;
    ensure!(point.is_none(), "{point:?}");
    // Without the edge it goes on at once, in the night that has begun.
    let repaired = json!({ "spec": { "execution": edges(&[("a", "b"), ("b", "c")]) } });
    bed.patch(PLANS, PLAN, repaired).await?;
    bed.later(MINUTE).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    ensure!(replicas().await? == [0, 0, 0], "{:?}", replicas().await?);
    // Closed again while it sleeps: what was put to sleep is woken in the morning all the same, as it was recorded, and
    // nothing sleeps in the next night.
    let circle = edges(&[("a", "b"), ("b", "c"), ("c", "a")]);
    bed.patch(PLANS, PLAN, json!({ "spec": { "execution": circle } }))
        .await?;
    bed.later(MINUTE).await;
    let told = bed.hplan().await?.status.unwrap_or_default().message;
    ensure!(
        told.contains("what has begun ends as it began") && told.contains("Next: awake"),
        "{told}"
    );
    bed.at(4).await;
    ensure!(bed.condition("Followed").await? == (false, "PlanInvalid".to_owned()));
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    ensure!(replicas().await? == [1, 1, 1], "{:?}", replicas().await?);
    bed.at(27).await;
    ensure!(replicas().await? == [1, 1, 1], "{:?}", replicas().await?);
    let repaired = json!({ "spec": { "execution": edges(&[("a", "b"), ("b", "c")]) } });
    bed.patch(PLANS, PLAN, repaired).await?;
    bed.later(MINUTE).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    ensure!(bed.condition("Followed").await?.0);
    operator.kill().await;
    bed.end().await;
    Ok(())
}
