//! A request that waits for its answer.

use super::{Answer, ClientConfig, ClientError, ProtocolError, QueryResult, RequestId, Summary};
use crate::message::{Failure, Response};
use crate::packstream::{Dict, OwnedDict, OwnedValue, Value, own_dict};
use crate::time::Moment;

/// A request that was sent.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) id: RequestId,
    pub(super) deadline: Moment,
    pub(super) work: Work,
}

/// What is still to come for a request.
#[derive(Debug)]
pub(super) enum Work {
    /// RUN and PULL were sent: the names of the columns come next.
    Header,
    /// Then rows and a summary.
    Records(Rows),
    Begin,
    Commit,
    Rollback,
    Reset,
    /// The server refused and RESET was sent. What was sent after the refused
    /// message and before RESET is ignored by the server first.
    Cleanup {
        failure: Failure<'static>,
        ignored: u8,
    },
}

/// A result that is being collected.
#[derive(Debug)]
pub(super) struct Rows {
    fields: Vec<String>,
    records: Vec<Vec<OwnedValue>>,
    bytes: usize,
}

/// What a response means for a request.
#[derive(Debug)]
pub(super) enum Step {
    /// There is more to come.
    Wait(Work),
    /// There is more to come, but only if it is asked for.
    PullMore(Work),
    /// The server refused: send RESET. `ignored` messages were already on their way.
    Recover { failure: Failure<'static>, ignored: u8 },
    /// Done. `in_transaction` says what holds from now on, if that changed.
    Finish {
        outcome: Result<Answer, ClientError>,
        in_transaction: Option<bool>,
    },
}

impl Work {
    /// The next state, given a response of `size` bytes.
    pub(super) fn advance(
        self,
        response: Response<'_>,
        size: usize,
        config: &ClientConfig,
    ) -> Result<Step, ClientError> {
        let unexpected = Err(ClientError::Protocol(ProtocolError::Unexpected));
        match (self, response) {
            (Self::Header, Response::Success(metadata)) => {
                Ok(Step::Wait(Self::Records(Rows::new(&metadata))))
            }
            (Self::Header, Response::Failure(failure)) => Ok(Step::Recover {
                failure: failure.into_owned(),
                ignored: 1,
            }),
            (Self::Records(rows), Response::Record(values)) => Ok(Step::Wait(Self::Records(rows.with(
                values,
                size,
                config.max_result,
            )?))),
            (Self::Records(rows), Response::Success(metadata)) => {
                let summary = Summary(own_dict(metadata));
                if summary.has_more() {
                    return Ok(Step::PullMore(Self::Records(rows)));
                }
                let Rows {
                    fields,
                    records,
                    bytes: _,
                } = rows;
                let answer = Answer::Query(QueryResult {
                    fields,
                    records,
                    summary,
                });
                Ok(Step::Finish {
                    outcome: Ok(answer),
                    in_transaction: None,
                })
            }
            (Self::Begin, Response::Success(metadata)) => Ok(Step::done(own_dict(metadata), true)),
            (Self::Commit | Self::Rollback | Self::Reset, Response::Success(metadata)) => {
                Ok(Step::done(own_dict(metadata), false))
            }
            (Self::Records(_) | Self::Begin | Self::Commit | Self::Rollback, Response::Failure(failure)) => {
                Ok(Step::Recover {
                    failure: failure.into_owned(),
                    ignored: 0,
                })
            }
            (Self::Reset, Response::Failure(failure)) => {
                Err(ClientError::ServerFailure(failure.into_owned()))
            }
            (Self::Cleanup { failure, ignored }, Response::Ignored) => match ignored.checked_sub(1) {
                Some(ignored) => Ok(Step::Wait(Self::Cleanup { failure, ignored })),
                None => unexpected,
            },
            (Self::Cleanup { failure, ignored: 0 }, Response::Success(_)) => Ok(Step::Finish {
                outcome: Err(ClientError::ServerFailure(failure)),
                in_transaction: Some(false),
            }),
            (
                Self::Header
                | Self::Records(_)
                | Self::Begin
                | Self::Commit
                | Self::Rollback
                | Self::Reset
                | Self::Cleanup { .. },
                Response::Success(_) | Response::Record(_) | Response::Ignored | Response::Failure(_),
            ) => unexpected,
        }
    }

    /// What the request is told when the session ends under it. A refusal that
    /// is already known is worth more than the end of the session.
    pub(super) fn epitaph(self, error: &ClientError) -> ClientError {
        match self {
            Self::Cleanup { failure, ignored: _ } => ClientError::ServerFailure(failure),
            Self::Header | Self::Records(_) | Self::Begin | Self::Commit | Self::Rollback | Self::Reset => {
                error.clone()
            }
        }
    }
}

impl Step {
    fn done(metadata: OwnedDict, in_transaction: bool) -> Self {
        let answer = Answer::Done(Summary(metadata));
        Self::Finish {
            outcome: Ok(answer),
            in_transaction: Some(in_transaction),
        }
    }
}

impl Rows {
    fn new(metadata: &Dict<'_>) -> Self {
        let fields = metadata
            .get("fields")
            .and_then(Value::as_list)
            .unwrap_or_default();
        let fields = fields
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        Self {
            fields,
            records: Vec::new(),
            bytes: 0,
        }
    }

    fn with(mut self, values: Vec<Value<'_>>, size: usize, limit: usize) -> Result<Self, ProtocolError> {
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > limit {
            return Err(ProtocolError::ResultTooLarge { limit });
        }
        self.records
            .push(values.into_iter().map(Value::into_owned).collect());
        Ok(self)
    }
}
