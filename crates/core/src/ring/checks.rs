//! The checks of a replacement, `a` to `k`. All must hold, asked of other live members, never of the node itself.

use super::ids::{Address, HostId, Member};
use super::ledger::Known;
use super::observed::{Answer, Keyspace, Liveness, MemberView, NodeState, Seen};
use super::reason::Check;
use super::spec::Managed;
use super::view::View;
use std::fmt;

macro_rules! letters {
    ($($variant:ident = $letter:literal, $name:literal : $text:literal;)*) => {
        /// Which check.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Letter {
            $(#[doc = $text] $variant,)*
        }

        impl Letter {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its letter.
            pub fn letter(self) -> char {
                match self { $(Self::$variant => $letter,)* }
            }

            /// Its name in status.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it asks.
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

letters! {
    Owner = 'a', "NormalOwner": "the lost node is a normal owner of tokens in all answers";
    Down = 'b', "Down": "it is down in all answers, and for longer than the grace period";
    OthersUp = 'c', "OthersUp": "every other member is up in all answers";
    Quorum = 'd', "Quorum": "enough other members answer, a majority where one decides";
    Alone = 'e', "Alone": "no other replacement, join, decommission or rollout is running";
    Copies = 'f', "Copies": "every keyspace has more copies than members are lost";
    Topology = 'g', "Topology": "the pod is in the datacenter and rack of the lost node";
    Seeds = 'h', "Seeds": "its seeds are living members and not itself, and they will talk to it";
    HandsOff = 'i', "HandsOff": "no human has a hand in it: label, maintenance";
    Address = 'j', "Address": "no member lists another node at its address";
    Schema = 'k', "Schema": "all members have the same schema";
}

/// A check and how it stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Finding {
    /// Which check.
    pub letter: Letter,
    /// Whom it is about.
    pub member: Member,
    /// What was found.
    pub check: Check,
}

impl Finding {
    /// Does it hold?
    pub fn holds(&self) -> bool {
        self.check == Check::Passed
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            letter,
            member,
            check,
        } = self;
        write!(f, "{} {} of {member}: ", letter.letter(), letter.name())?;
        if self.holds() {
            write!(f, "{}", letter.text())
        } else {
            check.fmt(f)
        }
    }
}

/// A replacement that is thought about.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// What is known and seen.
    pub view: View<'a>,
    /// Who is to be replaced.
    pub member: &'a Member,
    /// What was lost.
    pub lost: &'a Known,
    /// A human put the label on it.
    pub manual: bool,
    /// The pod is there, and waits to start. Otherwise only its volume is to be given up.
    pub pod_waits: bool,
}

/// All checks, in order.
pub fn findings(case: &Case<'_>) -> Vec<Finding> {
    let witnesses = case.view.witnesses(case.member);
    let find = |letter: &Letter| Finding {
        letter: *letter,
        member: case.member.clone(),
        check: find(case, *letter, &witnesses).unwrap_or(Check::Passed),
    };
    Letter::ALL.iter().map(find).collect()
}

/// What stands against it; `None` if nothing does.
fn find(case: &Case<'_>, letter: Letter, witnesses: &[&Answer]) -> Option<Check> {
    match letter {
        Letter::Owner => first(witnesses, |a| owner(case, a)),
        Letter::Down => first(witnesses, |a| down(case, a)),
        Letter::OthersUp => first(witnesses, |a| others_up(case, a)),
        Letter::Quorum => quorum(case, witnesses),
        Letter::Alone => alone(case, witnesses),
        Letter::Copies => copies(case, witnesses),
        Letter::Topology => topology(case),
        Letter::Seeds => seeds_taught(case, witnesses),
        Letter::HandsOff => hands_off(case),
        Letter::Address => first(witnesses, |a| address_clear(case, a)),
        Letter::Schema => first(witnesses, |a| schema(case, a)),
    }
}

fn first(witnesses: &[&Answer], find: impl Fn(&Answer) -> Option<Check>) -> Option<Check> {
    if witnesses.is_empty() {
        return Some(Check::NobodyAnswers { wanted: 1 });
    }
    witnesses.iter().find_map(|a| find(a))
}

fn owner(case: &Case<'_>, answer: &Answer) -> Option<Check> {
    let (host, by) = (case.lost.host, answer.by.clone());
    let Some(node) = answer.node(host) else {
        return Some(Check::NotListed { host, by });
    };
    // What a try at the same address left behind that did not finish: Cassandra's `hibernate`. To try again is the way
    // to end it. `b` asks that its heart stands still, so nobody who is still trying is disturbed.
    let begun = node.state == NodeState::Replacing;
    // After a cold start of the whole ring a dead member is known from disk only, and says nothing of itself.
    let silent = node.state == NodeState::Unknown;
    let good = node.owner && (node.state == NodeState::Normal || begun || silent);
    (!good).then_some(Check::NotNormal { host, by })
}

fn down(case: &Case<'_>, answer: &Answer) -> Option<Check> {
    let (host, by) = (case.lost.host, answer.by.clone());
    let node = answer.node(host)?;
    match node.liveness {
        Liveness::Down(since) if since >= case.view.spec().timing.grace => None,
        _ if node.state == NodeState::Replacing => Some(Check::Hibernate { host, by }),
        Liveness::Up => Some(Check::StillAlive { host, by }),
        Liveness::Down(_) | Liveness::Unclear => Some(Check::DownTooShort { host, by }),
    }
}

/// Somebody sees this node alive, or nobody can be asked.
pub(super) fn lives(witnesses: &[&Answer], host: HostId) -> Option<Check> {
    first(witnesses, |a| {
        let up = a.node(host).is_some_and(|n| n.liveness == Liveness::Up);
        let by = a.by.clone();
        up.then_some(Check::StillAlive { host, by })
    })
}

fn others_up(case: &Case<'_>, answer: &Answer) -> Option<Check> {
    let by = || answer.by.clone();
    let unlisted = |k: &&Known| k.host != case.lost.host && answer.node(k.host).is_none();
    if let Some(known) = case.view.ledger.known.values().find(unlisted) {
        return Some(Check::NotListed {
            host: known.host,
            by: by(),
        });
    }
    let others = answer.nodes.iter();
    others
        .filter(|n| n.owner && n.counts() && n.host != case.lost.host)
        .filter(|n| !n.excluded)
        .find_map(|n| {
            if n.liveness == Liveness::Up {
                other_lost(case, n, by())
            } else {
                other_down(case, n, by())
            }
        })
}

/// Its gate says that it is lost, and this one has not noticed yet, or was told of it as of one that lives: gossip that a
/// partition held back does that. It will be seen down, and whoever is let start before that is refused halfway.
fn other_lost(case: &Case<'_>, other: &Seen, by: Member) -> Option<Check> {
    let owner = case.view.member_of(other.host, other.address)?;
    let lost = owner != case.member && case.view.is_lost(owner);
    lost.then(|| Check::OtherLost {
        other: owner.clone(),
        by,
    })
}

/// Another member is down, too. If it lost its storage as well, waiting will not bring it back.
fn other_down(case: &Case<'_>, other: &Seen, by: Member) -> Option<Check> {
    let view = case.view;
    let lost = view
        .member_of(other.host, other.address)
        .is_some_and(|m| view.is_lost(m));
    match (lost, view.spec().engine.refuses_with_others_down()) {
        (true, true) => Some(Check::OtherDownRefused { other: other.host }),
        // Cassandra goes on as long as every range has a source: `f` counts the lost ones.
        (true, false) => None,
        (false, _) => Some(Check::OtherDown {
            other: other.host,
            by,
        }),
    }
}

fn quorum(case: &Case<'_>, witnesses: &[&Answer]) -> Option<Check> {
    let ring = case.view.ring(witnesses).len();
    let engine = case.view.spec().engine;
    let (got, wanted) = (witnesses.len(), engine.witnesses(ring).max(1));
    let lost = |m: &&Member| case.view.is_lost(m) || **m == *case.member;
    let left = ring.saturating_sub(case.view.ledger.known.keys().filter(lost).count());
    if got >= wanted {
        None
    } else if left < wanted {
        Some(Check::QuorumLost { left, wanted, ring })
    } else if got == 0 {
        Some(Check::NobodyAnswers { wanted })
    } else if engine.needs_majority() {
        Some(Check::NoQuorum { got, wanted, ring })
    } else {
        Some(Check::TooFewAnswers { got, wanted })
    }
}

fn alone(case: &Case<'_>, witnesses: &[&Answer]) -> Option<Check> {
    if case.view.seen.wishes.rollout {
        return Some(Check::Rollout);
    }
    // scylla-operator acts on its label at once. On a cluster of our own a label is only a wish until its turn comes:
    // to wait for it would be for ever, because nobody's volume is given up while another member is lost.
    let elsewhere = case.view.spec().managed == Managed::ByScyllaOperator;
    let labelled = |m: &&MemberView| elsewhere && m.replace_label && m.member != *case.member;
    if let Some(other) = case.view.seen.members.iter().find(labelled) {
        let other = other.member.clone();
        return Some(Check::OtherLabelled { other });
    }
    busy(witnesses, Some(case.lost.host))
}

/// Somebody is in the middle of something.
pub(super) fn busy(witnesses: &[&Answer], except: Option<HostId>) -> Option<Check> {
    first(witnesses, |a| {
        let busy = |n: &&Seen| n.is_busy() && Some(n.host) != except;
        let other = a.nodes.iter().find(busy)?.host;
        let by = a.by.clone();
        Some(Check::OtherBusy { other, by })
    })
}

fn copies(case: &Case<'_>, witnesses: &[&Answer]) -> Option<Check> {
    let spec = case.view.spec();
    let keyspaces = || {
        witnesses
            .iter()
            .flat_map(|a| a.keyspaces.iter().map(|k| (&a.by, k)))
    };
    if spec.accept_loss {
        return None;
    }
    if keyspaces().next().is_none() {
        return Some(Check::CopiesUnknown);
    }
    let lost = case.view.lost_in(case.lost, case.member, witnesses);
    let counts = |accounts: bool| !accounts || spec.authentication;
    let counted = || keyspaces().filter(|(_, k)| counts(k.accounts));
    let too_few = counted().find_map(|(_, k)| {
        let copies = *k.copies.as_ref()?.get(&case.lost.location.dc)?;
        (copies <= lost).then(|| Check::TooFewCopies {
            keyspace: k.name.clone(),
            copies,
            lost,
        })
    });
    too_few.or_else(|| untold(counted()))
}

/// A keyspace of which somebody could not tell how often its rows are kept.
pub(super) fn untold<'a>(mut keyspaces: impl Iterator<Item = (&'a Member, &'a Keyspace)>) -> Option<Check> {
    let (by, untold) = keyspaces.find(|(_, k)| k.copies.is_none())?;
    Some(Check::KeyspaceUnknown {
        keyspace: untold.name.clone(),
        by: by.clone(),
    })
}

fn topology(case: &Case<'_>) -> Option<Check> {
    if !case.pod_waits {
        return None;
    }
    let pod = case.view.seen.member(case.member)?.pod.as_ref()?;
    let was = case.lost.location.clone();
    match &pod.location {
        None => Some(Check::LocationUnknown),
        Some(is) if *is != was => Some(Check::TopologyMismatch { is: is.clone(), was }),
        Some(_) => None,
    }
}

/// The seeds with which a node may start in place of the lost one.
pub fn seeds(case: &Case<'_>) -> Vec<Address> {
    let own = case.view.seen.member(case.member).and_then(|m| m.address);
    let live = case.view.live_addresses(&case.view.witnesses(case.member));
    live.into_iter()
        .filter(|a| Some(*a) != own && *a != case.lost.address)
        .collect()
}

/// The live members that do not yet gossip with the address of this one, and would never begin to.
pub fn untaught<'a>(case: &Case<'a>) -> Vec<&'a Member> {
    let Some(own) = case.view.seen.member(case.member).and_then(|m| m.address) else {
        return Vec::new();
    };
    if !case.view.spec().engine.needs_seed_at_peers() || own != case.lost.address {
        return Vec::new();
    }
    let untaught = |a: &&&Answer| a.seeds.as_ref().is_none_or(|s| !s.contains(&own));
    let witnesses = case.view.witnesses(case.member);
    witnesses.iter().filter(untaught).map(|a| &a.by).collect()
}

/// A start waits for the schema of everybody who is listed, also of one that is down and cannot hand over its own. Not of
/// the lost one: that row becomes its own.
fn schema(case: &Case<'_>, answer: &Answer) -> Option<Check> {
    let by = answer.by.clone();
    if !answer.schema_agrees {
        return Some(Check::SchemaDiffers { by });
    }
    let mut others = answer.other_schema.iter();
    let other = *others.find(|host| **host != case.lost.host)?;
    Some(Check::SchemaBehind { other, by })
}

fn seeds_taught(case: &Case<'_>, witnesses: &[&Answer]) -> Option<Check> {
    if witnesses.is_empty() || seeds(case).is_empty() {
        return Some(Check::NoSeed);
    }
    let peer = untaught(case).first().copied().cloned()?;
    Some(Check::SeedNotTaught { peer })
}

fn hands_off(case: &Case<'_>) -> Option<Check> {
    let member = case.view.seen.member(case.member)?;
    if member.maintenance {
        Some(Check::Maintenance)
    } else if member.replace_label && !case.manual {
        Some(Check::Label)
    } else if !case.manual && !case.view.spec().automatic {
        // Switched off meanwhile: what was begun is not gone on with.
        Some(Check::NotAutomatic)
    } else {
        None
    }
}

fn address_clear(case: &Case<'_>, answer: &Answer) -> Option<Check> {
    let Some(own) = case.view.seen.member(case.member).and_then(|m| m.address) else {
        return Some(Check::AddressUnknown);
    };
    let other = |address| {
        let node = answer.at_address(address).find(|n| n.host != case.lost.host)?;
        Some(Check::AddressTaken {
            address,
            other: node.host,
            by: answer.by.clone(),
        })
    };
    other(own).or_else(|| other(case.lost.address))
}
