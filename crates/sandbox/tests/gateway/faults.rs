//! Databases and clients that do not behave.

use crate::bed::{Bed, Database, PATIENCE, login_failure, metric, no_main, serving, until, write};
use crate::scripted::VERSION;
use bolt::handshake::Proposals;
use bolt::message::{Auth, FailureClass, Hello, Request};
use bolt::packstream::Dict;
use sandbox::standin::memgraph::Fault;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Accepts, and never says a word.
async fn mute() -> (std::net::SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            kept.push(stream);
        }
    });
    (address, tasks)
}

#[tokio::test]
async fn a_database_that_accepts_and_never_answers_blocks_nobody_else() {
    let (silent, _tasks) = mute().await;
    let main = Database::main(Some(5)).await;
    let first = serving(4, 0);
    let bed = Bed::with(Some(first.clone()), &[silent, main.server.bolt()], |config| {
        // Longer than this test may take: only the cut helps.
        config.timeouts.check = Duration::from_hours(1);
        config.timeouts.hold = Duration::from_hours(1);
    })
    .await;
    let stuck = bed.client();
    let moved = async {
        until("asked", async || {
            metric(&bed.gateway, "accepted_total").await > 0.0
        })
        .await;
        let mut next = serving(5, 1);
        next.revision = no_main(&first, 1).revision.next();
        bed.records.send_replace(Some(next));
        write(&mut bed.client().await.unwrap()).await.unwrap();
    };
    let (stuck, ()) = timeout(PATIENCE, async { tokio::join!(stuck, moved) })
        .await
        .unwrap();
    write(&mut stuck.unwrap()).await.unwrap();
    assert_eq!(main.count().await, 2);
}

#[tokio::test]
async fn a_database_that_never_answers_costs_a_client_the_check_and_not_more() {
    let (silent, _tasks) = mute().await;
    let bed = Bed::with(Some(serving(4, 0)), &[silent], |config| {
        config.timeouts.check = Duration::from_millis(50);
        config.timeouts.hold = Duration::from_millis(200);
    })
    .await;
    let refused = timeout(PATIENCE, bed.client()).await.expect("an answer");
    assert!(login_failure(refused).message.contains("no answer in time"));
    assert!(metric(&bed.gateway, "checks_total{kind=\"silent\"}").await > 0.0);
}

#[tokio::test]
async fn a_database_that_dies_costs_its_sessions_a_wait_and_the_next_is_checked() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.hold = Duration::from_millis(300);
    })
    .await;
    let mut client = bed.client().await.unwrap();
    write(&mut client).await.unwrap();
    drop(main);
    until("noticed", async || metric(&bed.gateway, "parked").await > 0.0).await;
    let held = write(&mut client).await.unwrap_err();
    assert_eq!(held.class(), FailureClass::Transient, "{held}");
    login_failure(bed.client().await);
    assert!(metric(&bed.gateway, "checks_total{kind=\"unreachable\"}").await > 0.0);
}

#[tokio::test]
async fn clients_that_do_not_speak_bolt_are_closed_and_harm_nobody() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.client = Duration::from_millis(200);
    })
    .await;
    let handshake = Proposals::MEMGRAPH.to_bytes();
    let mut huge = handshake.to_vec();
    // A HELLO that never ends, in chunks of the largest size.
    for _ in 0..4 {
        huge.extend_from_slice(&[0xFF, 0xFF, 0xB1, 0x01]);
        huge.extend(std::iter::repeat_n(0x80, 0xFFFF - 2));
    }
    let mut run_first = handshake.to_vec();
    run_first.extend_from_slice(&[0, 2, 0xB0, 0x0F, 0, 0]);
    for bytes in [
        &b""[..],
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0x16, 0x03, 0x01, 0x00, 0x05],
        &handshake[..7],
        &handshake,
        &[&handshake[..], &[0, 5, 0xB1]].concat(),
        &run_first,
        &huge,
    ] {
        let mut stream = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
        // The gateway may close before it has read everything.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer))
            .await
            .expect("closed");
    }
    // And some that leave in the middle.
    for end in 0..handshake.len() {
        let mut stream = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
        stream.write_all(&handshake[..end]).await.unwrap();
    }
    write(&mut bed.client().await.unwrap()).await.unwrap();
    for kind in [
        "client_not_bolt",
        "client_silent",
        "client_too_large",
        "client_no_login",
    ] {
        let name = format!("refused_total{{kind=\"{kind}\"}}");
        assert!(metric(&bed.gateway, &name).await > 0.0, "{kind}");
    }
}

#[tokio::test]
async fn garbage_after_the_login_is_the_databases_to_refuse() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let mut stream = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
    stream.write_all(&Proposals::MEMGRAPH.to_bytes()).await.unwrap();
    let mut login = Vec::new();
    let hello = Hello {
        user_agent: "test/1".into(),
        auth: None,
        extra: Dict::new(),
    };
    let version = bolt::version::Version::V5_2;
    for request in [Request::Hello(hello), Request::Logon(Auth::None)] {
        request.frame(version, &mut login).unwrap();
    }
    // Behind the login, in the same packet: a message that no version has.
    login.extend_from_slice(&[0, 2, 0xB0, 0x55, 0, 0]);
    stream.write_all(&login).await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer))
        .await
        .expect("closed")
        .unwrap();
    assert!(
        String::from_utf8_lossy(&answer).contains("Something went wrong"),
        "{answer:02x?}"
    );
    write(&mut bed.client().await.unwrap()).await.unwrap();
}

/// Each of its answers comes in time, and all of them together do not.
#[tokio::test]
async fn a_database_that_is_slow_with_every_answer_holds_a_client_no_longer_than_the_bound() {
    let main = Database::main(Some(4)).await;
    main.server.inject(&Fault::SlowBolt { ms: 300 }).unwrap();
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.check = Duration::from_millis(400);
        config.timeouts.connect = Duration::from_millis(100);
        config.timeouts.hold = Duration::from_millis(600);
    })
    .await;
    let began = Instant::now();
    let told = login_failure(bed.client().await);
    assert_eq!(told.class(), FailureClass::Transient, "{told}");
    assert!(
        began.elapsed() < Duration::from_millis(1_100),
        "{:?}",
        began.elapsed()
    );
}

/// Its time is not the database's.
#[tokio::test]
async fn a_client_that_takes_longer_to_log_in_than_anybody_is_held_is_let_in() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.check = Duration::from_millis(200);
        config.timeouts.connect = Duration::from_millis(200);
        config.timeouts.hold = Duration::ZERO;
    })
    .await;
    let mut stream = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
    stream.write_all(&Proposals::MEMGRAPH.to_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut login = Vec::new();
    let hello = Hello {
        user_agent: "slow/1".into(),
        auth: None,
        extra: Dict::new(),
    };
    for request in [Request::Hello(hello), Request::Logon(Auth::None)] {
        request.frame(VERSION, &mut login).unwrap();
    }
    stream.write_all(&login).await.unwrap();
    until("let in", async || metric(&bed.gateway, "sessions").await > 0.0).await;
}

#[tokio::test]
async fn more_connections_than_allowed_are_closed_at_once() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.limits.connections = 2;
    })
    .await;
    let mut first = bed.client().await.unwrap();
    let second = bed.client().await.unwrap();
    assert!(bed.client().await.is_err());
    write(&mut first).await.unwrap();
    drop(second);
    until("room again", async || bed.client().await.is_ok()).await;
}

#[tokio::test]
async fn a_client_that_leaves_while_it_is_held_frees_its_place() {
    let bed = Bed::with(Some(no_main(&serving(4, 0), 0)), &[], |config| {
        config.limits.waiting = Some(1);
        config.timeouts.hold = Duration::from_hours(1);
    })
    .await;
    let mut stream = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
    stream.write_all(&Proposals::MEMGRAPH.to_bytes()).await.unwrap();
    until("held", async || metric(&bed.gateway, "waiting").await > 0.0).await;
    drop(stream);
    until("free again", async || metric(&bed.gateway, "waiting").await < 1.0).await;
}
