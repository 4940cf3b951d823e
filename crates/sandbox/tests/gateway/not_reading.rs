//! Clients that ask for much and do not read it.

use crate::bed::{Bed, metric, serving, until};
use crate::scripted::{VERSION, framed, let_in, log_in};
use bolt::message::{Fetch, Request, Response, Run};
use bolt::packstream::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// A MAIN that answers everything with rows without end, and how many it still answers.
async fn flood() -> (SocketAddr, Arc<AtomicUsize>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let open = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    let counted = Arc::clone(&open);
    tasks.spawn(async move {
        let mut sessions = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let open = Arc::clone(&counted);
            sessions.spawn(async move {
                if let_in(&mut stream).await.is_err() {
                    return;
                }
                let row = framed(&[Response::Record(vec![Value::from("x".repeat(60_000))])]);
                if stream.read(&mut [0; 1024]).await.unwrap_or_default() > 0 {
                    open.fetch_add(1, Ordering::Relaxed);
                    while stream.write_all(&row).await.is_ok() {}
                    open.fetch_sub(1, Ordering::Relaxed);
                }
            });
        }
    });
    (address, open, tasks)
}

/// A client that has asked.
async fn asked(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // What waits in the system is not what this is about.
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    log_in(&mut stream).await.unwrap();
    let mut asked = Vec::new();
    for request in [
        Request::Run(Run::new("MATCH (n) RETURN n")),
        Request::Pull(Fetch::ALL),
    ] {
        request.frame(VERSION, &mut asked).unwrap();
    }
    stream.write_all(&asked).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_stops_reading_is_closed_and_counted_and_its_query_ends() {
    let (main, open, _tasks) = flood().await;
    let bed = Bed::with(Some(serving(4, 0)), &[main], |config| {
        config.timeouts.stall = Duration::from_millis(500);
    })
    .await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(asked(bed.gateway.bolt()).await);
    }
    // This one reads, if slowly, for much longer than anybody may not.
    let mut slow = asked(bed.gateway.bolt()).await;
    let reads = async {
        let mut some = vec![0; 64 * 1024];
        for _ in 0..40 {
            assert!(slow.read(&mut some).await.unwrap() > 0);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let closed = async {
        until("closed and counted", async || {
            let kind = "refused_total{kind=\"client_not_reading\"}";
            metric(&bed.gateway, kind).await.to_string() == "20"
        })
        .await;
        until("their queries ended", async || open.load(Ordering::Relaxed) <= 1).await;
    };
    let ((), ()) = tokio::join!(reads, closed);
    assert_eq!(metric(&bed.gateway, "sessions").await.to_string(), "1");
    assert_eq!(open.load(Ordering::Relaxed), 1);
    // Nothing of what they did not read is kept for them: at most what is with their own system arrives.
    for mut client in silent {
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.ok();
        assert!(rest.len() <= 64 * 1024, "{}", rest.len());
    }
}
