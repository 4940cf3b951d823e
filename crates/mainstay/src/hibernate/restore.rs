//! Restore points: look at them, check them, take them elsewhere and bring them back.

use super::{Where, table, written};
use ::operator::hibernation::stored::Maps;
use ::operator::hibernation::{Place, Settings};
use anyhow::{Context, Result, bail, ensure};
use api::HibernatePlan;
use api::hibernation::PLAN_LABEL;
use api::hibernation::wishes::DISCARD;
use clap::{Args, Subcommand};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Client, ResourceExt};
use mainstay_core::hibernation::ids::{PlanName, TargetName};
use mainstay_core::hibernation::point::Point;
use mainstay_core::hibernation::state::{Cycle, State};
use mainstay_core::hibernation::store::{MOST_SHARDS, Shard, Store};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
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
            let client = place.client().await?;
            let mut lines = lines(&read(&client, &place, &name).await?);
            // Only the plan knows what should be there.
            if let Some(plan) = place.plans(&client).get_opt(&name).await? {
                let lost = open_cycle(&plan)?.map(|cycle| lost(&lines, &cycle));
                lines.extend(lost.unwrap_or_default());
            }
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
    Ok(maps(client, place, name).await?.0.store())
}

async fn maps(client: &Client, place: &Where, name: &str) -> Result<(Maps, Place)> {
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
    Ok((maps, place))
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

/// Targets that were captured in the open cycle and have no restore point.
fn lost(lines: &[Line], cycle: &Cycle) -> Vec<Line> {
    let captured = cycle.intent.targets.iter().filter(|target| {
        let progress = cycle.targets.get(&target.name);
        progress.is_some_and(|p| p.captured)
    });
    let gone = captured.filter(|target| {
        let mine = |l: &Line| l.target == target.name.as_str() && l.executor == target.executor.as_str();
        !lines.iter().any(mine)
    });
    gone.map(|target| Line {
        target: target.name.to_string(),
        executor: target.executor.to_string(),
        cycle: Some(cycle.id.0),
        captured_at: String::new(),
        resources: 0,
        live: 0,
        open: 0,
        problem: Some("it was captured in the cycle that is open, and is gone".to_owned()),
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

/// The ConfigMaps of now with the points of the file in them. What the file does not speak of stays as it is.
fn merged(now: &Store, new: &Store, plan: &PlanName) -> Store {
    let targets: BTreeSet<TargetName> = new.targets().into_iter().map(|(_, target)| target).collect();
    let keys: BTreeSet<&String> = new.shards().flat_map(|s| s.data.keys()).collect();
    let mut shards: BTreeMap<u16, Shard> = now.shards().map(|s| (s.number, s.clone())).collect();
    for shard in shards.values_mut() {
        // A part of today's point next to the file's would be read as one.
        shard.data.retain(|key, _| !keys.contains(key));
        shard
            .annotations
            .retain(|key, _| !targets.iter().any(|t| t.mark() == *key));
    }
    for shard in new.shards() {
        let Shard {
            number,
            version: _,
            data,
            annotations,
        } = shard.clone();
        let into = shards.entry(number).or_insert_with(|| Shard {
            number,
            version: None,
            data: BTreeMap::new(),
            annotations: BTreeMap::new(),
        });
        into.data.extend(data);
        into.annotations.extend(annotations);
    }
    Store::new(plan.clone(), shards.into_values().collect())
}

/// Targets whose stored point was never used and would be another one, or none.
fn overwritten(now: &Store, then: &Store) -> Vec<String> {
    let targets = now.targets().into_iter();
    targets
        .filter(|(executor, target)| {
            let stored = now.load(executor, target);
            let same = stored == then.load(executor, target);
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
    let (mut maps, at) = maps(&client, &place, &name).await?;
    let now = maps.store();
    let then = merged(&now, &new, &plan);
    let lost = overwritten(&now, &then);
    ensure!(
        force || lost.is_empty(),
        "the restore points of {} were never used and would be lost; --force overwrites them",
        lost.join(", ")
    );
    let mut wrote = Vec::new();
    for shard in then.changed_from(&now) {
        let name = Store::name(&plan, shard.number);
        let written = maps.write(&at, &shard).await;
        written.with_context(|| format!("{name} cannot be written"))?;
        wrote.push(name);
    }
    let text = |wrote: &Vec<String>| match wrote.as_slice() {
        [] => "everything is there as it is in the file\n".to_owned(),
        some => format!("{} is written\n", some.join(", ")),
    };
    print!("{}", written(&wrote, place.output, text)?);
    Ok(())
}

/// What giving up says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GivenUp {
    plan: String,
    target: String,
    leg: String,
}

async fn discard(arguments: TargetArguments) -> Result<()> {
    let TargetArguments { name, target, place } = arguments;
    let target = TargetName::parse(&target)?;
    let client = place.client().await?;
    let plan = place.plan(&client, &name).await?;
    let cycle = open_cycle(&plan)?.with_context(|| format!("no cycle of `{name}` is open"))?;
    ensure!(
        cycle.targets.contains_key(&target),
        "`{target}` is no target of the open cycle of `{name}`"
    );
    let given_up = GivenUp {
        plan: name.clone(),
        target: target.to_string(),
        leg: cycle.leg_id().to_string(),
    };
    let wishes = with_wish(
        plan.annotations().get(DISCARD).map(String::as_str),
        &target,
        &given_up.leg,
    );
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { DISCARD: wishes } } }));
    place
        .plans(&client)
        .patch(&name, &PatchParams::default(), &patch)
        .await?;
    let text = |GivenUp { plan, target, leg }: &GivenUp| {
        format!(
            "{plan}: the restore point that `{target}` has in {leg} is given up: what it names stays as it is\n"
        )
    };
    print!("{}", written(&given_up, place.output, text)?);
    Ok(())
}

/// The annotation with one more wish; an older one for the same target has done its duty.
fn with_wish(before: Option<&str>, target: &TargetName, leg: &str) -> String {
    let others = before.unwrap_or_default().split(',').map(str::trim);
    let others = others.filter(|one| {
        one.rsplit_once('=')
            .is_some_and(|(name, _)| name != target.as_str())
    });
    let mut all: Vec<String> = others.map(str::to_owned).collect();
    all.push(format!("{target}={leg}"));
    all.join(",")
}

/// The cycle of a plan that is not closed.
fn open_cycle(plan: &HibernatePlan) -> Result<Option<Cycle>> {
    let state = plan.status.as_ref().and_then(|s| s.state.clone());
    let state: Option<State> = state
        .map(serde_json::from_value)
        .transpose()
        .context("status.state")?;
    Ok(state.and_then(|s| s.open))
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
            settled: true,
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

    fn with(store: &Store, target: &str, shard: u16) -> Store {
        let executor = ExecutorName::parse("workloads").unwrap();
        let empty = Point::empty(executor, TargetName::parse(target).unwrap());
        let seen = Capture {
            state: json!({ "replicas": 4 }),
            live: true,
            settled: true,
        };
        let seen = BTreeMap::from([(ResourceId::parse("apps/v1/deployments/db").unwrap(), seen)]);
        let (mut point, _) = empty.save_or_preserve(CycleId(7), 0, "2026-11-16T20:00:00Z", &seen);
        point.entries.values_mut().for_each(|e| e.shard = Some(shard));
        store.put(point).unwrap()
    }

    #[test]
    fn an_import_keeps_what_the_file_does_not_speak_of_and_sees_every_point_that_would_go() {
        let plan = plan_name("staging").unwrap();
        // Only `apps` is in the file; `db` was captured since, and shares its ConfigMap.
        let file = imported(&exported(&store(3), &plan).to_string(), &plan).unwrap();
        let now = with(&store(3), "db", 1).mark_target_restored(&TargetName::parse("db").unwrap());
        let then = merged(&now, &file, &plan);
        assert_eq!(then, now);
        assert!(then.changed_from(&now).is_empty());
        // A file in which `db` has only the part that is in the second ConfigMap takes the first one away.
        let (one, two) = (with(&store(3), "db", 1), with(&store(3), "db", 2));
        let file = imported(&exported(&two, &plan).to_string(), &plan).unwrap();
        let then = merged(&one, &file, &plan);
        assert_eq!(lines(&then), lines(&two));
        assert_eq!(then.shards().map(|s| s.data.len()).collect::<Vec<_>>(), [1, 1]);
        // What would be lost is named, whoever the file speaks of.
        let none = Store::new(plan.clone(), Vec::new());
        assert_eq!(overwritten(&one, &none), ["apps", "db"]);
    }

    #[test]
    fn a_point_that_is_gone_is_missed_while_its_cycle_is_open() {
        let target = |name: &str| json!({ "name": name, "executor": "workloads", "parameters": null });
        let fresh = |captured: bool| json!({ "stand": "Done", "captured": captured, "attempts": 0, "enforced": 0, "message": null });
        let cycle: Cycle = serde_json::from_value(json!({
            "id": 7, "operation": "Shutdown", "leg": 0, "began": 0,
            "intent": {
                "targets": [target("apps"), target("db"), target("off")],
                "strategy": "sequential", "behaviour": { "mode": "Strict", "retries": 3 },
            },
            "targets": { "apps": fresh(true), "db": fresh(true), "off": fresh(false) },
        }))
        .unwrap();
        let missed = lost(&lines(&store(3)), &cycle);
        let names: Vec<&str> = missed.iter().map(|l| l.target.as_str()).collect();
        assert_eq!(names, ["db"], "`apps` is there, and `off` was never captured");
        assert!(missed[0].problem.as_ref().unwrap().contains("is gone"));
    }

    #[test]
    fn a_wish_takes_the_place_of_an_older_one_for_the_same_target() {
        let web = TargetName::parse("web").unwrap();
        assert_eq!(with_wish(None, &web, "7.1"), "web=7.1");
        assert_eq!(with_wish(Some("web=6.1, db=6.1"), &web, "7.3"), "db=6.1,web=7.3");
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
