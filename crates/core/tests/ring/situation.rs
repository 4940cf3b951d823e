//! A whole ring of three, and words to change one thing in it.

use mainstay_core::ring::ids::{
    Address, ClusterUid, DiskId, HostId, Location, MapUid, Member, PodUid, ServiceUid, VolumeUid,
};
use mainstay_core::ring::ledger::{Known, Ledger, Phase, Task, Work};
use mainstay_core::ring::observed::{
    Answer, Claim, Keyspace, Liveness, MemberView, NodeState, Observed, Pod, Seen, StoredRecord, Wishes,
};
use mainstay_core::ring::record::RecordMap;
use mainstay_core::ring::spec::{Declared, Engine, Managed, ReplaceBy, Spec, Timing};
use mainstay_core::ring::stamp::{Found, Report};
use mainstay_core::ring::{Plan, decide, invariants};
use mainstay_core::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(crate) const NOW: Time = Time(10_000_000);
pub(crate) const CLUSTER: ClusterUid = ClusterUid(0xc1);

pub(crate) fn member(n: u8) -> Member {
    format!("ring-r{n}-0").parse().unwrap()
}

pub(crate) fn address(n: u8) -> Address {
    format!("10.0.0.{n}").parse().unwrap()
}

pub(crate) fn host(n: u8) -> HostId {
    HostId(0xa0 + u128::from(n))
}

pub(crate) fn location(n: u8) -> Location {
    Location {
        dc: "dc1".parse().unwrap(),
        rack: format!("r{n}").parse().unwrap(),
    }
}

pub(crate) fn known(n: u8) -> Known {
    Known {
        host: host(n),
        address: address(n),
        location: location(n),
        volume: Some(VolumeUid(u128::from(n))),
        disk: Some(DiskId(0xd0 + u128::from(n))),
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Situation {
    pub(crate) ledger: Ledger,
    pub(crate) seen: Observed,
}

/// Three members, each known to the others, on a version with a majority.
pub(crate) fn whole() -> Situation {
    whole_of(3)
}

/// The same with so many.
pub(crate) fn whole_of(members: u8) -> Situation {
    let engine = Engine::Scylla("2025.2".parse().unwrap());
    let mut ledger = Ledger::new(CLUSTER);
    ledger.founded = true;
    ledger.known = (0..members).map(|n| (member(n), known(n))).collect();
    let seen = Observed {
        read_at: NOW,
        cluster: CLUSTER,
        spec: Spec {
            engine,
            managed: Managed::Here,
            members: (0..members)
                .map(|n| Declared {
                    member: member(n),
                    location: location(n),
                })
                .collect(),
            automatic: true,
            accept_loss: false,
            authentication: false,
            tries: 3,
            timing: Timing::default(),
        },
        members: (0..members).map(view).collect(),
        answers: (0..members).map(|by| answer(by, members)).collect(),
        drained: BTreeSet::new(),
        wishes: Wishes::default(),
    };
    Situation { ledger, seen }
}

fn view(n: u8) -> MemberView {
    MemberView {
        member: member(n),
        service: Some(ServiceUid(u128::from(n))),
        address: Some(address(n)),
        pod: Some(Pod {
            uid: PodUid(u128::from(n)),
            ends_by: None,
            runs: true,
            location: Some(location(n)),
            report: Some(Report {
                disk: DiskId(0xd0 + u128::from(n)),
                ran: true,
                found: Found::Started(host(n)),
            }),
        }),
        claim: Some(Claim {
            uid: VolumeUid(u128::from(n)),
            node_gone_since: None,
            terminating: false,
        }),
        record: Some(StoredRecord {
            uid: MapUid(u128::from(n)),
            map: RecordMap::print(&known(n), ReplaceBy::Host, CLUSTER),
        }),
        replace_label: false,
        maintenance: false,
        waits_unbootstrapped_since: None,
        noted_host: Some(host(n)),
    }
}

fn answer(by: u8, members: u8) -> Answer {
    Answer {
        by: member(by),
        at: NOW,
        nodes: (0..members).map(normal).collect(),
        seeds: None,
        keyspaces: vec![Keyspace {
            name: "orders".parse().unwrap(),
            accounts: false,
            copies: Some(BTreeMap::from([("dc1".parse().unwrap(), 3)])),
        }],
        schema_agrees: true,
        other_schema: Vec::new(),
    }
}

fn normal(n: u8) -> Seen {
    Seen {
        host: host(n),
        address: address(n),
        liveness: Liveness::Up,
        state: NodeState::Normal,
        owner: true,
        excluded: false,
        location: Some(location(n)),
        generation: 7,
    }
}

impl Situation {
    /// Member 1 came back empty in a new pod, and the others have seen it down for long.
    pub(crate) fn lost(mut self) -> Self {
        self.report(1, Found::Empty);
        let pod = self.seen.members[1].pod.as_mut().unwrap();
        (pod.uid, pod.runs) = (PodUid(0x11), false);
        let report = pod.report.as_mut().unwrap();
        (report.disk, report.ran) = (DiskId(0xe1), false);
        self.seen.answers.retain(|a| a.by != member(1));
        self.down(1);
        self
    }

    /// All who answer have seen this one down for long.
    pub(crate) fn down(&mut self, n: u8) {
        for answer in &mut self.seen.answers {
            let node = answer.nodes.iter_mut().find(|node| node.host == host(n));
            node.unwrap().liveness = Liveness::Down(Duration::from_mins(10));
        }
    }

    /// The confirmation of its replacement began so long ago.
    pub(crate) fn confirming(mut self, ago: Duration) -> Self {
        self.ledger.work = Some(Work {
            member: member(1),
            task: Task::Replace {
                lost: known(1),
                manual: false,
            },
            phase: Phase::Confirming,
            since: NOW - ago,
            failed: 0,
        });
        self
    }

    pub(crate) fn report(&mut self, n: usize, found: Found) {
        let pod = self.seen.members[n].pod.as_mut().unwrap();
        pod.report.as_mut().unwrap().found = found;
    }

    /// How `by` sees `about`.
    pub(crate) fn node(&mut self, by: u8, about: u8) -> &mut Seen {
        let answer = self.seen.answers.iter_mut().find(|a| a.by == member(by));
        let nodes = &mut answer.unwrap().nodes;
        nodes.iter_mut().find(|n| n.host == host(about)).unwrap()
    }

    /// What is decided; it must break no invariant.
    pub(crate) fn plan(&self) -> Plan {
        let plan = decide(Some(&self.ledger), &self.seen, NOW);
        let broken = invariants::check(Some(&self.ledger), &self.seen, &plan, NOW);
        assert!(broken.is_empty(), "{broken:?}");
        plan
    }

    pub(crate) fn text(&self) -> String {
        let texts: Vec<String> = self.plan().reasons.iter().map(ToString::to_string).collect();
        texts.join("; ")
    }

    /// The permission that the plan gives, if it gives one.
    pub(crate) fn permits(&self) -> bool {
        let plan = self.plan();
        let mut written = plan.steps.iter().filter_map(mainstay_core::ring::Step::ledger);
        written.any(|l| l.work.as_ref().is_some_and(|w| w.grant().is_some()))
    }
}

/// The same, after the confirmation.
pub(crate) fn ready() -> Situation {
    whole().lost().confirming(Duration::from_mins(2))
}
