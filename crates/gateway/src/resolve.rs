//! Names of pods to addresses.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// How the host name of a pod becomes an address.
#[derive(Clone, Debug)]
pub enum Resolve {
    /// By the system's DNS.
    System,
    /// By a file in the format of `/etc/hosts`, read anew each time: where there is no DNS, somebody keeps it.
    HostsFile(PathBuf),
    /// By this table, ports included: for tests, where every server is on loopback.
    Table(BTreeMap<String, SocketAddr>),
}

impl Resolve {
    pub(crate) async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> = match self {
            Self::System => tokio::net::lookup_host((host, port)).await?.collect(),
            Self::HostsFile(path) => lookup(&tokio::fs::read_to_string(path).await?, host)
                .map(|address| SocketAddr::new(address, port))
                .collect(),
            Self::Table(table) => table.get(host).copied().into_iter().collect(),
        };
        if found.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("no address for {host}"),
            ));
        }
        Ok(found)
    }
}

/// Every address of a name in a hosts file.
fn lookup<'a>(file: &'a str, host: &'a str) -> impl Iterator<Item = IpAddr> + 'a {
    file.lines().filter_map(move |line| {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word == host).then_some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_file_may_have_comments_several_names_and_several_lines() {
        let file = "127.0.0.1 localhost\n127.0.0.5 a.b.svc a.b # a.c\n\nnonsense a.b\n127.0.0.6\ta.b\n";
        let found = |name| lookup(file, name).map(|a| a.to_string()).collect::<Vec<_>>();
        assert_eq!(found("a.b"), ["127.0.0.5", "127.0.0.6"]);
        assert_eq!(found("a.b.svc"), ["127.0.0.5"]);
        assert!(found("a.c").is_empty());
    }

    #[tokio::test]
    async fn a_name_that_nobody_knows_is_an_error() {
        let nobody = Resolve::Table(BTreeMap::new()).addresses("x", 1).await;
        assert_eq!(nobody.unwrap_err().kind(), io::ErrorKind::NotFound);
        let file = Resolve::HostsFile(PathBuf::from("/nowhere/at/all"));
        assert!(file.addresses("x", 1).await.is_err());
    }
}
