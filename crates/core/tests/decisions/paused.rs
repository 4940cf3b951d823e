//! Paused by a human: nothing is changed, failover included, and not a moment longer.

use super::cluster::{NOW, ago, cluster};
use super::render::assert_table;
use std::time::Duration;

#[test]
fn paused() {
    let later = NOW + Duration::from_millis(1);
    assert_table!(
        "paused",
        [
            ("a healthy cluster needs nothing", cluster()),
            (
                "paused for another millisecond: no failover",
                cluster().crashed(0).wish(|w| w.paused_until = Some(later))
            ),
            (
                "the pause ends now: failover",
                cluster().crashed(0).wish(|w| w.paused_until = Some(NOW))
            ),
            (
                "the pause ended a second ago: failover",
                cluster().crashed(0).wish(|w| w.paused_until = Some(ago(1000)))
            ),
            (
                "paused without a record: no bootstrap",
                super::cluster::fresh().wish(|w| w.paused_until = Some(later)),
            ),
        ]
    );
}
