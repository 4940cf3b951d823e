//! An address outside of all pods that leads to the ready pods of a Service: what a load balancer is to a real
//! cluster. Connections are spread, and a pod that refuses is passed over.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::Nodes;
use super::hosts::lookup;

/// A door that is open while [`Door::run`] runs.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    hosts: PathBuf,
    name: String,
    port: u16,
}

impl Nodes {
    /// Take an address for a Service of a namespace and one of its ports.
    pub async fn door(
        &self,
        address: SocketAddr,
        namespace: &str,
        service: &str,
        port: u16,
    ) -> io::Result<Door> {
        Ok(Door {
            listener: TcpListener::bind(address).await?,
            hosts: self.hosts_file(namespace),
            name: format!("{service}.{namespace}"),
            port,
        })
    }

    /// Whether a pod of a Service is ready: before that, whoever comes to its door is sent away.
    pub fn is_served(&self, namespace: &str, service: &str) -> bool {
        let name = format!("{service}.{namespace}");
        !ready(&self.hosts_file(namespace), &name).is_empty()
    }
}

/// The addresses of all ready pods behind a name.
fn ready(hosts: &Path, name: &str) -> Vec<IpAddr> {
    // No file yet: nobody is ready.
    let file = std::fs::read_to_string(hosts).unwrap_or_default();
    let addresses = lookup(&file, name);
    addresses.iter().filter_map(|text| text.parse().ok()).collect()
}

impl Door {
    /// Where it is.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Lets clients through, until it is dropped.
    pub async fn run(self) {
        let mut open = JoinSet::new();
        let mut turn = 0_usize;
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((client, _)) => {
                        turn = turn.wrapping_add(1);
                        let behind = self.behind(turn);
                        open.spawn(let_through(client, behind));
                    }
                    // Out of file descriptors: others will close theirs.
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
                },
                Some(_) = open.join_next() => {}
            }
        }
    }

    /// Whoever is ready now, another one first each time.
    fn behind(&self, turn: usize) -> Vec<SocketAddr> {
        let mut all: Vec<SocketAddr> = ready(&self.hosts, &self.name)
            .into_iter()
            .map(|address| SocketAddr::new(address, self.port))
            .collect();
        if !all.is_empty() {
            let first = turn % all.len();
            all.rotate_left(first);
        }
        all
    }
}

async fn let_through(mut client: TcpStream, behind: Vec<SocketAddr>) {
    for address in behind {
        if let Ok(mut pod) = TcpStream::connect(address).await {
            client.set_nodelay(true).ok();
            pod.set_nodelay(true).ok();
            // Whoever ends it, it is over.
            tokio::io::copy_bidirectional(&mut client, &mut pod).await.ok();
            return;
        }
    }
}
