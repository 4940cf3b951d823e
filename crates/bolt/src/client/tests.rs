use super::*;
use crate::frame::Assembler;
use crate::handshake::{HandshakeError, Proposals, Stranger};
use crate::message::{Auth, Extra, Failure, Request, Response, Run};
use crate::packstream::{EncodeError, Limits, Value, dict};
use crate::time::Moment;
use crate::version::Version;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const START: Moment = Moment::START;

fn config() -> ClientConfig {
    let hello = dict([("patch_bolt", Value::List(vec![]))]);
    ClientConfig {
        hello,
        ..ClientConfig::new("test/1", Auth::basic("alice", "secret"))
    }
}

fn at(milliseconds: u64) -> Moment {
    Moment::from_millis(milliseconds)
}

fn success<const N: usize>(entries: [(&'static str, Value<'static>); N]) -> Response<'static> {
    Response::Success(dict(entries))
}

/// A client and what its imaginary server sees of it.
struct Bench {
    session: ClientSession,
    version: Version,
}

impl Bench {
    fn new() -> Self {
        Self {
            session: ClientSession::new(config(), START),
            version: Version::V5_2,
        }
    }

    /// A client that is logged in.
    fn ready(version: Version) -> Self {
        let mut bench = Self {
            version,
            ..Self::new()
        };
        bench.poll();
        bench.bytes(START, &[0, 0, version.minor, version.major]);
        bench.answer(START, &success([("server", Value::from("Memgraph"))]));
        if version.has_logon() {
            bench.answer(START, &success([]));
        }
        bench.poll();
        assert_eq!(bench.session.state(), ClientState::Ready);
        bench
    }

    fn bytes(&mut self, now: Moment, bytes: &[u8]) {
        self.session.handle(now, ClientInput::Bytes(bytes));
    }

    fn answer(&mut self, now: Moment, response: &Response<'_>) {
        let mut bytes = Vec::new();
        response.frame(&mut bytes).unwrap();
        self.bytes(now, &bytes);
    }

    /// What was sent, as messages, and what happened.
    fn poll(&mut self) -> (Vec<Request<'static>>, Vec<ClientOutput>) {
        let (mut sent, mut events) = (Vec::new(), Vec::new());
        while let Some(output) = self.session.poll() {
            match output {
                ClientOutput::Transmit(bytes) => sent.extend(bytes),
                event => events.push(event),
            }
        }
        let mut input = sent
            .strip_prefix(&Proposals::MEMGRAPH.to_bytes())
            .unwrap_or(&sent);
        let mut assembler = Assembler::new(1 << 20);
        let mut requests = Vec::new();
        while let Some(message) = assembler.next(&mut input).unwrap() {
            requests.push(
                Request::parse(self.version, message, Limits::DEFAULT)
                    .unwrap()
                    .into_owned(),
            );
        }
        (requests, events)
    }

    fn tags(&mut self) -> Vec<u8> {
        self.poll().0.iter().map(Request::tag).collect()
    }

    fn events(&mut self) -> Vec<ClientOutput> {
        self.poll().1
    }
}

fn finished(request: RequestId, error: ClientError) -> ClientOutput {
    ClientOutput::Finished {
        request,
        outcome: Err(error),
    }
}

fn closed(error: ClientError) -> ClientOutput {
    ClientOutput::Closed(Err(error))
}

#[test]
fn the_login_is_hello_before_5_1_and_hello_and_logon_from_then_on() {
    for version in [
        Version::V4_0,
        Version::V4_1,
        Version::V4_3,
        Version::V4_4,
        Version::V5_2,
    ] {
        let mut bench = Bench {
            version,
            ..Bench::new()
        };
        assert_eq!(
            bench.session.poll(),
            Some(ClientOutput::Transmit(Proposals::MEMGRAPH.to_bytes().to_vec()))
        );
        bench.bytes(START, &[0, 0, version.minor, version.major]);
        let (sent, _) = bench.poll();
        let Some(Request::Hello(hello)) = sent.first() else {
            panic!("HELLO on {version}")
        };
        assert_eq!(hello.user_agent, "test/1");
        assert_eq!(hello.extra, config().hello);
        let auth = Auth::basic("alice", "secret");
        assert_eq!(
            hello.auth,
            (!version.has_logon()).then_some(auth.clone()),
            "{version}"
        );

        bench.answer(START, &success([("server", Value::from("Memgraph"))]));
        if version.has_logon() {
            assert_eq!(bench.poll(), (vec![Request::Logon(auth)], vec![]));
            bench.answer(START, &success([]));
        }
        let server = ServerInfo(dict([("server", Value::from("Memgraph"))]));
        assert_eq!(server.name(), Some("Memgraph"));
        assert_eq!(bench.events(), [ClientOutput::Ready { version, server }]);
        assert_eq!(
            bench.session.next_deadline(),
            None,
            "an idle session waits for nothing"
        );
    }
}

#[test]
fn a_refused_login_ends_the_session_with_what_the_server_said() {
    let mut bench = Bench::new();
    bench.bytes(START, &[0, 0, 2, 5]);
    bench.answer(START, &success([]));
    bench.answer(START, &Response::Failure(Failure::UNAUTHENTICATED));
    assert_eq!(
        bench.events(),
        [closed(ClientError::ServerFailure(Failure::UNAUTHENTICATED))]
    );
    assert_eq!(bench.session.state(), ClientState::Closed);
    assert_eq!(
        bench.session.run(START, &Run::new("x"), SECOND),
        Err(CommandError::NotReady)
    );
}

#[test]
fn a_failed_handshake_says_why() {
    let cases: [(&[u8], ProtocolError); 3] = [
        (&[0x00, 0x86, 0xB1, 0x7F], HandshakeError::NoCommonVersion.into()),
        (b"HTTP/1.1", HandshakeError::NotBolt(Stranger::Http).into()),
        (
            &[0, 0, 9, 9],
            HandshakeError::NotProposed(Version::new(9, 9)).into(),
        ),
    ];
    for (bytes, error) in cases {
        let mut bench = Bench::new();
        bench.bytes(START, bytes);
        assert_eq!(bench.events(), [closed(ClientError::Protocol(error))]);
    }
    let mut old = Bench::new();
    old.session = ClientSession::new(
        ClientConfig {
            proposals: Proposals::only(Version::V1_0),
            ..config()
        },
        START,
    );
    old.bytes(START, &[0, 0, 0, 1]);
    let too_old = ProtocolError::VersionTooOld(Version::V1_0);
    while let Some(output) = old.session.poll() {
        if let ClientOutput::Closed(reason) = output {
            assert_eq!(reason, Err(too_old.into()));
            return;
        }
    }
    panic!("the session should have been closed");
}

#[test]
fn a_login_that_takes_too_long_is_given_up() {
    let mut bench = Bench::new();
    assert_eq!(bench.session.next_deadline(), Some(at(5000)));
    bench.session.handle(at(4999), ClientInput::Tick);
    assert_eq!(bench.events(), []);
    bench.bytes(at(4999), &[0, 0, 2, 5]);
    bench.session.handle(at(5000), ClientInput::Tick);
    assert_eq!(bench.events(), [closed(ClientError::TimedOut)]);
    assert_eq!(bench.session.next_deadline(), None);
}

#[test]
fn a_query_gives_columns_rows_and_a_summary_with_its_run_id() {
    let mut bench = Bench::ready(Version::V5_2);
    let request = bench
        .session
        .run(START, &Run::new("RETURN $x").with("x", 7), SECOND)
        .unwrap();
    assert_eq!(bench.session.state(), ClientState::Busy);
    let (sent, _) = bench.poll();
    assert_eq!(
        sent,
        [
            Request::Run(Run::new("RETURN $x").with("x", 7)),
            Request::Pull(crate::message::Fetch::ALL)
        ]
    );
    bench.answer(START, &success([("fields", Value::List(vec![Value::from("x")]))]));
    bench.answer(START, &Response::Record(vec![Value::Int(7)]));
    let summary = dict([
        ("has_more", Value::Bool(false)),
        ("run_id", Value::from("b5f7")),
        ("db", Value::from("memgraph")),
        ("stats", Value::Dict(dict([("nodes-created", Value::Int(2))]))),
    ]);
    bench.answer(START, &Response::Success(summary.clone()));
    let result = QueryResult {
        fields: vec!["x".to_owned()],
        records: vec![vec![Value::Int(7)]],
        summary: Summary(summary),
    };
    assert_eq!(result.summary.run_id(), Some("b5f7"));
    assert_eq!(result.summary.database(), Some("memgraph"));
    assert_eq!(result.summary.stat("nodes-created"), 2);
    assert_eq!(result.summary.stat("nodes-deleted"), 0);
    assert_eq!(result.summary.notifications(), []);
    assert_eq!(
        bench.events(),
        [ClientOutput::Finished {
            request,
            outcome: Ok(Answer::Query(result))
        }]
    );
    assert_eq!(bench.session.state(), ClientState::Ready);
}

#[test]
fn a_server_that_gives_pages_unasked_is_asked_for_the_next() {
    let mut bench = Bench::ready(Version::V4_4);
    bench.session.run(START, &Run::new("x"), SECOND).unwrap();
    bench.poll();
    bench.answer(START, &success([("fields", Value::List(vec![]))]));
    bench.answer(START, &success([("has_more", Value::Bool(true))]));
    assert_eq!(bench.poll().0, [Request::Pull(crate::message::Fetch::ALL)]);
    bench.answer(START, &success([]));
    assert_eq!(bench.events().len(), 1);
}

#[test]
fn a_query_refused_when_prepared_is_reported_once_the_session_is_clean() {
    let mut bench = Bench::ready(Version::V5_2);
    let request = bench.session.run(START, &Run::new("NOT CYPHER"), SECOND).unwrap();
    bench.poll();
    bench.answer(at(100), &Response::Failure(Failure::client("syntax")));
    assert_eq!(bench.poll(), (vec![Request::Reset], vec![]));
    assert_eq!(
        bench.session.next_deadline(),
        Some(at(5100)),
        "clearing the failure has its own time"
    );
    bench.answer(at(100), &Response::Ignored);
    assert_eq!(bench.events(), [], "the answer to RESET is still to come");
    bench.answer(at(100), &success([]));
    assert_eq!(
        bench.events(),
        [finished(
            request,
            ClientError::ServerFailure(Failure::client("syntax"))
        )]
    );
    assert_eq!(bench.session.state(), ClientState::Ready);
}

#[test]
fn a_query_refused_while_it_runs_is_reported_once_the_session_is_clean() {
    let mut bench = Bench::ready(Version::V5_2);
    let request = bench.session.run(START, &Run::new("RETURN 1/0"), SECOND).unwrap();
    bench.answer(START, &success([("fields", Value::List(vec![]))]));
    bench.poll();
    bench.answer(START, &Response::Failure(Failure::client("1/0")));
    assert_eq!(bench.tags(), [crate::message::tag::RESET]);
    bench.answer(START, &success([]));
    assert_eq!(
        bench.events(),
        [finished(
            request,
            ClientError::ServerFailure(Failure::client("1/0"))
        )]
    );
}

#[test]
fn a_refusal_is_not_forgotten_when_the_server_leaves_after_it() {
    let refused = ClientError::ServerFailure(Failure::UNEXPECTED);
    for (input, reason) in [
        (ClientInput::Closed, ClientError::Closed),
        (ClientInput::Tick, ClientError::TimedOut),
    ] {
        let mut bench = Bench::ready(Version::V5_2);
        let request = bench.session.run(START, &Run::new("x"), SECOND).unwrap();
        bench.answer(START, &Response::Failure(Failure::UNEXPECTED));
        bench.session.handle(at(5000), input);
        assert_eq!(
            bench.events(),
            [finished(request, refused.clone()), closed(reason)]
        );
    }
}

#[test]
fn a_transaction_begins_runs_and_commits() {
    let mut bench = Bench::ready(Version::V4_3);
    assert_eq!(
        bench.session.commit(START, SECOND),
        Err(CommandError::NotInTransaction)
    );
    bench.session.begin(START, Extra::default(), SECOND).unwrap();
    bench.answer(START, &success([]));
    assert_eq!(bench.session.state(), ClientState::InTransaction);
    assert_eq!(
        bench.session.begin(START, Extra::default(), SECOND),
        Err(CommandError::InTransaction)
    );

    bench
        .session
        .run(START, &Run::new("CREATE (:T)"), SECOND)
        .unwrap();
    assert_eq!(
        bench.session.commit(START, SECOND),
        Err(CommandError::NotReady),
        "one request at a time"
    );
    bench.answer(
        START,
        &success([("fields", Value::List(vec![])), ("qid", Value::Int(0))]),
    );
    bench.answer(START, &success([]));
    assert_eq!(bench.session.state(), ClientState::InTransaction);

    bench.poll();
    let request = bench.session.commit(START, SECOND).unwrap();
    assert_eq!(bench.poll().0, [Request::Commit]);
    bench.answer(START, &success([]));
    let outcome = Ok(Answer::Done(Summary::default()));
    assert_eq!(bench.events(), [ClientOutput::Finished { request, outcome }]);
    assert_eq!(bench.session.state(), ClientState::Ready);
}

#[test]
fn a_failure_in_a_transaction_ends_it() {
    let mut bench = Bench::ready(Version::V5_2);
    bench.session.begin(START, Extra::default(), SECOND).unwrap();
    bench.answer(START, &success([]));
    bench.session.commit(START, SECOND).unwrap();
    bench.answer(
        START,
        &Response::Failure(Failure::client("a replica did not confirm")),
    );
    bench.answer(START, &success([]));
    assert_eq!(bench.session.state(), ClientState::Ready);
    assert_eq!(
        bench.session.rollback(START, SECOND),
        Err(CommandError::NotInTransaction)
    );
}

#[test]
fn no_answer_in_time_ends_the_session_because_the_outcome_is_unknown() {
    assert!(ClientError::TimedOut.leaves_outcome_unknown());
    assert!(!ClientError::ServerFailure(Failure::client("no")).leaves_outcome_unknown());
    let mut bench = Bench::ready(Version::V5_2);
    let request = bench.session.run(at(1000), &Run::new("x"), SECOND).unwrap();
    assert_eq!(bench.session.next_deadline(), Some(at(2000)));
    bench.bytes(at(1500), &[0, 0, 0, 0]);
    bench.session.handle(at(1999), ClientInput::Tick);
    assert_eq!(bench.events(), [], "a sign of life changes nothing");
    bench.session.handle(at(2000), ClientInput::Tick);
    assert_eq!(
        bench.events(),
        [
            finished(request, ClientError::TimedOut),
            closed(ClientError::TimedOut)
        ]
    );
    bench.answer(at(2001), &success([]));
    assert_eq!(bench.events(), [], "whatever comes later is not heard");
}

#[test]
fn an_answer_that_comes_with_the_deadline_counts() {
    let mut bench = Bench::ready(Version::V5_2);
    bench.session.reset(START, SECOND).unwrap();
    bench.answer(at(1000), &success([]));
    assert!(matches!(
        bench.events().as_slice(),
        [ClientOutput::Finished { outcome: Ok(_), .. }]
    ));
}

#[test]
fn a_server_that_breaks_the_protocol_is_left() {
    let cases = [
        (vec![0, 2, 0xB0, 0x55, 0, 0], None),
        (vec![0, 1, 0xC0, 0, 0], None),
        (vec![0, 2, 0xB0, 0x7E, 0, 0], Some(ProtocolError::Unexpected)),
    ];
    for (bytes, error) in cases {
        let mut bench = Bench::ready(Version::V5_2);
        let request = bench.session.run(START, &Run::new("x"), SECOND).unwrap();
        bench.poll();
        bench.bytes(START, &bytes);
        let events = bench.events();
        let [
            ClientOutput::Finished {
                request: finished,
                outcome: Err(ClientError::Protocol(seen)),
            },
            ClientOutput::Closed(Err(ClientError::Protocol(reason))),
        ] = events.as_slice()
        else {
            panic!("{events:?}")
        };
        assert_eq!((*finished, seen), (request, reason));
        if let Some(error) = error {
            assert_eq!(*seen, error);
        }
    }
}

#[test]
fn messages_nobody_waits_for_end_the_session() {
    let mut bench = Bench::ready(Version::V5_2);
    bench.answer(START, &success([]));
    assert_eq!(bench.events(), [closed(ProtocolError::Unexpected.into())]);
    let mut bench = Bench::ready(Version::V5_2);
    bench.answer(START, &Response::Failure(Failure::transient("shutdown")));
    assert_eq!(
        bench.events(),
        [closed(ClientError::ServerFailure(Failure::transient("shutdown")))]
    );
}

#[test]
fn a_result_that_grows_too_large_is_refused() {
    let mut bench = Bench::new();
    bench.session = ClientSession::new(
        ClientConfig {
            max_result: 100,
            ..config()
        },
        START,
    );
    bench.bytes(START, &[0, 0, 2, 5]);
    bench.answer(START, &success([]));
    bench.answer(START, &success([]));
    let request = bench.session.run(START, &Run::new("x"), SECOND).unwrap();
    bench.poll();
    bench.answer(START, &success([("fields", Value::List(vec![]))]));
    for _ in 0..4 {
        bench.answer(START, &Response::Record(vec![Value::from("x".repeat(20))]));
    }
    assert_eq!(bench.events(), []);
    bench.answer(START, &Response::Record(vec![Value::from("x".repeat(20))]));
    let error = ClientError::Protocol(ProtocolError::ResultTooLarge { limit: 100 });
    assert_eq!(bench.events(), [finished(request, error.clone()), closed(error)]);
}

#[test]
fn a_request_that_cannot_be_encoded_is_refused_and_leaves_no_trace() {
    let mut bench = Bench::ready(Version::V5_2);
    let deep = (0..300).fold(Value::Null, |value, _| Value::List(vec![value]));
    let refused = bench
        .session
        .run(START, &Run::new("x").with("deep", deep), SECOND);
    assert_eq!(refused, Err(CommandError::Message(EncodeError::TooDeep.into())));
    assert_eq!(bench.poll(), (vec![], vec![]));
    assert_eq!(bench.session.state(), ClientState::Ready);
}

#[test]
fn goodbye_is_said_and_the_session_is_over() {
    let mut bench = Bench::ready(Version::V5_2);
    bench.session.goodbye();
    assert_eq!(
        bench.poll(),
        (vec![Request::Goodbye], vec![ClientOutput::Closed(Ok(()))])
    );
    bench.session.goodbye();
    bench.session.handle(START, ClientInput::Closed);
    assert_eq!(bench.poll(), (vec![], vec![]), "only once");
}
