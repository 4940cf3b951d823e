//! A stand-in that dies at the worst moment, as a process: nothing that was
//! acknowledged is missing afterwards, and what may be missing is exactly that.

// Everything here is a test, also what is not marked as one.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing
)]

use bolt::message::Auth;
use bolt::packstream::Value;
use sandbox::standin::memgraph::client::{Client, Outcome};
use sandbox::standin::memgraph::process::{Place, Process, Program, free_ports};
use sandbox::standin::memgraph::{CrashPoint, Fault};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_secs(30);

fn program() -> Program {
    Program {
        path: env!("CARGO_BIN_EXE_standin").into(),
        before: vec!["memgraph".to_owned()],
        stand_in: true,
    }
}

/// One server and its disk.
struct Server {
    place: Place,
    replication: u16,
    process: Process,
}

impl Server {
    async fn start(folder: &std::path::Path, name: &str, profile: &str, flush: u32) -> Self {
        let [bolt_port, admin_port, replication] = free_ports().unwrap();
        let place = Place {
            host: [127, 0, 0, 1].into(),
            bolt_port,
            admin_port,
            data: folder.join(name).join("data"),
            flags: vec![
                format!("--profile={profile}"),
                format!("--storage-wal-file-flush-every-n-tx={flush}"),
                "--time-scale=0.2".to_owned(),
            ],
            environment: Vec::new(),
        };
        let mut process = Process::start(&program(), &place).unwrap();
        process.open(PATIENCE).await.unwrap();
        Self {
            place,
            replication,
            process,
        }
    }

    async fn restart(&mut self) {
        self.process.ended(PATIENCE).await.unwrap();
        self.process = Process::start(&program(), &self.place).unwrap();
        self.process.open(PATIENCE).await.unwrap();
    }

    fn bolt(&self) -> SocketAddr {
        self.process.bolt()
    }

    async fn query(&self, query: &str) -> Outcome {
        let mut client = Client::connect(self.bolt(), Auth::None).await.unwrap();
        client.query(query).await.unwrap()
    }

    async fn must(&self, query: &str) {
        let outcome = self.query(query).await;
        assert!(outcome.failure().is_none(), "{query}: {outcome:?}");
    }

    async fn ids(&self) -> BTreeSet<i64> {
        let outcome = self.query("MATCH (n:W) RETURN n.id AS id").await;
        let rows = outcome.rows().expect("rows");
        let ids: Vec<i64> = rows.iter().map(|row| row[0].as_int().unwrap()).collect();
        let set: BTreeSet<i64> = ids.iter().copied().collect();
        assert_eq!(ids.len(), set.len(), "a write is there twice");
        set
    }

    async fn demote(&self) {
        self.must(&format!(
            "SET REPLICATION ROLE TO REPLICA WITH PORT {}",
            self.replication
        ))
        .await;
    }

    async fn register(&self, mode: &str, replica: &Self) {
        self.must(&format!(
            "REGISTER REPLICA r {mode} TO '127.0.0.1:{}'",
            replica.replication
        ))
        .await;
    }

    async fn until_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let outcome = self.query("SHOW REPLICAS").await;
            let info = outcome.rows().unwrap()[0][4].as_dict().unwrap().clone();
            let status = info["memgraph"].as_dict().unwrap()["status"].clone();
            if status == Value::from("ready") {
                return;
            }
            assert!(Instant::now() < deadline, "the replica is still {status:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("mainstay-crash-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// Writers that go on until their server is gone, or they have written enough.
struct Load {
    writers: JoinSet<Vec<i64>>,
    count: Arc<AtomicUsize>,
}

impl Load {
    /// Starts them, and comes back when some of their writes were acknowledged.
    async fn start(bolt: SocketAddr) -> Self {
        let mut load = Self {
            writers: JoinSet::new(),
            count: Arc::default(),
        };
        for writer in 0..3 {
            load.writers.spawn(write(bolt, writer, Arc::clone(&load.count)));
        }
        let deadline = Instant::now() + PATIENCE;
        while load.count.load(Ordering::Relaxed) < 5 {
            assert!(Instant::now() < deadline, "nothing is acknowledged");
            sleep(Duration::from_millis(5)).await;
        }
        load
    }

    async fn acknowledged(self) -> BTreeSet<i64> {
        self.writers.join_all().await.into_iter().flatten().collect()
    }
}

async fn write(bolt: SocketAddr, writer: i64, count: Arc<AtomicUsize>) -> Vec<i64> {
    let mut acknowledged = Vec::new();
    let mut client = Client::connect(bolt, Auth::None).await.expect("a connection");
    for number in 0..400 {
        let id = number * 3 + writer;
        match client.query(&format!("CREATE (:W {{id: {id}}})")).await {
            Ok(Outcome::Done(_)) => {
                acknowledged.push(id);
                count.fetch_add(1, Ordering::Relaxed);
            }
            // A replica that is away refuses for a while.
            Ok(Outcome::Refused { .. }) => sleep(Duration::from_millis(20)).await,
            Err(_) => break,
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn main_dies_at_each_point_and_has_every_acknowledged_write() {
    let points = [
        CrashPoint::BeforeWal,
        CrashPoint::AfterWal,
        CrashPoint::AfterPrepare,
        CrashPoint::AfterLocalCommit,
        CrashPoint::BeforeReply,
    ];
    for profile in ["3.6", "3.12"] {
        for mode in ["STRICT_SYNC", "SYNC"] {
            for point in points {
                let case = format!("{profile} {mode} {point:?}");
                let folder = folder("main");
                let mut main = Server::start(&folder, "main", profile, 1).await;
                let replica = Server::start(&folder, "replica", profile, 1).await;
                replica.demote().await;
                main.register(mode, &replica).await;
                let load = Load::start(main.bolt()).await;
                main.process.inject(&Fault::CrashAt { point }).unwrap();
                let acknowledged = load.acknowledged().await;
                assert!(!acknowledged.is_empty(), "{case}: nothing was written");
                main.restart().await;
                let stored = main.ids().await;
                let missing: Vec<_> = acknowledged.difference(&stored).collect();
                assert!(missing.is_empty(), "{case}: MAIN lost {missing:?}");
                let replicated = replica.ids().await;
                let missing: Vec<_> = acknowledged.difference(&replicated).collect();
                assert!(missing.is_empty(), "{case}: the replica lacks {missing:?}");
                let _ = std::fs::remove_dir_all(&folder);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_dies_at_each_point_and_is_brought_level() {
    for profile in ["3.6", "3.12"] {
        for point in [CrashPoint::ReplicaAfterPrepare, CrashPoint::ReplicaAfterFinalize] {
            let case = format!("{profile} {point:?}");
            let folder = folder("replica");
            let main = Server::start(&folder, "main", profile, 1).await;
            let mut replica = Server::start(&folder, "replica", profile, 1).await;
            replica.demote().await;
            main.register("STRICT_SYNC", &replica).await;
            let load = Load::start(main.bolt()).await;
            replica.process.inject(&Fault::CrashAt { point }).unwrap();
            replica.restart().await;
            let acknowledged = load.acknowledged().await;
            main.until_ready().await;
            // A finalize that was lost is found out by the next write.
            let _ = main.query("CREATE (:W {id: -1})").await;
            main.until_ready().await;
            let deadline = Instant::now() + PATIENCE;
            while !acknowledged.is_subset(&replica.ids().await) {
                assert!(
                    Instant::now() < deadline,
                    "{case}: the replica is not brought level"
                );
                sleep(Duration::from_millis(50)).await;
            }
            assert!(
                acknowledged.is_subset(&main.ids().await),
                "{case}: MAIN lost something"
            );
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_dies_in_the_middle_of_a_recovery_is_empty_and_recovers_again() {
    let folder = folder("clear");
    let main = Server::start(&folder, "main", "3.12", 1).await;
    let mut replica = Server::start(&folder, "replica", "3.12", 1).await;
    for id in 0..5 {
        main.must(&format!("CREATE (:W {{id: {id}}})")).await;
    }
    main.must("CREATE SNAPSHOT").await;
    replica.demote().await;
    let point = CrashPoint::DuringRecoveryClear;
    replica.process.inject(&Fault::CrashAt { point }).unwrap();
    main.register("ASYNC", &replica).await;
    replica.restart().await;
    main.until_ready().await;
    assert_eq!(replica.ids().await, (0..5).collect());
    let _ = std::fs::remove_dir_all(&folder);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_fsync_exactly_the_tail_is_lost_and_with_fsync_nothing() {
    for (flush, left) in [(100_000, 3), (1, 7)] {
        let folder = folder("tail");
        let mut main = Server::start(&folder, "main", "3.12", flush).await;
        for id in 0..3 {
            main.must(&format!("CREATE (:W {{id: {id}}})")).await;
        }
        // Ends well: what is written until here is safe.
        main.process.signal("TERM").unwrap();
        main.restart().await;
        main.process.inject(&Fault::LoseTail).unwrap();
        for id in 3..7 {
            main.must(&format!("CREATE (:W {{id: {id}}})")).await;
        }
        main.process.kill().await.unwrap();
        main.restart().await;
        assert_eq!(main.ids().await, (0..left).collect(), "flushed every {flush}");
        // Only once: the next power loss has to be ordered again.
        main.must("CREATE (:W {id: 100})").await;
        main.process.kill().await.unwrap();
        main.restart().await;
        assert!(main.ids().await.contains(&100));
        let _ = std::fs::remove_dir_all(&folder);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spoilt_log_stops_the_process_at_its_start() {
    let folder = folder("spoilt");
    let mut main = Server::start(&folder, "main", "3.12", 1).await;
    main.must("CREATE (:W {id: 1})").await;
    main.process.inject(&Fault::CorruptWal).unwrap();
    main.process.kill().await.unwrap();
    let mut process = Process::start(&program(), &main.place).unwrap();
    assert!(process.open(PATIENCE).await.is_err());
    let _ = std::fs::remove_dir_all(&folder);
}
