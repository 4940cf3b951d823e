//! What an operator sees of time.

use crate::memgraph::instance::{Shown, Status};
use crate::memgraph::world::{Config, Lens, State};
use mainstay_core::memgraph::ids::ProcessId;
use mainstay_core::memgraph::observed::Contact;
use mainstay_core::memgraph::plan::Step;
use mainstay_core::time::Time;
use std::time::Duration;

/// Since when a registration has had its status.
#[derive(Clone, Copy, Debug)]
struct Stood {
    main: u8,
    run: u8,
    name: u32,
    status: Option<Status>,
    since: Time,
}

/// Virtual time, and everything that depends on it.
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) now: Time,
    pub(super) turn: u64,
    /// Whose eyes the world is seen through.
    pub(super) observer: u8,
    /// Since when an operator does not reach a pod.
    silent: Vec<Vec<Option<Time>>>,
    /// Pods that Kubernetes has lost sight of.
    unreported: Vec<bool>,
    stood: Vec<Stood>,
    heard: Vec<Option<(Time, ProcessId)>>,
}

impl Clock {
    pub(super) fn new(config: &Config) -> Self {
        let pods = usize::from(config.pods);
        Self {
            now: Time::ZERO,
            turn: 0,
            observer: 0,
            silent: vec![vec![None; pods]; usize::from(config.operators)],
            unreported: vec![false; pods],
            stood: Vec::new(),
            heard: vec![None; usize::from(config.gateways)],
        }
    }

    /// Notes which registrations have another status than before.
    pub(super) fn follow(&mut self, state: &State) {
        let now = self.now;
        let mut kept = Vec::with_capacity(self.stood.len());
        for (pod, main) in state.pods.iter().zip(0_u8..).filter(|(p, _)| p.alive) {
            for r in pod.db.registrations() {
                let status = r.is_attached().then(|| r.status());
                let (run, name) = (pod.run, r.name().0);
                let known = self
                    .stood
                    .iter()
                    .find(|s| (s.main, s.run, s.name, s.status) == (main, run, name, status));
                kept.push(known.copied().unwrap_or(Stood {
                    main,
                    run,
                    name,
                    status,
                    since: now,
                }));
            }
        }
        self.stood = kept;
    }

    pub(super) fn lose_contact(&mut self, op: u8, pod: u8, lost: bool) {
        let since = self.now;
        if let Some(entry) = self
            .silent
            .get_mut(usize::from(op))
            .and_then(|p| p.get_mut(usize::from(pod)))
        {
            *entry = lost.then(|| entry.unwrap_or(since));
        }
    }

    pub(super) fn lose_report(&mut self, pod: u8, lost: bool) {
        if let Some(entry) = self.unreported.get_mut(usize::from(pod)) {
            *entry = lost;
        }
    }

    pub(super) fn heal(&mut self) {
        self.silent.iter_mut().flatten().for_each(|s| *s = None);
        self.unreported.iter_mut().for_each(|u| *u = false);
    }

    /// A gateway had an answer from this pod.
    pub(super) fn heard(&mut self, gateway: u8, state: &State, pod: u8) {
        let answers = state
            .pod(pod)
            .filter(|p| p.alive)
            .map(|p| (self.now, p.process(pod)));
        if let (Some(entry), Some(heard)) = (self.heard.get_mut(usize::from(gateway)), answers) {
            *entry = Some(heard);
        }
    }

    /// Does the operator reach what this step talks to?
    pub(super) fn reaches(&self, op: u8, step: Option<&Step>) -> bool {
        let pod = match step {
            Some(Step::Demote(t) | Step::Promote(t) | Step::RunOnPromotion(t)) => t.pod,
            Some(
                Step::AdvanceMark { on, .. }
                | Step::Register { on, .. }
                | Step::Drop { on, .. }
                | Step::WriteProof { on, .. }
                | Step::ReadProof { on, .. },
            ) => on.pod,
            Some(Step::WriteMarker { target, .. }) => target.pod,
            _ => return true,
        };
        self.silent_since(op, pod.0).is_none()
    }

    fn silent_since(&self, op: u8, pod: u8) -> Option<Time> {
        *self.silent.get(usize::from(op))?.get(usize::from(pod))?
    }
}

impl Lens for Clock {
    fn now(&self) -> Time {
        self.now
    }

    fn contact(&self, pod: u8) -> Option<Contact> {
        let hidden = self.unreported.get(usize::from(pod)).copied().unwrap_or(false);
        let since = self
            .silent_since(self.observer, pod)
            .or_else(|| hidden.then_some(Time::ZERO))?;
        let probes = self.now.since(since).as_millis() / 500;
        Some(Contact::Silent {
            probes: u32::try_from(probes).unwrap_or(u32::MAX),
            since,
        })
    }

    fn reported(&self, pod: u8) -> bool {
        !self.unreported.get(usize::from(pod)).copied().unwrap_or(false)
    }

    fn since(&self, main: u8, shown: &Shown, _stuck: bool) -> Time {
        let known = self
            .stood
            .iter()
            .find(|s| s.main == main && s.name == shown.name.0);
        known.map_or(self.now, |s| s.since)
    }

    fn heard(&self, gateway: u8) -> Option<(Time, ProcessId)> {
        let recent = |(at, _): &(Time, ProcessId)| self.now.since(*at) < Duration::from_secs(10);
        self.heard
            .get(usize::from(gateway))
            .copied()
            .flatten()
            .filter(recent)
    }

    fn turn(&self) -> u64 {
        self.turn
    }
}
