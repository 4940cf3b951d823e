//! The questions that every decision asks of what was observed.

use super::ids::{Address, HostId, Member};
use super::ledger::{Known, Ledger};
use super::observed::{Answer, Liveness, MemberView, Observed, Pod, Seen};
use super::spec::Spec;
use crate::time::Time;
use std::collections::BTreeSet;

/// What a decision looks at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What was known.
    pub ledger: &'a Ledger,
    /// What was seen.
    pub seen: &'a Observed,
    /// When it is decided.
    pub now: Time,
}

impl<'a> View<'a> {
    /// What the user declared.
    pub fn spec(&self) -> &'a Spec {
        &self.seen.spec
    }

    /// The answers that count about this member: fresh, from other members, and from nodes that still are who they were.
    /// A node that founded a ring of its own does not list the node it was.
    pub fn witnesses(&self, about: &Member) -> Vec<&'a Answer> {
        let counts = |answer: &&Answer| {
            let known = self.ledger.known.get(&answer.by);
            let itself = known.is_none_or(|k| answer.node(k.host).is_some());
            let declared = known.is_some() || self.spec().declared(&answer.by).is_some();
            answer.at >= self.seen.read_at && answer.by != *about && itself && declared
        };
        self.seen.answers.iter().filter(counts).collect()
    }

    /// Every node of the ring: on record, or listed by one of these members as an owner of tokens.
    pub fn ring(&self, witnesses: &[&Answer]) -> BTreeSet<HostId> {
        let listed = witnesses
            .iter()
            .flat_map(|a| &a.nodes)
            .filter(|n| n.owner && n.counts())
            .map(|n| n.host);
        self.ledger.known.values().map(|k| k.host).chain(listed).collect()
    }

    /// The member that this host id belongs to, by record, or by the address at which it is seen.
    pub fn member_of(&self, host: HostId, address: Address) -> Option<&'a Member> {
        let by_address = || {
            let at = |m: &&MemberView| m.address == Some(address);
            self.seen.members.iter().find(at).map(|m| &m.member)
        };
        self.ledger.owner_of(host).or_else(by_address)
    }

    /// Has this member lost what was on its disk? Its gate holds an empty one, or the Node of its volume is gone.
    pub fn is_lost(&self, member: &Member) -> bool {
        let report = self.seen.report(member);
        report.is_some_and(|r| !r.found.runs()) || self.node_is_gone(member)
    }

    /// Does its pod run, and stay?
    pub fn runs(&self, member: &Member) -> bool {
        let pod = self.seen.member(member).and_then(|m| m.pod.as_ref());
        pod.is_some_and(Pod::stays)
    }

    /// The Node that holds this member's volume has been gone for long enough.
    pub fn node_is_gone(&self, member: &Member) -> bool {
        let claim = self.seen.member(member).and_then(|m| m.claim);
        let since = claim.and_then(|c| c.node_gone_since);
        // At night Nodes go as well: what counts is how long one has been gone since the ring was woken.
        let since = since.map(|since| self.ledger.woken().map_or(since, |woken| woken.max(since)));
        since.is_some_and(|since| self.now.since(since) >= self.spec().timing.node_gone)
    }

    /// How many nodes of the datacenter are lost, this one included. Counted from what is on record, not from what the
    /// database refuses: that refusal disappears when two are replaced at once. Whoever a human declared dead counts,
    /// also if nothing is known of its disk: nobody streams from it. So does one that waits at a barrier before its
    /// start, for however short a time.
    pub fn lost_in(&self, lost: &Known, about: &Member, witnesses: &[&Answer]) -> u32 {
        let dc = &lost.location.dc;
        let gone = |(member, known): &(&Member, &Known)| {
            known.location.dc == *dc && (self.is_lost(member) || self.waits(member))
        };
        let on_record = self.ledger.known.iter().filter(|(member, _)| *member != about);
        let gone = on_record.filter(gone).map(|(_, known)| known.host);
        let here = |n: &&Seen| n.location.as_ref().is_none_or(|l| l.dc == *dc);
        let nodes = witnesses.iter().flat_map(|a| &a.nodes);
        let dead = nodes.filter(|n| n.excluded && n.counts()).filter(here);
        let mut others: BTreeSet<HostId> = gone.chain(dead.map(|n| n.host)).collect();
        others.remove(&lost.host);
        u32::try_from(others.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Where scylla-operator runs it: does it wait before its start?
    fn waits(&self, member: &Member) -> bool {
        let view = self.seen.member(member);
        view.is_some_and(|m| m.waits_unbootstrapped_since.is_some())
    }

    /// The addresses at which every one of these members sees a normal, living node.
    pub fn live_addresses(&self, witnesses: &[&Answer]) -> Vec<Address> {
        let Some((first, rest)) = witnesses.split_first() else {
            return Vec::new();
        };
        let alive = |a: &Answer, host: HostId| {
            a.node(host)
                .is_some_and(|n| n.is_normal() && n.liveness == Liveness::Up)
        };
        let mut addresses: Vec<Address> = first
            .nodes
            .iter()
            .filter(|n| alive(first, n.host) && rest.iter().all(|a| alive(a, n.host)))
            .map(|n| n.address)
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }
}
