//! Who waits for whom, and how many may run at once: every strategy in one form.

use super::ids::TargetName;
use super::plan::{Edge, Intent, Stage, Strategy};
use super::state::Operation;
use std::collections::{BTreeMap, BTreeSet};

/// The order of one operation. Names that a strategy mentions and the intent does not have (disabled by an
/// exception) are passed through: what waited for them waits for what they waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    waits_for: BTreeMap<TargetName, BTreeSet<TargetName>>,
    lanes: Vec<(BTreeSet<TargetName>, usize)>,
    /// As they are listed, for the turn of each.
    listed: Vec<TargetName>,
}

impl Order {
    /// The order of going down.
    pub fn of(intent: &Intent) -> Self {
        let listed: Vec<TargetName> = intent.targets.iter().map(|t| t.name.clone()).collect();
        let all: BTreeSet<TargetName> = listed.iter().cloned().collect();
        let (edges, lanes) = match &intent.strategy {
            Strategy::Sequential => (in_line(listed.iter()), Vec::new()),
            Strategy::Parallel { max } => (Vec::new(), lane(&all, *max)),
            Strategy::Dag { edges, max } => (edges.clone(), lane(&all, *max)),
            Strategy::Staged(stages) => staged(stages),
        };
        let mut waits_for: BTreeMap<TargetName, BTreeSet<TargetName>> = BTreeMap::new();
        for Edge { from, to } in edges {
            waits_for.entry(to).or_default().insert(from);
        }
        let missing: BTreeSet<TargetName> = waits_for
            .iter()
            .flat_map(|(to, froms)| froms.iter().chain([to]))
            .filter(|name| !all.contains(name))
            .cloned()
            .collect();
        for gone in missing {
            let before = waits_for.remove(&gone).unwrap_or_default();
            for froms in waits_for.values_mut() {
                if froms.remove(&gone) {
                    froms.extend(before.iter().cloned());
                }
            }
        }
        Self {
            waits_for,
            lanes,
            listed,
        }
    }

    /// The order of an operation: waking is the reverse of going down, inside a stage, too.
    pub fn for_operation(intent: &Intent, operation: Operation) -> Self {
        let down = Self::of(intent);
        match operation {
            Operation::Shutdown => down,
            Operation::WakeUp => down.reversed(),
        }
    }

    fn reversed(self) -> Self {
        let mut waits_for: BTreeMap<TargetName, BTreeSet<TargetName>> = BTreeMap::new();
        for (to, froms) in self.waits_for {
            for from in froms {
                waits_for.entry(from).or_default().insert(to.clone());
            }
        }
        Self {
            waits_for,
            lanes: self.lanes,
            listed: self.listed.into_iter().rev().collect(),
        }
    }

    /// Everybody, in the order in which they get their turn.
    pub fn listed(&self) -> &[TargetName] {
        &self.listed
    }

    /// Whom it waits for.
    pub fn waits_for(&self, target: &TargetName) -> impl Iterator<Item = &TargetName> {
        self.waits_for.get(target).into_iter().flatten()
    }

    /// Is there room for one more beside those that run?
    pub fn has_room(&self, target: &TargetName, running: &BTreeSet<TargetName>) -> bool {
        let mine = self.lanes.iter().filter(|(lane, _)| lane.contains(target));
        mine.into_iter()
            .all(|(lane, max)| lane.intersection(running).count() < *max)
    }

    /// Somebody who would wait for itself.
    pub fn circle(&self) -> Option<TargetName> {
        let mut done: BTreeSet<&TargetName> = BTreeSet::new();
        loop {
            let ready =
                |name: &&TargetName| !done.contains(*name) && self.waits_for(name).all(|w| done.contains(w));
            match self.listed.iter().find(ready) {
                Some(name) => {
                    done.insert(name);
                }
                None => return self.listed.iter().find(|name| !done.contains(name)).cloned(),
            }
        }
    }
}

/// Each waits for the one before it.
pub(super) fn in_line<'a>(names: impl Iterator<Item = &'a TargetName> + Clone) -> Vec<Edge> {
    let pairs = names.clone().zip(names.skip(1));
    pairs
        .map(|(from, to)| Edge {
            from: from.clone(),
            to: to.clone(),
        })
        .collect()
}

fn lane(names: &BTreeSet<TargetName>, max: Option<usize>) -> Vec<(BTreeSet<TargetName>, usize)> {
    max.into_iter().map(|max| (names.clone(), max)).collect()
}

fn staged(stages: &[Stage]) -> (Vec<Edge>, Vec<(BTreeSet<TargetName>, usize)>) {
    let (mut edges, mut lanes) = (Vec::new(), Vec::new());
    let filled: Vec<&Stage> = stages.iter().filter(|s| !s.targets.is_empty()).collect();
    for (one, next) in filled.iter().zip(filled.iter().skip(1)) {
        for from in &one.targets {
            edges.extend(next.targets.iter().map(|to| Edge {
                from: from.clone(),
                to: to.clone(),
            }));
        }
    }
    for stage in filled {
        if stage.parallel {
            lanes.extend(lane(&stage.targets.iter().cloned().collect(), stage.max));
        } else {
            edges.extend(in_line(stage.targets.iter()));
        }
    }
    (edges, lanes)
}
