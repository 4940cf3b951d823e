//! How one stand-in runs.

use sim::memgraph::instance::Profile;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

/// How one stand-in runs. The defaults are those of the packaged server, with
/// ports that the system chooses.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the real server")]
pub struct Config {
    /// The release to imitate.
    pub profile: Profile,
    /// Where everything durable is.
    pub data_directory: PathBuf,
    /// Where Bolt listens.
    pub bolt_address: IpAddr,
    /// The Bolt port; 0 lets the system choose.
    pub bolt_port: u16,
    /// The name given to clients; none if empty.
    pub server_name: String,
    /// Where replication listens. A real server takes every address; stand-ins
    /// that share a machine and a port number need one each.
    pub replication_address: IpAddr,
    /// The admin port, always on loopback; none if not said, 0 lets the system choose.
    pub admin_port: Option<u16>,
    /// Queries to run before Bolt opens, one per line.
    pub init_file: Option<PathBuf>,
    /// Whether role and list of replicas survive a restart.
    pub restore_state: bool,
    /// Whether data survives a restart; if not, its files are set aside.
    pub recover_data: bool,
    /// Without a log nothing is replicated.
    pub wal_enabled: bool,
    /// How often a snapshot is taken; never if zero.
    pub snapshot_interval: Duration,
    /// Whether SIGTERM ends with a snapshot.
    pub snapshot_on_exit: bool,
    /// After how many transactions the log is fsynced.
    pub flush_every: u64,
    /// A user to create at start.
    pub user: Option<(String, String)>,
    /// The server's clockwork.
    pub timing: Timing,
    /// Flags as they were given, for `SHOW CONFIG`.
    pub given: Vec<(String, String)>,
}

impl Config {
    /// A stand-in of `profile` with its data in `data_directory`, on loopback.
    pub fn new(profile: Profile, data_directory: impl Into<PathBuf>) -> Self {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Self {
            profile,
            data_directory: data_directory.into(),
            bolt_address: loopback,
            bolt_port: 0,
            server_name: "Neo4j/v5.11.0 compatible graph database server - Memgraph".to_owned(),
            replication_address: loopback,
            admin_port: None,
            init_file: None,
            restore_state: true,
            recover_data: true,
            wal_enabled: true,
            snapshot_interval: Duration::from_mins(5),
            snapshot_on_exit: true,
            flush_every: 100_000,
            user: None,
            timing: Timing::default(),
            given: Vec::new(),
        }
    }
}

/// The times that a real server has built in, all multiplied by one number:
/// a test that waits for a 30 s timeout need not take 30 s.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    scale: f64,
    /// Between two pings of a replica.
    check: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            scale: 1.0,
            check: Duration::from_secs(1),
        }
    }
}

impl Timing {
    /// Times multiplied by `scale`, pings every `check` before that.
    pub fn new(scale: f64, check: Duration) -> Self {
        let scale = if scale.is_finite() && scale > 0.0 {
            scale
        } else {
            1.0
        };
        Self { scale, check }
    }

    /// A time of the real server, here.
    pub fn scaled(self, time: Duration) -> Duration {
        time.mul_f64(self.scale)
    }

    fn seconds(self, seconds: u64) -> Duration {
        self.scaled(Duration::from_secs(seconds))
    }

    /// Between two pings; `None`: never, and nothing heals by itself.
    pub(super) fn check(self) -> Option<Duration> {
        (!self.check.is_zero()).then(|| self.scaled(self.check))
    }

    pub(super) fn connect(self) -> Duration {
        self.seconds(5)
    }

    pub(super) fn ping(self) -> Duration {
        self.seconds(5)
    }

    /// Heartbeat, change of main id, fate of a transaction.
    pub(super) fn short(self) -> Duration {
        self.seconds(10)
    }

    /// A transaction, files, system recovery.
    pub(super) fn long(self) -> Duration {
        self.seconds(30)
    }

    /// How long a command waits for the lock over the replication state.
    pub(super) fn state_lock(self) -> Duration {
        self.scaled(Duration::from_millis(100))
    }

    /// How long a promotion takes: it waits for the replication server. Real servers took 0.07 to 0.2 s.
    pub(super) fn promotion(self) -> Duration {
        self.scaled(Duration::from_millis(200))
    }
}
