//! Cutting the tie to the input.

use super::graph::{Node, Relationship, RelationshipElementIds, Structure, UnboundRelationship};
use super::temporal::{DateTimeZoneId, LegacyDateTimeZoneId};
use super::value::{Dict, OwnedDict, OwnedValue, Value};
use std::borrow::Cow;

pub(crate) fn own_text(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

pub(crate) fn own_dict(dict: Dict<'_>) -> OwnedDict {
    dict.into_iter()
        .map(|(key, value)| (own_text(key), value.into_owned()))
        .collect()
}

impl Value<'_> {
    /// The same value, borrowing nothing.
    pub fn into_owned(self) -> OwnedValue {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(number) => Value::Int(number),
            Self::Float(number) => Value::Float(number),
            Self::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Self::String(string) => Value::String(own_text(string)),
            Self::List(values) => Value::List(values.into_iter().map(Value::into_owned).collect()),
            Self::Dict(entries) => Value::Dict(own_dict(entries)),
            Self::Structure(structure) => Value::Structure(Box::new(structure.into_owned())),
        }
    }
}

impl Structure<'_> {
    /// The same structure, borrowing nothing.
    pub fn into_owned(self) -> Structure<'static> {
        match self {
            Self::Node(node) => Structure::Node(node.into_owned()),
            Self::Relationship(relationship) => Structure::Relationship(relationship.into_owned()),
            Self::UnboundRelationship(relationship) => {
                Structure::UnboundRelationship(relationship.into_owned())
            }
            Self::Path(path) => Structure::Path(path.into_owned()),
            Self::Date(date) => Structure::Date(date),
            Self::Time(time) => Structure::Time(time),
            Self::LocalTime(time) => Structure::LocalTime(time),
            Self::DateTime(time) => Structure::DateTime(time),
            Self::LegacyDateTime(time) => Structure::LegacyDateTime(time),
            Self::DateTimeZoneId(DateTimeZoneId {
                seconds,
                nanoseconds,
                zone,
            }) => Structure::DateTimeZoneId(DateTimeZoneId {
                seconds,
                nanoseconds,
                zone: own_text(zone),
            }),
            Self::LegacyDateTimeZoneId(LegacyDateTimeZoneId {
                local_seconds,
                nanoseconds,
                zone,
            }) => {
                let zone = own_text(zone);
                Structure::LegacyDateTimeZoneId(LegacyDateTimeZoneId {
                    local_seconds,
                    nanoseconds,
                    zone,
                })
            }
            Self::LocalDateTime(time) => Structure::LocalDateTime(time),
            Self::Duration(duration) => Structure::Duration(duration),
            Self::Point2D(point) => Structure::Point2D(point),
            Self::Point3D(point) => Structure::Point3D(point),
        }
    }
}

impl Node<'_> {
    pub(super) fn into_owned(self) -> Node<'static> {
        let Self {
            id,
            labels,
            properties,
            element_id,
        } = self;
        Node {
            id,
            labels: labels.into_iter().map(own_text).collect(),
            properties: own_dict(properties),
            element_id: element_id.map(own_text),
        }
    }
}

impl Relationship<'_> {
    fn into_owned(self) -> Relationship<'static> {
        let Self {
            id,
            start,
            end,
            kind,
            properties,
            element_ids,
        } = self;
        let element_ids =
            element_ids.map(
                |RelationshipElementIds { id, start, end }| RelationshipElementIds {
                    id: own_text(id),
                    start: own_text(start),
                    end: own_text(end),
                },
            );
        Relationship {
            id,
            start,
            end,
            kind: own_text(kind),
            properties: own_dict(properties),
            element_ids,
        }
    }
}

impl UnboundRelationship<'_> {
    pub(super) fn into_owned(self) -> UnboundRelationship<'static> {
        let Self {
            id,
            kind,
            properties,
            element_id,
        } = self;
        UnboundRelationship {
            id,
            kind: own_text(kind),
            properties: own_dict(properties),
            element_id: element_id.map(own_text),
        }
    }
}
