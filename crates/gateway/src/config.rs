//! How a gateway runs.

use crate::credentials::Credentials;
use crate::front::{Back, Front};
use crate::token::PushToken;
use mainstay_core::memgraph::objects::{BOLT_PORT, ClusterName};
use mainstay_core::memgraph::read_gate;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How a gateway runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which cluster it serves.
    pub cluster: ClusterName,
    /// In which namespace.
    pub namespace: String,
    /// What it is called among the gateways of the cluster: part of the name of its Lease.
    pub name: String,
    /// Its own pod, if it runs in one: the Lease goes when the pod does.
    pub pod: Option<Pod>,
    /// Where clients connect.
    pub listen: SocketAddr,
    /// The port for reads; none: there is none.
    pub reads: Option<Reads>,
    /// Where pushes, health and metrics are served.
    pub admin: SocketAddr,
    /// Where the operator reaches `admin`, if that is not the address it is bound to.
    pub advertise: Option<String>,
    /// What a push must carry.
    pub token: PushToken,
    /// The port on which the database speaks Bolt.
    pub backend_port: u16,
    /// Whom `neo4j://` drivers are sent to.
    pub routing: Routing,
    /// How clients come in.
    pub front: Front,
    /// How databases are reached.
    pub back: Back,
    /// How much it takes on.
    pub limits: Limits,
    /// How long it waits for others.
    pub timeouts: Timeouts,
}

/// The port for reads.
#[derive(Clone, Debug)]
pub struct Reads {
    /// Where clients connect that only read.
    pub listen: SocketAddr,
    /// Who takes reads.
    pub policy: read_gate::Reads,
    /// Whom the gateway logs in as to ask MAIN for its replicas.
    pub credentials: Credentials,
}

/// Whom `neo4j://` drivers are sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Where writes go, as HOST:PORT; otherwise where the client came in.
    pub writer: Option<String>,
    /// Where reads go; otherwise to the port for reads of the host that writes go to, if there is one.
    pub reader: Option<String>,
    /// How long a driver may rely on it.
    pub ttl: Duration,
}

impl Default for Routing {
    fn default() -> Self {
        Self {
            writer: None,
            reader: None,
            ttl: Duration::from_secs(30),
        }
    }
}

/// The pod in which a gateway runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// How much a gateway takes on. What is beyond is refused, so that it never grows without bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections in all.
    pub connections: usize,
    /// Connections of one address; none: as many as there may be in all.
    pub per_source: Option<usize>,
    /// New connections in a second; none: as many as come.
    pub new_per_second: Option<u32>,
    /// New connections of one address in a second; none: as many as come.
    pub new_per_second_per_source: Option<u32>,
    /// Connections of one port that are held because nobody can serve them yet; none: as many as there may be in all.
    pub waiting: Option<usize>,
    /// Connections to the admin port.
    pub admin_connections: usize,
    /// Bytes of one message of a login. HELLO and LOGON are kept as long as their session lives.
    pub login_message: usize,
    /// Bytes that may be kept back until it is known what a statement is.
    pub undecided: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            per_source: None,
            new_per_second: None,
            new_per_second_per_source: None,
            waiting: None,
            admin_connections: 64,
            // A ticket of a directory service has a few KiB.
            login_message: 16 * 1024,
            undecided: 64 * 1024,
        }
    }
}

impl Limits {
    /// A place for each connection of a port that may wait.
    pub(crate) fn places_to_wait(&self) -> Arc<Semaphore> {
        let places = self.waiting.unwrap_or(self.connections);
        Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)))
    }
}

/// How long a gateway waits for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// How long a new connection is held while nobody can serve it.
    pub hold: Duration,
    /// For a client to say its part of everything until it is let in: PROXY header, TLS, handshake and login together.
    pub client: Duration,
    /// To reach the database.
    pub connect: Duration,
    /// For the database to answer handshake, login and check, each.
    pub check: Duration,
    /// For a cluster that hibernates to wake up because somebody connects; none: nobody wakes it.
    pub wake: Option<Duration>,
    /// Between two wishes that it may wake up.
    pub wake_rest: Duration,
    /// For one request to the Kubernetes API.
    pub api: Duration,
    /// For a connection to the admin port, from its begin to its end; a push that is being obeyed may take longer.
    pub admin: Duration,
    /// For the second direction of a connection to go on, once the first has ended: so long nothing may come.
    pub half_closed: Duration,
    /// After which a client is closed that asks for nothing and waits for nothing; none: never.
    pub idle: Option<Duration>,
    /// After which a client is closed that takes nothing of what it is sent.
    pub stall: Duration,
    /// For transactions to end before a cut that can wait for them.
    pub transactions: Duration,
    /// How long it goes on as before when it is told to stop, but for its `/readyz`: Kubernetes sends clients for a
    /// moment longer, and they are not to be refused.
    pub leaving: Duration,
    /// For sessions to end by themselves after that.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            hold: Duration::from_secs(15),
            client: Duration::from_secs(10),
            connect: Duration::from_secs(1),
            check: Duration::from_secs(2),
            wake: None,
            wake_rest: Duration::from_mins(10),
            api: Duration::from_secs(3),
            admin: Duration::from_secs(10),
            half_closed: Duration::from_secs(30),
            idle: None,
            stall: Duration::from_mins(5),
            transactions: Duration::from_secs(5),
            leaving: Duration::from_secs(3),
            drain: Duration::from_secs(20),
        }
    }
}

impl Config {
    /// A gateway called `name`, on loopback, on ports that the system chooses, that obeys no push.
    pub fn new(cluster: ClusterName, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            cluster,
            namespace: namespace.into(),
            name: name.into(),
            pod: None,
            listen: anywhere,
            reads: None,
            admin: anywhere,
            advertise: None,
            token: PushToken::None,
            backend_port: BOLT_PORT,
            routing: Routing::default(),
            front: Front::default(),
            back: Back::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_who_may_connect_may_wait_unless_fewer_are_asked_for() {
        let mut limits = Limits::default();
        assert_eq!(limits.places_to_wait().available_permits(), limits.connections);
        limits.waiting = Some(7);
        assert_eq!(limits.places_to_wait().available_permits(), 7);
    }
}
