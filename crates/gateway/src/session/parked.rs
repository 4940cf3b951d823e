//! A session without a database: it answers what needs none, and says when it needs one.

use super::forward::{Inbox, Refusing, idle};
use super::requests::{Requests, Seen};
use super::route::Routes;
use super::stream::Stream;
use super::talk::{Alone, Asked, Loss, Own, Reply};
use super::{ENDING, Shared};
use bolt::message::{Failure, Response, tag};
use bolt::packstream::Dict;
use bolt::version::Version;
use std::time::Duration;
use std::{io, mem};
use tokio::time::{sleep, timeout};

/// How a session comes out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The client asked for something: a database is needed.
    Attach,
    /// The client left, or cannot be served any more.
    Leave,
}

/// A client that is listened to while it has no database.
#[derive(Debug)]
pub(crate) struct Parked<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) client: &'a Stream,
    pub(crate) version: Version,
    pub(crate) alone: Alone,
    /// Why a request of it fails.
    pub(crate) why: &'a str,
}

impl Parked<'_> {
    /// Listens until a database is needed, or the client is gone.
    pub(crate) async fn run(mut self, inbox: &mut Inbox) -> Next {
        loop {
            let input = mem::take(&mut inbox.early);
            if let Some(next) = self.take(inbox, &input).await {
                return next;
            }
            drop(input);
            let readable = tokio::select! {
                () = self.ended() => return Next::Leave,
                readable = idle(self.shared.config.timeouts.idle, self.client.readable()) => readable,
            };
            match readable {
                Some(Ok(())) => {}
                Some(Err(_)) => return Next::Leave,
                None => {
                    self.shared.metrics.refused("idle");
                    return Next::Leave;
                }
            }
            let mut buffer = self.shared.buffers.take(false);
            match self.client.try_read(&mut buffer) {
                Ok(0) => return Next::Leave,
                Ok(read) => inbox
                    .early
                    .extend_from_slice(buffer.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Next::Leave,
            }
        }
    }

    /// Ends a moment after the gateway was told to stop: it has nothing to end here, but a request that is on its way
    /// gets an answer that drivers retry elsewhere.
    async fn ended(&self) {
        self.shared.ending.given().await;
        sleep(FAREWELL).await;
    }

    /// Goes through what the client said. What is for the next database stays in the inbox, from the begin of its
    /// message.
    async fn take(&mut self, inbox: &mut Inbox, input: &[u8]) -> Option<Next> {
        if self.shared.ending.is_given() && !self.alone.is_in_trouble() {
            self.alone = Alone::LOST;
            self.why = ENDING;
        }
        let mut rest = input;
        loop {
            let Ok(seen) = inbox.requests.next(&mut rest) else {
                return Some(Next::Leave);
            };
            let here = input.len().saturating_sub(rest.len());
            match seen {
                None => return self.half(inbox, input),
                Some(Seen::RoleStatement { .. } | Seen::Write { .. }) if self.alone.is_in_trouble() => {}
                Some(Seen::RoleStatement { wire } | Seen::Write { wire }) => {
                    return Some(keep(inbox, input, here.saturating_sub(wire), Next::Attach));
                }
                Some(Seen::Ended { .. }) if inbox.refusing == Refusing::Rest => {
                    inbox.refusing = Refusing::Until;
                }
                Some(Seen::Ended { tag, words, wire }) => {
                    let begin = here.saturating_sub(wire);
                    let routes = tag == tag::ROUTE && !self.alone.is_in_trouble();
                    let own = if routes {
                        let message = input.get(begin..here).unwrap_or_default();
                        let answer = Routes::of(self.shared).answer(self.version, message);
                        let Some(answer) = answer else {
                            return Some(Next::Leave);
                        };
                        if matches!(answer, Response::Failure(_)) {
                            self.alone = Alone::FAILED;
                        }
                        self.say(&[answer]).await
                    } else {
                        match self.alone.on(Asked::of(tag, words)) {
                            Own::Reply(reply) => self.say(&[self.response(reply)]).await,
                            Own::Attach => return Some(keep(inbox, input, begin, Next::Attach)),
                            Own::Leave => return Some(Next::Leave),
                        }
                    };
                    if own.is_err() {
                        return Some(Next::Leave);
                    }
                }
            }
        }
    }

    /// The last message is not complete. Of one that must fail the rest is read and forgotten; every other one is kept
    /// whole.
    fn half(&self, inbox: &mut Inbox, input: &[u8]) -> Option<Next> {
        if inbox.requests.is_between() || self.alone.is_in_trouble() {
            return None;
        }
        let known = inbox.requests.begun();
        let begin = input.len().saturating_sub(inbox.requests.wire());
        let waits =
            known.is_none_or(|tag| matches!(tag, tag::RESET | tag::GOODBYE | tag::ACK_FAILURE | tag::ROUTE));
        if !waits {
            return Some(keep(inbox, input, begin, Next::Attach));
        }
        if input.len().saturating_sub(begin) > self.shared.config.limits.undecided {
            self.shared.metrics.refused("undecided");
            return Some(Next::Leave);
        }
        keep(inbox, input, begin, Next::Attach);
        None
    }

    /// What the gateway says in the database's place.
    pub(crate) fn response(&self, reply: Reply) -> Response<'static> {
        match reply {
            Reply::Success => Response::Success(Dict::new()),
            Reply::Ignored => Response::Ignored,
            Reply::Failure(Loss::Nothing) => {
                self.shared.metrics.lost("nothing");
                Response::Failure(Failure::transient(format!(
                    "{} Nothing of this was committed: try again.",
                    self.why
                )))
            }
            Reply::Failure(Loss::Unknown) => {
                self.shared.metrics.lost("unknown");
                Response::Failure(Failure::new(
                    OUTCOME_UNKNOWN,
                    format!(
                        "{} Whether this was committed is not known: look before you try again.",
                        self.why
                    ),
                ))
            }
        }
    }

    /// Sends answers of our own. A client that does not read them is not waited for without end.
    pub(crate) async fn say(&self, responses: &[Response<'_>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for response in responses {
            response.frame(&mut bytes).map_err(io::Error::other)?;
        }
        timeout(self.shared.config.timeouts.client, self.client.write_all(&bytes)).await?
    }
}

/// How long a session without a database outlives the order to stop.
const FAREWELL: Duration = Duration::from_secs(1);

/// A class that no driver retries.
const OUTCOME_UNKNOWN: &str = "Memgraph.ClientError.Transaction.OutcomeUnknown";

/// What is there from `begin` on is for later, and is looked at again then.
fn keep(inbox: &mut Inbox, input: &[u8], begin: usize, next: Next) -> Next {
    inbox.early = input.get(begin..).unwrap_or_default().to_vec();
    inbox.requests = Requests::new();
    next
}
