//! Who a client says it is.

use super::MessageError;
use crate::packstream::{Dict, Value, own_dict, own_text};
use std::borrow::Cow;
use std::fmt;

/// What a client offers to prove who it is.
///
/// `Debug` does not show credentials: sessions end up in logs.
#[derive(Clone, PartialEq)]
pub enum Auth<'a> {
    /// Nothing. Also what a client means that does not name a scheme.
    None,
    /// A name and a password. Memgraph takes a missing one for the empty string.
    Basic {
        /// The name.
        principal: Cow<'a, str>,
        /// The password.
        credentials: Cow<'a, str>,
    },
    /// Some other scheme, with whatever came along.
    Custom {
        /// Its name.
        scheme: Cow<'a, str>,
        /// The rest.
        entries: Dict<'a>,
    },
}

const SCHEME: &str = "scheme";
const PRINCIPAL: &str = "principal";
const CREDENTIALS: &str = "credentials";
/// What belongs to the authentication in a HELLO, where other things stand beside it.
const ENTRIES: [&str; 4] = [PRINCIPAL, CREDENTIALS, "realm", "parameters"];

impl<'a> Auth<'a> {
    /// A name and a password.
    pub fn basic(principal: impl Into<Cow<'a, str>>, credentials: impl Into<Cow<'a, str>>) -> Self {
        Self::Basic {
            principal: principal.into(),
            credentials: credentials.into(),
        }
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Auth<'static> {
        match self {
            Self::None => Auth::None,
            Self::Basic {
                principal,
                credentials,
            } => Auth::basic(principal.into_owned(), credentials.into_owned()),
            Self::Custom { scheme, entries } => Auth::Custom {
                scheme: own_text(scheme),
                entries: own_dict(entries),
            },
        }
    }

    /// Takes what belongs to the authentication out of the entries of message `tag`.
    pub(super) fn take_from(tag: u8, all: &mut Dict<'a>) -> Result<Self, MessageError> {
        let scheme = take_text(tag, all, SCHEME)?.unwrap_or(Cow::Borrowed("none"));
        let mut entries: Dict<'a> = ENTRIES
            .iter()
            .filter_map(|entry| all.remove_entry(*entry))
            .collect();
        match scheme.as_ref() {
            "none" => Ok(Self::None),
            "basic" => Ok(Self::Basic {
                principal: take_text(tag, &mut entries, PRINCIPAL)?.unwrap_or_default(),
                credentials: take_text(tag, &mut entries, CREDENTIALS)?.unwrap_or_default(),
            }),
            _ => Ok(Self::Custom { scheme, entries }),
        }
    }

    /// The inverse of [`Auth::take_from`].
    pub(super) fn put_into(&self, all: &mut Dict<'a>) {
        let mut put = |key: &'static str, text: &Cow<'a, str>| {
            all.insert(Cow::Borrowed(key), Value::String(text.clone()));
        };
        match self {
            Self::None => put(SCHEME, &Cow::Borrowed("none")),
            Self::Basic {
                principal,
                credentials,
            } => {
                put(SCHEME, &Cow::Borrowed("basic"));
                put(PRINCIPAL, principal);
                put(CREDENTIALS, credentials);
            }
            Self::Custom { scheme, entries } => {
                put(SCHEME, scheme);
                all.extend(entries.clone());
            }
        }
    }
}

pub(super) fn take_text<'a>(
    tag: u8,
    entries: &mut Dict<'a>,
    entry: &'static str,
) -> Result<Option<Cow<'a, str>>, MessageError> {
    match entries.remove(entry) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(MessageError::BadEntry { tag, entry }),
    }
}

impl fmt::Debug for Auth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Basic {
                principal,
                credentials: _,
            } => f
                .debug_struct("Basic")
                .field("principal", principal)
                .finish_non_exhaustive(),
            Self::Custom { scheme, entries: _ } => f
                .debug_struct("Custom")
                .field("scheme", scheme)
                .finish_non_exhaustive(),
        }
    }
}
