//! What people ask of a plan once.

use super::{Where, written};
use ::operator::clock::wall;
use anyhow::{Context, Result, bail};
use api::HibernatePlan;
use api::hibernation::wishes::{Asked, OVERRIDE, RETRY, SUSPEND, SUSPEND_UNTIL, override_text};
use api::hibernation::{HibernatePlanStatus, follow};
use api::times;
use clap::Args;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use mainstay_core::schedule::{Desired, Override, Schedule, rfc3339};
use mainstay_core::time::Time;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::time::Duration;

#[derive(Args)]
pub(crate) struct PlanArguments {
    /// The plan.
    name: String,
    /// Wait until it is done, and say how far it is.
    #[arg(long)]
    wait: bool,
    /// How long to wait at most, such as 30m. What was asked for stays asked for.
    #[arg(long, default_value = "30m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    place: Where,
}

#[derive(Args)]
pub(crate) struct UntilArguments {
    /// Until when, as RFC 3339; until the schedule agrees if not given.
    #[arg(long)]
    until: Option<jiff::Timestamp>,
    /// Who asks, and why; for those who wonder.
    #[arg(long, default_value = "")]
    note: String,
    #[command(flatten)]
    plan: PlanArguments,
}

#[derive(Args)]
pub(crate) struct ForArguments {
    /// How long, such as 3h.
    #[arg(value_parser = duration)]
    long: Duration,
    /// Who asks, and why; for those who wonder.
    #[arg(long, default_value = "")]
    note: String,
    #[command(flatten)]
    plan: PlanArguments,
}

#[derive(Args)]
pub(crate) struct SuspendArguments {
    /// Until when, as RFC 3339; until it is resumed if not given.
    #[arg(long)]
    until: Option<jiff::Timestamp>,
    #[command(flatten)]
    plan: PlanArguments,
}

fn duration(text: &str) -> Result<Duration, String> {
    times::duration(text)
        .filter(|d| !d.is_zero())
        .ok_or_else(|| format!("`{text}` is no length of time: write one such as 3h or 90m"))
}

/// What was asked, for people and programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    plan: String,
    asked: String,
    changed: Value,
}

fn millis(at: jiff::Timestamp) -> Result<Time> {
    let millis = u64::try_from(at.as_millisecond());
    Ok(Time(millis.context("a time before 1970")?))
}

/// The schedule with its exceptions, without what somebody asked for before.
async fn schedule(place: &Where, client: &Client, plan: &HibernatePlan) -> Result<Schedule> {
    let exceptions = place.exceptions(client, &plan.name_any()).await?;
    Ok(follow(&plan.name_any(), &plan.spec, &exceptions, None)?.schedule)
}

/// Where a plan ends up now if nobody asks for anything else.
fn phase_of(desired: Desired) -> &'static str {
    match desired {
        Desired::Asleep => "Hibernated",
        Desired::Awake => "Active",
    }
}

/// When a wish ends that is to last until the schedule agrees with it.
fn until_it_agrees(schedule: &Schedule, before: Option<&Override>, asleep: bool, now: Time) -> Result<Time> {
    let slot = schedule.at(now);
    let wanted = if asleep { Desired::Asleep } else { Desired::Awake };
    if slot.desired == wanted {
        let word = if asleep { "asleep" } else { "awake" };
        let against = before.filter(|o| o.span().has(now) && o.is_asleep() != asleep);
        let hint = match against {
            Some(other) => format!(
                "somebody asked for the opposite until {}: `mainstay hibernate resume` takes that back",
                rfc3339(other.span().to)
            ),
            None => "nothing is to be asked for".to_owned(),
        };
        bail!("the schedule wants it {word} now: {}; {hint}", slot.why);
    }
    slot.until
        .context("the schedule never agrees: say until when with --until")
}

pub(crate) async fn wake(arguments: UntilArguments) -> Result<()> {
    until(arguments, false).await
}

pub(crate) async fn sleep(arguments: UntilArguments) -> Result<()> {
    until(arguments, true).await
}

async fn until(arguments: UntilArguments, asleep: bool) -> Result<()> {
    let UntilArguments { until, note, plan } = arguments;
    let client = plan.place.client().await?;
    let object = plan.place.plan(&client, &plan.name).await?;
    let now = wall();
    let end = if let Some(at) = until {
        millis(at)?
    } else {
        let schedule = schedule(&plan.place, &client, &object).await?;
        let before = Asked::read(object.annotations()).wanted;
        until_it_agrees(&schedule, before.as_ref(), asleep, now)?
    };
    let (word, phase) = if asleep {
        ("asleep", "Hibernated")
    } else {
        ("awake", "Active")
    };
    let asked = format!("{word} until {}, then the schedule decides", rfc3339(end));
    let value = override_text(asleep, now, end, &note);
    ask(&client, &plan, asked, annotation(OVERRIDE, Some(&value)), phase).await
}

pub(crate) async fn awake_for(arguments: ForArguments) -> Result<()> {
    let ForArguments { long, note, plan } = arguments;
    let client = plan.place.client().await?;
    let now = wall();
    let value = override_text(false, now, now + long, &note);
    let asked = format!("awake until {}, then the schedule decides", rfc3339(now + long));
    ask(
        &client,
        &plan,
        asked,
        annotation(OVERRIDE, Some(&value)),
        "Active",
    )
    .await
}

pub(crate) async fn suspend(arguments: SuspendArguments) -> Result<()> {
    let SuspendArguments { until, plan } = arguments;
    let client = plan.place.client().await?;
    let (asked, change) = match until {
        None => (
            "suspended until it is resumed: nothing is touched".to_owned(),
            annotation(SUSPEND, Some("true")),
        ),
        Some(at) => {
            let at = rfc3339(millis(at)?);
            (
                format!("suspended until {at}: nothing is touched"),
                annotation(SUSPEND_UNTIL, Some(&at)),
            )
        }
    };
    ask(&client, &plan, asked, change, "Suspended").await
}

pub(crate) async fn resume(plan: PlanArguments) -> Result<()> {
    let client = plan.place.client().await?;
    let object = plan.place.plan(&client, &plan.name).await?;
    let (told, change) = resumed(&object)?;
    // Where it ends up is only asked by who waits: a plan that cannot be followed can be resumed all the same.
    let phase = if plan.wait {
        // What was asked for besides stays asked for.
        let wanted = Asked::read(object.annotations())
            .wanted
            .filter(|_| wished(&change, OVERRIDE).is_none());
        phase_now(&plan, &client, &object, wanted).await?
    } else {
        ""
    };
    ask(&client, &plan, told.to_owned(), change, phase).await
}

/// Where a plan ends up now, with what somebody asked for.
async fn phase_now(
    plan: &PlanArguments,
    client: &Client,
    object: &HibernatePlan,
    wanted: Option<Override>,
) -> Result<&'static str> {
    let schedule = schedule(&plan.place, client, object).await?;
    Ok(phase_of(schedule.with_override(wanted).at(wall()).desired))
}

/// Everything that suspends the plan goes in one patch: whoever resumes does not mean one of three places. What somebody
/// asked for in spite of the schedule goes only if nothing suspends it.
fn resumed(object: &HibernatePlan) -> Result<(&'static str, Value)> {
    let Asked {
        wishes,
        wanted,
        suspended_at_phase: _,
        unread: _,
    } = Asked::read(object.annotations());
    // Also one that cannot be read: whoever wrote it meant to suspend.
    let there: Map<String, Value> = [SUSPEND, SUSPEND_UNTIL]
        .into_iter()
        .filter(|name| object.annotations().contains_key(*name))
        .map(|name| (name.to_owned(), Value::Null))
        .collect();
    let suspended = object.spec.suspend || wishes.suspend || !there.is_empty();
    let mut change = Map::new();
    if object.spec.suspend {
        change.insert("spec".to_owned(), json!({ "suspend": false }));
    }
    if !there.is_empty() {
        change.insert("metadata".to_owned(), json!({ "annotations": there }));
    }
    match (suspended, wanted) {
        (true, _) => Ok(("resumed", Value::Object(change))),
        (false, Some(_)) => Ok(("the schedule decides again", annotation(OVERRIDE, None))),
        (false, None) => bail!(
            "`{}` is not suspended, and nobody asked for anything",
            object.name_any()
        ),
    }
}

pub(crate) async fn retry(plan: PlanArguments) -> Result<()> {
    let client = plan.place.client().await?;
    let object = plan.place.plan(&client, &plan.name).await?;
    let status = object.status.clone().unwrap_or_default();
    let failed = status
        .targets
        .iter()
        .any(|t| matches!(t.state.as_str(), "Failed" | "Lost"));
    anyhow::ensure!(
        failed,
        "nothing of `{}` has failed: nothing is to be tried again",
        plan.name
    );
    // Each wish has another text.
    let value = rfc3339(wall());
    let told = "what has failed is tried again now".to_owned();
    patch(&client, &plan, told, annotation(RETRY, Some(&value))).await?;
    if plan.wait {
        let wanted = Asked::read(object.annotations()).wanted;
        let phase = phase_now(&plan, &client, &object, wanted).await?;
        let api = plan.place.plans(&client);
        follow_until(&api, &plan.name, phase, Some(&value), plan.timeout).await?;
    }
    Ok(())
}

fn annotation(name: &str, value: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": { name: value } } })
}

/// What a change makes of this annotation, if it speaks of it: `null` takes it off.
fn wished<'a>(change: &'a Value, name: &str) -> Option<&'a Value> {
    change.pointer("/metadata/annotations")?.get(name)
}

/// What is asked for, and that it has to wait if the plan is suspended: that wins over every other wish.
fn heeded(asked: String, change: &Value, object: &HibernatePlan, now: Time) -> String {
    let wishes = [OVERRIDE, RETRY].iter().filter_map(|name| wished(change, name));
    let something = wishes.into_iter().any(|value| !value.is_null());
    let suspended = Asked::read(object.annotations()).wishes;
    let until = suspended.suspend_until.is_some_and(|until| now < until);
    if something && (object.spec.suspend || suspended.suspend || until) {
        return format!(
            "{asked}; but it is suspended, and nothing is touched before `mainstay hibernate resume {}`",
            object.name_any()
        );
    }
    asked
}

async fn ask(
    client: &Client,
    plan: &PlanArguments,
    asked: String,
    changed: Value,
    phase: &str,
) -> Result<()> {
    patch(client, plan, asked, changed).await?;
    if plan.wait {
        follow_until(&plan.place.plans(client), &plan.name, phase, None, plan.timeout).await?;
    }
    Ok(())
}

async fn patch(client: &Client, plan: &PlanArguments, asked: String, changed: Value) -> Result<()> {
    let PlanArguments {
        name,
        wait: _,
        timeout: _,
        place,
    } = plan;
    let patched = place
        .plans(client)
        .patch(name, &PatchParams::default(), &Patch::Merge(&changed))
        .await;
    let patched = patched.with_context(|| {
        format!(
            "the HibernatePlan `{name}` in `{}` cannot be changed",
            place.namespace
        )
    })?;
    let told = Told {
        plan: name.clone(),
        asked: heeded(asked, &changed, &patched, wall()),
        changed,
    };
    print!("{}", written(&told, place.output, text)?);
    Ok(())
}

fn text(told: &Told) -> String {
    let Told {
        plan,
        asked,
        changed: _,
    } = told;
    format!("{plan}: {asked}\n`kubectl get hplan {plan} -o wide` says what comes of it\n")
}

/// Was this wish to try again granted? Before that the phase says nothing about it.
fn is_granted(status: &HibernatePlanStatus, retry: &str) -> bool {
    let state = status.state.as_ref();
    state.and_then(|s| s.get("retried")).and_then(Value::as_str) == Some(retry)
}

/// Says how far it is until it is there, or until it takes too long.
async fn follow_until(
    api: &Api<HibernatePlan>,
    name: &str,
    phase: &str,
    retry: Option<&str>,
    longest: Duration,
) -> Result<()> {
    let late = tokio::time::Instant::now() + longest;
    let mut said = String::new();
    loop {
        let status = api.get(name).await?.status.unwrap_or_default();
        let now = progress(&status);
        if now != said {
            eprintln!("{now}");
            said = now;
        }
        let granted = retry.is_none_or(|wish| is_granted(&status, wish));
        if granted && status.phase.as_deref() == Some(phase) {
            return Ok(());
        }
        if tokio::time::Instant::now() >= late {
            bail!(
                "the plan is not {phase} after {} s, and it is still asked for; last: {said}",
                longest.as_secs()
            );
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// One line: the phase, and how many targets are done.
fn progress(status: &HibernatePlanStatus) -> String {
    let phase = status.phase.as_deref().unwrap_or("new");
    let done = status.targets.iter().filter(|t| t.state == "Done").count();
    if status.targets.is_empty() {
        return format!("{phase}: {}", status.message);
    }
    format!(
        "{phase}, {done} of {} targets: {}",
        status.targets.len(),
        status.message
    )
}

#[cfg(test)]
mod tests;
