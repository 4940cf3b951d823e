//! A client behind a gateway, while MAIN is lost.

use crate::bed::Bed;
use crate::ledger::write;
use anyhow::{Context, Result, ensure};
use mainstay_core::memgraph::ids::Ordinal;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn writes_through_the_gateway_go_on_when_main_is_killed_and_none_is_lost() -> Result<()> {
    let bed = Bed::new().await?;
    let gateway = bed.gateway("one").await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    bed.until_protected().await?;
    let address = gateway.bolt();
    let mut acknowledged = 0_i64;
    let mut longest = Duration::ZERO;
    let mut last = Instant::now();
    for number in 0..120 {
        if number == 40 {
            bed.nodes.kill(&Bed::party(0), None)?;
        }
        if write(address, number).await {
            acknowledged += 1;
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
    }
    eprintln!("acknowledged {acknowledged} of 120, longest gap {longest:?}");
    ensure!(acknowledged >= 100, "only {acknowledged} were acknowledged");
    let record = bed.until_protected().await?;
    let main = record.main.context("nobody serves")?.pod;
    ensure!(main == Ordinal(1));
    let found = bed.count(main.0, "Numbered").await?;
    // One that was not acknowledged may be there; one that was must be.
    ensure!(found >= acknowledged, "{found} of {acknowledged} are there");
    operator.stop().await?;
    gateway.shutdown().await;
    bed.end().await
}
