//! Clients that write all the time, and what became of what they were promised.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::place::Place;

/// Clients see the fault in the middle of their work.
const AROUND: Duration = Duration::from_secs(2);

/// What they say at the end.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counted {
    pub(crate) acknowledged: u64,
    pub(crate) failed: u64,
    pub(crate) unknown: u64,
    pub(crate) gap_ms: u64,
    pub(crate) dark_ms: u64,
    pub(crate) lost: u64,
    pub(crate) twice: u64,
    pub(crate) last_error: String,
}

/// Killed when it is dropped: a suite that fails leaves nobody behind.
struct Clients(Child);

impl Drop for Clients {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// What was counted, and how the fault went: a suite that fails has lost writes, or has not, all the same.
pub(crate) struct Heard {
    pub(crate) counted: Counted,
    pub(crate) fault: Result<()>,
}

/// Writes while this is done.
pub(crate) fn during(place: &Place<'_>, fault: fn(&Place<'_>) -> Result<()>) -> Result<Heard> {
    let run = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let gateway = place.service()?;
    // Whatever happens to a node happens to MAIN's.
    let main = place.main_node()?;
    let node = place.nodes().filter(|node| *node != main).last().unwrap_or(main);
    let mut command = place.command_on(node, &place.python()?);
    command
        .args(["e2e/ledger.py", &gateway, "7687", &run.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut clients = Clients(command.spawn().context("the clients cannot be started")?);
    let said = clients.0.stdout.take().context("the clients have no voice")?;
    let (tell, told) = mpsc::channel();
    // Ends with the clients.
    thread::spawn(move || {
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    let ready = told.recv_timeout(Duration::from_mins(1));
    if ready.as_deref() != Ok("ready") {
        bail!("no write was acknowledged through the gateway {gateway} within a minute");
    }
    thread::sleep(AROUND);
    let fault = fault(place);
    thread::sleep(AROUND);
    match (count(&mut clients, &told), fault) {
        (Ok(counted), fault) => Ok(Heard { counted, fault }),
        // Why nobody can count is what went wrong before.
        (Err(silent), Err(error)) => Err(error.context(format!("{silent:#}"))),
        (Err(silent), Ok(())) => Err(silent),
    }
}

/// They are told to end, and say what they counted.
fn count(clients: &mut Clients, told: &mpsc::Receiver<String>) -> Result<Counted> {
    let mut ear = clients.0.stdin.take().context("the clients have no ear")?;
    ear.write_all(b"end\n").context("the clients ended early")?;
    let last = told.recv_timeout(Duration::from_mins(1));
    let last = last.context("the clients did not count within a minute")?;
    serde_json::from_str(&last).with_context(|| format!("the clients said `{last}`"))
}
