//! What becomes of sessions whose database goes, in every state that they can be in (G2, G6).

use crate::bed::{Bed, Database, count, is_cut, metric, no_main, serving, taken, until, write};
use bolt::message::{Auth, Extra, Failure, FailureClass, Fetch, Request, Run};
use sandbox::standin::memgraph::Fault;
use sandbox::standin::memgraph::client::{Client, Message};
use std::time::Duration;

const UNKNOWN: &str = "Memgraph.ClientError.Transaction.OutcomeUnknown";

/// Two databases, a gateway, and a failover from the first to the second.
struct Pair {
    old: Database,
    new: Database,
    bed: Bed,
}

impl Pair {
    async fn start() -> Self {
        let (old, new) = (Database::main(Some(4)).await, Database::main(Some(5)).await);
        let addresses = [old.server.bolt(), new.server.bolt()];
        let bed = Bed::start(Some(serving(4, 0)), &addresses).await;
        Self { old, new, bed }
    }

    /// Nobody is MAIN, and the gateway has confirmed it.
    async fn lose(&mut self) {
        self.bed.records.send_replace(Some(no_main(&serving(4, 0), 1)));
        self.bed.confirmed(5).await;
    }

    fn serve(&self) {
        let lost = no_main(&serving(4, 0), 1);
        self.bed.records.send_replace(Some(taken(&lost, 1)));
    }

    async fn fail_over(&mut self) {
        self.lose().await;
        self.serve();
    }

    async fn counts(&self) -> (i64, i64) {
        (self.old.count().await, self.new.count().await)
    }
}

fn failure(message: Message) -> Failure<'static> {
    match message {
        Message::Failure(failure) => failure,
        other => panic!("no failure but {other:?}"),
    }
}

async fn send(client: &mut Client, requests: &[Request<'_>]) {
    for request in requests {
        client.send(request).await.unwrap();
    }
}

fn create() -> Request<'static> {
    Request::Run(Run::new("CREATE (:P)"))
}

#[tokio::test]
async fn idle_sessions_go_on_with_the_next_main_and_see_nothing() {
    let mut pair = Pair::start().await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = pair.bed.client().await.unwrap();
        write(&mut client).await.unwrap();
        clients.push(client);
    }
    pair.fail_over().await;
    for client in &mut clients {
        write(client).await.unwrap();
        client.begin().await.unwrap();
        write(client).await.unwrap();
        client.commit().await.unwrap();
    }
    assert_eq!(pair.counts().await, (8, 16));
    assert_eq!(metric(&pair.bed.gateway, "moved_total").await.to_string(), "8");
}

#[tokio::test]
async fn a_session_logs_in_again_as_whom_it_was() {
    let mut pair = Pair::start().await;
    for database in [&pair.old, &pair.new] {
        let create = "CREATE USER admin IDENTIFIED BY 'secret'";
        assert!(
            database
                .client()
                .await
                .query(create)
                .await
                .unwrap()
                .rows()
                .is_some()
        );
    }
    let auth = Auth::basic("admin", "secret");
    let mut client = Client::connect(pair.bed.gateway.bolt(), auth).await.unwrap();
    write(&mut client).await.unwrap();
    pair.fail_over().await;
    write(&mut client).await.unwrap();
}

#[tokio::test]
async fn a_session_whose_user_the_next_main_does_not_know_is_told_so() {
    let mut pair = Pair::start().await;
    let create = "CREATE USER somebody IDENTIFIED BY 'else'";
    assert!(
        pair.new
            .client()
            .await
            .query(create)
            .await
            .unwrap()
            .rows()
            .is_some()
    );
    let auth = Auth::basic("admin", "secret");
    let mut client = Client::connect(pair.bed.gateway.bolt(), auth).await.unwrap();
    pair.fail_over().await;
    let told = failure(client.ask(&Request::Begin(Extra::default())).await.unwrap());
    assert_eq!(told.message, "Authentication failure");
    assert!(is_cut(&mut client).await);
}

#[tokio::test]
async fn an_open_transaction_is_told_to_try_again_and_the_session_goes_on() {
    let mut pair = Pair::start().await;
    let mut client = pair.bed.client().await.unwrap();
    client.begin().await.unwrap();
    write(&mut client).await.unwrap();
    pair.fail_over().await;
    let told = failure(client.ask(&Request::Commit).await.unwrap());
    assert_eq!(told.class(), FailureClass::Transient, "{told}");
    // What comes after a failure is ignored, as every server does, and does not slip out of its transaction.
    assert!(matches!(client.ask(&create()).await.unwrap(), Message::Ignored));
    client.reset().await.unwrap();
    client.begin().await.unwrap();
    write(&mut client).await.unwrap();
    client.commit().await.unwrap();
    assert_eq!(pair.counts().await, (0, 1));
}

#[tokio::test]
async fn a_transaction_that_is_given_up_anyway_is_rolled_back_without_a_word() {
    for leave in [Request::Rollback, Request::Reset] {
        let mut pair = Pair::start().await;
        let mut client = pair.bed.client().await.unwrap();
        client.begin().await.unwrap();
        write(&mut client).await.unwrap();
        pair.fail_over().await;
        assert!(matches!(client.ask(&leave).await.unwrap(), Message::Success(_)));
        write(&mut client).await.unwrap();
        assert_eq!(pair.counts().await, (0, 1), "{leave:?}");
    }
}

#[tokio::test]
async fn a_transaction_begun_in_words_is_one() {
    let mut pair = Pair::start().await;
    let mut client = pair.bed.client().await.unwrap();
    for statement in ["BEGIN", "CREATE (:P)"] {
        assert!(client.query(statement).await.unwrap().rows().is_some());
    }
    pair.fail_over().await;
    let outcome = client.query("COMMIT").await.unwrap();
    let told = outcome.failure().expect("it is gone");
    assert_eq!(told.class(), FailureClass::Transient, "{told}");
    for statement in ["BEGIN", "CREATE (:P)", "COMMIT"] {
        assert!(client.query(statement).await.unwrap().rows().is_some());
    }
    assert_eq!(pair.counts().await, (0, 1));
}

#[tokio::test]
async fn a_statement_of_an_open_transaction_that_was_not_answered_may_be_tried_again() {
    let mut pair = Pair::start().await;
    let mut client = pair.bed.client().await.unwrap();
    client.begin().await.unwrap();
    pair.old.server.inject(&Fault::SlowBolt { ms: 2000 }).unwrap();
    send(&mut client, &[create(), Request::Pull(Fetch::ALL)]).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    pair.fail_over().await;
    let told = failure(client.receive().await.unwrap());
    assert_eq!(told.class(), FailureClass::Transient, "{told}");
    assert!(matches!(client.receive().await.unwrap(), Message::Ignored));
    client.reset().await.unwrap();
    write(&mut client).await.unwrap();
    assert_eq!(pair.new.count().await, 1);
}

#[tokio::test]
async fn what_may_have_been_committed_is_called_unknown_and_no_driver_retries_it() {
    for commit in [false, true] {
        let mut pair = Pair::start().await;
        let mut client = pair.bed.client().await.unwrap();
        if commit {
            client.begin().await.unwrap();
            write(&mut client).await.unwrap();
        }
        pair.old.server.inject(&Fault::SlowBolt { ms: 2000 }).unwrap();
        if commit {
            send(&mut client, &[Request::Commit]).await;
        } else {
            send(&mut client, &[create(), Request::Pull(Fetch::ALL)]).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        pair.fail_over().await;
        let told = failure(client.receive().await.unwrap());
        assert_eq!(told.code, UNKNOWN, "{told}");
        assert_eq!(told.class(), FailureClass::Client);
        if !commit {
            assert!(matches!(client.receive().await.unwrap(), Message::Ignored));
        }
        client.reset().await.unwrap();
        write(&mut client).await.unwrap();
        assert_eq!(pair.new.count().await, 1);
        let unknown = metric(&pair.bed.gateway, "lost_total{kind=\"unknown\"}").await;
        assert_eq!(unknown.to_string(), "1");
    }
}

#[tokio::test]
async fn a_session_with_state_of_its_own_is_not_moved() {
    for statement in [
        "USE DATABASE memgraph",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    ] {
        let mut pair = Pair::start().await;
        let mut client = pair.bed.client().await.unwrap();
        // Whether this server knows it or not: what it left behind is not known here.
        client.query(statement).await.unwrap();
        pair.fail_over().await;
        assert!(is_cut(&mut client).await, "{statement}");
    }
}

#[tokio::test]
async fn new_transactions_wait_for_a_main_up_to_the_bound_and_then_may_be_tried_again() {
    let (old, new) = (Database::main(Some(4)).await, Database::main(Some(5)).await);
    let addresses = [old.server.bolt(), new.server.bolt()];
    let bed = Bed::with(Some(serving(4, 0)), &addresses, |config| {
        config.timeouts.hold = Duration::from_millis(300);
    })
    .await;
    let mut pair = Pair { old, new, bed };
    let mut client = pair.bed.client().await.unwrap();
    pair.lose().await;
    let asked = std::time::Instant::now();
    let told = failure(client.begin().await.unwrap());
    assert_eq!(told.class(), FailureClass::Transient, "{told}");
    assert!(asked.elapsed() >= Duration::from_millis(300));
    assert!(told.message.contains("NoMain"), "{told}");
    // RESET needs no database.
    client.reset().await.unwrap();
    let held = async { client.begin().await.unwrap() };
    let served = async {
        until("held", async || metric(&pair.bed.gateway, "waiting").await > 0.0).await;
        pair.serve();
    };
    let (begun, ()) = tokio::join!(held, served);
    assert!(matches!(begun, Message::Success(_)), "{begun:?}");
    write(&mut client).await.unwrap();
    client.commit().await.unwrap();
    assert_eq!(pair.counts().await, (0, 1));
}

#[tokio::test]
async fn half_a_request_is_not_mistaken_for_a_whole_one_by_either_database() {
    let mut pair = Pair::start().await;
    let mut client = pair.bed.client().await.unwrap();
    // A statement whose second half comes after the failover.
    let long = Run::new("CREATE (:P {x: $x})").with("x", "x".repeat(200_000));
    let mut bytes = Vec::new();
    let version = bolt::version::Version::V5_2;
    Request::Run(long).frame(version, &mut bytes).unwrap();
    Request::Pull(Fetch::ALL).frame(version, &mut bytes).unwrap();
    client.send_bytes(&bytes[..100_000]).await.unwrap();
    until("half of it went on", async || {
        metric(&pair.bed.gateway, "bytes_total{kind=\"up\"}").await >= 100_000.0
    })
    .await;
    pair.fail_over().await;
    client.send_bytes(&bytes[100_000..]).await.unwrap();
    let told = failure(client.receive().await.unwrap());
    assert_eq!(told.class(), FailureClass::Transient, "{told}");
    assert!(matches!(client.receive().await.unwrap(), Message::Ignored));
    client.reset().await.unwrap();
    write(&mut client).await.unwrap();
    assert_eq!(pair.counts().await, (0, 1));
}

#[tokio::test]
async fn a_result_that_is_cut_in_the_middle_of_a_row_ends_the_connection() {
    let mut pair = Pair::start().await;
    let mut client = pair.bed.client().await.unwrap();
    // Far more than the buffers between: the gateway is in the middle of a row when it is cut.
    let many = "UNWIND range(1, 200000) AS x RETURN x, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'";
    send(
        &mut client,
        &[Request::Run(Run::new(many)), Request::Pull(Fetch::ALL)],
    )
    .await;
    until("rows flow", async || {
        metric(&pair.bed.gateway, "bytes_total{kind=\"down\"}").await > 100_000.0
    })
    .await;
    pair.fail_over().await;
    let end = loop {
        match client.receive().await {
            Ok(Message::Record(_) | Message::Success(_)) => {}
            other => break other,
        }
    };
    assert!(
        end.is_err() || matches!(&end, Ok(Message::Failure(told)) if told.code == UNKNOWN),
        "{end:?}"
    );
}

#[tokio::test]
async fn a_database_that_dies_is_survived_like_a_cut() {
    let pair = Pair::start().await;
    let (mut idle, mut busy) = (pair.bed.client().await.unwrap(), pair.bed.client().await.unwrap());
    busy.begin().await.unwrap();
    write(&mut busy).await.unwrap();
    let Pair { old, new, bed } = pair;
    drop(old);
    until("noticed", async || metric(&bed.gateway, "parked").await > 1.0).await;
    let lost = no_main(&serving(4, 0), 1);
    bed.records.send_replace(Some(lost.clone()));
    bed.records.send_replace(Some(taken(&lost, 1)));
    write(&mut idle).await.unwrap();
    let told = failure(busy.ask(&Request::Commit).await.unwrap());
    assert_eq!(told.class(), FailureClass::Transient, "{told}");
    busy.reset().await.unwrap();
    write(&mut busy).await.unwrap();
    assert_eq!(new.count().await, 2);
    assert_eq!(count(&mut idle).await, 2);
}
