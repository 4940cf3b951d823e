//! One container of a pod: waiting, running, being stopped, over.

use jiff::{SignedDuration, Timestamp};

use super::lifecycle::{Action, BackOff, ContainerId};
use super::spec::{ContainerSpec, ProbeKind, ProbeTimes};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; 128 and the signal's number for a signal.
    pub code: i32,
    /// The signal, if it was one.
    pub signal: Option<i32>,
}

impl Exit {
    /// An ordinary end.
    pub fn code(code: i32) -> Self {
        Self { code, signal: None }
    }

    /// The end by a signal.
    pub fn signal(signal: i32) -> Self {
        Self {
            code: 128 + signal,
            signal: Some(signal),
        }
    }
}

/// A run that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) id: ContainerId,
    pub(super) exit: Exit,
    pub(super) started: Timestamp,
    pub(super) finished: Timestamp,
}

/// How far the stop of a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Runs; nobody asked it to stop.
    Running,
    /// The preStop hook runs.
    PreStop,
    /// SIGTERM was sent.
    Terminated,
    /// SIGKILL was sent.
    Killed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stop {
    deadline: Timestamp,
    stage: Stage,
    /// Whether the action of the present stage was given out.
    told: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Watchman {
    times: ProbeTimes,
    kind: ProbeKind,
    /// `None` while an answer is awaited.
    next: Option<Timestamp>,
    successes: u32,
    failures: u32,
    passed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) id: ContainerId,
    pub(super) since: Timestamp,
    probes: Vec<Watchman>,
    stop: Option<Stop>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    Waiting {
        reason: &'static str,
        message: String,
        until: Option<Timestamp>,
    },
    Starting,
    Running(Run),
    Ended(Ended),
}

#[derive(Debug, Clone)]
pub(super) struct Container {
    pub(super) spec: ContainerSpec,
    pub(super) state: State,
    /// How many runs there were; the next one has this number.
    pub(super) attempts: u32,
    pub(super) last: Option<Ended>,
    pause: SignedDuration,
}

impl Container {
    pub(super) fn new(spec: ContainerSpec) -> Self {
        let state = State::Waiting {
            reason: "ContainerCreating",
            message: String::new(),
            until: None,
        };
        Self {
            spec,
            state,
            attempts: 0,
            last: None,
            pause: SignedDuration::ZERO,
        }
    }

    pub(super) fn id(&self) -> Option<&ContainerId> {
        match &self.state {
            State::Running(run) => Some(&run.id),
            State::Waiting { .. } | State::Starting | State::Ended(_) => None,
        }
    }

    /// Whether a process runs or is about to.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.state, State::Running(_) | State::Starting)
    }

    pub(super) fn has_succeeded(&self) -> bool {
        matches!(&self.state, State::Ended(ended) if ended.exit.code == 0)
    }

    pub(super) fn stage(&self) -> Option<Stage> {
        match &self.state {
            State::Running(run) => Some(run.stop.as_ref().map_or(Stage::Running, |stop| stop.stage)),
            State::Waiting { .. } | State::Starting | State::Ended(_) => None,
        }
    }

    fn passed(&self, kind: ProbeKind) -> bool {
        match &self.state {
            State::Running(run) => run.probes.iter().all(|probe| probe.kind != kind || probe.passed),
            State::Waiting { .. } | State::Starting | State::Ended(_) => false,
        }
    }

    /// Past its startup probe.
    pub(super) fn has_started(&self) -> bool {
        self.passed(ProbeKind::Startup)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.has_started() && self.passed(ProbeKind::Readiness)
    }

    pub(super) fn explain(&mut self, why: &str) {
        if let State::Waiting { message, .. } = &mut self.state {
            why.clone_into(message);
        }
    }

    pub(super) fn start_if_due(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        if matches!(&self.state, State::Waiting { until, .. } if until.is_none_or(|until| until <= now)) {
            self.state = State::Starting;
            actions.push(Action::Start {
                container: self.spec.name.clone(),
                attempt: self.attempts,
            });
        }
    }

    pub(super) fn started(&mut self, now: Timestamp, id: ContainerId) {
        self.attempts += 1;
        let probes = self.spec.probes.iter().map(|(kind, times)| Watchman {
            times: *times,
            kind: *kind,
            next: Some(now + times.initial_delay),
            successes: 0,
            failures: 0,
            passed: false,
        });
        self.state = State::Running(Run {
            id,
            since: now,
            probes: probes.collect(),
            stop: None,
        });
    }

    pub(super) fn not_started(
        &mut self,
        now: Timestamp,
        reason: &'static str,
        message: String,
        times: BackOff,
    ) {
        let again = !self.pause.is_zero();
        let pause = self.longer_pause(times);
        let reason = if reason == "ErrImagePull" && again {
            "ImagePullBackOff"
        } else {
            reason
        };
        self.state = State::Waiting {
            reason,
            message,
            until: Some(now + pause),
        };
    }

    fn longer_pause(&mut self, times: BackOff) -> SignedDuration {
        self.pause = if self.pause.is_zero() {
            times.first
        } else {
            (self.pause * 2).min(times.longest)
        };
        self.pause
    }

    pub(super) fn ended(&mut self, now: Timestamp, exit: Exit) {
        if let State::Running(run) = &self.state {
            let ended = Ended {
                id: run.id.clone(),
                exit,
                started: run.since,
                finished: now,
            };
            self.state = State::Ended(ended);
        }
    }

    /// After an end: wait, then start again. The first time without a pause.
    pub(super) fn again(&mut self, now: Timestamp, times: BackOff) {
        let State::Ended(ended) = &self.state else { return };
        let ended = ended.clone();
        if ended.finished.duration_since(ended.started) >= times.forgiven_after {
            self.pause = SignedDuration::ZERO;
        }
        let first = self.last.is_none();
        self.last = Some(ended);
        let pause = if first {
            SignedDuration::ZERO
        } else {
            self.longer_pause(times)
        };
        let message = format!(
            "back-off {}s restarting failed container={}",
            pause.as_secs(),
            self.spec.name
        );
        self.state = State::Waiting {
            reason: "CrashLoopBackOff",
            message,
            until: Some(now + pause),
        };
    }

    /// Begin to stop, or bring the deadline of a stop forward.
    pub(super) fn stop(&mut self, now: Timestamp, deadline: Timestamp) {
        let State::Running(run) = &mut self.state else {
            return;
        };
        if let Some(stop) = &mut run.stop {
            stop.deadline = stop.deadline.min(deadline);
            return;
        }
        let hook = self.spec.pre_stop && deadline > now;
        let stage = if hook { Stage::PreStop } else { Stage::Terminated };
        run.stop = Some(Stop {
            deadline,
            stage,
            told: false,
        });
    }

    pub(super) fn pre_stopped(&mut self, now: Timestamp, last_words: SignedDuration) {
        let State::Running(Run { stop: Some(stop), .. }) = &mut self.state else {
            return;
        };
        if stop.stage == Stage::PreStop {
            let deadline = stop.deadline.max(now + last_words);
            *stop = Stop {
                deadline,
                stage: Stage::Terminated,
                told: false,
            };
        }
    }

    pub(super) fn probed(
        &mut self,
        now: Timestamp,
        kind: ProbeKind,
        result: &Result<(), String>,
        grace: SignedDuration,
    ) {
        let State::Running(run) = &mut self.state else {
            return;
        };
        let Some(probe) = run.probes.iter_mut().find(|probe| probe.kind == kind) else {
            return;
        };
        probe.next = Some(now + probe.times.period);
        let failed = result.is_err();
        (probe.successes, probe.failures) = if failed {
            (0, probe.failures + 1)
        } else {
            (probe.successes + 1, 0)
        };
        if probe.successes >= probe.times.successes {
            probe.passed = true;
        }
        if probe.failures >= probe.times.failures {
            probe.passed = false;
            if kind != ProbeKind::Readiness {
                self.stop(now, now + grace);
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        match &self.state {
            State::Waiting { until, .. } => *until,
            State::Running(Run { stop: Some(stop), .. }) if stop.stage != Stage::Killed => {
                Some(stop.deadline)
            }
            State::Running(Run { stop: None, .. }) => {
                self.probes_to_ask().filter_map(|probe| probe.next).min()
            }
            State::Running(_) | State::Starting | State::Ended(_) => None,
        }
    }

    /// Before the startup probe passed only that one is asked, afterwards only the others.
    fn probes_to_ask(&self) -> impl Iterator<Item = &Watchman> {
        let started = self.has_started();
        let probes = match &self.state {
            State::Running(run) => run.probes.as_slice(),
            State::Waiting { .. } | State::Starting | State::Ended(_) => &[],
        };
        probes
            .iter()
            .filter(move |probe| (probe.kind == ProbeKind::Startup) != started)
    }

    /// What a running container needs now.
    pub(super) fn due(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let started = self.has_started();
        let State::Running(run) = &mut self.state else {
            return;
        };
        let Some(stop) = &mut run.stop else {
            for probe in &mut run.probes {
                let wanted = (probe.kind == ProbeKind::Startup) != started;
                if wanted && probe.next.is_some_and(|next| next <= now) {
                    probe.next = None;
                    actions.push(Action::Probe(run.id.clone(), probe.kind));
                }
            }
            return;
        };
        if stop.deadline <= now && stop.stage != Stage::Killed {
            (stop.stage, stop.told) = (Stage::Killed, false);
        }
        if !std::mem::replace(&mut stop.told, true) {
            actions.push(match stop.stage {
                Stage::PreStop => Action::PreStop(run.id.clone()),
                Stage::Running | Stage::Terminated => Action::Terminate(run.id.clone()),
                Stage::Killed => Action::Kill(run.id.clone()),
            });
        }
    }
}
