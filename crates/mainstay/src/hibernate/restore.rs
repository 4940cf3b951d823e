//! Restore points: look at them, check them, take them elsewhere and bring them back, give them up.

mod carried;
#[cfg(test)]
mod tests;

use super::{Where, table, written};
use ::operator::hibernation::stored::Maps;
use ::operator::hibernation::{Place, Settings};
use anyhow::{Context, Result, ensure};
use api::HibernatePlan;
use api::hibernation::wishes::DISCARD;
use clap::{Args, Subcommand};
use kube::api::{Patch, PatchParams};
use kube::{Client, ResourceExt};
use mainstay_core::hibernation::ids::{PlanName, TargetName};
use mainstay_core::hibernation::point::Point;
use mainstay_core::hibernation::state::{Cycle, State};
use mainstay_core::hibernation::store::Store;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Subcommand)]
pub(crate) enum Restore {
    /// Every restore point of a plan in a line.
    List(PlanArguments),
    /// What is recorded of every resource of a target.
    Show(TargetArguments),
    /// Is every restore point there, whole, and as it was written? Exit code 1 if not. What runs is not looked at.
    Verify(PlanArguments),
    /// All ConfigMaps of a plan, for `import` and for `kubectl apply`.
    Export(PlanArguments),
    /// Bring exported ConfigMaps back. Without --force nothing is overwritten that still has to be brought back, and
    /// nothing is brought back once more that was woken or given up since.
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
    /// Overwrite restore points that were never used, and bring back once more what is awake.
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
            let list = carried::exported(&store, &plan_name(&name)?);
            print!("{}", written(&list, place.output, |list| format!("{list:#}\n"))?);
            Ok(())
        }
        Restore::Import(arguments) => carried::import(arguments).await,
        Restore::Discard(arguments) => discard(arguments).await,
    }
}

fn plan_name(name: &str) -> Result<PlanName> {
    Ok(PlanName::parse(name)?)
}

/// The restore points of a plan. They outlive it; but where there is neither, the name is wrong, and `verify` must not
/// say of it that all is well.
async fn read(client: &Client, place: &Where, name: &str) -> Result<Store> {
    let store = maps(client, place, name).await?.0.store();
    if store.shards().next().is_none() {
        let plan = place.plans(client).get_opt(name).await;
        let plan = plan.context("the HibernatePlans cannot be read")?;
        ensure!(
            plan.is_some(),
            "there is neither a HibernatePlan `{name}` in `{}` nor a restore point of one",
            place.namespace
        );
    }
    Ok(store)
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

/// What a plan remembers.
fn state_of(plan: &HibernatePlan) -> Result<Option<State>> {
    let state = plan.status.as_ref().and_then(|s| s.state.clone());
    state
        .map(serde_json::from_value)
        .transpose()
        .context("status.state")
}

/// The cycle of a plan that is not closed.
fn open_cycle(plan: &HibernatePlan) -> Result<Option<Cycle>> {
    Ok(state_of(plan)?.and_then(|s| s.open))
}
