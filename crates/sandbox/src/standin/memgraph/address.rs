//! Addresses of replicas, as REGISTER takes them.

use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// A host, not resolved, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

/// The port of a replica that none was given for.
const DEFAULT_PORT: u16 = 10_000;

/// An address that REGISTER refuses, in the words of a real server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum AddressError {
    #[error(
        "Invalid socket address. The socket address must be a string defining the address and port, delimited by a single colon. The address must be valid and the port must be an integer."
    )]
    Form,
    /// The only one that a real server calls transient.
    #[error("Couldn't parse string")]
    Port,
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, AddressError> {
        let (host, port) = match text.split_once(':') {
            None => (text, DEFAULT_PORT),
            Some((_, rest)) if rest.contains(':') => return Err(AddressError::Form),
            Some((host, port)) => {
                let port: i64 = port.parse().map_err(|_| AddressError::Port)?;
                (host, u16::try_from(port).map_err(|_| AddressError::Form)?)
            }
        };
        if host.is_empty() {
            return Err(AddressError::Form);
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_colon_or_none() {
        let parsed = Address::parse("pod-1.svc:10001").unwrap();
        assert_eq!((parsed.host.as_str(), parsed.port), ("pod-1.svc", 10_001));
        assert_eq!(Address::parse("10.0.0.1").unwrap().port, 10_000);
        assert_eq!(Address::parse("10.0.0.1:1:2"), Err(AddressError::Form));
        assert_eq!(Address::parse("[::1]:10000"), Err(AddressError::Form));
        assert_eq!(Address::parse("10.0.0.1:port"), Err(AddressError::Port));
    }
}
