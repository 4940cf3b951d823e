//! What a session is in the middle of, from the headers of its messages alone, and what that means when its database
//! is gone: what may go on elsewhere, what may be tried again, and what nobody knows.

use super::statement::Judgement;
use bolt::message::tag;
use std::collections::VecDeque;
use std::mem;

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A statement; the words say whether it frames a transaction.
    Run(Frame),
    /// The message BEGIN.
    Begin,
    /// The message COMMIT.
    Commit,
    /// The message ROLLBACK.
    Rollback,
    /// PULL or DISCARD.
    Fetch,
    Reset,
    /// ACK_FAILURE.
    AckFailure,
    Goodbye,
    /// Something that touches no data.
    Other,
}

/// What a statement is to transactions. Clients may begin and end them in words, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Nothing: it runs in the transaction that is open, or in one of its own.
    Plain,
    Begin,
    Commit,
    Rollback,
}

impl Asked {
    /// What a message asks for.
    pub(crate) const fn of(tag: u8, words: Judgement) -> Self {
        match tag {
            tag::RUN => Self::Run(match words {
                Judgement::Begin => Frame::Begin,
                Judgement::Commit => Frame::Commit,
                Judgement::Rollback => Frame::Rollback,
                Judgement::Open | Judgement::Plain | Judgement::Session | Judgement::Role => Frame::Plain,
            }),
            tag::BEGIN => Self::Begin,
            tag::COMMIT => Self::Commit,
            tag::ROLLBACK => Self::Rollback,
            tag::PULL | tag::DISCARD => Self::Fetch,
            tag::RESET => Self::Reset,
            tag::ACK_FAILURE => Self::AckFailure,
            tag::GOODBYE => Self::Goodbye,
            _ => Self::Other,
        }
    }
}

/// Whether a message makes a session one that another connection cannot stand in for (G6): state that a statement
/// left, or another login than the one that would be replayed.
pub(crate) const fn binds(tag: u8, words: Judgement) -> bool {
    matches!(words, Judgement::Session) || matches!(tag, tag::LOGON | tag::LOGOFF)
}

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Success,
    /// A page, and there are more.
    More,
    Failure,
    Ignored,
}

/// What a server says that is not MAIN any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotMain {
    /// It takes no writes: said before a statement runs.
    Forbidden,
    /// It ends no transaction that has written.
    NoCommit,
}

/// Why a request that was under way has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Nothing can have been committed: it may be tried again.
    Nothing,
    /// Something may have been committed, and nobody can say.
    Unknown,
}

/// What the gateway says in the database's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Success,
    Ignored,
    Failure(Loss),
}

/// What becomes of a session that lost its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// One for each request that was not answered, in their order.
    pub(crate) replies: Vec<Reply>,
    /// How it goes on; `None`: it cannot.
    pub(crate) alone: Option<Alone>,
}

impl Left {
    /// Its database was one that commits nothing: everything may be tried again, also what is told with the next request.
    pub(crate) fn nothing_was_committed(&mut self) {
        for reply in &mut self.replies {
            if let Reply::Failure(loss) = reply {
                *loss = Loss::Nothing;
            }
        }
        if let Some(loss) = self.alone.as_mut().and_then(|alone| alone.lost.as_mut()) {
            *loss = Loss::Nothing;
        }
    }
}

/// Follows one session. It keeps a byte or two for each request that is not answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Talk {
    waiting: VecDeque<Asked>,
    /// As of the last answer.
    at: At,
    /// The session has state of its own (G6).
    bound: bool,
    /// The oldest request was refused, and its client does not know yet: nothing of it was committed.
    refused: bool,
}

/// Whether a transaction is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Transaction {
    #[default]
    No,
    /// It was begun in words, and nobody has heard that their result was fetched: whether it holds is the server's affair.
    Perhaps,
    Yes,
}

/// What a server is in the middle of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct At {
    transaction: Transaction,
    /// A statement ran whose result was not fetched to its end.
    open: Option<Frame>,
    /// Some of that result was fetched: a statement that commits in batches has begun to.
    paged: bool,
    /// It ignores everything until RESET.
    failed: bool,
}

impl Talk {
    /// A request was sent on, or is about to be.
    pub(crate) fn asked(&mut self, asked: Asked) {
        if asked != Asked::Goodbye {
            self.waiting.push_back(asked);
        }
    }

    /// The session is not like another one any more.
    pub(crate) fn bind(&mut self) {
        self.bound = true;
    }

    /// The oldest request was answered.
    pub(crate) fn answered(&mut self, answer: Answer) {
        if let Some(asked) = self.waiting.pop_front() {
            self.at.answered(asked, answer);
        }
    }

    /// The oldest request was refused by a server that is not MAIN any more. Is it certain that nothing was committed? Then
    /// the request counts as one without an answer, and [`Talk::left`] says what its client is told.
    ///
    /// A statement in a transaction of its own that is refused while its result is fetched may have committed batches
    /// before: that is for the server's own words.
    pub(crate) fn refused(&mut self, by: NotMain) -> bool {
        let At {
            transaction,
            open,
            paged: _,
            failed,
        } = self.at;
        let alone = open.is_none() || transaction == Transaction::Yes;
        self.refused = match (self.waiting.front(), by) {
            _ if failed => false,
            (Some(Asked::Run(_)), NotMain::Forbidden) => alone,
            (Some(Asked::Commit), NotMain::NoCommit) => transaction == Transaction::Yes,
            (Some(Asked::Fetch), NotMain::NoCommit) => open == Some(Frame::Commit),
            _ => false,
        };
        self.refused
    }

    /// How many requests are not answered.
    pub(crate) fn unanswered(&self) -> usize {
        self.waiting.len()
    }

    /// Does the server ignore everything until RESET?
    pub(crate) const fn is_failed(&self) -> bool {
        self.at.failed
    }

    /// Nothing is under way: no request, no transaction, no result.
    pub(crate) fn is_quiet(&self) -> bool {
        let At {
            transaction, open, ..
        } = self.at;
        let idle = transaction == Transaction::No && open.is_none();
        self.waiting.is_empty() && (self.at.failed || idle)
    }

    /// Its database is gone. `begun`: a part of the next request was sent on, but not all of it.
    pub(crate) fn left(self, begun: bool) -> Left {
        let Self {
            mut waiting,
            mut at,
            bound,
            mut refused,
        } = self;
        let mut replies = Vec::with_capacity(waiting.len());
        while let Some(asked) = waiting.pop_front() {
            let reply = match asked {
                _ if mem::take(&mut refused) => Reply::Failure(Loss::Nothing),
                Asked::Reset => Reply::Success,
                Asked::AckFailure if at.failed => Reply::Success,
                _ if at.failed => Reply::Ignored,
                // The transaction is gone with the connection, and that is what was asked for.
                Asked::Rollback if at.transaction != Transaction::No => Reply::Success,
                _ => {
                    let mut ahead = at;
                    let until_reset = waiting.iter().take_while(|next| **next != Asked::Reset);
                    let may = std::iter::once(&asked)
                        .chain(until_reset)
                        .any(|next| ahead.may_commit(*next));
                    Reply::Failure(if may { Loss::Unknown } else { Loss::Nothing })
                }
            };
            let answer = match reply {
                Reply::Success => Answer::Success,
                Reply::Ignored => Answer::Ignored,
                Reply::Failure(_) => Answer::Failure,
            };
            at.answered(asked, answer);
            if let Reply::Failure(_) = reply {
                // Gone with the connection, or ended before that: what is asked after the failure is in none.
                at.transaction = Transaction::No;
            }
            replies.push(reply);
        }
        let transaction = at.transaction != Transaction::No;
        let amid = !at.failed && (transaction || at.open.is_some() || begun);
        let in_batches = at.paged && at.transaction != Transaction::Yes && at.open == Some(Frame::Plain);
        let alone = Alone {
            failed: at.failed,
            lost: amid.then_some(if in_batches { Loss::Unknown } else { Loss::Nothing }),
        };
        Left {
            replies,
            alone: (!bound).then_some(alone),
        }
    }
}

impl At {
    fn answered(&mut self, asked: Asked, answer: Answer) {
        match (asked, answer) {
            (Asked::Fetch, Answer::More) => self.paged = true,
            (_, Answer::Ignored) | (Asked::Other | Asked::Goodbye, Answer::Success | Answer::More) => {}
            (Asked::Reset, Answer::Success | Answer::More) => *self = Self::default(),
            // RESET ends the transaction; until then nothing is certain but that nothing is taken.
            (_, Answer::Failure) => (self.failed, self.open) = (true, None),
            (Asked::Run(frame), Answer::Success | Answer::More) => {
                (self.open, self.paged) = (Some(frame), false);
                if (frame, self.transaction) == (Frame::Begin, Transaction::No) {
                    self.transaction = Transaction::Perhaps;
                }
            }
            (Asked::Fetch, Answer::Success) => match self.open.take() {
                Some(Frame::Begin) => self.transaction = Transaction::Yes,
                Some(Frame::Commit | Frame::Rollback) => self.transaction = Transaction::No,
                Some(Frame::Plain) | None => {}
            },
            (Asked::Begin, Answer::Success | Answer::More) => self.transaction = Transaction::Yes,
            (Asked::Commit | Asked::Rollback, Answer::Success | Answer::More) => {
                (self.transaction, self.open) = (Transaction::No, None);
            }
            (Asked::AckFailure, Answer::Success | Answer::More) => self.failed = false,
        }
    }

    /// May a server that is here commit something because of this request? Then on to where it may be afterwards.
    fn may_commit(&mut self, asked: Asked) -> bool {
        let of_its_own = self.transaction != Transaction::Yes;
        let may = match asked {
            Asked::Commit | Asked::Run(Frame::Commit) => true,
            Asked::Run(Frame::Plain) => of_its_own,
            Asked::Fetch => match self.open {
                Some(Frame::Commit) => true,
                Some(Frame::Plain) => of_its_own,
                Some(Frame::Begin | Frame::Rollback) | None => false,
            },
            Asked::Run(Frame::Begin | Frame::Rollback)
            | Asked::Begin
            | Asked::Rollback
            | Asked::Reset
            | Asked::AckFailure
            | Asked::Goodbye
            | Asked::Other => false,
        };
        self.answered(asked, Answer::Success);
        may
    }
}

/// A session without a database: what it says by itself, and when it needs one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alone {
    /// The client was told of a failure: everything is ignored until RESET.
    failed: bool,
    /// What it was in the middle of is lost: the next request is told so.
    lost: Option<Loss>,
}

/// What a session without a database does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// Answers it.
    Reply(Reply),
    /// Finds a database for it.
    Attach,
    /// Ends.
    Leave,
}

impl Alone {
    /// After a failure of our own.
    pub(crate) const FAILED: Self = Self {
        failed: true,
        lost: None,
    };
    /// The next request is to be told that it failed.
    pub(crate) const LOST: Self = Self {
        failed: false,
        lost: Some(Loss::Nothing),
    };

    /// Whether a request has to be answered here, whatever it is.
    pub(crate) const fn is_in_trouble(self) -> bool {
        self.failed || self.lost.is_some()
    }

    /// A request is complete.
    pub(crate) fn on(&mut self, asked: Asked) -> Own {
        let own = match asked {
            Asked::Goodbye => return Own::Leave,
            Asked::Reset => Own::Reply(Reply::Success),
            Asked::AckFailure if self.failed => Own::Reply(Reply::Success),
            _ if self.failed => return Own::Reply(Reply::Ignored),
            Asked::Rollback if self.lost.is_some() => Own::Reply(Reply::Success),
            _ => match self.lost {
                Some(loss) => {
                    *self = Self::FAILED;
                    return Own::Reply(Reply::Failure(loss));
                }
                None => return Own::Attach,
            },
        };
        *self = Self::default();
        own
    }
}

#[cfg(test)]
// Found from wherever this file is included.
#[path = "talk/tests.rs"]
mod tests;
