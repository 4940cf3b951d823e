//! Logs, exec and port-forward of pods on this machine.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt, copy};

use super::env::command;
use super::machine::{Entry, Machine, Running};
use super::process::exit;
use super::runner::connect;
use crate::kube::streams::{
    BoxRead, BoxWrite, Duplex, ExecRequest, ExecStreams, LogRequest, PodRef, PodStreams, StreamError,
};

/// How often a followed log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The pods of a machine, as the API asks for them.
pub(super) struct Streams(pub(super) Arc<Machine>);

impl Streams {
    fn entry(&self, pod: &PodRef) -> Result<Entry, StreamError> {
        self.0.entry(&pod.uid).ok_or_else(|| {
            StreamError::Unavailable(format!(
                "node {:?} does not answer for pod {:?}",
                pod.node, pod.name
            ))
        })
    }

    fn running(&self, pod: &PodRef, container: &str) -> Result<Running, StreamError> {
        let entry = self.entry(pod)?;
        let running = entry
            .containers
            .get(container)
            .filter(|running| running.group.is_some());
        let missing = || StreamError::Unavailable(format!("container not found ({container:?})"));
        running.cloned().ok_or_else(missing)
    }
}

impl PodStreams for Streams {
    fn logs(&self, request: LogRequest) -> BoxFuture<'static, Result<BoxRead, StreamError>> {
        let machine = Arc::clone(&self.0);
        let entry = self.entry(&request.pod);
        Box::pin(async move {
            let entry = entry?;
            let container = &request.container;
            let waiting = || {
                let why = format!(
                    "container {container:?} in pod {:?} is waiting to start",
                    request.pod.name
                );
                StreamError::BadRequest(why)
            };
            let last = entry.containers.get(container).ok_or_else(waiting)?.attempt;
            let attempt = if request.previous {
                last.checked_sub(1).ok_or_else(|| {
                    let why = format!(
                        "previous terminated container {container:?} in pod {:?} not found",
                        request.pod.name
                    );
                    StreamError::BadRequest(why)
                })?
            } else {
                last
            };
            let log = Log {
                path: entry
                    .folder
                    .join("logs")
                    .join(container)
                    .join(format!("{attempt}.log")),
                timestamps: request.timestamps,
                since: request.since_seconds.and_then(|seconds| {
                    let seconds = SignedDuration::from_secs(i64::try_from(seconds).ok()?);
                    machine.now().checked_sub(seconds).ok()
                }),
            };
            let (text, position) = log.read(0).await;
            let text = limited(&text, request.tail_lines, request.limit_bytes);
            if !request.follow {
                return Ok(Box::new(std::io::Cursor::new(text)) as BoxRead);
            }
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            let tasks = machine.tasks.clone();
            let (uid, container) = (request.pod.uid.clone(), request.container.clone());
            tasks.spawn(async move {
                let goes_on = move || {
                    let entry = machine.any_entry(&uid);
                    entry
                        .and_then(|entry| entry.containers.get(&container).cloned())
                        .is_some_and(|running| running.attempt == attempt && running.group.is_some())
                };
                log.follow(text, position, Box::new(ours), goes_on).await;
            });
            Ok(Box::new(theirs) as BoxRead)
        })
    }

    fn exec(
        &self,
        request: ExecRequest,
        streams: ExecStreams,
    ) -> BoxFuture<'static, Result<i32, StreamError>> {
        let running = self.running(&request.pod, &request.container);
        let party = self.entry(&request.pod).map(|entry| entry.party);
        let machine = Arc::clone(&self.0);
        let log = LogRequest {
            pod: request.pod.clone(),
            container: request.container.clone(),
            follow: true,
            previous: false,
            tail_lines: Some(0),
            since_seconds: None,
            timestamps: false,
            limit_bytes: None,
        };
        let attached = request.command.is_empty().then(|| self.logs(log));
        Box::pin(async move {
            let (running, party) = (running?, party?);
            let ExecStreams {
                stdin,
                mut stdout,
                mut stderr,
                resize: _,
            } = streams;
            if let Some(attached) = attached {
                copy(&mut attached.await?, &mut stdout).await?;
                return Ok(0);
            }
            let launch = command(&request.command, &running.launch, &running.paths);
            let input = if stdin.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            };
            let start = || machine.guard.start_with(&launch, input);
            let mut process = match machine.network.begin(party, start) {
                Ok(process) => process,
                Err(error) => {
                    let why = format!("exec: {}: {error}\n", launch.program.display());
                    stderr.write_all(why.as_bytes()).await?;
                    return Ok(127);
                }
            };
            let out = process.child.stdout.take();
            let err = process.child.stderr.take();
            let sink = process.child.stdin.take();
            let output = async {
                tokio::try_join!(carry(out, &mut stdout), carry(err, &mut stderr))?;
                process.child.wait().await
            };
            let input = async {
                if let (Some(mut from), Some(mut to)) = (stdin, sink) {
                    // A program need not read what is typed.
                    let _ = copy(&mut from, &mut to).await;
                }
            };
            tokio::pin!(output);
            let status = tokio::select! {
                status = &mut output => status,
                () = input => output.await,
            };
            machine.network.disown(process.group.id());
            Ok(exit(status?).code)
        })
    }

    fn forward(&self, pod: PodRef, port: u16) -> BoxFuture<'static, Result<Box<dyn Duplex>, StreamError>> {
        let entry = self.entry(&pod);
        Box::pin(async move {
            let stream = connect(entry?.addresses, port).await?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    }
}

async fn carry(from: Option<impl tokio::io::AsyncRead + Unpin>, to: &mut BoxWrite) -> std::io::Result<()> {
    if let Some(mut from) = from {
        copy(&mut from, to).await?;
    }
    to.shutdown().await
}

/// A log file, and what of it is wanted.
struct Log {
    path: PathBuf,
    timestamps: bool,
    since: Option<Timestamp>,
}

impl Log {
    /// What was written after a position, and the next position.
    async fn read(&self, from: u64) -> (Vec<u8>, u64) {
        let bytes = read_from(&self.path, from).await.unwrap_or_default();
        // A line that is just being written comes the next time.
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let lines = bytes.get(..whole).unwrap_or_default();
        let shown = lines
            .split_inclusive(|byte| *byte == b'\n')
            .flat_map(|line| self.shown(line))
            .collect();
        (shown, from + u64::try_from(whole).unwrap_or_default())
    }

    fn shown(&self, line: &[u8]) -> Vec<u8> {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (Some(time), _, Some(whole), Some(text)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Vec::new();
        };
        let written = std::str::from_utf8(time)
            .ok()
            .and_then(|time| time.parse::<Timestamp>().ok());
        if self
            .since
            .is_some_and(|since| written.is_some_and(|written| written < since))
        {
            return Vec::new();
        }
        let text = if whole == b"P" {
            text.strip_suffix(b"\n").unwrap_or(text)
        } else {
            text
        };
        if self.timestamps {
            [time, b" ", text].concat()
        } else {
            text.to_vec()
        }
    }

    async fn follow(&self, begin: Vec<u8>, mut position: u64, mut to: BoxWrite, goes_on: impl Fn() -> bool) {
        let mut text = begin;
        loop {
            if to.write_all(&text).await.is_err() {
                return;
            }
            // Asked before reading: what was written until then is read.
            let more = goes_on();
            (text, position) = self.read(position).await;
            if text.is_empty() {
                if !more {
                    return;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }
}

async fn read_from(path: &Path, from: u64) -> std::io::Result<Vec<u8>> {
    let mut file = tokio::fs::File::open(path).await?;
    file.seek(std::io::SeekFrom::Start(from)).await?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).await?;
    Ok(bytes)
}

fn limited(text: &[u8], tail: Option<usize>, bytes: Option<usize>) -> Vec<u8> {
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let skip = tail.map_or(0, |tail| lines.len().saturating_sub(tail));
    let mut kept = lines.get(skip..).unwrap_or_default().concat();
    kept.truncate(bytes.unwrap_or(usize::MAX));
    kept
}
