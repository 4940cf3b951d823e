//! Names of things, each its own type. What cannot be the name of a ConfigMap, a key in it or an annotation on it
//! is refused when it is read, not when it is too late.

use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// A name that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// Not a plan.
    #[error(
        "`{0}` cannot be the name of a plan: write at most 63 of a-z, 0-9 and `-`, with a letter or digit at both ends and no dot"
    )]
    Plan(String),
    /// Not an executor.
    #[error(
        "`{0}` cannot be the name of an executor: write at most 63 of a-z, 0-9 and `-`, with a letter or digit at both ends"
    )]
    Executor(String),
    /// Not a target.
    #[error(
        "`{0}` cannot be the name of a target: write at most 63 of A-Z, a-z, 0-9, `-`, `_` and `.`, with a letter or digit at both ends"
    )]
    Target(String),
    /// Not a resource.
    #[error("a resource needs an id")]
    Resource,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $error:expr, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Reads it.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) { Ok(Self(text.to_owned())) } else { Err($error(text)) }
            }

            /// As it is written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

fn is_label(text: &str) -> bool {
    framed(text, |b| {
        b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'
    }) && framed_ends(text, |b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

fn framed(text: &str, inner: fn(u8) -> bool) -> bool {
    (1..=63).contains(&text.len()) && text.bytes().all(inner)
}

fn framed_ends(text: &str, end: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| end(*b)) && bytes.last().is_some_and(|b| end(*b))
}

name! {
    /// A plan. No dots: `{name}.2` must be free for its second ConfigMap.
    PlanName, |t: &str| NameError::Plan(t.to_owned()), is_label
}
name! {
    /// An executor. No `_`: it ends where the key of a restore point has its first one.
    ExecutorName, |t: &str| NameError::Executor(t.to_owned()), is_label
}
name! {
    /// A target of a plan.
    TargetName, |t: &str| NameError::Target(t.to_owned()), |t| {
        framed(t, |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
            && framed_ends(t, |b| b.is_ascii_alphanumeric())
    }
}
name! {
    /// One thing that can be stopped and started. Only its executor knows what the id means.
    ResourceId, |_: &str| NameError::Resource, |t| !t.is_empty()
}

impl ResourceId {
    /// The target as a whole: what a point says that was written before there were resources in it.
    pub fn whole() -> Self {
        Self("*".to_owned())
    }
}

/// Annotations keep the domain that users of hibernator know.
pub const DOMAIN: &str = "hibernator.ardikabs.com";

impl TargetName {
    /// `hibernator.ardikabs.com/restored-{target}`. The part after the slash has 63 characters at most; a target that
    /// is too long for it appears with its beginning and a hash.
    pub fn mark(&self) -> String {
        const ROOM: usize = 63 - "restored-".len();
        if self.0.len() <= ROOM {
            return format!("{DOMAIN}/restored-{}", self.0);
        }
        let beginning: String = self.0.chars().take(ROOM - 17).collect();
        let hash = u64::try_from(super::hash::of(&self.0) >> 64).unwrap_or_default();
        format!("{DOMAIN}/restored-{beginning}-{hash:016x}")
    }
}

/// One sleep and the wake-up after it; only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CycleId(pub u64);

impl fmt::Display for CycleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cycle {}", self.0)
    }
}

/// One leg of a cycle: it turns round whenever the schedule does. Written `7.3`: the leg 3 of cycle 7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LegId {
    /// Which cycle.
    pub cycle: CycleId,
    /// Which leg of it.
    pub leg: u32,
}

impl LegId {
    /// Reads `7.3`.
    pub fn parse(text: &str) -> Option<Self> {
        let (cycle, leg) = text.split_once('.')?;
        Some(Self {
            cycle: CycleId(cycle.parse().ok()?),
            leg: leg.parse().ok()?,
        })
    }
}

impl fmt::Display for LegId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.cycle.0, self.leg)
    }
}

/// The version of an object as its server calls it. Only equality means something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s49_a_long_target_with_dots_works_and_what_cannot_be_encoded_is_refused() {
        let long = "a.".repeat(31) + "z";
        assert_eq!(long.len(), 63);
        let target = TargetName::parse(&long).unwrap();
        let mark = target.mark();
        let (domain, name) = mark.split_once('/').unwrap();
        assert_eq!((domain, name.len()), (DOMAIN, 63));
        let other = TargetName::parse(&("a.".repeat(31) + "y")).unwrap();
        assert_ne!(mark, other.mark());
        for bad in ["", "-a", "a/b", "a b", "ü", &"a".repeat(64), "a."] {
            assert!(TargetName::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(
            TargetName::parse("db-1").unwrap().mark(),
            "hibernator.ardikabs.com/restored-db-1"
        );
    }

    #[test]
    fn a_leg_is_read_as_it_is_written() {
        let leg = LegId {
            cycle: CycleId(7),
            leg: 3,
        };
        assert_eq!(LegId::parse(&leg.to_string()), Some(leg));
        for bad in ["7", "7.", ".3", "7.x", "7.-1"] {
            assert_eq!(LegId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_plan_has_no_dot_and_an_executor_no_underscore() {
        assert!(PlanName::parse("staging-2").is_ok());
        for bad in ["a.2", "A", "a_b", "", "a-"] {
            assert!(PlanName::parse(bad).is_err(), "{bad}");
            assert!(ExecutorName::parse(bad).is_err(), "{bad}");
        }
    }
}
