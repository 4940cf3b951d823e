//! What an operator sees.

use super::{Broken, CLUSTER, Objects, World};
use crate::ring::model::Profile;
use mainstay_core::ring::answers;
use mainstay_core::ring::ids::{HostId, Member};
use mainstay_core::ring::observed::{self, Answer, Liveness, MemberView, Observed};
use mainstay_core::ring::sleeping::running;
use mainstay_core::ring::stamp::Report;
use mainstay_core::ring::{asks, decide, invariants};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

impl World {
    /// What this operator sees now.
    pub fn observe(&self, op: usize) -> Observed {
        let mut seen = Observed {
            read_at: self.now,
            cluster: CLUSTER,
            spec: self.spec(),
            members: self.members(),
            answers: Vec::new(),
            drained: self.drained(op),
            wishes: self.wishes,
        };
        if asks(self.ledger.as_ref().map(|(_, l)| l), &seen) {
            seen.answers = (0..self.objects.len())
                .filter_map(|place| self.answer(op, place))
                .collect();
        }
        if self.config.broken == Some(Broken::Down) {
            self.bury(&mut seen);
        }
        seen
    }

    /// Whoever came back empty has been down for long, in everybody's eyes.
    fn bury(&self, seen: &mut Observed) {
        let Some((_, ledger)) = &self.ledger else {
            return;
        };
        let empty: BTreeSet<HostId> = ledger
            .known
            .iter()
            .filter(|(member, _)| seen.report(member).is_some_and(Report::waits_empty))
            .map(|(_, known)| known.host)
            .collect();
        let nodes = seen.answers.iter_mut().flat_map(|a| &mut a.nodes);
        for node in nodes.filter(|n| empty.contains(&n.host)) {
            node.liveness = Liveness::Down(Duration::from_hours(1));
        }
    }

    /// Who says that it is drained.
    fn drained(&self, op: usize) -> BTreeSet<Member> {
        let blind = self.operators.get(op).map(|o| &o.blind);
        let all = self.objects.iter().enumerate();
        all.filter(|(place, o)| {
            let reached = blind.is_some_and(|b| !b.contains(place));
            reached && o.pod.as_ref().is_some_and(|p| p.drained)
        })
        .map(|(_, o)| o.member.clone())
        .collect()
    }

    fn members(&self) -> Vec<MemberView> {
        let all = self.objects.iter().zip(&self.ring.places);
        all.filter(|(o, _)| o.exists)
            .map(|(o, place)| MemberView {
                member: o.member.clone(),
                service: Some(o.service),
                address: Some(place.address),
                pod: o.pod.as_ref().map(|p| observed::Pod {
                    uid: p.uid,
                    ends_by: p.terminating.then_some(self.now),
                    runs: place.process.is_some(),
                    location: Some(p.location.clone()),
                    report: p.report,
                }),
                claim: o.claim.map(|c| observed::Claim {
                    uid: c.uid,
                    node_gone_since: c.node_gone,
                    terminating: c.terminating,
                }),
                record: o.record.clone(),
                replace_label: o.label,
                maintenance: false,
                waits_unbootstrapped_since: None,
                noted_host: None,
            })
            .collect()
    }

    fn answer(&self, op: usize, place: usize) -> Option<Answer> {
        let Objects { member, .. } = self.objects.get(place)?;
        if self.operators.get(op)?.blind.contains(&place) {
            return None;
        }
        let (by, now) = (member.clone(), self.now);
        if self.config.profile == Profile::Cassandra5 {
            let replies = self.ring.cassandra_replies(place, now)?;
            return Some(answers::cassandra(by, now, &replies));
        }
        let replies = self.ring.scylla_replies(place, now)?;
        Some(answers::scylla(by, now, &replies))
    }

    /// An operator looks, decides, and is judged. It acts later.
    pub fn look(&mut self, op: usize) {
        let ours = self
            .ledger
            .as_ref()
            .map(|(_, l)| l)
            .filter(|l| l.cluster == CLUSTER);
        self.pods = running(ours, &self.wishes);
        let seen = self.observe(op);
        let ledger = self.ledger.as_ref().map(|(_, l)| l);
        let plan = decide(ledger, &seen, self.now);
        let broken = invariants::check(ledger, &seen, &plan, self.now);
        if let Some(violation) = broken.first() {
            self.judge.violate(format!("operator {op}: {violation}"));
        }
        // What is done is decided twice; what is not done is looked at again in a moment anyway.
        if !plan.steps.is_empty() && decide(ledger, &seen, self.now) != plan {
            self.judge
                .violate("the same turn was decided twice, differently".to_owned());
        }
        let version = self.ledger.as_ref().map(|(v, _)| *v);
        let Some(operator) = self.operators.get_mut(op) else {
            return;
        };
        if operator.reasons != plan.reasons {
            for why in &plan.reasons {
                self.notes.push(format!("operator {op}: {why}"));
            }
            for finding in plan.findings.iter().filter(|f| !f.holds()) {
                self.notes.push(format!("operator {op}:   {finding}"));
            }
        }
        operator.reasons = plan.reasons;
        if !plan.steps.is_empty() {
            operator.turn = Some(super::Turn {
                at: self.now,
                version,
                steps: VecDeque::from(plan.steps),
            });
        }
    }
}
