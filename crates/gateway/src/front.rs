//! How clients come in, and how databases are reached.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// How clients come in.
#[derive(Clone, Debug, Default)]
pub struct Front {
    /// What they are shown; none: connections are plain.
    pub tls: Option<ServerTls>,
    /// They come through a load balancer that says first whom it forwards, by the PROXY protocol, version 2. Whoever
    /// does not say it is closed: anybody who can reach the port can say anything.
    pub proxy_protocol: bool,
    /// How many of a hundred sessions are logged when they end.
    pub access_log: Percent,
}

/// How databases are reached.
#[derive(Clone, Debug, Default)]
pub struct Back {
    /// Whom to trust; none: connections are plain.
    pub tls: Option<BackendTls>,
    /// Say first who the client is, by the PROXY protocol, version 2. Memgraph does not understand it: this is for a
    /// proxy in between.
    pub proxy_protocol: bool,
}

/// TLS with clients. The files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// The certificate and those that lead to its authority, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// The authorities of which a client must show a certificate, in PEM; none: no client needs one.
    pub client_ca: Option<PathBuf>,
}

/// TLS with databases. The file is read again when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendTls {
    /// The authorities that sign databases, in PEM.
    pub ca: PathBuf,
    /// The name in their certificates; none: the host name of each pod.
    pub server_name: Option<String>,
}

/// 0 to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percent(u8);

impl Percent {
    /// `None` above a hundred.
    pub const fn new(percent: u8) -> Option<Self> {
        if percent <= 100 { Some(Self(percent)) } else { None }
    }
}

/// Chooses so many of a hundred, evenly.
#[derive(Debug)]
pub(crate) struct Sampler {
    percent: u64,
    seen: AtomicU64,
}

impl Sampler {
    pub(crate) fn new(Percent(percent): Percent) -> Self {
        Self {
            percent: u64::from(percent),
            seen: AtomicU64::new(0),
        }
    }

    /// Is the next one chosen?
    pub(crate) fn choose(&self) -> bool {
        if self.percent == 0 {
            return false;
        }
        let before = self.seen.fetch_add(1, Ordering::Relaxed) % 100;
        (before + 1) * self.percent / 100 > before * self.percent / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_of_a_hundred_are_chosen_and_never_two_of_them_at_once() {
        for percent in [0, 1, 7, 50, 99, 100] {
            let sampler = Sampler::new(Percent::new(percent).unwrap());
            let chosen: Vec<bool> = (0..1_000).map(|_| sampler.choose()).collect();
            let count = chosen.iter().filter(|chosen| **chosen).count();
            assert_eq!(count, usize::from(percent) * 10);
            if percent <= 50 {
                assert!(!chosen.windows(2).any(|two| two == [true, true]), "{percent}");
            }
        }
        assert_eq!(Percent::new(101), None);
    }
}
