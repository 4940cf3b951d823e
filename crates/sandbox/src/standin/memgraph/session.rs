//! One Bolt connection.

use super::node::{Ending, Node};
use super::perform::{Client, Page};
use super::texts;
use bolt::message::{Auth, Failure, Fetch};
use bolt::packstream::{OwnedDict, Structure, Value};
use bolt::server::{Event, ServerConfig, ServerInput, ServerOutput, ServerProfile, ServerSession};
use bolt::time::Moment;
use bolt::version::Version;
use sim::memgraph::instance::Profile;
use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::sleep;

/// How long a real server takes to check a password, right or wrong: its hash is slow on purpose.
const PASSWORD_CHECK: Duration = Duration::from_millis(230);

/// The connection is over.
struct Over;

struct Session {
    node: Arc<Node>,
    stream: TcpStream,
    bolt: ServerSession,
    client: Client,
    version: Option<Version>,
    began: Instant,
    ending: watch::Receiver<Ending>,
}

/// Serves one client until either side ends.
pub(super) async fn serve(node: Arc<Node>, stream: TcpStream) {
    let mut config = ServerConfig::new(match node.config.profile {
        Profile::V3_6 | Profile::V3_9 => ServerProfile::MEMGRAPH_3_6,
        Profile::V3_12 | Profile::Next => ServerProfile::MEMGRAPH_3_12,
    });
    let name = &node.config.server_name;
    config.server_name = (!name.is_empty()).then(|| name.clone());
    let _ = stream.set_nodelay(true);
    let mut session = Session {
        ending: node.ending.subscribe(),
        client: Client::new(&node),
        bolt: ServerSession::new(config, Moment::START),
        version: None,
        began: Instant::now(),
        node,
        stream,
    };
    while session.turn().await.is_ok() {}
    let _ = session.stream.shutdown().await;
}

impl Session {
    fn now(&self) -> Moment {
        Moment(self.began.elapsed())
    }

    /// Everything that is to be done, then one more read.
    async fn turn(&mut self) -> Result<(), Over> {
        while let Some(output) = self.bolt.poll() {
            match output {
                ServerOutput::Transmit(bytes) => self.stream.write_all(&bytes).await.map_err(|_| Over)?,
                ServerOutput::Event(event) => self.event(event).await?,
                ServerOutput::Close => return Err(Over),
            }
        }
        let mut buffer = vec![0; 64 * 1024];
        let read = tokio::select! {
            read = self.stream.read(&mut buffer) => read,
            _ = self.ending.wait_for(|ending| *ending != Ending::No) => return Err(Over),
        };
        let now = self.now();
        match read {
            Ok(0) | Err(_) => self.bolt.handle(now, ServerInput::Closed),
            Ok(length) => {
                let bytes = buffer.get(..length).unwrap_or_default();
                self.bolt.handle(now, ServerInput::Bytes(bytes));
            }
        }
        Ok(())
    }

    /// Carries one request out and replies. A query that runs when the process
    /// is told to end is told so; a commit that has begun is not interrupted: its replica may have it already, and the
    /// client would be told that it was aborted.
    async fn event(&mut self, event: Event) -> Result<(), Over> {
        let slow = self.node.faults.active().slow_bolt_ms;
        if slow > 0 {
            sleep(Duration::from_millis(slow)).await;
        }
        let (mut ending, committing) = (self.ending.clone(), self.client.committing());
        let mut told = false;
        {
            let mut work = pin!(self.carry_out(event));
            let ended = tokio::select! {
                () = &mut work => return Ok(()),
                ended = ending.wait_for(|ending| *ending != Ending::No) => ended.map_or(Ending::Killed, |e| *e),
            };
            if ended != Ending::Graceful {
                return Err(Over);
            }
            if committing.load(Ordering::Relaxed) {
                tokio::select! {
                    () = &mut work => told = true,
                    _ = ending.wait_for(|ending| *ending == Ending::Killed) => return Err(Over),
                }
            }
        }
        if !told {
            let _ = self.bolt.fail(&Failure::transient(texts::SHUTDOWN));
        }
        while let Some(ServerOutput::Transmit(bytes)) = self.bolt.poll() {
            self.stream.write_all(&bytes).await.map_err(|_| Over)?;
        }
        Err(Over)
    }

    async fn carry_out(&mut self, event: Event) {
        // A reply that nobody waits for any more: the client left meanwhile.
        let _ = match event {
            Event::Connected(version) => {
                self.version = Some(version);
                Ok(())
            }
            Event::Login(login) => {
                if self.node.has_password(&login.auth) {
                    sleep(self.node.config.timing.scaled(PASSWORD_CHECK)).await;
                }
                if self.node.knows(&login.auth) {
                    self.bolt.accept()
                } else {
                    self.bolt.refuse()
                }
            }
            Event::LoggedOff | Event::Left => {
                self.client.forget();
                Ok(())
            }
            Event::Run { run, in_transaction } => match self.client.prepare(&run, in_transaction) {
                Ok(columns) => {
                    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
                    self.bolt.run_started(&columns)
                }
                Err(failure) => self.bolt.fail(&failure),
            },
            Event::Pull(fetch) => self.fetch(fetch, true).await,
            Event::Discard(fetch) => self.fetch(fetch, false).await,
            Event::Begin(extra) => match self.client.begin(&extra) {
                Ok(()) => self.bolt.done(OwnedDict::new()),
                Err(failure) => self.bolt.fail(&failure),
            },
            Event::Commit => match self.client.commit().await {
                Ok(metadata) => self.bolt.done(metadata),
                Err(failure) => self.bolt.fail(&failure),
            },
            Event::Rollback | Event::Reset => {
                self.client.forget();
                self.bolt.done(OwnedDict::new())
            }
            Event::Route(_) => self.bolt.fail(&Failure::NOT_IN_A_CLUSTER),
        };
    }

    async fn fetch(&mut self, fetch: Fetch, send: bool) -> Result<(), bolt::server::ReplyError> {
        let page = self.client.fetch(fetch.amount).await;
        self.bolt.set_in_transaction(self.client.in_transaction());
        let Page {
            records,
            outcome,
            has_more,
        } = page;
        if send {
            for mut record in records {
                if self.version.is_some_and(|version| version < Version::V5_2) {
                    record.iter_mut().for_each(without_element_id);
                }
                self.bolt.record(&record)?;
            }
        }
        match outcome {
            Ok(mut metadata) => {
                let run_id = Value::from(self.node.run_id.clone());
                metadata.insert(Cow::Borrowed("run_id"), run_id);
                self.bolt.fetched(has_more, metadata)
            }
            Err(failure) => self.bolt.fail(&failure),
        }
    }
}

/// Before Bolt 5 a node has a number and nothing else.
fn without_element_id(value: &mut Value<'static>) {
    if let Value::Structure(structure) = value
        && let Structure::Node(node) = structure.as_mut()
    {
        node.element_id = None;
    }
}

impl Node {
    /// Whether there is a password to compare with.
    fn has_password(&self, auth: &Auth<'_>) -> bool {
        let Auth::Basic { principal, .. } = auth else {
            return false;
        };
        let core = self.core();
        core.users.get(principal.as_ref()).is_some_and(Option::is_some)
    }

    /// Whether somebody may log in. Without users everybody may.
    fn knows(&self, auth: &Auth<'_>) -> bool {
        let core = self.core();
        if core.users.is_empty() {
            return true;
        }
        let Auth::Basic {
            principal,
            credentials,
        } = auth
        else {
            return false;
        };
        core.users
            .get(principal.as_ref())
            .is_some_and(|password| password.as_ref().is_none_or(|password| password == credentials))
    }
}
