//! A stage that does not end is ended, and named.
//!
//! A test that waited for a line of text that was spelled differently by then once held a whole run until its time was
//! up, and nothing said which test it was.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ends every process that this one started, and theirs, unless it is dropped in time.
pub(crate) struct Watch {
    /// Dropped first: that is how the thread learns that the stage ended.
    in_time: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Over the stage of this name, which must end within this time.
    pub(crate) fn over(name: &'static str, limit: Duration) -> Self {
        let (in_time, ended) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                println!(
                    "== {name}: not done within {} minutes; what it runs is ended",
                    limit.as_secs().div_ceil(60)
                );
                end(&started_by(std::process::id(), &parents()));
            }
        });
        Self {
            in_time: Some(in_time),
            thread: Some(thread),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.in_time.take();
        if let Some(thread) = self.thread.take() {
            // It only prints and ends processes; if it panicked, there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// All at once, by their numbers: a parent that ends first would leave its children to init, out of our sight.
fn end(processes: &BTreeSet<u32>) {
    let numbers = processes.iter().map(ToString::to_string);
    // One that ended by itself makes `kill` complain, and that is as well.
    let _ = Command::new("kill").arg("-9").args(numbers).status();
}

/// The process and its parent, for every process there is.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let process = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((process, parent(&stat)?))
        })
        .collect()
}

/// The field after the state. The program's name before it is in brackets and may hold anything, brackets too.
fn parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

fn started_by(root: u32, parents: &[(u32, u32)]) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        let children = parents
            .iter()
            .filter(|(_, of)| *of == parent)
            .map(|(child, _)| *child);
        open.extend(children.filter(|child| found.insert(*child)));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn children_and_their_children_are_found_and_nobody_else() {
        let parents = [(10, 1), (11, 10), (12, 11), (20, 1), (21, 20)];
        assert_eq!(started_by(10, &parents), BTreeSet::from([11, 12]));
        assert!(started_by(12, &parents).is_empty());
    }

    #[test]
    fn a_parent_is_read_whatever_the_program_is_called() {
        assert_eq!(parent("7 (a) b (c) S 42 7 7 0"), Some(42));
        assert_eq!(parent("7 (cut"), None);
    }

    #[test]
    fn this_process_has_a_parent() {
        let own = std::process::id();
        assert!(
            parents()
                .iter()
                .any(|(process, parent)| *process == own && *parent != 0)
        );
    }

    // In a process of its own: the watch ends everything that its process started, also other tests' children.
    #[test]
    fn what_does_not_end_is_ended() {
        if std::env::var_os("MAINSTAY_WATCHED").is_none() {
            let name = "watch::tests::what_does_not_end_is_ended";
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name])
                .env("MAINSTAY_WATCHED", "1")
                .status();
            assert!(status.unwrap().success());
            return;
        }
        let begun = Instant::now();
        let _watch = Watch::over("a test", Duration::from_millis(200));
        let status = Command::new("sh")
            .args(["-c", "sleep 60; true"])
            .status()
            .unwrap();
        assert!(!status.success() && begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn what_ends_in_time_is_left_alone() {
        drop(Watch::over("a test", Duration::from_hours(1)));
    }
}
