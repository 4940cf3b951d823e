//! A network of loopback addresses that can be cut.
//!
//! Every pod has two addresses in one /16 of `127.0.0.0/8` (all of which is
//! local, for every user): the *front*, which is its `podIP` and what everybody
//! connects to, and the *back*, where its processes listen (`0.0.0.0` in a pod
//! means the back, see `paths`). Between them stands a relay of ours, which can
//! hold back bytes. A port has a relay exactly while something listens behind
//! it, so a dead server still *refuses*.
//!
//! Who connects is found out by the kernel's own tables (`source`): no program
//! has to help, a real database least of all. Cuts are silence, as in a real
//! network: bytes wait and arrive when the cut is healed, unless somebody gave
//! up. One thing is unlike a real network: the connection itself is always
//! accepted, the silence begins after it.

mod relay;
mod source;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::process::Process;

/// Who talks to whom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// A pod, whichever process it runs now. Operators and gateways that run
    /// as pods are meant by their pods.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The API server.
    Api,
    /// Somebody on this machine outside of all pods who has an address here.
    Other(String),
    /// Anybody else on this machine: whoever is cut off from it is cut off from all of them.
    Outside,
}

impl Party {
    /// A pod.
    pub fn pod(namespace: &str, name: &str) -> Self {
        Self::Pod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod { namespace, name } => write!(f, "pod {namespace}/{name}"),
            Self::Api => write!(f, "API"),
            Self::Other(name) => write!(f, "{name}"),
            Self::Outside => write!(f, "outside"),
        }
    }
}

/// The two addresses of a party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Addresses {
    /// Where others connect to.
    pub front: Ipv4Addr,
    /// Where its processes listen.
    pub back: Ipv4Addr,
}

/// Pairs `(from, to)` whose bytes are held back.
type Cuts = BTreeSet<(Party, Party)>;

/// The network of one sandbox. Dropping the last clone ends it.
#[derive(Debug, Clone)]
pub struct Network(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    /// Holds the /16 against other sandboxes on this machine.
    _claim: TcpListener,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
pub(super) struct Shared {
    octet: u8,
    state: Mutex<State>,
    /// Read while a process is begun, written by whoever has to know of all that were.
    begun: RwLock<()>,
    cuts: watch::Sender<Cuts>,
    look: Notify,
}

#[derive(Debug, Default)]
struct State {
    last: u16,
    by_front: BTreeMap<Ipv4Addr, Party>,
    by_group: BTreeMap<i32, Party>,
    /// Relays to addresses outside of the /16.
    fixed: BTreeMap<SocketAddrV4, SocketAddrV4>,
}

/// A port nobody uses, to claim a /16 with.
const CLAIM_PORT: u16 = 65_111;

impl Network {
    /// Take a free /16. Must be called within a runtime.
    pub fn open() -> io::Result<Self> {
        source::check()?;
        let start = std::process::id() % 200;
        let mut refusal = io::Error::other("no /16 to try");
        for step in 0..200 {
            let octet = u8::try_from(20 + (start + step) % 200).unwrap_or(20);
            match TcpListener::bind((Ipv4Addr::new(127, octet, 127, 255), CLAIM_PORT)) {
                Ok(claim) => return Ok(Self::on(octet, claim)),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    fn on(octet: u8, claim: TcpListener) -> Self {
        let shared = Arc::new(Shared {
            octet,
            state: Mutex::default(),
            begun: RwLock::default(),
            cuts: watch::Sender::new(Cuts::new()),
            look: Notify::new(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(relay::keep_doors(Arc::clone(&shared)));
        Self(Arc::new(Inner {
            shared,
            _claim: claim,
            tasks,
        }))
    }

    /// Addresses that nobody had lately.
    pub fn join(&self, party: Party) -> Addresses {
        let shared = &self.0.shared;
        let mut state = shared.state();
        loop {
            // .0.0 and the claim at .127.255 stay free.
            state.last = state.last % 0x7ffe + 1;
            let addresses = shared.addresses(state.last);
            if let Entry::Vacant(place) = state.by_front.entry(addresses.front) {
                place.insert(party);
                return addresses;
            }
        }
    }

    /// Give addresses back. Connections end when their processes do.
    pub fn leave(&self, addresses: Addresses) {
        self.0.shared.state().by_front.remove(&addresses.front);
    }

    /// An address in front of a server elsewhere, so that it can be cut off.
    pub fn relay_to(&self, party: Party, server: SocketAddrV4) -> SocketAddrV4 {
        let front = SocketAddrV4::new(self.join(party).front, server.port());
        self.0.shared.state().fixed.insert(front, server);
        self.look();
        front
    }

    /// Begins a process of this party. However soon it connects, it is not taken for a stranger whom no cut concerns.
    pub fn begin<E>(&self, party: Party, start: impl FnOnce() -> Result<Process, E>) -> Result<Process, E> {
        let shared = &self.0.shared;
        let begun = shared.begun.read().unwrap_or_else(PoisonError::into_inner);
        let process = start()?;
        shared.state().by_group.insert(process.group.id(), party);
        drop(begun);
        self.look();
        Ok(process)
    }

    /// A group is gone.
    pub fn disown(&self, group: i32) {
        self.0.shared.state().by_group.remove(&group);
        self.look();
    }

    /// Hold back all bytes from one party to another.
    pub fn cut(&self, from: &Party, to: &Party) {
        self.0.shared.cuts.send_modify(|cuts| {
            cuts.insert((from.clone(), to.clone()));
        });
    }

    /// Let them through again, with what was held back.
    pub fn heal(&self, from: &Party, to: &Party) {
        self.0.shared.cuts.send_modify(|cuts| {
            cuts.remove(&(from.clone(), to.clone()));
        });
    }

    /// What is cut now.
    pub fn cuts(&self) -> Vec<(Party, Party)> {
        self.0.shared.cuts.borrow().iter().cloned().collect()
    }

    /// Look now for ports that opened or closed.
    pub fn look(&self) {
        self.0.shared.look.notify_one();
    }

    /// How many tasks of the network run, for tests.
    pub fn tasks(&self) -> usize {
        self.0.tasks.len()
    }
}

impl Shared {
    /// The groups of all processes that were begun before this was asked.
    fn groups(&self) -> BTreeSet<i32> {
        drop(self.begun.write().unwrap_or_else(PoisonError::into_inner));
        self.state().by_group.keys().copied().collect()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn addresses(&self, number: u16) -> Addresses {
        let [high, low] = number.to_be_bytes();
        Addresses {
            front: Ipv4Addr::new(127, self.octet, high, low),
            back: Ipv4Addr::new(127, self.octet, high | 0x80, low),
        }
    }

    /// The front of a back address of ours.
    fn front_of(&self, back: Ipv4Addr) -> Option<Ipv4Addr> {
        match back.octets() {
            [127, octet, high, low] if octet == self.octet && high >= 0x80 => {
                Some(Ipv4Addr::new(127, octet, high & 0x7f, low))
            }
            _ => None,
        }
    }
}
