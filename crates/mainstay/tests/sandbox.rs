//! `mainstay sandbox` as a user has it: the real binary, all its processes, and what people type next.

use anyhow::{Context, Result, bail, ensure};
use bolt::message::Auth;
use sandbox::standin::memgraph::client::{Client, Outcome};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MAINSTAY: &str = env!("CARGO_BIN_EXE_mainstay");
/// The machine may be busy.
const PATIENCE: Duration = Duration::from_secs(90);

/// A server that listens on every address takes its ports from all sandboxes of the machine: one test at a time.
static MACHINE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A sandbox in a process of its own.
struct Running {
    process: Child,
    says: Value,
}

impl Running {
    fn start(arguments: &[&str]) -> Result<Self> {
        let mut process = Command::new(MAINSTAY)
            .args(["sandbox", "--json"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()?;
        let out = process.stdout.take().context("no output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let says = serde_json::from_str(&line).with_context(|| format!("it said {line:?}"))?;
        Ok(Self { process, says })
    }

    fn text(&self, field: &str) -> Result<&str> {
        self.says
            .get(field)
            .and_then(Value::as_str)
            .with_context(|| format!("no {field}"))
    }

    fn bolt(&self) -> Result<SocketAddr> {
        Ok(self.text("bolt")?.parse()?)
    }

    /// What another command says of it.
    fn ask(&self, words: &[&str]) -> Result<String> {
        let asked = Command::new(MAINSTAY)
            .args(words)
            .args(["--kubeconfig", self.text("kubeconfig")?])
            .output()?;
        let text = String::from_utf8(asked.stdout)?;
        ensure!(asked.status.success(), "{words:?}: {text}");
        Ok(text)
    }

    /// Waits until `mainstay status` has all of this in the line of the cluster.
    fn until(&self, wanted: &[&str]) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.ask(&["status"])?;
            let line = status.lines().nth(1).unwrap_or_default();
            if wanted.iter().all(|word| line.contains(word)) {
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "not {wanted:?} but {status}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// As Ctrl-C does; nothing must be left.
    fn end(mut self) -> Result<()> {
        let folder = PathBuf::from(self.text("folder")?);
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        let status = self.process.wait()?;
        ensure!(status.success(), "it ended with {status}");
        ensure!(!folder.exists(), "{} is left", folder.display());
        let left = processes_of(&folder)?;
        ensure!(left.is_empty(), "these are left: {left:?}");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a failed assertion; its processes end with it.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Everything that runs with this folder in its arguments.
fn processes_of(folder: &Path) -> Result<Vec<String>> {
    let name = folder.to_str().context("a path that is not text")?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        // Others come and go meanwhile.
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(name) {
            found.push(line);
        }
    }
    Ok(found)
}

async fn run(address: SocketAddr, query: &str) -> Result<i64> {
    let mut client = Client::connect_within(address, Auth::None, Duration::from_secs(20)).await?;
    match client.query(query).await? {
        Outcome::Done(table) => {
            let first = table.rows.first().and_then(|row| row.first());
            first
                .and_then(bolt::packstream::Value::as_int)
                .context("no number")
        }
        Outcome::Refused { failure, .. } => bail!("{failure}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_serves_says_why_and_leaves_nothing_behind() -> Result<()> {
    let _alone = MACHINE.lock().await;
    let first = Running::start(&["--port", "0"])?;
    let second = Running::start(&["--port", "0", "--replicas", "2"])?;
    ensure!(first.bolt()? != second.bolt()?);
    let written = run(first.bolt()?, "CREATE (n:T {id: 7}) RETURN n.id AS id").await?;
    let elsewhere = run(second.bolt()?, "MATCH (n:T) RETURN count(n) AS n").await?;
    ensure!((written, elsewhere) == (7, 0));
    first.until(&["memgraph-ha-0", "True", "Open"])?;
    let why = first.ask(&["why", "memgraph-ha"])?;
    for part in [
        "The last turn",
        "memgraph-ha-2",
        "gateway 1: confirmed term 1",
        "BOOTSTRAP",
    ] {
        ensure!(why.contains(part), "{part} is not in {why}");
    }
    let none = Command::new(MAINSTAY)
        .args(["why", "nobody", "--kubeconfig", first.text("kubeconfig")?])
        .output()?;
    let said = String::from_utf8(none.stderr)?;
    let nobody = "there is neither a MemgraphCluster nor a RingCluster `nobody`";
    ensure!(said.contains(nobody), "{said}");
    second.end()?;
    first.end()
}

/// A real server listens for its MAIN on every address of the machine and knows no flag of ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_behaves_like_a_real_server_takes_the_place_of_the_stand_in() -> Result<()> {
    let _alone = MACHINE.lock().await;
    let folder = std::env::temp_dir().join(format!("mainstay-memgraph-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let program = folder.join("memgraph");
    let script =
        format!("#!/bin/sh\nexec {MAINSTAY} standin memgraph --replication-address=0.0.0.0 \"$@\"\n");
    std::fs::write(&program, script)?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    let path = program.to_str().context("a path that is not text")?;
    let site = Running::start(&["--port", "0", "--replicas", "2", "--memgraph", path])?;
    ensure!(site.says["standIns"] == false);
    ensure!(run(site.bolt()?, "CREATE (n:T {id: 1}) RETURN n.id AS id").await? == 1);
    let deleted = Command::new(MAINSTAY)
        .args(["status", "--json", "--kubeconfig", site.text("kubeconfig")?])
        .output()?;
    let status: Value = serde_json::from_slice(&deleted.stdout)?;
    ensure!(
        status[0]["status"]["targetMainPod"] == "memgraph-ha-0",
        "{status}"
    );
    site.end()?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Whoever changes their mind while it starts is not left with half of it.
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_while_it_starts_leaves_nothing_behind() -> Result<()> {
    let _alone = MACHINE.lock().await;
    for after in [0, 300, 1200].map(Duration::from_millis) {
        // Short: there are sockets in it.
        let folder = std::env::temp_dir().join(format!("mi-{}-{}", std::process::id(), after.as_millis()));
        std::fs::create_dir_all(&folder)?;
        let mut process = Command::new(MAINSTAY)
            .args(["sandbox", "--headless", "--port", "0"])
            .env("TMPDIR", &folder)
            .stdout(Stdio::piped())
            .spawn()?;
        let deadline = Instant::now() + PATIENCE;
        while sandboxes(&folder)? == 0 {
            ensure!(Instant::now() < deadline, "it does not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(after);
        let pid = rustix::process::Pid::from_child(&process);
        rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        let status = loop {
            if let Some(status) = process.try_wait()? {
                break status;
            }
            if Instant::now() >= deadline {
                process.kill()?;
                bail!("{after:?}: it does not end");
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        ensure!(status.success(), "{after:?}: it ended with {status}");
        ensure!(sandboxes(&folder)? == 0, "{after:?}: its folder is left");
        let left = processes_of(&folder)?;
        ensure!(left.is_empty(), "{after:?}: these are left: {left:?}");
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// How many sandboxes have their folder here.
fn sandboxes(folder: &Path) -> Result<usize> {
    let mut count = 0;
    for users in std::fs::read_dir(folder)?.flatten() {
        count += std::fs::read_dir(users.path()).map_or(0, Iterator::count);
    }
    Ok(count)
}

#[test]
fn a_memgraph_that_is_not_there_is_a_clear_error() -> Result<()> {
    let tried = Command::new(MAINSTAY)
        .args(["sandbox", "--port", "0", "--memgraph", "/no/such/memgraph"])
        .output()?;
    let said = String::from_utf8(tried.stderr)?;
    ensure!(!tried.status.success());
    ensure!(
        said.contains("/no/such/memgraph is no program that can be run"),
        "{said}"
    );
    Ok(())
}
