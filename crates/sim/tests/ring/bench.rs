//! A world without surprises, and words to break it.

use mainstay_core::ring::decide;
use mainstay_core::ring::ids::HostId;
use mainstay_core::ring::ledger::Known;
use mainstay_core::ring::reason::Why;
use sim::ring::model::{Disk, Profile};
use sim::ring::world::{Aside, Broken, Config, World};
use std::time::Duration;

pub(crate) struct Bench {
    pub(crate) world: World,
    /// Everything that was noted.
    pub(crate) notes: Vec<String>,
    /// Rows written so far.
    row: u16,
}

impl Bench {
    /// A ring that was declared, and nothing else.
    pub(crate) fn declared(profile: Profile, members: u8, copies: u32) -> Self {
        Self::without(None, profile, members, copies)
    }

    /// The same, without a rule.
    pub(crate) fn without(broken: Option<Broken>, profile: Profile, members: u8, copies: u32) -> Self {
        let config = Config {
            profile,
            members,
            copies,
            tries: 3,
            broken,
        };
        Self {
            world: World::new(config, 1),
            notes: Vec::new(),
            row: 0,
        }
    }

    /// A ring that is whole, with rows in it.
    pub(crate) fn whole(profile: Profile, members: u8, copies: u32) -> Self {
        Self::declared(profile, members, copies).come_up()
    }

    /// It comes up, and clients write.
    pub(crate) fn come_up(self) -> Self {
        let (profile, mut bench) = (self.world.config.profile, self);
        assert!(
            bench.heals(40),
            "{profile:?} did not come up: {:?}",
            bench.reasons()
        );
        for _ in 0..20 {
            bench.write();
        }
        bench.pass(10);
        bench
    }

    pub(crate) fn write(&mut self) {
        self.row += 1;
        if self.world.ring.write(self.row) {
            self.world.judge.rows.insert(self.row);
        }
    }

    /// Five seconds: everything moves, the operator looks or acts.
    pub(crate) fn tick(&mut self) {
        self.time_passes();
        self.operate();
        self.notes.append(&mut self.world.notes);
        assert_eq!(self.world.judge.violation, None, "{:#?}", self.notes);
    }

    /// The same without the operator.
    pub(crate) fn time_passes(&mut self) {
        self.world.tick(Duration::from_secs(5));
        self.notes.append(&mut self.world.notes);
    }

    /// The operator carries out a whole turn.
    pub(crate) fn operate(&mut self) {
        self.world.look(0);
        let Some(mut turn) = self.world.operators[0].turn.take() else {
            return;
        };
        while let Some(step) = turn.steps.pop_front() {
            if !self.world.carry_out(&step, &mut turn.version) {
                return;
            }
        }
    }

    /// Minutes pass.
    pub(crate) fn pass(&mut self, minutes: u32) {
        for _ in 0..minutes * 12 {
            self.tick();
        }
    }

    /// Is the ring whole, within so many minutes?
    pub(crate) fn heals(&mut self, minutes: u32) -> bool {
        for _ in 0..minutes * 12 {
            self.tick();
            if self.world.is_whole() {
                self.world.judge_rows();
                assert_eq!(self.world.judge.violation, None);
                return true;
            }
        }
        false
    }

    /// What the operator would say now.
    pub(crate) fn reasons(&self) -> Vec<Why> {
        let seen = self.world.observe(0);
        let ledger = self.world.ledger.as_ref().map(|(_, l)| l);
        decide(ledger, &seen, self.world.now).reasons
    }

    pub(crate) fn says(&self, id: &str) -> bool {
        self.reasons().iter().any(|w| w.id() == id)
    }

    pub(crate) fn text(&self) -> String {
        let texts: Vec<String> = self.reasons().iter().map(ToString::to_string).collect();
        texts.join("; ")
    }

    pub(crate) fn known(&self, place: usize) -> Known {
        let member = &self.world.objects[place].member;
        self.world.ledger.as_ref().unwrap().1.known[member].clone()
    }

    pub(crate) fn hosts(&self) -> Vec<HostId> {
        self.world.ring.truth.keys().copied().collect()
    }

    pub(crate) fn grants(&self) -> u64 {
        self.world.ledger.as_ref().unwrap().1.grants.0
    }

    /// As the seed's own test does it: the claim and the pod are removed.
    pub(crate) fn remove_claim_and_pod(&mut self, place: usize) {
        let objects = &mut self.world.objects[place];
        objects.claim.as_mut().unwrap().terminating = true;
        objects.pod.as_mut().unwrap().terminating = true;
    }

    pub(crate) fn remove_pod(&mut self, place: usize) {
        self.world.objects[place].pod.as_mut().unwrap().terminating = true;
    }

    /// The folder is emptied under the same claim.
    pub(crate) fn wipe(&mut self, place: usize) {
        self.world.ring.stop(place, false);
        self.world.judge_disk_lost(place);
        self.world.ring.places[place].disk = Disk::default();
        self.world.objects[place].stamp = None;
    }

    /// Something empty is mounted instead of the disk, which is fine.
    pub(crate) fn unmount(&mut self, place: usize) {
        self.world.ring.stop(place, false);
        let disk = std::mem::take(&mut self.world.ring.places[place].disk);
        let stamp = self.world.objects[place].stamp.take();
        self.world.aside.push(Aside { place, disk, stamp });
    }

    /// The disk is mounted again.
    pub(crate) fn mount(&mut self, place: usize) {
        let at = self.world.aside.iter().position(|a| a.place == place).unwrap();
        let aside = self.world.aside.remove(at);
        self.world.ring.stop(place, false);
        self.world.ring.places[place].disk = aside.disk;
        self.world.objects[place].stamp = aside.stamp;
    }

    /// The process ends, and is not started again for so long.
    pub(crate) fn down(&mut self, place: usize, minutes: u64) {
        self.world.ring.stop(place, false);
        let later = self.world.now + Duration::from_mins(minutes);
        self.world.objects[place].pod.as_mut().unwrap().backoff = later;
    }

    /// Cuts this place off from everybody.
    pub(crate) fn cut_off(&mut self, place: usize) {
        for other in 0..self.world.objects.len() {
            if other != place {
                self.world.ring.cut.insert((place.min(other), place.max(other)));
            }
        }
    }

    pub(crate) fn noted(&self, part: &str) -> bool {
        self.notes.iter().any(|n| n.contains(part))
    }
}

/// The profiles on which a ring of three replaces a lost node by itself: all of them.
pub(crate) const ALL: [Profile; 5] = Profile::ALL;
