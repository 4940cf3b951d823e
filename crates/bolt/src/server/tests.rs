use super::*;
use crate::frame::Assembler;
use crate::handshake::Proposals;
use crate::message::{Auth, Extra, Fetch, Hello, Request, Response, Route, RouteTarget, Run};
use crate::packstream::{Dict, Limits, OwnedDict, Value, dict};
use crate::time::Moment;
use crate::version::Version;
use std::time::Duration;

const START: Moment = Moment::START;

/// A server and what its imaginary client sees of it.
struct Bench {
    session: ServerSession,
    version: Version,
}

impl Bench {
    fn with(config: ServerConfig, version: Version) -> Self {
        let mut bench = Self {
            session: ServerSession::new(config, START),
            version,
        };
        bench.bytes(&Proposals::only(version).to_bytes());
        assert_eq!(
            bench.session.poll(),
            Some(ServerOutput::Transmit(vec![0, 0, version.minor, version.major]))
        );
        assert_eq!(
            bench.session.poll(),
            Some(ServerOutput::Event(Event::Connected(version)))
        );
        bench
    }

    fn ready() -> Self {
        let mut bench = Self::with(ServerConfig::new(ServerProfile::MEMGRAPH_3_12), Version::V5_2);
        bench.send(&[Request::Logon(Auth::None)]);
        bench.poll();
        bench.session.accept().unwrap();
        bench.poll();
        bench
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.session.handle(START, ServerInput::Bytes(bytes));
    }

    fn send(&mut self, requests: &[Request<'_>]) {
        let mut bytes = Vec::new();
        for request in requests {
            request.frame(self.version, &mut bytes).unwrap();
        }
        self.bytes(&bytes);
    }

    /// What was answered, what is to be carried out, and whether it is over.
    fn poll(&mut self) -> (Vec<Response<'static>>, Vec<Event>, bool) {
        let (mut sent, mut events, mut close) = (Vec::new(), Vec::new(), false);
        while let Some(output) = self.session.poll() {
            assert!(!close, "nothing comes after the end");
            match output {
                ServerOutput::Transmit(bytes) => sent.extend(bytes),
                ServerOutput::Event(event) => events.push(event),
                ServerOutput::Close => close = true,
            }
        }
        let (mut input, mut assembler, mut responses) =
            (sent.as_slice(), Assembler::new(1 << 20), Vec::new());
        while let Some(message) = assembler.next(&mut input).unwrap() {
            let response = match Response::parse(message, Limits::DEFAULT).unwrap() {
                Response::Success(metadata) => Response::Success(crate::packstream::own_dict(metadata)),
                Response::Record(values) => {
                    Response::Record(values.into_iter().map(Value::into_owned).collect())
                }
                Response::Ignored => Response::Ignored,
                Response::Failure(failure) => Response::Failure(failure.into_owned()),
            };
            responses.push(response);
        }
        (responses, events, close)
    }
}

fn empty() -> Response<'static> {
    Response::Success(Dict::new())
}

#[test]
fn the_next_message_is_read_only_after_the_reply() {
    let mut bench = Bench::ready();
    bench.send(&[
        Request::Run(Run::new("a")),
        Request::Pull(Fetch::ALL),
        Request::Reset,
    ]);
    let run = Event::Run {
        run: Run::new("a"),
        in_transaction: false,
    };
    assert_eq!(bench.poll(), (vec![], vec![run], false));
    bench.session.run_started(&[]).unwrap();
    assert_eq!(bench.poll().1, [Event::Pull(Fetch::ALL)]);
    bench.session.record(&[Value::Int(1)]).unwrap();
    bench.session.fetched(false, OwnedDict::new()).unwrap();
    let (responses, events, _) = bench.poll();
    assert_eq!(events, [Event::Reset]);
    assert_eq!(responses.len(), 2, "a record and a summary");
    bench.session.done(OwnedDict::new()).unwrap();
    assert_eq!(bench.poll(), (vec![empty()], vec![], false));
}

#[test]
fn a_reply_nobody_asked_for_is_refused_and_changes_nothing() {
    let mut bench = Bench::ready();
    assert_eq!(bench.session.accept(), Err(ReplyError::NotAsked));
    assert_eq!(bench.session.done(OwnedDict::new()), Err(ReplyError::NotAsked));
    bench.send(&[Request::Run(Run::new("a"))]);
    assert_eq!(bench.session.record(&[]), Err(ReplyError::NotAsked));
    assert_eq!(
        bench.session.fetched(false, OwnedDict::new()),
        Err(ReplyError::NotAsked)
    );
    assert_eq!(bench.session.refuse(), Err(ReplyError::NotAsked));
    assert_eq!(bench.poll().0, [], "nothing was sent");
    assert_eq!(bench.session.run_started(&["x"]), Ok(()));
}

#[test]
fn a_client_that_leaves_while_it_waits_makes_the_reply_pointless() {
    let mut bench = Bench::ready();
    bench.send(&[Request::Run(Run::new("a"))]);
    bench.poll();
    bench.session.handle(START, ServerInput::Closed);
    assert_eq!(bench.session.run_started(&[]), Err(ReplyError::NotAsked));
    assert_eq!(bench.poll(), (vec![], vec![Event::Left], true));
    bench.send(&[Request::Reset]);
    bench.session.close();
    assert_eq!(bench.poll(), (vec![], vec![], false), "only once");
    assert!(!bench.session.wants_input());
}

#[test]
fn a_silent_client_is_sent_away_but_not_one_that_waits_for_us() {
    let config = ServerConfig {
        idle_timeout: Some(Duration::from_secs(1)),
        ..ServerConfig::new(ServerProfile::MEMGRAPH_3_12)
    };
    let mut bench = Bench::with(config, Version::V5_2);
    assert_eq!(bench.session.next_deadline(), Some(Moment::from_millis(1000)));
    bench.send(&[Request::Logon(Auth::None)]);
    assert_eq!(bench.session.next_deadline(), None);
    bench.session.handle(Moment::from_millis(9000), ServerInput::Tick);
    assert_eq!(bench.poll().1.len(), 1, "only the login");
    bench.session.accept().unwrap();
    bench.session.handle(Moment::from_millis(9000), ServerInput::Tick);
    assert_eq!(bench.poll().1, [Event::Left]);
}

#[test]
fn a_client_that_talks_is_not_idle() {
    let config = ServerConfig {
        idle_timeout: Some(Duration::from_secs(1)),
        ..ServerConfig::new(ServerProfile::MEMGRAPH_3_12)
    };
    let mut bench = Bench::with(config, Version::V5_2);
    bench
        .session
        .handle(Moment::from_millis(900), ServerInput::Bytes(&[0, 0]));
    assert_eq!(bench.session.next_deadline(), Some(Moment::from_millis(1900)));
}

#[test]
fn a_routing_table_may_be_asked_for_while_a_result_is_open() {
    let mut bench = Bench::ready();
    let route = Route {
        context: Dict::new(),
        bookmarks: vec![],
        target: RouteTarget::Default,
    };
    bench.send(&[
        Request::Run(Run::new("a")),
        Request::Route(route),
        Request::Pull(Fetch::ALL),
    ]);
    bench.poll();
    bench.session.run_started(&[]).unwrap();
    assert!(matches!(bench.poll().1.as_slice(), [Event::Route(_)]));
    bench.session.done(OwnedDict::new()).unwrap();
    assert_eq!(
        bench.poll(),
        (vec![empty()], vec![Event::Pull(Fetch::ALL)], false)
    );
}

#[test]
fn logging_off_leaves_no_transaction_behind() {
    let mut bench = Bench::ready();
    bench.send(&[Request::Begin(Extra::default())]);
    bench.poll();
    bench.session.done(OwnedDict::new()).unwrap();
    assert!(bench.session.in_transaction());
    bench.poll();
    bench.send(&[Request::Logoff]);
    assert_eq!(bench.poll(), (vec![empty()], vec![Event::LoggedOff], false));
    assert!(!bench.session.in_transaction());
}

#[test]
fn a_client_that_floods_while_it_waits_is_cut_off() {
    let config = ServerConfig {
        max_inbox: 1000,
        ..ServerConfig::new(ServerProfile::MEMGRAPH_3_12)
    };
    let mut bench = Bench::with(config, Version::V5_2);
    bench.send(&[Request::Logon(Auth::None)]);
    assert!(bench.session.wants_input());
    bench.bytes(&[0; 600]);
    assert!(!bench.session.wants_input(), "a polite caller stops reading here");
    bench.bytes(&[0; 600]);
    let (responses, events, close) = bench.poll();
    assert_eq!(
        (responses, events.last(), close),
        (vec![], Some(&Event::Left), true)
    );
}

#[test]
fn a_login_brings_name_and_credentials_to_whoever_checks_them() {
    let config = ServerConfig {
        server_name: None,
        ..ServerConfig::new(ServerProfile::MEMGRAPH_3_12)
    };
    let mut bench = Bench::with(config, Version::V4_4);
    let auth = Auth::basic("alice", "secret");
    bench.send(&[Request::Hello(Hello {
        user_agent: "driver/1".into(),
        auth: Some(auth.clone()),
        extra: dict([("patch_bolt", Value::List(vec![]))]),
    })]);
    let hello = dict([("patch_bolt", Value::List(vec![]))]);
    let login = Login {
        user_agent: Some("driver/1".to_owned()),
        hello,
        auth,
    };
    assert_eq!(bench.poll().1, [Event::Login(login)]);
    bench.session.accept().unwrap();
    let greeting = Dict::from([("connection_id".into(), Value::from("bolt-1"))]);
    assert_eq!(
        bench.poll().0,
        [Response::Success(greeting)],
        "a server without a name gives none"
    );
}

#[test]
fn from_5_1_on_a_login_remembers_what_hello_said() {
    let mut bench = Bench::with(ServerConfig::new(ServerProfile::MEMGRAPH_3_12), Version::V5_2);
    let hello = Hello {
        user_agent: "driver/1".into(),
        auth: None,
        extra: dict([("x", Value::Int(1))]),
    };
    bench.send(&[Request::Hello(hello), Request::Logon(Auth::None)]);
    let login = Login {
        user_agent: Some("driver/1".to_owned()),
        hello: dict([("x", Value::Int(1))]),
        auth: Auth::None,
    };
    assert_eq!(bench.poll().1, [Event::Login(login)]);
    let busy = crate::message::Failure::transient("no MAIN right now");
    bench.session.turn_away(&busy).unwrap();
    assert_eq!(
        bench.poll(),
        (vec![Response::Failure(busy)], vec![Event::Left], true)
    );
}

#[test]
fn version_1_says_hello_pulls_all_and_acknowledges_failures() {
    let mut bench = Bench::with(ServerConfig::new(ServerProfile::MEMGRAPH_3_6), Version::V1_0);
    let hello = Hello {
        user_agent: "old/1".into(),
        auth: Some(Auth::None),
        extra: Dict::new(),
    };
    bench.send(&[Request::Hello(hello)]);
    bench.poll();
    bench.session.accept().unwrap();
    bench.send(&[Request::Run(Run::new("a")), Request::Pull(Fetch::ALL)]);
    bench.poll();
    bench
        .session
        .fail(&crate::message::Failure::client("no"))
        .unwrap();
    assert_eq!(bench.poll().0.last(), Some(&Response::Ignored));
    bench.send(&[Request::AckFailure]);
    assert_eq!(bench.poll().0, [empty()]);
    bench.send(&[Request::Run(Run::new("b")), Request::Pull(Fetch::ALL)]);
    bench.poll();
    bench.session.set_in_transaction(true);
    bench.session.run_started(&[]).unwrap();
    let fields = Dict::from([("fields".into(), Value::List(vec![]))]);
    assert_eq!(
        bench.poll().0,
        [Response::Success(fields)],
        "and no qid, even in a transaction"
    );
}

#[test]
fn unknown_messages_are_ignored_after_a_failure_but_not_unreadable_ones() {
    let failed = || {
        let mut bench = Bench::ready();
        bench.send(&[Request::Commit]);
        assert!(matches!(bench.poll().0.as_slice(), [Response::Failure(_)]));
        bench
    };
    let mut bench = failed();
    bench.bytes(&[0, 3, 0xB1, 0x55, 0xA0, 0, 0]);
    assert_eq!(bench.poll(), (vec![Response::Ignored], vec![], false));
    let mut bench = failed();
    bench.bytes(&[0, 3, 0xB1, 0x55, 0xC4, 0, 0]);
    let refused = Response::Failure(crate::message::Failure::UNEXPECTED);
    assert_eq!(bench.poll(), (vec![refused], vec![Event::Left], true));
}

#[test]
fn a_message_over_the_limit_ends_the_session() {
    let config = ServerConfig {
        max_message: 16,
        ..ServerConfig::new(ServerProfile::MEMGRAPH_3_12)
    };
    let mut bench = Bench::with(config, Version::V5_2);
    bench.bytes(&[0, 17]);
    let refused = Response::Failure(crate::message::Failure::UNEXPECTED);
    assert_eq!(bench.poll(), (vec![refused], vec![Event::Left], true));
}
