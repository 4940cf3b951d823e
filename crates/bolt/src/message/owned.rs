//! Cutting the tie to the input.

use super::{Auth, Extra, Hello, Request, Route, RouteTarget, Run};
use crate::packstream::{own_dict, own_text};

impl Request<'_> {
    /// The same request, borrowing nothing.
    pub fn into_owned(self) -> Request<'static> {
        match self {
            Self::Hello(hello) => Request::Hello(hello.into_owned()),
            Self::Logon(auth) => Request::Logon(auth.into_owned()),
            Self::Logoff => Request::Logoff,
            Self::Goodbye => Request::Goodbye,
            Self::Reset => Request::Reset,
            Self::AckFailure => Request::AckFailure,
            Self::Run(run) => Request::Run(run.into_owned()),
            Self::Begin(extra) => Request::Begin(extra.into_owned()),
            Self::Commit => Request::Commit,
            Self::Rollback => Request::Rollback,
            Self::Discard(fetch) => Request::Discard(fetch),
            Self::Pull(fetch) => Request::Pull(fetch),
            Self::Route(route) => Request::Route(route.into_owned()),
            Self::Telemetry(api) => Request::Telemetry(api),
        }
    }
}

impl Hello<'_> {
    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Hello<'static> {
        let Self {
            user_agent,
            auth,
            extra,
        } = self;
        Hello {
            user_agent: own_text(user_agent),
            auth: auth.map(Auth::into_owned),
            extra: own_dict(extra),
        }
    }
}

impl Run<'_> {
    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Run<'static> {
        let Self {
            query,
            parameters,
            extra,
        } = self;
        Run {
            query: own_text(query),
            parameters: own_dict(parameters),
            extra: extra.into_owned(),
        }
    }
}

impl Extra<'_> {
    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Extra<'static> {
        Extra(own_dict(self.0))
    }
}

impl Route<'_> {
    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Route<'static> {
        let Self {
            context,
            bookmarks,
            target,
        } = self;
        Route {
            context: own_dict(context),
            bookmarks: bookmarks.into_iter().map(own_text).collect(),
            target: match target {
                RouteTarget::Default => RouteTarget::Default,
                RouteTarget::Database(name) => RouteTarget::Database(own_text(name)),
                RouteTarget::Extra(extra) => RouteTarget::Extra(extra.into_owned()),
            },
        }
    }
}
