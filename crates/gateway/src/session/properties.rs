//! What holds for every input of what has no I/O here. The targets in `fuzz/` include this file and those that it
//! names; `tests` below call it with random bytes.

use super::answers::Answers;
use super::requests::{Requests, Seen};
use super::statement::{Judgement, Statement};
use super::talk::{Alone, Answer, Asked, Frame, Loss, Own, Reply, Talk};
use crate::proxy_header::{self, Origin};

/// In how large pieces a stream arrives; 0: at once.
const PIECES: [usize; 4] = [0, 1, 3, 64];

fn pieces(data: &[u8], size: usize) -> impl Iterator<Item = &[u8]> {
    data.chunks(if size == 0 { data.len().max(1) } else { size })
}

/// What a client says is understood in the same way however it is cut, and nothing that was not said is kept back.
pub(crate) fn requests(data: &[u8]) {
    let follow = |size| {
        let mut requests = Requests::new();
        let (mut events, mut total) = (Vec::new(), 0);
        for piece in pieces(data, size) {
            total += piece.len();
            let mut input = piece;
            loop {
                match requests.next(&mut input) {
                    Ok(Some(seen)) => {
                        let at = total - input.len();
                        events.push(match seen {
                            Seen::RoleStatement { wire } | Seen::Write { wire } => (at - wire, None),
                            Seen::Ended { tag, words, wire } => (at - wire, Some((tag, words))),
                        });
                    }
                    Ok(None) => break,
                    Err(_) => return events,
                }
            }
            assert!(requests.undecided() <= requests.wire() && requests.wire() <= total);
            assert!(!requests.is_between() || requests.undecided() == 0);
        }
        events
    };
    let whole = follow(0);
    for size in PIECES {
        assert_eq!(follow(size), whole, "in pieces of {size}");
    }
}

/// What a database says is understood in the same way however it is cut.
pub(crate) fn answers(data: &[u8]) {
    let follow = |size| {
        let mut answers = Answers::new();
        let mut given = Vec::new();
        let (mut not_main, mut doubtful, mut closes) = (false, false, false);
        for piece in pieces(data, size) {
            let Ok(said) = answers.read(piece, |answer| given.push(answer)) else {
                return (given, None);
            };
            not_main |= said.not_main;
            doubtful |= said.doubtful;
            closes |= said.closes;
        }
        (given, Some((not_main, doubtful, closes)))
    };
    let whole = follow(0);
    for size in PIECES {
        assert_eq!(follow(size), whole, "in pieces of {size}");
    }
}

/// A statement is judged in the same way however it is cut, and a judgement is never taken back.
pub(crate) fn statement(data: &[u8]) {
    let judge = |size| {
        let mut statement = Statement::new();
        let mut last = Judgement::Open;
        for piece in pieces(data, size) {
            let now = statement.read(piece);
            assert!(last == Judgement::Open || now == last, "{last:?}, then {now:?}");
            last = now;
        }
        let end = statement.finish();
        assert!(last == Judgement::Open || end == last);
        assert!(end != Judgement::Open);
        end
    };
    let whole = judge(0);
    for size in PIECES {
        assert_eq!(judge(size), whole, "in pieces of {size}");
    }
}

/// Whatever was asked and answered: every request that is left gets one reply, and nobody is told that nothing was
/// committed after something was asked for that commits.
pub(crate) fn talk(data: &[u8]) {
    let mut talk = Talk::default();
    let mut left = Vec::new();
    for byte in data {
        match asked(byte & 0x0F) {
            Some(asked) if byte & 0x10 == 0 => {
                talk.asked(asked);
                if asked != Asked::Goodbye {
                    left.push(asked);
                }
            }
            _ => {
                talk.answered(match byte >> 6 {
                    0 => Answer::Success,
                    1 => Answer::More,
                    2 => Answer::Failure,
                    _ => Answer::Ignored,
                });
                if !left.is_empty() {
                    left.remove(0);
                }
            }
        }
        assert_eq!(talk.unanswered(), left.len());
        assert!(left.is_empty() || !talk.is_quiet());
    }
    let failed = talk.is_failed();
    let replies = talk.left(false).replies;
    assert_eq!(replies.len(), left.len());
    if let (Some(Asked::Commit), Some(reply), false) = (left.first(), replies.first(), failed) {
        assert_eq!(*reply, Reply::Failure(Loss::Unknown));
    }
    alone(data);
}

/// A session without a database says IGNORED only after a failure, and RESET ends every trouble.
fn alone(data: &[u8]) {
    let mut alone = Alone::LOST;
    let mut failed = false;
    for asked in data.iter().filter_map(|byte| asked(byte & 0x0F)) {
        match alone.on(asked) {
            Own::Reply(Reply::Failure(_)) => failed = true,
            Own::Reply(Reply::Ignored) => assert!(failed),
            Own::Reply(Reply::Success) => failed = false,
            Own::Attach => assert!(!alone.is_in_trouble()),
            Own::Leave => assert_eq!(asked, Asked::Goodbye),
        }
        if asked == Asked::Reset {
            assert!(!alone.is_in_trouble());
        }
    }
}

const fn asked(number: u8) -> Option<Asked> {
    Some(match number {
        0 => Asked::Run(Frame::Plain),
        1 => Asked::Run(Frame::Begin),
        2 => Asked::Run(Frame::Commit),
        3 => Asked::Run(Frame::Rollback),
        4 => Asked::Begin,
        5 => Asked::Commit,
        6 => Asked::Rollback,
        7 => Asked::Fetch,
        8 => Asked::Reset,
        9 => Asked::AckFailure,
        10 => Asked::Goodbye,
        11 => Asked::Other,
        _ => return None,
    })
}

/// A header is read once it is complete, is never waited for without end, and says again what it said.
pub(crate) fn header(data: &[u8]) {
    let mut input = data;
    match proxy_header::read(&mut input) {
        Ok(None) => assert!(proxy_header::missing(data) > 0 && data.len() < 16 + 2048),
        Ok(Some(origin)) => {
            let used = data.len() - input.len();
            let mut short = data.get(..used - 1).unwrap_or_default();
            assert_eq!(proxy_header::read(&mut short), Ok(None));
            if let Origin::Carried { source, destination } = origin {
                let again = proxy_header::write(source, destination);
                let read = proxy_header::read(&mut again.as_slice());
                assert!(matches!(read, Ok(Some(Origin::Carried { .. }))));
            }
        }
        Err(_) => assert_eq!(input, data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn they_hold_for_random_bytes(data in prop::collection::vec(any::<u8>(), 0..300)) {
            requests(&data);
            answers(&data);
            statement(&data);
            talk(&data);
            header(&data);
        }

        #[test]
        fn they_hold_for_bytes_that_almost_mean_something(
            parts in prop::collection::vec(prop::sample::select(&PARTS[..]), 0..20),
        ) {
            let data = parts.concat();
            requests(&data);
            answers(&data);
            statement(&data);
            header(&data);
        }
    }

    /// Chunks, messages, words and headers, or pieces of them.
    const PARTS: [&[u8]; 18] = [
        b"\0\x02",
        b"\0\0",
        b"\0\x10\xB3\x10\x8DDROP REPLICA x",
        b"\xB3\x10\xD0\x10",
        b"\0\x03\xB1\x70\xA0\0\0",
        b"\0\x02\xB0\x7E\0\0",
        b"\xB1\x7F\xA2",
        b"\x88has_more\xC3",
        b"SET ",
        b"REPLICATION ",
        b"/* ",
        b"*/",
        b"// ",
        b"\n",
        b"EXPLAIN ",
        b"COMMIT;",
        b"\r\n\r\n\0\r\nQUIT\n",
        b"\x21\x11\0\x0C\x0A\0\0\x09\x7F\0\0\x01\x15\xB3\x1E\x07",
    ];
}
