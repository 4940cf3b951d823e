//! Structures out of bytes. Tag and number of fields say which one it is, so
//! the protocol version is not needed.

use super::decode::{DecodeError, Decoder};
use super::graph::{Node, Path, Relationship, RelationshipElementIds, Structure, UnboundRelationship};
use super::marker::structure as tag;
use super::temporal::{
    Date, DateTime, DateTimeZoneId, Duration, LegacyDateTime, LegacyDateTimeZoneId, LocalDateTime, LocalTime,
    Point2D, Point3D, Time,
};

impl<'a> Decoder<'a> {
    /// The next value, which must be a structure that is a value (and not a message).
    pub fn structure(&mut self) -> Result<Structure<'a>, DecodeError> {
        let (tag, fields) = self.structure_header()?;
        self.nested(|decoder| match tag {
            tag::NODE => decoder.node(fields).map(Structure::Node),
            tag::RELATIONSHIP => decoder.relationship(fields).map(Structure::Relationship),
            tag::UNBOUND_RELATIONSHIP => decoder
                .unbound_relationship(fields)
                .map(Structure::UnboundRelationship),
            tag::PATH => decoder.path(fields).map(Structure::Path),
            _ => decoder.plain(tag, fields),
        })
    }

    fn node(&mut self, fields: usize) -> Result<Node<'a>, DecodeError> {
        let with_element_id = one_of(tag::NODE, fields, 3, 4)?;
        Ok(Node {
            id: self.int()?,
            labels: self.list(Self::string)?,
            properties: self.dict()?,
            element_id: self.when(with_element_id, Self::string)?,
        })
    }

    fn relationship(&mut self, fields: usize) -> Result<Relationship<'a>, DecodeError> {
        let with_element_ids = one_of(tag::RELATIONSHIP, fields, 5, 8)?;
        Ok(Relationship {
            id: self.int()?,
            start: self.int()?,
            end: self.int()?,
            kind: self.string()?,
            properties: self.dict()?,
            element_ids: self.when(with_element_ids, |decoder| {
                Ok(RelationshipElementIds {
                    id: decoder.string()?,
                    start: decoder.string()?,
                    end: decoder.string()?,
                })
            })?,
        })
    }

    fn unbound_relationship(&mut self, fields: usize) -> Result<UnboundRelationship<'a>, DecodeError> {
        let with_element_id = one_of(tag::UNBOUND_RELATIONSHIP, fields, 3, 4)?;
        Ok(UnboundRelationship {
            id: self.int()?,
            kind: self.string()?,
            properties: self.dict()?,
            element_id: self.when(with_element_id, Self::string)?,
        })
    }

    fn path(&mut self, fields: usize) -> Result<Path<'a>, DecodeError> {
        one_of(tag::PATH, fields, 3, 3)?;
        let nodes = self.list(|decoder| {
            let fields = decoder.expect_structure(tag::NODE)?;
            decoder.nested(|decoder| decoder.node(fields))
        })?;
        let relationships = self.list(|decoder| {
            let fields = decoder.expect_structure(tag::UNBOUND_RELATIONSHIP)?;
            decoder.nested(|decoder| decoder.unbound_relationship(fields))
        })?;
        let indices = self.list(Self::int)?;
        Ok(Path::new(nodes, relationships, indices)?)
    }

    /// The structures that hold nothing but numbers and names. A struct
    /// literal evaluates its fields as written: the order below is the wire's.
    fn plain(&mut self, tag: u8, fields: usize) -> Result<Structure<'a>, DecodeError> {
        Ok(match (tag, fields) {
            (tag::DATE, 1) => Structure::Date(Date { days: self.int()? }),
            (tag::TIME, 2) => Structure::Time(Time {
                nanoseconds: self.int()?,
                offset_seconds: self.int()?,
            }),
            (tag::LOCAL_TIME, 1) => Structure::LocalTime(LocalTime {
                nanoseconds: self.int()?,
            }),
            (tag::DATE_TIME, 3) => Structure::DateTime(DateTime {
                seconds: self.int()?,
                nanoseconds: self.int()?,
                offset_seconds: self.int()?,
            }),
            (tag::LEGACY_DATE_TIME, 3) => Structure::LegacyDateTime(LegacyDateTime {
                local_seconds: self.int()?,
                nanoseconds: self.int()?,
                offset_seconds: self.int()?,
            }),
            (tag::DATE_TIME_ZONE_ID, 3) => Structure::DateTimeZoneId(DateTimeZoneId {
                seconds: self.int()?,
                nanoseconds: self.int()?,
                zone: self.string()?,
            }),
            (tag::LEGACY_DATE_TIME_ZONE_ID, 3) => Structure::LegacyDateTimeZoneId(LegacyDateTimeZoneId {
                local_seconds: self.int()?,
                nanoseconds: self.int()?,
                zone: self.string()?,
            }),
            (tag::LOCAL_DATE_TIME, 2) => Structure::LocalDateTime(LocalDateTime {
                seconds: self.int()?,
                nanoseconds: self.int()?,
            }),
            (tag::DURATION, 4) => Structure::Duration(Duration {
                months: self.int()?,
                days: self.int()?,
                seconds: self.int()?,
                nanoseconds: self.int()?,
            }),
            (tag::POINT_2D, 3) => Structure::Point2D(Point2D {
                srid: self.int()?,
                x: self.float()?,
                y: self.float()?,
            }),
            (tag::POINT_3D, 4) => Structure::Point3D(Point3D {
                srid: self.int()?,
                x: self.float()?,
                y: self.float()?,
                z: self.float()?,
            }),
            _ => return Err(not_plain(tag, fields)),
        })
    }

    fn expect_structure(&mut self, expected: u8) -> Result<usize, DecodeError> {
        let (tag, fields) = self.structure_header()?;
        if tag == expected {
            Ok(fields)
        } else {
            Err(DecodeError::UnknownStructure(tag))
        }
    }

    fn when<T>(
        &mut self,
        present: bool,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        if present { read(self).map(Some) } else { Ok(None) }
    }
}

/// Whether a structure has the longer of its two forms.
fn one_of(tag: u8, fields: usize, short: usize, long: usize) -> Result<bool, DecodeError> {
    if fields == short || fields == long {
        Ok(fields == long)
    } else {
        Err(DecodeError::WrongFields { tag, fields })
    }
}

fn not_plain(tag: u8, fields: usize) -> DecodeError {
    match tag {
        tag::DATE
        | tag::TIME
        | tag::LOCAL_TIME
        | tag::DATE_TIME
        | tag::LEGACY_DATE_TIME
        | tag::DATE_TIME_ZONE_ID
        | tag::LEGACY_DATE_TIME_ZONE_ID
        | tag::LOCAL_DATE_TIME
        | tag::DURATION
        | tag::POINT_2D
        | tag::POINT_3D => DecodeError::WrongFields { tag, fields },
        _ => DecodeError::UnknownStructure(tag),
    }
}
