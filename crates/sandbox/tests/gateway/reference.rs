//! The acceptance scenarios of memgraph-controller's gateway, by their numbers. G8 is in `tls`, G9 in `reads` and
//! `reads_faults`, G11 in `gateway_many`: it needs a process of its own.

use crate::bed::{
    Bed, Database, PATIENCE, connect, count, http, http_at, is_cut, login_failure, metric, no_main, serving,
    taken, until, write,
};
use crate::reads_bed::{FROM_MAIN, free_port, reads, run};
use crate::scripted::{VERSION, done, framed, let_in, log_in};
use crate::tap::Tap;
use bolt::message::{Extra, FailureClass, Fetch, Request, Response, Run};
use bolt::packstream::{Value, dict};
use mainstay_core::memgraph::ids::Term;
use sandbox::standin::memgraph::Fault;
use sandbox::standin::memgraph::client::{Client, Message};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

const GIB: usize = 1 << 30;

/// A database as far as a gateway asks, which then sends a gibibyte of rows in strange pieces, and keeps what it is
/// sent until the other side closes.
async fn torrent() -> (SocketAddr, JoinSet<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let_in(&mut stream).await.unwrap();
        let mut sink = vec![0; 1 << 16];
        let (mut input, mut output) = stream.into_split();
        let sent = async {
            let row = row();
            let mut left = GIB;
            let mut size = 1;
            while left > 0 {
                let mut rest = &row[..];
                while !rest.is_empty() {
                    size = (size * 7 + 13) % 60_000 + 1;
                    let (part, after) = rest.split_at(size.min(rest.len()));
                    output.write_all(part).await.unwrap();
                    rest = after;
                }
                left = left.saturating_sub(row.len());
            }
            output.write_all(&framed(&[done()])).await.unwrap();
            output.shutdown().await.unwrap();
        };
        let heard = async {
            let mut all = Vec::new();
            loop {
                match input.read(&mut sink).await.unwrap() {
                    0 => return all,
                    read => all.extend_from_slice(&sink[..read]),
                }
            }
        };
        tokio::join!(sent, heard).1
    });
    (address, tasks)
}

/// One row of 4 MiB, which no two bytes of a wrong order would fit.
fn row() -> Vec<u8> {
    let letter = |n: u32| char::from(b'a' + u8::try_from(n.wrapping_mul(n) % 26).unwrap());
    let text: String = (0..1 << 22).map(letter).collect();
    framed(&[Response::Record(vec![Value::from(text)])])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g1_bytes_are_equal_both_ways_with_a_half_close_and_a_gibibyte_in_strange_pieces() {
    let (address, mut backend) = torrent().await;
    let bed = Bed::with(Some(serving(4, 0)), &[address], |_| {}).await;
    let mut stream = TcpStream::connect(bed.gateway.bolt()).await.unwrap();
    log_in(&mut stream).await.unwrap();
    // Upwards: a statement in pieces of one byte to many, then the half-close.
    let mut said = Vec::new();
    let large = Run::new("CREATE (:P {x: $x})").with("x", "x".repeat(3_000_000));
    Request::Run(large).frame(VERSION, &mut said).unwrap();
    let (mut input, mut output) = stream.into_split();
    let up = async {
        let (mut rest, mut size) = (&said[..], 1);
        while !rest.is_empty() {
            let (part, after) = rest.split_at(size.min(rest.len()));
            output.write_all(part).await.unwrap();
            rest = after;
            size = (size * 3) % 70_001 + 1;
        }
        output.shutdown().await.unwrap();
    };
    let row = row();
    let down = async {
        let mut expected = 0;
        let mut buffer = vec![0; 1 << 18];
        let mut all = 0_usize;
        let end = framed(&[done()]);
        loop {
            let read = input.read(&mut buffer).await.unwrap();
            if read == 0 {
                return all;
            }
            let mut bytes = &buffer[..read];
            all += read;
            while !bytes.is_empty() {
                let there = &row[expected..row.len().min(expected + bytes.len())];
                if bytes.starts_with(there) {
                    bytes = &bytes[there.len()..];
                    expected = (expected + there.len()) % row.len();
                } else {
                    assert!(expected == 0 && bytes == end, "bytes differ");
                    bytes = &[];
                }
            }
        }
    };
    let ((), got) = timeout(PATIENCE * 10, async { tokio::join!(up, down) })
        .await
        .unwrap();
    let end = framed(&[done()]).len();
    assert_eq!(got, GIB.div_ceil(row.len()) * row.len() + end);
    let heard = backend.join_next().await.unwrap().unwrap();
    assert!(heard == said, "{} bytes of {}", heard.len(), said.len());
}

#[tokio::test]
async fn g2_a_busy_session_outlives_the_idle_time_and_a_silent_one_does_not() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.idle = Some(Duration::from_millis(250));
    })
    .await;
    let (mut busy, mut silent) = (bed.client().await.unwrap(), bed.client().await.unwrap());
    let began = Instant::now();
    // Twelve times as long as anybody may be idle, as an hour is of five minutes.
    while began.elapsed() < Duration::from_secs(3) {
        write(&mut busy).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(is_cut(&mut silent).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_a_switch_closes_the_old_upstream_within_100_ms_and_nobody_lands_on_it_afterwards() {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let (old, new) = (Database::main(Some(4)).await, Database::main(Some(5)).await);
        let tap = Tap::before(old.server.bolt());
        let first = serving(4, 0);
        let mut bed = Bed::with(
            Some(first.clone()),
            &[tap.address, new.server.bolt()],
            // It asks MAIN in its own name, too.
            |config| config.reads = Some(reads(FROM_MAIN)),
        )
        .await;
        let port = bed.gateway.reads().unwrap();
        let mut clients = Vec::new();
        for _ in 0..50 {
            clients.push(bed.client().await.unwrap());
        }
        let mut reader = Client::connect_within(port, bolt::message::Auth::None, PATIENCE)
            .await
            .unwrap();
        // Sessions that race the switch: they connect and write all the time.
        let address = bed.gateway.bolt();
        let mut racing = JoinSet::new();
        for _ in 0..4 {
            racing.spawn(async move {
                let auth = bolt::message::Auth::None;
                for _ in 0..10 {
                    let auth = auth.clone();
                    let client = Client::connect(address, auth).await;
                    client.unwrap().query("CREATE (:P)").await.ok();
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        let lost = no_main(&first, 1);
        let began = Instant::now();
        bed.records.send_replace(Some(lost.clone()));
        bed.confirmed(5).await;
        best = best.min(began.elapsed());
        let (arrived, written) = (tap.bytes(), old.count().await);
        bed.records.send_replace(Some(taken(&lost, 1)));
        while racing.join_next().await.is_some() {}
        for client in &mut clients {
            write(client).await.unwrap();
        }
        count(&mut reader).await;
        assert_eq!(tap.bytes(), arrived, "a byte reached the old MAIN");
        assert_eq!(old.count().await, written, "a write reached the old MAIN");
        assert!(new.count().await >= 50);
    }
    // The best of five: the machine of a test is not its own.
    assert!(best <= Duration::from_millis(100), "{best:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g4_limits_are_exact_under_many_connects_at_once_and_are_counted() {
    let main = Database::main(Some(4)).await;
    for (connections, per_source, kind) in [
        (7, None, "too_many_connections"),
        (100, Some(7), "too_many_of_source"),
    ] {
        let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
            config.limits.connections = connections;
            config.limits.per_source = per_source;
        })
        .await;
        let bed = Arc::new(bed);
        let mut all = JoinSet::new();
        for _ in 0..40 {
            let bed = Arc::clone(&bed);
            all.spawn(async move { bed.client().await.ok() });
        }
        let mut clients = Vec::new();
        while let Some(client) = all.join_next().await {
            clients.extend(client.unwrap());
        }
        assert_eq!(clients.len(), 7);
        let refused = metric(&bed.gateway, &format!("refused_total{{kind=\"{kind}\"}}")).await;
        assert_eq!(refused.to_string(), "33");
    }
}

/// A port whose queue of connections is full: the system drops whatever else comes, as a machine does that is gone.
async fn black_hole() -> (SocketAddr, Vec<TcpStream>, TcpListener) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    while let Ok(connected) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        queue.push(connected.unwrap());
    }
    (address, queue, listener)
}

/// The reference wants an answer within the time to connect. Here a client may be held for longer, and is answered at
/// the end of that to the point; whoever does not want to be held has the answer after one try.
#[tokio::test]
async fn g5_an_upstream_that_refuses_or_swallows_is_answered_within_the_bound_and_reported() {
    const STEP: Duration = Duration::from_millis(200);
    let refusing = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let (gone, _queue, _full) = black_hole().await;
    // Connected by the system, never answered.
    let swallowing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute = swallowing.local_addr().unwrap();
    for (address, kind, hold, bound) in [
        (refusing, "unreachable", Duration::ZERO, Duration::ZERO),
        (gone, "silent", Duration::ZERO, STEP),
        (mute, "silent", Duration::ZERO, STEP),
        (refusing, "unreachable", STEP * 4, STEP * 4),
        (gone, "silent", STEP * 4, STEP * 4),
        (mute, "silent", STEP * 4, STEP * 4),
    ] {
        let mut best = Duration::MAX;
        for _ in 0..3 {
            let bed = Bed::with(Some(serving(4, 0)), &[address], |config| {
                config.timeouts.connect = STEP;
                config.timeouts.check = STEP;
                config.timeouts.hold = hold;
            })
            .await;
            until("open", async || {
                http(&bed.gateway, "GET /readyz HTTP/1.1", "").await.0 == 200
            })
            .await;
            let began = Instant::now();
            let told = login_failure(bed.client().await);
            best = best.min(began.elapsed());
            assert_eq!(told.class(), FailureClass::Transient, "{told}");
            let checks = metric(&bed.gateway, &format!("checks_total{{kind=\"{kind}\"}}")).await;
            assert!(checks > 0.0, "{kind}");
        }
        // The best of three: the machine of a test is not its own.
        let late = best.saturating_sub(bound);
        assert!(best >= bound && late < STEP / 2, "{kind}, {hold:?}: {best:?}");
    }
}

#[tokio::test]
async fn g6_a_drain_lets_a_transaction_end_and_new_ones_are_told_to_try_again() {
    let main = Database::main(Some(4)).await;
    let Bed {
        gateway,
        told,
        records: _records,
    } = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.drain = Duration::from_secs(20);
    })
    .await;
    let address = gateway.bolt();
    let mut running = connect(&gateway).await.unwrap();
    let mut idle = connect(&gateway).await.unwrap();
    running.begin().await.unwrap();
    write(&mut running).await.unwrap();
    let used = async {
        until("nobody accepts", async || {
            TcpStream::connect(address).await.is_err()
        })
        .await;
        let refused = idle.ask(&Request::Begin(Extra::default())).await.unwrap();
        assert!(
            matches!(&refused, Message::Failure(told) if told.class() == FailureClass::Transient
                && told.message.contains("shutting down")),
            "{refused:?}"
        );
        write(&mut running).await.unwrap();
        assert!(matches!(running.commit().await.unwrap(), Message::Success(_)));
    };
    let began = Instant::now();
    let ((), ()) = tokio::join!(used, gateway.shutdown());
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "nobody was waited for in vain"
    );
    assert!(is_cut(&mut running).await);
    assert_eq!(*told.borrow(), None, "and it is not registered any more");
    assert_eq!(main.count().await, 2);
}

/// Kubernetes takes a moment to send nobody any more: who comes in that moment is served.
#[tokio::test]
async fn g6_a_gateway_that_is_told_to_stop_takes_who_is_still_sent_to_it() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.leaving = Duration::from_secs(3);
    })
    .await;
    let (bolt, admin) = (bed.gateway.bolt(), bed.gateway.admin());
    let mut before = bed.client().await.unwrap();
    let came = async {
        until("it is not ready", async || {
            http_at(admin, "GET /readyz HTTP/1.1", "").await.0 == 503
        })
        .await;
        let late = Client::connect_within(bolt, bolt::message::Auth::None, PATIENCE).await;
        write(&mut late.unwrap()).await.unwrap();
        write(&mut before).await.unwrap();
    };
    let began = Instant::now();
    let ((), ()) = tokio::join!(came, bed.gateway.shutdown());
    assert!(began.elapsed() >= Duration::from_secs(3));
    assert_eq!(main.count().await, 2);
    assert!(TcpStream::connect(bolt).await.is_err());
}

#[tokio::test]
async fn g6_a_transaction_that_does_not_end_is_ended_with_the_drain() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.drain = Duration::from_millis(300);
    })
    .await;
    let mut client = bed.client().await.unwrap();
    client.begin().await.unwrap();
    write(&mut client).await.unwrap();
    timeout(PATIENCE, bed.gateway.shutdown()).await.unwrap();
    assert!(is_cut(&mut client).await);
    until("gone", async || main.count().await == 0).await;
}

/// A connection that is only closed says to some drivers that they may try again, and the write would be there twice.
#[tokio::test]
async fn g6_a_commit_that_outlasts_the_drain_is_called_unknown_and_an_open_transaction_may_be_tried_again() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.drain = Duration::from_millis(300);
    })
    .await;
    let (mut committing, mut alone, mut open) = (
        bed.client().await.unwrap(),
        bed.client().await.unwrap(),
        bed.client().await.unwrap(),
    );
    for client in [&mut committing, &mut open] {
        client.begin().await.unwrap();
        write(client).await.unwrap();
    }
    main.server.inject(&Fault::SlowBolt { ms: 20_000 }).unwrap();
    committing.send(&Request::Commit).await.unwrap();
    let query = Request::Run(Run::new("CREATE (:P)"));
    for request in [&query, &Request::Pull(Fetch::ALL)] {
        alone.send(request).await.unwrap();
    }
    open.send(&query).await.unwrap();
    let told = async {
        for (client, code) in [
            (&mut committing, "Memgraph.ClientError.Transaction.OutcomeUnknown"),
            (&mut alone, "Memgraph.ClientError.Transaction.OutcomeUnknown"),
            (&mut open, "Memgraph.TransientError.MemgraphError.MemgraphError"),
        ] {
            let told = client.receive().await.unwrap();
            assert!(
                matches!(&told, Message::Failure(told) if told.code == code && told.message.contains("shutting down")),
                "{told:?}"
            );
        }
    };
    let began = Instant::now();
    let ((), ()) = tokio::join!(told, bed.gateway.shutdown());
    assert!(began.elapsed() < Duration::from_secs(10), "nobody waits for it");
    assert!(is_cut(&mut committing).await);
}

#[tokio::test]
async fn g7_a_driver_that_asks_for_routes_is_sent_to_gateways() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.routing.reader = Some("reads:7687".to_owned());
    })
    .await;
    let mut client = bed.client().await.unwrap();
    let route = Request::Route(bolt::message::Route {
        context: dict([("address", Value::from("here:7687"))]),
        bookmarks: vec![],
        target: bolt::message::RouteTarget::Default,
    });
    let Message::Success(table) = client.ask(&route).await.unwrap() else {
        panic!("no table")
    };
    let servers = table["rt"].as_dict().unwrap()["servers"].as_list().unwrap();
    let of = |role: &str| -> Vec<String> {
        let server = servers.iter().map(|server| server.as_dict().unwrap());
        let mut server = server.filter(|server| server["role"].as_str() == Some(role));
        let addresses = server.next().unwrap()["addresses"].as_list().unwrap();
        assert!(server.next().is_none(), "{role} is named once");
        addresses
            .iter()
            .map(|to| to.as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(of("WRITE"), ["here:7687"]);
    assert_eq!(of("READ"), ["reads:7687"]);
    assert_eq!(of("ROUTE"), ["here:7687"]);
}

/// A gateway that hears of nothing any more goes on with the MAIN that it knows: the operator fences that one before the
/// next term serves. Demoted or ended, nothing that an open session of the deaf gateway says is written there.
#[tokio::test]
async fn g10_every_gateway_forwards_by_itself_and_none_outlives_its_term() {
    for demoted in [true, false] {
        let (old, new) = (Database::main(Some(4)).await, Database::main(Some(5)).await);
        let addresses = [old.server.bolt(), new.server.bolt()];
        let first = serving(4, 0);
        let told = Bed::start(Some(first.clone()), &addresses).await;
        let deaf = Bed::with(Some(first.clone()), &addresses, |config| {
            config.timeouts.hold = Duration::from_millis(300);
        })
        .await;
        let mut open = deaf.client().await.unwrap();
        write(&mut open).await.unwrap();
        let lost = no_main(&first, 1);
        told.records.send_replace(Some(lost.clone()));
        until("cut", async || told.gateway.confirmation().term == Term(5)).await;
        // The deaf one has confirmed nothing, so the old MAIN is fenced.
        let old = if demoted {
            let port = free_port(old.server.bolt().ip());
            let demote = format!("SET REPLICATION ROLE TO REPLICA WITH PORT {port}");
            run(&mut old.client().await, &demote).await;
            Some(old)
        } else {
            drop(old);
            None
        };
        told.records.send_replace(Some(taken(&lost, 1)));
        write(&mut told.client().await.unwrap()).await.unwrap();
        for _ in 0..3 {
            let told = open.query("CREATE (:P)").await.unwrap();
            assert!(told.failure().is_some(), "written on an old MAIN: {told:?}");
            open.reset().await.unwrap();
        }
        login_failure(deaf.client().await);
        if let Some(old) = old {
            assert_eq!(old.count().await, 1, "what was written before");
        }
        assert_eq!(new.count().await, 1);
    }
}

/// It may come back as a MAIN: then its data shows another term.
#[tokio::test]
async fn g10_an_old_main_that_is_back_in_a_later_term_takes_nobody_from_a_deaf_gateway() {
    let old = Database::main(Some(4)).await;
    let deaf = Bed::with(Some(serving(4, 0)), &[old.server.bolt()], |config| {
        config.timeouts.hold = Duration::from_millis(300);
    })
    .await;
    write(&mut deaf.client().await.unwrap()).await.unwrap();
    old.mark(6).await;
    login_failure(deaf.client().await);
    assert_eq!(old.count().await, 1);
}
