//! Pods and claims come and go; before every start the gate is asked.

use super::{Broken, CLUSTER, Claim, Pod, World};
use crate::ring::model::node::Mode;
use crate::ring::model::{Disk, Options, Stage};
use mainstay_core::ring::freshness::Freshness;
use mainstay_core::ring::gate::{Asked, Folder, Gate, Me, Start, gate};
use mainstay_core::ring::ids::{Address, PodUid, VolumeUid};
use mainstay_core::ring::sleeping::Running;
use mainstay_core::ring::stamp::{Bootstrapped, Found, Report, Stamp};
use std::time::Duration;

impl World {
    /// What Kubernetes and the node do for one member.
    pub(super) fn kubelet(&mut self, place: usize) {
        let Some(objects) = self.objects.get(place) else {
            return;
        };
        if !objects.exists || !self.api_answers() && objects.pod.is_none() {
            return;
        }
        let unwanted = !self.is_wanted(place) && self.pods != Running::AsTheyAre;
        if let (true, Some(pod)) = (
            unwanted && self.api_answers(),
            self.objects.get_mut(place).and_then(|o| o.pod.as_mut()),
        ) {
            pod.terminating = true;
        }
        self.let_go(place);
        self.come_up(place);
        self.say(place);
        let Some(objects) = self.objects.get_mut(place) else {
            return;
        };
        let node = objects.claim.is_some_and(|c| c.node_gone.is_none());
        let runs = self.ring.process(place).is_some();
        let normal = self.ring.process(place).is_some_and(|p| p.mode == Mode::Normal);
        if let Some(pod) = objects.pod.as_mut() {
            pod.ran |= normal;
            if node && !runs && !pod.terminating && !pod.drained && pod.backoff <= self.now {
                self.container(place);
            }
        }
    }

    /// What is being deleted goes.
    fn let_go(&mut self, place: usize) {
        if self
            .objects
            .get(place)
            .is_some_and(|o| o.pod.as_ref().is_some_and(|p| p.terminating))
        {
            self.ring.stop(place, true);
            if let Some(objects) = self.objects.get_mut(place) {
                objects.pod = None;
            }
        }
        let gone = self
            .objects
            .get(place)
            .is_some_and(|o| o.pod.is_none() && o.claim.is_some_and(|c| c.terminating));
        if gone {
            self.judge_disk_lost(place);
            if let Some(here) = self.ring.places.get_mut(place) {
                here.disk = Disk::default();
            }
            if let Some(objects) = self.objects.get_mut(place) {
                (objects.claim, objects.stamp) = (None, None);
            }
        }
    }

    /// What is missing comes.
    fn come_up(&mut self, place: usize) {
        let (claim, pod) = (
            VolumeUid(u128::from(self.draw())),
            PodUid(u128::from(self.draw())),
        );
        let (now, api) = (self.now, self.api_answers() && self.is_wanted(place));
        let location = self.ring.places.get(place).map(|p| p.location.clone());
        let (Some(objects), Some(location)) = (self.objects.get_mut(place), location) else {
            return;
        };
        if objects.claim.is_none() && objects.pod.is_none() && api {
            objects.claim = Some(Claim {
                uid: claim,
                terminating: false,
                node_gone: None,
            });
        }
        let ready = objects.claim.is_some_and(|c| !c.terminating);
        if objects.pod.is_none() && ready && api {
            objects.pod = Some(Pod {
                uid: pod,
                terminating: false,
                ran: false,
                report: None,
                unsaid: None,
                backoff: now,
                drained: false,
                freshness: Freshness::default(),
                location,
            });
        }
    }

    fn say(&mut self, place: usize) {
        let api = self.api_answers();
        let pod = self.objects.get_mut(place).and_then(|o| o.pod.as_mut());
        if let Some(pod) = pod.filter(|_| api)
            && let Some(report) = pod.unsaid.take()
        {
            pod.report = Some(report);
        }
    }

    /// The gate has read the ledger, or found none.
    fn read_ledger(&mut self, place: usize) {
        let now = self.now;
        let ledger = self.ledger.as_ref().map(|(_, l)| l);
        let pod = self.objects.get_mut(place).and_then(|o| o.pod.as_mut());
        if let Some(pod) = pod {
            pod.freshness.read(ledger, now);
        }
    }

    /// The container starts: first the gate.
    fn container(&mut self, place: usize) {
        let fresh = self.disk_id();
        if self.api_answers() {
            self.read_ledger(place);
        }
        let (Some(objects), Some(here)) = (self.objects.get(place), self.ring.places.get(place)) else {
            return;
        };
        let (Some(pod), Some(claim)) = (&objects.pod, objects.claim) else {
            return;
        };
        let me = Me {
            member: objects.member.clone(),
            cluster: CLUSTER,
            engine: self.config.profile.engine(),
            pod: pod.uid,
            volume: claim.uid,
            address: here.address,
            ran: pod.ran,
            fresh,
        };
        let bootstrapped = match (here.disk.stage(), here.disk.host()) {
            (Stage::Completed, Some(host)) => Bootstrapped::Completed(host),
            (Stage::InProgress, _) => Bootstrapped::InProgress,
            (Stage::Needs | Stage::Completed, _) => Bootstrapped::Never,
        };
        let folder = Folder {
            stamp: objects.stamp.clone(),
            bootstrapped,
        };
        let members: Vec<Address> = self.addresses();
        let age = match self.config.broken {
            Some(Broken::Freshness) => Some(Duration::ZERO),
            Some(Broken::Down) | None => pod.freshness.age(self.now),
        };
        let asked = if self.api_answers() {
            Asked::Answer {
                ledger: self.ledger.as_ref().map(|(_, l)| l),
                record: objects.record.as_ref().map(|r| &r.map),
                members: &members,
                age,
            }
        } else {
            Asked::NoAnswer
        };
        match gate(&me, &folder, asked) {
            Gate::Wait(wait) => self.hold(place, wait.stamp, wait.report),
            Gate::Start(start) => self.launch(place, &start),
        }
    }

    fn addresses(&self) -> Vec<Address> {
        let existing = self.objects.iter().zip(&self.ring.places);
        existing
            .filter(|(o, _)| o.exists)
            .map(|(_, p)| p.address)
            .collect()
    }

    fn hold(&mut self, place: usize, stamp: Stamp, report: Option<Report>) {
        let later = self.now + Duration::from_secs(10);
        if let Some(objects) = self.objects.get_mut(place) {
            objects.stamp = Some(stamp);
            if let Some(pod) = objects.pod.as_mut() {
                pod.backoff = later;
                pod.unsaid = report.filter(|r| pod.report != Some(*r));
            }
        }
    }

    fn launch(&mut self, place: usize, start: &Start) {
        self.judge_start(place, start);
        if start.wipe
            && let Some(here) = self.ring.places.get_mut(place)
        {
            here.disk = Disk::default();
        }
        let ran = matches!(start.report.found, Found::Started(_));
        if let Some(objects) = self.objects.get_mut(place) {
            objects.stamp = Some(start.stamp.clone());
            if let Some(pod) = objects.pod.as_mut() {
                pod.unsaid = Some(start.report);
                pod.ran |= ran;
                // The gate became the database. The next one has looked at nothing yet.
                pod.freshness = Freshness::default();
            }
        }
        let options = Options {
            seeds: start.seeds.clone(),
            replaces: start.replaces,
            stream: self.stream,
        };
        let outcome = self.ring.start(place, &options, self.now);
        // A founder is a member at once.
        let normal = self.ring.process(place).is_some_and(|p| p.mode == Mode::Normal);
        if let Some(pod) = self.objects.get_mut(place).and_then(|o| o.pod.as_mut()) {
            pod.ran |= normal;
        }
        self.judge_started(place, start, outcome.is_ok());
        let member = self.objects.get(place).map(|o| o.member.to_string());
        let member = member.unwrap_or_default();
        match outcome {
            Ok(()) => self
                .notes
                .push(format!("{member} starts: {:?}", start.report.found)),
            Err(refusal) => {
                self.notes.push(format!("{member} exits: {refusal}"));
                let later = self.now + Duration::from_secs(10);
                if let Some(pod) = self.objects.get_mut(place).and_then(|o| o.pod.as_mut()) {
                    pod.backoff = later;
                }
            }
        }
    }
}
