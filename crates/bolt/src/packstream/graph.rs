//! Graph types, and the sum of all structures.

use super::temporal::{
    Date, DateTime, DateTimeZoneId, Duration, LegacyDateTime, LegacyDateTimeZoneId, LocalDateTime, LocalTime,
    Point2D, Point3D, Time,
};
use super::value::Dict;
use std::borrow::Cow;
use thiserror::Error;

/// A value that is a structure on the wire.
#[derive(Clone, Debug, PartialEq)]
pub enum Structure<'a> {
    /// A node.
    Node(Node<'a>),
    /// A relationship between two nodes.
    Relationship(Relationship<'a>),
    /// A relationship as it stands in a path, where the ends are known.
    UnboundRelationship(UnboundRelationship<'a>),
    /// A walk through the graph.
    Path(Path<'a>),
    /// A day.
    Date(Date),
    /// A time of day with an offset.
    Time(Time),
    /// A time of day.
    LocalTime(LocalTime),
    /// A moment with an offset.
    DateTime(DateTime),
    /// A moment with an offset, as before Bolt 5.
    LegacyDateTime(LegacyDateTime),
    /// A moment in a named zone.
    DateTimeZoneId(DateTimeZoneId<'a>),
    /// A moment in a named zone, as before Bolt 5.
    LegacyDateTimeZoneId(LegacyDateTimeZoneId<'a>),
    /// A day and a time of day.
    LocalDateTime(LocalDateTime),
    /// A length of time.
    Duration(Duration),
    /// A place in a plane.
    Point2D(Point2D),
    /// A place in space.
    Point3D(Point3D),
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node<'a> {
    /// Its number.
    pub id: i64,
    /// Its labels.
    pub labels: Vec<Cow<'a, str>>,
    /// Its properties.
    pub properties: Dict<'a>,
    /// Its id as text; present from Bolt 5 on.
    pub element_id: Option<Cow<'a, str>>,
}

/// A relationship between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Relationship<'a> {
    /// Its number.
    pub id: i64,
    /// The number of the node it leaves.
    pub start: i64,
    /// The number of the node it enters.
    pub end: i64,
    /// Its type.
    pub kind: Cow<'a, str>,
    /// Its properties.
    pub properties: Dict<'a>,
    /// The ids as text; present, all three, from Bolt 5 on.
    pub element_ids: Option<RelationshipElementIds<'a>>,
}

/// The ids of a relationship and of its ends, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationshipElementIds<'a> {
    /// Of the relationship.
    pub id: Cow<'a, str>,
    /// Of the node it leaves.
    pub start: Cow<'a, str>,
    /// Of the node it enters.
    pub end: Cow<'a, str>,
}

/// A relationship in a path.
#[derive(Clone, Debug, PartialEq)]
pub struct UnboundRelationship<'a> {
    /// Its number.
    pub id: i64,
    /// Its type.
    pub kind: Cow<'a, str>,
    /// Its properties.
    pub properties: Dict<'a>,
    /// Its id as text; present from Bolt 5 on.
    pub element_id: Option<Cow<'a, str>>,
}

/// A walk through the graph: every index in it points at something.
#[derive(Clone, Debug, PartialEq)]
pub struct Path<'a> {
    nodes: Vec<Node<'a>>,
    relationships: Vec<UnboundRelationship<'a>>,
    indices: Vec<i64>,
}

/// Why something is not a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadPath {
    /// There is no node to start from.
    #[error("a path without a node")]
    NoNode,
    /// Indices come in pairs of relationship and node.
    #[error("a path with an odd number of indices")]
    OddIndices,
    /// An index points at nothing.
    #[error("a path with index {0}, which points at nothing")]
    IndexOutOfRange(i64),
}

impl<'a> Path<'a> {
    /// A walk that starts at the first of `nodes`.
    ///
    /// `indices` alternate between a relationship (counted from 1, negative if
    /// walked against its direction) and the node it leads to (counted from 0).
    pub fn new(
        nodes: Vec<Node<'a>>,
        relationships: Vec<UnboundRelationship<'a>>,
        indices: Vec<i64>,
    ) -> Result<Self, BadPath> {
        if nodes.is_empty() {
            return Err(BadPath::NoNode);
        }
        let (pairs, []) = indices.as_chunks::<2>() else {
            return Err(BadPath::OddIndices);
        };
        let points_into = |index: u64, len: usize| usize::try_from(index).is_ok_and(|index| index < len);
        for [relationship, node] in pairs {
            let Some(from_zero) = relationship.unsigned_abs().checked_sub(1) else {
                return Err(BadPath::IndexOutOfRange(*relationship));
            };
            if !points_into(from_zero, relationships.len()) {
                return Err(BadPath::IndexOutOfRange(*relationship));
            }
            if !u64::try_from(*node).is_ok_and(|node| points_into(node, nodes.len())) {
                return Err(BadPath::IndexOutOfRange(*node));
            }
        }
        Ok(Self {
            nodes,
            relationships,
            indices,
        })
    }

    /// The nodes, each once; the walk starts at the first.
    pub fn nodes(&self) -> &[Node<'a>] {
        &self.nodes
    }

    /// The relationships, each once.
    pub fn relationships(&self) -> &[UnboundRelationship<'a>] {
        &self.relationships
    }

    /// The steps; see [`Path::new`].
    pub fn indices(&self) -> &[i64] {
        &self.indices
    }

    pub(super) fn into_owned(self) -> Path<'static> {
        let Self {
            nodes,
            relationships,
            indices,
        } = self;
        Path {
            nodes: nodes.into_iter().map(Node::into_owned).collect(),
            relationships: relationships
                .into_iter()
                .map(UnboundRelationship::into_owned)
                .collect(),
            indices,
        }
    }
}
