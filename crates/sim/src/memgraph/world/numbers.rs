//! Numbers that only grow: terms, generations, revisions, and the runs and uids of a pod.
//!
//! Nobody asks how large they are, only which of two is larger and whether they are the same. So a state in which
//! the record was written five times is the same as one in which it was written twice, if nothing else differs, and
//! a search counts what is left of its bounds beside the state.

use super::numbered::{Numbered, Visitor, visit_pod};
use super::state::{Pod, State};
use mainstay_core::memgraph::ids::{Gen, Revision, Term};

/// How many pods a world may have for its processes to be renumbered.
const PODS: usize = 3;

/// Which numbers occur: bit n is the number n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    terms: u64,
    generations: u64,
    revisions: u64,
    runs: [u64; PODS],
    uids: [u64; PODS],
    /// A number is too large to be noted here.
    wide: bool,
}

impl Numbers {
    /// The numbers in a value.
    pub(super) fn of(value: &mut impl Numbered) -> Self {
        let mut numbers = Self::default();
        value.visit(&mut numbers);
        numbers
    }

    /// The numbers in a pod, as if it were the first.
    pub(super) fn of_pod(pod: &mut Pod) -> Self {
        let mut numbers = Self::default();
        visit_pod(pod, 0, &mut numbers);
        numbers
    }

    /// The same numbers of another pod. Two pods may be equal in everything but their place, and share what was
    /// computed of them.
    fn at(mut self, pod: usize) -> Self {
        self.runs.swap(0, pod.min(PODS - 1));
        self.uids.swap(0, pod.min(PODS - 1));
        self.wide |= pod >= PODS;
        self
    }

    fn join(&mut self, other: &Self) {
        let Self {
            terms,
            generations,
            revisions,
            runs,
            uids,
            wide,
        } = other;
        self.terms |= terms;
        self.generations |= generations;
        self.revisions |= revisions;
        for (own, other) in self.runs.iter_mut().zip(runs) {
            *own |= other;
        }
        for (own, other) in self.uids.iter_mut().zip(uids) {
            *own |= other;
        }
        self.wide |= wide;
    }

    fn bit(&mut self, number: u64) -> u64 {
        let bit = u32::try_from(number).ok().and_then(|n| 1_u64.checked_shl(n));
        self.wide |= bit.is_none();
        bit.unwrap_or(0)
    }
}

impl Visitor for Numbers {
    fn term(&mut self, term: &mut Term) {
        self.terms |= self.bit(term.0);
    }

    fn generation(&mut self, generation: &mut Gen) {
        self.generations |= self.bit(generation.0);
    }

    fn revision(&mut self, revision: &mut Revision) {
        self.revisions |= self.bit(revision.0);
    }

    fn run(&mut self, pod: usize, run: &mut u8) {
        let bit = self.bit(u64::from(*run));
        match self.runs.get_mut(pod) {
            Some(runs) => *runs |= bit,
            None => self.wide = true,
        }
    }

    fn uid(&mut self, pod: usize, uid: &mut u8) {
        let bit = self.bit(u64::from(*uid));
        match self.uids.get_mut(pod) {
            Some(uids) => *uids |= bit,
            None => self.wide = true,
        }
    }
}

/// New numbers of one kind. Up to the one that holds now they are counted: only their order matters, because every
/// new one will be larger. Above it stand those that somebody plans to write: they keep their distance, because a
/// new plan may come to the same.
#[derive(Clone, Copy, Debug)]
struct Scale {
    used: u64,
    now: u64,
}

impl Scale {
    /// Leave the numbers below `fixed` as they are: somebody asks for them.
    fn new(used: u64, now: u64, fixed: u32) -> Self {
        let fixed = (1_u64 << fixed) - 1;
        Self {
            used: used | fixed,
            now,
        }
    }

    fn is_identity(self) -> bool {
        let past = up_to(self.now);
        self.used & past == past
    }

    /// Does any of these numbers become another one?
    fn changes(self, used: u64) -> bool {
        let gap = (self.used & up_to(self.now)).trailing_ones();
        used.checked_shr(gap).unwrap_or(0) != 0
    }

    fn of(self, number: u64) -> u64 {
        let counted = number.min(self.now);
        let rank = (self.used & up_to(counted)).count_ones();
        u64::from(rank).saturating_sub(1) + (number - counted)
    }
}

/// The bits of all numbers up to this one.
fn up_to(number: u64) -> u64 {
    u64::MAX >> (63 - number.min(63))
}

/// New numbers of all kinds.
#[derive(Clone, Copy, Debug)]
struct Scales {
    terms: Scale,
    generations: Scale,
    revisions: Scale,
    runs: [Scale; PODS],
    uids: [Scale; PODS],
}

impl Scales {
    fn is_identity(&self) -> bool {
        let Self {
            terms,
            generations,
            revisions,
            runs,
            uids,
        } = self;
        let mut all = [terms, generations, revisions]
            .into_iter()
            .chain(runs)
            .chain(uids);
        all.all(|scale| scale.is_identity())
    }

    /// Does any of these numbers become another one?
    fn change(&self, used: &Numbers) -> bool {
        let one = |scales: &[Scale; PODS], used: &[u64; PODS]| {
            scales.iter().zip(used).any(|(scale, used)| scale.changes(*used))
        };
        let Numbers {
            terms,
            generations,
            revisions,
            runs,
            uids,
            wide: _,
        } = used;
        self.terms.changes(*terms)
            || self.generations.changes(*generations)
            || self.revisions.changes(*revisions)
            || one(&self.runs, runs)
            || one(&self.uids, uids)
    }
}

fn scaled(number: u8, scale: Option<&Scale>) -> u8 {
    scale
        .and_then(|s| u8::try_from(s.of(u64::from(number))).ok())
        .unwrap_or(number)
}

impl Visitor for Scales {
    fn term(&mut self, term: &mut Term) {
        term.0 = self.terms.of(term.0);
    }

    fn generation(&mut self, generation: &mut Gen) {
        generation.0 = self.generations.of(generation.0);
    }

    fn revision(&mut self, revision: &mut Revision) {
        revision.0 = self.revisions.of(revision.0);
    }

    fn run(&mut self, pod: usize, run: &mut u8) {
        *run = scaled(*run, self.runs.get(pod));
    }

    fn uid(&mut self, pod: usize, uid: &mut u8) {
        *uid = scaled(*uid, self.uids.get(pod));
    }
}

impl State {
    /// Gives the smallest numbers that keep every order.
    pub(super) fn renumber_what_grows(&mut self) {
        let Some(record) = &self.record else { return };
        let (term, generation, revision) = (record.term.0, record.generation.0, record.revision.0);
        // Until there is a MAIN the first term of a cluster is told apart from all others.
        let special_terms = if record.main.is_none() { 2 } else { 1 };
        let Numbers {
            terms,
            generations,
            revisions,
            runs,
            uids,
            wide,
        } = self.numbers();
        if wide {
            return;
        }
        let nobody = Scale::new(0, 0, 1);
        let mut scales = Scales {
            terms: Scale::new(terms, term, special_terms),
            generations: Scale::new(generations, generation, 1),
            revisions: Scale::new(revisions, revision, 1),
            runs: [nobody; PODS],
            uids: [nobody; PODS],
        };
        for ((pod, scale), used) in self.pods.iter().zip(&mut scales.runs).zip(runs) {
            *scale = Scale::new(used, u64::from(pod.run), 0);
        }
        for ((pod, scale), used) in self.pods.iter().zip(&mut scales.uids).zip(uids) {
            *scale = Scale::new(used, u64::from(pod.uid), 0);
        }
        if !scales.is_identity() {
            for (pod, n) in self.pods.iter_mut().zip(0..) {
                if pod.numbers().is_none_or(|used| scales.change(&used.at(n))) {
                    visit_pod(pod, n, &mut scales);
                    pod.seal();
                }
            }
            self.visit_parts(&mut scales);
            if let Some(record) = self.record.as_mut().filter(|r| scales.change(r.numbers())) {
                *record = record.changed(|r| r.visit(&mut scales));
            }
            for turn in self.operators.iter_mut().filter_map(|o| o.turn.as_mut()) {
                if scales.change(turn.numbers()) {
                    *turn = turn.changed(|t| t.visit(&mut scales));
                }
            }
        }
    }

    fn numbers(&mut self) -> Numbers {
        let mut numbers = Numbers::default();
        self.visit_parts(&mut numbers);
        for (pod, n) in self.pods.iter_mut().zip(0..) {
            pod.seal();
            if let Some(used) = pod.numbers() {
                numbers.join(&used.at(n));
            }
        }
        if let Some(record) = &self.record {
            numbers.join(record.numbers());
        }
        for turn in self.operators.iter().filter_map(|o| o.turn.as_ref()) {
            numbers.join(turn.numbers());
        }
        numbers
    }
}
