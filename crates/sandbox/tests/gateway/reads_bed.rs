//! A MAIN with replicas that follow it, and a gateway with a port for reads in front of them.

use crate::bed::{Bed, Database, PATIENCE, serving, until};
use bolt::message::{Auth, Failure};
use gateway::{Config, Credentials, Reads};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::read_gate;
use sandbox::standin::memgraph::client::{Client, ClientError, Message, Outcome};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};

/// Only near replicas, neither SYNC nor MAIN.
pub(crate) const POLICY: read_gate::Reads = read_gate::Reads {
    max_lag: 10,
    from_sync: false,
    from_main: false,
};

/// MAIN, too, while no replica may.
pub(crate) const FROM_MAIN: read_gate::Reads = read_gate::Reads {
    from_main: true,
    ..POLICY
};

pub(crate) fn reads(policy: read_gate::Reads) -> Reads {
    Reads {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        policy,
        credentials: Credentials::None,
    }
}

/// Pod 0 is MAIN; the others follow it, each on an address of its own, so that faults can be aimed.
pub(crate) struct World {
    pub(crate) pods: Vec<Database>,
    pub(crate) bed: Bed,
}

/// A free port of this address.
pub(crate) fn free_port(address: IpAddr) -> u16 {
    let listener = std::net::TcpListener::bind((address, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// An address that no other pod of this process has.
fn address() -> IpAddr {
    static COUNT: AtomicU8 = AtomicU8::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    IpAddr::V4(Ipv4Addr::new(127, 0, 77, 1 + count % 250))
}

pub(crate) async fn run(client: &mut Client, query: &str) {
    match client.query(query).await.unwrap() {
        Outcome::Done(_) => {}
        Outcome::Refused { failure, on } => panic!("{query}: {failure} on {on}"),
    }
}

/// Which process answers.
pub(crate) async fn who(client: &mut Client) -> String {
    match client.query("RETURN 1").await.unwrap() {
        Outcome::Done(table) => table.summary["run_id"].as_str().unwrap().to_owned(),
        Outcome::Refused { failure, .. } => panic!("{failure}"),
    }
}

pub(crate) fn failure(message: Message) -> Failure<'static> {
    match message {
        Message::Failure(failure) => failure,
        other => panic!("no failure but {other:?}"),
    }
}

impl World {
    /// `modes` of pod 1, pod 2 and so on.
    pub(crate) async fn start(modes: &[&str], policy: read_gate::Reads) -> Self {
        Self::with(modes, policy, |_| {}).await
    }

    pub(crate) async fn with(
        modes: &[&str],
        policy: read_gate::Reads,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let mut pods = vec![Database::main_at(address(), None).await];
        for (number, mode) in (1..).zip(modes) {
            let replica = Database::main_at(address(), None).await;
            follow(&pods[0], &replica, number, mode).await;
            pods.push(replica);
        }
        // After all are registered: whoever is not level now, catches up.
        pods[0].mark(4).await;
        let addresses: Vec<SocketAddr> = pods.iter().map(|pod| pod.server.bolt()).collect();
        let bed = Bed::with(Some(serving(4, 0)), &addresses, |config| {
            config.reads = Some(reads(policy));
            change(config);
        })
        .await;
        let world = Self { pods, bed };
        for number in 1..world.pods.len() {
            until("level", async || {
                world.listed(number).await == ("ready".to_owned(), 0)
            })
            .await;
        }
        world
    }

    /// Status and lag of a pod, as MAIN shows it.
    pub(crate) async fn listed(&self, number: usize) -> (String, i64) {
        let outcome = self.pods[0].client().await.query("SHOW REPLICAS").await.unwrap();
        let prefix = format!("memgraph_ha_{number}");
        let rows = outcome.rows().unwrap();
        let row = rows
            .iter()
            .find(|row| row[0].as_str().unwrap().starts_with(&prefix));
        let info = row.unwrap()[4].as_dict().unwrap().get("memgraph").unwrap();
        let info = info.as_dict().unwrap();
        let status = info["status"].as_str().unwrap().to_owned();
        (status, info["behind"].as_int().unwrap())
    }

    /// The statement that registers this ASYNC replica as it is registered now.
    pub(crate) async fn registration(&self, number: usize) -> String {
        let outcome = self.pods[0].client().await.query("SHOW REPLICAS").await.unwrap();
        let name = format!("memgraph_ha_{number}");
        let rows = outcome.rows().unwrap();
        let row = rows.iter().find(|row| row[0].as_str() == Some(&name)).unwrap();
        format!("REGISTER REPLICA {name} ASYNC TO '{}'", row[1].as_str().unwrap())
    }

    pub(crate) fn reads(&self) -> SocketAddr {
        self.bed.gateway.reads().unwrap()
    }

    pub(crate) async fn reader(&self) -> Result<Client, ClientError> {
        self.reader_as(Auth::None).await
    }

    pub(crate) async fn reader_as(&self, auth: Auth<'static>) -> Result<Client, ClientError> {
        Client::connect_within(self.reads(), auth, PATIENCE).await
    }

    /// The number of the pod that answers this client.
    pub(crate) async fn pod_of(&self, client: &mut Client) -> usize {
        let run = who(client).await;
        for (number, pod) in self.pods.iter().enumerate() {
            if who(&mut pod.client().await).await == run {
                return number;
            }
        }
        panic!("nobody is {run}");
    }

    pub(crate) fn tell(&self, record: &Record) {
        self.bed.records.send_replace(Some(record.clone()));
    }
}

/// Has `replica` follow `main` under the name of this pod.
async fn follow(main: &Database, replica: &Database, number: u8, mode: &str) {
    let address = replica.server.bolt().ip();
    let port = free_port(address);
    let demote = format!("SET REPLICATION ROLE TO REPLICA WITH PORT {port}");
    run(&mut replica.client().await, &demote).await;
    let name = if mode == "STRICT_SYNC" {
        format!("memgraph_ha_{number}_g4")
    } else {
        format!("memgraph_ha_{number}")
    };
    let register = format!("REGISTER REPLICA {name} {mode} TO '{address}:{port}'");
    run(&mut main.client().await, &register).await;
}
