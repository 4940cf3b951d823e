//! The relays: a door per listening port, two pumps per connection.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Cuts, Party, Shared, source};

/// How late a door may open or close. The start and the end of a process are
/// told at once.
const LOOK_EVERY: Duration = Duration::from_millis(50);

struct Door {
    server: SocketAddrV4,
    /// Ends the listener when dropped; connections go on.
    _task: JoinSet<()>,
}

/// Open and close doors as ports behind them open and close.
pub(super) async fn keep_doors(shared: Arc<Shared>) {
    let mut doors: BTreeMap<SocketAddrV4, Door> = BTreeMap::new();
    let mut connections = JoinSet::new();
    let (arrived, mut arrivals) = tokio::sync::mpsc::channel(64);
    let mut clock = tokio::time::interval(LOOK_EVERY);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = clock.tick() => adjust(&shared, &mut doors, &arrived),
            () = shared.look.notified() => adjust(&shared, &mut doors, &arrived),
            Some((stream, front)) = arrivals.recv() => {
                if let Some(door) = doors.get(&front) {
                    connections.spawn(carry(Arc::clone(&shared), stream, front, door.server));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

type Arrivals = tokio::sync::mpsc::Sender<(TcpStream, SocketAddrV4)>;

fn adjust(shared: &Shared, doors: &mut BTreeMap<SocketAddrV4, Door>, arrived: &Arrivals) {
    let listening = source::listening();
    let wanted = wanted(shared, &listening);
    doors.retain(|front, door| wanted.get(front) == Some(&door.server));
    for (front, server) in wanted {
        if let std::collections::btree_map::Entry::Vacant(place) = doors.entry(front) {
            // Refused when a program took the front itself: then nobody stands between.
            if let Ok(listener) = listen(front) {
                let mut task = JoinSet::new();
                task.spawn(accept(listener, front, arrived.clone()));
                place.insert(Door { server, _task: task });
            }
        }
    }
}

fn wanted(shared: &Shared, listening: &BTreeSet<SocketAddrV4>) -> BTreeMap<SocketAddrV4, SocketAddrV4> {
    let state = shared.state();
    let fixed = state
        .fixed
        .iter()
        .filter(|(_, server)| listening.contains(server));
    let mut wanted: BTreeMap<_, _> = fixed.map(|(front, server)| (*front, *server)).collect();
    for server in listening {
        let front = shared
            .front_of(*server.ip())
            .filter(|front| state.by_front.contains_key(front));
        wanted.extend(front.map(|front| (SocketAddrV4::new(front, server.port()), *server)));
    }
    wanted
}

fn listen(front: SocketAddrV4) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(front.into())?;
    socket.listen(1024)
}

async fn accept(listener: TcpListener, front: SocketAddrV4, arrived: Arrivals) {
    while let Ok((stream, _)) = listener.accept().await {
        if arrived.send((stream, front)).await.is_err() {
            return;
        }
    }
}

async fn carry(shared: Arc<Shared>, mut client: TcpStream, front: SocketAddrV4, server: SocketAddrV4) {
    let from = who(&shared, &client, front).await;
    let to = shared
        .state()
        .by_front
        .get(front.ip())
        .cloned()
        .unwrap_or(Party::Outside);
    let mut cuts = shared.cuts.subscribe();
    // A connection needs both ways.
    until_open(&mut cuts, &from, &to).await;
    until_open(&mut cuts, &to, &from).await;
    let _ = client.set_nodelay(true);
    let Ok(mut server) = connect(&shared, &from, server).await else {
        // Nobody listens any more: look, so that the next one is refused.
        shared.look.notify_one();
        let _ = client.set_zero_linger();
        return;
    };
    let _ = server.set_nodelay(true);
    let result = {
        let (client_read, client_write) = client.split();
        let (server_read, server_write) = server.split();
        let there = pump(
            client_read,
            server_write,
            cuts.clone(),
            (from.clone(), to.clone()),
        );
        let back = pump(server_read, client_write, cuts, (to, from));
        tokio::try_join!(there, back)
    };
    if result.is_err() {
        // A reset on one side is a reset on the other.
        let _ = client.set_zero_linger();
        let _ = server.set_zero_linger();
    }
}

/// The other end of a connection.
async fn who(shared: &Arc<Shared>, client: &TcpStream, front: SocketAddrV4) -> Party {
    let Ok(SocketAddr::V4(peer)) = client.peer_addr() else {
        return Party::Outside;
    };
    if *peer.ip() != Ipv4Addr::LOCALHOST {
        let state = shared.state();
        let ip = shared.front_of(*peer.ip()).unwrap_or_else(|| *peer.ip());
        return state.by_front.get(&ip).cloned().unwrap_or(Party::Outside);
    }
    let known = Arc::clone(shared);
    let found = tokio::task::spawn_blocking(move || source::group_of(peer, front, &known.groups())).await;
    let group = found.ok().flatten();
    group
        .and_then(|group| shared.state().by_group.get(&group).cloned())
        .unwrap_or(Party::Outside)
}

/// Connect as the one who asked, so that the server sees its address.
async fn connect(shared: &Shared, from: &Party, server: SocketAddrV4) -> io::Result<TcpStream> {
    let own = shared
        .state()
        .by_front
        .iter()
        .find(|(_, party)| *party == from)
        .map(|(front, _)| *front);
    let socket = TcpSocket::new_v4()?;
    if let Some(own) = own {
        socket.bind((own, 0).into())?;
    }
    socket.connect(server.into()).await
}

async fn pump(
    mut from: tokio::net::tcp::ReadHalf<'_>,
    mut to: tokio::net::tcp::WriteHalf<'_>,
    mut cuts: watch::Receiver<Cuts>,
    (source, target): (Party, Party),
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = from.read(&mut buffer).await;
        // Also an end or a reset does not get through a cut.
        until_open(&mut cuts, &source, &target).await;
        let bytes = buffer.get(..count?).unwrap_or_default();
        if bytes.is_empty() {
            return to.shutdown().await;
        }
        to.write_all(bytes).await?;
    }
}

async fn until_open(cuts: &mut watch::Receiver<Cuts>, from: &Party, to: &Party) {
    let pair = (from.clone(), to.clone());
    let _ = cuts.wait_for(|cuts| !cuts.contains(&pair)).await;
}
