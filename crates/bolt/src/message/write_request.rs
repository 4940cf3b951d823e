//! Requests into bytes.

use super::{Amount, Extra, Fetch, Hello, MessageError, Qid, Request, Route, RouteTarget, Run, tag};
use crate::frame::frame_with;
use crate::packstream::{Dict, Encoder, Value};
use crate::version::Version;
use std::borrow::Cow;

impl Request<'_> {
    /// Appends the message to `out`, without chunk headers.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), MessageError> {
        let tag = self.tag();
        let exists = match self {
            Self::Hello(_) | Self::Reset | Self::Run(_) => true,
            Self::Pull(fetch) | Self::Discard(fetch) => version.has_pages() || *fetch == Fetch::ALL,
            Self::Goodbye | Self::Begin(_) | Self::Commit | Self::Rollback => version.has_transactions(),
            Self::AckFailure => version.has_ack_failure(),
            Self::Logon(_) | Self::Logoff => version.has_logon(),
            Self::Route(_) => version.has_route(),
            Self::Telemetry(_) => version.has_telemetry(),
        };
        if !exists {
            return Err(MessageError::UnknownRequest { tag, version });
        }
        self.write(version, &mut Encoder::new(out))
    }

    /// Appends the message to `out`, in chunks. If it fails, `out` is as it was.
    pub fn frame(&self, version: Version, out: &mut Vec<u8>) -> Result<(), MessageError> {
        frame_with(out, |out| self.encode(version, out))
    }

    fn write(&self, version: Version, to: &mut Encoder<'_>) -> Result<(), MessageError> {
        let tag = self.tag();
        match self {
            Self::Logoff | Self::Goodbye | Self::Reset | Self::AckFailure | Self::Commit | Self::Rollback => {
                to.structure_header(tag, 0);
            }
            Self::Hello(hello) => hello.write(version, to)?,
            Self::Logon(auth) => {
                let mut entries = Dict::new();
                auth.put_into(&mut entries);
                to.structure_header(tag, 1);
                to.dict(&entries)?;
            }
            Self::Run(run) => run.write(version, to)?,
            Self::Begin(Extra(extra)) => {
                to.structure_header(tag, 1);
                to.dict(extra)?;
            }
            Self::Discard(fetch) | Self::Pull(fetch) => fetch.write(version, tag, to)?,
            Self::Route(route) => route.write(to)?,
            Self::Telemetry(api) => {
                to.structure_header(tag, 1);
                to.int(*api);
            }
        }
        Ok(())
    }
}

impl Hello<'_> {
    fn write(&self, version: Version, to: &mut Encoder<'_>) -> Result<(), MessageError> {
        let Self {
            user_agent,
            auth,
            extra,
        } = self;
        let mut entries = extra.clone();
        if let Some(auth) = auth {
            auth.put_into(&mut entries);
        }
        if version.has_transactions() {
            entries.insert(Cow::Borrowed("user_agent"), Value::String(user_agent.clone()));
            to.structure_header(tag::HELLO, 1);
        } else {
            to.structure_header(tag::HELLO, 2);
            to.string(user_agent)?;
        }
        Ok(to.dict(&entries)?)
    }
}

impl Run<'_> {
    fn write(&self, version: Version, to: &mut Encoder<'_>) -> Result<(), MessageError> {
        let Self {
            query,
            parameters,
            extra: Extra(extra),
        } = self;
        let with_extra = version.has_transactions();
        to.structure_header(tag::RUN, if with_extra { 3 } else { 2 });
        to.string(query)?;
        to.dict(parameters)?;
        if with_extra {
            to.dict(extra)?;
        }
        Ok(())
    }
}

impl Fetch {
    fn write(self, version: Version, tag: u8, to: &mut Encoder<'_>) -> Result<(), MessageError> {
        if !version.has_pages() {
            to.structure_header(tag, 0);
            return Ok(());
        }
        let Self { amount, qid } = self;
        let amount = match amount {
            Amount::All => -1,
            Amount::AtMost(amount) => i64::try_from(amount).unwrap_or(i64::MAX),
        };
        let mut entries = Dict::from([(Cow::Borrowed("n"), Value::Int(amount))]);
        if let Some(Qid(qid)) = qid {
            entries.insert(Cow::Borrowed("qid"), Value::Int(qid));
        }
        to.structure_header(tag, 1);
        Ok(to.dict(&entries)?)
    }
}

impl Route<'_> {
    fn write(&self, to: &mut Encoder<'_>) -> Result<(), MessageError> {
        let Self {
            context,
            bookmarks,
            target,
        } = self;
        to.structure_header(tag::ROUTE, 3);
        to.dict(context)?;
        to.list(bookmarks, |to, bookmark| to.string(bookmark))?;
        match target {
            RouteTarget::Default => to.value(&Value::Null)?,
            RouteTarget::Database(name) => to.string(name)?,
            RouteTarget::Extra(Extra(extra)) => to.dict(extra)?,
        }
        Ok(())
    }
}
