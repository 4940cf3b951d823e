//! A process that lives on where nobody sees it: its Node is cut off from Kubernetes, a human gave its pod and claim up by
//! force, and a new pod of the same name waits with an empty disk. Only the other members can tell that it lives.
//!
//! Such a process has a place of its own, behind those of the members.

use super::World;
use crate::ring::model::node::Mode;
use crate::ring::model::{Disk, Place};

impl World {
    /// Gives a pod up by force; the place in which its process lives on, if one did.
    pub fn give_up(&mut self, place: usize) -> Option<usize> {
        self.ring.process(place).filter(|p| p.mode == Mode::Normal)?;
        // With its claim it is given up, too: what nobody else has is lost by whoever did that.
        self.judge_disk_lost(place);
        let ghost = self.ring.places.len();
        let here = self.ring.places.get_mut(place)?;
        let gone = Place {
            disk: std::mem::take(&mut here.disk),
            process: here.process.take(),
            address: here.address,
            location: here.location.clone(),
        };
        self.ring.places.push(gone);
        for truth in self.ring.truth.values_mut().filter(|t| t.place == place) {
            truth.place = ghost;
        }
        let deaf: Vec<usize> = (0..ghost).filter(|p| !self.ring.linked(*p, place)).collect();
        self.ring.cut.extend(deaf.into_iter().map(|p| (p, ghost)));
        let objects = self.objects.get_mut(place)?;
        (objects.pod, objects.claim, objects.stamp) = (None, None, None);
        Some(ghost)
    }

    /// Is this the place of a process without a pod?
    pub fn is_ghost(&self, place: usize) -> bool {
        place >= self.objects.len()
    }

    /// Its Node is back, and ends what has no pod.
    pub fn end_ghost(&mut self, place: usize) {
        if !self.is_ghost(place) {
            return;
        }
        self.ring.stop(place, false);
        self.judge_disk_lost(place);
        if let Some(there) = self.ring.places.get_mut(place) {
            there.disk = Disk::default();
        }
    }

    /// All of them.
    pub fn end_ghosts(&mut self) {
        for place in self.objects.len()..self.ring.places.len() {
            self.end_ghost(place);
        }
    }
}
