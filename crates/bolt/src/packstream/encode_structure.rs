//! Structures into bytes.

use super::encode::{EncodeError, Encoder};
use super::graph::{Node, Path, Relationship, RelationshipElementIds, Structure, UnboundRelationship};
use super::marker::structure as tag;
use super::temporal::{
    Date, DateTime, DateTimeZoneId, Duration, LegacyDateTime, LegacyDateTimeZoneId, LocalDateTime, LocalTime,
    Point2D, Point3D, Time,
};

impl Encoder<'_> {
    /// A structure.
    pub fn structure(&mut self, structure: &Structure<'_>) -> Result<(), EncodeError> {
        self.nested(|encoder| match structure {
            Structure::Node(node) => encoder.node(node),
            Structure::Relationship(relationship) => encoder.relationship(relationship),
            Structure::UnboundRelationship(relationship) => encoder.unbound_relationship(relationship),
            Structure::Path(path) => encoder.path(path),
            Structure::DateTimeZoneId(DateTimeZoneId {
                seconds,
                nanoseconds,
                zone,
            }) => {
                encoder.ints(tag::DATE_TIME_ZONE_ID, 3, &[*seconds, *nanoseconds]);
                encoder.string(zone)
            }
            Structure::LegacyDateTimeZoneId(LegacyDateTimeZoneId {
                local_seconds,
                nanoseconds,
                zone,
            }) => {
                encoder.ints(tag::LEGACY_DATE_TIME_ZONE_ID, 3, &[*local_seconds, *nanoseconds]);
                encoder.string(zone)
            }
            Structure::Date(Date { days }) => encoder.all_ints(tag::DATE, [*days]),
            Structure::Time(Time {
                nanoseconds,
                offset_seconds,
            }) => encoder.all_ints(tag::TIME, [*nanoseconds, *offset_seconds]),
            Structure::LocalTime(LocalTime { nanoseconds }) => {
                encoder.all_ints(tag::LOCAL_TIME, [*nanoseconds])
            }
            Structure::DateTime(DateTime {
                seconds,
                nanoseconds,
                offset_seconds,
            }) => encoder.all_ints(tag::DATE_TIME, [*seconds, *nanoseconds, *offset_seconds]),
            Structure::LegacyDateTime(LegacyDateTime {
                local_seconds,
                nanoseconds,
                offset_seconds,
            }) => encoder.all_ints(
                tag::LEGACY_DATE_TIME,
                [*local_seconds, *nanoseconds, *offset_seconds],
            ),
            Structure::LocalDateTime(LocalDateTime { seconds, nanoseconds }) => {
                encoder.all_ints(tag::LOCAL_DATE_TIME, [*seconds, *nanoseconds])
            }
            Structure::Duration(Duration {
                months,
                days,
                seconds,
                nanoseconds,
            }) => encoder.all_ints(tag::DURATION, [*months, *days, *seconds, *nanoseconds]),
            Structure::Point2D(Point2D { srid, x, y }) => encoder.point(tag::POINT_2D, *srid, [*x, *y]),
            Structure::Point3D(Point3D { srid, x, y, z }) => {
                encoder.point(tag::POINT_3D, *srid, [*x, *y, *z])
            }
        })
    }

    fn node(&mut self, node: &Node<'_>) -> Result<(), EncodeError> {
        let Node {
            id,
            labels,
            properties,
            element_id,
        } = node;
        self.structure_header(tag::NODE, if element_id.is_some() { 4 } else { 3 });
        self.int(*id);
        self.list(labels, |encoder, label| encoder.string(label))?;
        self.dict(properties)?;
        element_id.iter().try_for_each(|id| self.string(id))
    }

    fn relationship(&mut self, relationship: &Relationship<'_>) -> Result<(), EncodeError> {
        let Relationship {
            id,
            start,
            end,
            kind,
            properties,
            element_ids,
        } = relationship;
        self.ints(
            tag::RELATIONSHIP,
            if element_ids.is_some() { 8 } else { 5 },
            &[*id, *start, *end],
        );
        self.string(kind)?;
        self.dict(properties)?;
        let Some(RelationshipElementIds { id, start, end }) = element_ids else {
            return Ok(());
        };
        self.string(id)?;
        self.string(start)?;
        self.string(end)
    }

    fn unbound_relationship(&mut self, relationship: &UnboundRelationship<'_>) -> Result<(), EncodeError> {
        let UnboundRelationship {
            id,
            kind,
            properties,
            element_id,
        } = relationship;
        self.structure_header(
            tag::UNBOUND_RELATIONSHIP,
            if element_id.is_some() { 4 } else { 3 },
        );
        self.int(*id);
        self.string(kind)?;
        self.dict(properties)?;
        element_id.iter().try_for_each(|id| self.string(id))
    }

    fn path(&mut self, path: &Path<'_>) -> Result<(), EncodeError> {
        self.structure_header(tag::PATH, 3);
        self.list(path.nodes(), |encoder, node| {
            encoder.nested(|encoder| encoder.node(node))
        })?;
        self.list(path.relationships(), |encoder, relationship| {
            encoder.nested(|encoder| encoder.unbound_relationship(relationship))
        })?;
        self.list(path.indices(), |encoder, index| {
            encoder.int(*index);
            Ok(())
        })
    }

    /// A header and the numbers the structure begins with.
    fn ints(&mut self, tag: u8, fields: u8, numbers: &[i64]) {
        self.structure_header(tag, fields);
        for number in numbers {
            self.int(*number);
        }
    }

    fn all_ints<const N: usize>(&mut self, tag: u8, numbers: [i64; N]) -> Result<(), EncodeError> {
        let fields = u8::try_from(N).map_err(|_| EncodeError::TooLong(N))?;
        self.ints(tag, fields, &numbers);
        Ok(())
    }

    fn point<const N: usize>(&mut self, tag: u8, srid: i64, at: [f64; N]) -> Result<(), EncodeError> {
        let fields = u8::try_from(N)
            .map_err(|_| EncodeError::TooLong(N))?
            .saturating_add(1);
        self.ints(tag, fields, &[srid]);
        for coordinate in at {
            self.float(coordinate);
        }
        Ok(())
    }
}
