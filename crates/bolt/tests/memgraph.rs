//! What real servers said, played against the server session.
//!
//! Recorded from Memgraph 3.6.2 and 3.12.0 with a raw client. Where the two
//! differ, both are here. "From the source" marks what was not recorded.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "clippy knows tests by their attribute, and helpers have none"
)]

use bolt::frame::Assembler;
use bolt::handshake::{HandshakeError, Proposal, Proposals, VersionRange};
use bolt::message::{Amount, Auth, Extra, Failure, Fetch, Hello, Request, Response, Route, RouteTarget, Run};
use bolt::packstream::{Dict, Limits, Value};
use bolt::server::{Event, ServerConfig, ServerInput, ServerOutput, ServerProfile, ServerSession};
use bolt::time::Moment;
use bolt::version::Version;
use std::collections::VecDeque;

/// What both releases send to a client whose handshake leads nowhere.
const REFUSAL: &[u8] = b"\x00\x86\xB1\x7F\xA2\x84code\xD0\x1BMemgraph.ExecutionException\
    \x87message\xD0\x57Something went wrong while executing the query! \
    Check the server logs for more details.\x00\x00";

const GREETING: &str = "SUCCESS {connection_id: bolt-1, \
    server: Neo4j/v5.11.0 compatible graph database server - Memgraph}";
const REFUSED: &str = "FAILURE Memgraph.ExecutionException: Something went wrong while executing the query! \
    Check the server logs for more details.";
const NO_CLUSTER: &str = "FAILURE Memgraph.TransientError.MemgraphError.MemgraphError: \
    You cannot fetch routing table from an instance which is not part of a cluster.";
const CLIENT_ERROR: &str = "FAILURE Memgraph.ClientError.MemgraphError.MemgraphError: ";
const CLOSED: &str = "closed";

/// A server that knows a handful of queries.
struct Server {
    session: ServerSession,
    version: Version,
    rows: VecDeque<i64>,
    query: String,
}

impl Server {
    fn connect(profile: ServerProfile, version: Version) -> Self {
        let mut session = ServerSession::new(ServerConfig::new(profile), Moment::START);
        session.handle(
            Moment::START,
            ServerInput::Bytes(&Proposals::only(version).to_bytes()),
        );
        let answer = vec![0, 0, version.minor, version.major];
        assert_eq!(session.poll(), Some(ServerOutput::Transmit(answer)), "{version}");
        Self {
            session,
            version,
            rows: VecDeque::new(),
            query: String::new(),
        }
    }

    /// Connected and logged in.
    fn ready(profile: ServerProfile, version: Version) -> Self {
        let mut server = Self::connect(profile, version);
        assert_eq!(server.say(&hello(version)), [GREETING]);
        if version.has_logon() {
            assert_eq!(server.say(&Request::Logon(Auth::None)), [GREETING]);
        }
        server
    }

    fn say(&mut self, request: &Request<'_>) -> Vec<String> {
        let mut bytes = Vec::new();
        request.frame(self.version, &mut bytes).unwrap();
        self.bytes(&bytes)
    }

    fn run(&mut self, query: &str) -> Vec<String> {
        self.say(&Request::Run(Run::new(query)))
    }

    fn pull(&mut self) -> Vec<String> {
        self.say(&Request::Pull(Fetch::ALL))
    }

    fn bytes(&mut self, bytes: &[u8]) -> Vec<String> {
        self.session.handle(Moment::START, ServerInput::Bytes(bytes));
        let (mut sent, mut closed) = (Vec::new(), false);
        while let Some(output) = self.session.poll() {
            match output {
                ServerOutput::Transmit(bytes) => sent.extend(bytes),
                ServerOutput::Event(event) => self.carry_out(event),
                ServerOutput::Close => closed = true,
            }
        }
        let (mut input, mut assembler, mut seen) = (sent.as_slice(), Assembler::new(1 << 20), Vec::new());
        while let Some(message) = assembler.next(&mut input).unwrap() {
            seen.push(show_response(&Response::parse(message, Limits::DEFAULT).unwrap()));
        }
        if closed {
            seen.push(CLOSED.to_owned());
        }
        seen
    }

    fn carry_out(&mut self, event: Event) {
        let session = &mut self.session;
        match event {
            Event::Connected(_) | Event::LoggedOff | Event::Left => return,
            Event::Login(_) => session.accept(),
            Event::Run {
                run,
                in_transaction: _,
            } => {
                self.query = run.query.into_owned();
                match self.query.as_str() {
                    "NOT CYPHER" => session.fail(&Failure::client("Error on line 1 position 1.")),
                    "UNWIND range(1,5) AS x RETURN x" => {
                        self.rows = (1..=5).collect();
                        session.run_started(&["x"])
                    }
                    "RETURN 1 AS x" => {
                        self.rows = VecDeque::from([1]);
                        session.run_started(&["x"])
                    }
                    _ => session.run_started(&[]),
                }
            }
            Event::Pull(Fetch { amount, qid: _ }) => self.fetch(amount, true),
            Event::Discard(Fetch { amount, qid: _ }) => self.fetch(amount, false),
            Event::Begin(_) | Event::Commit | Event::Rollback => session.done(Dict::new()),
            Event::Reset => {
                self.rows.clear();
                session.done(Dict::new())
            }
            Event::Route(_) => session.fail(&Failure::NOT_IN_A_CLUSTER),
        }
        .unwrap();
    }

    fn fetch(&mut self, amount: Amount, send: bool) -> Result<(), bolt::server::ReplyError> {
        match self.query.as_str() {
            "RETURN 1/0" => {
                return self
                    .session
                    .fail(&Failure::client("Invalid types: int and int for '/'."));
            }
            "BEGIN" => self.session.set_in_transaction(true),
            "COMMIT" => self.session.set_in_transaction(false),
            _ => {}
        }
        let count = match amount {
            Amount::All => self.rows.len(),
            Amount::AtMost(count) => self.rows.len().min(usize::try_from(count).unwrap()),
        };
        for row in self.rows.drain(..count).filter(|_| send) {
            self.session.record(&[Value::Int(row)]).unwrap();
        }
        self.session.fetched(!self.rows.is_empty(), Dict::new())
    }
}

fn hello(version: Version) -> Request<'static> {
    let auth = (!version.has_logon()).then_some(Auth::None);
    Request::Hello(Hello {
        user_agent: "recorder/1".into(),
        auth,
        extra: Dict::new(),
    })
}

fn show_response(response: &Response<'_>) -> String {
    match response {
        Response::Success(metadata) => format!("SUCCESS {}", show(&Value::Dict(metadata.clone()))),
        Response::Record(values) => format!("RECORD {}", show(&Value::List(values.clone()))),
        Response::Ignored => "IGNORED".to_owned(),
        Response::Failure(Failure { code, message }) => format!("FAILURE {code}: {message}"),
    }
}

fn show(value: &Value<'_>) -> String {
    match value {
        Value::Dict(dict) => {
            let entries: Vec<String> = dict
                .iter()
                .map(|(key, value)| format!("{key}: {}", show(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::List(values) => format!("[{}]", values.iter().map(show).collect::<Vec<_>>().join(", ")),
        Value::String(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        other => format!("{other:?}"),
    }
}

fn route(target: RouteTarget<'static>) -> Request<'static> {
    Request::Route(Route {
        context: Dict::new(),
        bookmarks: vec![],
        target,
    })
}

const OLD: ServerProfile = ServerProfile::MEMGRAPH_3_6;
const NEW: ServerProfile = ServerProfile::MEMGRAPH_3_12;

fn both() -> impl Iterator<Item = Server> {
    [OLD, NEW]
        .into_iter()
        .map(|profile| Server::ready(profile, Version::V5_2))
}

fn refusal_of(profile: ServerProfile, bytes: &[u8]) -> Vec<ServerOutput> {
    let mut session = ServerSession::new(ServerConfig::new(profile), Moment::START);
    session.handle(Moment::START, ServerInput::Bytes(bytes));
    std::iter::from_fn(|| session.poll()).collect()
}

#[test]
fn a_handshake_that_leads_nowhere_is_refused_with_the_recorded_bytes() {
    let unknown = [Version::new(2, 0), Version::new(5, 4), Version::new(9, 0)];
    let mut handshakes: Vec<Vec<u8>> = unknown
        .into_iter()
        .map(|version| Proposals::only(version).to_bytes().to_vec())
        .collect();
    handshakes.push(Proposals([Proposal::Nothing; 4]).to_bytes().to_vec());
    handshakes.push(vec![
        0x60, 0x60, 0xB0, 0x18, 0, 0, 2, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    handshakes.push(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec());
    let refused = [
        ServerOutput::Transmit(REFUSAL.to_vec()),
        ServerOutput::Event(Event::Left),
        ServerOutput::Close,
    ];
    for handshake in handshakes {
        assert_eq!(refusal_of(OLD, &handshake), refused, "{handshake:02x?}");
        assert_eq!(refusal_of(NEW, &handshake), refused, "{handshake:02x?}");
    }
    let only_4_4 = Proposals::only(Version::V4_4).to_bytes();
    assert_eq!(refusal_of(OLD, &only_4_4), refused);
    assert_ne!(refusal_of(NEW, &only_4_4), refused);
}

#[test]
fn the_recorded_refusal_is_understood_by_the_client() {
    let mut handshake = bolt::handshake::ClientHandshake::new(Proposals::MEMGRAPH);
    let mut input = REFUSAL;
    assert_eq!(handshake.read(&mut input), Err(HandshakeError::NoCommonVersion));
    let mut input = REFUSAL;
    let mut assembler = Assembler::new(1024);
    let message = assembler.next(&mut input).unwrap().unwrap();
    assert_eq!(
        Response::parse(message, Limits::DEFAULT),
        Ok(Response::Failure(Failure::UNEXPECTED))
    );
}

#[test]
fn a_range_gets_the_newest_version_the_release_has() {
    let range = Proposal::Versions(VersionRange::new(Version::V4_4, 2));
    let proposals = Proposals([Proposal::Manifest, range, Proposal::Nothing, Proposal::Nothing]);
    let answer = |profile| refusal_of(profile, &proposals.to_bytes()).into_iter().next();
    assert_eq!(answer(OLD), Some(ServerOutput::Transmit(vec![0, 0, 3, 4])));
    assert_eq!(answer(NEW), Some(ServerOutput::Transmit(vec![0, 0, 4, 4])));
}

#[test]
fn a_query_is_answered_in_every_version() {
    for version in [
        Version::V1_0,
        Version::V4_0,
        Version::V4_1,
        Version::V4_3,
        Version::V5_2,
    ] {
        let mut server = Server::ready(OLD, version);
        assert_eq!(server.run("RETURN 1 AS x"), ["SUCCESS {fields: [x]}"]);
        assert_eq!(server.pull(), ["RECORD [1]", "SUCCESS {has_more: false}"]);
    }
}

#[test]
fn hello_without_a_user_agent_ends_the_connection() {
    let mut server = Server::connect(OLD, Version::V5_2);
    assert_eq!(server.bytes(b"\x00\x03\xB1\x01\xA0\x00\x00"), [REFUSED, CLOSED]);
}

#[test]
fn records_are_given_in_pages_or_dropped() {
    for mut server in both() {
        let two = Request::Pull(Fetch {
            amount: Amount::AtMost(2),
            qid: None,
        });
        assert_eq!(
            server.run("UNWIND range(1,5) AS x RETURN x"),
            ["SUCCESS {fields: [x]}"]
        );
        assert_eq!(
            server.say(&two),
            ["RECORD [1]", "RECORD [2]", "SUCCESS {has_more: true}"]
        );
        assert_eq!(
            server.say(&two),
            ["RECORD [3]", "RECORD [4]", "SUCCESS {has_more: true}"]
        );
        assert_eq!(server.say(&two), ["RECORD [5]", "SUCCESS {has_more: false}"]);

        assert_eq!(
            server.run("UNWIND range(1,5) AS x RETURN x"),
            ["SUCCESS {fields: [x]}"]
        );
        assert_eq!(
            server.say(&Request::Discard(Fetch::ALL)),
            ["SUCCESS {has_more: false}"]
        );
        assert_eq!(server.run("RETURN 2"), ["SUCCESS {fields: []}"]);
    }
}

#[test]
fn after_a_failure_everything_is_ignored_until_reset() {
    for mut server in both() {
        assert_eq!(
            server.run("NOT CYPHER"),
            [format!("{CLIENT_ERROR}Error on line 1 position 1.")]
        );
        assert_eq!(server.pull(), ["IGNORED"]);
        assert_eq!(server.run("RETURN 1 AS x"), ["IGNORED"]);
        assert_eq!(server.say(&Request::Commit), ["IGNORED"]);
        assert_eq!(server.say(&Request::Goodbye), ["IGNORED"], "even this");
        assert_eq!(server.say(&Request::Reset), ["SUCCESS {}"]);
        assert_eq!(server.run("RETURN 1/0"), ["SUCCESS {fields: []}"]);
        assert_eq!(
            server.pull(),
            [format!("{CLIENT_ERROR}Invalid types: int and int for '/'.")]
        );
        assert_eq!(server.say(&Request::Reset), ["SUCCESS {}"]);
        assert_eq!(server.run("RETURN 1 AS x"), ["SUCCESS {fields: [x]}"]);
    }
}

#[test]
fn transactions_number_their_queries() {
    for mut server in both() {
        assert_eq!(server.say(&Request::Begin(Extra::default())), ["SUCCESS {}"]);
        assert_eq!(server.run("CREATE (:T)"), ["SUCCESS {fields: [], qid: 0}"]);
        assert_eq!(server.pull(), ["SUCCESS {has_more: false}"]);
        assert_eq!(server.run("CREATE (:T)"), ["SUCCESS {fields: [], qid: 1}"]);
        assert_eq!(server.pull(), ["SUCCESS {has_more: false}"]);
        assert_eq!(server.say(&Request::Commit), ["SUCCESS {}"]);

        assert_eq!(server.say(&Request::Begin(Extra::default())), ["SUCCESS {}"]);
        assert_eq!(server.run("CREATE (:T)"), ["SUCCESS {fields: [], qid: 0}"]);
        assert_eq!(server.pull(), ["SUCCESS {has_more: false}"]);
        assert_eq!(server.say(&Request::Rollback), ["SUCCESS {}"]);
        assert!(!server.session.in_transaction());
    }
}

#[test]
fn begin_and_commit_work_as_queries_and_count_as_such() {
    for mut server in both() {
        // Earlier queries do not count.
        server.run("RETURN 1 AS x");
        server.pull();
        assert_eq!(server.run("BEGIN"), ["SUCCESS {fields: []}"]);
        assert_eq!(server.pull(), ["SUCCESS {has_more: false}"]);
        assert_eq!(server.run("CREATE (:T)"), ["SUCCESS {fields: [], qid: 1}"]);
        assert_eq!(server.pull(), ["SUCCESS {has_more: false}"]);
        assert_eq!(server.run("COMMIT"), ["SUCCESS {fields: [], qid: 2}"]);
        assert_eq!(server.pull(), ["SUCCESS {has_more: false}"]);
        assert_eq!(server.run("RETURN 1 AS x"), ["SUCCESS {fields: [x]}"]);
    }
}

#[test]
fn reset_in_a_transaction_ends_it() {
    for mut server in both() {
        server.say(&Request::Begin(Extra::default()));
        server.run("CREATE (:T)");
        server.pull();
        assert_eq!(server.say(&Request::Reset), ["SUCCESS {}"]);
        assert_eq!(server.run("RETURN 1 AS x"), ["SUCCESS {fields: [x]}"]);
    }
}

#[test]
fn transaction_mistakes_are_plain_failures() {
    for mut server in both() {
        let refused = |text: &str| [format!("{CLIENT_ERROR}{text}")];
        assert_eq!(
            server.say(&Request::Commit),
            refused("No current transaction to commit.")
        );
        assert_eq!(server.say(&Request::Reset), ["SUCCESS {}"]);
        // From the source.
        assert_eq!(
            server.say(&Request::Rollback),
            refused("No current transaction to rollback.")
        );
        assert_eq!(server.say(&Request::Reset), ["SUCCESS {}"]);
        assert_eq!(server.say(&Request::Begin(Extra::default())), ["SUCCESS {}"]);
        assert_eq!(
            server.say(&Request::Begin(Extra::default())),
            refused("Nested transactions are not supported.")
        );
        assert_eq!(server.say(&Request::Reset), ["SUCCESS {}"]);
    }
}

#[test]
fn messages_out_of_place_or_unknown_end_the_connection() {
    for mut server in both() {
        assert_eq!(server.pull(), [REFUSED, CLOSED], "PULL without RUN");
    }
    for mut server in both() {
        assert_eq!(
            server.bytes(b"\x00\x03\xB1\x55\xA0\x00\x00"),
            [REFUSED, CLOSED],
            "unknown"
        );
    }
    for mut server in both() {
        assert_eq!(
            server.bytes(b"\x00\x03\xB1\x54\x01\x00\x00"),
            [REFUSED, CLOSED],
            "TELEMETRY on 5.2"
        );
    }
    for mut server in both() {
        // From the source.
        server.run("RETURN 1 AS x");
        assert_eq!(
            server.run("RETURN 1 AS x"),
            [REFUSED, CLOSED],
            "RUN with a result open"
        );
    }
}

#[test]
fn goodbye_closes_without_a_word() {
    for mut server in both() {
        assert_eq!(server.say(&Request::Goodbye), [CLOSED]);
    }
}

#[test]
fn logoff_is_answered_from_3_12_on_only() {
    let mut old = Server::ready(OLD, Version::V5_2);
    assert_eq!(old.say(&Request::Logoff), [""; 0]);
    assert_eq!(old.say(&Request::Logon(Auth::None)), [GREETING]);

    let mut new = Server::ready(NEW, Version::V5_2);
    assert_eq!(new.say(&Request::Logoff), ["SUCCESS {}"]);
    assert_eq!(new.say(&Request::Logon(Auth::None)), [GREETING]);
    assert_eq!(new.run("RETURN 1 AS x"), ["SUCCESS {fields: [x]}"]);
    new.pull();
    assert_eq!(new.say(&Request::Logoff), ["SUCCESS {}"]);
    assert_eq!(new.run("RETURN 1 AS x"), [REFUSED, CLOSED]);

    let mut together = Vec::new();
    Request::Logoff.frame(Version::V5_2, &mut together).unwrap();
    Request::Logon(Auth::None)
        .frame(Version::V5_2, &mut together)
        .unwrap();
    assert_eq!(Server::ready(OLD, Version::V5_2).bytes(&together), [GREETING]);
    assert_eq!(
        Server::ready(NEW, Version::V5_2).bytes(&together),
        ["SUCCESS {}", GREETING]
    );
}

#[test]
fn route_is_refused_and_on_4_3_the_old_release_understands_only_a_name() {
    for mut server in both() {
        assert_eq!(server.say(&route(RouteTarget::Default)), [NO_CLUSTER]);
        assert_eq!(server.say(&Request::Reset), ["SUCCESS {}"]);
        assert_eq!(
            server.say(&route(RouteTarget::Extra(Extra::default()))),
            [NO_CLUSTER]
        );
        assert_eq!(server.say(&Request::Reset), ["SUCCESS {}"]);
        assert_eq!(server.run("RETURN 1 AS x"), ["SUCCESS {fields: [x]}"]);
    }
    let on_4_3 = |profile, target| Server::ready(profile, Version::V4_3).say(&route(target));
    let name = || RouteTarget::Database("memgraph".into());
    assert_eq!(on_4_3(OLD, name()), [NO_CLUSTER]);
    assert_eq!(on_4_3(OLD, RouteTarget::Default), [CLOSED]);
    assert_eq!(on_4_3(OLD, RouteTarget::Extra(Extra::default())), [CLOSED]);
    assert_eq!(on_4_3(NEW, name()), [NO_CLUSTER]);
    assert_eq!(on_4_3(NEW, RouteTarget::Default), [NO_CLUSTER]);
    assert_eq!(on_4_3(NEW, RouteTarget::Extra(Extra::default())), [NO_CLUSTER]);
}

#[test]
fn a_wrong_password_is_refused_and_the_connection_closed() {
    let mut session = ServerSession::new(ServerConfig::new(NEW), Moment::START);
    let mut bytes = Proposals::only(Version::V4_4).to_bytes().to_vec();
    hello(Version::V4_4).frame(Version::V4_4, &mut bytes).unwrap();
    session.handle(Moment::START, ServerInput::Bytes(&bytes));
    while session.poll().is_some() {}
    session.refuse().unwrap();
    let mut refusal = Vec::new();
    Response::Failure(Failure::UNAUTHENTICATED)
        .frame(&mut refusal)
        .unwrap();
    let outputs: Vec<ServerOutput> = std::iter::from_fn(|| session.poll()).collect();
    let expected = [
        ServerOutput::Transmit(refusal),
        ServerOutput::Event(Event::Left),
        ServerOutput::Close,
    ];
    assert_eq!(outputs, expected);
}
