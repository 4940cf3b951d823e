//! What the invariants read of the observations, read again and independently of what decides.

use crate::ring::ids::{Address, HostId, Member, Name};
use crate::ring::ledger::{Known, Ledger};
use crate::ring::observed::{Answer, Liveness, NodeState, Observed};
use crate::ring::stamp::{Found, Report};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// What a plan was decided on.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) ledger: Option<&'a Ledger>,
    pub(super) seen: &'a Observed,
    pub(super) now: Time,
}

impl<'a> Facts<'a> {
    /// Fresh answers of other members.
    pub(super) fn others(self, member: &Member) -> impl Iterator<Item = &'a Answer> {
        let member = member.clone();
        let read_at = self.seen.read_at;
        self.seen
            .answers
            .iter()
            .filter(move |a| a.at >= read_at && a.by != member)
    }

    /// The same of those that count: on record and still who they are, or declared. One that has left says old things.
    pub(super) fn members_among_others(self, member: &Member) -> impl Iterator<Item = &'a Answer> {
        self.others(member).filter(move |a| {
            let known = self.ledger.and_then(|l| l.known.get(&a.by));
            let declared = self.seen.spec.members.iter().any(|d| d.member == a.by);
            known.map_or(declared, |k| a.nodes.iter().any(|n| n.host == k.host))
        })
    }

    /// What the gate of this member says, and the pod is not on its way out.
    pub(super) fn report(self, member: &Member) -> Option<&'a Report> {
        let view = self.seen.members.iter().find(|m| m.member == *member)?;
        let pod = view.pod.as_ref()?;
        let away = view.claim.is_some_and(|c| c.node_gone_since.is_some());
        if pod.ends_by.is_some() || away {
            None
        } else {
            pod.report.as_ref()
        }
    }

    /// It waits before its start with a disk that is not bootstrapped.
    pub(super) fn waits(self, member: &Member) -> bool {
        let report = self.report(member);
        report.is_some_and(|r| matches!(r.found, Found::Empty | Found::Unfinished(_)))
    }

    /// Others answered, enough of them, and all have seen this host down for the grace period.
    pub(super) fn is_dead(self, member: &Member, host: HostId) -> bool {
        let grace = self.seen.spec.timing.grace;
        let dead = |a: &Answer| {
            let node = a.nodes.iter().find(|n| n.host == host);
            node.is_some_and(|n| matches!(n.liveness, Liveness::Down(time) if time >= grace))
        };
        let known = self.ledger.map_or(0, |l| l.known.len());
        let enough = self.seen.spec.engine.witnesses(known).max(1);
        self.others(member).count() >= enough && self.others(member).all(dead)
    }

    /// No other node is seen alive in this host's stead or beside it.
    pub(super) fn nobody_at(self, member: &Member, address: Address, except: HostId) -> bool {
        let other = |a: &Answer| {
            a.nodes
                .iter()
                .any(|n| n.address == address && n.host != except && n.state != NodeState::Left)
        };
        !self.others(member).any(other)
    }

    /// Nobody but this host is in the middle of something.
    pub(super) fn is_quiet(self, member: &Member, except: Option<HostId>) -> bool {
        let busy = |a: &Answer| {
            a.nodes.iter().any(|n| {
                let moving = match n.state {
                    NodeState::Normal | NodeState::Left => false,
                    NodeState::Unknown => !n.owner,
                    NodeState::Joining | NodeState::Replacing | NodeState::Leaving | NodeState::Moving => {
                        true
                    }
                };
                moving && Some(n.host) != except
            })
        };
        !self.others(member).any(busy)
    }

    /// Another member sees this host, normal, at this address.
    pub(super) fn seen_normal(self, member: &Member, known: &Known) -> bool {
        self.others(member).any(|a| {
            a.nodes.iter().any(|n| {
                let normal = n.owner && matches!(n.state, NodeState::Normal | NodeState::Unknown);
                normal && n.host == known.host && n.address == known.address
            })
        })
    }

    /// The Node of its volume has been gone for long enough.
    pub(super) fn node_gone(self, member: &Member) -> bool {
        let view = self.seen.members.iter().find(|m| m.member == *member);
        let since = view.and_then(|m| m.claim).and_then(|c| c.node_gone_since);
        let woken = self.ledger.and_then(|l| l.sleep).map(|s| s.since);
        let long = |since: Time| self.now.since(since) >= self.seen.spec.timing.node_gone;
        since.is_some_and(long) && woken.is_none_or(long)
    }

    /// A human put the label on it.
    pub(super) fn labelled(self, member: &Member) -> bool {
        let mut views = self.seen.members.iter();
        views.any(|m| m.member == *member && m.replace_label)
    }

    /// Every keyspace has more copies in this datacenter than members of it are lost.
    pub(super) fn has_copies(self, member: &Member, lost: &Known) -> bool {
        let spec = &self.seen.spec;
        let dc = &lost.location.dc;
        let mut gone: BTreeSet<HostId> = BTreeSet::from([lost.host]);
        if let Some(ledger) = self.ledger {
            let there = ledger.known.iter().filter(|(_, k)| k.location.dc == *dc);
            gone.extend(there.filter(|(m, _)| self.is_lost(m)).map(|(_, k)| k.host));
        }
        for node in self.others(member).flat_map(|a| &a.nodes) {
            let elsewhere = node.location.as_ref().is_some_and(|l| l.dc != *dc);
            if node.excluded && node.state != NodeState::Left && !elsewhere {
                gone.insert(node.host);
            }
        }
        let gone = gone.len();
        let mut keyspaces = self.others(member).flat_map(|a| &a.keyspaces);
        spec.accept_loss
            || keyspaces.all(|k| {
                let counts = !k.accounts || spec.authentication;
                let enough = |copies: &BTreeMap<Name, u32>| {
                    let here = copies.get(dc).copied();
                    here.is_none_or(|c| usize::try_from(c).is_ok_and(|c| c > gone))
                };
                !counts || k.copies.as_ref().is_some_and(enough)
            })
    }

    /// Its gate does not let it run, its Node is gone, or it waits at the barrier of scylla-operator.
    fn is_lost(self, member: &Member) -> bool {
        let mut views = self.seen.members.iter();
        let waits = views.any(|m| m.member == *member && m.waits_unbootstrapped_since.is_some());
        waits || self.node_gone(member) || self.report(member).is_some_and(|r| !r.found.runs())
    }
}
