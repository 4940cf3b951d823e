//! What is recorded, found with one call for a kind instead of one for each.

use super::Named;
use super::kinds::Workload;
use crate::hibernation::executor::Place;
use crate::hibernation::objects;
use kube::ResourceExt;
use kube::api::DynamicObject;
use mainstay_core::hibernation::ids::ResourceId;
use std::collections::BTreeMap;

/// From so many of one kind on a list is cheaper than asking for each.
const MANY: usize = 4;

/// Objects by the path of their kind and their name. That something is not in here means nothing: it is asked for then.
#[derive(Default)]
pub(super) struct Listed(BTreeMap<String, BTreeMap<String, DynamicObject>>);

impl Listed {
    /// Of kinds of which much is recorded. One that cannot be listed is left out: what wakes must not depend on that.
    pub(super) async fn of(place: &Place, ids: impl Iterator<Item = &ResourceId>) -> Self {
        let mut kinds: BTreeMap<String, (Workload, usize)> = BTreeMap::new();
        for (kind, _) in ids.filter_map(|id| Named::parse(id).ok()) {
            kinds.entry(kind.path()).or_insert((kind, 0)).1 += 1;
        }
        let mut found = BTreeMap::new();
        for (path, (kind, _)) in kinds.into_iter().filter(|(_, (_, count))| *count >= MANY) {
            if let Ok(objects) = objects::list(place, &kind.resource()).await {
                let named = objects.into_iter().map(|o| (o.name_any(), o));
                found.insert(path, named.collect());
            }
        }
        Self(found)
    }

    pub(super) fn get(&self, kind: &Workload, name: &str) -> Option<&DynamicObject> {
        self.0.get(&kind.path())?.get(name)
    }
}
