//! What an operator does.

use super::{Objects, World};
use mainstay_core::ring::Step;
use mainstay_core::ring::ids::Member;
use mainstay_core::ring::observed::StoredRecord;

impl World {
    fn place_of(&self, member: &Member) -> Option<usize> {
        self.objects.iter().position(|o| o.member == *member && o.exists)
    }

    fn objects_of(&mut self, member: &Member) -> Option<&mut Objects> {
        let place = self.place_of(member)?;
        self.objects.get_mut(place)
    }

    /// Carries out one step; `false` if it was refused. `version` is that of the ledger this turn has read.
    pub fn carry_out(&mut self, step: &Step, version: &mut Option<u64>) -> bool {
        let done = self.try_step(step, version).is_some();
        let word = if done { "" } else { " (refused)" };
        self.notes.push(format!("  {step}{word}"));
        done
    }

    fn try_step(&mut self, step: &Step, version: &mut Option<u64>) -> Option<()> {
        match step {
            Step::CreateLedger(ledger) => {
                let drawn = self.draw();
                self.ledger.is_none().then_some(())?;
                self.ledger = Some((drawn, (**ledger).clone()));
                *version = Some(drawn);
            }
            Step::WriteLedger(ledger) => {
                let drawn = self.draw();
                let stored = self.ledger.as_ref().map(|(v, _)| *v);
                (stored.is_some() && stored == *version).then_some(())?;
                self.ledger = Some((drawn, (**ledger).clone()));
                *version = Some(drawn);
            }
            Step::DeleteLedger => {
                let stored = self.ledger.as_ref().map(|(v, _)| *v);
                (stored == *version).then_some(())?;
                self.ledger = None;
            }
            Step::CreateRecord { member, map, .. } => {
                let uid = self.map_uid();
                let objects = self.objects_of(member)?;
                objects.record.is_none().then_some(())?;
                let map = (**map).clone();
                objects.record = Some(StoredRecord { uid, map });
            }
            Step::DeleteRecord { member, uid } => {
                let objects = self.objects_of(member)?;
                objects.record.as_ref().filter(|r| r.uid == *uid)?;
                objects.record = None;
            }
            Step::DeletePod { member, uid } => {
                let pod = self.objects_of(member)?.pod.as_mut().filter(|p| p.uid == *uid)?;
                pod.terminating = true;
            }
            Step::DeleteClaim { member, uid } => {
                let claim = self
                    .objects_of(member)?
                    .claim
                    .as_mut()
                    .filter(|c| c.uid == *uid)?;
                claim.terminating = true;
            }
            Step::RemoveReplaceLabel { member, service } => {
                let objects = self.objects_of(member)?;
                (objects.service == *service).then_some(())?;
                objects.label = false;
            }
            Step::SetReplaceLabel { .. } => return None,
            Step::TeachSeeds { .. }
            | Step::Decommission { .. }
            | Step::Drain { .. }
            | Step::Retire { .. } => {
                return self.try_database(step);
            }
        }
        Some(())
    }

    fn try_database(&mut self, step: &Step) -> Option<()> {
        match step {
            Step::TeachSeeds { peer, seeds } => {
                let place = self.place_of(peer)?;
                let process = self.ring.places.get_mut(place)?.process.as_mut()?;
                process.seeds.clone_from(seeds);
            }
            Step::Decommission { member, host } => {
                let place = self.place_of(member)?;
                (self.ring.process(place)?.host == *host).then_some(())?;
                self.ring
                    .decommission(place, self.now, self.stream)
                    .then_some(())?;
            }
            Step::Drain {
                member,
                pod: uid,
                host,
            } => {
                let place = self.place_of(member)?;
                let process = self.ring.process(place)?;
                host.is_none_or(|host| process.host == host).then_some(())?;
                let pod = self.objects.get_mut(place)?.pod.as_mut();
                let pod = pod.filter(|p| p.uid == *uid && !p.terminating)?;
                pod.drained = true;
                self.ring.stop(place, true);
            }
            Step::Retire { member } => {
                let place = self.place_of(member)?;
                self.ring.stop(place, true);
                let objects = self.objects.get_mut(place)?;
                objects.exists = false;
                (objects.pod, objects.record, objects.label) = (None, None, false);
            }
            _ => return None,
        }
        Some(())
    }
}
