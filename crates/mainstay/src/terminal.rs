//! Whoever started a command may end it, or be gone: Ctrl-C, SIGTERM, a terminal that was closed.

use anyhow::{Context, Result};
use std::fmt::Display;
use std::future::pending;
use std::io::{self, Write as _};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What tells a command to end.
pub(crate) struct Ending {
    interrupt: Signal,
    terminate: Signal,
    /// `None`: it was started by `nohup`, to outlive its terminal.
    hangup: Option<Signal>,
}

impl Ending {
    /// Listens from now on: a signal that nobody listens for ends the program at once, and what it broke stays broken.
    pub(crate) fn listen() -> Result<Self> {
        // Asked first: whoever listens does not ignore it any more.
        let status = std::fs::read_to_string("/proc/self/status");
        let outlives = status.is_ok_and(|status| ignores_hangup(&status));
        let hangup = || signal(SignalKind::hangup()).context("cannot listen for SIGHUP");
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?,
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
            hangup: if outlives { None } else { Some(hangup()?) },
        })
    }

    /// Waits until it is told to end, and says by what.
    pub(crate) async fn told(&mut self) -> &'static str {
        let Self {
            interrupt,
            terminate,
            hangup,
        } = self;
        let gone = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => "Ctrl-C",
            _ = terminate.recv() => "SIGTERM",
            _ = gone => "SIGHUP",
        }
    }
}

/// What the kernel says of a process: SIGHUP is the lowest bit of the mask.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}

/// Prints a line. `println!` panics when nobody reads any more, and whoever panics mends nothing.
pub(crate) fn say(line: impl Display) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{line}")
}

/// The same on standard error. When that is gone there is nobody left to tell.
pub(crate) fn warn(line: impl Display) {
    writeln!(io::stderr().lock(), "{line}").ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal as Number, getpid, kill_process};

    #[tokio::test]
    async fn a_terminal_that_is_gone_ends_a_command_as_sigterm_does() {
        // These tests may themselves have been started by `nohup`.
        let _heard = signal(SignalKind::hangup()).unwrap();
        let mut ending = Ending::listen().unwrap();
        for (number, name) in [(Number::HUP, "SIGHUP"), (Number::TERM, "SIGTERM")] {
            kill_process(getpid(), number).unwrap();
            assert_eq!(ending.told().await, name);
        }
    }

    #[test]
    fn what_nohup_started_outlives_its_terminal() {
        let status = |mask: &str| format!("Name:\tmainstay\nSigBlk:\t0001\nSigIgn:\t{mask}\nSigCgt:\t0001\n");
        assert!(ignores_hangup(&status("0000000000001001")));
        // What every program of Rust ignores: SIGPIPE.
        assert!(!ignores_hangup(&status("0000000000001000")));
        assert!(!ignores_hangup("Name:\tmainstay\n"));
    }
}
