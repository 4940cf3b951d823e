//! Restore points that are taken elsewhere and brought back.

use super::{ImportArguments, lines, maps, plan_name, state_of};
use crate::hibernate::written;
use anyhow::{Context, Result, bail, ensure};
use api::hibernation::PLAN_LABEL;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use mainstay_core::hibernation::ids::{ExecutorName, PlanName, TargetName};
use mainstay_core::hibernation::state::State;
use mainstay_core::hibernation::store::{MOST_SHARDS, Shard, Store};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A list that `kubectl apply` takes, too.
pub(super) fn exported(store: &Store, plan: &PlanName) -> Value {
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
pub(super) fn imported(text: &str, plan: &PlanName) -> Result<Store> {
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
pub(super) fn merged(now: &Store, new: &Store, plan: &PlanName) -> Store {
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
pub(super) fn overwritten(now: &Store, then: &Store) -> Vec<String> {
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

/// Targets whose point would be brought back once more, although everything is awake: what they name would become what
/// it was in another night. What an older version wrote is not taken up by a plan that remembers.
pub(super) fn reopened(now: &Store, then: &Store, state: Option<&State>) -> Vec<String> {
    if state.is_none_or(|state| state.open.is_some()) {
        return Vec::new();
    }
    let targets = then.targets().into_iter();
    let open = |store: &Store, executor: &ExecutorName, target: &TargetName| {
        let point = store.load(executor, target).ok().flatten();
        point.is_some_and(|p| p.is_open() && !p.is_old())
    };
    targets
        .filter(|(executor, target)| open(then, executor, target) && !open(now, executor, target))
        .map(|(_, target)| target.to_string())
        .collect()
}

/// Targets that the file would bring back once more although the open cycle has woken them, or somebody gave them up, since:
/// what they name may have been changed by day. One that the file knows from a later leg is news.
pub(super) fn left_alone(
    now: &Store,
    new: &Store,
    state: Option<&State>,
) -> BTreeSet<(ExecutorName, TargetName)> {
    if state.is_none_or(|state| state.open.is_none()) {
        return BTreeSet::new();
    }
    let point = |store: &Store, executor: &ExecutorName, target: &TargetName| {
        let point = store.load(executor, target).ok().flatten();
        point.map(|p| (p.is_open() || p.is_incomplete(), p.cycle, p.leg))
    };
    let mut targets = new.targets();
    targets.retain(
        |(executor, target)| match (point(now, executor, target), point(new, executor, target)) {
            (Some((false, cycle, leg)), Some((true, of, in_leg))) => (of, in_leg) <= (cycle, leg),
            _ => false,
        },
    );
    targets
}

/// The file without what is left alone.
pub(super) fn without(new: &Store, left: &BTreeSet<(ExecutorName, TargetName)>, plan: &PlanName) -> Store {
    let keys: BTreeSet<String> = left.iter().map(|(e, t)| Store::key(e, t)).collect();
    let shards = new.shards().cloned().map(|mut shard| {
        shard.data.retain(|key, _| !keys.contains(key));
        shard
    });
    Store::new(plan.clone(), shards.collect())
}

pub(super) async fn import(arguments: ImportArguments) -> Result<()> {
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
    let object = place.plans(&client).get_opt(&name).await;
    let object = object.context("the HibernatePlans cannot be read")?;
    let state = object.as_ref().map(state_of).transpose()?.flatten();
    let left = left_alone(&now, &new, state.as_ref());
    let new = if force { new } else { without(&new, &left, &plan) };
    let then = merged(&now, &new, &plan);
    let lost = overwritten(&now, &then);
    ensure!(
        force || lost.is_empty(),
        "the restore points of {} were never used and would be lost; --force overwrites them",
        lost.join(", ")
    );
    let woken = reopened(&now, &then, state.as_ref());
    ensure!(
        force || woken.is_empty(),
        "no cycle of `{name}` is open: the restore points of {} would be brought back once more, over whatever is there \
         now; --force does that",
        woken.join(", ")
    );
    if !force {
        // Beside the answer: that is for programs, and stays what it is.
        for (_, target) in &left {
            eprintln!(
                "`{target}` was woken or given up in the open cycle and is left as it is; --force brings it back once more"
            );
        }
    }
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
