//! A whole operator in this process, asked over HTTP. In real time, as whoever asks. The clock of the plans is put
//! forward instead; that of the lease is not.

use crate::bed::{Bed, DEPLOYMENTS, HOUR, MINUTE, NOON};
use anyhow::{Context, Result, ensure};
use mainstay_core::lease::LeaseTiming;
use operator::engine::queue::Limits;
use operator::engine::turns::Pace;
use operator::engine::watch::Scope;
use operator::hibernation::{Executors, Settings};
use operator::http::client;
use operator::tap::Tap;
use operator::{Config, Operator, RunError};
use sandbox::kube::Kubernetes;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The machine is shared and slow at times.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Attended {
    /// Where it is asked.
    pub(crate) http: String,
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Attended {
    pub(crate) async fn start(kubernetes: &Kubernetes, hibernation: Settings) -> Result<Self> {
        let config = Config {
            client: kubernetes.client(),
            lease_client: kubernetes.client(),
            scope: Scope::All,
            lease_namespace: "default".to_owned(),
            lease_name: "mainstay-operator".to_owned(),
            identity: "op".to_owned(),
            timing: LeaseTiming::new(
                Duration::from_secs(8),
                Duration::from_secs(7),
                Duration::from_millis(500),
                Duration::from_secs(2),
            )?,
            limits: Limits::default(),
            pace: Pace::default(),
            settings: operator::memgraph::Settings::default(),
            ring: Some(operator::ring::RingSettings::default()),
            hibernation,
            http: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let operator = Operator::bind(config).await?;
        let http = operator.address().context("no address")?.to_string();
        let stop = CancellationToken::new();
        let task = tokio::spawn(operator.run(stop.clone()));
        Ok(Self { http, stop, task })
    }

    /// Of the plans of a bed, by its clock.
    pub(crate) async fn of(bed: &Bed, tap: Tap, executors: Executors) -> Result<Self> {
        let settings = Settings {
            // Less than what is left of the lease, or nothing is ever sent.
            call: Duration::from_secs(2),
            clock: bed.clock.clone(),
            tap,
            executors,
            ..Settings::default()
        };
        Self::start(&bed.kubernetes, settings).await
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.stop.cancel();
        Ok(self.task.await??)
    }

    /// The value of a metric with its labels, as its page has it; nothing if it is not there.
    pub(crate) async fn metric(&self, name: &str) -> Result<Option<u64>> {
        let page = client::get(&self.http, "/metrics", None, Duration::from_secs(5)).await?;
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.map(str::parse).transpose()?)
    }

    /// Waits until a metric is so high: a turn is counted when it is over.
    pub(crate) async fn until_counted(&self, name: &str, least: u64) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let value = self.metric(name).await?;
            if value.is_some_and(|value| value >= least) {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "{name} is {value:?} and not {least}\n{}",
                client::get(&self.http, "/metrics", None, Duration::from_secs(5)).await?
            );
            sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Bed {
    /// The clock of the plans is put to so many hours after the first noon and five minutes, and somebody touches the
    /// plan, so that it is looked at. Then it is in this phase.
    pub(crate) async fn put_to(&self, hours: u32, phase: &str) -> Result<()> {
        let then = NOON + HOUR * hours + MINUTE * 5;
        self.clock.jump(then.since(self.clock.now()));
        self.touch().await?;
        self.until_phase(phase).await
    }

    /// Somebody touches the plan, so that it is looked at.
    pub(crate) async fn touch(&self) -> Result<()> {
        let now = self.clock.now().0.to_string();
        self.annotate("example.com/touched", Some(&now)).await
    }

    /// Waits until the plan is in this phase, in real time.
    pub(crate) async fn until_phase(&self, phase: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.phase().await.unwrap_or_default() != phase {
            let late = Instant::now() > deadline;
            ensure!(!late, "not {phase}: {:#?}", self.hplan().await?.status);
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Waits until a Deployment has so many, in real time.
    pub(crate) async fn until_replicas(&self, name: &str, replicas: i64) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.replicas(DEPLOYMENTS, name).await? != replicas {
            let late = Instant::now() > deadline;
            ensure!(
                !late,
                "{name} is not {replicas}: {:#?}",
                self.hplan().await?.status
            );
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}
