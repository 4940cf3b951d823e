//! Names of pods to addresses.

use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long an address counts that was found: after a switch every session of a gateway asks for the same one. A pod that
/// has another one by then is found a moment later, and whoever has its old one is not taken for it (R10).
const FOUND: Duration = Duration::from_secs(1);
/// How long it counts that there is none: a pod that has just started has one soon.
const MISSED: Duration = Duration::from_millis(200);
/// More names than the pods of a cluster have.
const NAMES: usize = 64;

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

/// Finds addresses for all sessions of a gateway; clones are the same.
///
/// The system looks names up on threads of which there are not many, and goes on when nobody waits any more. So there is
/// one lookup of a name at a time, for all who ask for it: thousands that wait for a DNS which does not answer would
/// leave none of those threads for anything else, such as the token of the push that names the next MAIN.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    by: Resolve,
    system: Once,
}

impl Resolver {
    pub(crate) fn new(by: Resolve) -> Self {
        let lookup = |host: String| -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            Box::pin(async move {
                let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            })
        };
        Self {
            by,
            system: Once::new(lookup),
        }
    }

    pub(crate) async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> = match &self.by {
            Resolve::System => {
                let found = self.system.addresses(host).await?;
                found
                    .iter()
                    .map(|address| SocketAddr::new(*address, port))
                    .collect()
            }
            Resolve::HostsFile(path) => lookup(&tokio::fs::read_to_string(path).await?, host)
                .map(|address| SocketAddr::new(address, port))
                .collect(),
            Resolve::Table(table) => table.get(host).copied().into_iter().collect(),
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

type Lookup = dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync;
type Found = Result<Arc<[IpAddr]>, (io::ErrorKind, String)>;
/// What came of a lookup, and when; none before it ended.
type Looked = watch::Receiver<Option<(Instant, Found)>>;

/// One lookup of a name at a time, for all who ask; what came of it counts for a moment.
#[derive(Clone)]
struct Once {
    lookup: Arc<Lookup>,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    names: BTreeMap<String, Looked>,
    /// They end with the gateway, also those for which nobody waits any more.
    running: JoinSet<()>,
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}

impl Once {
    fn new(
        lookup: impl Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            lookup: Arc::new(lookup),
            known: Arc::default(),
        }
    }

    async fn addresses(&self, host: &str) -> io::Result<Arc<[IpAddr]>> {
        let mut looked = self.looked(host);
        let gone = |_| io::Error::other("the lookup was broken off");
        let found = looked.wait_for(Option::is_some).await.map_err(gone)?;
        match found.as_ref() {
            Some((_, Ok(addresses))) => Ok(Arc::clone(addresses)),
            Some((_, Err((kind, text)))) => Err(io::Error::new(*kind, text.clone())),
            None => Err(io::Error::other("nothing was looked up")),
        }
    }

    /// The lookup that runs or still counts, or a new one.
    fn looked(&self, host: &str) -> Looked {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { names, running } = &mut *known;
        if let Some(looked) = names.get(host).filter(|looked| counts(looked)) {
            return looked.clone();
        }
        if names.len() >= NAMES {
            names.retain(|_, looked| counts(looked));
        }
        while running.try_join_next().is_some() {}
        let (done, looked) = watch::channel(None);
        let lookup = (self.lookup)(host.to_owned());
        // Also when nobody waits any more: who asks next takes what comes of it.
        running.spawn(async move {
            let found = lookup.await.map(Arc::from);
            let found = found.map_err(|error| (error.kind(), error.to_string()));
            done.send_replace(Some((Instant::now(), found)));
        });
        names.insert(host.to_owned(), looked.clone());
        looked
    }
}

/// Does it run, or is what came of it still good?
fn counts(looked: &Looked) -> bool {
    match looked.borrow().as_ref() {
        None => looked.has_changed().is_ok(),
        Some((at, Ok(_))) => at.elapsed() < FOUND,
        Some((at, Err(_))) => at.elapsed() < MISSED,
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
    use futures::future::join_all;
    use std::sync::atomic::{AtomicU8, Ordering};
    use tokio::time::{sleep, timeout};

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
        let nobody = Resolver::new(Resolve::Table(BTreeMap::new()))
            .addresses("x", 1)
            .await;
        assert_eq!(nobody.unwrap_err().kind(), io::ErrorKind::NotFound);
        let file = Resolver::new(Resolve::HostsFile(PathBuf::from("/nowhere/at/all")));
        assert!(file.addresses("x", 1).await.is_err());
    }

    /// Looks up for a second, counts how often it was asked, and finds another address each time; `none` is nobody.
    fn counting() -> (Once, Arc<AtomicU8>) {
        let asked = Arc::new(AtomicU8::new(0));
        let count = Arc::clone(&asked);
        let once = Once::new(move |host| {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            Box::pin(async move {
                sleep(Duration::from_secs(1)).await;
                if host == "none" {
                    return Err(io::ErrorKind::NotFound.into());
                }
                Ok(vec![IpAddr::from([127, 0, 0, number])])
            })
        });
        (once, asked)
    }

    #[tokio::test(start_paused = true)]
    async fn thousands_who_ask_for_a_name_at_once_cause_one_lookup_also_if_they_give_up() {
        let (once, asked) = counting();
        let short = Duration::from_millis(300);
        for _ in 0..3 {
            let all = join_all((0..2_000).map(|_| timeout(short, once.addresses("db-0")))).await;
            assert!(all.iter().all(Result::is_err), "it takes a second");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let all = join_all((0..2_000).map(|_| once.addresses("db-0"))).await;
        let first = Arc::from([IpAddr::from([127, 0, 0, 1])]);
        assert!(all.iter().all(|found| found.as_ref().unwrap() == &first));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let other = once.addresses("db-1").await.unwrap();
        assert_eq!(*other, [IpAddr::from([127, 0, 0, 2])]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_found_counts_for_a_moment_and_that_nothing_was_for_a_shorter_one() {
        let (once, asked) = counting();
        once.addresses("db-0").await.unwrap();
        sleep(FOUND.mul_f32(0.9)).await;
        once.addresses("db-0").await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        sleep(FOUND.mul_f32(0.2)).await;
        assert_eq!(
            *once.addresses("db-0").await.unwrap(),
            [IpAddr::from([127, 0, 0, 2])]
        );
        for expected in [3, 4] {
            let none = once.addresses("none").await.unwrap_err();
            assert_eq!(none.kind(), io::ErrorKind::NotFound);
            once.addresses("none").await.unwrap_err();
            assert_eq!(asked.load(Ordering::Relaxed), expected);
            sleep(MISSED).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn names_that_nobody_asks_for_any_more_are_forgotten() {
        let (once, _) = counting();
        for number in 0..3 * NAMES {
            once.addresses(&format!("db-{number}")).await.unwrap();
        }
        assert!(once.known.lock().unwrap().names.len() <= NAMES);
    }
}
