//! Which answer belongs to which container.
//!
//! A database says its `run_id`, one per process. Kubernetes says a containerID. Nobody says which run is in which
//! container, and a pod object lags: it may still show a container that has ended, while the answer comes from the
//! next one. To take that answer for the old container would call a process protected that has just forgotten what
//! it had prepared (R2). So a pair is believed only when the object still shows the container some time *after* the
//! run first answered: if the container had ended before, the kubelet would have said so by then. What is believed
//! is kept in the status, so that an operator that starts knows it at once.

use api::memgraph::ProcessSeen;
use mainstay_core::memgraph::ids::{Ordinal, ProcessId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Pairs of runs and containers.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    known: BTreeMap<String, (Ordinal, ProcessId)>,
    /// Seen together, not yet for long enough.
    seen: BTreeMap<Ordinal, Pair>,
}

#[derive(Clone, Debug)]
struct Pair {
    run: String,
    process: ProcessId,
    since: Instant,
}

impl Processes {
    /// What an earlier operator knew.
    pub fn restore(&mut self, known: &[ProcessSeen]) {
        for ProcessSeen { pod, run_id, process } in known {
            if let Ok(process) = process.parse() {
                self.known
                    .entry(run_id.clone())
                    .or_insert((Ordinal(*pod), process));
            }
        }
    }

    /// What is known, for the next operator.
    pub fn save(&self) -> Vec<ProcessSeen> {
        let mut all: Vec<ProcessSeen> = self
            .known
            .iter()
            .map(|(run, (pod, process))| ProcessSeen {
                pod: pod.0,
                run_id: run.clone(),
                process: process.to_string(),
            })
            .collect();
        all.sort_by(|a, b| (a.pod, &a.run_id).cmp(&(b.pod, &b.run_id)));
        all
    }

    /// The process of a run, if it is known.
    pub fn by_run(&self, run: &str) -> Option<ProcessId> {
        self.known.get(run).map(|(_, process)| *process)
    }

    /// Which process answered? `shown` is the container that runs by the pod object, which was read at `read`;
    /// the answer came after that.
    pub fn identify(
        &mut self,
        pod: Ordinal,
        run: &str,
        shown: Option<ProcessId>,
        read: Instant,
        settle: Duration,
    ) -> Option<ProcessId> {
        if let Some((_, process)) = self.known.get(run) {
            return Some(*process);
        }
        let process = shown?;
        // Another run was in that container, so this one is not: the object lags.
        if self.known.values().any(|(_, known)| *known == process) {
            self.seen.remove(&pod);
            return None;
        }
        match self.seen.get(&pod) {
            Some(pair) if pair.run == run && pair.process == process => {
                if read.saturating_duration_since(pair.since) < settle {
                    return None;
                }
                self.seen.remove(&pod);
                self.forget_but(pod, process);
                self.known.insert(run.to_owned(), (pod, process));
                Some(process)
            }
            _ => {
                let pair = Pair {
                    run: run.to_owned(),
                    process,
                    since: Instant::now(),
                };
                self.seen.insert(pod, pair);
                None
            }
        }
    }

    /// Of a pod that is gone nothing more is seen: it must not be looked for again soon, for ever.
    pub fn keep(&mut self, exists: impl Fn(Ordinal) -> bool) {
        self.seen.retain(|pod, _| exists(*pod));
    }

    /// Is a pair waiting to be believed? Then it is worth to look again soon.
    pub fn unsettled(&self) -> bool {
        !self.seen.is_empty()
    }

    /// Only the last few runs of a pod are worth remembering.
    fn forget_but(&mut self, pod: Ordinal, newest: ProcessId) {
        let of_pod: Vec<String> = self
            .known
            .iter()
            .filter(|(_, (p, process))| *p == pod && *process != newest)
            .map(|(run, _)| run.clone())
            .collect();
        if of_pod.len() >= 4 {
            for run in of_pod.iter().take(of_pod.len() - 3) {
                self.known.remove(run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: Ordinal = Ordinal(1);
    const X: ProcessId = ProcessId(1);
    const Y: ProcessId = ProcessId(2);
    const SETTLE: Duration = Duration::from_secs(2);

    fn later(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    fn knowing(run: &str, process: ProcessId) -> Processes {
        let mut processes = Processes::default();
        assert_eq!(
            processes.identify(POD, run, Some(process), Instant::now(), SETTLE),
            None
        );
        assert_eq!(
            processes.identify(POD, run, Some(process), later(3), SETTLE),
            Some(process)
        );
        processes
    }

    #[test]
    fn a_pair_is_believed_when_the_object_still_shows_it_some_time_after_the_answer() {
        let mut processes = Processes::default();
        assert_eq!(
            processes.identify(POD, "r", Some(X), Instant::now(), SETTLE),
            None
        );
        assert!(processes.unsettled());
        assert_eq!(
            processes.identify(POD, "r", Some(X), later(1), SETTLE),
            None,
            "too soon"
        );
        assert_eq!(processes.identify(POD, "r", Some(X), later(3), SETTLE), Some(X));
        assert_eq!(
            processes.identify(POD, "r", None, Instant::now(), SETTLE),
            Some(X),
            "whatever the object says later"
        );
    }

    #[test]
    fn a_new_run_is_never_taken_for_the_container_of_an_old_one() {
        let mut processes = knowing("old", X);
        for seconds in [0, 10, 100] {
            let lagging = processes.identify(POD, "new", Some(X), later(seconds), SETTLE);
            assert_eq!(lagging, None, "the object lags");
        }
        assert_eq!(
            processes.identify(POD, "new", Some(Y), Instant::now(), SETTLE),
            None
        );
        assert_eq!(processes.identify(POD, "new", Some(Y), later(3), SETTLE), Some(Y));
        assert_eq!(processes.by_run("old"), Some(X));
    }

    #[test]
    fn a_run_that_changes_before_it_is_believed_begins_anew() {
        let mut processes = Processes::default();
        assert_eq!(
            processes.identify(POD, "a", Some(X), Instant::now(), SETTLE),
            None
        );
        assert_eq!(
            processes.identify(POD, "b", Some(X), later(3), SETTLE),
            None,
            "another run in what seems the same container"
        );
    }

    #[test]
    fn the_next_operator_knows_what_this_one_knew() {
        let saved = knowing("r", X).save();
        let mut next = Processes::default();
        next.restore(&saved);
        assert_eq!(next.identify(POD, "r", Some(X), Instant::now(), SETTLE), Some(X));
        assert_eq!(next.save(), saved);
    }

    #[test]
    fn a_pod_that_goes_before_it_is_believed_is_not_waited_for() {
        let mut processes = knowing("r", X);
        processes.identify(Ordinal(2), "s", Some(Y), Instant::now(), SETTLE);
        processes.keep(|pod| pod == Ordinal(2));
        assert!(processes.unsettled(), "it is there");
        processes.keep(|pod| pod == POD);
        assert!(!processes.unsettled());
        processes.keep(|_| false);
        assert_eq!(processes.by_run("r"), Some(X), "what was believed stays so");
    }

    #[test]
    fn only_the_last_few_runs_of_a_pod_are_remembered() {
        let mut processes = Processes::default();
        for n in 0..20_u128 {
            let run = format!("run-{n:02}");
            processes.identify(POD, &run, Some(ProcessId(n)), Instant::now(), SETTLE);
            let known = processes.identify(POD, &run, Some(ProcessId(n)), later(3), SETTLE);
            assert_eq!(known, Some(ProcessId(n)));
        }
        assert_eq!(processes.save().len(), 4);
    }
}
