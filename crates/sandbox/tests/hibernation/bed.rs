//! A small Kubernetes whose workloads do at once what they are asked, and a controller in this process. Time stands
//! still while anything is done, and passes at once when nothing is.

use anyhow::{Context, Result, bail};
use api::HibernatePlan;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use mainstay_core::time::Time;
use operator::clock::Clock;
use operator::engine::lease::Permit;
use operator::engine::queue::Limits;
use operator::engine::turns::Pace;
use operator::engine::watch::Scope;
use operator::hibernation::{Controller, Executors, Settings};
use operator::tap::Tap;
use sandbox::kube::Kubernetes;
use serde_json::{Value, json};
use sim::kube::Kind;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// 2026-11-16, a Monday, 12:00 UTC.
pub(crate) const NOON: Time = Time(1_794_830_400_000);
pub(crate) const HOUR: Duration = Duration::from_hours(1);
pub(crate) const MINUTE: Duration = Duration::from_mins(1);
pub(crate) const PLAN: &str = "my-plan";

pub(crate) struct Bed {
    pub(crate) kubernetes: Kubernetes,
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    workloads: JoinHandle<()>,
}

/// A controller in this process.
pub(crate) struct Running {
    task: JoinHandle<()>,
}

impl Running {
    /// It is gone from one moment to the next.
    pub(crate) async fn kill(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How the API serves a kind.
pub(crate) fn kind(path: &str) -> ApiResource {
    let (api_version, plural) = path.rsplit_once('/').unwrap_or(("v1", path));
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let kind = match plural {
        "deployments" => "Deployment",
        "statefulsets" => "StatefulSet",
        "cronjobs" => "CronJob",
        "configmaps" => "ConfigMap",
        "hibernateplans" => "HibernatePlan",
        "scheduleexceptions" => "ScheduleException",
        "memgraphclusters" => "MemgraphCluster",
        "scaledobjects" => "ScaledObject",
        "widgets" => "Widget",
        _ => "",
    };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

pub(crate) const DEPLOYMENTS: &str = "apps/v1/deployments";
pub(crate) const STATEFUL_SETS: &str = "apps/v1/statefulsets";
pub(crate) const CRON_JOBS: &str = "batch/v1/cronjobs";
pub(crate) const PLANS: &str = "mainstay.dev/v1alpha1/hibernateplans";
pub(crate) const EXCEPTIONS: &str = "mainstay.dev/v1alpha1/scheduleexceptions";

/// Two short nights a day, 14:00 to 16:00 and 19:00 to 21:00 UTC: every virtual second costs a little.
pub(crate) fn nightly() -> Value {
    let night = |start: &str, end: &str| json!({ "start": start, "end": end, "daysOfWeek": ["MON", "TUE"] });
    json!({ "timezone": "UTC", "offHours": [night("14:00", "16:00"), night("19:00", "21:00")] })
}

/// One target of workloads.
pub(crate) fn target(name: &str, parameters: impl Into<Option<Value>>) -> Value {
    match parameters.into().filter(|parameters| !parameters.is_null()) {
        Some(parameters) => json!({ "name": name, "executor": "workloads", "parameters": parameters }),
        None => json!({ "name": name, "executor": "workloads" }),
    }
}

impl Bed {
    pub(crate) async fn new() -> Result<Self> {
        let kubernetes = Kubernetes::new(7);
        let client = kubernetes.client();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for kind in api::kinds() {
            let created = definitions.create(&PostParams::default(), &kind).await;
            created.context("a kind is refused")?;
        }
        let workloads = tokio::spawn(obey(kubernetes.clone()));
        Ok(Self {
            kubernetes,
            client,
            clock: Clock::starting_at(NOON),
            workloads,
        })
    }

    pub(crate) async fn end(self) {
        self.workloads.abort();
        self.kubernetes.shutdown().await;
    }

    pub(crate) fn operator(&self) -> Running {
        self.operator_with(Tap::default(), Executors::in_cluster())
    }

    pub(crate) fn operator_with(&self, tap: Tap, executors: Executors) -> Running {
        let settings = Settings {
            clock: self.clock.clone(),
            tap,
            executors,
            ..Settings::default()
        };
        let client = self.client.clone();
        let controller = Controller::new(client, Scope::All, settings, Limits::default(), Pace::default());
        let task = tokio::spawn(async move {
            let stop = CancellationToken::new();
            tokio::join!(controller.watch(), controller.work(Permit::ALWAYS, stop));
        });
        Running { task }
    }

    pub(crate) fn api(&self, path: &str) -> Api<DynamicObject> {
        Api::default_namespaced_with(self.client.clone(), &kind(path))
    }

    pub(crate) async fn create(&self, path: &str, name: &str, spec: Value) -> Result<DynamicObject> {
        self.create_with(path, json!({ "name": name }), spec).await
    }

    pub(crate) async fn create_with(
        &self,
        path: &str,
        metadata: Value,
        spec: Value,
    ) -> Result<DynamicObject> {
        let kind = kind(path);
        let object = json!({
            "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object)?;
        Ok(self.api(path).create(&PostParams::default(), &object).await?)
    }

    /// A workload with so many replicas.
    pub(crate) async fn workload(&self, path: &str, name: &str, replicas: u32) -> Result<()> {
        let labels = json!({ "app": name });
        let spec = json!({
            "replicas": replicas, "serviceName": name,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "c", "image": "i:1" }] } },
        });
        let metadata = json!({ "name": name, "labels": labels });
        self.create_with(path, metadata, spec).await?;
        Ok(())
    }

    pub(crate) async fn cron_job(&self, name: &str, suspend: bool) -> Result<()> {
        let pod =
            json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i:1" }] } });
        let spec = json!({
            "schedule": "*/5 * * * *", "suspend": suspend, "jobTemplate": { "spec": { "template": pod } },
        });
        self.create(CRON_JOBS, name, spec).await?;
        Ok(())
    }

    /// The plan `my-plan` with these targets, every night.
    pub(crate) async fn plan(&self, targets: Value) -> Result<()> {
        self.plan_with(PLAN, json!({ "schedule": nightly(), "targets": targets }))
            .await
    }

    pub(crate) async fn plan_with(&self, name: &str, spec: Value) -> Result<()> {
        self.create(PLANS, name, spec).await?;
        Ok(())
    }

    pub(crate) async fn get(&self, path: &str, name: &str) -> Result<DynamicObject> {
        Ok(self.api(path).get(name).await?)
    }

    pub(crate) async fn replicas(&self, path: &str, name: &str) -> Result<i64> {
        let object = self.get(path, name).await?;
        let replicas = object.data.pointer("/spec/replicas").and_then(Value::as_i64);
        replicas.context("no replicas")
    }

    pub(crate) async fn suspended(&self, name: &str) -> Result<bool> {
        let object = self.get(CRON_JOBS, name).await?;
        Ok(object.data.pointer("/spec/suspend") == Some(&Value::Bool(true)))
    }

    pub(crate) async fn patch(&self, path: &str, name: &str, change: Value) -> Result<()> {
        let params = PatchParams::default();
        self.api(path).patch(name, &params, &Patch::Merge(change)).await?;
        Ok(())
    }

    pub(crate) async fn scale(&self, name: &str, replicas: u32) -> Result<()> {
        self.patch(DEPLOYMENTS, name, json!({ "spec": { "replicas": replicas } }))
            .await
    }

    pub(crate) async fn annotate(&self, name: &str, value: Option<&str>) -> Result<()> {
        let patch = json!({ "metadata": { "annotations": { name: value } } });
        self.patch(PLANS, PLAN, patch).await
    }

    pub(crate) async fn hplan(&self) -> Result<HibernatePlan> {
        let plans: Api<HibernatePlan> = Api::default_namespaced(self.client.clone());
        Ok(plans.get(PLAN).await?)
    }

    pub(crate) async fn phase(&self) -> Result<String> {
        let status = self.hplan().await?.status.unwrap_or_default();
        Ok(status.phase.unwrap_or_default())
    }

    /// Is this said of the plan?
    pub(crate) async fn condition(&self, kind: &str) -> Result<(bool, String)> {
        let status = self.hplan().await?.status.unwrap_or_default();
        let found = status.conditions.into_iter().find(|c| c.kind == kind);
        let condition = found.with_context(|| format!("no condition {kind}"))?;
        Ok((condition.status == "True", condition.reason))
    }

    pub(crate) async fn restore_map(&self) -> Result<ConfigMap> {
        let maps: Api<ConfigMap> = Api::default_namespaced(self.client.clone());
        Ok(maps.get(&format!("hibernator-restore-{PLAN}")).await?)
    }

    /// It is this much later.
    pub(crate) async fn later(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// It is so many hours after the first noon, and five minutes: 2 and 3 are in the first night, 4 is
    /// the first morning, 7 and 8 are in the second night, 9 is the second morning.
    pub(crate) async fn at(&self, hours: u64) {
        let then = NOON + HOUR * u32::try_from(hours).unwrap_or(u32::MAX) + MINUTE * 5;
        self.later(then.since(self.clock.now())).await;
    }

    /// Waits until the plan is in this phase, for an hour at most.
    pub(crate) async fn until(&self, phase: &str) -> Result<()> {
        for _ in 0..720 {
            if self.phase().await.unwrap_or_default() == phase {
                return Ok(());
            }
            self.later(Duration::from_secs(5)).await;
        }
        let status = self.hplan().await?.status;
        bail!("not {phase}: {status:#?}")
    }

    /// How often anything was written, ever.
    pub(crate) fn writes(&self) -> u64 {
        self.kubernetes.with_store(|store| store.revision().0)
    }

    /// What Events said about the plan, by their reasons.
    pub(crate) async fn events(&self) -> Result<Vec<String>> {
        let events: Api<k8s_openapi::api::core::v1::Event> = Api::default_namespaced(self.client.clone());
        let listed = events.list(&ListParams::default()).await?;
        Ok(listed.items.into_iter().filter_map(|e| e.reason).collect())
    }
}

/// Whoever runs workloads, in every namespace: each is at once what it is asked to be.
async fn obey(kubernetes: Kubernetes) {
    let mut changes = kubernetes.changes();
    let client = kubernetes.client();
    loop {
        for (path, kind_of_store) in [
            (DEPLOYMENTS, Kind::DEPLOYMENT),
            (STATEFUL_SETS, Kind::STATEFUL_SET),
        ] {
            // Looked at in the store itself: with many plans a list for each change would be most of the work.
            let behind: Vec<Behind> = kubernetes.with_store(|store| {
                let all = store.list(kind_of_store, None).into_iter();
                all.filter_map(Behind::of).collect()
            });
            for Behind {
                namespace,
                name,
                status,
            } in behind
            {
                let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &kind(path));
                let patch = Patch::Merge(json!({ "status": status }));
                let _ = api.patch_status(&name, &PatchParams::default(), &patch).await;
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// A workload that is not yet what it is asked to be, and what it becomes.
struct Behind {
    namespace: String,
    name: String,
    status: Value,
}

impl Behind {
    fn of(object: &Value) -> Option<Self> {
        let at = |place: &str| object.pointer(place).cloned().unwrap_or_default();
        let wanted = at("/spec/replicas");
        let status = json!({
            "observedGeneration": at("/metadata/generation"), "replicas": wanted, "readyReplicas": wanted,
        });
        let known = at("/status");
        let same = |field: &str| known.get(field) == status.get(field);
        let there = ["observedGeneration", "replicas", "readyReplicas"]
            .into_iter()
            .all(same);
        let stuck = object.pointer("/metadata/annotations/stuck").is_some();
        (!there && !stuck).then(|| Self {
            namespace: at("/metadata/namespace").as_str().unwrap_or_default().to_owned(),
            name: at("/metadata/name").as_str().unwrap_or_default().to_owned(),
            status,
        })
    }
}
