//! What holds for every input of what has no I/O here. The targets in `fuzz/` include this file and those that it
//! names; `tests` below call it with random bytes.

use super::answers::Answers;
use super::oracle::{Heard, Said, Server, told, writes};
use super::read_only::ReadOnly;
use super::requests::{Requests, Seen};
use super::statement::{Judgement, Statement};
use super::talk::{Alone, Answer, Asked, Frame, Loss, Own, Reply, Talk};
use crate::proxy_header::{self, Origin};
use bolt::message::tag;
use std::collections::VecDeque;

/// In how large pieces a stream arrives; 0: at once.
const PIECES: [usize; 4] = [0, 1, 3, 64];

fn pieces(data: &[u8], size: usize) -> impl Iterator<Item = &[u8]> {
    data.chunks(if size == 0 { data.len().max(1) } else { size })
}

/// What a client says is understood in the same way however it is cut, and nothing that was not said is kept back. Where
/// only reads pass, nothing else is different.
pub(crate) fn requests(data: &[u8]) {
    let [all, reads] = [false, true].map(|only_reads| {
        let whole = follow(data, 0, only_reads);
        for size in PIECES {
            assert_eq!(
                follow(data, size, only_reads),
                whole,
                "in pieces of {size}, only reads: {only_reads}"
            );
        }
        whole
    });
    let passed = reads
        .into_iter()
        .filter(|seen| !matches!(seen, Seen::Write { .. }));
    assert_eq!(passed.collect::<Vec<_>>(), all);
}

/// Everything that is seen of it, with the place of each begin in the place of its distance.
fn follow(data: &[u8], size: usize, only_reads: bool) -> Vec<Seen> {
    let mut requests = Requests::new();
    requests.only_reads(only_reads);
    let (mut events, mut total) = (Vec::new(), 0);
    for piece in pieces(data, size) {
        total += piece.len();
        let mut input = piece;
        loop {
            let Ok(seen) = requests.next(&mut input) else {
                return events;
            };
            let at = total - input.len();
            events.push(match seen {
                None => break,
                Some(Seen::RoleStatement { wire }) => Seen::RoleStatement { wire: at - wire },
                Some(Seen::Write { wire }) => Seen::Write { wire: at - wire },
                Some(Seen::Ended { tag, words, wire }) => Seen::Ended {
                    tag,
                    words,
                    wire: at - wire,
                },
            });
        }
        assert!(requests.undecided() <= requests.wire() && requests.wire() <= total);
        assert!(!requests.is_between() || requests.undecided() == 0);
    }
    events
}

/// A statement is a read or none however it is cut; one that writes is none; and where only reads pass it does not.
pub(crate) fn read_only(data: &[u8]) {
    let judge = |size| {
        let mut statement = ReadOnly::new();
        for piece in pieces(data, size) {
            statement.read(piece);
        }
        statement.finish()
    };
    let reads = judge(0);
    for size in PIECES {
        assert_eq!(judge(size), reads, "in pieces of {size}");
    }
    assert!(!(reads && writes(data)), "it writes");
    let mut statement = Statement::new();
    statement.read(data);
    let is_role = statement.finish() == Judgement::Role;
    for size in PIECES {
        let seen = follow(&run(data), size, true);
        let refused = match seen.first() {
            Some(Seen::RoleStatement { .. }) => Some(true),
            Some(Seen::Write { .. }) => Some(false),
            Some(Seen::Ended { .. }) | None => None,
        };
        let expected = (is_role || !reads).then_some(is_role);
        assert_eq!(refused, expected, "in pieces of {size}: {seen:?}");
    }
}

/// The message RUN with this statement, in one chunk or more.
fn run(statement: &[u8]) -> Vec<u8> {
    let size = u32::try_from(statement.len()).unwrap_or(u32::MAX);
    let mut payload = vec![0xB3, tag::RUN, 0xD2];
    payload.extend_from_slice(&size.to_be_bytes());
    payload.extend_from_slice(statement);
    payload.extend_from_slice(&[0xA0, 0xA0]);
    let mut bytes = Vec::new();
    for chunk in payload.chunks(1000) {
        let size = u16::try_from(chunk.len()).unwrap_or(u16::MAX);
        bytes.extend_from_slice(&size.to_be_bytes());
        bytes.extend_from_slice(chunk);
    }
    bytes.extend_from_slice(&[0, 0]);
    bytes
}

/// What a database says is understood in the same way however it is cut, and all of it is for the client, up to a failure
/// in whose place there is another one.
pub(crate) fn answers(data: &[u8]) {
    let follow = |size, other| {
        let mut answers = Answers::new();
        let mut heard = Heard {
            given: Vec::new(),
            other,
        };
        let (mut not_main, mut doubtful, mut closes) = (false, false, false);
        let (mut kept, mut sent) = (Vec::new(), Vec::new());
        for piece in pieces(data, size) {
            let Ok(said) = answers.read(piece, &mut heard) else {
                return (heard.given, sent, None);
            };
            not_main |= said.not_main;
            doubtful |= said.doubtful;
            closes |= said.closes;
            kept.extend_from_slice(piece);
            assert!(said.kept <= piece.len() || said.kept == kept.len());
            sent.extend(kept.drain(..kept.len() - said.kept));
            if other && said.not_main {
                return (heard.given, sent, Some((not_main, doubtful, closes)));
            }
        }
        if !other {
            sent.append(&mut kept);
            assert_eq!(sent, data);
        }
        (heard.given, sent, Some((not_main, doubtful, closes)))
    };
    for other in [false, true] {
        let whole = follow(0, other);
        for size in PIECES {
            let (given, sent, said) = follow(size, other);
            assert_eq!((&given, said), (&whole.0, whole.2), "in pieces of {size}");
            // What came before bytes that are no message is sent as far as it came.
            assert!(said.is_none() || sent == whole.1, "in pieces of {size}");
            assert!(data.starts_with(&sent));
        }
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

/// Whatever was asked and answered, by a server or by nobody who is one: every request that is left gets one reply, and
/// nobody is told that nothing was committed after something was asked for that commits.
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
    let replies = talk.left(false).replies;
    assert_eq!(replies.len(), left.len());
    for (index, reply) in replies.iter().enumerate() {
        let mut after = left
            .iter()
            .skip(index)
            .take_while(|asked| **asked != Asked::Reset);
        let commit = after.any(|asked| matches!(asked, Asked::Commit | Asked::Run(Frame::Commit)));
        assert!(
            !commit || *reply != Reply::Failure(Loss::Nothing),
            "{left:?}: {replies:?}"
        );
    }
    beside_a_server(data);
    beside_one_that_is_demoted(data);
    alone(data);
}

/// A server is ahead of what its client has heard: of whatever it has committed meanwhile the client is told that nobody
/// knows.
fn beside_a_server(data: &[u8]) {
    let (mut server, mut talk) = (Server::default(), Talk::default());
    let mut unheard = VecDeque::new();
    for byte in data {
        let next = asked(byte & 0x0F).filter(|asked| *asked != Asked::Goodbye);
        if let Some(asked) = next {
            talk.asked(asked);
            let (said, committed) = server.take(asked, byte & 0x10 != 0, byte & 0x20 != 0);
            unheard.push_back((asked, said.answer(), committed));
        }
        for (_, answer, _) in unheard.drain(..usize::from(byte >> 6).min(unheard.len())) {
            talk.answered(answer);
        }
    }
    let left: Vec<_> = unheard.iter().map(|(asked, ..)| *asked).collect();
    let replies = talk.clone().left(false).replies;
    for (index, (_, _, committed)) in unheard.iter().enumerate() {
        if *committed {
            let told = told(&replies, &left, index);
            assert_eq!(
                told,
                Some(Loss::Unknown),
                "{index} of {left:?}: {replies:?} {talk:?}"
            );
        }
    }
}

/// A MAIN loses its office in the middle, and says so: who is told that nothing was committed instead is told the truth,
/// every transaction is told so, and everybody gets one reply for each request.
fn beside_one_that_is_demoted(data: &[u8]) {
    let (mut server, mut talk) = (Server::default(), Talk::default());
    let mut unheard = VecDeque::new();
    for byte in data {
        server.demoted |= byte & 0x10 != 0;
        if let Some(asked) = asked(byte & 0x0F).filter(|asked| *asked != Asked::Goodbye) {
            talk.asked(asked);
            let explicit = server.transaction;
            let (answer, committed) = server.take(asked, false, byte & 0x20 != 0);
            unheard.push_back((asked, answer, committed, explicit));
        }
        for _ in 0..usize::from(byte >> 6).min(unheard.len()) {
            let Some((asked, answer, committed, explicit)) = unheard.pop_front() else {
                return;
            };
            let by = match answer {
                Said::NotMain(by) => by,
                Said::Answer(answer) => {
                    talk.answered(answer);
                    continue;
                }
            };
            let mut told = talk.clone();
            if !told.refused(by) {
                assert!(asked == Asked::Fetch && !explicit, "{asked:?} in {talk:?}");
                talk.answered(Answer::Failure);
                continue;
            }
            assert!(!committed, "{asked:?} in {talk:?}");
            let replies = told.left(false).replies;
            assert_eq!(replies.len(), unheard.len() + 1);
            assert_eq!(replies.first(), Some(&Reply::Failure(Loss::Nothing)));
            let until_reset = unheard
                .iter()
                .take_while(|(asked, ..)| !matches!(asked, Asked::Reset | Asked::AckFailure));
            for (reply, _) in replies.iter().skip(1).zip(until_reset) {
                assert_eq!(*reply, Reply::Ignored, "{replies:?}");
            }
            return;
        }
    }
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
            read_only(&data);
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
            read_only(&data);
            header(&data);
        }

        #[test]
        fn they_hold_for_statements_that_almost_write(
            words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..12),
        ) {
            let data = [b"MATCH (n) ", words.concat().as_slice()].concat();
            read_only(&data);
            requests(&run(&data));
        }
    }

    proptest! {
        // Most of what is asked at random fails at once, and then nothing commits until it is reset.
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 20_000, ..ProptestConfig::default() })]

        #[test]
        fn what_a_server_has_committed_is_never_called_nothing(
            asked in prop::collection::vec((0..10_u8, prop::bool::weighted(0.1), any::<bool>(), 0..4_u8), 0..16),
        ) {
            let byte = |(asked, fails, more, heard): &(u8, bool, bool, u8)| {
                *asked | u8::from(*fails) << 4 | u8::from(*more) << 5 | *heard << 6
            };
            beside_a_server(&asked.iter().map(byte).collect::<Vec<_>>());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 20_000, ..ProptestConfig::default() })]

        #[test]
        fn what_a_demoted_server_has_refused_is_called_nothing_only_if_it_is(
            asked in prop::collection::vec((0..10_u8, prop::bool::weighted(0.1), any::<bool>(), 0..4_u8), 0..16),
        ) {
            let byte = |(asked, demoted, batch, heard): &(u8, bool, bool, u8)| {
                *asked | u8::from(*demoted) << 4 | u8::from(*batch) << 5 | *heard << 6
            };
            beside_one_that_is_demoted(&asked.iter().map(byte).collect::<Vec<_>>());
        }
    }

    /// What nobody finds at random: a client that acknowledges failures before it hears of them.
    #[test]
    fn what_comes_after_a_transaction_that_is_gone_is_not_called_a_part_of_it() {
        const HEARD: u8 = 1 << 6;
        const FAILS: u8 = 1 << 4;
        let (run, begin_in_words, begin, commit, fetch, acknowledge) = (0, 1, 4, 5, 7, 9);
        beside_a_server(&[begin | HEARD, commit, acknowledge, acknowledge, run, fetch]);
        beside_a_server(&[begin_in_words | HEARD, fetch | FAILS, acknowledge, run, fetch]);
        beside_a_server(&[
            begin_in_words | HEARD,
            fetch | FAILS | HEARD,
            acknowledge | HEARD,
            run | HEARD,
            fetch,
        ]);
    }

    /// What a statement is made of, or what hides it.
    const WORDS: [&[u8]; 24] = [
        b"SET",
        b"create",
        b"DETACH",
        b"dElEtE",
        b"RETURN n",
        b"CALL",
        b"{",
        b"settings",
        b"1",
        b"0x",
        b"_",
        b" ",
        b"\n",
        b".",
        b":",
        b"$",
        b"|",
        b"'",
        b"\"",
        b"`",
        b"\\",
        b"/",
        b"//",
        b"/**/",
    ];

    /// Chunks, messages, words and headers, or pieces of them.
    const PARTS: [&[u8]; 20] = [
        b"\0\x47\xB1\x7F\xA2\x84code\x81x\x87message\xD0\x33Cannot commit because instance is not main anymore.\0\0",
        b"\0\x0E\xB1\x7F\xA1\x87message\x82no\0\0",
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
