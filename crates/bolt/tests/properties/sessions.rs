//! Sessions, driven by whatever bytes come.

use super::{LIMIT, LIMITS, pieces, with_version};
use bolt::client::{ClientConfig, ClientInput, ClientOutput, ClientSession, ClientState};
use bolt::frame::frame_into;
use bolt::handshake::{Proposals, ServerHandshake};
use bolt::message::{Amount, Auth, Extra, Failure, Fetch, Request, Run};
use bolt::packstream::{Dict, Value};
use bolt::server::{
    Event, ReplyError, ServerConfig, ServerInput, ServerOutput, ServerProfile, ServerSession,
};
use bolt::time::Moment;
use bolt::version::Version;
use std::time::Duration;

const START: Moment = Moment::START;

/// How the bytes of a client are cut must not matter to what it is answered.
///
/// The first byte chooses the version; the handshake comes before the rest, so
/// that a fuzzer need not guess it.
pub(crate) fn server_session(data: &[u8]) {
    let Some((version, rest)) = with_version(data) else {
        return;
    };
    let mut stream = Proposals::only(version).to_bytes().to_vec();
    if version.has_logon() {
        // LOGON, so that most inputs get past it.
        assert_eq!(Request::Logon(Auth::None).frame(version, &mut stream), Ok(()));
    }
    stream.extend_from_slice(rest);
    let whole = serve(&stream, 0);
    for size in [1, 3] {
        assert_eq!(serve(&stream, size), whole, "in pieces of {size}");
    }
}

/// Everything that was sent, everything that was asked, and whether it ended.
#[derive(Debug, PartialEq)]
struct Served {
    sent: Vec<u8>,
    events: Vec<String>,
    closed: bool,
}

fn serve(stream: &[u8], size: usize) -> Served {
    let profile = ServerProfile::MEMGRAPH_3_12;
    let config = ServerConfig {
        max_message: LIMIT,
        limits: LIMITS,
        ..ServerConfig::new(profile)
    };
    let mut session = ServerSession::new(config, START);
    let mut served = Served {
        sent: Vec::new(),
        events: Vec::new(),
        closed: false,
    };
    for piece in pieces(stream, size) {
        session.handle(START, ServerInput::Bytes(piece));
        while let Some(output) = session.poll() {
            assert!(!served.closed, "nothing comes after the end");
            match output {
                ServerOutput::Transmit(bytes) => served.sent.extend(bytes),
                ServerOutput::Event(event) => {
                    served.events.push(format!("{event:?}"));
                    assert_eq!(
                        carry_out(&mut session, event),
                        Ok(()),
                        "the right reply is accepted"
                    );
                }
                ServerOutput::Close => served.closed = true,
            }
        }
    }
    served
}

/// A handler that decides by what it is asked, so that all replies occur.
fn carry_out(session: &mut ServerSession, event: Event) -> Result<(), ReplyError> {
    match event {
        Event::Connected(_) | Event::LoggedOff | Event::Left => Ok(()),
        Event::Login(_) => session.accept(),
        Event::Run {
            run,
            in_transaction: _,
        } if run.query.len() % 3 == 0 => session.fail(&Failure::client("no")),
        Event::Run { .. } => session.run_started(&["x"]),
        Event::Pull(Fetch {
            amount: Amount::All,
            qid: _,
        }) => {
            session.record(&[Value::Int(1)])?;
            session.fetched(false, Dict::new())
        }
        Event::Pull(Fetch {
            amount: Amount::AtMost(amount),
            qid: _,
        })
        | Event::Discard(Fetch {
            amount: Amount::AtMost(amount),
            qid: _,
        }) => session.fetched(amount % 2 == 0, Dict::new()),
        Event::Discard(_) => session.fetched(false, Dict::new()),
        Event::Begin(_) | Event::Commit | Event::Rollback | Event::Reset => session.done(Dict::new()),
        Event::Route(_) => session.fail(&Failure::NOT_IN_A_CLUSTER),
    }
}

/// How the bytes of a server are cut must not matter to what a client makes of
/// them, and every request gets exactly one outcome.
///
/// The first byte chooses the version; handshake and login are gone through
/// before the rest, which is a list of segments. A request is made after each.
pub(crate) fn client_session(data: &[u8]) {
    let Some((version, rest)) = with_version(data) else {
        return;
    };
    if !Proposals::MEMGRAPH.contain(version) {
        return;
    }
    let whole = ask(version, rest, 0);
    for size in [1, 3] {
        assert_eq!(ask(version, rest, size), whole, "in pieces of {size}");
    }
}

#[derive(Debug, PartialEq)]
struct Asked {
    sent: Vec<u8>,
    events: Vec<String>,
    open: usize,
}

fn ask(version: Version, data: &[u8], size: usize) -> Asked {
    let mut config = ClientConfig::new("fuzz/1", Auth::None);
    (config.max_message, config.max_result, config.limits) = (LIMIT, 2 * LIMIT, LIMITS);
    let mut session = ClientSession::new(config, START);
    let mut asked = Asked {
        sent: Vec::new(),
        events: Vec::new(),
        open: 0,
    };
    session.handle(START, ClientInput::Bytes(&ServerHandshake::answer(version)));
    for _ in 0..=usize::from(version.has_logon()) {
        session.handle(START, ClientInput::Bytes(&[0, 3, 0xB1, 0x70, 0xA0, 0, 0]));
    }
    assert_eq!(session.state(), ClientState::Ready);
    let mut turn = next_request(&mut session, 0, &mut asked);
    for segment in segments(data) {
        for piece in pieces(&segment, size) {
            session.handle(START, ClientInput::Bytes(piece));
        }
        drain(&mut session, &mut asked);
        turn += next_request(&mut session, turn, &mut asked);
    }
    session.handle(START, ClientInput::Closed);
    drain(&mut session, &mut asked);
    assert_eq!(asked.open, 0, "every request has its outcome");
    assert_eq!(session.state(), ClientState::Closed);
    assert_eq!(session.next_deadline(), None);
    let ends = asked
        .events
        .iter()
        .filter(|event| event.starts_with("Closed"))
        .count();
    assert_eq!(ends, 1);
    asked
}

/// A size, then so many bytes: a message to be framed, or raw bytes if the
/// highest bit of the size is set.
fn segments(mut data: &[u8]) -> Vec<Vec<u8>> {
    let mut segments = Vec::new();
    while let Some((head, rest)) = data.split_first() {
        let size = usize::from(head & 0x7F).min(rest.len());
        let (segment, rest) = rest.split_at(size);
        let mut bytes = Vec::new();
        if head & 0x80 == 0 {
            frame_into(&mut bytes, segment);
        } else {
            bytes.extend_from_slice(segment);
        }
        segments.push(bytes);
        data = rest;
    }
    segments
}

fn drain(session: &mut ClientSession, asked: &mut Asked) {
    while let Some(output) = session.poll() {
        match output {
            ClientOutput::Transmit(bytes) => asked.sent.extend(bytes),
            event => {
                if matches!(event, ClientOutput::Finished { .. }) {
                    asked.open -= 1;
                }
                // As text, because NaN is not equal to itself.
                asked.events.push(format!("{event:?}"));
            }
        }
    }
}

/// Makes the next request of a fixed order, if the session takes it.
fn next_request(session: &mut ClientSession, turn: usize, asked: &mut Asked) -> usize {
    let wait = Duration::from_secs(1);
    let request = match turn % 6 {
        0 => session.run(START, &Run::new("RETURN 1"), wait),
        1 => session.begin(START, Extra::default(), wait),
        2 => session.run(START, &Run::new("CREATE (:T)").with("x", 1), wait),
        3 if session.state() == ClientState::InTransaction => session.commit(START, wait),
        4 if session.state() == ClientState::InTransaction => session.rollback(START, wait),
        _ => session.reset(START, wait),
    };
    match request {
        Ok(_) => {
            asked.open += 1;
            1
        }
        Err(_) => 0,
    }
}
