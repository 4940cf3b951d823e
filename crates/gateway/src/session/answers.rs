//! Following what a database says: which requests it has answered and how, and whether it said that it is not MAIN
//! (G5).

use super::talk::{Answer, NotMain};
use bolt::frame::{ChunkDecoder, FrameError, Piece};
use bolt::message::{Failure, Response, tag};
use bolt::packstream::Limits;

/// As much of a failure as is looked at. The texts that matter are far shorter.
const KEPT: usize = 2048;

/// How a server begins that is not MAIN, or not any more: on RUN, and on COMMIT.
const NOT_MAIN: [(&str, NotMain); 2] = [
    (
        "Write queries are forbidden on the replica instance.",
        NotMain::Forbidden,
    ),
    (
        "Cannot commit because instance is not main anymore.",
        NotMain::NoCommit,
    ),
];

/// What stands in a commit that failed because of the replica that protects MAIN: it may be MAIN elsewhere by now.
const ABORTED: &str = "STRICT_SYNC";

/// What a stretch of answers means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// It said that it is not MAIN.
    pub(crate) not_main: bool,
    /// It said something that the record may explain.
    pub(crate) doubtful: bool,
    /// It closes the connection because of what the client said.
    pub(crate) closes: bool,
    /// So many of the last bytes are not for the client: they begin a failure that may have to be another one, or are what
    /// came since one that has to be.
    pub(crate) kept: usize,
}

/// Who is told of what is answered.
pub(crate) trait Hearer {
    /// The oldest request is answered.
    fn answered(&mut self, answer: Answer);
    /// The oldest request is refused by a server that is not MAIN. Is the client to be told something else? Then nothing
    /// that comes afterwards is looked at.
    fn refused(&mut self, by: NotMain) -> bool;
}

/// How the summary of a page begins its last entry if there are more: a short text, and `true`.
const HAS_MORE: &[u8] = b"\x88has_more\xC3";

/// Follows a server's stream. It keeps the text of a failure while that arrives, and nothing else.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    chunks: ChunkDecoder,
    /// Bytes of the message so far, at most two.
    seen: u8,
    marker: u8,
    tag: u8,
    /// How many bytes of [`HAS_MORE`] the last bytes of a SUCCESS were.
    matched: usize,
    failure: Vec<u8>,
    /// Bytes of the message so far, those between its chunks included.
    wire: usize,
}

impl Answers {
    /// At the start of a stream, after the login.
    pub(crate) const fn new() -> Self {
        Self {
            chunks: ChunkDecoder::new(usize::MAX),
            seen: 0,
            marker: 0,
            tag: 0,
            matched: 0,
            failure: Vec::new(),
            wire: 0,
        }
    }

    /// Whether the stream is between two messages.
    pub(crate) const fn is_between(&self) -> bool {
        self.chunks.is_idle()
    }

    /// Takes the next bytes; `hearer` is told of each request that is answered by them.
    pub(crate) fn read(&mut self, mut bytes: &[u8], hearer: &mut impl Hearer) -> Result<Said, FrameError> {
        let mut said = Said::default();
        if self.wire == 0 {
            bytes = after_rows(bytes);
        }
        loop {
            let before = bytes.len();
            let piece = self.chunks.next(&mut bytes)?;
            self.wire = self.wire.saturating_add(before.saturating_sub(bytes.len()));
            match piece {
                None => break,
                Some(Piece::Noop) => self.wire = 0,
                Some(Piece::Data(data)) => self.data(data),
                Some(Piece::End) => {
                    match self.tag {
                        tag::SUCCESS if self.matched == HAS_MORE.len() => hearer.answered(Answer::More),
                        tag::SUCCESS => hearer.answered(Answer::Success),
                        tag::IGNORED => hearer.answered(Answer::Ignored),
                        tag::FAILURE => {
                            let not_main = self.failed(&mut said);
                            // Of one that was not kept to its end, the client has the begin.
                            let whole = self.failure.len() < KEPT;
                            if whole && not_main.is_some_and(|by| hearer.refused(by)) {
                                said.kept = self.wire.saturating_add(bytes.len());
                                return Ok(said);
                            }
                            hearer.answered(Answer::Failure);
                        }
                        _ => {}
                    }
                    (self.seen, self.tag, self.matched, self.wire) = (0, 0, 0, 0);
                    if !self.failure.is_empty() {
                        self.failure = Vec::new();
                    }
                    bytes = after_rows(bytes);
                }
            }
        }
        said.kept = if self.is_undecided() { self.wire } else { 0 };
        Ok(said)
    }

    /// Is the message that has begun a failure that may have to be another one, or may it be one?
    const fn is_undecided(&self) -> bool {
        self.seen < 2 || (self.tag == tag::FAILURE && self.failure.len() < KEPT)
    }

    fn failed(&self, said: &mut Said) -> Option<NotMain> {
        let Ok(Response::Failure(failure)) = Response::parse(&self.failure, Limits::DEFAULT) else {
            return None;
        };
        let not_main = NOT_MAIN
            .iter()
            .find(|(text, _)| failure.message.starts_with(text))
            .map(|(_, by)| *by);
        said.not_main |= not_main.is_some();
        said.closes |= failure.code == Failure::UNEXPECTED.code;
        said.doubtful |= not_main.is_some() || failure.message.contains(ABORTED);
        not_main
    }

    fn data(&mut self, data: &[u8]) {
        let mut rest = data;
        while self.seen < 2
            && let Some((&first, after)) = rest.split_first()
        {
            if self.seen == 0 {
                self.marker = first;
            } else {
                self.tag = first;
                if first == tag::FAILURE {
                    self.failure.extend_from_slice(&[self.marker, first]);
                }
            }
            self.seen += 1;
            rest = after;
        }
        if self.tag == tag::FAILURE {
            let room = KEPT.saturating_sub(self.failure.len());
            self.failure.extend(rest.iter().take(room));
        }
        if self.tag == tag::SUCCESS {
            self.look_for_more(rest);
        }
    }

    /// The first byte of what is looked for does not come again in it, so a mismatch begins anew.
    fn look_for_more(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match HAS_MORE.get(self.matched) {
                None => return,
                Some(expected) if expected == byte => self.matched += 1,
                Some(_) => self.matched = usize::from(HAS_MORE.first() == Some(byte)),
            }
        }
    }
}

/// What comes after the rows that lie in these bytes as a whole, each in one chunk: nothing of them matters, and there
/// may be millions.
fn after_rows(mut bytes: &[u8]) -> &[u8] {
    while let [high, low, _, tag::RECORD, ..] = bytes {
        let size = usize::from(u16::from_be_bytes([*high, *low]));
        match bytes.get(size.saturating_add(2)..) {
            Some([0, 0, rest @ ..]) if size >= 2 => bytes = rest,
            _ => break,
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::oracle::Heard;
    use super::*;
    use bolt::packstream::{Dict, Value, dict};

    fn wire(responses: &[Response<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for response in responses {
            response.frame(&mut bytes).unwrap();
        }
        bytes
    }

    fn follow(bytes: &[u8], step: usize) -> (Vec<Answer>, Said) {
        let mut answers = Answers::new();
        let mut all = Said::default();
        let mut heard = Heard {
            given: Vec::new(),
            other: false,
        };
        for part in bytes.chunks(step) {
            let Said {
                not_main,
                doubtful,
                closes,
                kept: _,
            } = answers.read(part, &mut heard).unwrap();
            all.not_main |= not_main;
            all.doubtful |= doubtful;
            all.closes |= closes;
        }
        assert!(answers.is_between());
        (heard.given, all)
    }

    #[test]
    fn a_failure_is_kept_until_it_is_known_and_what_has_to_be_another_one_is_not_for_the_client() {
        let before = wire(&[
            Response::Success(Dict::new()),
            Response::Record(vec![Value::Int(1)]),
        ]);
        let refusal = wire(&[
            Response::Failure(Failure::client(NOT_MAIN[1].0)),
            Response::Ignored,
        ]);
        let other = wire(&[Response::Failure(Failure::client("Other.")), Response::Ignored]);
        let long = wire(&[Response::Failure(Failure::client("x".repeat(3 * KEPT)))]);
        // A server that says as much as is kept, to the byte, is not held up to the end.
        let most = |size| {
            wire(&[Response::Failure(Failure::client(format!(
                "{}{}",
                NOT_MAIN[1].0,
                "x".repeat(size)
            )))])
        };
        let edge = (1_800..KEPT)
            .map(most)
            .find(|bytes| bytes.len() == KEPT + 4)
            .unwrap();
        for step in [1, 2, 3, 7, 64, 100_000] {
            for (after, passes) in [(&refusal, false), (&other, true), (&long, true), (&edge, true)] {
                let bytes = [before.as_slice(), after].concat();
                let (mut answers, mut kept) = (Answers::new(), Vec::new());
                let mut heard = Heard {
                    given: Vec::new(),
                    other: true,
                };
                let (mut sent, mut most) = (Vec::new(), 0);
                for part in bytes.chunks(step) {
                    let said = answers.read(part, &mut heard).unwrap();
                    kept.extend_from_slice(part);
                    sent.extend(kept.drain(..kept.len() - said.kept));
                    if said.not_main && !passes {
                        break;
                    }
                    most = most.max(kept.len());
                }
                assert_eq!(
                    sent,
                    if passes { bytes } else { before.clone() },
                    "in steps of {step}"
                );
                assert!(most <= KEPT + step + 8, "{most}");
            }
        }
    }

    #[test]
    fn rows_answer_nothing_and_everything_else_answers_one_request() {
        let page = |more| dict([("x", Value::from("y")), ("has_more", Value::Bool(more))]);
        let bytes = wire(&[
            Response::Success(Dict::new()),
            Response::Record(vec![Value::Int(1)]),
            Response::Record(vec![Value::from("x".repeat(70_000))]),
            Response::Success(page(true)),
            Response::Record(vec![Value::Dict(page(true))]),
            Response::Success(page(false)),
            Response::Failure(Failure::client("no")),
            Response::Ignored,
        ]);
        for step in [1, 3, 1000, bytes.len()] {
            let (given, said) = follow(&bytes, step);
            assert_eq!(
                given,
                [
                    Answer::Success,
                    Answer::More,
                    Answer::Success,
                    Answer::Failure,
                    Answer::Ignored
                ]
            );
            assert_eq!(said, Said::default());
        }
    }

    #[test]
    fn a_server_that_says_it_is_not_main_is_heard() {
        let forbidden = format!("{} Replica instances accept only read queries.", NOT_MAIN[0].0);
        for text in [&forbidden, NOT_MAIN[1].0] {
            let bytes = wire(&[Response::Failure(Failure::client(text)), Response::Ignored]);
            for step in [1, 7, bytes.len()] {
                let said = follow(&bytes, step).1;
                assert!(said.not_main && said.doubtful, "{text}");
            }
        }
        let unexpected = wire(&[Response::Failure(Failure::UNEXPECTED)]);
        assert!(follow(&unexpected, 7).1.closes);
        let quoted = wire(&[Response::Failure(Failure::client(format!(
            "no: {}",
            NOT_MAIN[0].0
        )))]);
        assert!(!follow(&quoted, 5).1.not_main);
        let long = wire(&[Response::Failure(Failure::client("x".repeat(10_000)))]);
        assert!(!follow(&long, 100).1.doubtful);
    }

    #[test]
    fn a_commit_that_the_protecting_replica_did_not_confirm_is_a_reason_to_read_the_record_again() {
        for text in [
            "At least one STRICT_SYNC replica has not confirmed committing last transaction.",
            "Replication Exception: Failed to replicate to STRICT_SYNC replica a: x.",
        ] {
            let said = follow(&wire(&[Response::Failure(Failure::transient(text))]), 9).1;
            assert!(said.doubtful && !said.not_main, "{text}");
        }
    }
}
