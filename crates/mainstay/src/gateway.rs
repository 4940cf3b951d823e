//! `mainstay gateway`.

use crate::kubernetes::client;
use anyhow::{Context, Result};
use clap::Args;
use gateway::{
    Back, BackendTls, Config, Credentials, Front, Gateway, Limits, Percent, Plane, Pod, PushToken, Reads,
    Resolve, Routing, ServerTls, Timeouts, files_suffice, raise_file_limit,
};
use mainstay_core::memgraph::objects::{BOLT_PORT, ClusterName};
use mainstay_core::memgraph::read_gate;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// How to run a gateway.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Which cluster: the name of its StatefulSet.
    #[arg(long, env = "MAINSTAY_CLUSTER")]
    cluster: ClusterName,
    /// In which namespace.
    #[arg(long, env = "POD_NAMESPACE", default_value = "default")]
    namespace: String,
    /// What this gateway is called among those of the cluster; usually the name of its pod.
    #[arg(long, env = "POD_NAME")]
    name: String,
    /// The uid of the pod it runs in: its Lease is deleted with the pod.
    #[arg(long, env = "POD_UID")]
    pod_uid: Option<String>,
    /// Where clients connect.
    #[arg(long, env = "MAINSTAY_LISTEN", default_value = "0.0.0.0:7687")]
    listen: SocketAddr,
    #[command(flatten)]
    reads: ReadsArguments,
    /// Where pushes, health and metrics are served.
    #[arg(long, env = "MAINSTAY_ADMIN", default_value = "0.0.0.0:7688")]
    admin: SocketAddr,
    /// Where the operator reaches the admin port, as HOST:PORT. Without it, the pod's address and that port.
    #[arg(long, env = "MAINSTAY_ADVERTISE")]
    advertise: Option<String>,
    /// The address of the pod it runs in.
    #[arg(long, env = "POD_IP")]
    pod_ip: Option<std::net::IpAddr>,
    /// A file with the token that a push must carry: a key of the Secret CLUSTER-gateway-token.
    #[arg(long, env = "MAINSTAY_PUSH_TOKEN_FILE")]
    push_token_file: Option<PathBuf>,
    /// The token itself. Anybody who can see the process can see it: a file is better.
    #[arg(
        long,
        env = "MAINSTAY_PUSH_TOKEN",
        hide_env_values = true,
        conflicts_with = "push_token_file"
    )]
    push_token: Option<String>,
    /// A file in the format of /etc/hosts to find pods in, where there is no DNS.
    #[arg(long, env = "MAINSTAY_HOSTS")]
    hosts: Option<PathBuf>,
    /// The port on which the database speaks Bolt.
    #[arg(long, default_value_t = BOLT_PORT)]
    backend_port: u16,
    /// How long a new connection is held while no MAIN takes it, as in 10s or 500ms.
    #[arg(long, env = "MAINSTAY_HOLD", default_value = "15s", value_parser = duration)]
    hold: Duration,
    /// How many connections of each port may be held; all of them if not given.
    #[arg(long)]
    max_waiting: Option<usize>,
    /// How many connections there may be.
    #[arg(long, default_value_t = Limits::default().connections)]
    max_connections: usize,
    /// How many connections of one address there may be; no limit if not given.
    #[arg(long)]
    max_per_source: Option<usize>,
    /// How many new connections there may be in a second; no limit if not given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    max_new_per_second: Option<u32>,
    /// How many of one address; no limit if not given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    max_new_per_second_per_source: Option<u32>,
    /// After which a client is closed that asks for nothing and waits for nothing; never if not given.
    #[arg(long, env = "MAINSTAY_IDLE", value_parser = duration)]
    idle: Option<Duration>,
    /// After which a client is closed that takes nothing of what it is sent.
    #[arg(long, env = "MAINSTAY_STALL_TIMEOUT", default_value = "5m", value_parser = duration)]
    stall_timeout: Duration,
    /// How long the database may take to accept a connection.
    #[arg(long, default_value = "1s", value_parser = duration)]
    connect_timeout: Duration,
    /// How long the database may take for each answer of login and check.
    #[arg(long, default_value = "2s", value_parser = duration)]
    check_timeout: Duration,
    /// How long a client may take to say its part of handshake and login.
    #[arg(long, default_value = "10s", value_parser = duration)]
    client_timeout: Duration,
    /// How long transactions may take to end before MAIN is moved. Keep it at half of the operator's own patience (10 s)
    /// and of what a connection is held: everybody else waits meanwhile.
    #[arg(long, env = "MAINSTAY_TRANSACTIONS", default_value = "5s", value_parser = duration)]
    transactions: Duration,
    /// Where neo4j:// drivers send writes, as HOST:PORT. Without it, where they came in.
    #[arg(long, env = "MAINSTAY_ROUTE_WRITER")]
    route_writer: Option<String>,
    /// Where neo4j:// drivers send reads, as HOST:PORT. Without it, to the port for reads, if there is one.
    #[arg(long, env = "MAINSTAY_ROUTE_READER")]
    route_reader: Option<String>,
    /// How long neo4j:// drivers may rely on that.
    #[arg(long, env = "MAINSTAY_ROUTE_TTL", default_value = "30s", value_parser = duration)]
    route_ttl: Duration,
    /// The certificate that clients are shown, in PEM, with those that lead to its authority. Without it connections
    /// are plain.
    #[arg(long, env = "MAINSTAY_TLS_CERT_FILE", requires = "tls_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Its key, in PEM.
    #[arg(long, env = "MAINSTAY_TLS_KEY_FILE", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,
    /// The authorities of which clients must show a certificate, in PEM. Without it no client needs one.
    #[arg(long, env = "MAINSTAY_TLS_CLIENT_CA_FILE", requires = "tls_cert_file")]
    tls_client_ca_file: Option<PathBuf>,
    /// The authorities of the databases' certificates, in PEM. Without it connections to databases are plain.
    #[arg(long, env = "MAINSTAY_BACKEND_CA_FILE")]
    backend_ca_file: Option<PathBuf>,
    /// The name in the databases' certificates; the host name of each pod if not given.
    #[arg(long, env = "MAINSTAY_BACKEND_SERVER_NAME", requires = "backend_ca_file")]
    backend_server_name: Option<String>,
    /// Clients come through a load balancer that speaks the PROXY protocol, version 2; all others are closed.
    #[arg(long, env = "MAINSTAY_PROXY_PROTOCOL")]
    proxy_protocol: bool,
    /// Tell databases who the client is, by the PROXY protocol. Memgraph does not understand it: for a proxy in between.
    #[arg(long, env = "MAINSTAY_BACKEND_PROXY_PROTOCOL")]
    backend_proxy_protocol: bool,
    /// How many of a hundred sessions are logged when they end.
    #[arg(long, env = "MAINSTAY_ACCESS_LOG_PERCENT", default_value = "0", value_parser = percent)]
    access_log_percent: Percent,
    /// A connection wakes a cluster that hibernates, and waits so long for it; if not given, nobody wakes it.
    #[arg(long, env = "MAINSTAY_WAKE_ON_CONNECT", value_parser = duration)]
    wake_on_connect: Option<Duration>,
    /// After SIGTERM /readyz fails, and for this long nothing else changes: nobody is refused who is still sent here.
    #[arg(long, env = "MAINSTAY_LEAVING", default_value = "3s", value_parser = duration)]
    leaving: Duration,
    /// How long sessions may go on after that. Keep both together below terminationGracePeriodSeconds.
    #[arg(long, env = "MAINSTAY_DRAIN", default_value = "20s", value_parser = duration)]
    drain: Duration,
    /// A kubeconfig. Without it: the pod's own service account, or what kubectl would use.
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
}

/// The port for reads.
#[derive(Args)]
struct ReadsArguments {
    /// Where clients connect that only read; no such port if not given.
    #[arg(long, env = "MAINSTAY_READS")]
    reads: Option<SocketAddr>,
    /// How far behind MAIN a replica may be that takes reads, in timestamps of MAIN.
    #[arg(long, default_value_t = 1_000, requires = "reads")]
    reads_max_lag: u64,
    /// The SYNC replica takes reads, too.
    #[arg(long, requires = "reads")]
    reads_include_sync: bool,
    /// MAIN takes reads while no replica does.
    #[arg(long, requires = "reads")]
    reads_fallback_to_main: bool,
    /// A file with the name that the gateway logs in with, to ask MAIN for its replicas; nobody if not given.
    #[arg(long, env = "MAINSTAY_USERNAME_FILE", requires = "password_file")]
    username_file: Option<PathBuf>,
    /// A file with its password.
    #[arg(long, env = "MAINSTAY_PASSWORD_FILE", requires = "username_file")]
    password_file: Option<PathBuf>,
}

impl ReadsArguments {
    fn config(self) -> Option<Reads> {
        let Self {
            reads,
            reads_max_lag,
            reads_include_sync,
            reads_fallback_to_main,
            username_file,
            password_file,
        } = self;
        Some(Reads {
            listen: reads?,
            policy: read_gate::Reads {
                max_lag: reads_max_lag,
                from_sync: reads_include_sync,
                from_main: reads_fallback_to_main,
            },
            credentials: match (username_file, password_file) {
                (Some(username), Some(password)) => Credentials::Files { username, password },
                _ => Credentials::None,
            },
        })
    }
}

/// Runs until SIGTERM or Ctrl-C, then drains.
pub(crate) fn command(arguments: Arguments) -> ExitCode {
    crate::serve_to_end(&mut Builder::new_multi_thread(), "gateway", run(arguments))
}

async fn run(arguments: Arguments) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let client = client(arguments.kubeconfig.as_deref()).await?;
    let resolve = arguments
        .hosts
        .clone()
        .map_or(Resolve::System, Resolve::HostsFile);
    let config = config(arguments);
    make_room(config.limits.connections);
    let mut gateway = Gateway::start(config, Plane::Kubernetes(client), resolve).await?;
    eprintln!(
        "mainstay gateway: Bolt on {}, admin on {}",
        gateway.bolt(),
        gateway.admin()
    );
    tokio::select! {
        _ = terminate.recv() => {}
        interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot listen for Ctrl-C")?,
        // At once: what is left of it would go on under a record that nobody follows.
        broken = gateway.broken() => return Err(broken.into()),
    }
    eprintln!("mainstay gateway: not ready any more; in a moment no new connections, and sessions may end");
    gateway.shutdown().await;
    Ok(())
}

/// As many files as this process may have. A gateway with too few still serves those that fit.
fn make_room(connections: usize) {
    match raise_file_limit() {
        Ok(limit) if files_suffice(limit, connections) => {}
        Ok(limit) => eprintln!(
            "mainstay gateway: warning: {} files may be open, fewer than two for each of {connections} connections; \
             raise the limit, or lower --max-connections",
            limit.unwrap_or_default()
        ),
        Err(error) => eprintln!("mainstay gateway: warning: the limit of open files was not raised: {error}"),
    }
}

fn config(arguments: Arguments) -> Config {
    let Arguments {
        cluster,
        namespace,
        name,
        pod_uid,
        listen,
        reads,
        admin,
        advertise,
        pod_ip,
        push_token_file,
        push_token,
        hosts: _,
        backend_port,
        hold,
        max_waiting,
        max_connections,
        max_per_source,
        max_new_per_second,
        max_new_per_second_per_source,
        idle,
        stall_timeout,
        connect_timeout,
        check_timeout,
        client_timeout,
        transactions,
        route_writer,
        route_reader,
        route_ttl,
        tls_cert_file,
        tls_key_file,
        tls_client_ca_file,
        backend_ca_file,
        backend_server_name,
        proxy_protocol,
        backend_proxy_protocol,
        access_log_percent,
        wake_on_connect,
        leaving,
        drain,
        kubeconfig: _,
    } = arguments;
    let pod = pod_uid.map(|uid| Pod {
        name: name.clone(),
        uid,
    });
    let reached = pod_ip.map(|ip| SocketAddr::new(ip, admin.port()).to_string());
    Config {
        cluster,
        namespace,
        name,
        pod,
        listen,
        reads: reads.config(),
        admin,
        advertise: advertise.or(reached),
        token: token(push_token_file, push_token),
        backend_port,
        routing: Routing {
            writer: route_writer,
            reader: route_reader,
            ttl: route_ttl,
        },
        front: Front {
            tls: server_tls(tls_cert_file.zip(tls_key_file), tls_client_ca_file),
            proxy_protocol,
            access_log: access_log_percent,
        },
        back: Back {
            tls: backend_ca_file.map(|ca| BackendTls {
                ca,
                server_name: backend_server_name,
            }),
            proxy_protocol: backend_proxy_protocol,
        },
        limits: Limits {
            connections: max_connections,
            per_source: max_per_source,
            new_per_second: max_new_per_second,
            new_per_second_per_source: max_new_per_second_per_source,
            waiting: max_waiting,
            ..Limits::default()
        },
        timeouts: Timeouts {
            hold,
            client: client_timeout,
            connect: connect_timeout,
            check: check_timeout,
            wake: wake_on_connect,
            idle,
            stall: stall_timeout,
            transactions,
            leaving,
            drain,
            ..Timeouts::default()
        },
    }
}

fn server_tls(files: Option<(PathBuf, PathBuf)>, client_ca: Option<PathBuf>) -> Option<ServerTls> {
    let (certificate, key) = files?;
    Some(ServerTls {
        certificate,
        key,
        client_ca,
    })
}

/// What a push must carry: a file is read with each one.
fn token(file: Option<PathBuf>, fixed: Option<String>) -> PushToken {
    match (file, fixed) {
        (Some(path), _) => PushToken::File(path),
        (None, Some(token)) => PushToken::Fixed(token),
        (None, None) => PushToken::None,
    }
}

/// `10s`, `500ms`, `2m`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: write 10s, 500ms or 2m");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

/// 0 to 100.
fn percent(text: &str) -> Result<Percent, String> {
    let number = text.parse().ok().and_then(Percent::new);
    number.ok_or_else(|| format!("`{text}` is not a number of 0 to 100"))
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
    fn durations_have_a_unit() {
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        for bad in ["", "s", "10", "1.5s", "-1s", "10h", "99999999999999999999s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_port_for_reads_has_flags_of_its_own() {
        let parse = |line: &str| Only::try_parse_from(line.split_whitespace());
        let base = "gateway --cluster mg --name x";
        let only = parse(&format!(
            "{base} --reads 0.0.0.0:7690 --reads-max-lag 7 --reads-fallback-to-main --username-file /u --password-file /p"
        ));
        let only = only.unwrap_or_else(|error| panic!("{error}"));
        let reads = config(only.arguments).reads.unwrap();
        assert_eq!(
            reads.policy,
            read_gate::Reads {
                max_lag: 7,
                from_sync: false,
                from_main: true
            }
        );
        assert_eq!(reads.listen.port(), 7690);
        assert!(matches!(reads.credentials, Credentials::Files { .. }));
        for bad in ["--reads-include-sync", "--reads 0.0.0.0:7690 --username-file /u"] {
            assert!(parse(&format!("{base} {bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn flags_become_the_configuration() {
        let line = "gateway --cluster mg --namespace db --name gw-1 --pod-uid 1-2 --pod-ip 10.0.0.9 \
                    --push-token-file /t --hold 3s --max-waiting 7 --admin 0.0.0.0:9000 --idle 90s --max-per-source 3 \
                    --max-new-per-second 5 --transactions 2500ms --route-reader reads:7687 --stall-timeout 40s --leaving 4s";
        let only = Only::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{error}"));
        let config = config(only.arguments);
        assert_eq!(config.pod.unwrap().name, "gw-1");
        assert_eq!(config.advertise.unwrap(), "10.0.0.9:9000");
        assert!(matches!(config.token, PushToken::File(_)));
        assert_eq!(
            (config.timeouts.hold, config.limits.waiting),
            (Duration::from_secs(3), Some(7))
        );
        let Limits {
            per_source,
            new_per_second,
            ..
        } = config.limits;
        assert_eq!((per_source, new_per_second), (Some(3), Some(5)));
        let Timeouts {
            idle,
            transactions,
            stall,
            leaving,
            ..
        } = config.timeouts;
        assert_eq!(
            (stall, leaving),
            (Duration::from_secs(40), Duration::from_secs(4))
        );
        assert_eq!(
            (idle, transactions),
            (Some(Duration::from_secs(90)), Duration::from_millis(2500))
        );
        assert_eq!(config.routing.reader.as_deref(), Some("reads:7687"));
        assert!(config.reads.is_none());
        assert!(config.front.tls.is_none() && config.back.tls.is_none());
        let secured = "gateway --cluster mg --name gw-1 --tls-cert-file /c --tls-key-file /k --tls-client-ca-file /ca \
                       --backend-ca-file /b --backend-server-name mg.example --proxy-protocol --access-log-percent 5";
        let only = Only::try_parse_from(secured.split_whitespace()).unwrap_or_else(|error| panic!("{error}"));
        let config = super::config(only.arguments);
        let tls = config.front.tls.unwrap();
        assert_eq!(
            (tls.certificate, tls.client_ca),
            ("/c".into(), Some("/ca".into()))
        );
        assert_eq!(
            config.back.tls.unwrap().server_name.as_deref(),
            Some("mg.example")
        );
        assert!(config.front.proxy_protocol && !config.back.proxy_protocol);
        assert_eq!(config.front.access_log, Percent::new(5).unwrap());
        for bad in [
            "--tls-cert-file /c",
            "--tls-client-ca-file /ca",
            "--access-log-percent 101",
        ] {
            let line = format!("gateway --cluster mg --name x {bad}");
            assert!(Only::try_parse_from(line.split_whitespace()).is_err(), "{bad}");
        }
        let bad = Only::try_parse_from("gateway --cluster Bad_Name --name x".split_whitespace());
        assert!(bad.is_err());
    }
}
