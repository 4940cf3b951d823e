//! Restore points: look at them, check them, take them elsewhere and bring them back.

use super::{Where, table, written};
use ::operator::hibernation::stored::Maps;
use ::operator::hibernation::{Place, Settings};
use anyhow::{Context, Result, bail, ensure};
use api::hibernation::PLAN_LABEL;
use api::hibernation::wishes::DISCARD;
use clap::{Args, Subcommand};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use mainstay_core::hibernation::ids::{PlanName, TargetName};
use mainstay_core::hibernation::point::Point;
use mainstay_core::hibernation::store::{MOST_SHARDS, Shard, Store};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Subcommand)]
pub(crate) enum Restore {
    /// Every restore point of a plan in a line.
    List(PlanArguments),
    /// What is recorded of every resource of a target.
    Show(TargetArguments),
    /// Is every restore point there, whole, and as it was written? Exit code 1 if not.
    Verify(PlanArguments),
    /// All ConfigMaps of a plan, for `import` and for `kubectl apply`.
    Export(PlanArguments),
    /// Bring exported ConfigMaps back. What still has to be brought back is not overwritten without --force.
    Import(ImportArguments),
    /// Give up the restore point of a target in the cycle that is open: what it names stays as it is.
    Discard(TargetArguments),
}

#[derive(Args)]
pub(crate) struct PlanArguments {
    /// The plan.
    name: String,
    #[command(flatten)]
    place: Where,
}

#[derive(Args)]
pub(crate) struct TargetArguments {
    /// The plan.
    name: String,
    /// The target.
    target: String,
    #[command(flatten)]
    place: Where,
}

#[derive(Args)]
pub(crate) struct ImportArguments {
    /// The plan.
    name: String,
    /// What `export` wrote.
    #[arg(long, short)]
    file: PathBuf,
    /// Overwrite restore points that were never used.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    place: Where,
}

pub(crate) async fn command(command: Restore) -> Result<()> {
    match command {
        Restore::List(PlanArguments { name, place }) => {
            let lines = lines(&read(&place.client().await?, &place, &name).await?);
            print!("{}", written(&lines, place.output, |lines| listed(lines))?);
            Ok(())
        }
        Restore::Verify(PlanArguments { name, place }) => {
            let lines = lines(&read(&place.client().await?, &place, &name).await?);
            print!("{}", written(&lines, place.output, |lines| listed(lines))?);
            let bad = lines.iter().filter(|l| l.problem.is_some()).count();
            ensure!(bad == 0, "{bad} restore points cannot be relied on");
            Ok(())
        }
        Restore::Show(arguments) => show(arguments).await,
        Restore::Export(PlanArguments { name, place }) => {
            let store = read(&place.client().await?, &place, &name).await?;
            let list = exported(&store, &plan_name(&name)?);
            print!("{}", written(&list, place.output, |list| format!("{list:#}\n"))?);
            Ok(())
        }
        Restore::Import(arguments) => import(arguments).await,
        Restore::Discard(arguments) => discard(arguments).await,
    }
}

fn plan_name(name: &str) -> Result<PlanName> {
    Ok(PlanName::parse(name)?)
}

async fn read(client: &Client, place: &Where, name: &str) -> Result<Store> {
    let place = Place {
        client: client.clone(),
        namespace: place.namespace.clone(),
        plan: plan_name(name)?,
        before: Vec::new(),
        settings: Arc::new(Settings::default()),
    };
    let maps = Maps::read(&place)
        .await
        .context("the ConfigMaps cannot be read")?;
    Ok(maps.store())
}

/// One restore point.
#[derive(Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Line {
    target: String,
    executor: String,
    cycle: Option<u64>,
    captured_at: String,
    resources: usize,
    /// So many ran.
    live: usize,
    /// So many still have to be brought back.
    open: usize,
    problem: Option<String>,
}

fn lines(store: &Store) -> Vec<Line> {
    let all = store.targets().into_iter();
    all.map(|(executor, target)| {
        let (point, problem) = match store.load(&executor, &target) {
            Err(error) => (None, Some(error.to_string())),
            Ok(None) => (None, Some("it is gone".to_owned())),
            Ok(Some(point)) => {
                let missing: Vec<String> = point.missing.iter().map(ToString::to_string).collect();
                let problem =
                    (!missing.is_empty()).then(|| format!("ConfigMap {} is missing", missing.join(", ")));
                (Some(point), problem)
            }
        };
        let count = |is: fn(&Point) -> usize| point.as_ref().map_or(0, is);
        Line {
            target: target.to_string(),
            executor: executor.to_string(),
            cycle: point.as_ref().and_then(|p| p.cycle).map(|c| c.0),
            captured_at: point.as_ref().map(|p| p.captured_at.clone()).unwrap_or_default(),
            resources: count(|p| p.entries.len()),
            live: count(|p| p.entries.values().filter(|e| e.live).count()),
            open: count(|p| p.entries.values().filter(|e| e.live && !e.consumed).count()),
            problem,
        }
    })
    .collect()
}

fn listed(lines: &[Line]) -> String {
    if lines.is_empty() {
        return "there are no restore points\n".to_owned();
    }
    let head = [
        "TARGET",
        "EXECUTOR",
        "CYCLE",
        "CAPTURED",
        "RESOURCES",
        "RAN",
        "STILL ASLEEP",
        "PROBLEM",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for line in lines {
        let Line {
            target,
            executor,
            cycle,
            captured_at,
            resources,
            live,
            open,
            problem,
        } = line;
        rows.push(vec![
            target.clone(),
            executor.clone(),
            cycle.map_or_else(|| "-".to_owned(), |c| c.to_string()),
            captured_at.clone(),
            resources.to_string(),
            live.to_string(),
            open.to_string(),
            problem.clone().unwrap_or_default(),
        ]);
    }
    table(&rows)
}

/// One resource of a restore point.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    resource: String,
    ran: bool,
    consumed: bool,
    state: Value,
}

async fn show(arguments: TargetArguments) -> Result<()> {
    let TargetArguments { name, target, place } = arguments;
    let store = read(&place.client().await?, &place, &name).await?;
    let target = TargetName::parse(&target)?;
    let (executor, _) = store
        .targets()
        .into_iter()
        .find(|(_, t)| *t == target)
        .with_context(|| format!("`{target}` has no restore point"))?;
    let point = store.load(&executor, &target)?.context("it is gone")?;
    let all: Vec<Recorded> = point
        .entries
        .into_iter()
        .map(|(id, entry)| Recorded {
            resource: id.to_string(),
            ran: entry.live,
            consumed: entry.consumed,
            state: entry.state,
        })
        .collect();
    let text = |all: &Vec<Recorded>| {
        let mut rows = vec![
            ["RESOURCE", "RAN", "BROUGHT BACK", "STATE"]
                .map(str::to_owned)
                .to_vec(),
        ];
        rows.extend(all.iter().map(|r| {
            let word = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
            vec![
                r.resource.clone(),
                word(r.ran),
                word(r.consumed),
                r.state.to_string(),
            ]
        }));
        table(&rows)
    };
    print!("{}", written(&all, place.output, text)?);
    Ok(())
}

/// A list that `kubectl apply` takes, too.
fn exported(store: &Store, plan: &PlanName) -> Value {
    let items: Vec<Value> = store
        .shards()
        .map(|shard| {
            let Shard {
                number,
                version: _,
                data,
                annotations,
            } = shard;
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": Store::name(plan, *number), "annotations": annotations,
                    "labels": { PLAN_LABEL: plan.to_string() },
                },
                "data": data,
            })
        })
        .collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// The ConfigMaps of a file, as a store. Each must be one of this plan, and every point in them usable.
fn imported(text: &str, plan: &PlanName) -> Result<Store> {
    let list: Value = serde_saphyr::from_str(text).context("it is no YAML")?;
    let items = list
        .get("items")
        .and_then(Value::as_array)
        .context("it is no list of ConfigMaps")?;
    let mut shards = Vec::new();
    for item in items {
        let map: ConfigMap = serde_json::from_value(item.clone()).context("it is no ConfigMap")?;
        let name = map.name_any();
        let number = (1..=MOST_SHARDS).find(|n| Store::name(plan, *n) == name);
        let number = number.with_context(|| format!("`{name}` is no ConfigMap of the plan `{plan}`"))?;
        shards.push(Shard {
            number,
            version: None,
            data: map.data.unwrap_or_default(),
            annotations: map.metadata.annotations.unwrap_or_default(),
        });
    }
    let store = Store::new(plan.clone(), shards);
    if let Some(bad) = lines(&store).into_iter().find(|l| l.problem.is_some()) {
        bail!(
            "the restore point of `{}`: {}",
            bad.target,
            bad.problem.unwrap_or_default()
        );
    }
    Ok(store)
}

/// Targets whose stored point was never used and would be replaced by another one.
fn overwritten(now: &Store, new: &Store) -> Vec<String> {
    let targets = new.targets().into_iter();
    targets
        .filter(|(executor, target)| {
            let stored = now.load(executor, target);
            let same = stored == new.load(executor, target);
            !same && stored.is_ok_and(|point| point.is_some_and(|p| p.is_open()))
        })
        .map(|(_, target)| target.to_string())
        .collect()
}

async fn import(arguments: ImportArguments) -> Result<()> {
    let ImportArguments {
        name,
        file,
        force,
        place,
    } = arguments;
    let plan = plan_name(&name)?;
    let text =
        std::fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    let new = imported(&text, &plan)?;
    let client = place.client().await?;
    let now = read(&client, &place, &name).await?;
    let lost = overwritten(&now, &new);
    ensure!(
        force || lost.is_empty(),
        "the restore points of {} were never used and would be lost; --force overwrites them",
        lost.join(", ")
    );
    let api: Api<ConfigMap> = Api::namespaced(client, &place.namespace);
    let versions: BTreeMap<u16, Option<String>> = now
        .shards()
        .map(|s| (s.number, s.version.clone().map(|v| v.0)))
        .collect();
    for shard in new.shards() {
        let name = Store::name(&plan, shard.number);
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.clone());
        map.metadata.labels = Some(BTreeMap::from([(PLAN_LABEL.to_owned(), plan.to_string())]));
        map.metadata.annotations = Some(shard.annotations.clone());
        map.data = Some(shard.data.clone());
        let params = PostParams::default();
        match versions.get(&shard.number) {
            None => api.create(&params, &map).await?,
            Some(version) => {
                map.metadata.resource_version.clone_from(version);
                api.replace(&name, &params, &map).await?
            }
        };
        println!("{name} is written");
    }
    Ok(())
}

async fn discard(arguments: TargetArguments) -> Result<()> {
    let TargetArguments { name, target, place } = arguments;
    let target = TargetName::parse(&target)?;
    let client = place.client().await?;
    let plan = place.plan(&client, &name).await?;
    let status = plan.status.clone().unwrap_or_default();
    let known = status.targets.iter().any(|t| t.name == target.as_str());
    ensure!(known, "`{target}` is no target of an open cycle of `{name}`");
    let cycle = status.cycle.context("no cycle was ever begun")?;
    let wish = format!("{target}={cycle}");
    let wishes = match plan.annotations().get(DISCARD) {
        Some(others) if !others.is_empty() => format!("{others},{wish}"),
        _ => wish,
    };
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { DISCARD: wishes } } }));
    place
        .plans(&client)
        .patch(&name, &PatchParams::default(), &patch)
        .await?;
    println!(
        "{name}: the restore point of `{target}` in cycle {cycle} is given up: what it names stays as it is"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::hibernation::ids::{CycleId, ExecutorName, ResourceId};
    use mainstay_core::hibernation::save::Capture;

    fn store(replicas: u32) -> Store {
        let id = |text: &str| ResourceId::parse(text).unwrap();
        let capture = |replicas: u32| Capture {
            state: json!({ "replicas": replicas }),
            live: replicas > 0,
        };
        let seen = BTreeMap::from([
            (id("apps/v1/deployments/web"), capture(replicas)),
            (id("apps/v1/deployments/off"), capture(0)),
        ]);
        let executor = ExecutorName::parse("workloads").unwrap();
        let empty = Point::empty(executor, TargetName::parse("apps").unwrap());
        let (point, _) = empty.save_or_preserve(CycleId(7), 0, "2026-11-16T20:00:00Z", &seen);
        Store::new(plan_name("staging").unwrap(), Vec::new())
            .put(point)
            .unwrap()
    }

    #[test]
    fn points_are_listed_with_what_is_wrong_with_them() {
        let good = store(3);
        let spoilt = good.shards().cloned().map(|mut shard| {
            let text = shard.data["workloads_apps.json"].replace("\"replicas\":3", "\"replicas\":9");
            shard.data.insert("workloads_db.json".to_owned(), text);
            shard
        });
        let spoilt = Store::new(plan_name("staging").unwrap(), spoilt.collect());
        insta::assert_snapshot!(format!("{}\n{}", listed(&lines(&good)), listed(&lines(&spoilt))));
    }

    #[test]
    fn what_is_exported_can_be_imported_and_nothing_unused_is_overwritten() {
        let plan = plan_name("staging").unwrap();
        let (three, five) = (store(3), store(5));
        let text = exported(&three, &plan).to_string();
        let read = imported(&text, &plan).unwrap();
        assert_eq!(lines(&read), lines(&three));
        assert_eq!(overwritten(&three, &read), Vec::<String>::new());
        assert_eq!(overwritten(&five, &read), ["apps"]);
        assert!(imported(&text, &plan_name("other").unwrap()).is_err());
        let spoilt = text.replace("replicas\\\":3", "replicas\\\":9");
        assert_ne!(spoilt, text);
        let error = imported(&spoilt, &plan).unwrap_err().to_string();
        assert!(error.contains("hash"), "{error}");
    }
}
