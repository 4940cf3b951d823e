//! Running a server as a process of its own: a stand-in, or the real thing.
//! For tests and for the conformance list.

use super::faults::Fault;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Why a process could not be handled.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// It could not be started or spoken to.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// It did not do something in time.
    #[error("{0} took too long")]
    TooLong(&'static str),
    /// It ended instead.
    #[error("it ended: {0}")]
    Ended(ExitStatus),
    /// It has no admin port, as the real server has none.
    #[error("it has no admin port")]
    NoAdmin,
    /// The admin port refused.
    #[error("the admin port says: {0}")]
    Refused(String),
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// What comes before the server's own flags.
    pub before: Vec<String>,
    /// Whether it is a stand-in, with an admin port.
    pub stand_in: bool,
}

/// Where and how one server runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its address, for everything.
    pub host: IpAddr,
    /// Its Bolt port.
    pub bolt_port: u16,
    /// Its admin port, if it is a stand-in.
    pub admin_port: u16,
    /// Its data folder.
    pub data: PathBuf,
    /// More flags.
    pub flags: Vec<String>,
    /// More environment.
    pub environment: Vec<(String, String)>,
}

/// A server that was started. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    bolt: SocketAddr,
    admin: Option<SocketAddr>,
}

fn wrong(what: &'static str) -> impl FnOnce(io::Error) -> ProcessError {
    move |error| ProcessError::Io { what, error }
}

impl Process {
    /// Starts one; it may not be open yet.
    pub fn start(program: &Program, place: &Place) -> Result<Self, ProcessError> {
        std::fs::create_dir_all(&place.data).map_err(wrong("data folder"))?;
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log_file(&place.data))
            .map_err(wrong("log file"))?;
        let mut command = Command::new(&program.path);
        command
            .args(&program.before)
            .arg(format!("--data-directory={}", place.data.display()))
            .arg(format!("--bolt-address={}", place.host))
            .arg(format!("--bolt-port={}", place.bolt_port));
        if program.stand_in {
            command
                .arg(format!("--replication-address={}", place.host))
                .arg(format!("--admin-port={}", place.admin_port));
        }
        let errors = log.try_clone().map_err(wrong("log file"))?;
        let child = command
            .args(&place.flags)
            .envs(place.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(wrong("start"))?;
        Ok(Self {
            child,
            bolt: SocketAddr::new(place.host, place.bolt_port),
            admin: program
                .stand_in
                .then(|| SocketAddr::from(([127, 0, 0, 1], place.admin_port))),
        })
    }

    /// Its Bolt address.
    pub const fn bolt(&self) -> SocketAddr {
        self.bolt
    }

    /// Waits until Bolt accepts.
    pub async fn open(&mut self, patience: Duration) -> Result<(), ProcessError> {
        let deadline = Instant::now() + patience;
        loop {
            if tokio::net::TcpStream::connect(self.bolt).await.is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait().map_err(wrong("wait"))? {
                return Err(ProcessError::Ended(status));
            }
            if Instant::now() > deadline {
                return Err(ProcessError::TooLong("opening Bolt"));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Sends a signal: `KILL`, `TERM`, `STOP`, `CONT`.
    pub fn signal(&self, name: &str) -> Result<(), ProcessError> {
        // std can only kill, and a signal needs no library as long as there is `kill`.
        let done = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.child.id().to_string())
            .stderr(Stdio::null())
            .status()
            .map_err(wrong("signal"))?;
        if done.success() {
            Ok(())
        } else {
            Err(ProcessError::Ended(done))
        }
    }

    /// Waits for its end.
    pub async fn ended(&mut self, patience: Duration) -> Result<ExitStatus, ProcessError> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait().map_err(wrong("wait"))? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(ProcessError::TooLong("ending"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// `kill -9`, and waits for it.
    pub async fn kill(&mut self) -> Result<(), ProcessError> {
        self.signal("KILL").or_else(|error| match error {
            ProcessError::Ended(_) => Ok(()),
            other => Err(other),
        })?;
        self.ended(Duration::from_secs(20)).await.map(drop)
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Makes something go wrong in a stand-in.
    pub fn inject(&self, fault: &Fault) -> Result<(), ProcessError> {
        let line = serde_json::to_string(fault).map_err(|error| ProcessError::Refused(error.to_string()))?;
        self.admin(&line).map(drop)
    }

    /// One line to the admin port, one back.
    pub fn admin(&self, line: &str) -> Result<serde_json::Value, ProcessError> {
        let address = self.admin.ok_or(ProcessError::NoAdmin)?;
        let mut stream = TcpStream::connect(address).map_err(wrong("admin port"))?;
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .map_err(wrong("admin port"))?;
        writeln!(stream, "{line}").map_err(wrong("admin port"))?;
        let mut answer = String::new();
        BufReader::new(stream)
            .read_line(&mut answer)
            .map_err(wrong("admin port"))?;
        let answer: serde_json::Value =
            serde_json::from_str(&answer).map_err(|error| ProcessError::Refused(error.to_string()))?;
        match answer.get("error") {
            None => Ok(answer),
            Some(error) => Err(ProcessError::Refused(error.to_string())),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A stopped process dies of it too; one that is gone does not mind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ports of this machine that nobody has, and that no outgoing connection gets before they are used: below the range
/// from which those are taken.
pub fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    // Processes that look at the same time begin far from each other.
    let begin = std::process::id().wrapping_mul(97);
    let mut ports = [0; N];
    for port in &mut ports {
        let mut tries = 0;
        *port = loop {
            let number = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT + FIRST;
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            match std::net::TcpListener::bind((IpAddr::from([127, 0, 0, 1]), number)) {
                Ok(_) => break number,
                Err(error) if tries >= COUNT => return Err(error),
                Err(_) => tries += 1,
            }
        };
    }
    Ok(ports)
}

/// What the process prints goes beside its data.
pub fn log_file(data: &Path) -> PathBuf {
    data.with_extension("log")
}
