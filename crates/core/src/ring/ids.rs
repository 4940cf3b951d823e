//! Names of things. Each is its own type, so that a pod can never be passed where a volume is meant.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

/// An id that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseIdError {
    /// Not a UUID.
    #[error("`{0}` is not a UUID: 32 hexadecimal digits are needed, dashes are ignored")]
    NotAUuid(String),
    /// Not an address.
    #[error("`{0}` is not an IP address")]
    NotAnAddress(String),
    /// Not a name that an object can have.
    #[error("`{0}` is not a name: lower case letters, digits, `-`, `.` and `_`, and not empty")]
    NotAName(String),
}

macro_rules! uuid {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                dashed(self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:x})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(s: &str) -> Result<Self, Self::Err> {
                parse_uuid(s).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

fn dashed(id: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // By hand: records are printed and compared in every turn, and the formatting of wide numbers is slow.
    let hex = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    for (at, byte) in id.to_be_bytes().into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            f.write_char('-')?;
        }
        f.write_char(hex(byte >> 4))?;
        f.write_char(hex(byte & 0xf))?;
    }
    Ok(())
}

fn parse_uuid(text: &str) -> Result<u128, ParseIdError> {
    let bad = || ParseIdError::NotAUuid(text.to_owned());
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(bad());
    }
    u128::from_str_radix(&digits, 16).map_err(|_| bad())
}

uuid! {
    /// What a node of the ring calls itself. A replaced node has another one on ScyllaDB 5.2 and later.
    HostId
}
uuid! {
    /// A volume: the uid of its claim.
    VolumeUid
}
uuid! {
    /// What is really mounted: a random id that the gate writes into a data folder it sees for the first time. A claim
    /// keeps its uid when the folder behind it was wiped or another disk was mounted; this does not.
    DiskId
}
uuid! {
    /// A pod object, so that a delete or a permission never hits a namesake.
    PodUid
}
uuid! {
    /// A Service object.
    ServiceUid
}
uuid! {
    /// A ConfigMap object.
    MapUid
}
uuid! {
    /// The object that declares the cluster. Created again under the same name it is another one.
    ClusterUid
}

/// The address under which the others know a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Address(pub IpAddr);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Address {
    type Err = ParseIdError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse()
            .map(Self)
            .map_err(|_| ParseIdError::NotAnAddress(s.to_owned()))
    }
}

/// A short text that is cheap to copy.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = ParseIdError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if s.is_empty() || !s.chars().all(plain) {
            return Err(ParseIdError::NotAName(s.to_owned()));
        }
        Ok(Self(s.into()))
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A member of the ring, by the name that its Service and its pod share: `<cluster>-<rack>-<ordinal>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Member(pub Name);

impl Member {
    /// The ConfigMap of its record, as the seed names it.
    pub fn record_map(&self) -> String {
        format!("{}-autoreplacement-config", self.0)
    }

    /// The claim of its data.
    pub fn claim(&self) -> String {
        format!("data-{}", self.0)
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Member {
    type Err = ParseIdError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse().map(Self)
    }
}

/// Where a member lives, as the database means it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Location {
    /// Its datacenter.
    pub dc: Name,
    /// Its rack.
    pub rack: Name,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.dc, self.rack)
    }
}

/// One permission. Numbers are never used twice in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantNumber(pub u64);

impl fmt::Display for GrantNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "permission {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_printed_as_the_database_prints_them_and_anything_else_is_refused() {
        let text = "e7b1c0de-0000-4000-8000-00000000000f";
        let id: HostId = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!(text.replace('-', "").parse(), Ok(id));
        for bad in [
            "",
            "e7b1",
            "zz",
            &text[1..],
            "日本",
            "+7b1c0de-0000-4000-8000-00000000000f",
        ] {
            assert!(bad.parse::<HostId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_and_addresses_are_parsed_at_the_border() {
        assert_eq!(
            "ring-r1-0".parse::<Member>().unwrap().record_map(),
            "ring-r1-0-autoreplacement-config"
        );
        for bad in ["", "a b", "a\nb", "ä"] {
            assert!(bad.parse::<Member>().is_err(), "{bad:?}");
        }
        assert!("10.0.0.300".parse::<Address>().is_err());
        assert!("fd00::1".parse::<Address>().is_ok());
    }
}
