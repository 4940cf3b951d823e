//! Names of things. Each is its own type, small and `Copy`: the explorer clones and hashes millions of
//! them, and a pod can never be passed where a process is meant.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// An id that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseIdError {
    /// Neither a UUID nor a container id.
    #[error("`{0}` is not an id: 32 or more hexadecimal digits are needed, dashes and a scheme are ignored")]
    NotHex(String),
    /// Not one of our registration names.
    #[error("`{0}` is not a registration name of this cluster")]
    NotOurName(String),
}

/// The ordinal of a pod in its StatefulSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ordinal(pub u8);

impl Ordinal {
    /// The two authority pods: the only ones that may be MAIN or SYNC.
    pub const AUTHORITY: [Self; 2] = [Self(0), Self(1)];

    /// May this pod ever be MAIN or SYNC?
    pub fn is_authority(self) -> bool {
        self.0 < 2
    }

    /// The other authority pod; `None` for a pod outside the pair.
    pub fn partner(self) -> Option<Self> {
        match self.0 {
            0 => Some(Self(1)),
            1 => Some(Self(0)),
            _ => None,
        }
    }
}

impl fmt::Display for Ordinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod-{}", self.0)
    }
}

macro_rules! wide_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
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
                parse_wide(s).map(Self)
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

/// Reads the first 128 bits of a UUID or of a container id such as `containerd://3f2a…`.
fn parse_wide(text: &str) -> Result<u128, ParseIdError> {
    let bare = text.rsplit_once("://").map_or(text, |(_, id)| id);
    let digits: String = bare.chars().filter(|c| *c != '-').take(32).collect();
    if digits.len() < 32 {
        return Err(ParseIdError::NotHex(text.to_owned()));
    }
    u128::from_str_radix(&digits, 16).map_err(|_| ParseIdError::NotHex(text.to_owned()))
}

wide_id! {
    /// One run of a database container: the first 128 bits of its containerID. A restarted container is
    /// another process, although its pod keeps its uid (hole P20).
    ProcessId
}
wide_id! {
    /// A volume: the uid of its claim. A pod that lost its disk has another one.
    VolumeId
}
wide_id! {
    /// A pod object: its uid, so that a delete never hits a namesake.
    PodUid
}
wide_id! {
    /// `database_uuid` of the data: replica and MAIN must agree on it.
    DatabaseId
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The next one.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

counter! {
    /// A number that only grows, one per MAIN. Also the value of the mark in the data.
    Term, "term "
}
counter! {
    /// Generation of the STRICT_SYNC registration; retired by every withdrawal, never used twice (R4).
    Gen, "g"
}
counter! {
    /// How often the record was written. A gateway confirms a revision; a hold is confirmed by it.
    Revision, "revision "
}
counter! {
    /// Id of one small commit that proves protection (R3).
    ProofId, "proof "
}
counter! {
    /// Id of one reset request (R7).
    ResetId, "reset-"
}

/// A gateway replica, numbered by the order in which it registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GatewayId(pub u32);

impl fmt::Display for GatewayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gateway-{}", self.0)
    }
}

/// The name under which a replica is registered at MAIN.
///
/// An ASYNC name belongs to the pod (`memgraph_ha_2`, as the seeds have it). A STRICT_SYNC name carries
/// the generation (`memgraph_ha_1_g7`) and is never used twice, so that a late DROP or REGISTER hits
/// nothing (R4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RegistrationName {
    /// ASYNC, named after the pod.
    Async(Ordinal),
    /// STRICT_SYNC of one generation.
    Strict(Ordinal, Gen),
}

impl RegistrationName {
    /// The pod this name belongs to.
    pub fn pod(self) -> Ordinal {
        match self {
            Self::Async(pod) | Self::Strict(pod, _) => pod,
        }
    }

    /// Reads a name as Memgraph shows it; `prefix` is the StatefulSet's name with `-` turned into `_`.
    pub fn parse(prefix: &str, text: &str) -> Result<Self, ParseIdError> {
        let ours = || ParseIdError::NotOurName(text.to_owned());
        let rest = text
            .strip_prefix(prefix)
            .and_then(|r| r.strip_prefix('_'))
            .ok_or_else(ours)?;
        let (pod, strict) = match rest.split_once("_g") {
            Some((pod, strict)) => (pod, Some(strict)),
            None => (rest, None),
        };
        let pod = Ordinal(pod.parse().map_err(|_| ours())?);
        match strict {
            None => Ok(Self::Async(pod)),
            Some(number) => Ok(Self::Strict(pod, Gen(number.parse().map_err(|_| ours())?))),
        }
    }

    /// The name as Memgraph gets it.
    pub fn render(self, prefix: &str) -> String {
        match self {
            Self::Async(pod) => format!("{prefix}_{}", pod.0),
            Self::Strict(pod, generation) => format!("{prefix}_{}_g{}", pod.0, generation.0),
        }
    }
}

impl fmt::Display for RegistrationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render("memgraph_ha"))
    }
}

impl Serialize for RegistrationName {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RegistrationName {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        Self::parse("memgraph_ha", &text).map_err(serde::de::Error::custom)
    }
}

/// A set of pods. Small and `Copy`: it travels with every observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Pods(u64);

impl Pods {
    /// All that there can be.
    pub const ALL: Self = Self(u64::MAX);

    /// Is this one of them?
    pub fn contains(self, pod: Ordinal) -> bool {
        self.0 & bit(pod) != 0
    }
}

/// Ordinals end at nine (`spec.replicas`); one beyond the set is never in it.
fn bit(Ordinal(pod): Ordinal) -> u64 {
    1_u64.checked_shl(u32::from(pod)).unwrap_or_default()
}

impl FromIterator<Ordinal> for Pods {
    fn from_iter<I: IntoIterator<Item = Ordinal>>(pods: I) -> Self {
        Self(pods.into_iter().fold(0, |set, pod| set | bit(pod)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_ids_and_uuids_are_read_and_anything_else_is_refused() {
        let plain = "3f2a0000000000000000000000000001";
        let long = format!("containerd://{plain}ffffffffffffffffffffffffffffffff");
        assert_eq!(long.parse::<ProcessId>(), plain.parse::<ProcessId>());
        assert_eq!(
            "3f2a0000-0000-0000-0000-000000000001"
                .parse::<VolumeId>()
                .unwrap()
                .to_string(),
            plain
        );
        for bad in [
            "",
            "abc",
            "containerd://",
            "zz2a0000000000000000000000000001",
            "日本",
        ] {
            assert!(bad.parse::<ProcessId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn registration_names_keep_the_seeds_form_and_strict_ones_carry_their_generation() {
        let a = RegistrationName::Async(Ordinal(2));
        let s = RegistrationName::Strict(Ordinal(1), Gen(7));
        assert_eq!(
            (a.to_string().as_str(), s.to_string().as_str()),
            ("memgraph_ha_2", "memgraph_ha_1_g7")
        );
        for name in [a, s] {
            assert_eq!(
                RegistrationName::parse("memgraph_ha", &name.to_string()),
                Ok(name)
            );
            assert_eq!(RegistrationName::parse("db_x", &name.render("db_x")), Ok(name));
        }
        for bad in [
            "memgraph_ha_",
            "memgraph_ha_1_g",
            "memgraph_ha_1_gx",
            "other_1",
            "memgraph_ha_999",
        ] {
            assert!(RegistrationName::parse("memgraph_ha", bad).is_err(), "{bad}");
        }
    }
}
