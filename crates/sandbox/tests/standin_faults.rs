//! Every fault that can be ordered, ordered.

// Everything here is a test, also what is not marked as one.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing
)]

use bolt::message::Auth;
use bolt::packstream::Value;
use sandbox::standin::memgraph::client::{Client, ClientError, Outcome};
use sandbox::standin::memgraph::{Config, Effect, Fault, OnBusyDrop, Profile, RpcKind, Rule, Server, Timing};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::{sleep, timeout};

/// A MAIN and a replica of it, ten times as fast as real ones.
struct Pair {
    main: Server,
    replica: Server,
    port: u16,
    folder: PathBuf,
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

async fn pair(name: &str, mode: &str) -> Pair {
    let folder = std::env::temp_dir().join(format!("mainstay-faults-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let config = |node: &str| {
        let mut config = Config::new(Profile::V3_12, folder.join(node));
        config.timing = Timing::new(0.1, Duration::from_secs(1));
        config.admin_port = Some(0);
        config
    };
    let main = Server::start(config("main")).await.unwrap();
    let replica = Server::start(config("replica")).await.unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let pair = Pair {
        main,
        replica,
        port,
        folder,
    };
    done(
        &pair.replica,
        &format!("SET REPLICATION ROLE TO REPLICA WITH PORT {port}"),
    )
    .await;
    done(&pair.main, &pair.registration(mode)).await;
    pair
}

impl Pair {
    fn registration(&self, mode: &str) -> String {
        format!("REGISTER REPLICA r {mode} TO '127.0.0.1:{}'", self.port)
    }
}

async fn ask(server: &Server, query: &str) -> Outcome {
    let mut client = Client::connect(server.bolt(), Auth::None).await.unwrap();
    client.query(query).await.unwrap()
}

async fn done(server: &Server, query: &str) -> Vec<Vec<Value<'static>>> {
    match ask(server, query).await {
        Outcome::Done(table) => table.rows,
        Outcome::Refused { failure, .. } => panic!("{query}: {failure}"),
    }
}

async fn refused(server: &Server, query: &str) -> String {
    match ask(server, query).await {
        Outcome::Done(table) => panic!("{query} gave {table:?}"),
        Outcome::Refused { failure, .. } => failure.message.into_owned(),
    }
}

async fn count(server: &Server) -> i64 {
    done(server, "MATCH (n) RETURN count(n)").await[0][0]
        .as_int()
        .unwrap()
}

async fn status(server: &Server) -> String {
    let rows = done(server, "SHOW REPLICAS").await;
    let info = rows[0][4].as_dict().unwrap();
    info["memgraph"].as_dict().unwrap()["status"]
        .as_str()
        .unwrap()
        .to_owned()
}

async fn until(server: &Server, wanted: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while status(server).await != wanted {
        assert!(
            Instant::now() < deadline,
            "is {} and not {wanted}",
            status(server).await
        );
        sleep(Duration::from_millis(10)).await;
    }
}

fn link(rpc: RpcKind, effect: Effect, times: Option<u32>) -> Fault {
    Fault::Link(Rule {
        peer: None,
        rpc: Some(rpc),
        effect,
        times,
    })
}

#[tokio::test]
async fn a_refused_link_makes_a_replica_invalid_and_healing_brings_it_back() {
    let pair = pair("refuse", "SYNC").await;
    let rule = Rule {
        peer: Some("127.0.0.1".to_owned()),
        rpc: None,
        effect: Effect::Refuse,
        times: None,
    };
    pair.main.inject(&Fault::Link(rule)).unwrap();
    until(&pair.main, "invalid").await;
    pair.main.inject(&Fault::Heal).unwrap();
    until(&pair.main, "ready").await;
}

#[tokio::test]
async fn a_dropped_answer_aborts_a_write_that_the_replica_had_prepared() {
    let pair = pair("drop", "STRICT_SYNC").await;
    let fault = link(RpcKind::Prepare, Effect::DropAnswer, Some(1));
    pair.main.inject(&fault).unwrap();
    let text = refused(&pair.main, "CREATE (:W)").await;
    assert!(text.contains("RPC timeout while replicating"), "{text}");
    assert_eq!((count(&pair.main).await, count(&pair.replica).await), (0, 0));
}

#[tokio::test]
async fn a_delayed_request_arrives_later() {
    let pair = pair("delay", "SYNC").await;
    let fault = link(RpcKind::Prepare, Effect::Delay(300), Some(1));
    pair.main.inject(&fault).unwrap();
    let began = Instant::now();
    done(&pair.main, "CREATE (:W)").await;
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(count(&pair.replica).await, 1);
}

#[tokio::test]
async fn an_ordered_registration_failure_has_its_number_and_comes_once() {
    let pair = pair("register", "ASYNC").await;
    done(&pair.main, "DROP REPLICA r").await;
    pair.main.inject(&Fault::FailRegister { code: 6 }).unwrap();
    let text = refused(&pair.main, &pair.registration("ASYNC")).await;
    assert_eq!(text, "Couldn't register replica r. Error: 6");
    done(&pair.main, &pair.registration("ASYNC")).await;
}

#[tokio::test]
async fn a_taken_port_is_an_error_although_the_role_is_changed() {
    let pair = pair("bind", "ASYNC").await;
    pair.main.inject(&Fault::BindFail).unwrap();
    let text = refused(&pair.main, "SET REPLICATION ROLE TO REPLICA WITH PORT 10000").await;
    assert_eq!(text, "Couldn't set role to replica!");
    assert_eq!(
        done(&pair.main, "SHOW REPLICATION ROLE").await,
        [[Value::from("replica")]]
    );
}

/// Brings a replica into `recovery` and keeps it there.
async fn recovering(pair: &Pair) {
    done(&pair.main, "DROP REPLICA r").await;
    done(&pair.main, "CREATE (:W)").await;
    pair.main.inject(&Fault::SlowRecovery { ms: 60_000 }).unwrap();
    done(&pair.main, &pair.registration("ASYNC")).await;
    until(&pair.main, "recovery").await;
}

#[tokio::test]
async fn a_drop_during_recovery_ends_the_process_if_ordered() {
    let pair = pair("crash", "ASYNC").await;
    recovering(&pair).await;
    let then = OnBusyDrop::Crash;
    pair.main.inject(&Fault::BusyDrop { then }).unwrap();
    let mut client = Client::connect(pair.main.bolt(), Auth::None).await.unwrap();
    assert!(matches!(
        client.query("DROP REPLICA r").await,
        Err(ClientError::Connection(_))
    ));
    timeout(Duration::from_secs(5), pair.main.crashed())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_drop_during_recovery_freezes_everything_if_ordered() {
    let pair = pair("frozen", "ASYNC").await;
    recovering(&pair).await;
    let then = OnBusyDrop::Freeze;
    pair.main.inject(&Fault::BusyDrop { then }).unwrap();
    let short = Duration::from_millis(300);
    let mut client = Client::connect_within(pair.main.bolt(), Auth::None, short)
        .await
        .unwrap();
    assert!(matches!(
        client.query("DROP REPLICA r").await,
        Err(ClientError::TimedOut(_))
    ));
    let mut other = Client::connect_within(pair.main.bolt(), Auth::None, short)
        .await
        .unwrap();
    assert!(matches!(
        other.query("SHOW REPLICATION ROLE").await,
        Err(ClientError::TimedOut(_))
    ));
}

#[tokio::test]
async fn a_drop_during_recovery_goes_well_if_nothing_is_ordered() {
    let pair = pair("survive", "ASYNC").await;
    recovering(&pair).await;
    done(&pair.main, "DROP REPLICA r").await;
    assert!(done(&pair.main, "SHOW REPLICAS").await.is_empty());
}

#[tokio::test]
async fn a_hanging_engine_stops_storage_and_not_the_role() {
    let pair = pair("engine", "ASYNC").await;
    pair.main.inject(&Fault::HangEngine { ms: 60_000 }).unwrap();
    sleep(Duration::from_millis(50)).await;
    done(&pair.main, "SHOW REPLICATION ROLE").await;
    let short = Duration::from_millis(300);
    let mut client = Client::connect_within(pair.main.bolt(), Auth::None, short)
        .await
        .unwrap();
    assert!(matches!(
        client.query("MATCH (n) RETURN count(n)").await,
        Err(ClientError::TimedOut(_))
    ));
}

#[tokio::test]
async fn a_frozen_server_accepts_and_answers_nothing() {
    let pair = pair("freeze", "ASYNC").await;
    pair.main.inject(&Fault::Freeze).unwrap();
    sleep(Duration::from_millis(50)).await;
    let short = Duration::from_millis(300);
    let mut client = Client::connect_within(pair.main.bolt(), Auth::None, short)
        .await
        .unwrap();
    assert!(matches!(
        client.query("SHOW REPLICATION ROLE").await,
        Err(ClientError::TimedOut(_))
    ));
}

#[tokio::test]
async fn a_slow_promotion_and_slow_bolt_take_their_time() {
    let pair = pair("slow", "ASYNC").await;
    pair.replica.inject(&Fault::SlowPromotion { ms: 300 }).unwrap();
    let began = Instant::now();
    done(&pair.replica, "SET REPLICATION ROLE TO MAIN").await;
    assert!(began.elapsed() >= Duration::from_millis(300));
    pair.main.inject(&Fault::SlowBolt { ms: 100 }).unwrap();
    let began = Instant::now();
    done(&pair.main, "RETURN 1").await;
    assert!(
        began.elapsed() >= Duration::from_millis(300),
        "login, RUN and PULL"
    );
    pair.main.inject(&Fault::Clear).unwrap();
}

#[tokio::test]
async fn the_admin_port_takes_lines_and_says_what_it_does_not_understand() {
    let pair = pair("admin", "ASYNC").await;
    let stream = tokio::net::TcpStream::connect(pair.main.admin().unwrap())
        .await
        .unwrap();
    let mut stream = BufReader::new(stream);
    let mut answers = Vec::new();
    let lines = [
        r#"{"fault":"link","effect":{"delay":5},"rpc":"prepare","times":1}"#,
        r#"{"fault":"crash_at","point":"before_reply"}"#,
        r#"{"fault":"clear"}"#,
        r#"{"fault":"earthquake"}"#,
        r#"{"dump":true}"#,
    ];
    for line in lines {
        stream.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_line(&mut answer).await.unwrap();
        answers.push(serde_json::from_str::<serde_json::Value>(&answer).unwrap());
    }
    assert!(
        answers[..3].iter().all(|answer| answer["ok"] == true),
        "{answers:?}"
    );
    assert_eq!(answers[3]["ok"], false);
    assert_eq!(
        (&answers[4]["role"], &answers[4]["replicas"][0]["name"]),
        (&"main".into(), &"r".into())
    );
    // And nothing is left of the fault that was cleared.
    done(&pair.main, "CREATE (:W)").await;
}
