//! Stand-ins, a gateway in front of them, and records.

use bolt::message::{Auth, Failure, Run};
use gateway::{Config, Gateway, Plane, PushToken, Resolve};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::document::Document;
use mainstay_core::memgraph::ids::{DatabaseId, Ordinal, ProcessId, Term, VolumeId};
use mainstay_core::memgraph::objects::{ClusterName, Confirmation};
use mainstay_core::memgraph::record::{Candidate, Main, Writes};
use mainstay_core::memgraph::rules::Rule;
use mainstay_core::time::Time;
use sandbox::standin::memgraph::client::{Client, ClientError, Outcome};
use sandbox::standin::memgraph::{Config as StandIn, Profile, Server, Timing};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

pub(crate) const TOKEN: &str = "push-token";

/// Far more than anything here takes; only a test that hangs gets there.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A database that goes with its folder.
pub(crate) struct Database {
    pub(crate) server: Server,
    folder: PathBuf,
}

impl Database {
    /// A MAIN whose data shows `term`; none shows nothing.
    pub(crate) async fn main(term: Option<u64>) -> Self {
        Self::main_at(IpAddr::V4(Ipv4Addr::LOCALHOST), term).await
    }

    /// The same, on an address of its own.
    pub(crate) async fn main_at(address: IpAddr, term: Option<u64>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("mainstay-gateway-{}-{count}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let mut config = StandIn::new(Profile::V3_12, &folder);
        config.timing = Timing::new(0.1, Duration::from_secs(1));
        (config.bolt_address, config.replication_address) = (address, address);
        let server = Server::start(config).await.unwrap();
        let database = Self { server, folder };
        if let Some(term) = term {
            database.mark(term).await;
        }
        database
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.server.bolt(), Auth::None).await.unwrap()
    }

    pub(crate) async fn mark(&self, term: u64) {
        let mut client = self.client().await;
        let set =
            Run::new("MERGE (m:__mainstay) SET m.term = $term").with("term", i64::try_from(term).unwrap());
        let done = client.run(&set).await.unwrap();
        assert!(done.rows().is_some(), "{done:?}");
    }

    pub(crate) async fn count(&self) -> i64 {
        count(&mut self.client().await).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// How many vertices with label P there are.
pub(crate) async fn count(client: &mut Client) -> i64 {
    let outcome = client.query("MATCH (n:P) RETURN count(n)").await.unwrap();
    outcome.rows().unwrap()[0][0].as_int().unwrap()
}

pub(crate) async fn write(client: &mut Client) -> Result<(), Failure<'static>> {
    match client.query("CREATE (:P)").await.unwrap() {
        Outcome::Done(_) => Ok(()),
        Outcome::Refused { failure, .. } => Err(failure),
    }
}

/// What a client whose connection was cut sees.
pub(crate) async fn is_cut(client: &mut Client) -> bool {
    matches!(client.query("RETURN 1").await, Err(ClientError::Connection(_)))
}

fn candidate(pod: u8) -> Candidate {
    Candidate {
        pod: Ordinal(pod),
        process: ProcessId(1),
        volume: VolumeId(1),
        peers: vec![],
        suspect: false,
        forced: None,
        claim: None,
    }
}

/// A record in which `pod` serves in `term`.
pub(crate) fn serving(term: u64, pod: u8) -> Record {
    let main = Main {
        pod: Ordinal(pod),
        process: ProcessId(1),
        volume: VolumeId(1),
        database: DatabaseId(1),
        term: Term(term),
        epoch: Term(term),
        peers: vec![],
        suspect: false,
        history_from: Term(0),
        rebuilt: false,
        office_from: Term(1),
        rival: None,
    };
    Record::initialising(Term(term), candidate(pod), Time::ZERO).serving(main, Writes::Open, Time::ZERO)
}

/// The same cluster in the next term, without a MAIN.
pub(crate) fn no_main(before: &Record, pod: u8) -> Record {
    before.new_term(candidate(pod), true, Time::ZERO)
}

/// `pod` serves in the term that `before` began.
pub(crate) fn taken(before: &Record, pod: u8) -> Record {
    let mut next = serving(before.term.0, pod);
    next.revision = before.revision.next();
    next
}

/// A planned move to `pod` has begun.
pub(crate) fn moving(before: &Record, pod: u8) -> Record {
    before.switching_over(candidate(pod), Time::ZERO)
}

/// The data of the ConfigMap.
pub(crate) fn data(record: &Record) -> BTreeMap<String, String> {
    Document::first(record.clone(), Rule::R18, Time::ZERO)
        .data()
        .unwrap()
}

pub(crate) fn cluster() -> ClusterName {
    "memgraph-ha".parse().unwrap()
}

pub(crate) fn config(name: &str) -> Config {
    let mut config = Config::new(cluster(), "db", name);
    config.token = PushToken::Fixed(TOKEN.to_owned());
    // Nobody else sends clients here.
    config.timeouts.leaving = Duration::ZERO;
    config
}

/// Pod 0, pod 1, … are at these addresses.
pub(crate) fn pods(addresses: &[SocketAddr]) -> Resolve {
    let table = addresses.iter().enumerate().map(|(pod, address)| {
        let pod = Ordinal(u8::try_from(pod).unwrap());
        (cluster().pod_host(pod, "db"), *address)
    });
    Resolve::Table(table.collect())
}

/// A gateway that is told of records over a channel.
pub(crate) struct Bed {
    pub(crate) gateway: Gateway,
    pub(crate) records: watch::Sender<Option<Record>>,
    pub(crate) told: watch::Receiver<Option<Confirmation>>,
}

impl Bed {
    pub(crate) async fn start(record: Option<Record>, addresses: &[SocketAddr]) -> Self {
        Self::with(record, addresses, |_| {}).await
    }

    pub(crate) async fn with(
        record: Option<Record>,
        addresses: &[SocketAddr],
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let mut config = config("a");
        change(&mut config);
        let (records, followed) = watch::channel(record);
        let (said, told) = watch::channel(None);
        let plane = Plane::Channel {
            records: followed,
            told: said,
        };
        let gateway = Gateway::start(config, plane, pods(addresses)).await.unwrap();
        Self {
            gateway,
            records,
            told,
        }
    }

    pub(crate) async fn client(&self) -> Result<Client, ClientError> {
        connect(&self.gateway).await
    }

    /// Waits until the gateway has confirmed this term.
    pub(crate) async fn confirmed(&mut self, term: u64) -> Confirmation {
        let reached = |told: &Option<Confirmation>| told.as_ref().is_some_and(|told| told.term == Term(term));
        let told = timeout(PATIENCE, self.told.wait_for(reached)).await;
        told.expect("confirmed in time").unwrap().clone().unwrap()
    }
}

pub(crate) async fn connect(gateway: &Gateway) -> Result<Client, ClientError> {
    Client::connect_within(gateway.bolt(), Auth::None, PATIENCE).await
}

/// The failure with which a login was refused.
pub(crate) fn login_failure(client: Result<Client, ClientError>) -> Failure<'static> {
    match client {
        Err(ClientError::Login(failure)) => failure,
        other => panic!("no refused login but {other:?}"),
    }
}

/// One request to the admin port: status and body.
pub(crate) async fn http(gateway: &Gateway, head: &str, body: &str) -> (u16, String) {
    http_at(gateway.admin(), head, body).await
}

pub(crate) async fn http_at(admin: SocketAddr, head: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(admin).await.unwrap();
    let request = format!(
        "{head}\r\nHost: gateway\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer))
        .await
        .unwrap()
        .unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}

pub(crate) async fn push(gateway: &Gateway, record: &Record, token: &str) -> (u16, String) {
    let body = serde_json::to_string(&data(record)).unwrap();
    let head = format!("POST /v1/record HTTP/1.1\r\nAuthorization: Bearer {token}");
    http(gateway, &head, &body).await
}

/// The value of a metric, of both ports together if the name says none.
pub(crate) async fn metric(gateway: &Gateway, name: &str) -> f64 {
    let (_, text) = http(gateway, "GET /metrics HTTP/1.1", "").await;
    let wanted = format!("mainstay_gateway_{name}");
    let values = text.lines().filter_map(|line| {
        let (shown, value) = line.rsplit_once(' ')?;
        let both = ["write", "read"].iter().fold(shown.to_owned(), |name, port| {
            let label = format!("listener=\"{port}\"");
            name.replace(&format!(",{label}"), "")
                .replace(&format!("{{{label}}}"), "")
        });
        (shown == wanted || both == wanted).then_some(value)
    });
    values
        .filter_map(|value| value.parse::<f64>().ok())
        .fold(0.0, |sum, value| sum + value)
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, looking).await.expect(what);
}
