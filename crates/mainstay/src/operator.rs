//! `mainstay operator`.

use crate::kubernetes::client;
use anyhow::{Context, Result};
use clap::Args;
use mainstay_core::lease::LeaseTiming;
use mainstay_core::memgraph::rules::Rules;
use operator::engine::queue::Limits;
use operator::engine::turns::Pace;
use operator::engine::watch::Scope;
use operator::memgraph::{ReplicaAddress, ReplicationPorts, Settings};
use operator::ring::RingSettings;
use operator::{Config, Operator};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How to run an operator.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only this namespace; all, if not given.
    #[arg(long, env = "MAINSTAY_NAMESPACE")]
    namespace: Option<String>,
    /// Where the leader lease is.
    #[arg(long, env = "POD_NAMESPACE", default_value = "default")]
    lease_namespace: String,
    /// The name of the leader lease.
    #[arg(long, default_value = "mainstay-operator")]
    lease_name: String,
    /// What this operator is called; usually the name of its pod.
    #[arg(long, env = "POD_NAME", default_value = "operator")]
    name: String,
    /// Where health, metrics and the state of all clusters are served.
    #[arg(long, env = "MAINSTAY_HTTP", default_value = "0.0.0.0:8080")]
    http: SocketAddr,
    /// The image of this program, for the gateways.
    #[arg(long, env = "MAINSTAY_IMAGE", default_value = "mainstay:latest")]
    image: String,
    /// Register replicas by the address of their pod, where nobody resolves names.
    #[arg(long, env = "MAINSTAY_REGISTER_BY_IP")]
    register_by_ip: bool,
    /// Replicas listen on this port and the next ones, one each, instead of all on 10000, where pods share one network.
    // There is a port for every number that a pod can have.
    #[arg(
        long,
        env = "MAINSTAY_REPLICATION_PORT_BASE",
        value_name = "PORT",
        value_parser = clap::value_parser!(u16).range(1..=65_280)
    )]
    replication_port_base: Option<u16>,
    /// How many clusters wait for a reconciliation before the queue counts as full. Nothing is lost by it.
    #[arg(long, default_value_t = 100)]
    reconcile_queue: usize,
    /// The same, for failover checks.
    #[arg(long, default_value_t = 50)]
    failover_queue: usize,
    /// Milliseconds between two looks at a cluster in which all is well.
    #[arg(long, default_value_t = 500)]
    interval_ms: u64,
    /// Milliseconds that a probe of a database may take. Three that are not answered, and no gateway that had an answer
    /// in two seconds, are a MAIN that hangs.
    #[arg(long, default_value_t = 450)]
    probe_ms: u64,
    /// Milliseconds that a login to a database may take.
    #[arg(long, default_value_t = 800)]
    login_ms: u64,
    /// Milliseconds after which a new process is believed to be the container that its pod shows.
    #[arg(long, default_value_t = 2_000)]
    settle_ms: u64,
    /// A kubeconfig; without it the pod's service account or the usual places.
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// A rule to forget, for a drill that shows that it can fail.
    #[cfg(feature = "rule-switches")]
    #[arg(long, value_name = "RULE", hide = true)]
    without_rule: Vec<mainstay_core::memgraph::rules::Rule>,
}

/// The arguments of an operator that forgets these rules.
#[cfg(feature = "rule-switches")]
pub(crate) fn without(rules: &[mainstay_core::memgraph::rules::Rule]) -> Vec<String> {
    rules
        .iter()
        .map(|rule| format!("--without-rule={}", rule.id()))
        .collect()
}

/// Runs until SIGTERM or Ctrl-C.
pub(crate) fn command(arguments: Arguments) -> ExitCode {
    let mut runtime = Builder::new_multi_thread();
    crate::serve_to_end(runtime.worker_threads(2), "operator", run(arguments))
}

async fn run(arguments: Arguments) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let kubeconfig = arguments.kubeconfig.clone();
    let operator = Operator::bind(config(
        arguments,
        client(kubeconfig.as_deref()).await?,
        // A connection of its own: a renewal must not wait behind a list.
        client(kubeconfig.as_deref()).await?,
    )?)
    .await?;
    if let Some(address) = operator.address() {
        eprintln!("mainstay operator: HTTP on {address}");
    }
    let stop = CancellationToken::new();
    let running = operator.run(stop.clone());
    let told = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        eprintln!("mainstay operator: ending");
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(running, told);
    Ok(ran?)
}

fn config(arguments: Arguments, client: kube::Client, lease_client: kube::Client) -> Result<Config> {
    let Arguments {
        namespace,
        lease_namespace,
        lease_name,
        name,
        http,
        image,
        register_by_ip,
        replication_port_base,
        reconcile_queue,
        failover_queue,
        interval_ms,
        probe_ms,
        login_ms,
        settle_ms,
        kubeconfig: _,
        #[cfg(feature = "rule-switches")]
        without_rule,
    } = arguments;
    #[cfg(feature = "rule-switches")]
    let rules = without_rule
        .iter()
        .fold(Rules::ALL, |rules, rule| rules.without(*rule));
    #[cfg(not(feature = "rule-switches"))]
    let rules = Rules::ALL;
    anyhow::ensure!(
        reconcile_queue > 0 && failover_queue > 0 && interval_ms > 0 && probe_ms > 0 && login_ms > 0,
        "queues and times must be larger than zero"
    );
    Ok(Config {
        client,
        lease_client,
        scope: namespace.map_or(Scope::All, Scope::Namespace),
        lease_namespace,
        lease_name,
        identity: name,
        timing: LeaseTiming::default(),
        limits: Limits {
            failover: failover_queue,
            reconcile: reconcile_queue,
        },
        pace: Pace::default(),
        settings: Settings {
            probe: Duration::from_millis(probe_ms),
            login: Duration::from_millis(login_ms),
            settle: Duration::from_millis(settle_ms),
            interval: Duration::from_millis(interval_ms),
            address: if register_by_ip {
                ReplicaAddress::Ip
            } else {
                ReplicaAddress::Name
            },
            ports: replication_port_base.map_or(ReplicationPorts::Same, ReplicationPorts::From),
            image: image.clone(),
            rules,
            ..Settings::default()
        },
        ring: Some(RingSettings {
            image,
            ..RingSettings::default()
        }),
        hibernation: ::operator::hibernation::Settings::default(),
        http,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn the_flags_have_the_defaults_of_the_seeds() {
        let only = Only::try_parse_from(["operator"]).unwrap_or_else(|error| panic!("{error}"));
        let Arguments {
            reconcile_queue,
            failover_queue,
            ..
        } = only.arguments;
        assert_eq!((reconcile_queue, failover_queue), (100, 50));
    }

    /// What is measured and documented of the operator must be what its command starts.
    #[test]
    fn the_flags_have_the_defaults_of_the_settings() {
        let only = Only::try_parse_from(["operator"]).unwrap_or_else(|error| panic!("{error}"));
        let Arguments {
            interval_ms,
            probe_ms,
            login_ms,
            settle_ms,
            ..
        } = only.arguments;
        let Settings {
            interval,
            probe,
            login,
            settle,
            ..
        } = Settings::default();
        let flags = [interval_ms, probe_ms, login_ms, settle_ms].map(Duration::from_millis);
        assert_eq!(flags, [interval, probe, login, settle]);
    }
}
