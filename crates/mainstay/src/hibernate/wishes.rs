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
use mainstay_core::schedule::{Desired, Schedule, rfc3339};
use mainstay_core::time::Time;
use serde::Serialize;
use serde_json::{Value, json};
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

/// The schedule without what somebody asked for before.
fn schedule(plan: &HibernatePlan) -> Result<Schedule> {
    Ok(follow(&plan.name_any(), &plan.spec, &[], None)?.schedule)
}

/// When a wish ends that is to last until the schedule agrees with it.
fn until_it_agrees(schedule: &Schedule, asleep: bool, now: Time) -> Result<Time> {
    let slot = schedule.at(now);
    let wanted = if asleep { Desired::Asleep } else { Desired::Awake };
    if slot.desired == wanted {
        let word = if asleep { "asleep" } else { "awake" };
        bail!(
            "the schedule wants it {word} now: {}; nothing is to be asked for",
            slot.why
        );
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
    let end = match until {
        Some(at) => millis(at)?,
        None => until_it_agrees(&schedule(&object)?, asleep, now)?,
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
    let asked = Asked::read(object.annotations());
    let (told, change) = if object.spec.suspend {
        ("resumed", json!({ "spec": { "suspend": false } }))
    } else if asked.wishes.suspend || asked.wishes.suspend_until.is_some() {
        let none = json!({ SUSPEND: null, SUSPEND_UNTIL: null });
        ("resumed", json!({ "metadata": { "annotations": none } }))
    } else if asked.wanted.is_some() {
        ("the schedule decides again", annotation(OVERRIDE, None))
    } else {
        bail!("`{}` is not suspended, and nobody asked for anything", plan.name);
    };
    let phase = match schedule(&object)?.at(wall()).desired {
        Desired::Asleep => "Hibernated",
        Desired::Awake => "Active",
    };
    ask(&client, &plan, told.to_owned(), change, phase).await
}

pub(crate) async fn retry(plan: PlanArguments) -> Result<()> {
    let client = plan.place.client().await?;
    let object = plan.place.plan(&client, &plan.name).await?;
    // Each wish has another text.
    let value = rfc3339(wall());
    let told = "what has failed is tried again now".to_owned();
    let phase = match schedule(&object)?.at(wall()).desired {
        Desired::Asleep => "Hibernated",
        Desired::Awake => "Active",
    };
    ask(&client, &plan, told, annotation(RETRY, Some(&value)), phase).await
}

fn annotation(name: &str, value: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": { name: value } } })
}

async fn ask(
    client: &Client,
    plan: &PlanArguments,
    asked: String,
    changed: Value,
    phase: &str,
) -> Result<()> {
    let PlanArguments {
        name,
        wait,
        timeout,
        place,
    } = plan;
    let api = place.plans(client);
    let patched = api
        .patch(name, &PatchParams::default(), &Patch::Merge(&changed))
        .await;
    patched.with_context(|| format!("the HibernatePlan `{name}` cannot be changed"))?;
    let told = Told {
        plan: name.clone(),
        asked,
        changed,
    };
    print!("{}", written(&told, place.output, text)?);
    if *wait {
        follow_until(&api, name, phase, *timeout).await?;
    }
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

/// Says how far it is until it is there, or until it takes too long.
async fn follow_until(api: &Api<HibernatePlan>, name: &str, phase: &str, longest: Duration) -> Result<()> {
    let late = tokio::time::Instant::now() + longest;
    let mut said = String::new();
    loop {
        let status = api.get(name).await?.status.unwrap_or_default();
        let now = progress(&status);
        if now != said {
            eprintln!("{now}");
            said = now;
        }
        if status.phase.as_deref() == Some(phase) {
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
mod tests {
    use super::*;
    use api::hibernation::TargetStatus;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube::api::PostParams;

    fn plan() -> HibernatePlan {
        serde_json::from_value(json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "HibernatePlan", "metadata": { "name": "p" },
            "spec": {
                "schedule": { "timezone": "UTC", "offHours": [{ "start": "20:00", "end": "06:00", "daysOfWeek": ["MON"] }] },
                "targets": [{ "name": "x", "executor": "noop" }],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_wish_lasts_until_the_schedule_agrees() {
        let schedule = schedule(&plan()).unwrap();
        // 2026-11-16, a Monday, 12:00 and 23:00 UTC.
        let (noon, night) = (Time(1_794_830_400_000), Time(1_794_870_000_000));
        assert_eq!(
            rfc3339(until_it_agrees(&schedule, false, night).unwrap()),
            "2026-11-17T06:00:00Z"
        );
        assert_eq!(
            rfc3339(until_it_agrees(&schedule, true, noon).unwrap()),
            "2026-11-16T20:00:00Z"
        );
        let useless = until_it_agrees(&schedule, false, noon).unwrap_err().to_string();
        assert!(useless.contains("nothing is to be asked for"), "{useless}");
        assert!(duration("3h").is_ok() && duration("soon").is_err() && duration("0s").is_err());
    }

    #[test]
    fn progress_is_one_line() {
        let target = |state: &str| TargetStatus {
            name: "x".to_owned(),
            executor: "noop".to_owned(),
            state: state.to_owned(),
            attempts: 0,
            message: None,
            retry_at: None,
        };
        let status = HibernatePlanStatus {
            phase: Some("WakingUp".to_owned()),
            message: "`web`: 2 to start".to_owned(),
            targets: vec![target("Done"), target("Running")],
            ..HibernatePlanStatus::default()
        };
        assert_eq!(progress(&status), "WakingUp, 1 of 2 targets: `web`: 2 to start");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_and_says_how_far_it_was() {
        let kubernetes = sandbox::kube::Kubernetes::new(5);
        let client = kubernetes.client();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for kind in api::kinds() {
            definitions.create(&PostParams::default(), &kind).await.unwrap();
        }
        let api: Api<HibernatePlan> = Api::default_namespaced(client);
        api.create(&PostParams::default(), &plan()).await.unwrap();
        // Nobody follows the plan.
        let ended = follow_until(&api, "p", "Active", Duration::from_mins(2)).await;
        let why = ended.unwrap_err().to_string();
        assert!(
            why.contains("not Active after 120 s") && why.contains("new"),
            "{why}"
        );
        kubernetes.shutdown().await;
    }
}
