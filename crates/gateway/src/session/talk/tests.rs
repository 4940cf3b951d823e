use super::super::oracle::{Server, told};
use super::*;

const ALPHABET: [Asked; 10] = [
    Asked::Run(Frame::Plain),
    Asked::Run(Frame::Begin),
    Asked::Run(Frame::Commit),
    Asked::Begin,
    Asked::Commit,
    Asked::Rollback,
    Asked::Fetch,
    Asked::Reset,
    Asked::AckFailure,
    Asked::Other,
];

/// Every sequence of up to `length` requests.
fn sequences(length: u32, mut each: impl FnMut(&[Asked])) {
    let letters = ALPHABET.len();
    for size in 0..=length {
        for number in 0..letters.pow(size) {
            let mut rest = number;
            let asked: Vec<Asked> = (0..size)
                .map(|_| {
                    let asked = ALPHABET[rest % letters];
                    rest /= letters;
                    asked
                })
                .collect();
            each(&asked);
        }
    }
}

/// Every sequence, every point of answering, every point the server got to, every place of a failure.
#[test]
fn what_may_have_been_committed_is_never_called_nothing_nor_passed_over() {
    let (mut unknown, mut nothing) = (0_u32, 0_u32);
    sequences(4, |asked| {
        for fails in 0..=asked.len() {
            for more in [false, true] {
                let mut server = Server::default();
                let done: Vec<_> = asked
                    .iter()
                    .enumerate()
                    .map(|(index, asked)| server.take(*asked, index == fails, more))
                    .map(|(said, committed)| (said.answer(), committed))
                    .collect();
                for heard in 0..=asked.len() {
                    let mut talk = Talk::default();
                    for asked in asked {
                        talk.asked(*asked);
                    }
                    done.iter()
                        .take(heard)
                        .for_each(|(answer, _)| talk.answered(*answer));
                    let left = talk.left(false);
                    assert_eq!(left.replies.len(), asked.len() - heard, "{asked:?}");
                    for (index, (_, committed)) in done.iter().enumerate().skip(heard) {
                        if !committed {
                            continue;
                        }
                        let said = told(&left.replies, &asked[heard..], index - heard);
                        assert_eq!(
                            said,
                            Some(Loss::Unknown),
                            "{asked:?}, answered {heard}, request {index} committed, told {left:?}"
                        );
                        unknown += 1;
                    }
                    let calm = left.replies.contains(&Reply::Failure(Loss::Nothing));
                    nothing += u32::from(calm);
                }
            }
        }
    });
    assert!(unknown > 1000 && nothing > 1000, "{unknown} {nothing}");
}

#[test]
fn a_session_is_quiet_only_when_its_server_is_in_the_middle_of_nothing() {
    let mut quiet = 0_u32;
    sequences(4, |asked| {
        for more in [false, true] {
            let mut server = Server::default();
            let mut talk = Talk::default();
            let mut smooth = true;
            for asked in asked {
                talk.asked(*asked);
                assert!(!talk.is_quiet(), "a request is under way");
                let answer = server.take(*asked, false, more).0.answer();
                smooth &= answer != Answer::Failure;
                talk.answered(answer);
            }
            if talk.is_quiet() {
                quiet += 1;
                let idle = !server.transaction && server.open.is_none();
                assert!(server.failed || idle, "{asked:?} {server:?}");
                let left = talk.left(false);
                let alone = left.alone.unwrap();
                assert_eq!((alone.failed, alone.lost), (server.failed, None), "{asked:?}");
            } else if smooth {
                // After a failure it may be more careful than it would have to be.
                let idle = !server.transaction && server.open.is_none();
                assert!(!idle, "{asked:?} {talk:?}");
            }
        }
    });
    assert!(quiet > 100);
}

/// After the cut a client sees what a server would show it that failed and was reset, for whatever it says next.
#[test]
fn a_session_without_a_database_never_lets_a_request_slip_into_a_lost_transaction() {
    sequences(5, |asked| {
        for start in [Alone::FAILED, Alone::LOST, Alone::default()] {
            let mut alone = start;
            let mut cleared = !start.is_in_trouble();
            for asked in asked {
                match alone.on(*asked) {
                    Own::Attach => assert!(cleared, "{start:?} {asked:?}"),
                    Own::Leave => panic!("nobody said goodbye"),
                    Own::Reply(Reply::Success) => cleared = true,
                    Own::Reply(Reply::Failure(loss)) => {
                        assert_eq!(loss, Loss::Nothing);
                        assert!(!cleared);
                    }
                    Own::Reply(Reply::Ignored) => assert!(!cleared),
                }
                assert_eq!(alone.is_in_trouble(), !cleared);
            }
        }
    });
}

fn left(answered: &[(Asked, Answer)], waiting: &[Asked], begun: bool) -> Left {
    let mut talk = Talk::default();
    for (asked, answer) in answered {
        talk.asked(*asked);
        talk.answered(*answer);
    }
    for asked in waiting {
        talk.asked(*asked);
    }
    talk.left(begun)
}

#[test]
fn what_clients_are_told() {
    const RUN: Asked = Asked::Run(Frame::Plain);
    let open = [(Asked::Begin, Answer::Success)];
    let none = [];
    let unknown = Reply::Failure(Loss::Unknown);
    let retry = Reply::Failure(Loss::Nothing);
    let calm = Some(Alone::default());
    for (name, answered, waiting, begun, replies, alone) in [
        ("idle", &none[..], &[][..], false, &[][..], calm),
        ("an open transaction", &open, &[], false, &[], Some(Alone::LOST)),
        (
            "a statement in it",
            &open,
            &[RUN, Asked::Fetch],
            false,
            &[retry, Reply::Ignored],
            Some(Alone::FAILED),
        ),
        (
            "its commit",
            &open,
            &[Asked::Commit],
            false,
            &[unknown],
            Some(Alone::FAILED),
        ),
        (
            "its rollback",
            &open,
            &[Asked::Rollback],
            false,
            &[Reply::Success],
            calm,
        ),
        (
            "a statement alone",
            &none,
            &[RUN, Asked::Fetch],
            false,
            &[unknown, Reply::Ignored],
            Some(Alone::FAILED),
        ),
        (
            "everything at once",
            &none,
            &[Asked::Begin, RUN, Asked::Fetch, Asked::Commit],
            false,
            &[unknown, Reply::Ignored, Reply::Ignored, Reply::Ignored],
            Some(Alone::FAILED),
        ),
        (
            "a transaction that begins",
            &none,
            &[Asked::Begin, RUN, Asked::Fetch],
            false,
            &[retry, Reply::Ignored, Reply::Ignored],
            Some(Alone::FAILED),
        ),
        ("reset", &open, &[Asked::Reset], false, &[Reply::Success], calm),
        ("half a request", &none, &[], true, &[], Some(Alone::LOST)),
        (
            "a page of a result",
            &[(RUN, Answer::Success), (Asked::Fetch, Answer::More)],
            &[],
            false,
            &[],
            Some(Alone {
                failed: false,
                lost: Some(Loss::Unknown),
            }),
        ),
        (
            "a failure",
            &[(RUN, Answer::Failure)],
            &[Asked::Fetch],
            false,
            &[Reply::Ignored],
            Some(Alone::FAILED),
        ),
    ] {
        let expected = Left {
            replies: replies.to_vec(),
            alone,
        };
        assert_eq!(left(answered, waiting, begun), expected, "{name}");
    }
}

#[test]
fn a_session_with_state_of_its_own_does_not_go_on() {
    let mut talk = Talk::default();
    talk.bind();
    assert!(talk.is_quiet());
    assert_eq!(talk.left(false).alone, None);
    assert!(binds(tag::RUN, Judgement::Session) && binds(tag::LOGOFF, Judgement::Plain));
    assert!(!binds(tag::RUN, Judgement::Begin));
}

/// A statement may commit in batches while its result is fetched: then nobody knows how many of them.
#[test]
fn after_a_page_of_a_statement_of_its_own_nobody_knows_what_was_committed() {
    let told = |asked: &[(Asked, Answer)]| {
        let mut talk = Talk::default();
        for (asked, answer) in asked {
            talk.asked(*asked);
            talk.answered(*answer);
        }
        talk.left(false).alone.unwrap().on(Asked::Fetch)
    };
    let run = (Asked::Run(Frame::Plain), Answer::Success);
    let page = (Asked::Fetch, Answer::More);
    let failure = |loss| Own::Reply(Reply::Failure(loss));
    assert_eq!(told(&[run]), failure(Loss::Nothing));
    assert_eq!(told(&[run, page]), failure(Loss::Unknown));
    let begin = (Asked::Begin, Answer::Success);
    assert_eq!(
        told(&[begin, run, page]),
        failure(Loss::Nothing),
        "it is gone as a whole"
    );
    let end = (Asked::Fetch, Answer::Success);
    assert_eq!(
        told(&[run, page, end, run]),
        failure(Loss::Nothing),
        "another one"
    );
}

/// What a MAIN says that was demoted under a client. Only where that proves that nothing was committed, the client is told
/// to try again.
#[test]
fn a_refused_transaction_may_be_tried_again_and_a_refused_batch_may_not() {
    let heard = |asked: &[Asked]| {
        let mut talk = Talk::default();
        for asked in asked {
            talk.asked(*asked);
            talk.answered(Answer::Success);
        }
        talk
    };
    let run = Asked::Run(Frame::Plain);
    let commit = Asked::Run(Frame::Commit);
    let begin = Asked::Run(Frame::Begin);
    for (before, waiting, by, certain) in [
        (&[][..], run, NotMain::Forbidden, true),
        (&[Asked::Begin], run, NotMain::Forbidden, true),
        (&[Asked::Begin, run], run, NotMain::Forbidden, true),
        (
            &[Asked::Begin, run, Asked::Fetch],
            Asked::Commit,
            NotMain::NoCommit,
            true,
        ),
        (
            &[begin, Asked::Fetch, run, Asked::Fetch, commit],
            Asked::Fetch,
            NotMain::NoCommit,
            true,
        ),
        // It may be a statement that commits in batches.
        (&[run], Asked::Fetch, NotMain::NoCommit, false),
        // What nobody has seen a server say proves nothing.
        (&[], run, NotMain::NoCommit, false),
        (&[run], run, NotMain::Forbidden, false),
        (&[Asked::Begin, run], Asked::Fetch, NotMain::Forbidden, false),
        (&[Asked::Begin], Asked::Commit, NotMain::Forbidden, false),
    ] {
        let mut talk = heard(before);
        talk.asked(waiting);
        talk.asked(Asked::Fetch);
        talk.asked(Asked::Reset);
        assert_eq!(talk.refused(by), certain, "{before:?} {waiting:?} {by:?}");
        if certain {
            let left = talk.left(false);
            let told = [Reply::Failure(Loss::Nothing), Reply::Ignored, Reply::Success];
            assert_eq!(left.replies, told, "{before:?} {waiting:?}");
            assert_eq!(left.alone, Some(Alone::default()));
        }
    }
}
