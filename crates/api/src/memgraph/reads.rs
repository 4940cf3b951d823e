//! `spec.gateway.reads`.
#![allow(
    unreachable_pub,
    reason = "the derive repeats our `pub` on a struct inside a function"
)]

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// The port for reads of each gateway.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reads {
    /// Whether there is one. Replicas are behind MAIN: whether an application may read what was true a moment ago is for
    /// it to say, so this is off unless it is asked for.
    #[serde(default)]
    pub enabled: bool,
    /// How far behind MAIN a replica may be, in MAIN's own timestamps (`behind` in SHOW REPLICAS): a transaction takes
    /// one or more.
    #[serde(default = "thousand")]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    #[x_kube(validation = Rule::new("self >= 0 && self <= 1000000000").message("spec.gateway.reads.maxLag is 0 to 1000000000: timestamps of MAIN, as `behind` in SHOW REPLICAS counts them"))]
    pub max_lag: u32,
    /// The SYNC replica takes reads, too. An open read there and an index on MAIN stall MAIN for half a minute.
    #[serde(default)]
    pub include_sync: bool,
    /// MAIN takes reads while no replica does.
    #[serde(default)]
    pub fallback_to_main: bool,
}

const fn thousand() -> u32 {
    1_000
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            enabled: false,
            max_lag: thousand(),
            include_sync: false,
            fallback_to_main: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_port_for_reads_unless_it_is_asked_for() {
        let reads: Reads = serde_json::from_str("{}").unwrap();
        assert_eq!(reads, Reads::default());
        assert!(!reads.enabled);
        let reads: Reads =
            serde_json::from_str(r#"{"enabled": true, "maxLag": 7, "includeSync": true}"#).unwrap();
        assert_eq!(
            (reads.enabled, reads.max_lag, reads.include_sync),
            (true, 7, true)
        );
        assert!(!reads.fallback_to_main);
    }
}
