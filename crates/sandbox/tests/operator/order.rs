//! The order in which an operator starts, as the seeds have it: watches, HTTP, then the election.

use crate::bed::{Bed, PATIENCE};
use crate::http_get;
use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use sandbox::kube::faults::{Fault, Hit, On};
use sim::kube::Method;
use std::time::{Duration, Instant};

/// When a request with this in its path came first.
fn first(hits: &[Hit], part: &str) -> Option<Timestamp> {
    hits.iter()
        .find(|hit| hit.request.contains(part))
        .map(|hit| hit.at)
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_campaigns_before_the_objects_are_listed_and_http_is_served_meanwhile() -> Result<()> {
    let bed = Bed::new().await?;
    let slow = Duration::from_millis(1_500);
    let faults = bed.kubernetes.faults();
    faults.inject(
        Fault::Delay(slow),
        On::path("memgraphclusters").method(Method::Get).times(1),
    );
    // Only to be seen.
    faults.inject(Fault::Delay(Duration::ZERO), On::path("leases"));
    let operator = bed.operator().await?;
    ensure!(http_get(operator.http, "/livez").await?.contains("200 OK"));
    let early = http_get(operator.http, "/readyz").await?;
    ensure!(early.contains("503"), "{early}");
    let deadline = Instant::now() + PATIENCE;
    let (listed, campaigned) = loop {
        let hits = faults.hits();
        if let (Some(listed), Some(campaigned)) = (first(&hits, "memgraphclusters"), first(&hits, "leases")) {
            break (listed, campaigned);
        }
        ensure!(Instant::now() < deadline, "{hits:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let waited = campaigned.duration_since(listed);
    ensure!(waited >= SignedDuration::try_from(slow)?, "{waited:?}");
    operator.stop().await?;
    bed.end().await
}
