//! Very many connections through one gateway. A process of its own, because its memory is looked at.

// Everything here is a test, also what is not marked as one.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing
)]

#[allow(dead_code, reason = "it is shared with the other tests of the gateway")]
#[path = "gateway/bed.rs"]
mod bed;
#[path = "gateway/scripted.rs"]
mod scripted;

use bed::{Bed, metric, serving, until};
use bolt::message::{Fetch, Request, Run};
use gateway::raise_file_limit;
use scripted::{VERSION, checked, done, framed, let_in, log_in};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A MAIN that answers each request at once.
async fn echo() -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut sessions = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            sessions.spawn(async move {
                stream.set_nodelay(true).unwrap();
                if let_in(&mut stream).await.is_err() {
                    return;
                }
                let answer = framed(&[done(), done()]);
                let mut asked = [0; 512];
                while stream.read(&mut asked).await.unwrap_or_default() > 0 {
                    if stream.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, tasks)
}

async fn client(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    log_in(&mut stream).await.unwrap();
    stream
}

/// Says what a gateway says until it is let in, one thing after the other.
async fn without_a_gateway(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let logged_in = framed(&[done()]).len();
    for (said, answer) in [(20, 4), (1, logged_in), (1, logged_in), (1, checked().len())] {
        stream.write_all(&vec![0; said]).await.unwrap();
        stream.read_exact(&mut vec![0; answer]).await.unwrap();
    }
    stream
}

/// One request and its answer.
async fn ask(stream: &mut TcpStream, request: &[u8], answer: &mut [u8]) -> Duration {
    let began = Instant::now();
    stream.write_all(request).await.unwrap();
    stream.read_exact(answer).await.unwrap();
    began.elapsed()
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kibibytes * 1024
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

/// The reference asks for 10,000 connections, 1 ms of added latency at the 99th percentile, and bounded memory. Here both
/// ends are in the same process, so a connection is four files: as many as fit, at most 10,000. The others who are at work
/// on this machine are not what is measured: requests go in turn through the gateway and to the database itself, in many
/// attempts, and the best 99th percentile of the one counts beside the best of the other. `cargo xtask bench gateway`
/// measures CPU for a request, and memory for an idle connection among 4,000 (`--idle`), beside other proxies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g11_thousands_of_connections_cost_little_memory_and_a_request_among_them_little_time() {
    const MOST: u64 = 10_000;
    /// As much as the smallest buffer of a gateway has: a session that kept one while it is idle would be beyond it.
    const EACH: u64 = 16 * 1024;
    /// Requests of one attempt.
    const ASKED: usize = 500;
    const ATTEMPTS: usize = 40;
    const ADDED: Duration = Duration::from_millis(1);
    let files = raise_file_limit().unwrap().unwrap_or(u64::MAX);
    let connections = usize::try_from(MOST.min(files.saturating_sub(500) / 4)).unwrap();
    assert!(connections >= 100, "{files} files are too few to say anything");
    let (main, _tasks) = echo().await;
    let bed = Bed::start(Some(serving(4, 0)), &[main]).await;
    // What is there once is not what a connection costs.
    drop(client(bed.gateway.bolt()).await);
    until("it left", async || metric(&bed.gateway, "sessions").await < 1.0).await;
    let before = resident();
    let mut many = Vec::new();
    let mut coming = JoinSet::new();
    for number in 0..connections {
        coming.spawn(client(bed.gateway.bolt()));
        // No more at once than wait to be accepted.
        if number % 64 == 63 {
            while let Some(client) = coming.join_next().await {
                many.push(client.unwrap());
            }
        }
    }
    while let Some(client) = coming.join_next().await {
        many.push(client.unwrap());
    }
    let sessions = metric(&bed.gateway, "sessions").await;
    assert_eq!(sessions.to_string(), connections.to_string());
    let mut request = Vec::new();
    for part in [Request::Run(Run::new("RETURN 1")), Request::Pull(Fetch::ALL)] {
        part.frame(VERSION, &mut request).unwrap();
    }
    let mut answer = vec![0; framed(&[done(), done()]).len()];
    // Everybody asks once, and has nothing of it afterwards.
    for client in &mut many {
        ask(client, &request, &mut answer).await;
    }
    let each = resident().saturating_sub(before) / u64::try_from(connections).unwrap();
    assert!(
        each <= EACH,
        "{each} bytes for each of {connections} connections, both ends included"
    );
    // In turn, so that whatever else is at work here slows both.
    let mut direct = without_a_gateway(main).await;
    let mut best = [Duration::MAX; 2];
    let added = |[through, beside]: [Duration; 2]| through.saturating_sub(beside);
    for attempt in 0..ATTEMPTS {
        let (mut through, mut beside) = (Vec::new(), Vec::new());
        for number in 0..ASKED {
            let one = &mut many[(attempt * ASKED + number) * 7919 % connections];
            through.push(ask(one, &request, &mut answer).await);
            beside.push(ask(&mut direct, &request, &mut answer).await);
        }
        for (best, times) in best.iter_mut().zip([&mut through, &mut beside]) {
            *best = (*best).min(percentile(times, 99));
        }
        // A few, so that the best of the other is one, too.
        if attempt >= 4 && added(best) <= ADDED {
            break;
        }
    }
    println!(
        "{connections} connections, {each} bytes each; 99 of 100 requests within {best:?}, with the gateway and without"
    );
    assert!(
        added(best) <= ADDED,
        "99 of a hundred requests take {:?} among {connections} connections, and {:?} without a gateway",
        best[0],
        best[1]
    );
}
