//! The properties, for random input.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "clippy knows tests by their attribute, and helpers have none"
)]

#[path = "properties/mod.rs"]
mod properties;

use bolt::message::{
    Amount, Auth, Extra, Failure, Fetch, Hello, Qid, Request, Response, Route, RouteTarget, Run,
};
use bolt::packstream::{
    Date, DateTime, DateTimeZoneId, Dict, Limits, Node, OwnedValue, Path, Point2D, Relationship,
    RelationshipElementIds, Structure, UnboundRelationship, Value, decode, encode,
};
use bolt::version::Version;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::borrow::Cow;

fn config() -> ProptestConfig {
    // The inputs are small and the code is fast; more cases are the fuzzer's business.
    ProptestConfig {
        cases: 500,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn text() -> impl Strategy<Value = Cow<'static, str>> {
    "[a-zäß]{0,20}".prop_map(Cow::Owned)
}

fn dict() -> impl Strategy<Value = Dict<'static>> {
    btree_map(text(), any::<i64>().prop_map(Value::Int), 0..4)
}

fn node() -> impl Strategy<Value = Node<'static>> {
    (
        any::<i64>(),
        vec(text(), 0..3),
        dict(),
        proptest::option::of(text()),
    )
        .prop_map(|(id, labels, properties, element_id)| Node {
            id,
            labels,
            properties,
            element_id,
        })
}

fn structure() -> impl Strategy<Value = Structure<'static>> {
    let unbound = || {
        (any::<i64>(), text(), dict(), proptest::option::of(text())).prop_map(
            |(id, kind, properties, element_id)| UnboundRelationship {
                id,
                kind,
                properties,
                element_id,
            },
        )
    };
    let element_ids =
        (text(), text(), text()).prop_map(|(id, start, end)| RelationshipElementIds { id, start, end });
    let relationship = (
        any::<[i64; 3]>(),
        text(),
        dict(),
        proptest::option::of(element_ids),
    )
        .prop_map(|([id, start, end], kind, properties, element_ids)| {
            Structure::Relationship(Relationship {
                id,
                start,
                end,
                kind,
                properties,
                element_ids,
            })
        });
    let path = (vec(node(), 1..3), vec(unbound(), 1..3)).prop_map(|(nodes, relationships)| {
        let last = i64::try_from(nodes.len()).unwrap() - 1;
        Structure::Path(Path::new(nodes, relationships, vec![1, last, -1, 0]).unwrap())
    });
    prop_oneof![
        node().prop_map(Structure::Node),
        relationship,
        unbound().prop_map(Structure::UnboundRelationship),
        path,
        any::<i64>().prop_map(|days| Structure::Date(Date { days })),
        any::<[i64; 3]>().prop_map(|[seconds, nanoseconds, offset_seconds]| {
            Structure::DateTime(DateTime {
                seconds,
                nanoseconds,
                offset_seconds,
            })
        }),
        (any::<[i64; 2]>(), text()).prop_map(|([seconds, nanoseconds], zone)| {
            Structure::DateTimeZoneId(DateTimeZoneId {
                seconds,
                nanoseconds,
                zone,
            })
        }),
        any::<(i64, f64, f64)>().prop_map(|(srid, x, y)| Structure::Point2D(Point2D { srid, x, y })),
    ]
}

fn value() -> impl Strategy<Value = OwnedValue> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<i16>().prop_map(|number| Value::Int(i64::from(number))),
        any::<f64>().prop_map(Value::Float),
        text().prop_map(Value::String),
        vec(any::<u8>(), 0..20).prop_map(|bytes| Value::Bytes(Cow::Owned(bytes))),
        structure().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Value::List),
            btree_map(text(), inner, 0..8).prop_map(Value::Dict),
        ]
    })
}

fn requests() -> [Request<'static>; 12] {
    let hello = Hello {
        user_agent: "x".into(),
        auth: Some(Auth::None),
        extra: Dict::new(),
    };
    let page = Fetch {
        amount: Amount::AtMost(2),
        qid: Some(Qid(1)),
    };
    let route = Route {
        context: Dict::new(),
        bookmarks: vec![],
        target: RouteTarget::Default,
    };
    [
        Request::Hello(hello),
        Request::Logon(Auth::basic("a", "b")),
        Request::Logoff,
        Request::Reset,
        Request::Run(Run::new("RETURN 1")),
        Request::Begin(Extra::default()),
        Request::Commit,
        Request::Rollback,
        Request::Pull(Fetch::ALL),
        Request::Pull(page),
        Request::Discard(page),
        Request::Route(route),
    ]
}

fn responses() -> [Response<'static>; 5] {
    [
        Response::Success(Dict::new()),
        Response::Success(Dict::from([("has_more".into(), Value::Bool(true))])),
        Response::Record(vec![Value::Int(1)]),
        Response::Ignored,
        Response::Failure(Failure::client("no")),
    ]
}

/// Bytes with a few of them changed: mostly sense, with mistakes in it.
fn spoilt(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (bytes, vec((any::<prop::sample::Index>(), any::<u8>()), 0..3)).prop_map(|(mut bytes, changes)| {
        for (at, byte) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        bytes
    })
}

/// A version byte for 5.2 or 4.4, and a conversation of requests.
fn conversation() -> impl Strategy<Value = Vec<u8>> {
    let requests = vec(prop::sample::select(requests().to_vec()), 0..12);
    (any::<bool>(), requests).prop_map(|(newer, requests)| {
        let (first, version) = if newer {
            (7, Version::V5_2)
        } else {
            (4, Version::V4_4)
        };
        let mut bytes = vec![first];
        for request in requests {
            // What the version does not have is left out.
            request.frame(version, &mut bytes).ok();
        }
        bytes
    })
}

/// A version byte and segments of responses, as `client_session` wants them.
fn answers() -> impl Strategy<Value = Vec<u8>> {
    (
        any::<bool>(),
        vec(prop::sample::select(responses().to_vec()), 0..16),
    )
        .prop_map(|(newer, responses)| {
            let mut bytes = vec![if newer { 7 } else { 4 }];
            for response in responses {
                let mut message = Vec::new();
                response.encode(&mut message).unwrap();
                bytes.push(u8::try_from(message.len()).unwrap());
                bytes.extend(message);
            }
            bytes
        })
}

fn noise() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..200)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn framing_does_not_depend_on_how_a_stream_is_cut(
        noise in noise(),
        // Small sizes make chunks end inside the input.
        chunks in spoilt(vec((0_u8..6).prop_map(|size| [0, size]), 0..80).prop_map(|pairs| pairs.concat())),
    ) {
        properties::framing(&noise);
        properties::framing(&chunks);
    }

    #[test]
    fn any_value_survives_a_round_trip(value in value()) {
        let mut bytes = Vec::new();
        encode(&value, &mut bytes).unwrap();
        let decoded = decode(&bytes, Limits::DEFAULT).unwrap();
        prop_assert_eq!(&decoded, &value);
        prop_assert_eq!(&decoded.into_owned(), &value);
    }

    #[test]
    fn any_bytes_decode_to_the_same_value_again_or_not_at_all(
        noise in noise(),
        spoilt in spoilt(value().prop_map(|value| {
            let mut bytes = Vec::new();
            encode(&value, &mut bytes).unwrap();
            bytes
        })),
    ) {
        properties::packstream(&noise);
        properties::packstream(&spoilt);
    }

    #[test]
    fn any_message_is_the_same_again_or_refused(
        noise in noise(),
        version in any::<u8>(),
        request in spoilt(prop::sample::select(requests().to_vec()).prop_map(|request| {
            let mut bytes = Vec::new();
            request.encode(Version::V5_2, &mut bytes).unwrap();
            bytes
        })),
        response in spoilt(prop::sample::select(responses().to_vec()).prop_map(|response| {
            let mut bytes = Vec::new();
            response.encode(&mut bytes).unwrap();
            bytes
        })),
    ) {
        properties::messages(&noise);
        properties::messages(&[vec![version], request].concat());
        properties::messages(&[vec![version], response].concat());
    }

    #[test]
    fn a_handshake_does_not_depend_on_how_it_is_cut(
        noise in noise(),
        slots in vec(any::<[u8; 4]>(), 4..6),
        known in vec((0_u8..5, 0_u8..9, 0_u8..6).prop_map(|(older, minor, major)| [0, older, minor, major]), 4),
    ) {
        properties::handshake(&noise);
        properties::handshake(&[vec![bolt::handshake::MAGIC], slots].concat().concat());
        properties::handshake(&[vec![bolt::handshake::MAGIC], known].concat().concat());
    }

    #[test]
    fn a_server_answers_the_same_however_the_stream_is_cut(noise in noise(), talk in spoilt(conversation())) {
        properties::server_session(&noise);
        properties::server_session(&talk);
    }

    #[test]
    fn a_client_understands_the_same_however_the_stream_is_cut(noise in noise(), talk in spoilt(answers())) {
        properties::client_session(&noise);
        properties::client_session(&talk);
    }
}
