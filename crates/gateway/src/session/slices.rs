//! What of the bytes that came goes on, and what does not. No I/O: the same bytes give the same slices, however they are
//! cut.

use super::forward::Refusing;
use super::requests::{Requests, Seen};
use super::statement::Judgement;
use bolt::frame::FrameError;
use bolt::message::tag;
use std::mem;

/// What to do next with what a client said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// A message is complete, and goes on with a later step.
    Asked { tag: u8, words: Judgement },
    /// `before` goes on; the statement that has begun then is refused.
    Refuse { before: &'a [u8], write: bool },
    /// A message after a statement that was refused is complete. Nothing of it goes on.
    Ignore { tag: u8, words: Judgement },
    /// `before` goes on; the message is the gateway's to answer.
    Route { before: &'a [u8], message: &'a [u8] },
    /// `before` goes on; the message is another login, which is refused.
    Login { before: &'a [u8] },
    /// That was all: these go on, and the others are kept until it is known what they begin.
    Over { pass: &'a [u8], kept: &'a [u8] },
}

/// Some bytes of a client, and how far they were gone through.
#[derive(Debug)]
pub(crate) struct Slices<'a> {
    bytes: &'a [u8],
    /// What is before this was looked at.
    seen: usize,
    /// What is before this has its step.
    from: usize,
}

impl<'a> Slices<'a> {
    /// The first `known` bytes were looked at before, and kept.
    pub(crate) const fn new(bytes: &'a [u8], known: usize) -> Self {
        Self {
            bytes,
            seen: known,
            from: 0,
        }
    }

    /// The next step. `refusing` is what the last one made of it; `keeps_login`: nobody may become somebody else here.
    pub(crate) fn next(
        &mut self,
        requests: &mut Requests,
        refusing: Refusing,
        keeps_login: bool,
    ) -> Result<Step<'a>, FrameError> {
        let refused = refusing != Refusing::No;
        let mut rest = self.bytes.get(self.seen..).unwrap_or_default();
        while let Some(seen) = requests.next(&mut rest)? {
            let here = self.bytes.len().saturating_sub(rest.len());
            self.seen = here;
            let write = matches!(seen, Seen::Write { .. });
            return Ok(match seen {
                Seen::RoleStatement { .. } | Seen::Write { .. } if refused => continue,
                Seen::RoleStatement { wire } | Seen::Write { wire } => Step::Refuse {
                    before: self.until(here.saturating_sub(wire)),
                    write,
                },
                Seen::Ended { tag, words, wire: _ } if refused => {
                    self.from = here;
                    Step::Ignore { tag, words }
                }
                Seen::Ended {
                    tag: tag::ROUTE,
                    words: _,
                    wire,
                } => Step::Route {
                    before: self.until(here.saturating_sub(wire)),
                    message: self.until(here),
                },
                Seen::Ended {
                    tag: tag::LOGON | tag::LOGOFF,
                    words: _,
                    wire,
                } if keeps_login => Step::Login {
                    before: self.until(here.saturating_sub(wire)),
                },
                Seen::Ended { tag, words, wire: _ } => Step::Asked { tag, words },
            });
        }
        if refused {
            return Ok(Step::Over { pass: &[], kept: &[] });
        }
        let to = self.bytes.len().saturating_sub(requests.undecided());
        Ok(Step::Over {
            pass: self.until(to),
            kept: self.until(self.bytes.len()),
        })
    }

    /// From what has its step up to there.
    fn until(&mut self, to: usize) -> &'a [u8] {
        self.bytes
            .get(mem::replace(&mut self.from, to)..to)
            .unwrap_or_default()
    }
}

/// What a client gets of what its database said, if the last `keeps` bytes are kept back: what was kept before, and the
/// begin of these. A message that has begun earlier is kept as a whole or not at all.
pub(crate) fn given<'a>(kept: &mut Vec<u8>, bytes: &'a [u8], keeps: usize) -> Option<(Vec<u8>, &'a [u8])> {
    let Some((now, later)) = bytes
        .len()
        .checked_sub(keeps)
        .and_then(|sent| bytes.split_at_checked(sent))
    else {
        kept.extend_from_slice(bytes);
        return None;
    };
    let before = mem::replace(kept, later.to_vec());
    Some((before, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::answers::{Answers, Hearer};
    use crate::session::talk::{Answer, NotMain};
    use bolt::message::{Extra, Failure, Fetch, Request, Response, Run};
    use bolt::packstream::{Dict, Value};
    use bolt::version::Version;
    use proptest::prelude::*;

    const VERSION: Version = Version::V5_2;

    /// A message of a client, or a sign of life.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Says {
        Reads,
        Role,
        Begins,
        Fetches,
        Routes,
        Resets,
        Nothing,
    }

    fn payload(says: Says) -> Vec<u8> {
        let request = match says {
            Says::Nothing => return vec![],
            Says::Routes => return vec![0xB3, tag::ROUTE, 0xA0, 0x90, 0xC0],
            Says::Reads => Request::Run(Run::new("MATCH (n) RETURN n")),
            Says::Role => Request::Run(Run::new("/* x */ DROP REPLICA a")),
            Says::Begins => Request::Begin(Extra::default()),
            Says::Fetches => Request::Pull(Fetch::ALL),
            Says::Resets => Request::Reset,
        };
        let mut bytes = Vec::new();
        request.encode(VERSION, &mut bytes).unwrap();
        bytes
    }

    /// In chunks of this size, as a client may send it.
    fn framed(payload: &[u8], chunk: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in payload.chunks(chunk) {
            bytes.extend_from_slice(&u16::try_from(part.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(part);
        }
        bytes.extend_from_slice(&[0, 0]);
        bytes
    }

    /// Everything but what is refused or the gateway's own, message by message. A RESET that ends a refusal is sent on
    /// in words of the gateway's.
    fn expected(all: &[Says], chunk: usize) -> Vec<u8> {
        let mut refusing = false;
        let mut out = Vec::new();
        for says in all {
            match says {
                Says::Role => refusing = true,
                Says::Resets if refusing => {
                    refusing = false;
                    out.extend(framed(&payload(Says::Resets), usize::MAX));
                }
                Says::Routes => {}
                _ if refusing => {}
                says => out.extend(framed(&payload(*says), chunk)),
            }
        }
        out
    }

    /// As a session does it, with everything that waits left out.
    #[derive(Default)]
    struct Session {
        kept: Vec<u8>,
        sent: Vec<u8>,
        refusing: bool,
        rest: bool,
    }

    impl Session {
        fn take(&mut self, requests: &mut Requests, bytes: &[u8]) {
            let mut all = mem::take(&mut self.kept);
            let known = all.len();
            all.extend_from_slice(bytes);
            let mut slices = Slices::new(&all, known);
            loop {
                let refusing = match (self.refusing, self.rest) {
                    (false, _) => Refusing::No,
                    (true, true) => Refusing::Rest,
                    (true, false) => Refusing::Until,
                };
                match slices.next(requests, refusing, false).unwrap() {
                    Step::Asked { .. } => {}
                    Step::Refuse { before, .. } => {
                        self.sent.extend_from_slice(before);
                        (self.refusing, self.rest) = (true, true);
                    }
                    Step::Ignore { tag, .. } => {
                        if !mem::take(&mut self.rest) && tag == tag::RESET {
                            self.refusing = false;
                            self.sent.extend(framed(&payload(Says::Resets), usize::MAX));
                        }
                    }
                    Step::Route { before, message } => {
                        assert!(message.ends_with(&[0, 0]) && message.len() > 5);
                        self.sent.extend_from_slice(before);
                    }
                    Step::Login { .. } => panic!("nobody logs in"),
                    Step::Over { pass, kept } => {
                        self.sent.extend_from_slice(pass);
                        self.kept.extend_from_slice(kept);
                        return;
                    }
                }
            }
        }
    }

    fn says() -> impl Strategy<Value = Says> {
        prop::sample::select(vec![
            Says::Reads,
            Says::Role,
            Says::Begins,
            Says::Fetches,
            Says::Routes,
            Says::Resets,
            Says::Nothing,
        ])
    }

    /// Where to cut, in order.
    fn ends(cuts: &[usize], len: usize) -> Vec<usize> {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (len + 1)).collect();
        ends.sort_unstable();
        ends.push(len);
        ends
    }

    /// Says of the failures that it is told of whether they are to be kept.
    struct Keeps(bool);

    impl Hearer for Keeps {
        fn answered(&mut self, _: Answer) {}

        fn refused(&mut self, _: NotMain) -> bool {
            self.0
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_goes_on_is_what_came_without_what_was_refused(
            all in prop::collection::vec(says(), 0..12),
            chunk in 1_usize..40,
            cuts in prop::collection::vec(any::<usize>(), 0..12),
        ) {
            let bytes: Vec<u8> = all.iter().flat_map(|says| framed(&payload(*says), chunk)).collect();
            let mut session = Session::default();
            let mut requests = Requests::new();
            let mut from = 0;
            for to in ends(&cuts, bytes.len()) {
                session.take(&mut requests, &bytes[from..to]);
                from = to;
            }
            prop_assert_eq!(session.sent, expected(&all, chunk));
            prop_assert!(session.kept.is_empty(), "every message is complete");
        }

        /// All of it, or all of it up to the failure of a server that is not MAIN any more.
        #[test]
        fn what_a_client_gets_is_what_the_database_said(
            rows in prop::collection::vec(0_usize..3, 0..12),
            demoted in any::<bool>(),
            keeps in any::<bool>(),
            cuts in prop::collection::vec(any::<usize>(), 0..12),
        ) {
            let mut bytes = Vec::new();
            for kind in &rows {
                let response = match kind {
                    0 => Response::Success(Dict::new()),
                    1 => Response::Record(vec![Value::from("x".repeat(30))]),
                    _ => Response::Failure(Failure::client("no such thing")),
                };
                response.frame(&mut bytes).unwrap();
            }
            let all = bytes.len();
            if demoted {
                let told = "Write queries are forbidden on the replica instance.";
                Response::Failure(Failure::client(told)).frame(&mut bytes).unwrap();
            }
            let (mut answers, mut kept, mut got) = (Answers::new(), Vec::new(), Vec::new());
            let mut from = 0;
            for to in ends(&cuts, bytes.len()) {
                let some = &bytes[from..to];
                let said = answers.read(some, &mut Keeps(keeps)).unwrap();
                if let Some((before, now)) = given(&mut kept, some, said.kept) {
                    got.extend(before);
                    got.extend_from_slice(now);
                }
                from = to;
                if said.not_main && keeps {
                    break;
                }
            }
            let expected = if demoted && keeps { all } else { bytes.len() };
            prop_assert_eq!(&got[..], &bytes[..expected]);
        }
    }
}
