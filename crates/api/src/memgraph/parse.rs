//! From what a user wrote to what the decisions take.

use super::spec::{Durability, Failover, FenceTimeout, MemgraphClusterSpec, Pause, WritesWithoutSync};
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
    /// Not a moment.
    #[error("`paused.until` is `{0}`: write a time such as 2026-11-16T04:00:00Z")]
    Moment(String),
    /// Too few or too many.
    #[error("`replicas` is {0}: 2 to 9 are possible")]
    Replicas(u8),
}

/// Reads `5s`, `250ms`, `1m30s`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at_checked(digits)?;
        let number: u64 = number.parse().ok()?;
        let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
        let (unit, millis) = units.into_iter().find(|(unit, _)| {
            tail.strip_prefix(unit)
                .is_some_and(|after| after.is_empty() || after.starts_with(|c: char| c.is_ascii_digit()))
        })?;
        total = total.checked_add(Duration::from_millis(number.checked_mul(millis)?))?;
        rest = tail.strip_prefix(unit)?;
    }
    Some(total)
}

impl MemgraphClusterSpec {
    /// What the decisions take.
    pub fn parse(&self) -> Result<core::Spec, BadSpec> {
        let Failover {
            writes_without_sync,
            fence_timeout,
            silent_probes,
            sync_grace,
            drain,
        } = &self.failover;
        if !(2..=9).contains(&self.replicas) {
            return Err(BadSpec::Replicas(self.replicas));
        }
        let duration = |field, text: &String| {
            parse_duration(text).ok_or_else(|| BadSpec::Duration {
                field,
                value: text.clone(),
            })
        };
        Ok(core::Spec {
            replicas: self.replicas,
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
            sync_grace: duration("failover.syncGrace", sync_grace)?,
            drain: duration("failover.drain", drain)?,
            reset_quiet: duration("hardReset.quiet", &self.hard_reset.quiet)?,
            resets_per_hour: self.hard_reset.per_hour,
            ..core::Spec::default()
        })
    }

    /// Until when nothing is changed.
    pub fn paused_until(&self) -> Result<Option<Time>, BadSpec> {
        let until = self.paused.as_ref().map(|Pause { until }| parse_moment(until));
        until.transpose()
    }
}

/// The end of a pause.
pub fn parse_moment(text: &str) -> Result<Time, BadSpec> {
    moment(text).ok_or_else(|| BadSpec::Moment(text.to_owned()))
}

/// Reads an RFC 3339 time as milliseconds of the wall clock.
pub(crate) fn moment(text: &str) -> Option<Time> {
    let at: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(at.as_millisecond()).ok().map(Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_anything_else_is_refused() {
        let cases = [
            ("5s", 5_000),
            ("250ms", 250),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
        ];
        for (text, millis) in cases {
            assert_eq!(
                parse_duration(text),
                Some(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for bad in ["", "5", "s", "5 s", "-5s", "1.5s", "5d", "99999999999999999999s"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_empty_spec_is_the_default_of_the_decisions() {
        let spec: MemgraphClusterSpec = serde_json::from_str("{}").unwrap();
        assert_eq!(spec.parse(), Ok(core::Spec::default()));
        assert_eq!(spec.paused_until(), Ok(None));
    }

    #[test]
    fn what_is_written_reaches_the_decisions() {
        let text = r#"{"replicas": 2, "durability": "Relaxed", "onPromotion": ["RETURN 1"],
            "failover": {"writesWithoutSync": "Always", "fenceTimeout": "Wait", "silentProbes": 5, "syncGrace": "9s", "drain": "1m"},
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
            (Duration::from_secs(9), Duration::from_mins(1))
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
        spec.replicas = 1;
        assert_eq!(spec.parse(), Err(BadSpec::Replicas(1)));
        spec.paused = Some(Pause {
            until: "tomorrow".to_owned(),
        });
        assert!(spec.paused_until().is_err());
    }
}
