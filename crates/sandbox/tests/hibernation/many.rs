//! Many plans, and a whole operator with its lease: quiet when nothing happens, on time when something does.

use crate::bed::{Bed, CRON_JOBS, DEPLOYMENTS, HOUR, MINUTE, NOON, PLANS, kind, target};
use anyhow::{Context, Result, ensure};
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use mainstay_core::lease::LeaseTiming;
use mainstay_core::time::Time;
use operator::engine::queue::Limits;
use operator::engine::turns::Pace;
use operator::engine::watch::Scope;
use operator::tap::Tap;
use operator::{Config, Operator};
use sandbox::kube::faults::{Fault, On};
use serde_json::{Value, json};
use sim::kube::User;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How many plans there are, in how many namespaces, and how long a call to the API takes in virtual time while they
/// fall asleep or wake.
#[derive(Clone, Copy)]
struct Size {
    plans: u64,
    namespaces: u64,
    call: Duration,
}

/// In minutes after the first noon. The night is no longer than it must be: every look of every plan costs something.
const NIGHT: u32 = 70;
const MORNING: u32 = 140;

/// So many minutes after the first noon.
fn noon(minutes: u32) -> Time {
    NOON + MINUTE * minutes
}

/// One night in which there is a quiet hour, right after one by day.
fn schedule() -> Value {
    let night = json!({ "start": "13:10", "end": "14:20", "daysOfWeek": ["MON"] });
    json!({ "timezone": "UTC", "offHours": [night] })
}

/// A few of them, with every change; the thousand by name.
#[tokio::test(start_paused = true)]
async fn many_plans_are_quiet_but_for_the_lease_and_on_time() -> Result<()> {
    let size = Size {
        plans: 20,
        namespaces: 5,
        call: Duration::from_millis(1),
    };
    quiet_and_on_time(size).await
}

#[tokio::test(start_paused = true)]
#[ignore = "a thousand plans for some virtual hours are minutes of CPU without optimisation: run it by name, with --release"]
async fn a_thousand_plans_are_quiet_but_for_the_lease_and_on_time() -> Result<()> {
    let size = Size {
        plans: 1000,
        namespaces: 100,
        call: Duration::from_millis(1),
    };
    quiet_and_on_time(size).await
}

async fn quiet_and_on_time(size: Size) -> Result<()> {
    let bed = Bed::new().await?;
    let resources = populate(&bed, size).await?;
    let calls = Calls::default();
    let operator = operator(&bed, calls.tap(&bed)).await?;
    until(&bed, 5).await;
    quiet_hour(&bed, "by day").await?;
    act(&bed, size, NIGHT).await;
    every_plan_is(&bed, size, "Hibernated").await?;
    on_time("stop", calls.take(), noon(NIGHT), &resources)?;
    // Asleep each is looked at every minute, and there is nothing to write about it.
    quiet_hour(&bed, "of the night").await?;
    act(&bed, size, MORNING).await;
    every_plan_is(&bed, size, "Active").await?;
    on_time("start", calls.take(), noon(MORNING), &resources)?;
    operator.stop().await?;
    bed.end().await;
    Ok(())
}

/// It is so many minutes after the first noon.
async fn until(bed: &Bed, minutes: u32) {
    bed.later(noon(minutes).since(bed.clock.now())).await;
}

/// Everything is to be stopped or started at this minute: until four minutes after it.
async fn act(bed: &Bed, size: Size, minutes: u32) {
    until(bed, minutes - 1).await;
    let slow = Fault::Delay(size.call);
    let slow = (!size.call.is_zero()).then(|| bed.kubernetes.faults().inject(slow, On::default()));
    until(bed, minutes + 4).await;
    if let Some(slow) = slow {
        bed.kubernetes.faults().lift(slow);
    }
}

/// Plans of four sorts; what all of them stop and start, by the ids of resources.
async fn populate(bed: &Bed, size: Size) -> Result<BTreeSet<String>> {
    let cluster: Api<DynamicObject> = Api::all_with(bed.client.clone(), &kind("namespaces"));
    for number in 0..size.namespaces {
        let name = format!("team-{number}");
        create(&cluster, "namespaces", json!({ "name": name }), Value::Null).await?;
    }
    let mut resources = BTreeSet::new();
    for number in 0..size.plans {
        let namespace = format!("team-{}", number % size.namespaces);
        let api = |path: &str| -> Api<DynamicObject> {
            Api::namespaced_with(bed.client.clone(), &namespace, &kind(path))
        };
        let (web, job, nothing) = (
            format!("web-{number}"),
            format!("job-{number}"),
            format!("x-{number}"),
        );
        let noop = json!({ "name": nothing, "executor": "noop" });
        let workloads = |names: Value| target("apps", json!({ "names": names }));
        let (targets, mine) = match number % 4 {
            0 => (json!([noop]), vec![nothing]),
            1 => (json!([workloads(json!([web]))]), vec![deployment(&web)]),
            2 => (json!([workloads(json!([job]))]), vec![cron_job(&job)]),
            _ => (
                json!([workloads(json!([web, job])), noop]),
                vec![deployment(&web), cron_job(&job), nothing],
            ),
        };
        if mine.contains(&deployment(&web)) {
            let labels = json!({ "app": web });
            let containers = json!([{ "name": "c", "image": "i:1" }]);
            let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": containers } });
            let spec = json!({ "replicas": 3, "selector": { "matchLabels": labels }, "template": template });
            create(&api(DEPLOYMENTS), DEPLOYMENTS, json!({ "name": web }), spec).await?;
        }
        if mine.contains(&cron_job(&job)) {
            let containers = json!([{ "name": "c", "image": "i:1" }]);
            let pod = json!({ "spec": { "restartPolicy": "Never", "containers": containers } });
            let spec = json!({ "schedule": "*/5 * * * *", "jobTemplate": { "spec": { "template": pod } } });
            create(&api(CRON_JOBS), CRON_JOBS, json!({ "name": job }), spec).await?;
        }
        let spec = json!({ "schedule": schedule(), "targets": targets });
        let metadata = json!({ "name": format!("plan-{number}") });
        create(&api(PLANS), PLANS, metadata, spec).await?;
        resources.extend(mine);
    }
    Ok(resources)
}

fn deployment(name: &str) -> String {
    format!("{DEPLOYMENTS}/{name}")
}

fn cron_job(name: &str) -> String {
    format!("{CRON_JOBS}/{name}")
}

async fn create(api: &Api<DynamicObject>, path: &str, metadata: Value, spec: Value) -> Result<()> {
    let kind = kind(path);
    let name = if path == "namespaces" {
        "Namespace".to_owned()
    } else {
        kind.kind
    };
    let mut object = json!({ "apiVersion": kind.api_version, "kind": name, "metadata": metadata });
    if let (Value::Object(object), false) = (&mut object, spec.is_null()) {
        object.insert("spec".to_owned(), spec);
    }
    let object = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

/// Who the operator is: what service accounts ask for is counted, by verb and kind.
const OPERATOR: &str = "system:serviceaccount:default:mainstay-operator";

/// A whole operator.
struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn stop(self) -> Result<()> {
        self.stop.cancel();
        self.task.await.context("the operator panicked")
    }
}

/// An operator as it is in production: it leads by its lease, and every step of it asks whether it still does.
async fn operator(bed: &Bed, tap: Tap) -> Result<Running> {
    let user = User {
        name: OPERATOR.to_owned(),
        ..User::admin()
    };
    let config = Config {
        client: bed.kubernetes.client_as(user.clone()),
        lease_client: bed.kubernetes.client_as(user),
        scope: Scope::All,
        lease_namespace: "default".to_owned(),
        lease_name: "mainstay-operator".to_owned(),
        identity: "op".to_owned(),
        timing: LeaseTiming::default(),
        limits: Limits::default(),
        pace: Pace::default(),
        settings: operator::memgraph::Settings::default(),
        ring: None,
        hibernation: operator::hibernation::Settings {
            clock: bed.clock.clone(),
            tap,
            ..operator::hibernation::Settings::default()
        },
        http: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    };
    let operator = Operator::bind(config).await?;
    let stop = CancellationToken::new();
    let task = tokio::spawn({
        let stop = stop.clone();
        async move {
            if let Err(error) = operator.run(stop).await {
                eprintln!("operator: {error}");
            }
        }
    });
    Ok(Running { stop, task })
}

/// What the operator was let write so far, by verb and kind.
fn written(bed: &Bed) -> BTreeMap<String, u64> {
    bed.kubernetes.with_store(|store| {
        let mut written = BTreeMap::new();
        for (asked, times) in store.audit() {
            let reads = ["get", "list", "watch"].contains(&asked.verb.as_str());
            if asked.user == OPERATOR && !reads {
                *written
                    .entry(format!("{} {}", asked.verb, asked.resource))
                    .or_default() += times.allowed;
            }
        }
        written
    })
}

/// For an hour nothing is written but the lease, and that is.
async fn quiet_hour(bed: &Bed, which: &str) -> Result<()> {
    const RENEWAL: &str = "update leases";
    let (before, revision) = (written(bed), bed.writes());
    bed.later(HOUR).await;
    let (mut now, changes) = (written(bed), bed.writes() - revision);
    for (what, times) in before {
        if let Some(more) = now.get_mut(&what) {
            *more -= times;
        }
    }
    let renewals = now.remove(RENEWAL).unwrap_or_default();
    now.retain(|_, times| *times > 0);
    eprintln!("a quiet hour {which}: {renewals} renewals of the lease, besides {now:?}");
    ensure!(now.is_empty(), "written in a quiet hour {which}: {now:?}");
    ensure!(
        changes == renewals,
        "somebody else wrote in a quiet hour {which}: {changes} changes, {renewals} renewals"
    );
    // Otherwise this hour shows nothing about an operator that leads.
    let at_least = HOUR.as_secs() / LeaseTiming::default().duration().as_secs();
    ensure!(renewals >= at_least, "only {renewals} renewals {which}");
    Ok(())
}

async fn every_plan_is(bed: &Bed, size: Size, phase: &str) -> Result<()> {
    let plans: Api<DynamicObject> = Api::all_with(bed.client.clone(), &kind(PLANS));
    let plans = plans.list(&ListParams::default()).await?.items;
    ensure!(plans.len() as u64 == size.plans, "{} plans", plans.len());
    for plan in plans {
        let found = plan.data.pointer("/status/phase").cloned();
        ensure!(found == Some(json!(phase)), "{found:?}: {}", plan.data);
    }
    Ok(())
}

/// A call to an executor: `before stop x` or `after start x`, and when.
type Call = (String, Time);

/// Every call to an executor.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<Call>>>);

impl Calls {
    fn tap(&self, bed: &Bed) -> Tap {
        let (calls, clock) = (self.clone(), bed.clock.clone());
        Tap::new(move |place| {
            let what = place.split(' ').nth(1);
            if matches!(what, Some("stop" | "start")) {
                let call = (place.to_owned(), clock.now());
                calls.0.lock().unwrap_or_else(PoisonError::into_inner).push(call);
            }
            Box::pin(std::future::ready(()))
        })
    }

    fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Everything was asked for once and in this direction, nothing before it was due, and nearly all of it within a
/// second of that.
fn on_time(what: &str, calls: Vec<Call>, due: Time, resources: &BTreeSet<String>) -> Result<()> {
    let (mut asked, mut late) = (BTreeSet::new(), Vec::new());
    for (place, at) in calls {
        ensure!(at >= due, "{place} comes {:?} too early", due.since(at));
        if let Some(resource) = place.strip_prefix(&format!("before {what} ")) {
            ensure!(asked.insert(resource.to_owned()), "{place} is asked for twice");
        } else {
            let done = place.starts_with(&format!("after {what} "));
            ensure!(done, "{place} at the time to {what}");
            late.push(at.since(due));
        }
    }
    ensure!(
        asked == *resources,
        "asked to {what}: {asked:?}, not {resources:?}"
    );
    ensure!(late.len() == resources.len(), "{} answers", late.len());
    late.sort_unstable();
    let p99 = late.get(late.len() * 99 / 100).copied().context("nobody")?;
    let last = late.last().copied().unwrap_or_default();
    eprintln!(
        "{} resources, {what}: p99 {p99:?} late, the last {last:?}",
        late.len()
    );
    ensure!(p99 < Duration::from_secs(1), "p99 is {p99:?}");
    ensure!(last < MINUTE, "the last is {last:?} late");
    Ok(())
}
