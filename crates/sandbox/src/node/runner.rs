//! What takes time: a process to its end, its output, probes and hooks.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::container::Exit;
use super::env::command;
use super::machine::{Machine, Running};
use super::network::Addresses;
use super::process::{Group, Guard, Launch, exit};
use super::spec::{items, text};

/// How long the output may still be read after the end: somebody who left the
/// group may hold the pipe.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// A process and the copying of its output, until both are over.
pub(super) async fn watch_to_end(
    mut child: tokio::process::Child,
    group: Arc<Group>,
    log: std::path::PathBuf,
    machine: Arc<Machine>,
) -> Exit {
    let mut pumps = JoinSet::new();
    if let Ok(file) = open_log(&log).await {
        let file = Arc::new(Mutex::new(file));
        if let Some(out) = child.stdout.take() {
            pumps.spawn(pump("stdout", out, Arc::clone(&file), Arc::clone(&machine)));
        }
        if let Some(err) = child.stderr.take() {
            pumps.spawn(pump("stderr", err, file, Arc::clone(&machine)));
        }
    }
    let status = child.wait().await;
    // What the first process left behind goes with it, as with a container.
    group.signal(rustix::process::Signal::KILL);
    machine.network.disown(group.id());
    let _ = tokio::time::timeout(LAST_OUTPUT, async { while pumps.join_next().await.is_some() {} }).await;
    status.map_or_else(|_| Exit::code(255), exit)
}

async fn open_log(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        tokio::fs::create_dir_all(folder).await?;
    }
    File::options().create(true).append(true).open(path).await
}

/// Lines as a container runtime writes them: time, stream, whole or part, text.
async fn pump(name: &'static str, from: impl AsyncRead + Unpin, to: Arc<Mutex<File>>, machine: Arc<Machine>) {
    const LONGEST: u64 = 64 * 1024;
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from).take(LONGEST).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let whole = if line.last() == Some(&b'\n') { "F" } else { "P" };
        if whole == "P" {
            line.push(b'\n');
        }
        let mut record = format!("{:.9} {name} {whole} ", machine.now()).into_bytes();
        record.append(&mut line);
        let mut file = to.lock().await;
        // A full disk costs log lines, not the database.
        let _ = file.write_all(&record).await;
        let _ = file.flush().await;
    }
}

/// Where a probe or a hook is carried out.
pub(super) struct Inside {
    pub(super) machine: Arc<Machine>,
    pub(super) running: Running,
    pub(super) addresses: Addresses,
    /// The container, for names of ports.
    pub(super) container: Value,
}

impl Inside {
    /// Run a handler (`exec`, `httpGet`, `tcpSocket`, `sleep`) once.
    pub(super) async fn handle(&self, handler: &Value, timeout: Duration) -> Result<(), String> {
        let work = async {
            if let Some(exec) = handler.get("exec") {
                let words: Vec<String> = items(exec, "/command")
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect();
                return self.exec(&words).await;
            }
            if let Some(http) = handler.get("httpGet") {
                return self.http(http).await;
            }
            if let Some(tcp) = handler.get("tcpSocket") {
                return self.connect(tcp).await.map(drop);
            }
            if let Some(sleep) = handler.get("sleep") {
                let seconds = sleep.get("seconds").and_then(Value::as_u64).unwrap_or_default();
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                return Ok(());
            }
            Err("a handler of this kind is not supported here".to_owned())
        };
        tokio::time::timeout(timeout, work)
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {}s", timeout.as_secs())))
    }

    async fn exec(&self, words: &[String]) -> Result<(), String> {
        let launch = command(words, &self.running.launch, &self.running.paths);
        let (exit, output) = run(&self.machine.guard, &launch)
            .await
            .map_err(|error| error.to_string())?;
        if exit.code == 0 {
            Ok(())
        } else {
            Err(format!("exit code {}: {}", exit.code, output.trim()))
        }
    }

    fn port(&self, handler: &Value) -> Result<u16, String> {
        let port = handler.get("port").ok_or("no port")?;
        let number = match port.as_str() {
            Some(name) => items(&self.container, "/ports")
                .iter()
                .find(|port| text(port, "/name") == name)
                .and_then(|port| port.get("containerPort")?.as_u64()),
            None => port.as_u64(),
        };
        number
            .and_then(|number| u16::try_from(number).ok())
            .ok_or_else(|| format!("no port {port}"))
    }

    async fn connect(&self, handler: &Value) -> Result<TcpStream, String> {
        let port = self.port(handler)?;
        connect(self.addresses, port)
            .await
            .map_err(|error| error.to_string())
    }

    async fn http(&self, http: &Value) -> Result<(), String> {
        let mut stream = self.connect(http).await?;
        let path = match text(http, "/path") {
            "" => "/",
            path => path,
        };
        let host = self.addresses.front;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nUser-Agent: kube-probe\r\n\r\n"
        );
        stream
            .write_all(request.as_bytes())
            .await
            .map_err(|error| error.to_string())?;
        let mut line = String::new();
        BufReader::new(stream.take(1024))
            .read_line(&mut line)
            .await
            .map_err(|error| error.to_string())?;
        let code = line
            .split_whitespace()
            .nth(1)
            .and_then(|code| code.parse::<u16>().ok());
        match code {
            Some(200..400) => Ok(()),
            Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
            None => Err("HTTP probe got no HTTP".to_owned()),
        }
    }
}

/// Connect to a port of a pod from its own node: no cut reaches this.
pub(super) async fn connect(addresses: Addresses, port: u16) -> std::io::Result<TcpStream> {
    let at = |ip: Ipv4Addr| TcpStream::connect(SocketAddrV4::new(ip, port));
    match at(addresses.back).await {
        Ok(stream) => Ok(stream),
        // A program may listen at its `podIP` itself.
        Err(_) => at(addresses.front).await,
    }
}

/// Run a command to its end, with the beginning of what it said.
async fn run(guard: &Guard, launch: &Launch) -> std::io::Result<(Exit, String)> {
    const MOST: u64 = 4096;
    let mut process = guard.start(launch)?;
    let mut output = Vec::new();
    if let Some(out) = process.child.stdout.take() {
        out.take(MOST).read_to_end(&mut output).await?;
    }
    if let Some(err) = process.child.stderr.take() {
        err.take(MOST).read_to_end(&mut output).await?;
    }
    let status = process.child.wait().await?;
    Ok((exit(status), String::from_utf8_lossy(&output).into_owned()))
}
