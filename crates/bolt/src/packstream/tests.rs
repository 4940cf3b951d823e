use super::*;
use std::borrow::Cow;

fn encoded(value: &Value<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encode(value, &mut out).unwrap();
    out
}

fn decoded(bytes: &[u8]) -> Result<Value<'_>, DecodeError> {
    decode(bytes, Limits::DEFAULT)
}

fn round_trip(value: &Value<'_>) {
    let bytes = encoded(value);
    assert_eq!(decoded(&bytes).as_ref(), Ok(value));
    assert_eq!(&decoded(&bytes).unwrap().into_owned(), value);
}

#[test]
fn whole_numbers_take_the_fewest_bytes() {
    let cases: [(i64, &[u8]); 14] = [
        (0, &[0x00]),
        (127, &[0x7F]),
        (-1, &[0xFF]),
        (-16, &[0xF0]),
        (-17, &[0xC8, 0xEF]),
        (-128, &[0xC8, 0x80]),
        (128, &[0xC9, 0x00, 0x80]),
        (-129, &[0xC9, 0xFF, 0x7F]),
        (32_767, &[0xC9, 0x7F, 0xFF]),
        (32_768, &[0xCA, 0x00, 0x00, 0x80, 0x00]),
        (-32_769, &[0xCA, 0xFF, 0xFF, 0x7F, 0xFF]),
        (2_147_483_648, &[0xCB, 0, 0, 0, 0, 0x80, 0, 0, 0]),
        (i64::MAX, &[0xCB, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
        (i64::MIN, &[0xCB, 0x80, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for (number, bytes) in cases {
        assert_eq!(encoded(&Value::Int(number)), bytes, "{number}");
        assert_eq!(decoded(bytes), Ok(Value::Int(number)));
    }
}

#[test]
fn a_number_in_more_bytes_than_needed_is_still_understood() {
    assert_eq!(decoded(&[0xCB, 0, 0, 0, 0, 0, 0, 0, 1]), Ok(Value::Int(1)));
    assert_eq!(decoded(&[0xC8, 0x01]), Ok(Value::Int(1)));
    assert_eq!(decoded(&[0xD1, 0x00, 0x01, b'a']), Ok(Value::from("a")));
}

#[test]
fn constants_and_fractions_are_encoded_as_specified() {
    assert_eq!(encoded(&Value::Null), [0xC0]);
    assert_eq!(encoded(&Value::Bool(true)), [0xC3]);
    assert_eq!(encoded(&Value::Bool(false)), [0xC2]);
    assert_eq!(
        encoded(&Value::Float(1.23)),
        [0xC1, 0x3F, 0xF3, 0xAE, 0x14, 0x7A, 0xE1, 0x47, 0xAE]
    );
    let nan = encoded(&Value::Float(f64::NAN));
    assert!(decoded(&nan).unwrap().as_float().unwrap().is_nan());
}

#[test]
fn sizes_change_their_form_where_they_should() {
    let text = |size: usize| encoded(&Value::from("x".repeat(size)));
    assert_eq!(text(0), [0x80]);
    assert_eq!(text(15)[..1], [0x8F]);
    assert_eq!(text(16)[..2], [0xD0, 0x10]);
    assert_eq!(text(255)[..2], [0xD0, 0xFF]);
    assert_eq!(text(256)[..3], [0xD1, 0x01, 0x00]);
    assert_eq!(text(65_535)[..3], [0xD1, 0xFF, 0xFF]);
    assert_eq!(text(65_536)[..5], [0xD2, 0x00, 0x01, 0x00, 0x00]);

    let bytes = |size: usize| encoded(&Value::Bytes(Cow::Owned(vec![7; size])));
    assert_eq!(bytes(0), [0xCC, 0x00]);
    assert_eq!(bytes(256)[..3], [0xCD, 0x01, 0x00]);
    assert_eq!(bytes(65_536)[..5], [0xCE, 0x00, 0x01, 0x00, 0x00]);

    let list = |size: usize| encoded(&Value::List(vec![Value::Null; size]));
    assert_eq!(list(15)[..1], [0x9F]);
    assert_eq!(list(16)[..2], [0xD4, 0x10]);
    assert_eq!(list(256)[..3], [0xD5, 0x01, 0x00]);
    assert_eq!(list(65_536)[..5], [0xD6, 0x00, 0x01, 0x00, 0x00]);

    let dict = |size: usize| {
        let entries = (0..size).map(|key| (Cow::Owned(format!("{key:05}")), Value::Null));
        let value = Value::Dict(entries.collect());
        round_trip(&value);
        encoded(&value)
    };
    assert_eq!(dict(15)[..1], [0xAF]);
    assert_eq!(dict(16)[..2], [0xD8, 0x10]);
    assert_eq!(dict(256)[..3], [0xD9, 0x01, 0x00]);
    assert_eq!(dict(65_536)[..5], [0xDA, 0x00, 0x01, 0x00, 0x00]);
}

#[test]
fn strings_and_bytes_are_borrowed_from_the_input() {
    let bytes = encoded(&Value::List(vec![
        Value::from("text"),
        Value::Bytes(Cow::Borrowed(&[1, 2])),
    ]));
    let Ok(Value::List(values)) = decoded(&bytes) else {
        panic!("a list")
    };
    assert!(matches!(&values[0], Value::String(Cow::Borrowed("text"))));
    assert!(matches!(&values[1], Value::Bytes(Cow::Borrowed([1, 2]))));
}

fn node(element_id: Option<&'static str>) -> Node<'static> {
    Node {
        id: 3,
        labels: vec![Cow::Borrowed("A"), Cow::Borrowed("B")],
        properties: Dict::from([(Cow::Borrowed("name"), Value::from("x"))]),
        element_id: element_id.map(Cow::Borrowed),
    }
}

fn unbound(element_id: Option<&'static str>) -> UnboundRelationship<'static> {
    UnboundRelationship {
        id: 9,
        kind: Cow::Borrowed("KNOWS"),
        properties: Dict::new(),
        element_id: element_id.map(Cow::Borrowed),
    }
}

fn every_structure() -> Vec<Structure<'static>> {
    let relationship = |element_ids| Relationship {
        id: 9,
        start: 3,
        end: 4,
        kind: Cow::Borrowed("KNOWS"),
        properties: Dict::new(),
        element_ids,
    };
    let element_ids = RelationshipElementIds {
        id: "r".into(),
        start: "a".into(),
        end: "b".into(),
    };
    let path = Path::new(
        vec![node(None), node(Some("n"))],
        vec![unbound(Some("r"))],
        vec![-1, 1],
    )
    .unwrap();
    vec![
        Structure::Node(node(None)),
        Structure::Node(node(Some("3"))),
        Structure::Relationship(relationship(None)),
        Structure::Relationship(relationship(Some(element_ids))),
        Structure::UnboundRelationship(unbound(None)),
        Structure::UnboundRelationship(unbound(Some("9"))),
        Structure::Path(path),
        Structure::Date(Date { days: -1 }),
        Structure::Time(Time {
            nanoseconds: 1,
            offset_seconds: -3600,
        }),
        Structure::LocalTime(LocalTime {
            nanoseconds: 86_399_999_999_999,
        }),
        Structure::DateTime(DateTime {
            seconds: 1,
            nanoseconds: 2,
            offset_seconds: 3,
        }),
        Structure::LegacyDateTime(LegacyDateTime {
            local_seconds: 1,
            nanoseconds: 2,
            offset_seconds: 3,
        }),
        Structure::DateTimeZoneId(DateTimeZoneId {
            seconds: 1,
            nanoseconds: 2,
            zone: "UTC".into(),
        }),
        Structure::LegacyDateTimeZoneId(LegacyDateTimeZoneId {
            local_seconds: 1,
            nanoseconds: 2,
            zone: "UTC".into(),
        }),
        Structure::LocalDateTime(LocalDateTime {
            seconds: 1,
            nanoseconds: 2,
        }),
        Structure::Duration(Duration {
            months: 1,
            days: 2,
            seconds: 3,
            nanoseconds: 4,
        }),
        Structure::Point2D(Point2D {
            srid: 4326,
            x: 1.0,
            y: 2.0,
        }),
        Structure::Point3D(Point3D {
            srid: 4979,
            x: 1.0,
            y: 2.0,
            z: 3.0,
        }),
    ]
}

#[test]
fn every_structure_survives_a_round_trip() {
    for structure in every_structure() {
        round_trip(&Value::from(structure));
    }
}

#[test]
fn structures_have_their_tags_and_the_fields_of_their_version() {
    let heads: Vec<(u8, u8)> = every_structure()
        .into_iter()
        .map(|structure| {
            let bytes = encoded(&Value::from(structure));
            (bytes[0] & 0x0F, bytes[1])
        })
        .collect();
    let expected = [
        (3, b'N'),
        (4, b'N'),
        (5, b'R'),
        (8, b'R'),
        (3, b'r'),
        (4, b'r'),
        (3, b'P'),
        (1, b'D'),
        (2, b'T'),
        (1, b't'),
        (3, b'I'),
        (3, b'F'),
        (3, b'i'),
        (3, b'f'),
        (2, b'd'),
        (4, b'E'),
        (3, b'X'),
        (4, b'Y'),
    ];
    assert_eq!(heads, expected);
}

#[test]
fn a_legacy_moment_is_the_same_moment_in_utc() {
    let legacy = LegacyDateTime {
        local_seconds: 7200,
        nanoseconds: 5,
        offset_seconds: 3600,
    };
    assert_eq!(
        legacy.to_utc(),
        Some(DateTime {
            seconds: 3600,
            nanoseconds: 5,
            offset_seconds: 3600
        })
    );
    let beyond = LegacyDateTime {
        local_seconds: i64::MIN,
        nanoseconds: 0,
        offset_seconds: 1,
    };
    assert_eq!(beyond.to_utc(), None);
}

#[test]
fn malformed_input_is_named() {
    let cases: [(&[u8], DecodeError); 14] = [
        (&[], DecodeError::Truncated),
        (&[0xC4], DecodeError::UnknownMarker(0xC4)),
        (&[0xEF], DecodeError::UnknownMarker(0xEF)),
        (&[0xC1, 0x00], DecodeError::Truncated),
        (&[0x82, b'a'], DecodeError::Truncated),
        (&[0x81, 0xFF], DecodeError::NotUtf8),
        (&[0x01, 0x02], DecodeError::Trailing(1)),
        (
            &[0xA1, 0x01, 0x02],
            DecodeError::WrongType {
                expected: Kind::String,
                found: 0x01,
            },
        ),
        (
            &[0xA2, 0x81, b'a', 0x01, 0x81, b'a', 0x02],
            DecodeError::DuplicateKey,
        ),
        (&[0xB0, 0x00], DecodeError::UnknownStructure(0x00)),
        (
            &[0xB2, b'D', 0x01, 0x01],
            DecodeError::WrongFields { tag: b'D', fields: 2 },
        ),
        (
            &[0xB1, b'D', 0xC0],
            DecodeError::WrongType {
                expected: Kind::Int,
                found: 0xC0,
            },
        ),
        (
            &[0xB3, b'P', 0x90, 0x90, 0x90],
            DecodeError::BadPath(BadPath::NoNode),
        ),
        (
            &[0xB3, b'X', 0x01, 0x01, 0x01],
            DecodeError::WrongType {
                expected: Kind::Float,
                found: 0x01,
            },
        ),
    ];
    for (bytes, error) in cases {
        assert_eq!(decoded(bytes), Err(error), "{bytes:02x?}");
    }
}

#[test]
fn a_claimed_size_beyond_the_input_is_refused_before_anything_is_read() {
    for marker in [0xCE, 0xD2, 0xD6, 0xDA] {
        assert_eq!(
            decoded(&[marker, 0xFF, 0xFF, 0xFF, 0xFF, 0x00]),
            Err(DecodeError::Truncated)
        );
    }
}

#[test]
fn the_limit_on_depth_is_exact() {
    let nested = |depth: usize| [vec![0x91; depth], vec![0xC0]].concat();
    let limits = Limits {
        depth: 8,
        values: 100,
    };
    assert!(decode(&nested(8), limits).is_ok());
    assert_eq!(decode(&nested(9), limits), Err(DecodeError::TooDeep(8)));
    let siblings = Value::List(vec![Value::List(vec![Value::List(vec![])]); 20]);
    assert!(decode(&encoded(&siblings), limits).is_ok(), "wide is not deep");
    // Even the largest limit keeps the stack safe.
    let limits = Limits {
        depth: u8::MAX,
        values: usize::MAX,
    };
    assert_eq!(
        decode(&nested(1_000_000), limits),
        Err(DecodeError::TooDeep(u8::MAX))
    );
}

#[test]
fn the_limit_on_values_counts_nested_ones_and_holds_before_they_are_read() {
    let limits = Limits { depth: 8, values: 4 };
    assert!(decode(&[0x92, 0x92, 0xC0, 0xC0, 0xC0], limits).is_ok());
    assert_eq!(
        decode(&[0x93, 0x92, 0xC0, 0xC0, 0xC0, 0xC0], limits),
        Err(DecodeError::TooManyValues(4))
    );
}

#[test]
fn a_value_nested_deeper_than_any_decoder_follows_is_not_encoded() {
    let mut value = Value::Null;
    for _ in 0..255 {
        value = Value::List(vec![value]);
    }
    assert!(encode(&value, &mut Vec::new()).is_ok());
    let value = Value::List(vec![value]);
    assert_eq!(encode(&value, &mut Vec::new()), Err(EncodeError::TooDeep));
}

#[test]
fn a_path_whose_indices_point_nowhere_is_not_a_path() {
    let path = |indices: &[i64]| Path::new(vec![node(None)], vec![unbound(None)], indices.to_vec());
    assert!(path(&[]).is_ok());
    assert!(path(&[1, 0, -1, 0]).is_ok());
    assert_eq!(path(&[1]), Err(BadPath::OddIndices));
    assert_eq!(path(&[0, 0]), Err(BadPath::IndexOutOfRange(0)));
    assert_eq!(path(&[2, 0]), Err(BadPath::IndexOutOfRange(2)));
    assert_eq!(path(&[i64::MIN, 0]), Err(BadPath::IndexOutOfRange(i64::MIN)));
    assert_eq!(path(&[1, 1]), Err(BadPath::IndexOutOfRange(1)));
    assert_eq!(path(&[1, -1]), Err(BadPath::IndexOutOfRange(-1)));
}
