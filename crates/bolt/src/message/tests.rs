use super::*;
use crate::packstream::{Dict, Kind, Limits, Value, dict};
use std::borrow::Cow;

const ALL: [Version; 9] = [
    Version::V1_0,
    Version::V4_0,
    Version::V4_1,
    Version::V4_3,
    Version::V4_4,
    Version::V5_0,
    Version::V5_1,
    Version::V5_2,
    Version::V5_4,
];

fn encoded(version: Version, request: &Request<'_>) -> Result<Vec<u8>, MessageError> {
    let mut out = Vec::new();
    request.encode(version, &mut out)?;
    Ok(out)
}

fn parsed(version: Version, payload: &[u8]) -> Result<Request<'_>, MessageError> {
    Request::parse(version, payload, Limits::DEFAULT)
}

/// The version a request first appears in, and the one after the last it appears in.
fn every_request() -> Vec<(Request<'static>, Version, Version)> {
    let end = Version::new(9, 0);
    let hello = |auth| Hello {
        user_agent: Cow::Borrowed("test/1"),
        auth,
        extra: dict([("patch_bolt", Value::List(vec![Value::from("utc")]))]),
    };
    let run = Run::new("RETURN $x").with("x", 1);
    let page = Fetch {
        amount: Amount::AtMost(2),
        qid: Some(Qid(0)),
    };
    let route = |target| {
        Request::Route(Route {
            context: dict([("address", Value::from("x:7687"))]),
            bookmarks: vec![Cow::Borrowed("b")],
            target,
        })
    };
    let extra = Extra(dict([
        ("mode", Value::from("r")),
        ("db", Value::from("memgraph")),
    ]));
    let first = Version::V1_0;
    vec![
        (Request::Hello(hello(Some(Auth::None))), first, Version::V5_1),
        (
            Request::Hello(hello(Some(Auth::basic("a", "b")))),
            first,
            Version::V5_1,
        ),
        (Request::Hello(hello(None)), Version::V5_1, end),
        (Request::Logon(Auth::basic("a", "b")), Version::V5_1, end),
        (
            Request::Logon(Auth::Custom {
                scheme: "saml".into(),
                entries: dict([("credentials", Value::from("t"))]),
            }),
            Version::V5_1,
            end,
        ),
        (Request::Logoff, Version::V5_1, end),
        (Request::Goodbye, Version::V4_0, end),
        (Request::Reset, first, end),
        (Request::AckFailure, first, Version::V4_0),
        (Request::Run(run.clone()), first, end),
        (
            Request::Run(Run {
                extra: extra.clone(),
                ..run
            }),
            Version::V4_0,
            end,
        ),
        (Request::Begin(extra.clone()), Version::V4_0, end),
        (Request::Commit, Version::V4_0, end),
        (Request::Rollback, Version::V4_0, end),
        (Request::Pull(Fetch::ALL), first, end),
        (Request::Discard(Fetch::ALL), first, end),
        (Request::Pull(page), Version::V4_0, end),
        (Request::Discard(page), Version::V4_0, end),
        (route(RouteTarget::Default), Version::V4_3, end),
        (
            route(RouteTarget::Database("memgraph".into())),
            Version::V4_3,
            end,
        ),
        (route(RouteTarget::Extra(extra)), Version::V4_3, end),
        (Request::Telemetry(1), Version::V5_4, end),
    ]
}

#[test]
fn every_request_survives_a_round_trip_in_every_version_that_has_it() {
    for (request, from, until) in every_request() {
        for version in ALL.into_iter().filter(|version| (from..until).contains(version)) {
            let bytes = encoded(version, &request).unwrap();
            assert_eq!(parsed(version, &bytes).as_ref(), Ok(&request), "{version}");
            assert_eq!(parsed(version, &bytes).unwrap().into_owned(), request);
        }
    }
}

#[test]
fn a_request_the_version_does_not_have_is_neither_written_nor_read() {
    let cases = [
        (Request::Logoff, Version::V5_1, Version::V4_4),
        (Request::Logon(Auth::None), Version::V5_1, Version::V5_0),
        (Request::Goodbye, Version::V4_0, Version::V1_0),
        (Request::Commit, Version::V4_0, Version::V1_0),
        (Request::AckFailure, Version::V1_0, Version::V4_0),
        (Request::Telemetry(1), Version::V5_4, Version::V5_2),
        (
            Request::Route(Route {
                context: Dict::new(),
                bookmarks: vec![],
                target: RouteTarget::Default,
            }),
            Version::V4_3,
            Version::V4_1,
        ),
    ];
    for (request, has, has_not) in cases {
        let bytes = encoded(has, &request).unwrap();
        let error = MessageError::UnknownRequest {
            tag: request.tag(),
            version: has_not,
        };
        assert_eq!(encoded(has_not, &request), Err(error));
        assert_eq!(parsed(has_not, &bytes), Err(error));
    }
    let page = Request::Pull(Fetch {
        amount: Amount::AtMost(1),
        qid: None,
    });
    assert!(encoded(Version::V1_0, &page).is_err(), "version 1 knows no pages");
}

#[test]
fn requests_look_on_the_wire_as_specified() {
    let version = Version::V5_2;
    assert_eq!(encoded(version, &Request::Reset).unwrap(), [0xB0, 0x0F]);
    assert_eq!(encoded(version, &Request::Goodbye).unwrap(), [0xB0, 0x02]);
    assert_eq!(
        encoded(version, &Request::Pull(Fetch::ALL)).unwrap(),
        b"\xB1\x3F\xA1\x81n\xFF"
    );
    assert_eq!(
        encoded(Version::V1_0, &Request::Pull(Fetch::ALL)).unwrap(),
        [0xB0, 0x3F]
    );
    assert_eq!(
        encoded(version, &Request::Run(Run::new("RETURN 1"))).unwrap(),
        b"\xB3\x10\x88RETURN 1\xA0\xA0"
    );
    assert_eq!(
        encoded(version, &Request::Logon(Auth::None)).unwrap(),
        b"\xB1\x6A\xA1\x86scheme\x84none"
    );
    let mut framed = Vec::new();
    Request::Reset.frame(version, &mut framed).unwrap();
    assert_eq!(framed, [0, 2, 0xB0, 0x0F, 0, 0]);
}

#[test]
fn missing_names_and_passwords_are_empty_and_a_missing_scheme_is_none() {
    let logon = |payload: &'static [u8]| parsed(Version::V5_2, payload);
    assert_eq!(logon(b"\xB1\x6A\xA0"), Ok(Request::Logon(Auth::None)));
    assert_eq!(
        logon(b"\xB1\x6A\xA1\x86scheme\x85basic"),
        Ok(Request::Logon(Auth::basic("", "")))
    );
    assert_eq!(
        logon(b"\xB1\x6A\xA1\x86scheme\x01"),
        Err(MessageError::BadEntry {
            tag: tag::LOGON,
            entry: "scheme"
        })
    );
}

#[test]
fn hello_without_a_user_agent_is_refused() {
    let error = MessageError::BadEntry {
        tag: tag::HELLO,
        entry: "user_agent",
    };
    assert_eq!(parsed(Version::V5_2, b"\xB1\x01\xA0"), Err(error));
    assert_eq!(
        parsed(Version::V4_3, b"\xB1\x01\xA1\x8Auser_agent\x01"),
        Err(error)
    );
}

#[test]
fn a_page_is_all_records_unless_it_says_otherwise_and_never_negative() {
    let pull = |payload: &'static [u8]| parsed(Version::V4_4, payload);
    assert_eq!(pull(b"\xB1\x3F\xA0"), Ok(Request::Pull(Fetch::ALL)));
    assert_eq!(
        pull(b"\xB1\x3F\xA2\x81n\xFF\x83qid\xFF"),
        Ok(Request::Pull(Fetch::ALL))
    );
    let bad = |entry| {
        Err(MessageError::BadEntry {
            tag: tag::PULL,
            entry,
        })
    };
    assert_eq!(pull(b"\xB1\x3F\xA1\x81n\xFE"), bad("n"));
    assert_eq!(pull(b"\xB1\x3F\xA2\x81n\x01\x83qid\xC0"), bad("qid"));
}

#[test]
fn a_message_with_too_few_too_many_or_wrong_fields_is_refused() {
    let version = Version::V4_4;
    assert_eq!(
        parsed(version, b"\xB2\x10\x80\xA0"),
        Err(MessageError::WrongFields {
            tag: tag::RUN,
            fields: 2
        })
    );
    assert_eq!(
        parsed(version, b"\xB0\x0F\x00"),
        Err(MessageError::Decode(DecodeError::Trailing(1)))
    );
    let long_form = DecodeError::WrongType {
        expected: Kind::Structure,
        found: 0xDC,
    };
    assert_eq!(
        parsed(version, b"\xDC\x00\x0F"),
        Err(MessageError::Decode(long_form))
    );
    let error = DecodeError::WrongType {
        expected: Kind::String,
        found: 0x01,
    };
    assert_eq!(
        parsed(version, b"\xB3\x10\x01\xA0\xA0"),
        Err(MessageError::Decode(error))
    );
    assert_eq!(
        parsed(version, b"\xB0\x55"),
        Err(MessageError::UnknownRequest { tag: 0x55, version })
    );
    assert_eq!(
        Response::parse(b"\xB0\x70", Limits::DEFAULT),
        Err(MessageError::WrongFields { tag: 0x70, fields: 0 })
    );
    assert_eq!(
        Response::parse(b"\xB0\x10", Limits::DEFAULT),
        Err(MessageError::UnknownResponse(0x10))
    );
}

#[test]
fn every_response_survives_a_round_trip() {
    let responses = [
        Response::Success(dict([("fields", Value::List(vec![Value::from("x")]))])),
        Response::Record(vec![Value::Int(1), Value::Null]),
        Response::Ignored,
        Response::Failure(Failure::UNAUTHENTICATED),
    ];
    for response in responses {
        let mut bytes = Vec::new();
        response.encode(&mut bytes).unwrap();
        assert_eq!(Response::parse(&bytes, Limits::DEFAULT), Ok(response));
    }
    assert_eq!(
        Response::parse(b"\xB1\x7E\xA0", Limits::DEFAULT),
        Ok(Response::Ignored)
    );
}

#[test]
fn failures_have_the_class_their_code_says() {
    assert_eq!(Failure::client("x").class(), FailureClass::Client);
    assert_eq!(Failure::transient("x").class(), FailureClass::Transient);
    assert_eq!(Failure::UNEXPECTED.class(), FailureClass::Other);
    assert_eq!(Failure::NOT_IN_A_CLUSTER.class(), FailureClass::Transient);
    let database = Failure::new("Memgraph.DatabaseError.MemgraphError.MemgraphError", "x");
    assert_eq!(database.class(), FailureClass::Database);
}

#[test]
fn credentials_do_not_show_in_debug_output() {
    let hello = Hello {
        user_agent: "x".into(),
        auth: Some(Auth::basic("alice", "hunter2")),
        extra: Dict::new(),
    };
    let shown = format!("{:?}", Request::Hello(hello));
    assert!(shown.contains("alice") && !shown.contains("hunter2"), "{shown}");
    let custom = Auth::Custom {
        scheme: "sso".into(),
        entries: dict([("credentials", Value::from("hunter2"))]),
    };
    assert!(!format!("{custom:?}").contains("hunter2"));
}

#[test]
fn a_routing_table_names_writers_readers_and_routers() {
    let table = RoutingTable {
        ttl: std::time::Duration::from_secs(5),
        database: "memgraph".to_owned(),
        writers: vec!["w:7687".to_owned()],
        readers: vec!["r:7687".to_owned(), "s:7687".to_owned()],
        routers: vec![],
    };
    let server = |role: &'static str, addresses: &[&'static str]| {
        let addresses = addresses.iter().map(|address| Value::from(*address)).collect();
        Value::Dict(dict([
            ("addresses", Value::List(addresses)),
            ("role", Value::from(role)),
        ]))
    };
    let servers = vec![
        server("WRITE", &["w:7687"]),
        server("READ", &["r:7687", "s:7687"]),
        server("ROUTE", &[]),
    ];
    let table_dict = dict([
        ("ttl", Value::Int(5)),
        ("db", Value::from("memgraph")),
        ("servers", Value::List(servers)),
    ]);
    assert_eq!(table.into_metadata(), dict([("rt", Value::Dict(table_dict))]));
}
