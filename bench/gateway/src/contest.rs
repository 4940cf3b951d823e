//! The proxies, each a process of its own with one worker.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::Serialize;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::sleep;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Haproxy,
    Nginx,
    Gateway,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Haproxy, Self::Nginx, Self::Gateway];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Gateway => "gateway",
        }
    }
}

/// A proxy that runs. It ends with this.
#[derive(Debug)]
pub(crate) struct Contestant {
    process: Child,
    pub(crate) pid: u32,
    pub(crate) address: SocketAddr,
    /// Where the gateway is pushed to, or the socket of HAProxy.
    pub(crate) admin: SocketAddr,
    pub(crate) socket: PathBuf,
    folder: PathBuf,
}

impl Contestant {
    /// Starts one in front of these databases; all traffic goes to the first.
    pub(crate) async fn start(kind: Kind, databases: [SocketAddr; 2], core: Option<usize>) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("mainstay-bench-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let (address, admin) = (free()?, free()?);
        let socket = folder.join("haproxy.sock");
        let line = match kind {
            Kind::Haproxy => haproxy(&folder, &socket, address, databases)?,
            Kind::Nginx => nginx(&folder, address, databases)?,
            Kind::Gateway => own(address, admin, databases)?,
        };
        let line = match core {
            Some(core) => [vec!["taskset".into(), "-c".into(), core.to_string()], line].concat(),
            None => line,
        };
        let (program, arguments) = line.split_first().context("an empty line")?;
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::null()).kill_on_drop(true);
        let process = command.spawn().with_context(|| {
            format!("cannot start {program}: `apt-get install haproxy nginx libnginx-mod-stream util-linux`")
        })?;
        // taskset becomes what it starts, so this is the proxy's own number.
        let pid = process.id().context("ended at once")?;
        let contestant = Self {
            process,
            pid,
            address,
            admin,
            socket,
            folder,
        };
        contestant.up().await?;
        Ok(contestant)
    }

    async fn up(&self) -> Result<()> {
        let began = Instant::now();
        while TcpStream::connect(self.address).await.is_err() {
            ensure!(
                began.elapsed() < Duration::from_secs(10),
                "a proxy does not listen"
            );
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    pub(crate) async fn stop(mut self) -> Result<()> {
        self.process.kill().await?;
        fs::remove_dir_all(&self.folder).ok();
        Ok(())
    }
}

/// A port that is free, most probably still when it is used.
fn free() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn haproxy(
    folder: &Path,
    socket: &Path,
    address: SocketAddr,
    [first, second]: [SocketAddr; 2],
) -> Result<Vec<String>> {
    let file = folder.join("haproxy.cfg");
    let text = format!(
        "global\n nbthread 1\n maxconn 6000\n stats socket {} level admin\n\
         defaults\n mode tcp\n timeout connect 5s\n timeout client 1h\n timeout server 1h\n\
         frontend front\n bind {address}\n default_backend back\n\
         backend back\n server first {first}\n server second {second} disabled\n",
        socket.display()
    );
    fs::write(&file, text)?;
    Ok(["haproxy", "-db", "-q", "-f", &file.to_string_lossy()]
        .map(str::to_owned)
        .to_vec())
}

fn nginx(folder: &Path, address: SocketAddr, [first, _]: [SocketAddr; 2]) -> Result<Vec<String>> {
    let file = folder.join("nginx.conf");
    let text = format!(
        "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\n\
         daemon off;\nmaster_process off;\nworker_processes 1;\npid {0}/nginx.pid;\nerror_log {0}/nginx.log crit;\n\
         events {{ worker_connections 12000; }}\n\
         stream {{ server {{ listen {address}; proxy_pass {first}; proxy_timeout 1h; }} }}\n",
        folder.display()
    );
    fs::write(&file, text)?;
    let log = format!("{}/nginx.log", folder.display());
    Ok(["nginx", "-e", &log, "-c", &file.to_string_lossy()]
        .map(str::to_owned)
        .to_vec())
}

fn own(address: SocketAddr, admin: SocketAddr, [first, second]: [SocketAddr; 2]) -> Result<Vec<String>> {
    let me = std::env::current_exe()?.to_string_lossy().into_owned();
    Ok(vec![
        me,
        "proxy".to_owned(),
        format!("--listen={address}"),
        format!("--admin={admin}"),
        format!("--databases={first},{second}"),
    ])
}

/// What a program says of its version.
pub(crate) async fn version(program: &str) -> Result<String> {
    let output = Command::new(program).arg("-v").output().await.with_context(|| {
        format!("{program} is not there: `apt-get install haproxy nginx libnginx-mod-stream`")
    })?;
    let said = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&said);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
