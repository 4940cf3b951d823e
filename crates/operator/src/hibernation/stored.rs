//! The restore points in their ConfigMaps, read before anything else and written with the version that was read.

use super::executor::Place;
use crate::call::{CallError, bounded, existing};
use api::hibernation::PLAN_LABEL;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams};
use mainstay_core::hibernation::ids::{PlanName, Version};
use mainstay_core::hibernation::store::{MOST_SHARDS, Shard, Store};
use std::collections::BTreeMap;

/// The ConfigMaps of one plan.
pub struct Maps {
    api: Api<ConfigMap>,
    plan: PlanName,
    found: BTreeMap<u16, ConfigMap>,
}

impl Maps {
    /// Reads all of them. The first is found by its name: an older version did not label it. Numbered ones are found by
    /// their label, and by what the others say: one that came back from a backup may have lost it.
    pub async fn read(place: &Place) -> Result<Self, CallError> {
        let mut maps = Self {
            api: Api::namespaced(place.client.clone(), &place.namespace),
            plan: place.plan.clone(),
            found: BTreeMap::new(),
        };
        let call = place.settings.call;
        let ours = ListParams::default().labels(&format!("{PLAN_LABEL}={}", place.plan));
        for map in bounded(call, maps.api.list(&ours)).await?.items {
            if let Some(number) = maps.number(&map) {
                maps.found.insert(number, map);
            }
        }
        let mut wanted = vec![1];
        while let Some(number) = wanted.pop() {
            if !maps.found.contains_key(&number) {
                let name = Store::name(&maps.plan, number);
                if let Some(map) = existing(bounded(call, maps.api.get(&name)).await)? {
                    maps.found.insert(number, map);
                }
            }
            if number == 1 {
                let named = maps.store().named();
                wanted.extend(named.into_iter().filter(|n| !maps.found.contains_key(n)));
            }
        }
        Ok(maps)
    }

    fn number(&self, map: &ConfigMap) -> Option<u16> {
        let name = map.metadata.name.as_deref()?;
        (1..=MOST_SHARDS).find(|number| Store::name(&self.plan, *number) == name)
    }

    /// What they say.
    pub fn store(&self) -> Store {
        let shards = self.found.iter().map(|(number, map)| Shard {
            number: *number,
            version: map.metadata.resource_version.clone().map(Version),
            data: map.data.clone().unwrap_or_default(),
            annotations: map.metadata.annotations.clone().unwrap_or_default(),
        });
        Store::new(self.plan.clone(), shards.collect())
    }

    /// Writes one of them over the version that was read, or makes it.
    pub async fn write(&mut self, place: &Place, shard: &Shard) -> Result<(), CallError> {
        let known = self.found.get(&shard.number);
        let mut map = known.cloned().unwrap_or_default();
        map.metadata.name = Some(Store::name(&self.plan, shard.number));
        map.metadata.resource_version = shard.version.as_ref().map(|v| v.0.clone());
        map.metadata.annotations = Some(shard.annotations.clone());
        let labels = map.metadata.labels.get_or_insert_default();
        labels.insert(PLAN_LABEL.to_owned(), self.plan.to_string());
        map.data = Some(shard.data.clone());
        let params = PostParams::default();
        let name = Store::name(&self.plan, shard.number);
        let call = place.settings.call;
        let written = if shard.version.is_some() {
            bounded(call, self.api.replace(&name, &params, &map)).await?
        } else {
            bounded(call, self.api.create(&params, &map)).await?
        };
        self.found.insert(shard.number, written);
        Ok(())
    }
}
