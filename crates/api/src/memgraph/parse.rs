//! From what a user wrote to what the decisions take.

use super::spec::{Durability, Failover, FenceTimeout, MemgraphClusterSpec, Pause, WritesWithoutSync};
use crate::times::{self, moment};
use mainstay_core::memgraph::spec as core;
use mainstay_core::time::Time;
use std::time::Duration;
use thiserror::Error;

/// A spec that the schema let through and that still cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadSpec {
    /// Not a length of time.
    #[error("`{field}` is `{value}`: write a whole number with ms, s, m or h, such as 5s")]
    Duration {
        /// Where.
        field: &'static str,
        /// What is there.
        value: String,
    },
    /// Longer than it can be.
    #[error("`{field}` is longer than {longest:?}")]
    TooLong {
        /// Where.
        field: &'static str,
        /// How long it may be.
        longest: Duration,
    },
    /// Not a moment.
    #[error("`paused.until` is `{0}`: write a time such as 2026-11-16T04:00:00Z")]
    Moment(String),
    /// Too few or too many.
    #[error("`replicas` is {0}: 2 to 9 are possible")]
    Replicas(u8),
}

/// How long running transactions may take at most to end in a planned move: a turn of the operator takes a minute, and
/// this is only a part of it.
pub const LONGEST_DRAIN: Duration = Duration::from_secs(45);

impl MemgraphClusterSpec {
    /// What the decisions take.
    pub fn parse(&self) -> Result<core::Spec, BadSpec> {
        let (spec, bad) = self.read(core::Spec::default());
        bad.into_iter().next().map_or(Ok(spec), Err)
    }

    /// What the decisions take, and what cannot be followed. A part that cannot be followed stays what it was: a mistake
    /// in a manifest must not leave a cluster without failover.
    pub fn read(&self, before: core::Spec) -> (core::Spec, Vec<BadSpec>) {
        let Failover {
            writes_without_sync,
            fence_timeout,
            silent_probes,
            sync_grace,
            drain,
        } = &self.failover;
        let mut bad = Vec::new();
        let mut duration = |field, text: &String, before, longest: Duration| {
            let read = times::duration(text).filter(|read| *read <= longest);
            read.unwrap_or_else(|| {
                bad.push(match times::duration(text) {
                    Some(_) => BadSpec::TooLong { field, longest },
                    None => BadSpec::Duration {
                        field,
                        value: text.clone(),
                    },
                });
                before
            })
        };
        let sync_grace = duration("failover.syncGrace", sync_grace, before.sync_grace, Duration::MAX);
        let drain = duration("failover.drain", drain, before.drain, LONGEST_DRAIN);
        let reset_quiet = duration(
            "hardReset.quiet",
            &self.hard_reset.quiet,
            before.reset_quiet,
            Duration::MAX,
        );
        let replicas = if (2..=9).contains(&self.replicas) {
            self.replicas
        } else {
            bad.push(BadSpec::Replicas(self.replicas));
            before.replicas
        };
        // The decisions do not take them; a spec that cannot be followed is told of all the same.
        bad.extend(self.gateway.times().err());
        let spec = core::Spec {
            replicas,
            writes_without_sync: match writes_without_sync {
                WritesWithoutSync::AfterFailover => core::WritesWithoutSync::AfterFailover,
                WritesWithoutSync::Always => core::WritesWithoutSync::Always,
                WritesWithoutSync::Never => core::WritesWithoutSync::Never,
            },
            fence_timeout: match fence_timeout {
                FenceTimeout::Proceed => core::FenceTimeout::Proceed,
                FenceTimeout::Wait => core::FenceTimeout::Wait,
            },
            durability: match self.durability {
                Durability::Strict => core::Durability::Strict,
                Durability::Relaxed => core::Durability::Relaxed,
            },
            on_promotion: !self.on_promotion.is_empty(),
            silent_probes: *silent_probes,
            sync_grace,
            drain,
            reset_quiet,
            resets_per_hour: self.hard_reset.per_hour,
            ..core::Spec::default()
        };
        (spec, bad)
    }

    /// Which Memgraph this is, if that is known: as it is declared, or as the tag of the image says.
    pub fn memgraph(&self) -> Option<Memgraph> {
        let tag = || {
            let image = self.image.split('@').next().unwrap_or_default();
            let (_, tag) = image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'))?;
            Some(tag.strip_prefix('v').unwrap_or(tag))
        };
        Memgraph::read(self.version.as_deref().or_else(tag)?)
    }

    /// Until when nothing is changed.
    pub fn paused_until(&self) -> Result<Option<Time>, BadSpec> {
        let until = self.paused.as_ref().map(|Pause { until }| parse_moment(until));
        until.transpose()
    }
}

/// A version of Memgraph, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Memgraph {
    /// The first number.
    pub major: u16,
    /// The second.
    pub minor: u16,
}

impl Memgraph {
    fn read(text: &str) -> Option<Self> {
        let number = text.split(['-', '+']).next()?;
        let mut parts = number.split('.').map(|part| part.parse().ok());
        Some(Self {
            major: parts.next()??,
            minor: parts.next()??,
        })
    }
}

/// The end of a pause.
pub fn parse_moment(text: &str) -> Result<Time, BadSpec> {
    moment(text).ok_or_else(|| BadSpec::Moment(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_spec_is_the_default_of_the_decisions() {
        let spec: MemgraphClusterSpec = serde_json::from_str("{}").unwrap();
        assert_eq!(spec.parse(), Ok(core::Spec::default()));
        assert_eq!(spec.paused_until(), Ok(None));
    }

    #[test]
    fn what_is_written_reaches_the_decisions() {
        let text = r#"{"replicas": 2, "durability": "Relaxed", "onPromotion": ["RETURN 1"],
            "failover": {"writesWithoutSync": "Always", "fenceTimeout": "Wait", "silentProbes": 5, "syncGrace": "9s", "drain": "30s"},
            "hardReset": {"perHour": 7},
            "paused": {"until": "1970-01-01T00:00:02Z"}}"#;
        let spec: MemgraphClusterSpec = serde_json::from_str(text).unwrap();
        let parsed = spec.parse().unwrap();
        assert_eq!((parsed.replicas, parsed.silent_probes), (2, 5));
        assert_eq!(parsed.durability, core::Durability::Relaxed);
        assert_eq!(parsed.writes_without_sync, core::WritesWithoutSync::Always);
        assert_eq!(parsed.fence_timeout, core::FenceTimeout::Wait);
        assert_eq!(
            (parsed.sync_grace, parsed.drain),
            (Duration::from_secs(9), Duration::from_secs(30))
        );
        assert_eq!((parsed.resets_per_hour, spec.hard_reset.keep), (7, 3));
        assert!(parsed.on_promotion);
        assert_eq!(spec.paused_until(), Ok(Some(Time(2_000))));
    }

    #[test]
    fn what_the_schema_cannot_refuse_is_refused_here() {
        let mut spec: MemgraphClusterSpec = serde_json::from_str("{}").unwrap();
        spec.failover.drain = "soon".to_owned();
        assert!(spec.parse().unwrap_err().to_string().contains("failover.drain"));
        spec.failover.drain = "46s".to_owned();
        assert!(spec.parse().unwrap_err().to_string().contains("longer than 45s"));
        spec.failover = Failover::default();
        spec.gateway.idle = Some("never".to_owned());
        assert!(spec.parse().unwrap_err().to_string().contains("gateway.idle"));
        spec.replicas = 1;
        assert_eq!(spec.parse(), Err(BadSpec::Replicas(1)));
        spec.paused = Some(Pause {
            until: "tomorrow".to_owned(),
        });
        assert!(spec.paused_until().is_err());
    }

    #[test]
    fn the_version_is_the_declared_one_or_that_of_the_tag() {
        let read = |text: &str| {
            let spec: MemgraphClusterSpec = serde_json::from_str(text).unwrap();
            spec.memgraph().map(|Memgraph { major, minor }| (major, minor))
        };
        assert_eq!(read("{}"), Some((3, 12)), "the default image");
        assert_eq!(
            read(r#"{"image": "host:5000/memgraph:v3.6.1-malloc"}"#),
            Some((3, 6))
        );
        assert_eq!(read(r#"{"image": "m:3.7.2@sha256:00"}"#), Some((3, 7)));
        assert_eq!(
            read(r#"{"image": "m@sha256:00", "version": "3.10"}"#),
            Some((3, 10))
        );
        for unknown in ["m@sha256:00", "host:5000/m", "m:nightly", "m:3"] {
            assert_eq!(read(&format!(r#"{{"image": "{unknown}"}}"#)), None, "{unknown}");
        }
    }

    #[test]
    fn what_cannot_be_read_stays_what_it_was_and_the_rest_is_followed() {
        let text = r#"{"replicas": 5, "failover": {"drain": "1.5s", "syncGrace": "9s"}, "gateway": {"hold": "0.5s"}}"#;
        let spec: MemgraphClusterSpec = serde_json::from_str(text).unwrap();
        let before = core::Spec {
            drain: Duration::from_secs(30),
            ..core::Spec::default()
        };
        let (read, bad) = spec.read(before);
        assert_eq!(
            (read.replicas, read.sync_grace, read.drain),
            (5, Duration::from_secs(9), Duration::from_secs(30))
        );
        let bad: Vec<String> = bad.iter().map(ToString::to_string).collect();
        assert_eq!(bad.len(), 2, "{bad:?}");
        assert!(
            bad[0].contains("failover.drain") && bad[1].contains("gateway.hold"),
            "{bad:?}"
        );
    }
}
