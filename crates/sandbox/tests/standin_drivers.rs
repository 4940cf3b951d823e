//! The drivers that applications use, against a stand-in and a replica of it, and through a gateway.
//! They are installed into the tools folder, outside the checkout.

// Everything here is a test, also what is not marked as one.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing
)]

use bolt::message::Auth;
use gateway::{Config as GatewayConfig, Gateway, Plane, Resolve};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::ids::{DatabaseId, Ordinal, ProcessId, Term, VolumeId};
use mainstay_core::memgraph::objects::ClusterName;
use mainstay_core::memgraph::record::{Candidate, Main, Writes};
use mainstay_core::time::Time;
use sandbox::standin::memgraph::client::{Client, Outcome};
use sandbox::standin::memgraph::process::{Place, Process, Program};
use sandbox::standin::memgraph::{Config, CrashPoint, Fault, Profile, Server};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

const PYTHON: [&str; 2] = ["neo4j==6.4.1", "pymgclient==1.6.0"];
const JAVASCRIPT: &str = "neo4j-driver@6.3.0";

fn tools() -> PathBuf {
    let set = |key: &str| {
        std::env::var_os(key)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("MAINSTAY_TOOLS")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("mainstay").join("tools")))
        .or_else(|| set("HOME").map(|home| home.join(".cache").join("mainstay").join("tools")))
        .expect("one of MAINSTAY_TOOLS, XDG_CACHE_HOME and HOME")
        .join("drivers")
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers")
}

/// Runs something that must work; a toolchain that is missing is a failure like any other.
fn run(command: &mut Command) {
    let shown = format!("{command:?}");
    let output = command.output().unwrap_or_else(|error| {
        panic!("{shown}: {error}. This test needs python3 with venv, node with npm, and go")
    });
    assert!(
        output.status.success(),
        "{shown}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A folder that is complete, or is made so. The versions are in its name.
fn installed(name: &str, install: impl FnOnce(&Path)) -> PathBuf {
    let folder = tools().join(name);
    if !folder.join(".complete").exists() {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        install(&folder);
        std::fs::write(folder.join(".complete"), "").unwrap();
    }
    folder
}

/// Two tests need it at the same time; the first to come installs it, the other waits.
fn python() -> PathBuf {
    static READY: OnceLock<PathBuf> = OnceLock::new();
    let install = || {
        installed(&format!("python-{}", PYTHON.join("-")), |folder| {
            run(Command::new("python3").args(["-m", "venv"]).arg(folder));
            run(Command::new(folder.join("bin/pip"))
                .args(["install", "--quiet", "--disable-pip-version-check"])
                .args(PYTHON));
        })
    };
    READY.get_or_init(install).join("bin/python")
}

fn javascript() -> PathBuf {
    installed(
        &format!("javascript-{}", JAVASCRIPT.replace('@', "-")),
        |folder| {
            run(Command::new("npm")
                .args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"])
                .arg(folder)
                .arg(JAVASCRIPT));
        },
    )
}

/// Built each time: go keeps what it has built itself.
fn go() -> PathBuf {
    let program = tools().join("go-check");
    std::fs::create_dir_all(tools()).unwrap();
    run(Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(sources().join("go")));
    program
}

/// Stand-ins that run in a thread of their own: the drivers are waited for.
struct Pair {
    main: Server,
    _replica: Server,
    arguments: [String; 6],
}

async fn ask(client: &mut Client, query: &str) {
    match client.query(query).await.unwrap() {
        Outcome::Done(_) => {}
        Outcome::Refused { failure, .. } => panic!("{query}: {failure}"),
    }
}

async fn pair(profile: Profile, folder: &Path) -> Pair {
    let _ = std::fs::remove_dir_all(folder);
    let main = Server::start(Config::new(profile, folder.join("main")))
        .await
        .unwrap();
    let replica = Server::start(Config::new(profile, folder.join("replica")))
        .await
        .unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut on_replica = Client::connect(replica.bolt(), Auth::None).await.unwrap();
    ask(
        &mut on_replica,
        &format!("SET REPLICATION ROLE TO REPLICA WITH PORT {port}"),
    )
    .await;
    let mut on_main = Client::connect(main.bolt(), Auth::None).await.unwrap();
    ask(
        &mut on_main,
        &format!("REGISTER REPLICA r STRICT_SYNC TO '127.0.0.1:{port}'"),
    )
    .await;
    ask(&mut on_main, "CREATE USER admin IDENTIFIED BY 'secret'").await;
    let text = |text: &str| text.to_owned();
    let arguments = [
        main.bolt().ip().to_string(),
        main.bolt().port().to_string(),
        replica.bolt().ip().to_string(),
        replica.bolt().port().to_string(),
        text("admin"),
        text("secret"),
    ];
    Pair {
        main,
        _replica: replica,
        arguments,
    }
}

async fn with_pair(name: &str, check: impl Fn(&[String; 6]) -> Command) {
    for profile in [Profile::V3_6, Profile::V3_12] {
        let folder = std::env::temp_dir().join(format!("mainstay-drivers-{}-{name}", std::process::id()));
        let pair = pair(profile, &folder).await;
        let mut command = check(&pair.arguments);
        tokio::task::spawn_blocking(move || run(&mut command))
            .await
            .unwrap();
        drop(pair);
        let _ = std::fs::remove_dir_all(&folder);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs drivers; `cargo xtask test --only drivers` runs it"]
async fn the_python_drivers_read_write_and_see_errors() {
    let python = python();
    with_pair("python", |arguments| {
        let mut command = Command::new(&python);
        command.arg(sources().join("python/check.py")).args(arguments);
        command
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs drivers; `cargo xtask test --only drivers` runs it"]
async fn the_javascript_driver_reads_writes_and_sees_errors() {
    let folder = javascript();
    with_pair("javascript", |arguments| {
        let mut command = Command::new("node");
        command
            .arg(sources().join("javascript/check.mjs"))
            .args(arguments)
            .current_dir(&folder);
        command
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs drivers; `cargo xtask test --only drivers` runs it"]
async fn the_go_driver_reads_writes_and_sees_errors() {
    let program = go();
    with_pair("go", |arguments| {
        let mut command = Command::new(&program);
        command.args(arguments);
        command
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs drivers; `cargo xtask test --only drivers` runs it"]
async fn what_was_acknowledged_to_the_python_driver_survives_a_crash_at_each_point() {
    let python = python();
    let points = [
        CrashPoint::BeforeWal,
        CrashPoint::AfterWal,
        CrashPoint::AfterPrepare,
        CrashPoint::AfterLocalCommit,
        CrashPoint::BeforeReply,
    ];
    for point in points {
        let folder = std::env::temp_dir().join(format!("mainstay-drivers-{}-crash", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let program = Program {
            path: env!("CARGO_BIN_EXE_standin").into(),
            before: vec!["memgraph".to_owned()],
            stand_in: true,
        };
        let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (bolt, admin) = (free(), free());
        let place = Place {
            host: [127, 0, 0, 1].into(),
            bolt_port: bolt.local_addr().unwrap().port(),
            admin_port: admin.local_addr().unwrap().port(),
            data: folder.join("data"),
            flags: vec!["--storage-wal-file-flush-every-n-tx=1".to_owned()],
            environment: Vec::new(),
        };
        drop((bolt, admin));
        let mut process = Process::start(&program, &place).unwrap();
        process.open(Duration::from_secs(20)).await.unwrap();
        let mut load = Command::new(&python)
            .arg(sources().join("python/load.py"))
            .args(["127.0.0.1", &place.bolt_port.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(load.stdout.take().unwrap()).lines();
        let mut acknowledged = BTreeSet::new();
        for line in lines {
            acknowledged.insert(line.unwrap().parse::<i64>().unwrap());
            if acknowledged.len() == 30 {
                process.inject(&Fault::CrashAt { point }).unwrap();
            }
        }
        load.wait().unwrap();
        assert!(acknowledged.len() >= 30, "{point:?}: the load ended too early");
        process.ended(Duration::from_secs(20)).await.unwrap();
        let mut process = Process::start(&program, &place).unwrap();
        process.open(Duration::from_secs(20)).await.unwrap();
        let mut client = Client::connect(process.bolt(), Auth::None).await.unwrap();
        let stored = client.query("MATCH (n:W) RETURN n.id").await.unwrap();
        let stored: BTreeSet<i64> = stored
            .rows()
            .unwrap()
            .iter()
            .map(|row| row[0].as_int().unwrap())
            .collect();
        let missing: Vec<_> = acknowledged.difference(&stored).collect();
        assert!(missing.is_empty(), "{point:?}: {missing:?} are missing");
        let _ = std::fs::remove_dir_all(&folder);
    }
}
/// A record in which pod 0 serves in term 4.
fn serving() -> Record {
    let candidate = Candidate {
        pod: Ordinal(0),
        process: ProcessId(1),
        volume: VolumeId(1),
        peers: vec![],
        suspect: false,
        forced: None,
        claim: None,
    };
    let main = Main {
        pod: Ordinal(0),
        process: ProcessId(1),
        volume: VolumeId(1),
        database: DatabaseId(1),
        term: Term(4),
        epoch: Term(4),
        peers: vec![],
        suspect: false,
        history_from: Term(0),
        rebuilt: false,
        office_from: Term(1),
        rival: None,
    };
    Record::initialising(Term(4), candidate, Time::ZERO).serving(main, Writes::Open, Time::ZERO)
}

/// A gateway in front of the MAIN of a pair, told of records over a channel.
async fn gateway(pair: &Pair, record: Record) -> (Gateway, watch::Sender<Option<Record>>) {
    let mut on_main = Client::connect(pair.main.bolt(), Auth::basic("admin", "secret"))
        .await
        .unwrap();
    ask(&mut on_main, "MERGE (m:__mainstay) SET m.term = 4").await;
    let cluster: ClusterName = "memgraph-ha".parse().unwrap();
    let host = cluster.pod_host(Ordinal(0), "db");
    let mut config = GatewayConfig::new(cluster, "db", "drivers");
    config.timeouts.hold = Duration::from_millis(500);
    let (records, followed) = watch::channel(Some(record));
    let plane = Plane::Channel {
        records: followed,
        told: watch::channel(None).0,
    };
    let resolve = Resolve::Table([(host, pair.main.bolt())].into());
    (Gateway::start(config, plane, resolve).await.unwrap(), records)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs drivers; `cargo xtask test --only drivers` runs it"]
async fn the_python_drivers_notice_nothing_of_a_gateway_in_between() {
    let python = python();
    for profile in [Profile::V3_6, Profile::V3_12] {
        let folder = std::env::temp_dir().join(format!("mainstay-drivers-{}-gateway", std::process::id()));
        let pair = pair(profile, &folder).await;
        let (gateway, _records) = gateway(&pair, serving()).await;
        let mut arguments = pair.arguments.clone();
        arguments[1] = gateway.bolt().port().to_string();
        let mut command = Command::new(&python);
        command
            .arg(sources().join("python/check.py"))
            .args(&arguments)
            .arg("routed");
        tokio::task::spawn_blocking(move || run(&mut command))
            .await
            .unwrap();
        gateway.shutdown().await;
        drop(pair);
        let _ = std::fs::remove_dir_all(&folder);
    }
}

/// Did it hold somebody for too long?
async fn has_refused(gateway: &Gateway) -> bool {
    let mut admin = TcpStream::connect(gateway.admin()).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n";
    admin.write_all(request).await.unwrap();
    let mut text = String::new();
    admin.read_to_string(&mut text).await.unwrap();
    text.lines()
        .any(|line| line.contains("refused_total{") && line.contains("kind=\"held_too_long\""))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "installs drivers; `cargo xtask test --only drivers` runs it"]
async fn the_official_driver_retries_what_the_gateway_could_not_hold_any_longer() {
    let python = python();
    let folder = std::env::temp_dir().join(format!("mainstay-drivers-{}-retry", std::process::id()));
    let pair = pair(Profile::V3_12, &folder).await;
    let open = serving();
    let closed = open.with_writes(Writes::Closed);
    let (gateway, records) = gateway(&pair, closed.clone()).await;
    let mut command = Command::new(&python);
    command.arg(sources().join("python/retry.py")).args([
        "127.0.0.1",
        &gateway.bolt().port().to_string(),
        "admin",
        "secret",
    ]);
    let driver = tokio::task::spawn_blocking(move || run(&mut command));
    // Longer than the gateway holds: the driver has to come again.
    let refused = async {
        while !has_refused(&gateway).await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), refused)
        .await
        .expect("the gateway holds for half a second, then refuses and counts it");
    records.send_replace(Some(closed.with_writes(Writes::Open)));
    driver.await.unwrap();
    gateway.shutdown().await;
    drop(pair);
    let _ = std::fs::remove_dir_all(&folder);
}
