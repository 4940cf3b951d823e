//! The data: vertices with labels and properties, label indexes, enums. No
//! edges: nothing that the operator or its tests ask needs one.

use super::scalar::Scalar;
use serde::{Deserialize, Serialize};
use sim::memgraph::instance::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The number of a vertex.
pub(super) type VertexId = u64;

/// One vertex.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Vertex {
    pub(super) labels: BTreeSet<String>,
    pub(super) properties: BTreeMap<String, Scalar>,
}

/// An index on a label, or on properties of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct Index {
    pub(super) label: String,
    pub(super) properties: Vec<String>,
}

/// Everything that is replicated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Content {
    pub(super) vertices: BTreeMap<VertexId, Vertex>,
    pub(super) indexes: BTreeSet<Index>,
    pub(super) enums: BTreeMap<String, Vec<String>>,
}

/// The content, shared with whoever reads an older state of it: a commit
/// copies it only if somebody does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Graph(pub(super) Arc<Content>);

// `Arc` is serialised as what it points to; serde's own support for it is a
// feature that we do not need elsewhere.
impl Serialize for Graph {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Graph {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Content::deserialize(deserializer).map(|content| Self(Arc::new(content)))
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Change {
    Create {
        id: VertexId,
        vertex: Vertex,
    },
    Set {
        id: VertexId,
        key: String,
        value: Scalar,
    },
    Delete {
        id: VertexId,
    },
    CreateIndex(Index),
    DropIndex(Index),
    CreateEnum {
        name: String,
        values: Vec<String>,
    },
    AddEnumValue {
        name: String,
        value: String,
    },
}

impl Change {
    /// Needs the storage for itself: waits for everybody who reads.
    pub(super) const fn is_definition(&self) -> bool {
        match self {
            Self::Create { .. } | Self::Set { .. } | Self::Delete { .. } => false,
            Self::CreateIndex(_)
            | Self::DropIndex(_)
            | Self::CreateEnum { .. }
            | Self::AddEnumValue { .. } => true,
        }
    }
}

impl Content {
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { id, vertex } => {
                self.vertices.insert(*id, vertex.clone());
            }
            Change::Set { id, key, value } => {
                if let Some(vertex) = self.vertices.get_mut(id) {
                    if *value == Scalar::Null {
                        vertex.properties.remove(key);
                    } else {
                        vertex.properties.insert(key.clone(), value.clone());
                    }
                }
            }
            Change::Delete { id } => {
                self.vertices.remove(id);
            }
            Change::CreateIndex(index) => {
                self.indexes.insert(index.clone());
            }
            Change::DropIndex(index) => {
                self.indexes.remove(index);
            }
            Change::CreateEnum { name, values } => {
                self.enums.insert(name.clone(), values.clone());
            }
            Change::AddEnumValue { name, value } => {
                if let Some(values) = self.enums.get_mut(name) {
                    values.push(value.clone());
                }
            }
        }
    }

    /// The number that the next vertex may have.
    pub(super) fn next_id(&self) -> VertexId {
        self.vertices
            .last_key_value()
            .map_or(0, |(id, _)| id.saturating_add(1))
    }

    /// Vertices that an index holds.
    pub(super) fn indexed(&self, index: &Index) -> usize {
        self.vertices
            .values()
            .filter(|vertex| {
                vertex.labels.contains(&index.label)
                    && index
                        .properties
                        .iter()
                        .all(|key| vertex.properties.contains_key(key))
            })
            .count()
    }
}

impl Store for Graph {
    type Delta = Vec<Change>;

    fn apply(&mut self, delta: &Self::Delta) {
        let content = Arc::make_mut(&mut self.0);
        for change in delta {
            content.apply(change);
        }
    }

    fn is_empty(&self) -> bool {
        self.0.vertices.is_empty()
    }
}
