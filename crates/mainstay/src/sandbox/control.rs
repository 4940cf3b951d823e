//! What can be done to a running sandbox, and how another process asks for it.
//!
//! One line of JSON each way over a socket file in the sandbox's folder, which only its owner can open.

use sandbox::kube::Kubernetes;
use sandbox::node::{Direction, FaultError, Nodes, Party};
use serde::{Deserialize, Serialize};
use sim::kube::controllers::{Kind, View, name_of, namespace_of};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Something to be broken or mended. Pods are of the sandbox's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// SIGKILL to all processes of a pod; its node starts them again.
    Kill {
        /// Which.
        pod: String,
    },
    /// SIGSTOP: connections stay open, nobody answers.
    Stop {
        /// Which.
        pod: String,
    },
    /// SIGCONT.
    Continue {
        /// Which.
        pod: String,
    },
    /// Bytes between this pod and every other pod that is there now and the API are held back, both ways.
    Isolate {
        /// Which.
        pod: String,
    },
    /// They are let through again.
    Rejoin {
        /// Which.
        pod: String,
    },
    /// Bytes between these two pods are held back, both ways.
    Part {
        /// One of them.
        one: String,
        /// The other.
        other: String,
    },
    /// They are let through again.
    Join {
        /// One of them.
        one: String,
        /// The other.
        other: String,
    },
    /// Bytes between this pod and the API are held back, both ways.
    Deafen {
        /// Which.
        pod: String,
    },
    /// They are let through again.
    Hear {
        /// Which.
        pod: String,
    },
    /// No pod gets an answer from the API server. Whoever is outside of pods still does.
    FreezeApi,
    /// It answers again.
    ThawApi,
    /// Are you there?
    Ping,
    /// Everything that was broken is mended.
    Mend,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reply {
    /// Why it was not done.
    error: Option<String>,
}

/// Why a sandbox did not do what it was asked.
#[derive(Debug, Error)]
pub(crate) enum ControlError {
    /// Nobody listens there.
    #[error("no sandbox answers on {path}")]
    Unreachable {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It went away.
    #[error("the sandbox went away before it answered")]
    Gone,
    /// It said something else.
    #[error("the sandbox's answer cannot be read")]
    Answer(#[source] serde_json::Error),
    /// It said no.
    #[error("the sandbox refused: {0}")]
    Refused(String),
}

/// How long a sandbox may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the sandbox behind this socket.
pub(crate) async fn ask(socket: &Path, request: &Request) -> Result<(), ControlError> {
    let unreachable = |source| ControlError::Unreachable {
        path: socket.to_owned(),
        source,
    };
    let mut stream = UnixStream::connect(socket).await.map_err(unreachable)?;
    let mut line = serde_json::to_string(request).map_err(ControlError::Answer)?;
    line.push('\n');
    stream
        .write_all(line.as_bytes())
        .await
        .map_err(|_| ControlError::Gone)?;
    let mut answer = String::new();
    let read = timeout(PATIENCE, BufReader::new(stream).read_line(&mut answer)).await;
    match read {
        Ok(Ok(1..)) => {}
        _ => return Err(ControlError::Gone),
    }
    let Reply { error } = serde_json::from_str(&answer).map_err(ControlError::Answer)?;
    error.map_or(Ok(()), |error| Err(ControlError::Refused(error)))
}

/// The side that does it. Clones are the same.
#[derive(Clone)]
pub(crate) struct Control {
    kubernetes: Kubernetes,
    nodes: Arc<Nodes>,
    namespace: String,
    broken: Arc<Mutex<Broken>>,
}

/// What is broken now, so that all of it can be mended.
#[derive(Default)]
struct Broken {
    stopped: BTreeSet<String>,
    isolated: BTreeSet<String>,
    parted: BTreeSet<(String, String)>,
    deaf: BTreeSet<String>,
    api_frozen: bool,
}

impl Control {
    pub(crate) fn new(kubernetes: Kubernetes, nodes: Arc<Nodes>, namespace: &str) -> Self {
        Self {
            kubernetes,
            nodes,
            namespace: namespace.to_owned(),
            broken: Arc::default(),
        }
    }

    /// Answers until it is cancelled. Then every connection is closed, and nobody holds the nodes by one.
    pub(crate) async fn serve(self, listener: UnixListener, cancelled: CancellationToken) {
        let mut open = JoinSet::new();
        loop {
            tokio::select! {
                () = cancelled.cancelled() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => { open.spawn(self.clone().answer(stream)); }
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
                Some(_) = open.join_next() => {}
            }
        }
        open.shutdown().await;
    }

    async fn answer(self, stream: UnixStream) {
        let (from, mut to) = stream.into_split();
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let done = match serde_json::from_str(&line) {
                Ok(request) => self.apply(&request).map_err(|error| error.to_string()),
                Err(error) => Err(format!("not a request: {error}")),
            };
            let reply = Reply { error: done.err() };
            let Ok(mut text) = serde_json::to_string(&reply) else {
                return;
            };
            text.push('\n');
            if to.write_all(text.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    /// Does it at once.
    pub(crate) fn apply(&self, request: &Request) -> Result<(), FaultError> {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        match request {
            Request::Kill { pod } => self.nodes.kill(&self.party(pod), None)?,
            Request::Stop { pod } => {
                self.nodes.stop_processes(&self.party(pod), None)?;
                broken.stopped.insert(pod.clone());
            }
            Request::Continue { pod } => {
                self.nodes.continue_processes(&self.party(pod), None)?;
                broken.stopped.remove(pod);
            }
            Request::Isolate { pod } => {
                broken.isolated.insert(pod.clone());
            }
            Request::Rejoin { pod } => {
                broken.isolated.remove(pod);
            }
            Request::Part { one, other } => {
                broken.parted.insert((one.clone(), other.clone()));
            }
            Request::Join { one, other } => {
                broken.parted.remove(&(one.clone(), other.clone()));
            }
            Request::Deafen { pod } => {
                broken.deaf.insert(pod.clone());
            }
            Request::Hear { pod } => {
                broken.deaf.remove(pod);
            }
            Request::Ping => {}
            Request::FreezeApi => broken.api_frozen = true,
            Request::ThawApi => broken.api_frozen = false,
            Request::Mend => {
                for pod in std::mem::take(&mut broken.stopped) {
                    // It may be gone by now, and is mended then.
                    self.nodes.continue_processes(&self.party(&pod), None).ok();
                }
                broken.isolated.clear();
                broken.parted.clear();
                broken.deaf.clear();
                broken.api_frozen = false;
            }
        }
        self.cut_as(&broken);
        Ok(())
    }

    /// Cuts and heals until the network is as broken as it should be. One pod may be cut off for two reasons, so
    /// what is cut follows from what is broken and is never undone by itself.
    fn cut_as(&self, broken: &Broken) {
        let pods = self.pods();
        let mut wanted = BTreeSet::new();
        for pod in &pods {
            let cut_off = |other: &Party| [(pod.clone(), other.clone()), (other.clone(), pod.clone())];
            if broken.isolated.iter().any(|name| self.party(name) == *pod) {
                wanted.extend(pods.iter().filter(|other| *other != pod).flat_map(cut_off));
                wanted.extend(cut_off(&Party::Api));
            }
            if broken.api_frozen || broken.deaf.iter().any(|name| self.party(name) == *pod) {
                wanted.extend(cut_off(&Party::Api));
            }
        }
        for (one, other) in &broken.parted {
            let (one, other) = (self.party(one), self.party(other));
            wanted.extend([(one.clone(), other.clone()), (other, one)]);
        }
        let cut: BTreeSet<(Party, Party)> = self.nodes.network().cuts().into_iter().collect();
        for (from, to) in cut.difference(&wanted) {
            self.nodes.heal(from, to, Direction::OneWay);
        }
        for (from, to) in wanted.difference(&cut) {
            self.nodes.cut(from, to, Direction::OneWay);
        }
    }

    fn pods(&self) -> BTreeSet<Party> {
        self.kubernetes.with_store(|store| {
            let pods = View::list(store, Kind::Pod).into_iter();
            pods.map(|pod| Party::pod(namespace_of(pod), name_of(pod)))
                .collect()
        })
    }

    fn party(&self, pod: &str) -> Party {
        Party::pod(&self.namespace, pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox::node::{Config, Images};

    #[tokio::test]
    async fn a_connection_that_stays_open_does_not_keep_the_nodes_from_their_end() {
        let folder = std::env::temp_dir().join(format!("mainstay-control-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let kubernetes = Kubernetes::new(1);
        let config = Config::new(folder.join("nodes"), Images::new());
        let nodes = Arc::new(Nodes::start(&kubernetes, config).unwrap());
        let control = Control::new(kubernetes, Arc::clone(&nodes), "default");
        let socket = folder.join("control");
        let listener = UnixListener::bind(&socket).unwrap();
        let cancelled = CancellationToken::new();
        let served = tokio::spawn(control.serve(listener, cancelled.clone()));
        let mut connected = BufReader::new(UnixStream::connect(&socket).await.unwrap());
        connected.write_all(b"{\"do\": \"ping\"}\n").await.unwrap();
        let mut answer = String::new();
        connected.read_line(&mut answer).await.unwrap();
        assert_eq!(answer, "{\"error\":null}\n");

        cancelled.cancel();
        served.await.unwrap();
        let nodes = Arc::into_inner(nodes).expect("somebody still holds the nodes");
        nodes.stop().await;
        assert_eq!(connected.read_line(&mut answer).await.unwrap(), 0, "it is closed");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
