//! An API on a port, with the real controller behind it, and somebody who types.

use anyhow::{Context, Result, bail, ensure};
use api::HibernatePlan;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::{Client, ResourceExt};
use operator::engine::lease::Permit;
use operator::engine::queue::Limits;
use operator::engine::turns::Pace;
use operator::engine::watch::Scope;
use operator::hibernation::{Controller, Settings};
use sandbox::kube::Kubernetes;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) struct World {
    pub(crate) kubernetes: Kubernetes,
    pub(crate) client: Client,
    pub(crate) folder: PathBuf,
    /// When the night began, and when it ends: whole minutes.
    pub(crate) night: (jiff::Timestamp, jiff::Timestamp),
}

impl Drop for World {
    fn drop(&mut self) {
        let _: std::io::Result<()> = std::fs::remove_dir_all(&self.folder);
    }
}

/// What a command said.
pub(crate) struct Said {
    pub(crate) well: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl World {
    pub(crate) async fn new(name: &str) -> Result<Self> {
        let kubernetes = Kubernetes::new(9);
        let client = kubernetes.client();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for kind in api::kinds() {
            definitions.create(&PostParams::default(), &kind).await?;
        }
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listening = kubernetes.listen(at).await?;
        let folder = std::env::temp_dir().join(format!("mainstay-hibernate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("config"), listening.kubeconfig())?;
        let minute = jiff::Timestamp::now().as_second() / 60 * 60;
        let night = (
            jiff::Timestamp::from_second(minute - 2 * 3600)?,
            jiff::Timestamp::from_second(minute + 3 * 3600)?,
        );
        Ok(Self {
            kubernetes,
            client,
            folder,
            night,
        })
    }

    pub(crate) async fn create(&self, object: Value) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().context("no kind")?;
        let gvk = kube::core::GroupVersionKind::try_from(types)?;
        let api: Api<DynamicObject> =
            Api::default_namespaced_with(self.client.clone(), &ApiResource::from_gvk(&gvk));
        api.create(&PostParams::default(), &object).await?;
        Ok(())
    }

    /// A CronJob that is due every five minutes, and one that nobody wants to run.
    pub(crate) async fn jobs(&self) -> Result<()> {
        for (name, suspend) in [("report", false), ("old", true)] {
            let containers = json!([{ "name": "c", "image": "i:1" }]);
            let pod = json!({ "spec": { "restartPolicy": "Never", "containers": containers } });
            self.create(json!({
                "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": name },
                "spec": {
                    "schedule": "*/5 * * * *", "suspend": suspend,
                    "jobTemplate": { "spec": { "template": pod } },
                },
            }))
            .await?;
        }
        Ok(())
    }

    pub(crate) fn plan(&self, name: &str, target: &Value) -> Value {
        let clock = |at: jiff::Timestamp| at.strftime("%H:%M").to_string();
        let (start, end) = (clock(self.night.0), clock(self.night.1));
        let days = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];
        json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "HibernatePlan", "metadata": { "name": name },
            "spec": {
                "schedule": {
                    "timezone": "UTC", "offHours": [{ "start": start, "end": end, "daysOfWeek": days }],
                },
                "targets": [target],
            },
        })
    }

    pub(crate) fn operator(&self) -> JoinHandle<()> {
        let (settings, client) = (Settings::default(), self.client.clone());
        let controller = Controller::new(client, Scope::All, settings, Limits::default(), Pace::default());
        tokio::spawn(async move {
            let stop = CancellationToken::new();
            tokio::join!(controller.watch(), controller.work(Permit::ALWAYS, stop));
        })
    }

    /// Types `mainstay hibernate …`.
    pub(crate) async fn run(&self, line: &str) -> Result<Said> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay"));
        command
            .arg("hibernate")
            .args(line.split_whitespace())
            .current_dir(&self.folder)
            .env("KUBECONFIG", self.folder.join("config"))
            .stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        Ok(Said {
            well: output.status.success(),
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8(output.stderr)?,
        })
    }

    /// What it says; it must end well.
    pub(crate) async fn ok(&self, line: &str) -> Result<String> {
        let Said { well, out, err } = self.run(line).await?;
        ensure!(well, "{line}\n{out}\n{err}");
        Ok(out)
    }

    /// What it complains of; it must fail.
    pub(crate) async fn fails(&self, line: &str) -> Result<String> {
        let Said { well, out, err } = self.run(line).await?;
        ensure!(!well, "{line} ends well\n{out}\n{err}");
        Ok(err)
    }

    pub(crate) async fn status(&self, name: &str) -> Result<Value> {
        let plans: Api<HibernatePlan> = Api::default_namespaced(self.client.clone());
        Ok(serde_json::to_value(plans.get(name).await?.status)?)
    }

    pub(crate) async fn until(&self, name: &str, fits: impl Fn(&Value) -> bool) -> Result<()> {
        for _ in 0..600 {
            if fits(&self.status(name).await?) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("{name} does not get there: {:#}", self.status(name).await?)
    }

    /// Is it in this phase?
    pub(crate) async fn is(&self, name: &str, phase: &str) -> Result<bool> {
        Ok(self.status(name).await?.get("phase") == Some(&json!(phase)))
    }

    /// How often anything was written, ever.
    pub(crate) fn writes(&self) -> u64 {
        self.kubernetes.with_store(sim::kube::Store::revision).0
    }

    pub(crate) async fn until_phase(&self, name: &str, phase: &str) -> Result<()> {
        self.until(name, |status| status.get("phase") == Some(&json!(phase)))
            .await
    }

    pub(crate) async fn suspended(&self, name: &str) -> Result<bool> {
        let api: Api<k8s_openapi::api::batch::v1::CronJob> = Api::default_namespaced(self.client.clone());
        let spec = api.get(name).await?.spec.context("no spec")?;
        Ok(spec.suspend == Some(true))
    }

    pub(crate) async fn annotation(&self, name: &str) -> Result<Option<String>> {
        let plans: Api<HibernatePlan> = Api::default_namespaced(self.client.clone());
        Ok(plans.get("staging").await?.annotations().get(name).cloned())
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }

    /// A world with the plan `staging` in it, which nobody follows yet.
    pub(crate) async fn with_staging(name: &str) -> Result<Self> {
        let world = Self::new(name).await?;
        world.jobs().await?;
        let target = json!({ "name": "apps", "executor": "workloads" });
        world.create(world.plan("staging", &target)).await?;
        Ok(world)
    }
}
