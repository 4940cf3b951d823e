//! From the decision to the first answer of the new MAIN.

use crate::Run;
use crate::contest::{Contestant, Kind};
use crate::load::Client;
use crate::record::{TOKEN, candidate, serving};
use crate::rounds::Bed;
use crate::sample::quantile;
use anyhow::{Context, Result, ensure};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::document::Document;
use mainstay_core::memgraph::rules::Rule;
use mainstay_core::time::Time;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep, timeout};

/// Milliseconds from the push to the first byte.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Switches {
    pub(crate) count: usize,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) most: f64,
}

/// Between two switches, and between two requests of a client.
const PACE: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(10);

/// Both that can be told to switch: nginx cannot, without starting anew.
pub(crate) async fn measure(arguments: &Run, bed: &Bed, kinds: &[Kind]) -> Result<BTreeMap<Kind, Switches>> {
    let mut all = BTreeMap::new();
    for kind in kinds {
        let count = match kind {
            Kind::Gateway => arguments.switches,
            Kind::Haproxy => arguments.switches.div_ceil(4),
            Kind::Nginx => continue,
        };
        bed.term.store(1, Ordering::Relaxed);
        let proxy = Contestant::start(*kind, bed.addresses, arguments.proxy_core).await?;
        let mut taken = match kind {
            Kind::Gateway => gateway(&proxy, bed, count).await,
            Kind::Haproxy | Kind::Nginx => haproxy(&proxy, count).await,
        }
        .with_context(|| format!("switches of {}", kind.name()))?;
        proxy.stop().await?;
        all.insert(
            *kind,
            Switches {
                count,
                p50: quantile(&mut taken, 0.5),
                p99: quantile(&mut taken, 0.99),
                most: quantile(&mut taken, 1.0),
            },
        );
    }
    Ok(all)
}

const NAMES: [&str; 2] = ["first", "other"];

/// One session that lives through all of it: the move is announced, it asks and is held, and then the record names the
/// new MAIN.
async fn gateway(proxy: &Contestant, bed: &Bed, count: usize) -> Result<Vec<f64>> {
    let mut client = Client::connect(proxy.address).await?;
    client.ask().await?;
    let mut taken = Vec::with_capacity(count);
    let mut record = serving(1, 0);
    for switch in 1..=count {
        let pod = u8::try_from(switch % 2)?;
        let moving = record.switching_over(candidate(pod), Time::ZERO);
        push(proxy, &moving).await?;
        record = serving(moving.term.0, pod);
        record.revision = moving.revision.next();
        bed.term.store(record.term.0, Ordering::Relaxed);
        let expected = NAMES.get(usize::from(pod)).copied().unwrap_or_default();
        let asking = async {
            let said = client.ask().await?;
            ensure!(said == expected, "answered by {said}");
            Ok(Instant::now())
        };
        let deciding = async {
            // So that the request is there, and held.
            sleep(PACE).await;
            let decided = Instant::now();
            push(proxy, &record).await?;
            Ok(decided)
        };
        let both = timeout(PATIENCE, async { tokio::try_join!(asking, deciding) });
        let (served, decided) = both.await??;
        taken.push(served.duration_since(decided).as_secs_f64() * 1e3);
    }
    Ok(taken)
}

/// As the operator does it.
async fn push(proxy: &Contestant, record: &Record) -> Result<()> {
    let body = serde_json::to_string(&Document::first(record.clone(), Rule::R18, Time::ZERO).data()?)?;
    let mut stream = TcpStream::connect(proxy.admin).await?;
    let request = format!(
        "POST /v1/record HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(())
}

/// It knows nothing of sessions: it is told to use the other server and to end what goes to the first one, and the
/// client connects again until it is served by the other.
async fn haproxy(proxy: &Contestant, count: usize) -> Result<Vec<f64>> {
    let mut taken = Vec::with_capacity(count);
    let mut client = Client::connect(proxy.address).await?;
    client.ask().await?;
    for switch in 1..=count {
        let (old, new) = if switch % 2 == 1 {
            ("first", "second")
        } else {
            ("second", "first")
        };
        let expected = NAMES.get(switch % 2).copied().unwrap_or_default();
        let decided = Instant::now();
        let order = format!(
            "enable server back/{new}; disable server back/{old}; shutdown sessions server back/{old}\n"
        );
        let mut socket = UnixStream::connect(&proxy.socket).await?;
        socket.write_all(order.as_bytes()).await?;
        let again = async {
            loop {
                match client.ask().await {
                    Ok(said) if said == expected => return anyhow::Ok(()),
                    Ok(_) => {}
                    Err(_) => client = Client::connect(proxy.address).await?,
                }
            }
        };
        timeout(PATIENCE, again).await.context("never switched")??;
        taken.push(decided.elapsed().as_secs_f64() * 1e3);
        sleep(PACE).await;
    }
    Ok(taken)
}
