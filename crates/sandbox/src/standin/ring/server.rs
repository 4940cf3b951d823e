//! Sockets, a clock, and the end.

use super::config::Config;
use super::folder::FolderError;
use super::node::{ME, Node};
use super::rest::{self, Answer};
use super::wire::{self, Message, Reply};
use bytes::Bytes;
use futures::future::join_all;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mainstay_core::ring::ids::{Address, HostId};
use sim::ring::model::{Refusal, Stage};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

/// How long another node may take to answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often seeds are asked before a start is given up.
const TRIES: u32 = 5;

/// Why a stand-in did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The database refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// `replace_address` on a bootstrapped disk.
    #[error("Cannot replace address with a node that is already bootstrapped")]
    AlreadyBootstrapped,
    /// The folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A port.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// How it ended by itself: refused, or after it left the ring.
type End = Option<Option<Refusal>>;

struct Shared {
    node: Mutex<Node>,
    end: watch::Sender<End>,
    storage_port: u16,
}

impl Shared {
    fn node(&self) -> MutexGuard<'_, Node> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn tell(&self, to: impl IntoIterator<Item = Address>, message: &Message) -> usize {
        let told = to
            .into_iter()
            .map(|address| wire::say(address, self.storage_port, message, PATIENCE));
        let done = |reply: &&io::Result<Reply>| matches!(reply, Ok(Reply::Ok));
        join_all(told).await.iter().filter(done).count()
    }

    /// Does a majority let it become a member? Asked right before, because afterwards nobody can take it back.
    async fn may_join(&self) -> bool {
        let (wanted, host, peers) = {
            let node = self.node();
            let Some((host, wanted)) = node.about_to_join() else {
                return true;
            };
            (wanted, host, node.peers())
        };
        self.tell(peers, &Message::Consent(host)).await >= wanted
    }

    /// One round: everybody who is known is told and asked.
    async fn gossip(&self) {
        let (peers, own, paused) = {
            let node = self.node();
            let own = node.snapshot().filter(|s| s.process.is_some());
            (node.peers(), own.map(Box::new), node.is_silent())
        };
        if paused {
            return;
        }
        let message = Message::Gossip(own);
        let asked = peers.into_iter().map(|address| {
            let message = &message;
            async move {
                let reply = wire::say(address, self.storage_port, message, PATIENCE).await;
                (address, reply)
            }
        });
        let replies = join_all(asked).await;
        let mut node = self.node();
        for (address, reply) in replies {
            match reply {
                Ok(Reply::Snapshot(snapshot)) => node.absorb(*snapshot),
                Ok(Reply::Ok | Reply::Banned) | Err(_) => node.silent(address),
            }
        }
    }

    /// A second of the database; the end, if this was it.
    async fn turn(&self) {
        self.gossip().await;
        if !self.may_join().await {
            let banned = {
                let node = self.node();
                let own = node.ring.process(ME).map(|p| p.host);
                own.is_some_and(|host| node.ring.topology.left.contains(&host))
            };
            if banned {
                self.end.send_replace(Some(Some(Refusal::AskedBefore)));
            }
            return;
        }
        let (ended, gone, hints) = {
            let mut node = self.node();
            if node.is_silent() {
                // Deaf and dumb, it hears nobody: who is not heard of is down after a while.
                let peers = node.peers();
                for peer in peers {
                    node.silent(peer);
                }
            }
            let host = node.ring.process(ME).map(|p| p.host);
            let ended = node.tick();
            let saved = node.save();
            if let Err(error) = saved {
                eprintln!("ERROR storage - {error}");
            }
            let left = node.ring.process(ME).is_none();
            let ended = match ended {
                Err(refusal) => Some(Some(refusal)),
                Ok(()) if left => Some(None),
                Ok(()) => None,
            };
            (ended, host.filter(|_| left), node.due_hints())
        };
        for (address, row) in hints {
            self.tell([address], &Message::Store(row)).await;
        }
        if let Some(end) = ended {
            if let (None, Some(host)) = (&end, gone) {
                self.tell_all(host).await;
            }
            self.end.send_replace(Some(end));
        }
    }

    async fn tell_all(&self, host: HostId) {
        let peers = self.node().peers();
        self.tell(peers, &Message::Gone(host)).await;
    }

    fn heard(&self, message: Message) -> Option<Reply> {
        let mut node = self.node();
        if node.is_silent() {
            return None;
        }
        Some(match message {
            Message::Gossip(told) => {
                if let Some(told) = told {
                    node.hear(*told);
                }
                Reply::Snapshot(Box::new(node.snapshot()?))
            }
            Message::Goodbye(host) => {
                node.goodbye(host);
                Reply::Ok
            }
            Message::Gone(host) => {
                node.gone(host);
                Reply::Ok
            }
            Message::Consent(host) if !node.consent(host) => Reply::Banned,
            Message::Consent(_) => Reply::Ok,
            Message::Store(row) => {
                node.store(row);
                // Whatever is acknowledged is kept, also if this was the last that it did.
                node.save().ok()?;
                Reply::Ok
            }
        })
    }
}

/// A stand-in that runs.
pub struct Server {
    shared: Arc<Shared>,
    api: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Starts one inside this process. Dropping it is like killing it.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let (listen, api, admin, native) = (config.listen, config.api, config.admin, config.native);
        let (scale, always) = (config.time_scale, config.replace_always);
        let node = Node::open(config)?;
        let completed = node
            .ring
            .places
            .first()
            .is_some_and(|p| p.disk.stage() == Stage::Completed);
        if completed && always {
            return Err(StartError::AlreadyBootstrapped);
        }
        if completed && node.config.replaces.is_some() {
            println!(
                "INFO storage_service - Replace node on first boot requested; this node is already bootstrapped"
            );
        }
        let gossip = bind(listen).await?;
        let rest = bind(api).await?;
        let shared = Arc::new(Shared {
            node: Mutex::new(node),
            end: watch::Sender::new(None),
            storage_port: listen.port(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(listen_to(Arc::clone(&shared), gossip));
        let api = rest.local_addr().unwrap_or(api);
        tasks.spawn(serve(Arc::clone(&shared), rest, false));
        if let Some(admin) = admin {
            tasks.spawn(serve(Arc::clone(&shared), bind(admin).await?, true));
        }
        shadow_round(&shared, completed).await;
        let started = {
            let mut node = shared.node();
            let started = node.start();
            // A refused start leaves its host id behind.
            node.save()?;
            started
        };
        started?;
        let beat = Duration::from_millis((1000 / u64::from(scale)).max(50));
        tasks.spawn(beats(Arc::clone(&shared), beat, native));
        Ok(Self {
            shared,
            api,
            _tasks: tasks,
        })
    }

    /// Where REST is served.
    pub fn api(&self) -> SocketAddr {
        self.api
    }

    /// Ends when the node does by itself: why, or `None` if it has left the ring.
    pub async fn ended(&mut self) -> Option<Refusal> {
        let mut end = self.shared.end.subscribe();
        let ended = end.wait_for(Option::is_some).await;
        ended.ok().and_then(|end| end.clone().flatten())
    }

    /// SIGTERM: the others are told.
    pub async fn terminate(self) {
        let (peers, host) = {
            let node = self.shared.node();
            let normal = node
                .ring
                .process(ME)
                .filter(|p| node.ring.alive(p.host) == Some(ME));
            (node.peers(), normal.map(|p| p.host))
        };
        if let Some(host) = host {
            self.shared.tell(peers, &Message::Goodbye(host)).await;
        }
    }
}

/// Asks the seeds what they know, and then everybody they know. A member that starts again does not wait for them.
async fn shadow_round(shared: &Shared, member: bool) {
    for _ in 0..TRIES {
        shared.gossip().await;
        // Those the seeds have named.
        shared.gossip().await;
        let (reached, alone) = {
            let node = shared.node();
            let others = node.config.seeds.iter().any(|s| *s != node.config.broadcast);
            (!node.ring.running().is_empty(), !others)
        };
        if reached || alone || member {
            return;
        }
        sleep(PATIENCE).await;
    }
}

async fn beats(shared: Arc<Shared>, beat: Duration, native: SocketAddr) {
    let mut clock = interval(beat);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut clients = JoinSet::new();
    while shared.end.borrow().is_none() {
        clock.tick().await;
        shared.turn().await;
        let member = {
            let node = shared.node();
            let own = node.ring.process(ME).map(|p| p.host);
            !node.drained && own.is_some_and(|host| node.ring.alive(host) == Some(ME))
        };
        if shared.node().drained {
            clients.shutdown().await;
        }
        // Clients are let in last.
        if member
            && clients.is_empty()
            && let Ok(listener) = TcpListener::bind(native).await
        {
            clients.spawn(async move { while listener.accept().await.is_ok() {} });
        }
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| StartError::Listen { address, source })
}

async fn listen_to(shared: Arc<Shared>, listener: TcpListener) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    open.spawn(converse(Arc::clone(&shared), stream));
                }
            }
            Some(_) = open.join_next(), if !open.is_empty() => {}
        }
    }
}

async fn converse(shared: Arc<Shared>, stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    let Ok(message) = wire::hear(&mut stream).await else {
        return;
    };
    let Some(reply) = shared.heard(message) else {
        // Paused: silence, as from a process that stands still.
        return sleep(rest::FROZEN).await;
    };
    if let Ok(line) = serde_json::to_string(&reply) {
        // Who asked may be gone.
        let _ = stream.write_all(format!("{line}\n").as_bytes()).await;
    }
}

async fn serve(shared: Arc<Shared>, listener: TcpListener, admin: bool) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let shared = Arc::clone(&shared);
                open.spawn(async move {
                    let service = service_fn(move |request| {
                        let shared = Arc::clone(&shared);
                        async move { Ok::<_, Infallible>(respond(&shared, &request, admin).await) }
                    });
                    // A client that goes away is no fault of ours.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
            Some(_) = open.join_next(), if !open.is_empty() => {}
        }
    }
}

async fn respond(shared: &Shared, request: &Request<Incoming>, admin: bool) -> Response<Full<Bytes>> {
    let query: Vec<(String, String)> = form_urlencoded::parse(request.uri().query().unwrap_or("").as_bytes())
        .map(|(key, value)| (key.into_owned(), value.into_owned()))
        .collect();
    let (method, path) = (request.method().as_str(), request.uri().path());
    if !admin && shared.node().faults.freeze_api {
        sleep(rest::FROZEN).await;
    }
    let answer = {
        let mut node = shared.node();
        if admin {
            rest::admin(&mut node, method, path, &query)
        } else {
            rest::rest(&mut node, method, path, &query)
        }
    };
    let (code, body) = match answer {
        Answer::Value(value) => (200, value.to_string()),
        Answer::Refused(code, message) => (
            code,
            serde_json::json!({ "message": message, "code": code }).to_string(),
        ),
        Answer::TellGone(host) => {
            shared.tell_all(host).await;
            (200, String::from("\"\""))
        }
        Answer::TellStore { row, to, wanted } => {
            let kept = shared.tell(to, &Message::Store(row)).await;
            (if kept >= wanted { 200 } else { 503 }, kept.to_string())
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}
