//! Requests out of bytes.

use super::auth::take_text;
use super::{
    Amount, Auth, Extra, Fetch, Hello, MessageError, Qid, Request, Route, RouteTarget, Run, open, tag,
};
use crate::packstream::{Decoder, Limits, Value};
use crate::version::Version;

impl<'a> Request<'a> {
    /// Reads a message that fills `payload` (without chunk headers).
    pub fn parse(version: Version, payload: &'a [u8], limits: Limits) -> Result<Self, MessageError> {
        let (mut decoder, tag, fields) = open(payload, limits)?;
        let expected = expected_fields(version, tag).ok_or(MessageError::UnknownRequest { tag, version })?;
        if fields != expected {
            return Err(MessageError::WrongFields { tag, fields });
        }
        let request = body(version, tag, &mut decoder)?;
        decoder.finish()?;
        Ok(request)
    }
}

/// How many fields a request has; none if the version does not have the request.
fn expected_fields(version: Version, tag: u8) -> Option<usize> {
    let fields = |exists: bool, fields: usize| exists.then_some(fields);
    let newer = version.has_transactions();
    match tag {
        tag::HELLO => Some(if newer { 1 } else { 2 }),
        tag::RUN => Some(if newer { 3 } else { 2 }),
        tag::RESET => Some(0),
        tag::PULL | tag::DISCARD => Some(usize::from(version.has_pages())),
        tag::GOODBYE | tag::COMMIT | tag::ROLLBACK => fields(newer, 0),
        tag::BEGIN => fields(newer, 1),
        tag::ACK_FAILURE => fields(version.has_ack_failure(), 0),
        tag::LOGON => fields(version.has_logon(), 1),
        tag::LOGOFF => fields(version.has_logon(), 0),
        tag::ROUTE => fields(version.has_route(), 3),
        tag::TELEMETRY => fields(version.has_telemetry(), 1),
        _ => None,
    }
}

/// The fields of a request that [`expected_fields`] let through.
fn body<'a>(version: Version, tag: u8, decoder: &mut Decoder<'a>) -> Result<Request<'a>, MessageError> {
    Ok(match tag {
        tag::HELLO => Request::Hello(hello(version, decoder)?),
        tag::LOGON => Request::Logon(Auth::take_from(tag, &mut decoder.dict()?)?),
        tag::LOGOFF => Request::Logoff,
        tag::GOODBYE => Request::Goodbye,
        tag::RESET => Request::Reset,
        tag::ACK_FAILURE => Request::AckFailure,
        tag::RUN => Request::Run(Run {
            query: decoder.string()?,
            parameters: decoder.dict()?,
            extra: if version.has_transactions() {
                Extra(decoder.dict()?)
            } else {
                Extra::default()
            },
        }),
        tag::BEGIN => Request::Begin(Extra(decoder.dict()?)),
        tag::COMMIT => Request::Commit,
        tag::ROLLBACK => Request::Rollback,
        tag::DISCARD => Request::Discard(fetch(version, tag, decoder)?),
        tag::PULL => Request::Pull(fetch(version, tag, decoder)?),
        tag::ROUTE => Request::Route(route(decoder)?),
        tag::TELEMETRY => Request::Telemetry(decoder.int()?),
        _ => return Err(MessageError::UnknownRequest { tag, version }),
    })
}

const USER_AGENT: &str = "user_agent";

fn hello<'a>(version: Version, decoder: &mut Decoder<'a>) -> Result<Hello<'a>, MessageError> {
    if !version.has_transactions() {
        let user_agent = decoder.string()?;
        let mut extra = decoder.dict()?;
        let auth = Some(Auth::take_from(tag::HELLO, &mut extra)?);
        return Ok(Hello {
            user_agent,
            auth,
            extra,
        });
    }
    let mut extra = decoder.dict()?;
    let missing = MessageError::BadEntry {
        tag: tag::HELLO,
        entry: USER_AGENT,
    };
    let user_agent = take_text(tag::HELLO, &mut extra, USER_AGENT)?.ok_or(missing)?;
    let auth = if version.has_logon() {
        None
    } else {
        Some(Auth::take_from(tag::HELLO, &mut extra)?)
    };
    Ok(Hello {
        user_agent,
        auth,
        extra,
    })
}

fn fetch(version: Version, tag: u8, decoder: &mut Decoder<'_>) -> Result<Fetch, MessageError> {
    if !version.has_pages() {
        return Ok(Fetch::ALL);
    }
    let extra = decoder.dict()?;
    let number = |entry: &'static str| match extra.get(entry) {
        // Minus one is how a client says "all of them" and "the last one".
        None | Some(Value::Int(-1)) => Ok(None),
        Some(Value::Int(number)) => u64::try_from(*number)
            .map(Some)
            .map_err(|_| MessageError::BadEntry { tag, entry }),
        Some(_) => Err(MessageError::BadEntry { tag, entry }),
    };
    Ok(Fetch {
        amount: number("n")?.map_or(Amount::All, Amount::AtMost),
        qid: number("qid")?.map(|qid| Qid(i64::try_from(qid).unwrap_or(i64::MAX))),
    })
}

fn route<'a>(decoder: &mut Decoder<'a>) -> Result<Route<'a>, MessageError> {
    let context = decoder.dict()?;
    let bookmarks = decoder.list(Decoder::string)?;
    let target = match decoder.value()? {
        Value::Null => RouteTarget::Default,
        Value::String(name) => RouteTarget::Database(name),
        Value::Dict(extra) => RouteTarget::Extra(Extra(extra)),
        _ => {
            return Err(MessageError::BadEntry {
                tag: tag::ROUTE,
                entry: "database",
            });
        }
    };
    Ok(Route {
        context,
        bookmarks,
        target,
    })
}
