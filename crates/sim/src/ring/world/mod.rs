//! A ring on Kubernetes: claims, pods with their gates, the ledger, the records, operators, and a judge who knows the
//! truth.

mod act;
mod ghost;
mod judge;
mod kubelet;
mod observe;

pub use judge::Judge;

use super::model::{Disk, Place, Profile, Ring};
use mainstay_core::ring::freshness::Freshness;
use mainstay_core::ring::ids::{
    Address, ClusterUid, DiskId, HostId, Location, MapUid, Member, PodUid, ServiceUid, VolumeUid,
};
use mainstay_core::ring::observed::{StoredRecord, Wishes};
use mainstay_core::ring::reason::Why;
use mainstay_core::ring::sleeping::{Running, is_seed};
use mainstay_core::ring::spec::{Declared, Managed, Spec, Timing};
use mainstay_core::ring::stamp::{Report, Stamp};
use mainstay_core::ring::{Ledger, Step};
use mainstay_core::time::Time;
use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which database.
    pub profile: Profile,
    /// How many members are declared.
    pub members: u8,
    /// How often each row is kept.
    pub copies: u32,
    /// How often a start is tried before a human is asked.
    pub tries: u32,
    /// A rule that is not there, to see whether anybody notices.
    pub broken: Option<Broken>,
}

/// A rule that a world does without. The operators and their invariants do not know: only the judge can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Check b: whoever came back empty is called down, whoever lives.
    Down,
    /// Gates use permissions of any age.
    Freshness,
}

/// A claim and what it is bound to.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Its uid.
    pub uid: VolumeUid,
    /// Being deleted.
    pub terminating: bool,
    /// Since when its Node is gone.
    pub node_gone: Option<Time>,
}

/// A pod.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its uid.
    pub uid: PodUid,
    /// Being deleted.
    pub terminating: bool,
    /// A database has run in it.
    pub ran: bool,
    /// What its gate said last, as far as the API has heard.
    pub report: Option<Report>,
    /// What it has to say once the API answers.
    pub unsaid: Option<Report>,
    /// Its container is not started before this.
    pub backoff: Time,
    /// Its database was drained: it serves nobody, and only another pod does.
    pub drained: bool,
    /// What its gate remembers of its looks at the ledger.
    pub freshness: Freshness,
    /// Where it was scheduled to.
    pub location: Location,
}

/// A data folder that is mounted nowhere.
#[derive(Clone, Debug)]
pub struct Aside {
    /// Whose it was.
    pub place: usize,
    /// What is in it.
    pub disk: Disk,
    /// The gate's file in it.
    pub stamp: Option<Stamp>,
}

/// Everything of one member.
#[derive(Clone, Debug)]
pub struct Objects {
    /// Who.
    pub member: Member,
    /// It has a place in its rack.
    pub exists: bool,
    /// Its Service.
    pub service: ServiceUid,
    /// Its claim.
    pub claim: Option<Claim>,
    /// Its pod.
    pub pod: Option<Pod>,
    /// The gate's file on the mounted disk.
    pub stamp: Option<Stamp>,
    /// Its record.
    pub record: Option<StoredRecord>,
    /// Somebody labelled its Service.
    pub label: bool,
}

/// A turn that is being carried out.
#[derive(Clone, Debug)]
pub struct Turn {
    /// When it was looked.
    pub at: Time,
    /// The version of the ledger that was read first.
    pub version: Option<u64>,
    /// What is left of the plan.
    pub steps: VecDeque<Step>,
}

/// An operator.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    /// Its turn.
    pub turn: Option<Turn>,
    /// Does nothing until then.
    pub asleep: Time,
    /// Members it does not reach.
    pub blind: BTreeSet<usize>,
    /// The reasons of its last plan.
    pub reasons: Vec<Why>,
}

/// The world.
#[derive(Clone, Debug)]
pub struct World {
    /// What it is made of.
    pub config: Config,
    /// The time.
    pub now: Time,
    /// The database.
    pub ring: Ring,
    /// Everything else, by place.
    pub objects: Vec<Objects>,
    /// Folders that are mounted nowhere.
    pub aside: Vec<Aside>,
    /// The ledger and its version.
    pub ledger: Option<(u64, Ledger)>,
    /// Members that are declared now.
    pub declared: u8,
    /// The operators.
    pub operators: Vec<Operator>,
    /// What people asked for.
    pub wishes: Wishes,
    /// Which pods there should be, as an operator last said.
    pub pods: Running,
    /// The API does not answer until then.
    pub api_away: Time,
    /// How long a start streams.
    pub stream: Duration,
    /// Draws uids.
    pub counter: u64,
    /// Knows the truth.
    pub judge: Judge,
    /// What happened in this step, for the trace.
    pub notes: Vec<String>,
}

/// The cluster that all worlds are about.
pub const CLUSTER: ClusterUid = ClusterUid(0xc1);

impl World {
    /// Nothing but a declaration.
    pub fn new(config: Config, operators: u8) -> Self {
        let ring = Ring::new(config.profile, config.copies);
        let mut world = Self {
            now: Time(1_000_000),
            ring,
            objects: Vec::new(),
            aside: Vec::new(),
            ledger: None,
            declared: config.members,
            operators: (0..operators).map(|_| Operator::default()).collect(),
            wishes: Wishes::default(),
            pods: Running::Everybody,
            api_away: Time::ZERO,
            stream: Duration::from_secs(20),
            counter: 0,
            judge: Judge::default(),
            notes: Vec::new(),
            config,
        };
        for n in 0..world.config.members {
            world.add(n);
        }
        world
    }

    fn add(&mut self, n: u8) {
        let Some((member, location)) = member(n) else {
            return;
        };
        let service = ServiceUid(u128::from(self.draw()));
        self.objects.push(Objects {
            member,
            exists: true,
            service,
            claim: None,
            pod: None,
            stamp: None,
            record: None,
            label: false,
        });
        self.ring.places.push(Place {
            disk: Disk::default(),
            process: None,
            address: Address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, n + 1))),
            location,
        });
    }

    /// A number that was not drawn before.
    pub fn draw(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(super) fn disk_id(&mut self) -> DiskId {
        DiskId(0xd_0000 + u128::from(self.draw()))
    }

    pub(super) fn map_uid(&mut self) -> MapUid {
        MapUid(u128::from(self.draw()))
    }

    /// Does the API answer?
    pub fn api_answers(&self) -> bool {
        self.now >= self.api_away
    }

    /// What the user declared.
    pub fn spec(&self) -> Spec {
        Spec {
            engine: self.config.profile.engine(),
            managed: Managed::Here,
            members: (0..self.declared)
                .filter_map(member)
                .map(|(member, location)| Declared { member, location })
                .collect(),
            automatic: true,
            accept_loss: false,
            authentication: false,
            tries: self.config.tries,
            timing: Timing {
                limit: Duration::from_mins(10),
                rest: Duration::from_secs(45),
                node_gone: Duration::from_mins(4),
                ..Timing::default()
            },
        }
    }

    /// One step of time: the database, the pods, the operators.
    pub fn tick(&mut self, step: Duration) {
        self.now = self.now + step;
        self.ring.tick(self.now);
        self.judge_truth();
        for place in 0..self.objects.len() {
            self.keep_rack(place);
            self.kubelet(place);
        }
    }

    /// The racks are as large as declared, also if a turn that began before took a place away.
    fn keep_rack(&mut self, place: usize) {
        if let Some(objects) = self.objects.get_mut(place)
            && place < usize::from(self.declared)
        {
            objects.exists = true;
        }
    }

    /// The set of this member's rack asks for its pod.
    pub(super) fn is_wanted(&self, place: usize) -> bool {
        let Some(objects) = self.objects.get(place) else {
            return false;
        };
        match self.pods {
            Running::Everybody => true,
            Running::Seeds => is_seed(&self.spec(), &objects.member),
            Running::Nobody => false,
            Running::AsTheyAre => objects.pod.is_some(),
        }
    }

    /// Everything that is declared is there, known, and in order.
    pub fn is_whole(&self) -> bool {
        let Some((_, ledger)) = &self.ledger else {
            return false;
        };
        let declared = usize::from(self.declared);
        let alone = declared == 1;
        let members = self.ring.truth.len() == declared;
        let lives = |host: &HostId| self.ring.alive(*host).is_some_and(|p| !self.is_ghost(p));
        let alive = self.ring.truth.keys().all(lives);
        let known = ledger.known.len() == declared || alone;
        let printed = || {
            self.objects.iter().filter(|o| o.exists).all(|o| {
                let wanted = ledger.known.get(&o.member).map(|k| {
                    let by = self.config.profile.engine().replace_by();
                    mainstay_core::ring::record::RecordMap::print(k, by, CLUSTER)
                });
                o.record.as_ref().map(|r| &r.map) == wanted.as_ref()
            })
        };
        let right = ledger
            .known
            .iter()
            .all(|(_, k)| self.ring.alive(k.host).is_some());
        let left = self.objects.iter().filter(|o| o.exists).count() == declared;
        let quiet = members && alive && known && right && left && ledger.work.is_none();
        quiet && self.views_agree() && printed()
    }

    fn views_agree(&self) -> bool {
        let all: BTreeSet<_> = self.ring.truth.keys().collect();
        self.ring.truth.values().all(|t| {
            let view = self.ring.process(t.place).map(|p| &p.view);
            view.is_some_and(|v| all.iter().all(|h| v.get(h).is_some_and(|e| e.is_up(self.now))))
        })
    }
}

fn member(n: u8) -> Option<(Member, Location)> {
    let rack = format!("r{}", n % 3);
    let member = format!("ring-{rack}-{n}").parse().ok()?;
    let (dc, rack) = ("dc1".parse().ok()?, rack.parse().ok()?);
    Some((member, Location { dc, rack }))
}
