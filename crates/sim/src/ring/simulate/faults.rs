//! What goes wrong, and when it is right again.

use super::Simulation;
use crate::ring::model::{Disk, Stage};
use crate::ring::world::Aside;
use mainstay_core::time::Time;
use std::time::Duration;

/// The end of a fault.
#[derive(Clone, Copy, Debug)]
pub(super) enum Restore {
    /// These two places reach each other again.
    Link(usize, usize),
    /// The Node of this place is back.
    Node(usize),
    /// The folder that was taken away is mounted again, in the place of whatever is there.
    Mount(usize),
    /// This operator reaches this place again.
    Sight(usize, usize),
    /// The Node of this process without a pod is back.
    Ghost(usize),
    /// The disks of these two are mounted as they should be.
    Exchange(usize, usize),
    /// What people asked for is over.
    Wishes,
    /// The member that was taken away is declared again.
    Declare,
}

impl Simulation {
    fn later(&mut self, seconds: std::ops::Range<u64>, restore: Restore) {
        let delay = Duration::from_secs(self.chance.between(seconds));
        self.restores.push((self.world.now + delay, restore));
    }

    fn victim(&mut self) -> usize {
        usize::from(self.chance.pick(self.world.config.members))
    }

    /// One fault, and the next one is planned. Often two come together.
    pub(super) fn fault(&mut self) {
        let pause = if self.chance.one_in(4) { 1..20 } else { 120..700 };
        self.next_fault = self.world.now + Duration::from_secs(self.chance.between(pause));
        self.faults += 1;
        let place = self.victim();
        match self.chance.below(100) {
            0..=12 => self.crash(place, false),
            13..=17 => self.give_up(place),
            18..=23 => self.crash(place, true),
            24..=33 => self.wipe(place),
            34..=35 => self.damage(place),
            36..=42 => self.wrong_mount(place),
            43..=44 => self.swap(place),
            45..=50 => self.delete_claim(place),
            51..=58 => self.cut(place),
            59..=65 => self.lose_node(place),
            66..=72 => self.api_away(),
            73..=79 => self.operator_trouble(place),
            80..=83 => self.restart_everything(),
            84..=88 => self.delete_pod(place),
            89..=91 => self.wish(),
            92..=93 => self.label(place),
            94..=95 => self.scale(),
            96 => self.forge_record(place),
            97 => self.remove_node(place),
            98 => self.lose_ledger(),
            _ => self.lose_two(place),
        }
    }

    fn crash(&mut self, place: usize, goodbye: bool) {
        self.note(&format!("fault: the process in {place} ends"));
        self.world.ring.stop(place, goodbye);
        let later = self.world.now + Duration::from_secs(self.chance.between(5..240));
        if let Some(pod) = self.world.objects.get_mut(place).and_then(|o| o.pod.as_mut()) {
            pod.backoff = later;
        }
    }

    /// The folder is empty; sometimes only the database's part of it.
    fn wipe(&mut self, place: usize) {
        self.note(&format!("fault: the disk in {place} is wiped"));
        self.world.ring.stop(place, false);
        self.world.judge_disk_lost(place);
        if let Some(here) = self.world.ring.places.get_mut(place) {
            here.disk = Disk::default();
        }
        let keeps = self.chance.one_in(4);
        if let Some(objects) = self.world.objects.get_mut(place)
            && !keeps
        {
            objects.stamp = None;
        }
    }

    /// Something empty is mounted instead; the disk is fine and may come back.
    fn wrong_mount(&mut self, place: usize) {
        self.note(&format!("fault: another disk is mounted in {place}"));
        self.world.ring.stop(place, false);
        self.world.judge_disk_lost(place);
        let taken = self.world.ring.places.get_mut(place);
        let disk = taken.map(|p| std::mem::take(&mut p.disk)).unwrap_or_default();
        let stamp = self.world.objects.get_mut(place).and_then(|o| o.stamp.take());
        self.world.aside.push(Aside { place, disk, stamp });
        if self.chance.one_in(2) {
            self.later(20..900, Restore::Mount(place));
        }
    }

    fn mount_again(&mut self, place: usize) {
        let Some(at) = self.world.aside.iter().position(|a| a.place == place) else {
            return;
        };
        self.note(&format!("fault: the old disk of {place} is mounted again"));
        self.world.ring.stop(place, false);
        self.world.judge_disk_lost(place);
        let old = self.world.aside.remove(at);
        let disk = self
            .world
            .ring
            .places
            .get_mut(place)
            .map(|p| std::mem::replace(&mut p.disk, old.disk));
        let stamp = self
            .world
            .objects
            .get_mut(place)
            .map(|o| std::mem::replace(&mut o.stamp, old.stamp));
        if let (Some(disk), Some(stamp)) = (disk, stamp) {
            self.world.aside.push(Aside { place, disk, stamp });
        }
    }

    /// A human gives a pod up by force, and its process lives on; often its Node is cut off from the others as well.
    fn give_up(&mut self, place: usize) {
        let Some(ghost) = self.world.give_up(place) else {
            return;
        };
        self.note(&format!(
            "fault: the pod of {place} is given up by force, its process lives on in {ghost}"
        ));
        if self.chance.one_in(2) {
            for other in 0..self.world.objects.len() {
                self.world.ring.cut.insert((other, ghost));
                self.later(100..500, Restore::Link(other, ghost));
            }
        }
        self.later(60..1200, Restore::Ghost(ghost));
    }

    /// The table that says whether a disk is bootstrapped is broken. What else is on it is whole.
    fn damage(&mut self, place: usize) {
        let objects = self.world.objects.get(place);
        let disk = objects.and_then(|o| Some((&o.member, o.stamp.as_ref()?.disk)));
        let ledger = self.world.ledger.as_ref().map(|(_, l)| l);
        let recorded =
            disk.is_some_and(|(m, d)| ledger.is_some_and(|l| l.known.get(m).and_then(|k| k.disk) == Some(d)));
        let begun = self.chance.one_in(2);
        let local = self
            .world
            .ring
            .places
            .get_mut(place)
            .and_then(|p| p.disk.local.as_mut());
        if let Some(local) = local.filter(|l| recorded && l.stage == Stage::Completed) {
            local.stage = if begun { Stage::InProgress } else { Stage::Needs };
            self.note(&format!("fault: a table of {place} is broken"));
            self.world.ring.stop(place, false);
        }
    }

    /// The disks of two members are mounted the wrong way round; often somebody notices.
    fn swap(&mut self, place: usize) {
        let other = self.victim();
        if other == place {
            return;
        }
        self.exchange(place, other);
        if self.chance.one_in(2) {
            self.later(60..900, Restore::Exchange(place, other));
        }
    }

    fn exchange(&mut self, a: usize, b: usize) {
        self.note(&format!("fault: the disks of {a} and {b} are exchanged"));
        self.world.ring.stop(a, false);
        self.world.ring.stop(b, false);
        let (first, last) = (a.min(b), a.max(b));
        if let Some((head, tail)) = self.world.ring.places.split_at_mut_checked(last)
            && let (Some(one), Some(two)) = (head.get_mut(first), tail.first_mut())
        {
            std::mem::swap(&mut one.disk, &mut two.disk);
        }
        if let Some((head, tail)) = self.world.objects.split_at_mut_checked(last)
            && let (Some(one), Some(two)) = (head.get_mut(first), tail.first_mut())
        {
            std::mem::swap(&mut one.stamp, &mut two.stamp);
        }
        for truth in self.world.ring.truth.values_mut() {
            truth.place = match truth.place {
                p if p == a => b,
                p if p == b => a,
                p => p,
            };
        }
    }

    /// As the seed's own test does it.
    fn delete_claim(&mut self, place: usize) {
        self.note(&format!("fault: claim and pod of {place} are deleted"));
        if let Some(objects) = self.world.objects.get_mut(place) {
            if let Some(claim) = objects.claim.as_mut() {
                claim.terminating = true;
            }
            if let Some(pod) = objects.pod.as_mut() {
                pod.terminating = true;
            }
        }
    }

    fn delete_pod(&mut self, place: usize) {
        self.note(&format!("fault: the pod of {place} is deleted"));
        if let Some(pod) = self.world.objects.get_mut(place).and_then(|o| o.pod.as_mut()) {
            pod.terminating = true;
        }
    }

    /// One place is cut off from some of the others, or from all.
    fn cut(&mut self, place: usize) {
        let all = self.chance.one_in(3);
        for other in 0..self.world.objects.len() {
            if other == place || !(all || self.chance.one_in(2)) {
                continue;
            }
            self.note(&format!("fault: {place} and {other} do not reach each other"));
            self.world.ring.cut.insert((place.min(other), place.max(other)));
            self.later(10..400, Restore::Link(place, other));
        }
    }

    fn lose_node(&mut self, place: usize) {
        let now = self.world.now;
        let Some(claim) = self.world.objects.get_mut(place).and_then(|o| o.claim.as_mut()) else {
            return;
        };
        if claim.node_gone.is_some() {
            return;
        }
        claim.node_gone = Some(now);
        self.note(&format!("fault: the Node of {place} is gone"));
        self.world.ring.stop(place, false);
        self.world.judge_disk_lost(place);
        if self.chance.one_in(2) {
            self.later(20..700, Restore::Node(place));
        }
    }

    fn lose_two(&mut self, place: usize) {
        let other = self.victim();
        self.wipe(place);
        self.wipe(other);
    }

    fn api_away(&mut self) {
        self.note("fault: the API does not answer");
        self.world.api_away = self.world.now + Duration::from_secs(self.chance.between(5..180));
    }

    fn operator_trouble(&mut self, place: usize) {
        let op = usize::from(self.chance.pick(2));
        let blind = self.chance.one_in(2);
        let until = self.world.now + Duration::from_secs(self.chance.between(5..200));
        if let Some(operator) = self.world.operators.get_mut(op) {
            if blind {
                operator.blind.insert(place);
            } else {
                // Paused in the middle of its turn: it goes on later with what it saw.
                operator.asleep = until;
            }
        }
        if blind {
            self.later(10..300, Restore::Sight(op, place));
        }
        self.note(&format!(
            "fault: operator {op} is paused or does not reach {place}"
        ));
    }

    fn restart_everything(&mut self) {
        self.note("fault: everything restarts");
        let goodbye = self.chance.one_in(2);
        for place in 0..self.world.objects.len() {
            self.world.ring.stop(place, goodbye);
        }
        for operator in &mut self.world.operators {
            operator.turn = None;
        }
    }

    fn wish(&mut self) {
        match self.chance.below(3) {
            0 => self.world.wishes.hibernated = true,
            1 => self.world.wishes.rollout = true,
            _ => self.world.wishes.paused_until = Some(self.world.now + Duration::from_mins(2)),
        }
        self.note("fault: a human wants sleep, a rollout or a pause");
        self.later(30..200, Restore::Wishes);
    }

    fn label(&mut self, place: usize) {
        self.note(&format!("fault: a human labels {place}"));
        if let Some(objects) = self.world.objects.get_mut(place) {
            objects.label = true;
        }
    }

    /// One member fewer, and later one more.
    fn scale(&mut self) {
        if self.world.declared == self.world.config.members && self.world.declared > 1 {
            self.note("fault: a human declares one member fewer");
            self.world.declared -= 1;
            self.later(100..600, Restore::Declare);
        }
    }

    /// Somebody writes a record of their own.
    fn forge_record(&mut self, place: usize) {
        let from = self.world.objects.first().and_then(|o| o.record.clone());
        let uid = self.world.draw();
        if let (Some(mut record), Some(objects)) = (from, self.world.objects.get_mut(place)) {
            record.uid = mainstay_core::ring::ids::MapUid(u128::from(uid));
            objects.record = Some(record);
            self.note(&format!("fault: somebody forges the record of {place}"));
        }
    }

    fn remove_node(&mut self, place: usize) {
        let host = self.world.ring.truth.iter().find(|(_, t)| t.place == place);
        let Some(host) = host.map(|(h, _)| *h) else {
            return;
        };
        let before = self.world.ring.clone();
        if self.world.ring.remove_node(host) {
            // Rows that only its disk has are given up by whoever removes it.
            let after = std::mem::replace(&mut self.world.ring, before);
            self.world.judge_disk_lost(place);
            self.world.ring = after;
            self.world.judge.removed.insert(host);
            self.note(&format!("fault: a human removes the dead node of {place}"));
        }
    }

    /// Somebody deletes the ledger. Only while everybody is there: otherwise it is a human's own decision about data.
    fn lose_ledger(&mut self) {
        if self.world.is_whole() && self.world.declared > 1 {
            self.note("fault: somebody deletes the ledger");
            self.world.ledger = None;
        }
    }

    /// What is over is put right.
    pub(super) fn restore(&mut self) {
        let now = self.world.now;
        let due: Vec<Restore> = self
            .restores
            .iter()
            .filter(|(at, _)| *at <= now)
            .map(|(_, r)| *r)
            .collect();
        self.restores.retain(|(at, _)| *at > now);
        for restore in due {
            self.put_right(restore);
        }
    }

    fn put_right(&mut self, restore: Restore) {
        match restore {
            Restore::Link(a, b) => {
                self.world.ring.cut.remove(&(a.min(b), a.max(b)));
            }
            Restore::Node(place) => {
                let claim = self.world.objects.get_mut(place).and_then(|o| o.claim.as_mut());
                if let Some(claim) = claim.filter(|c| !c.terminating) {
                    claim.node_gone = None;
                }
            }
            Restore::Mount(place) => self.mount_again(place),
            Restore::Sight(op, place) => {
                if let Some(operator) = self.world.operators.get_mut(op) {
                    operator.blind.remove(&place);
                }
            }
            Restore::Ghost(place) => self.world.end_ghost(place),
            Restore::Exchange(a, b) => self.exchange(a, b),
            Restore::Wishes => self.world.wishes = mainstay_core::ring::observed::Wishes::default(),
            Restore::Declare => self.world.declared = self.world.config.members,
        }
    }

    /// From here on nothing new goes wrong, and what can be repaired by waiting is repaired. Disks that are gone stay
    /// gone.
    pub(super) fn stop_faults(&mut self) {
        self.healing = true;
        self.note("no more faults");
        self.world.ring.cut.clear();
        self.world.api_away = Time::ZERO;
        self.world.aside.clear();
        self.world.end_ghosts();
        for operator in &mut self.world.operators {
            operator.asleep = Time::ZERO;
            operator.blind.clear();
        }
        let rest = std::mem::take(&mut self.restores);
        for (_, restore) in rest {
            if !matches!(restore, Restore::Mount(_) | Restore::Exchange(..)) {
                self.put_right(restore);
            }
        }
        self.world.wishes = mainstay_core::ring::observed::Wishes::default();
        self.put_right(Restore::Declare);
    }
}
