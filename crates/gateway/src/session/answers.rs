//! Following what a database says: how many requests it has answered, and whether it said that it is not MAIN (G5).

use bolt::frame::{ChunkDecoder, FrameError, Piece};
use bolt::message::{Response, tag};
use bolt::packstream::Limits;

/// As much of a failure as is looked at. The texts that matter are far shorter.
const KEPT: usize = 2048;

/// How a server begins that is not MAIN, or not any more: on RUN, and on COMMIT.
const NOT_MAIN: [&str; 2] = [
    "Write queries are forbidden on the replica instance.",
    "Cannot commit because instance is not main anymore.",
];

/// What stands in a commit that failed because of the replica that protects MAIN: it may be MAIN elsewhere by now.
const ABORTED: &str = "STRICT_SYNC";

/// What a stretch of answers means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Requests that are answered.
    pub(crate) answered: u64,
    /// It said that it is not MAIN.
    pub(crate) not_main: bool,
    /// It said something that the record may explain.
    pub(crate) doubtful: bool,
}

/// Follows a server's stream. It keeps the text of a failure while that arrives, and nothing else.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    chunks: ChunkDecoder,
    /// Bytes of the message so far, at most two.
    seen: u8,
    marker: u8,
    tag: u8,
    failure: Vec<u8>,
}

impl Answers {
    /// At the start of a stream, after the login.
    pub(crate) const fn new() -> Self {
        Self {
            chunks: ChunkDecoder::new(usize::MAX),
            seen: 0,
            marker: 0,
            tag: 0,
            failure: Vec::new(),
        }
    }

    /// Takes the next bytes.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> Result<Said, FrameError> {
        let mut said = Said::default();
        while let Some(piece) = self.chunks.next(&mut bytes)? {
            match piece {
                Piece::Noop => {}
                Piece::Data(data) => self.data(data),
                Piece::End => {
                    said.answered +=
                        u64::from(matches!(self.tag, tag::SUCCESS | tag::FAILURE | tag::IGNORED));
                    if self.tag == tag::FAILURE {
                        self.failed(&mut said);
                    }
                    (self.seen, self.tag) = (0, 0);
                    if !self.failure.is_empty() {
                        self.failure = Vec::new();
                    }
                }
            }
        }
        Ok(said)
    }

    fn failed(&self, said: &mut Said) {
        if let Ok(Response::Failure(failure)) = Response::parse(&self.failure, Limits::DEFAULT) {
            let not_main = NOT_MAIN.iter().any(|text| failure.message.starts_with(text));
            said.not_main |= not_main;
            said.doubtful |= not_main || failure.message.contains(ABORTED);
        }
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bolt::message::Failure;
    use bolt::packstream::{Dict, Value};

    fn wire(responses: &[Response<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for response in responses {
            response.frame(&mut bytes).unwrap();
        }
        bytes
    }

    fn follow(bytes: &[u8], step: usize) -> Said {
        let mut answers = Answers::new();
        let mut all = Said::default();
        for part in bytes.chunks(step) {
            let Said {
                answered,
                not_main,
                doubtful,
            } = answers.read(part).unwrap();
            all.answered += answered;
            all.not_main |= not_main;
            all.doubtful |= doubtful;
        }
        all
    }

    #[test]
    fn rows_answer_nothing_and_everything_else_answers_one_request() {
        let bytes = wire(&[
            Response::Success(Dict::new()),
            Response::Record(vec![Value::Int(1)]),
            Response::Record(vec![Value::from("x".repeat(70_000))]),
            Response::Success(Dict::new()),
            Response::Failure(Failure::client("no")),
            Response::Ignored,
        ]);
        for step in [1, 3, 1000, bytes.len()] {
            let said = follow(&bytes, step);
            let expected = Said {
                answered: 4,
                ..Said::default()
            };
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn a_server_that_says_it_is_not_main_is_heard() {
        let forbidden = format!("{} Replica instances accept only read queries.", NOT_MAIN[0]);
        for text in [&forbidden, NOT_MAIN[1]] {
            let bytes = wire(&[Response::Failure(Failure::client(text)), Response::Ignored]);
            for step in [1, 7, bytes.len()] {
                let said = follow(&bytes, step);
                assert!(said.not_main && said.doubtful, "{text}");
            }
        }
        let quoted = wire(&[Response::Failure(Failure::client(format!("no: {}", NOT_MAIN[0])))]);
        assert!(!follow(&quoted, 5).not_main);
        let long = wire(&[Response::Failure(Failure::client("x".repeat(10_000)))]);
        assert!(!follow(&long, 100).doubtful);
    }

    #[test]
    fn a_commit_that_the_protecting_replica_did_not_confirm_is_a_reason_to_read_the_record_again() {
        for text in [
            "At least one STRICT_SYNC replica has not confirmed committing last transaction.",
            "Replication Exception: Failed to replicate to STRICT_SYNC replica a: x.",
        ] {
            let said = follow(&wire(&[Response::Failure(Failure::transient(text))]), 9);
            assert!(said.doubtful && !said.not_main, "{text}");
        }
    }
}
