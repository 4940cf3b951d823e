//! What is true, to compare with what the gateway makes of it. Nothing here is taken from what it is compared with.

use super::answers::Hearer;
use super::talk::{Answer, Asked, Frame, Loss, NotMain, Reply};

/// A server that commits, written as Memgraph does it: a statement runs when its result is fetched, and what the
/// machine under test guesses is known here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    pub(crate) transaction: bool,
    pub(crate) open: Option<Frame>,
    pub(crate) failed: bool,
    /// It is not MAIN any more.
    pub(crate) demoted: bool,
}

/// What a server says to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Answer(Answer),
    /// A failure, because it is not MAIN.
    NotMain(NotMain),
}

impl Said {
    /// As every client hears it.
    pub(crate) const fn answer(self) -> Answer {
        match self {
            Self::Answer(answer) => answer,
            Self::NotMain(_) => Answer::Failure,
        }
    }
}

impl Server {
    /// What it answers, and whether it committed. `fails`: this request fails. `more`: a fetch leaves something; from one
    /// that was demoted, something was committed before that. Every statement writes.
    pub(crate) fn take(&mut self, asked: Asked, fails: bool, more: bool) -> (Said, bool) {
        let refused = match (asked, self.open) {
            _ if !self.demoted || self.failed => None,
            (Asked::Run(Frame::Plain), open) if self.transaction || open.is_none() => {
                Some((NotMain::Forbidden, false))
            }
            (Asked::Commit, _) if self.transaction => Some((NotMain::NoCommit, false)),
            (Asked::Fetch, Some(Frame::Commit)) => Some((NotMain::NoCommit, false)),
            (Asked::Fetch, Some(Frame::Plain)) if !self.transaction => Some((NotMain::NoCommit, more)),
            _ => None,
        };
        if let Some((by, committed)) = refused {
            (self.failed, self.open) = (true, None);
            return (Said::NotMain(by), committed);
        }
        let (answer, committed) = self.serve(asked, fails, more);
        (Said::Answer(answer), committed)
    }

    fn serve(&mut self, asked: Asked, fails: bool, more: bool) -> (Answer, bool) {
        if asked == Asked::Reset {
            *self = Self {
                demoted: self.demoted,
                ..Self::default()
            };
            return (Answer::Success, false);
        }
        if self.failed {
            let cleared = asked == Asked::AckFailure;
            self.failed = !cleared;
            return (if cleared { Answer::Success } else { Answer::Ignored }, false);
        }
        let possible = match asked {
            Asked::Begin | Asked::Run(Frame::Begin) => !self.transaction && self.open.is_none(),
            Asked::Commit | Asked::Rollback => self.transaction,
            Asked::Run(Frame::Commit | Frame::Rollback) => self.transaction && self.open.is_none(),
            Asked::Run(Frame::Plain) => self.transaction || self.open.is_none(),
            Asked::Fetch => self.open.is_some(),
            Asked::AckFailure => false,
            Asked::Reset | Asked::Goodbye | Asked::Other => true,
        };
        if fails || !possible {
            (self.failed, self.open) = (true, None);
            return (Answer::Failure, false);
        }
        match asked {
            Asked::Run(frame) => {
                self.open = Some(frame);
                (Answer::Success, false)
            }
            Asked::Begin => {
                self.transaction = true;
                (Answer::Success, false)
            }
            Asked::Commit | Asked::Rollback => {
                (self.transaction, self.open) = (false, None);
                (Answer::Success, asked == Asked::Commit)
            }
            Asked::Fetch if more && self.open == Some(Frame::Plain) => (Answer::More, false),
            Asked::Fetch => {
                let frame = self.open.take();
                let committed = match frame {
                    Some(Frame::Plain) => !self.transaction,
                    Some(Frame::Commit) => true,
                    _ => false,
                };
                match frame {
                    Some(Frame::Begin) => self.transaction = true,
                    Some(Frame::Commit | Frame::Rollback) => self.transaction = false,
                    Some(Frame::Plain) | None => {}
                }
                (Answer::Success, committed)
            }
            Asked::Reset | Asked::AckFailure | Asked::Goodbye | Asked::Other => (Answer::Success, false),
        }
    }
}

/// The last failure that a client was told of at or before this request, unless RESET came between.
pub(crate) fn told(replies: &[Reply], asked: &[Asked], index: usize) -> Option<Loss> {
    for (reply, asked) in replies.iter().zip(asked).take(index + 1).rev() {
        match (reply, asked) {
            (Reply::Failure(loss), _) => return Some(*loss),
            (_, Asked::Reset) => return None,
            (Reply::Success | Reply::Ignored, _) => {}
        }
    }
    None
}

/// Does a word that writes stand in this statement, outside quotes, comments and names? A word needs no space after a
/// number.
pub(crate) fn writes(statement: &[u8]) -> bool {
    let mut rest = statement;
    let mut before = 0;
    while let Some((&first, after)) = rest.split_first() {
        rest = match (first, after.first()) {
            (b'/', Some(b'/')) => past(after, |at| matches!(at.first(), Some(b'\n' | b'\r')), 1),
            (b'/', Some(b'*')) => past(after.get(1..).unwrap_or_default(), |at| at.starts_with(b"*/"), 2),
            (b'\'' | b'"' | b'`', _) => {
                before = first;
                past_quotes(after, first)
            }
            _ if is_letter(first) => {
                let size = rest.iter().take_while(|byte| is_letter(**byte)).count();
                let (word, after) = rest.split_at(size);
                let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let (_, letters) = word.split_at(digits);
                let is_name = digits == 0 && b".:$|&!".contains(&before);
                if !is_name
                    && WRITING
                        .iter()
                        .any(|writing| letters.eq_ignore_ascii_case(writing))
                {
                    return true;
                }
                before = b'a';
                after
            }
            _ => {
                if first.is_ascii_graphic() {
                    before = first;
                }
                after
            }
        };
    }
    false
}

/// What Cypher changes data with.
const WRITING: [&[u8]; 9] = [
    b"create", b"merge", b"set", b"delete", b"detach", b"remove", b"drop", b"foreach", b"load",
];

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// What comes `size` bytes after the first place where this is so.
fn past(text: &[u8], found: impl Fn(&[u8]) -> bool, size: usize) -> &[u8] {
    let places = (0..text.len()).filter_map(|at| text.get(at..));
    let place = places.into_iter().find(|place| found(place));
    place.and_then(|place| place.get(size..)).unwrap_or_default()
}

/// What comes after the quotes are closed. In backticks nothing is escaped.
fn past_quotes(mut text: &[u8], by: u8) -> &[u8] {
    while let Some((&first, after)) = text.split_first() {
        text = match first {
            _ if first == by => return after,
            b'\\' if by != b'`' => after.get(1..).unwrap_or_default(),
            _ => after,
        };
    }
    text
}

/// Who takes down what is answered.
pub(crate) struct Heard {
    pub(crate) given: Vec<Answer>,
    /// Is something else to be said in the place of a refusal?
    pub(crate) other: bool,
}

impl Hearer for Heard {
    fn answered(&mut self, answer: Answer) {
        self.given.push(answer);
    }

    fn refused(&mut self, _: NotMain) -> bool {
        self.other
    }
}
