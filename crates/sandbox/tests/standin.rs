//! One stand-in, or two, inside this process.

// Everything here is a test, also what is not marked as one.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing
)]

use bolt::message::{Auth, Run};
use bolt::packstream::Value;
use sandbox::standin::memgraph::client::{Client, Message, Outcome};
use sandbox::standin::memgraph::{Config, Effect, Fault, Profile, RpcKind, Rule, Server, Timing};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A folder that goes when the test does.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("mainstay-standin-{}-{name}-{count}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Ten times as fast as the real one.
fn config(profile: Profile, folder: &Folder) -> Config {
    let mut config = Config::new(profile, folder.path());
    config.timing = Timing::new(0.1, Duration::from_secs(1));
    config.flush_every = 1;
    config
}

async fn client(server: &Server) -> Client {
    Client::connect(server.bolt(), Auth::None).await.unwrap()
}

async fn run(client: &mut Client, query: &str) -> Vec<Vec<Value<'static>>> {
    match client.query(query).await.unwrap() {
        Outcome::Done(table) => table.rows,
        Outcome::Refused { failure, on } => panic!("{query}: {failure} on {on}"),
    }
}

async fn refused(client: &mut Client, query: &str) -> (String, &'static str) {
    match client.query(query).await.unwrap() {
        Outcome::Done(table) => panic!("{query} gave {table:?}"),
        Outcome::Refused { failure, on } => (failure.message.into_owned(), on),
    }
}

async fn count(client: &mut Client) -> i64 {
    run(client, "MATCH (n) RETURN count(n)").await[0][0]
        .as_int()
        .unwrap()
}

/// The status of the only replica.
async fn status(client: &mut Client) -> String {
    let rows = run(client, "SHOW REPLICAS").await;
    let info = rows[0][4]
        .as_dict()
        .unwrap()
        .get("memgraph")
        .unwrap()
        .as_dict()
        .unwrap();
    info["status"].as_str().unwrap().to_owned()
}

async fn until(client: &mut Client, wanted: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while status(client).await != wanted {
        assert!(
            Instant::now() < deadline,
            "{} instead of {wanted}",
            status(client).await
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A port that is free now; nobody else in this test takes it on this address.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// A MAIN and a replica of it.
async fn pair(profile: Profile, mode: &str, folders: &[Folder; 2]) -> (Server, Server) {
    let main = Server::start(config(profile, &folders[0])).await.unwrap();
    let replica = Server::start(config(profile, &folders[1])).await.unwrap();
    let port = free_port();
    run(
        &mut client(&replica).await,
        &format!("SET REPLICATION ROLE TO REPLICA WITH PORT {port}"),
    )
    .await;
    run(
        &mut client(&main).await,
        &format!("REGISTER REPLICA r {mode} TO '127.0.0.1:{port}'"),
    )
    .await;
    (main, replica)
}

#[tokio::test]
async fn a_write_is_there_after_a_kill_and_after_a_termination() {
    let folder = Folder::new("restart");
    let server = Server::start(config(Profile::V3_12, &folder)).await.unwrap();
    let mut client_1 = client(&server).await;
    run(&mut client_1, "CREATE (:W {id: 1})").await;
    drop(server);
    let server = Server::start(config(Profile::V3_12, &folder)).await.unwrap();
    let mut client_2 = client(&server).await;
    assert_eq!(count(&mut client_2).await, 1);
    run(&mut client_2, "CREATE (:W {id: 2})").await;
    server.terminate().await;
    let server = Server::start(config(Profile::V3_12, &folder)).await.unwrap();
    let mut client_3 = client(&server).await;
    let ids = run(&mut client_3, "MATCH (n:W) RETURN n.id AS id ORDER BY id").await;
    assert_eq!(ids, [[Value::Int(1)], [Value::Int(2)]]);
}

/// Found by a drill: a commit that the replica had was told to have been aborted because of the shutdown.
#[tokio::test]
async fn a_commit_that_has_begun_ends_before_a_server_that_is_told_to_end() {
    let folders = [Folder::new("ending-main"), Folder::new("ending-replica")];
    let (main, replica) = pair(Profile::V3_12, "STRICT_SYNC", &folders).await;
    main.inject(&Fault::Link(Rule {
        peer: None,
        rpc: Some(RpcKind::Finalize),
        effect: Effect::Delay(300),
        times: Some(1),
    }))
    .unwrap();
    let mut writer = client(&main).await;
    let write = tokio::spawn(async move { writer.query("CREATE (:W {id: 1})").await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    main.terminate().await;
    let told = write.await.unwrap().unwrap();
    assert!(matches!(told, Outcome::Done(_)), "{told:?}");
    assert_eq!(count(&mut client(&replica).await).await, 1);
}

#[tokio::test]
async fn a_strict_replica_has_what_was_acknowledged_and_refuses_writes_itself() {
    let folders = [Folder::new("main"), Folder::new("replica")];
    let (main, replica) = pair(Profile::V3_12, "STRICT_SYNC", &folders).await;
    let (mut on_main, mut on_replica) = (client(&main).await, client(&replica).await);
    run(&mut on_main, "CREATE (:W {id: 1})").await;
    assert_eq!(count(&mut on_replica).await, 1);
    let (text, on) = refused(&mut on_replica, "CREATE (:W {id: 2})").await;
    assert!(text.starts_with("Write queries are forbidden on the replica instance."));
    assert_eq!(on, "RUN");
    drop(replica);
    let (text, on) = refused(&mut on_main, "CREATE (:W {id: 2})").await;
    assert!(
        text.contains("Transaction was aborted on all instances."),
        "{text}"
    );
    assert_eq!((on, count(&mut on_main).await), ("PULL", 1));
    run(&mut on_main, "DROP REPLICA r").await;
    run(&mut on_main, "CREATE (:W {id: 2})").await;
    assert_eq!(count(&mut on_main).await, 2);
}

#[tokio::test]
async fn a_replica_that_comes_back_is_brought_level() {
    let folders = [Folder::new("main"), Folder::new("replica")];
    let (main, replica) = pair(Profile::V3_6, "ASYNC", &folders).await;
    let mut on_main = client(&main).await;
    drop(replica);
    for id in 0..5 {
        run(&mut on_main, &format!("CREATE (:W {{id: {id}}})")).await;
    }
    until(&mut on_main, "invalid").await;
    let replica = Server::start(config(Profile::V3_6, &folders[1])).await.unwrap();
    until(&mut on_main, "ready").await;
    assert_eq!(count(&mut client(&replica).await).await, 5);
}

#[tokio::test]
async fn the_mark_is_changed_by_compare_and_swap_and_read_on_the_replica() {
    let folders = [Folder::new("main"), Folder::new("replica")];
    let (main, replica) = pair(Profile::V3_12, "STRICT_SYNC", &folders).await;
    let (mut on_main, mut on_replica) = (client(&main).await, client(&replica).await);
    run(&mut on_main, "CREATE INDEX ON :__mainstay").await;
    run(
        &mut on_main,
        "MERGE (m:__mainstay) ON CREATE SET m.term = 1, m.proof = ''",
    )
    .await;
    let swap = |old: i64, new: i64| {
        Run::new("MATCH (m:__mainstay {term: $old}) SET m.term = $new RETURN m.term")
            .with("old", old)
            .with("new", new)
    };
    let swapped = on_main.run(&swap(1, 2)).await.unwrap();
    assert_eq!(swapped.rows().unwrap(), [[Value::Int(2)]]);
    let lost = on_main.run(&swap(1, 3)).await.unwrap();
    assert!(lost.rows().unwrap().is_empty());
    let proof = Run::new("MATCH (m:__mainstay) SET m.proof = $id").with("id", "abc");
    on_main.run(&proof).await.unwrap();
    let read = run(&mut on_replica, "MATCH (m:__mainstay) RETURN m.term, m.proof").await;
    assert_eq!(read, [[Value::Int(2), Value::from("abc")]]);
}

#[tokio::test]
async fn an_init_file_demotes_before_anybody_can_connect() {
    let folder = Folder::new("init");
    let server = Server::start(config(Profile::V3_12, &folder)).await.unwrap();
    run(&mut client(&server).await, "CREATE (:W {id: 1})").await;
    drop(server);
    let file = folder.path().join("init.cypherl");
    let lines = format!(
        "NOT CYPHER;\nSET REPLICATION ROLE TO REPLICA WITH PORT {};\n",
        free_port()
    );
    std::fs::write(&file, lines).unwrap();
    let mut config = config(Profile::V3_12, &folder);
    config.init_file = Some(file);
    let server = Server::start(config).await.unwrap();
    let mut client = client(&server).await;
    assert_eq!(
        run(&mut client, "SHOW REPLICATION ROLE").await,
        [[Value::from("replica")]]
    );
    assert_eq!(count(&mut client).await, 1);
}

#[tokio::test]
async fn a_rolled_back_transaction_leaves_nothing_and_an_open_one_is_not_seen() {
    let folder = Folder::new("transactions");
    let server = Server::start(config(Profile::V3_12, &folder)).await.unwrap();
    let (mut one, mut other) = (client(&server).await, client(&server).await);
    assert!(matches!(one.begin().await.unwrap(), Message::Success(_)));
    run(&mut one, "CREATE (:W {id: 1})").await;
    assert_eq!((count(&mut one).await, count(&mut other).await), (1, 0));
    assert!(matches!(one.rollback().await.unwrap(), Message::Success(_)));
    assert_eq!(count(&mut one).await, 0);
    run(&mut one, "CREATE (:W {id: 1})").await;
    one.begin().await.unwrap();
    run(&mut one, "MATCH (n:W {id: 1}) SET n.v = 1").await;
    other.begin().await.unwrap();
    let (text, _) = refused(&mut other, "MATCH (n:W {id: 1}) SET n.v = 2").await;
    assert!(text.starts_with("Cannot resolve conflicting transactions."));
    assert!(matches!(one.commit().await.unwrap(), Message::Success(_)));
}

#[tokio::test]
async fn only_known_users_get_in_once_there_are_users() {
    let folder = Folder::new("users");
    let server = Server::start(config(Profile::V3_12, &folder)).await.unwrap();
    run(
        &mut client(&server).await,
        "CREATE USER admin IDENTIFIED BY 'secret'",
    )
    .await;
    assert!(Client::connect(server.bolt(), Auth::None).await.is_err());
    assert!(
        Client::connect(server.bolt(), Auth::basic("admin", "wrong"))
            .await
            .is_err()
    );
    assert!(
        Client::connect(server.bolt(), Auth::basic("admin", "secret"))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_lost_finalize_is_acknowledged_and_missing() {
    let folders = [Folder::new("main"), Folder::new("replica")];
    let (main, replica) = pair(Profile::V3_6, "STRICT_SYNC", &folders).await;
    let (mut on_main, mut on_replica) = (client(&main).await, client(&replica).await);
    run(&mut on_main, "CREATE (:W {id: 1})").await;
    let rule = Rule {
        peer: None,
        rpc: Some(RpcKind::Finalize),
        effect: Effect::Swallow,
        times: Some(1),
    };
    main.inject(&Fault::Link(rule)).unwrap();
    run(&mut on_main, "CREATE (:W {id: 2})").await;
    assert_eq!((count(&mut on_main).await, count(&mut on_replica).await), (2, 1));
    assert_eq!(status(&mut on_main).await, "ready");
    run(&mut on_replica, "SET REPLICATION ROLE TO MAIN").await;
    assert_eq!(count(&mut on_replica).await, 1);
}
