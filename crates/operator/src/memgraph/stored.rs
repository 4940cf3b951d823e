//! The record in its ConfigMap.

use super::cluster::Cluster;
use crate::call::{CallError, bounded, existing};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use mainstay_core::memgraph::document::{Document, DocumentError, Parsed, RECORD, TARGET_MAIN_INDEX};
use mainstay_core::memgraph::objects::CLUSTER_LABEL;
use std::collections::BTreeMap;
use thiserror::Error;

/// Why the record cannot be read: nothing is done until it can.
#[derive(Debug, Error)]
pub enum ReadRecordError {
    /// The API did not say.
    #[error("the record could not be read: {0}")]
    Call(#[from] CallError),
    /// The ConfigMap is not a record.
    #[error(transparent)]
    Document(#[from] DocumentError),
}

/// The ConfigMap as it was read, with the only version that may be replaced (R9).
#[derive(Clone, Debug, Default)]
pub struct Stored {
    map: Option<ConfigMap>,
    /// The record, if the ConfigMap has one.
    pub document: Option<Document>,
    /// Something to report; the record stands.
    pub warning: Option<String>,
}

impl Stored {
    /// Reads it from the store itself: no `resourceVersion` parameter means a quorum read.
    pub async fn read(cluster: &Cluster) -> Result<Self, ReadRecordError> {
        let api = cluster.config_maps();
        let name = cluster.name.record();
        let found = existing(bounded(cluster.settings.call, api.get(&name)).await)?;
        let mut stored = match found {
            None => Self::default(),
            Some(map) => Self::parse(map)?,
        };
        if stored.document.is_none() && stored.warning.is_none() {
            stored.warning = left_by_memgraph_controller(cluster).await?;
        }
        Ok(stored)
    }

    /// Reads what a ConfigMap holds.
    pub fn parse(map: ConfigMap) -> Result<Self, ReadRecordError> {
        let empty = BTreeMap::new();
        let data = map.data.as_ref().unwrap_or(&empty);
        let parsed = match Document::parse(data) {
            // Made by somebody who left the rest to us.
            Err(DocumentError::Empty) => None,
            other => Some(other?),
        };
        let (document, warning) = match parsed {
            None => (None, None),
            Some(Parsed::SeedOnly { index }) => {
                let text = format!(
                    "`{TARGET_MAIN_INDEX}` of memgraph-controller names {index}: a hint, not a record"
                );
                (None, Some(text))
            }
            Some(Parsed::Full { document, warning }) => {
                (Some(*document), warning.map(|warning| warning.to_string()))
            }
        };
        Ok(Self {
            map: Some(map),
            document,
            warning,
        })
    }

    /// Writes the first record. A ConfigMap that is there without one is replaced, by the version that was read.
    pub async fn create(&mut self, cluster: &Cluster, document: &Document) -> Result<(), CallError> {
        if self.document.is_some() {
            return Err(CallError::Conflict("there is a record already".to_owned()));
        }
        if self.map.is_some() {
            return self.put(cluster, document).await;
        }
        let mut map = ConfigMap::default();
        map.metadata.name = Some(cluster.name.record());
        map.metadata.labels = Some(BTreeMap::from([(
            CLUSTER_LABEL.to_owned(),
            cluster.name.to_string(),
        )]));
        map.data = Some(keys(document)?);
        let api = cluster.config_maps();
        let written = bounded(cluster.settings.call, api.create(&PostParams::default(), &map)).await?;
        self.took(written, document);
        Ok(())
    }

    /// Writes the next record over the version that was read, or written by this very turn.
    pub async fn replace(&mut self, cluster: &Cluster, document: &Document) -> Result<(), CallError> {
        if self.document.is_none() {
            return Err(CallError::NotFound);
        }
        self.put(cluster, document).await
    }

    async fn put(&mut self, cluster: &Cluster, document: &Document) -> Result<(), CallError> {
        let mut map = self.map.clone().ok_or(CallError::NotFound)?;
        let data = map.data.get_or_insert_default();
        data.remove(RECORD);
        data.remove(TARGET_MAIN_INDEX);
        data.extend(keys(document)?);
        let api = cluster.config_maps();
        let name = cluster.name.record();
        let written = bounded(
            cluster.settings.call,
            api.replace(&name, &PostParams::default(), &map),
        )
        .await?;
        self.took(written, document);
        Ok(())
    }

    fn took(&mut self, written: ConfigMap, document: &Document) {
        self.map = Some(written);
        self.document = Some(document.clone());
    }
}

/// What memgraph-controller left under its own names. People are told; nobody is made MAIN for it (R8): it is written by
/// whoever comes last, and its owner may be gone for long.
async fn left_by_memgraph_controller(cluster: &Cluster) -> Result<Option<String>, CallError> {
    let maps = cluster.config_maps();
    for name in [
        format!("{}-state", cluster.name),
        "memgraph-controller-state".to_owned(),
    ] {
        let found = existing(bounded(cluster.settings.call, maps.get(&name)).await)?;
        let index = found.and_then(|map| map.data?.remove(TARGET_MAIN_INDEX));
        if let Some(index) = index {
            return Ok(Some(format!(
                "`{TARGET_MAIN_INDEX}` in the ConfigMap `{name}` of memgraph-controller names pod {index}: a hint, not a record; see that memgraph-controller does not run any more"
            )));
        }
    }
    Ok(None)
}

fn keys(document: &Document) -> Result<BTreeMap<String, String>, CallError> {
    // A record that cannot be written has no effect.
    document.data().map_err(|error| CallError::Refused {
        code: 0,
        message: error.to_string(),
    })
}
