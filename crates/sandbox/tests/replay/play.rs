//! Doing what was done.

use super::Difference;
use super::compare::{Uuids, difference, refused, seen};
use super::step::{Deed, Step};
use super::tools::{connect, copy, created, message, scalar};
use bolt::message::{Auth, Run};
use sandbox::standin::memgraph::client::{Client, ClientError};
use sandbox::standin::memgraph::process::{Place, Process, Program};
use sandbox::standin::memgraph::{Effect, Fault, RpcKind, Rule};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// A step that goes on while others happen.
struct Running {
    step: u32,
    what: String,
    ends: u64,
    recorded: Json,
    answer: JoinHandle<Json>,
}

struct Stage {
    program: Program,
    profile: String,
    /// The third number of every address.
    network: u8,
    folder: PathBuf,
    scale: f64,
    processes: BTreeMap<String, Process>,
    sessions: BTreeMap<String, Client>,
    /// Everybody who was ever created, and nobody.
    credentials: Vec<Auth<'static>>,
    uuids: Uuids,
    occupied: Vec<std::net::TcpListener>,
    differences: Vec<Difference>,
}

/// How long something may take that only depends on how busy the machine is.
const PATIENCE: Duration = Duration::from_secs(20);

/// Plays one recording. `network` keeps recordings that are played at the same time apart.
pub(crate) async fn play(
    program: Program,
    profile: &str,
    recording: &str,
    network: u8,
    folder: &Path,
    scale: f64,
) -> Vec<Difference> {
    let network_text = format!("127.99.{network}.");
    let recording = recording
        // What went through a proxy goes straight; faults take its place.
        .replace("10.99.0.1:", &format!("{network_text}12:"))
        // Another name of the same host.
        .replace(
            "n2.test",
            &u32::from(Ipv4Addr::new(127, 99, network, 12)).to_string(),
        )
        .replace("10.99.0.", &network_text);
    let steps: Vec<Step> = recording
        .lines()
        .map(|line| serde_json::from_str(line).expect("a distilled recording"))
        .collect();
    let mut stage = Stage {
        program,
        profile: profile.to_owned(),
        network,
        folder: folder.to_owned(),
        scale,
        processes: BTreeMap::new(),
        sessions: BTreeMap::new(),
        credentials: vec![Auth::None],
        uuids: Uuids::default(),
        occupied: Vec::new(),
        differences: Vec::new(),
    };
    let mut running: Vec<Running> = Vec::new();
    let mut until = 0;
    for (at, step) in steps.iter().enumerate() {
        for over in extract(&mut running, |running| running.ends <= step.t) {
            stage.collect(over).await;
        }
        sleep(Duration::from_millis(step.t.saturating_sub(until)).mul_f64(scale)).await;
        let next = steps.get(at + 1).map_or(u64::MAX, |next| next.t);
        let ends = step.t + step.d;
        // What ended after the next thing began ran beside it.
        if let Deed::Ask {
            query, params, see, ..
        } = &step.deed
            && (ends > next.saturating_add(40) || see.get("lost").is_some_and(|how| how == "closed"))
        {
            let answer = tokio::spawn(stage.asking(&step.node, query, params, PATIENCE * 3));
            running.push(Running {
                step: step.n,
                what: step.describe(),
                ends,
                recorded: see.clone(),
                answer,
            });
            until = step.t;
            continue;
        }
        if let Some(how) = stage.perform(step).await {
            stage.differs(step.n, step.describe(), how);
        }
        until = ends;
    }
    for over in running {
        stage.collect(over).await;
    }
    stage.differences
}

fn extract<T>(all: &mut Vec<T>, over: impl Fn(&T) -> bool) -> Vec<T> {
    let (gone, kept) = std::mem::take(all).into_iter().partition(over);
    *all = kept;
    gone
}

impl Stage {
    fn differs(&mut self, step: u32, what: String, how: String) {
        self.differences.push(Difference { step, what, how });
    }

    async fn collect(&mut self, running: Running) {
        let answer = running.answer.await.expect("a query that does not panic");
        if let Some(how) = difference(&mut self.uuids, &running.recorded, &answer) {
            self.differs(running.step, running.what, how);
        }
    }

    fn host(&self, node: &str) -> IpAddr {
        let number: u8 = node.trim_start_matches('n').parse().expect("n1, n2 or n3");
        IpAddr::V4(Ipv4Addr::new(127, 99, self.network, 10 + number))
    }

    fn data(&self, node: &str) -> PathBuf {
        self.folder.join(node).join("data")
    }

    fn process(&mut self, node: &str) -> &mut Process {
        self.processes.get_mut(node).expect("a node that was started")
    }

    fn start(&mut self, node: &str, flags: &[String], init: Option<&str>, env: &BTreeMap<String, String>) {
        let host = self.host(node);
        let mut flags: Vec<String> = flags.to_vec();
        flags.push(format!("--profile={}", self.profile));
        flags.push(format!("--time-scale={}", self.scale));
        std::fs::create_dir_all(self.data(node)).expect("a folder");
        if let Some(init) = init {
            let file = self.folder.join(node).join("init.cypherl");
            std::fs::write(&file, init).expect("an init file");
            flags.push(format!("--init-file={}", file.display()));
        }
        if let (Some(user), Some(password)) = (env.get("MEMGRAPH_USER"), env.get("MEMGRAPH_PASSWORD")) {
            self.credentials.push(Auth::basic(user.clone(), password.clone()));
        }
        let number: u16 = node.trim_start_matches('n').parse().expect("n1, n2 or n3");
        let place = Place {
            host,
            bolt_port: 7687,
            admin_port: 20_000 + u16::from(self.network) * 10 + number,
            data: self.data(node),
            flags,
            environment: env.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        };
        let process = Process::start(&self.program, &place).expect("a process");
        self.processes.insert(node.to_owned(), process);
    }

    /// Asks on a connection of its own.
    fn asking(
        &self,
        node: &str,
        query: &str,
        params: &BTreeMap<String, Json>,
        patience: Duration,
    ) -> impl Future<Output = Json> + Send + 'static {
        let address = std::net::SocketAddr::new(self.host(node), 7687);
        let credentials = self.credentials.clone();
        let mut run = Run::new(query.to_owned());
        for (key, value) in params {
            run = run.with(key.clone(), scalar(value));
        }
        let query = query.to_owned();
        async move {
            let asked = async {
                let mut client = connect(address, &credentials).await?;
                client.patience = patience;
                client.run(&run).await
            };
            match asked.await {
                Ok(outcome) => seen(&query, &outcome),
                Err(ClientError::Login(failure)) => refused(&failure, "LOGON"),
                Err(ClientError::TimedOut(_)) => json!({ "lost": "timeout" }),
                Err(_) => json!({ "lost": "closed" }),
            }
        }
    }

    async fn perform(&mut self, step: &Step) -> Option<String> {
        let node = step.node.as_str();
        match &step.deed {
            Deed::Start { flags, init, env } => {
                self.start(node, flags, init.as_deref(), env);
                // The recorder waited for it before it asked anything.
                None
            }
            Deed::Open => self.opened(node).await,
            Deed::Signal { signal } => {
                let _ = self.process(node).signal(signal);
                if signal == "STOP" {
                    // Every thread has to notice it; a busy machine takes its time.
                    sleep(Duration::from_millis(50)).await;
                }
                None
            }
            Deed::Ended { code } => self.ended(node, *code).await,
            Deed::Wipe { folders } => {
                self.wipe(node, folders);
                None
            }
            Deed::Save => {
                copy(&self.data(node), &self.folder.join(node).join("saved"));
                None
            }
            Deed::Restore => {
                let data = self.data(node);
                std::fs::remove_dir_all(&data).expect("a data folder");
                copy(&self.folder.join(node).join("saved"), &data);
                None
            }
            Deed::Cut => {
                self.cut(node);
                None
            }
            Deed::Heal => {
                for node in node.split("<->").map(str::to_owned).collect::<Vec<_>>() {
                    self.inject(&node, &Fault::Heal);
                }
                None
            }
            Deed::Swallow { rpc } => {
                assert_eq!(rpc, "finalize", "the only one that was recorded");
                self.swallow(node);
                None
            }
            Deed::Mend => {
                self.inject(node, &Fault::Heal);
                None
            }
            Deed::SlowRecovery => {
                self.inject(node, &Fault::SlowRecovery { ms: 60_000 });
                None
            }
            Deed::Occupy => {
                let address = (self.host(node), 10_000);
                let taken = std::net::TcpListener::bind(address).expect("a free port");
                self.occupied.push(taken);
                None
            }
            Deed::Load { count } => {
                self.load(node, *count).await;
                None
            }
            Deed::FirstRole { see } => self.first_role(node, see.as_deref()).await,
            Deed::Login { auth, see } => self.login(node, auth, see).await,
            Deed::Ask {
                query,
                params,
                see,
                soon,
            } => {
                self.uuids.soon = *soon;
                let late = see.get("lost").is_some_and(|how| how == "timeout");
                let patience = if late {
                    Duration::from_millis(step.d).mul_f64(self.scale)
                } else {
                    PATIENCE * 3
                };
                let how = self.ask(node, query, params, see, patience).await;
                self.uuids.soon = false;
                how
            }
            Deed::Poll {
                query,
                see,
                polled,
                held,
            } => self.poll(node, query, see, *polled, *held).await,
            Deed::Transaction { replies } => self.transaction(node, replies).await,
            Deed::Begin { query, see } => self.begin(node, query, see.as_ref()).await,
            Deed::Commit { see } => self.commit(node, see).await,
        }
    }

    /// Writes, and lets everybody catch up.
    async fn load(&self, node: &str, count: u32) {
        let mut client = self.session(node).await;
        for id in 0..count {
            let query = format!("CREATE (:L {{id: {id}}})");
            client.query(&query).await.expect("a write");
        }
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let outcome = client.query("SHOW REPLICAS").await.expect("an answer");
            let replicas = seen("SHOW REPLICAS", &outcome).to_string();
            if !replicas.contains("recovery")
                && !replicas.contains("invalid")
                && !replicas.contains("replicating")
            {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn inject(&mut self, node: &str, fault: &Fault) {
        self.process(node).inject(fault).expect("an admin port");
    }

    fn cut(&mut self, nodes: &str) {
        let (one, other) = nodes.split_once("<->").expect("two nodes");
        for (at, peer) in [(one, other), (other, one)] {
            let rule = Rule {
                peer: Some(self.host(peer).to_string()),
                rpc: None,
                effect: Effect::Swallow,
                times: None,
            };
            self.inject(at, &Fault::Link(rule));
        }
    }

    fn swallow(&mut self, node: &str) {
        let rule = Rule {
            peer: None,
            rpc: Some(RpcKind::Finalize),
            effect: Effect::Swallow,
            times: None,
        };
        self.inject(node, &Fault::Link(rule));
    }

    async fn opened(&mut self, node: &str) -> Option<String> {
        let opened = self.process(node).open(PATIENCE).await;
        opened.err().map(|error| error.to_string())
    }

    async fn ended(&mut self, node: &str, code: i32) -> Option<String> {
        match self.process(node).ended(PATIENCE).await {
            Err(error) => Some(error.to_string()),
            Ok(status) => {
                let ended = status.code().or_else(|| status.signal().map(|signal| -signal));
                (ended != Some(code)).then(|| format!("recorded {code}, seen {ended:?}"))
            }
        }
    }

    fn wipe(&self, node: &str, folders: &[String]) {
        for folder in folders {
            let path = self.data(node).join(folder);
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).expect("a folder");
        }
    }

    /// What the first answer ever given says.
    async fn first_role(&mut self, node: &str, see: Option<&str>) -> Option<String> {
        let opened = self.process(node).open(PATIENCE).await;
        if opened.is_err() {
            return see.map(|role| format!("recorded {role}, seen {opened:?}"));
        }
        let answer = self
            .asking(node, "SHOW REPLICATION ROLE", &BTreeMap::new(), PATIENCE)
            .await;
        let role = answer.pointer("/rows/0/0").and_then(Json::as_str);
        (role != see).then(|| format!("recorded {see:?}, seen {role:?}"))
    }

    async fn login(&mut self, node: &str, auth: &BTreeMap<String, String>, see: &str) -> Option<String> {
        let text = |key: &str| auth.get(key).cloned().unwrap_or_default();
        let auth = match auth.get("scheme").map(String::as_str) {
            Some("basic") => Auth::basic(text("principal"), text("credentials")),
            _ => Auth::None,
        };
        let address = std::net::SocketAddr::new(self.host(node), 7687);
        let answer = match Client::connect(address, auth).await {
            Ok(_) => "SUCCESS".to_owned(),
            Err(ClientError::Login(_)) => "FAILURE".to_owned(),
            Err(error) => error.to_string(),
        };
        (answer != see).then(|| format!("recorded {see}, seen {answer}"))
    }

    /// A node that was just started is waited for, as the recorder did.
    async fn reachable(&mut self, node: &str) {
        if self.process(node).runs() {
            let _ = self.process(node).open(PATIENCE).await;
        }
    }

    async fn ask(
        &mut self,
        node: &str,
        query: &str,
        params: &BTreeMap<String, Json>,
        see: &Json,
        patience: Duration,
    ) -> Option<String> {
        self.reachable(node).await;
        if let Some(user) = created(query) {
            self.credentials.push(user);
        }
        let deadline = Instant::now() + Duration::from_secs(4).mul_f64(self.scale.max(0.5));
        let changes =
            !(query.starts_with("SHOW") || query.starts_with("MATCH") || query.starts_with("RETURN"));
        loop {
            let answer = self.asking(node, query, params, patience).await;
            let how = difference(&mut self.uuids, see, &answer);
            // Looking again is free, and somebody else may not be as far as he was.
            if how.is_none() || changes || Instant::now() > deadline {
                return how;
            }
            sleep(Duration::from_millis(25)).await;
        }
    }

    async fn poll(&mut self, node: &str, query: &str, see: &Json, polled: u64, held: bool) -> Option<String> {
        self.reachable(node).await;
        let recorded = Duration::from_millis(polled).mul_f64(self.scale);
        if held {
            sleep(recorded).await;
        }
        let deadline = Instant::now() + recorded + Duration::from_secs(6);
        loop {
            let answer = self.asking(node, query, &BTreeMap::new(), PATIENCE).await;
            let how = difference(&mut self.uuids, see, &answer);
            if how.is_none() || Instant::now() > deadline {
                return how;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn session(&self, node: &str) -> Client {
        let address = std::net::SocketAddr::new(self.host(node), 7687);
        connect(address, &self.credentials).await.expect("a connection")
    }

    async fn transaction(&mut self, node: &str, replies: &[(String, Json)]) -> Option<String> {
        let mut client = self.session(node).await;
        for (what, see) in replies {
            let answer = match what.as_str() {
                "BEGIN" => message(client.begin().await),
                "COMMIT" => message(client.commit().await),
                "ROLLBACK" => message(client.rollback().await),
                query => match client.run_without_reset(&Run::new(query)).await {
                    Ok(outcome) => seen(query, &outcome),
                    Err(error) => json!({ "error": error.to_string() }),
                },
            };
            let how = difference(&mut self.uuids, see, &answer);
            if how.is_some() {
                return how;
            }
        }
        None
    }

    async fn begin(&mut self, node: &str, query: &str, see: Option<&Json>) -> Option<String> {
        let mut client = self.session(node).await;
        client.begin().await.expect("BEGIN");
        let outcome = client
            .run_without_reset(&Run::new(query))
            .await
            .expect("an answer");
        self.sessions.insert(node.to_owned(), client);
        see.and_then(|see| difference(&mut self.uuids, see, &seen(query, &outcome)))
    }

    async fn commit(&mut self, node: &str, see: &Json) -> Option<String> {
        let mut client = self.sessions.remove(node).expect("an open transaction");
        let answer = message(client.commit().await);
        difference(&mut self.uuids, see, &answer)
    }
}
