//! A client and a server of ours, with nothing but a pipe between them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows tests by their attribute, and helpers have none"
)]

use bolt::client::{
    Answer, ClientConfig, ClientError, ClientInput, ClientOutput, ClientSession, ClientState, QueryResult,
};
use bolt::handshake::Proposals;
use bolt::message::{Auth, Extra, Failure, Run};
use bolt::packstream::{Dict, Value};
use bolt::server::{Event, ServerConfig, ServerInput, ServerOutput, ServerProfile, ServerSession};
use bolt::time::Moment;
use bolt::version::Version;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(1);
const PASSWORD: &str = "secret";

/// The two ends, the bytes between them and the time.
struct Pair {
    client: ClientSession,
    server: ServerSession,
    now: Moment,
    /// How many bytes travel at once.
    cut: usize,
    /// What the server has committed.
    committed: Vec<String>,
    open: Vec<String>,
    current: Run<'static>,
    hang: bool,
}

impl Pair {
    fn new(version: Version, password: &'static str, cut: usize) -> Self {
        let config = ClientConfig {
            proposals: Proposals::only(version),
            ..ClientConfig::new("pair/1", Auth::basic("alice", password))
        };
        Self {
            client: ClientSession::new(config, Moment::START),
            server: ServerSession::new(ServerConfig::new(ServerProfile::MEMGRAPH_3_12), Moment::START),
            now: Moment::START,
            cut,
            committed: Vec::new(),
            open: Vec::new(),
            current: Run::new(""),
            hang: false,
        }
    }

    /// Lets everything happen that can happen, and returns what the client was told.
    fn settle(&mut self) -> Vec<ClientOutput> {
        let mut told = Vec::new();
        loop {
            let mut moved = false;
            while let Some(output) = self.client.poll() {
                moved = true;
                match output {
                    ClientOutput::Transmit(bytes) => {
                        for piece in bytes.chunks(self.cut) {
                            self.server.handle(self.now, ServerInput::Bytes(piece));
                        }
                    }
                    event => told.push(event),
                }
            }
            while let Some(output) = self.server.poll() {
                moved = true;
                match output {
                    ServerOutput::Transmit(bytes) => {
                        for piece in bytes.chunks(self.cut) {
                            self.client.handle(self.now, ClientInput::Bytes(piece));
                        }
                    }
                    ServerOutput::Event(event) => self.carry_out(event),
                    ServerOutput::Close => self.client.handle(self.now, ClientInput::Closed),
                }
            }
            if !moved {
                return told;
            }
        }
    }

    fn carry_out(&mut self, event: Event) {
        let server = &mut self.server;
        match event {
            Event::Connected(_) | Event::LoggedOff | Event::Left => return,
            Event::Login(login) if login.auth == Auth::basic("alice", PASSWORD) => server.accept(),
            Event::Login(_) => server.refuse(),
            Event::Run { run, in_transaction } => {
                if run.query.starts_with("BAD") {
                    server.fail(&Failure::client("bad query"))
                } else {
                    let log = if in_transaction {
                        &mut self.open
                    } else {
                        &mut self.committed
                    };
                    log.push(run.query.to_string());
                    self.current = run;
                    server.run_started(&["x"])
                }
            }
            Event::Pull(_) if self.hang => return,
            Event::Pull(_) => {
                let row = self.current.parameters.get("x").cloned().unwrap_or(Value::Null);
                server.record(&[row]).unwrap();
                server.fetched(false, Dict::from([("run_id".into(), Value::from("life-1"))]))
            }
            Event::Discard(_) => server.fetched(false, Dict::new()),
            Event::Begin(_) => server.done(Dict::new()),
            Event::Commit => {
                self.committed.append(&mut self.open);
                server.done(Dict::new())
            }
            Event::Rollback | Event::Reset => {
                self.open.clear();
                server.done(Dict::new())
            }
            Event::Route(_) => server.fail(&Failure::NOT_IN_A_CLUSTER),
        }
        .unwrap();
    }

    fn query(&mut self, run: &Run<'_>) -> Result<QueryResult, ClientError> {
        self.client.run(self.now, run, WAIT).unwrap();
        match self.settle().remove(0) {
            ClientOutput::Finished {
                outcome: Ok(Answer::Query(result)),
                ..
            } => Ok(result),
            ClientOutput::Finished {
                outcome: Err(error), ..
            } => Err(error),
            other => panic!("{other:?}"),
        }
    }
}

const VERSIONS: [Version; 5] = [
    Version::V4_0,
    Version::V4_1,
    Version::V4_3,
    Version::V4_4,
    Version::V5_2,
];

#[test]
fn queries_transactions_and_failures_work_in_every_version_however_the_bytes_are_cut() {
    for (version, cut) in VERSIONS
        .into_iter()
        .flat_map(|version| [1, 5, 1000].map(|cut| (version, cut)))
    {
        let mut pair = Pair::new(version, PASSWORD, cut);
        assert!(
            matches!(pair.settle().as_slice(), [ClientOutput::Ready { version: spoken, .. }] if *spoken == version)
        );

        let long = "y".repeat(70_000);
        let result = pair
            .query(&Run::new("RETURN $x").with("x", long.as_str()))
            .unwrap();
        assert_eq!(result.records, [[Value::from(long)]]);
        assert_eq!(result.summary.run_id(), Some("life-1"));

        let refused = ClientError::ServerFailure(Failure::client("bad query"));
        assert_eq!(pair.query(&Run::new("BAD")), Err(refused.clone()));

        pair.client.begin(pair.now, Extra::default(), WAIT).unwrap();
        pair.settle();
        assert!(pair.server.in_transaction());
        pair.query(&Run::new("kept")).unwrap();
        pair.client.commit(pair.now, WAIT).unwrap();
        pair.settle();

        pair.client.begin(pair.now, Extra::default(), WAIT).unwrap();
        pair.settle();
        pair.query(&Run::new("lost")).unwrap();
        assert_eq!(pair.query(&Run::new("BAD")), Err(refused));
        assert_eq!(
            pair.client.state(),
            ClientState::Ready,
            "the failure ended the transaction"
        );
        assert!(!pair.server.in_transaction());
        assert_eq!(pair.committed, ["RETURN $x", "kept"]);

        pair.client.goodbye();
        assert_eq!(pair.settle(), [ClientOutput::Closed(Ok(()))]);
    }
}

#[test]
fn a_wrong_password_is_told_to_the_client() {
    for version in VERSIONS {
        let mut pair = Pair::new(version, "wrong", 3);
        let refused = ClientError::ServerFailure(Failure::UNAUTHENTICATED);
        assert_eq!(pair.settle(), [ClientOutput::Closed(Err(refused))]);
    }
}

#[test]
fn a_server_that_does_not_answer_is_given_up_at_the_deadline() {
    let mut pair = Pair::new(Version::V5_2, PASSWORD, 1000);
    pair.settle();
    pair.hang = true;
    pair.client.run(pair.now, &Run::new("x"), WAIT).unwrap();
    assert_eq!(pair.settle(), []);
    pair.now = pair.client.next_deadline().unwrap();
    assert_eq!(pair.now, Moment::START.after(WAIT));
    pair.client.handle(pair.now, ClientInput::Tick);
    let told = pair.settle();
    assert!(matches!(
        told.as_slice(),
        [
            ClientOutput::Finished {
                outcome: Err(ClientError::TimedOut),
                ..
            },
            ClientOutput::Closed(Err(ClientError::TimedOut)),
        ]
    ));
}
