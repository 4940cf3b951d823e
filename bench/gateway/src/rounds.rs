//! The rounds: in each, every proxy does everything once.

use crate::contest::{Contestant, Kind, version};
use crate::database::{Answers, BLOCK, Database, LARGE_ROWS};
use crate::report::{Figures, Report};
use crate::sample::{cpu, resident};
use crate::{Run, load, switch};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::task::LocalSet;
use tokio::time::sleep;

const BUSY: usize = 64;
const AT_ONCE: usize = 32;
const STREAMS: usize = 4;

/// For memory to be given back that is not needed.
const SETTLE: Duration = Duration::from_millis(500);

/// Measures everything and says what came of it.
pub(crate) async fn run(arguments: &Run) -> Result<()> {
    LocalSet::new().run_until(measure(arguments)).await
}

/// Two databases that only differ in what their row says.
pub(crate) struct Bed {
    pub(crate) answers: Rc<Answers>,
    pub(crate) addresses: [SocketAddr; 2],
    pub(crate) term: Arc<AtomicU64>,
    pub(crate) blocks: usize,
}

async fn bed(arguments: &Run) -> Result<Bed> {
    let blocks = (arguments.mebibytes << 20).div_ceil(BLOCK * STREAMS);
    let term = Arc::new(AtomicU64::new(1));
    let answers = Rc::new(Answers::new("first")?);
    let database = |answers| Database {
        answers,
        term: Arc::clone(&term),
        blocks,
    };
    let first = database(Rc::clone(&answers)).start().await?;
    let second = database(Rc::new(Answers::new("other")?)).start().await?;
    Ok(Bed {
        answers,
        addresses: [first, second],
        term,
        blocks,
    })
}

async fn measure(arguments: &Run) -> Result<()> {
    let chosen = |kind: &Kind| arguments.only.is_empty() || arguments.only.contains(kind);
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(chosen).collect();
    let mut report = Report::new().await;
    for kind in &kinds {
        if *kind != Kind::Gateway {
            report.versions.push(version(kind.name()).await?);
        }
    }
    let bed = bed(arguments).await?;
    let mut rounds: BTreeMap<Kind, Vec<Figures>> = BTreeMap::new();
    for round in 1..=arguments.rounds {
        // Nobody always comes after the same one.
        let turns = kinds.iter().cycle().skip(round).take(kinds.len());
        for kind in turns {
            let figures = turn(arguments, &bed, *kind).await;
            let figures = figures.with_context(|| format!("{} in round {round}", kind.name()))?;
            eprintln!("round {round} {:8} {figures}", kind.name());
            rounds.entry(*kind).or_default().push(figures);
        }
    }
    report.take(rounds);
    if arguments.switches > 0 {
        report.switches = switch::measure(arguments, &bed, &kinds).await?;
    }
    report.show(arguments.json.as_deref())
}

async fn turn(arguments: &Run, bed: &Bed, kind: Kind) -> Result<Figures> {
    let proxy = Contestant::start(kind, bed.addresses, arguments.proxy_core).await?;
    let (pid, to) = (proxy.pid, proxy.address);
    // The first connection of all, so that what is only built once is there.
    drop(load::idle(to, 1).await?);
    sleep(SETTLE).await;
    let base = resident(pid)?;
    let clients = load::idle(to, arguments.idle).await?;
    sleep(SETTLE).await;
    let held = resident(pid)?.saturating_sub(base);
    drop(clients);
    sleep(SETTLE).await;

    let clients = load::idle(to, BUSY).await?;
    let requests = spent(pid, load::requests(clients, &bed.answers, arguments.requests)).await?;
    let connections = spent(pid, load::connections(to, arguments.connections, AT_ONCE)).await?;
    let mut bulk = [0.0; 2];
    for (figure, query) in bulk.iter_mut().zip(load::BULK) {
        // Small rows are the same work for every byte: a quarter says it.
        let clients = load::idle(to, STREAMS).await?;
        let used = spent(pid, load::bulk(clients, &bed.answers, query, bed.blocks)).await?;
        let bytes = bed.answers.bulk(query, bed.blocks) * STREAMS;
        *figure = used.as_secs_f64() * 1e3 / (real(bytes) / real(1 << 30));
    }
    proxy.stop().await?;
    let [large_rows, small_rows] = bulk;
    debug_assert_eq!(load::BULK.first(), Some(&LARGE_ROWS));
    Ok(Figures {
        request: requests.as_secs_f64() * 1e6 / real(BUSY * arguments.requests),
        connection: connections.as_secs_f64() * 1e6 / real(arguments.connections.div_ceil(AT_ONCE) * AT_ONCE),
        large_rows,
        small_rows,
        idle: real(usize::try_from(held)?) / 1024.0 / real(arguments.idle),
        base: real(usize::try_from(base)?) / f64::from(1 << 20),
    })
}

/// CPU time of a process while something is done.
async fn spent(pid: u32, work: impl Future<Output = Result<()>>) -> Result<Duration> {
    let before = cpu(pid)?;
    work.await?;
    Ok(cpu(pid)?.saturating_sub(before))
}

#[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub(crate) const fn real(count: usize) -> f64 {
    count as f64
}
