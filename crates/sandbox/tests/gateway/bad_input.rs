//! Clients that say nonsense, or too little, or do not listen. (Those that do not speak Bolt at all are in `faults`.)

use crate::bed::{Bed, Database, PATIENCE, metric, serving, until, write};
use crate::scripted;
use bolt::handshake::{Proposal, Proposals, ServerHandshake};
use bolt::message::{Auth, Fetch, Hello, Request, Response, Run};
use bolt::packstream::{Dict, Value};
use bolt::version::Version;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// What a client says to log in and ask for something, all at once.
fn login(requests: &[Request<'_>]) -> Vec<u8> {
    let mut bytes = Proposals::MEMGRAPH.to_bytes().to_vec();
    let hello = Hello {
        user_agent: "test/1".into(),
        auth: None,
        extra: Dict::new(),
    };
    for request in [Request::Hello(hello), Request::Logon(Auth::None)]
        .iter()
        .chain(requests)
    {
        request.frame(Version::V5_2, &mut bytes).unwrap();
    }
    bytes
}

fn framed(responses: &[Response<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for response in responses {
        response.frame(&mut bytes).unwrap();
    }
    bytes
}

/// A MAIN of term 4 whose results never end.
async fn endless() -> (SocketAddr, JoinSet<()>) {
    async fn serve(mut stream: TcpStream) -> io::Result<()> {
        let mut sink = vec![0; 1 << 12];
        stream.read_exact(&mut sink[..20]).await?;
        stream.write_all(&ServerHandshake::answer(Version::V5_2)).await?;
        let done = || Response::Success(Dict::new());
        let row = |value| Response::Record(vec![value]);
        let check = [
            done(),
            row("main".into()),
            done(),
            done(),
            row(Value::Int(4)),
            done(),
        ];
        for answer in [framed(&[done()]), framed(&[done()]), framed(&check)] {
            assert!(stream.read(&mut sink).await? > 0);
            stream.write_all(&answer).await?;
        }
        assert!(stream.read(&mut sink).await? > 0);
        let rows = framed(&[row(Value::from("x".repeat(60_000)))]);
        loop {
            stream.write_all(&rows).await?;
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve(stream));
        }
    });
    (address, tasks)
}

async fn said_until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut all))
        .await
        .expect("closed");
    all
}

#[tokio::test]
async fn a_version_that_nobody_speaks_is_turned_down_and_counted() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let future = Proposals([
        Proposal::from_bytes([0, 0, 0, 9]),
        Proposal::from_bytes([0, 3, 7, 8]),
        Proposal::from_bytes([0; 4]),
        Proposal::from_bytes([0; 4]),
    ]);
    let mut stream = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
    stream.write_all(&future.to_bytes()).await.unwrap();
    let said = said_until_closed(stream).await;
    assert!(
        !said.starts_with(&[0, 0, 0, 9]) && !said.starts_with(&[0, 0, 7, 8]),
        "{said:02x?}"
    );
    assert!(metric(&bed.gateway, "refused_total{kind=\"no_common_version\"}").await > 0.0);
    write(&mut bed.client().await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_handshake_in_single_bytes_is_not_waited_for_longer_than_one_at_once() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.client = Duration::from_millis(300);
    })
    .await;
    let stream = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
    let (mut from, mut to) = stream.into_split();
    let began = Instant::now();
    let drip = async {
        for byte in Proposals::MEMGRAPH.to_bytes() {
            if to.write_all(&[byte]).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    let mut said = Vec::new();
    let (read, ()) = tokio::join!(timeout(PATIENCE, from.read_to_end(&mut said)), drip);
    let _ = read.expect("closed");
    assert!(said.is_empty());
    assert!(began.elapsed() < PATIENCE / 2);
    assert!(metric(&bed.gateway, "refused_total{kind=\"client_silent\"}").await > 0.0);
}

/// What a client logs in with is kept as long as its connection lives, so it may not be much.
#[tokio::test]
async fn a_large_login_is_let_in_and_one_that_is_too_large_is_closed_and_counted() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    for (size, counted) in [
        (15 << 10, "admitted_total"),
        (17 << 10, "refused_total{kind=\"client_too_large\"}"),
    ] {
        let mut stream = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
        stream
            .write_all(&scripted::login(&"x".repeat(size)).concat())
            .await
            .unwrap();
        until(counted, async || metric(&bed.gateway, counted).await > 0.0).await;
    }
    assert_eq!(metric(&bed.gateway, "admitted_total").await.to_string(), "1");
}

#[tokio::test]
async fn half_a_message_is_no_reason_to_wait_for_ever() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.idle = Some(Duration::from_millis(300));
    })
    .await;
    let mut bytes = login(&[]);
    // A chunk of the largest size is announced, and only the begin of a RUN comes.
    bytes.extend_from_slice(&[0xFF, 0xFF, 0xB3, 0x10, 0xD2, 0xFF, 0xFF, 0xFF, 0xFF, b'M']);
    let mut stream = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    said_until_closed(stream).await;
    assert!(metric(&bed.gateway, "refused_total{kind=\"idle\"}").await > 0.0);
}

#[tokio::test]
async fn clients_that_never_read_cost_a_buffer_each_and_hold_nobody_up() {
    const CLIENTS: usize = 20;
    let (endless, _tasks) = endless().await;
    let main = Database::main(Some(5)).await;
    let mut bed = Bed::start(Some(serving(4, 0)), &[endless, main.server.bolt()]).await;
    let mut deaf = Vec::new();
    let ask = login(&[Request::Run(Run::new("RETURN 1")), Request::Pull(Fetch::ALL)]);
    for _ in 0..CLIENTS {
        let mut stream = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
        stream.write_all(&ask).await.unwrap();
        deaf.push(stream);
    }
    until("all of them are served", async || {
        metric(&bed.gateway, "sessions").await >= 20.0
    })
    .await;
    // What is taken from the database stops with what the sockets hold.
    let mut before = -1.0;
    until("nothing moves any more", async || {
        sleep(Duration::from_millis(200)).await;
        let now = metric(&bed.gateway, "bytes_total{kind=\"down\"}").await;
        let still = (now - before).abs() < 1.0;
        before = now;
        still
    })
    .await;
    bed.records.send_replace(Some(serving(5, 1)));
    bed.confirmed(5).await;
    write(&mut bed.client().await.unwrap()).await.unwrap();
    drop(deaf);
}
