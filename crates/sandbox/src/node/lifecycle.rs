//! The life of a pod, without processes: events and the time go in, what to do
//! comes out. The shell in `agent` does it and reports back.
//!
//! Contract: every [`Lifecycle::handle`] returns all that is due; the shell
//! carries it out and calls again at [`Lifecycle::deadline`].

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::container::{Container, Ended, Exit, Stage, State};
use super::spec::{PodSpec, ProbeKind, RestartPolicy};

/// One run of a container. A restarted container has another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerId(pub String);

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The folders are there, or why not.
    Prepared(Result<(), String>),
    /// A container's process runs.
    Started {
        /// Which container.
        container: String,
        /// The name of this run.
        id: ContainerId,
    },
    /// A container's process could not be started.
    NotStarted {
        /// Which container.
        container: String,
        /// One word, as `kubectl get pods` shows it.
        reason: &'static str,
        /// A sentence.
        message: String,
    },
    /// A run is over.
    Exited {
        /// Which run.
        id: ContainerId,
        /// How it ended.
        exit: Exit,
    },
    /// A probe answered.
    Probed {
        /// Of which run.
        id: ContainerId,
        /// Which probe.
        probe: ProbeKind,
        /// What it said; the error is a sentence.
        result: Result<(), String>,
    },
    /// The preStop hook is over, well or not.
    PreStopped {
        /// Of which run.
        id: ContainerId,
    },
    /// The pod is to end within this time.
    Delete {
        /// From now on.
        grace: SignedDuration,
    },
    /// Whether all readiness gates are true.
    Gates(bool),
    /// Only time passed.
    Tick,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make the folders.
    Prepare,
    /// Start a container, for the how-manieth time.
    Start {
        /// Which container.
        container: String,
        /// Counted from zero.
        attempt: u32,
    },
    /// Run the preStop hook.
    PreStop(ContainerId),
    /// SIGTERM.
    Terminate(ContainerId),
    /// SIGKILL.
    Kill(ContainerId),
    /// Ask a probe once.
    Probe(ContainerId, ProbeKind),
    /// Nothing of the pod runs and nothing will: clean up and say so.
    Gone,
}

/// How patient the node is with what fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOff {
    /// The first pause; it doubles.
    pub first: SignedDuration,
    /// The longest pause.
    pub longest: SignedDuration,
    /// A run of this length makes the next pause the first again.
    pub forgiven_after: SignedDuration,
}

impl BackOff {
    /// Upstream's times.
    pub const UPSTREAM: Self = Self {
        first: SignedDuration::from_secs(10),
        longest: SignedDuration::from_secs(300),
        forgiven_after: SignedDuration::from_secs(600),
    };
}

/// When preparing failed, it is tried again after this.
const PREPARE_AGAIN: SignedDuration = SignedDuration::from_secs(1);
/// What is left for SIGTERM when preStop used up the grace, as upstream.
pub(super) const LAST_WORDS: SignedDuration = SignedDuration::from_secs(2);

/// A pod on its node.
#[derive(Debug, Clone)]
pub struct Lifecycle {
    pub(super) restart: RestartPolicy,
    pub(super) init: Vec<Container>,
    pub(super) containers: Vec<Container>,
    pub(super) gates_open: bool,
    pub(super) deleted: Option<Timestamp>,
    grace: SignedDuration,
    back_off: BackOff,
    prepare: Prepare,
    gone: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Prepare {
    /// To be asked for at this time.
    At(Timestamp),
    Asked,
    Done,
}

impl Lifecycle {
    /// A pod that was just assigned to this node.
    pub fn new(now: Timestamp, spec: PodSpec, back_off: BackOff) -> Self {
        let PodSpec {
            restart,
            grace,
            init,
            containers,
            gated,
        } = spec;
        Self {
            restart,
            init: init.into_iter().map(Container::new).collect(),
            containers: containers.into_iter().map(Container::new).collect(),
            gates_open: !gated,
            deleted: None,
            grace,
            back_off,
            prepare: Prepare::At(now),
            gone: false,
        }
    }

    /// Take in what happened; everything that is due comes out.
    pub fn handle(&mut self, now: Timestamp, event: Event) -> Vec<Action> {
        self.take_in(now, event);
        let mut actions = Vec::new();
        self.advance(now, &mut actions);
        actions
    }

    /// When to call again although nothing happened.
    pub fn deadline(&self) -> Option<Timestamp> {
        let prepare = match self.prepare {
            Prepare::At(at) => Some(at),
            Prepare::Asked | Prepare::Done => None,
        };
        let all = self.init.iter().chain(&self.containers);
        all.filter_map(Container::deadline).chain(prepare).min()
    }

    /// Whether nothing of the pod runs and nothing will.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// The container of a run that is still going on.
    pub fn running(&self, id: &ContainerId) -> Option<&str> {
        let mut all = self.init.iter().chain(&self.containers);
        all.find(|container| container.id() == Some(id))
            .map(|container| container.spec.name.as_str())
    }

    /// Every run that is going on, by container.
    pub fn runs(&self) -> BTreeMap<&str, &ContainerId> {
        let all = self.init.iter().chain(&self.containers);
        all.filter_map(|container| Some((container.spec.name.as_str(), container.id()?)))
            .collect()
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Container> {
        self.init.iter_mut().chain(&mut self.containers)
    }

    fn by_id(&mut self, id: &ContainerId) -> Option<&mut Container> {
        self.all().find(|container| container.id() == Some(id))
    }

    fn by_name(&mut self, name: &str) -> Option<&mut Container> {
        self.all().find(|container| container.spec.name == name)
    }

    fn take_in(&mut self, now: Timestamp, event: Event) {
        let back_off = self.back_off;
        match event {
            Event::Prepared(Ok(())) => self.prepare = Prepare::Done,
            Event::Prepared(Err(message)) => {
                self.prepare = Prepare::At(now + PREPARE_AGAIN);
                let first = self.init.first_mut().or_else(|| self.containers.first_mut());
                if let Some(container) = first {
                    container.explain(&message);
                }
            }
            Event::Started { container, id } => {
                if let Some(container) = self.by_name(&container) {
                    container.started(now, id);
                }
            }
            Event::NotStarted {
                container,
                reason,
                message,
            } => {
                if let Some(container) = self.by_name(&container) {
                    container.not_started(now, reason, message, back_off);
                }
            }
            Event::Exited { id, exit } => self.exited(now, &id, exit),
            Event::Probed { id, probe, result } => {
                let grace = self.grace;
                if let Some(container) = self.by_id(&id) {
                    container.probed(now, probe, &result, grace);
                }
            }
            Event::PreStopped { id } => {
                if let Some(container) = self.by_id(&id) {
                    container.pre_stopped(now, LAST_WORDS);
                }
            }
            Event::Delete { grace } => {
                self.deleted.get_or_insert(now);
                for container in self.all() {
                    container.stop(now, now + grace);
                }
                // For what is just being started.
                self.grace = grace;
            }
            Event::Gates(open) => self.gates_open = open,
            Event::Tick => {}
        }
    }

    fn exited(&mut self, now: Timestamp, id: &ContainerId, exit: Exit) {
        let deleted = self.deleted.is_some();
        let (restart, back_off) = (self.restart, self.back_off);
        let is_init = self.init.iter().any(|container| container.id() == Some(id));
        let Some(container) = self.by_id(id) else { return };
        container.ended(now, exit);
        let again = match restart {
            // An init container that succeeded has done its work.
            RestartPolicy::Always => !is_init || exit.code != 0,
            RestartPolicy::OnFailure => exit.code != 0,
            RestartPolicy::Never => false,
        };
        if again && !deleted {
            container.again(now, back_off);
        }
    }

    fn advance(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        if self.deleted.is_some() {
            let (at, grace) = (now, self.grace);
            // A start that was on its way when the deletion came.
            for container in self.all() {
                container.stop(at, at + grace);
            }
        }
        for container in self.all() {
            container.due(now, actions);
        }
        let busy = self.all().any(|container| container.is_busy());
        if self.deleted.is_some() || self.has_ended() {
            if !busy && self.prepare != Prepare::Asked && self.deleted.is_some() && !self.gone {
                self.gone = true;
                actions.push(Action::Gone);
            }
            return;
        }
        match self.prepare {
            Prepare::At(at) if at <= now => {
                self.prepare = Prepare::Asked;
                actions.push(Action::Prepare);
            }
            Prepare::At(_) | Prepare::Asked => {}
            Prepare::Done => self.start(now, actions),
        }
    }

    fn start(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        if let Some(next) = self.init.iter_mut().find(|container| !container.has_succeeded()) {
            next.start_if_due(now, actions);
            return;
        }
        for container in &mut self.containers {
            container.start_if_due(now, actions);
        }
    }

    /// Whether the pod is over without having been deleted.
    pub(super) fn has_ended(&self) -> bool {
        let failed_init = self
            .init
            .iter()
            .any(|container| matches!(&container.state, State::Ended(Ended { exit, .. }) if exit.code != 0));
        failed_init
            || self
                .containers
                .iter()
                .all(|container| matches!(container.state, State::Ended(_)))
    }

    pub(super) fn is_initialized(&self) -> bool {
        self.init.iter().all(Container::has_succeeded)
    }

    pub(super) fn containers_ready(&self) -> bool {
        !self.has_ended() && self.containers.iter().all(Container::is_ready)
    }

    /// Whether a stop is under way for a run, for tests and faults.
    pub fn stage(&self, container: &str) -> Option<Stage> {
        let mut all = self.init.iter().chain(&self.containers);
        all.find(|other| other.spec.name == container)?.stage()
    }
}
