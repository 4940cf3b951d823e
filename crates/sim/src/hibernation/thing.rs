//! A resource of the model: something with a number of replicas, like a Deployment.

use mainstay_core::hibernation::ids::{LegId, TargetName, Version};
use mainstay_core::hibernation::observed::{Power, Resource, Skip};
use mainstay_core::time::Time;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// One resource.
#[derive(Clone, Debug)]
pub(super) struct Thing {
    pub(super) target: TargetName,
    pub(super) exists: bool,
    /// The target's selector finds it.
    pub(super) selected: bool,
    pub(super) replicas: u64,
    pub(super) version: u64,
    /// Usable, or completely down, from then on.
    pub(super) settles: Time,
    /// An operator stopped it and has not started it since.
    pub(super) slept: bool,
    /// What it may be when its cycle is closed: what people last wanted of it. More than one only if they changed
    /// their mind between the capture and the stop.
    pub(super) truth: BTreeSet<u64>,
    /// A label protects it, or another plan claims it.
    pub(super) skip: Option<Skip>,
    /// A human gave up its restore point in this leg: it may stay as it is until it is stopped in a later one.
    pub(super) given_up: Option<LegId>,
    /// The newest leg in which that happened. Nobody starts it then, so that nothing tells a stop or start that was
    /// already on its way that it comes too late; this model has such calls arrive hours later.
    pub(super) ever_given_up: Option<LegId>,
}

impl Thing {
    pub(super) fn new(target: TargetName, replicas: u64) -> Self {
        Self {
            target,
            exists: true,
            selected: true,
            replicas,
            version: 1,
            settles: Time::ZERO,
            slept: false,
            truth: [replicas].into(),
            skip: None,
            given_up: None,
            ever_given_up: None,
        }
    }

    /// What its executor sees.
    pub(super) fn seen(&self, now: Time) -> Resource {
        let power = match (self.exists, self.replicas) {
            (false, _) => Power::Gone,
            (true, 0) => Power::Down,
            (true, _) => Power::Up,
        };
        Resource {
            power,
            settled: self.settles <= now,
            state: self.state(),
            version: Some(self.version()),
            selected: self.selected && self.exists,
            skip: self.skip.clone(),
        }
    }

    pub(super) fn state(&self) -> Value {
        json!({ "replicas": self.replicas })
    }

    pub(super) fn version(&self) -> Version {
        Version(self.version.to_string())
    }

    pub(super) fn set(&mut self, replicas: u64, settles: Time) {
        self.replicas = replicas;
        self.version += 1;
        self.settles = settles;
    }

    /// A person sets it. What they do to something that sleeps does not last: the restore point is the contract.
    pub(super) fn wanted(&mut self, replicas: u64, cycle_open: bool, settles: Time) {
        self.set(replicas, settles);
        if !cycle_open {
            self.truth = [replicas].into();
        } else if !self.slept || self.given_up.is_some() {
            self.truth.insert(replicas);
        }
    }

    /// A call of this leg was on its way when a human gave the thing up.
    pub(super) fn is_overtaken(&self, leg: LegId) -> bool {
        self.ever_given_up.is_some_and(|wish| leg <= wish)
    }

    /// An operator stops it in this leg: from now on it has to come back, whoever gave it up before.
    pub(super) fn stopped(&mut self, leg: LegId, settles: Time) {
        if self.given_up.is_some_and(|wish| wish < leg) {
            self.given_up = None;
            self.truth.remove(&0);
        }
        self.slept = self.given_up.is_none();
        self.set(0, settles);
    }
}
