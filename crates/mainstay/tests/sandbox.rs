//! `mainstay sandbox` as a user has it: the real binary, all its processes, and what people type next.

use anyhow::{Context, Result, bail, ensure};
use bolt::message::Auth;
use sandbox::standin::memgraph::client::{Client, Outcome};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const MAINSTAY: &str = env!("CARGO_BIN_EXE_mainstay");
/// The machine may be busy.
const PATIENCE: Duration = Duration::from_secs(90);

/// Each sandbox is more than a dozen processes: one test at a time.
static MACHINE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A sandbox in a process of its own.
struct Running {
    process: Child,
    says: Value,
    /// It is told when it ends, too: whoever prints into a pipe that nobody reads fails.
    out: BufReader<ChildStdout>,
}

impl Running {
    fn start(arguments: &[&str]) -> Result<Self> {
        Self::begin(Command::new(MAINSTAY).args(["sandbox", "--json"]).args(arguments))
    }

    fn begin(command: &mut Command) -> Result<Self> {
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let mut out = BufReader::new(process.stdout.take().context("no output")?);
        let mut line = String::new();
        out.read_line(&mut line)?;
        let says = serde_json::from_str(&line).with_context(|| format!("it said {line:?}"))?;
        Ok(Self { process, says, out })
    }

    /// As a person starts it, and all that is said until it is ready.
    fn start_talking(arguments: &[&str]) -> Result<(Self, String)> {
        let mut process = Command::new(MAINSTAY)
            .arg("sandbox")
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut out = BufReader::new(process.stdout.take().context("no output")?);
        let mut text = String::new();
        while !text.contains("Ctrl-C ends everything.") {
            ensure!(out.read_line(&mut text)? > 0, "it ended after {text}");
        }
        let after = |word: &str| {
            let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix(word));
            let found = lines.next().with_context(|| format!("no {word} in {text}"))?;
            anyhow::Ok(found.trim().to_owned())
        };
        let kubeconfig = after("kubeconfig ")?;
        let folder = Path::new(&kubeconfig).parent();
        let says = json!({ "bolt": after("Bolt ")?.replace("bolt://", ""), "kubeconfig": kubeconfig, "folder": folder });
        Ok((Self { process, says, out }, text))
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
        let mut rest = String::new();
        self.out.read_to_string(&mut rest)?;
        ensure!(status.success(), "it ended with {status} and said {rest}");
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
    // Both ask for the usual port, which one at most can have, or nobody if another program has it.
    let first = Running::start(&[])?;
    let (second, text) = Running::start_talking(&["--replicas", "2"])?;
    ensure!(first.bolt()? != second.bolt()?);
    let program = Path::new(MAINSTAY).canonicalize()?;
    let (program, kubeconfig) = (program.display(), second.text("kubeconfig")?);
    for part in [
        format!("Bolt        bolt://{}\n", second.bolt()?),
        format!("kubeconfig  {kubeconfig}\n"),
        format!("{program} drill kill-main\n"),
        format!("kubectl --kubeconfig {kubeconfig} get mgc -w\n"),
        format!("{program} why memgraph-ha\n"),
    ] {
        ensure!(text.contains(&part), "{part} is not in {text}");
    }
    ensure!(Path::new(kubeconfig).is_file());
    // Whoever names a port means that one.
    let (taken, folder) = (first.bolt()?.port().to_string(), Folder::new("p")?);
    let third = Command::new(MAINSTAY)
        .args(["sandbox", "--headless", "--port", &taken])
        .env("TMPDIR", &folder.0)
        .output()?;
    let said = String::from_utf8(third.stderr)?;
    let refused = format!("clients cannot be given port {taken}");
    ensure!(!third.status.success() && said.contains(&refused), "{said}");
    ensure!(sandboxes(&folder.0)? == 0 && processes_of(&folder.0)?.is_empty());
    let written = run(first.bolt()?, "CREATE (n:T {id: 7}) RETURN n.id AS id").await?;
    let elsewhere = run(second.bolt()?, "MATCH (n:T) RETURN count(n) AS n").await?;
    ensure!((written, elsewhere) == (7, 0));
    first.until(&["memgraph-ha-0", "True", "Open"])?;
    let why = first.ask(&["why", "memgraph-ha"])?;
    for part in [
        "The last turn",
        "memgraph-ha-2",
        "gateway memgraph-ha-gateway-",
        ": confirmed term 1",
        "BOOTSTRAP",
    ] {
        ensure!(why.contains(part), "{part} is not in {why}");
    }
    // Where no sandbox is found, a list of kubeconfigs is read as kubectl reads it.
    let exported = std::env::join_paths([first.text("kubeconfig")?, second.text("kubeconfig")?])?;
    let nowhere = Folder::new("q")?;
    let listed = Command::new(MAINSTAY)
        .arg("status")
        .env("KUBECONFIG", exported)
        .env("TMPDIR", &nowhere.0)
        .output()?;
    let said = String::from_utf8(listed.stderr)?;
    ensure!(
        listed.status.success() && said.starts_with("asking https://"),
        "{said}"
    );
    let none = Command::new(MAINSTAY)
        .args(["why", "nobody", "--kubeconfig", first.text("kubeconfig")?])
        .output()?;
    let said = String::from_utf8(none.stderr)?;
    let nobody = "there is neither a MemgraphCluster nor a RingCluster `nobody`";
    ensure!(said.contains(nobody), "{said}");
    second.end()?;
    first.end()
}

/// A folder of a test that goes with it. Its name is short: there are sockets in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("m{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// A program of this folder.
    fn program(&self, script: &str) -> Result<String> {
        let path = self.0.join("memgraph");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        path.into_os_string()
            .into_string()
            .ok()
            .context("a path that is not text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// What is like a real server: it knows no flag of ours, listens for its MAIN on every address of the machine, and does
/// not start without its libraries, with the log file of the package, with a port that another has already.
const LIKE_A_REAL_ONE: &str = r#"
fail() { echo "$1" >&2; exit 1; }
for flag in "$@"; do
  case "$flag" in
    --log-file=) log=none ;;
    --monitoring-address=127.*) monitoring=own ;;
    --metrics-address=127.*) metrics=own ;;
    --init-file=*) init=${flag#--init-file=} ;;
  esac
done
[ "$LD_LIBRARY_PATH" = FOLDER/lib ] || fail "error while loading shared libraries"
[ "$log" = none ] || fail "cannot write /var/log/memgraph/memgraph.log"
[ "$monitoring $metrics" = "own own" ] || fail "7444 or 9091 is in use"
port=$(sed -n 's/.* WITH PORT \([0-9]*\);$/\1/p' "$init")
if grep -q ":$(printf %04X "$port") [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6; then
  fail "$port is in use"
fi
echo "$port" >> FOLDER/ports
exec MAINSTAY standin memgraph --replication-address=0.0.0.0 "$@"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_behave_like_real_servers_take_the_place_of_stand_ins_in_two_sandboxes_at_once()
-> Result<()> {
    let _alone = MACHINE.lock().await;
    let folder = Folder::new("r")?;
    let own = folder.0.to_str().context("a path that is not text")?;
    let script = LIKE_A_REAL_ONE
        .replace("FOLDER", own)
        .replace("MAINSTAY", MAINSTAY);
    let program = folder.program(&script)?;
    let mainstay = |words: &[&str]| {
        let mut command = Command::new(MAINSTAY);
        command.args(words).args(["--memgraph", &program]);
        command.env("LD_LIBRARY_PATH", folder.0.join("lib"));
        command
    };
    let site = Running::begin(&mut mainstay(&["sandbox", "--json", "--port", "0"]))?;
    ensure!(site.says["standIns"] == false);
    ensure!(run(site.bolt()?, "CREATE (n:T {id: 1}) RETURN n.id AS id").await? == 1);
    // Each on a sandbox of its own, although one runs.
    for drill in ["kill-main", "switchover", "diverge"] {
        let output = mainstay(&["drill", drill, "--json", "--patience", "300"]).output()?;
        let text = String::from_utf8(output.stdout.clone())?;
        ensure!(output.status.success(), "{drill}: {output:?}");
        let end: Value = serde_json::from_str(text.lines().last().context("it says nothing")?)?;
        ensure!(end["standIns"] == false, "{drill}: {end}");
        ensure!(
            end["rounds"] == 1 && end["lost"] == 0 && end["duplicated"] == 0,
            "{drill}: {end}"
        );
        ensure!(end["acknowledged"].as_u64() > Some(0), "{drill}: {end}");
    }
    ensure!(run(site.bolt()?, "MATCH (n:T) RETURN count(n) AS n").await? == 1);
    let ports = std::fs::read_to_string(folder.0.join("ports"))?;
    let ports: BTreeSet<u64> = ports.lines().map(str::parse).collect::<Result<_, _>>()?;
    let first = site.says["replicationPort"].as_u64().context("no port")?;
    ensure!(
        (first..first + 3).all(|port| ports.contains(&port)),
        "{first}: {ports:?}"
    );
    ensure!(ports.len() == 6, "three here and three beside it: {ports:?}");
    site.end()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_start_is_shown_with_how_it_ended_and_what_it_said_last() -> Result<()> {
    let _alone = MACHINE.lock().await;
    for words in [vec!["sandbox", "--port", "0"], vec!["drill", "kill-main"]] {
        let folder = Folder::new("n")?;
        let program = folder.program("for n in $(seq 100 130); do echo line $n >&2; done; exit 3")?;
        let tried = Command::new(MAINSTAY)
            .args(&words)
            .args(["--memgraph", &program])
            .env("TMPDIR", &folder.0)
            .output()?;
        let said = String::from_utf8(tried.stderr)?;
        ensure!(!tried.status.success());
        for part in [
            "a database cannot be used",
            "times, at last with exit code 3",
            "| line 111\n",
            "| line 130\n",
            "Everything is kept in",
        ] {
            ensure!(said.contains(part), "{words:?}: {part} is not in {said}");
        }
        ensure!(!said.contains("line 110"), "{words:?}: more than the end: {said}");
        let log = said
            .lines()
            .find_map(|line| line.trim().strip_prefix("Its log is "));
        let log = log.and_then(|line| line.strip_suffix(" and ends with"));
        let log = PathBuf::from(log.context("no log is named")?);
        ensure!(log.starts_with(&folder.0), "{words:?}: {}", log.display());
        ensure!(
            std::fs::read_to_string(&log)?.contains("line 100"),
            "{words:?}: {}",
            log.display()
        );
        let left = processes_of(&folder.0)?;
        ensure!(left.is_empty(), "{words:?}: these are left: {left:?}");
    }
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
