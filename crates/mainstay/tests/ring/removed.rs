//! N12: a human removes a dead member from the ring.

use super::bed::{Bed, Kind, is_whole};
use anyhow::{Result, ensure};
use operator::tap::Tap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const MEMBER: &str = "ring-c-0";

/// Its record would name a node that is not there any more, and the database would refuse it again and again (`Replaced
/// node with Host ID … not found`). It is dropped, and the member joins as a new one, once.
#[tokio::test(flavor = "multi_thread")]
async fn n12_a_member_that_was_removed_by_hand_joins_as_new_and_is_never_told_to_replace() -> Result<()> {
    let (bed, operator) = Bed::whole_of(Kind::QUICK).await?;
    // Nobody looks while the human is at it: otherwise it would be a race against the replacement.
    operator.stop().await?;
    let before = bed.ledger().await?;
    let (old, address) = (bed.host_of(MEMBER).await?, bed.address(MEMBER).await?);
    bed.lose(MEMBER).await?;
    bed.until_listed(&["ring-a-0", "ring-b-0"], "/gossiper/endpoint/down/", &address)
        .await?;
    let remove = format!("/storage_service/remove_node?host_id={old}");
    let deadline = Instant::now() + Duration::from_secs(30);
    while let Err(refused) = bed.order("ring-a-0", &remove).await {
        ensure!(Instant::now() < deadline, "{refused:#}");
        sleep(Duration::from_millis(200)).await;
    }
    ensure!(
        bed.record_line(MEMBER)
            .await?
            .is_some_and(|line| line.contains(&old)),
        "nobody has looked yet"
    );

    let operator = bed.operator(Tap::default()).await?;
    bed.until("joined by it", |s| s.work.starts_with("join ring-c-0"))
        .await?;
    ensure!(bed.record_line(MEMBER).await?.is_none(), "its record is dropped");
    bed.until("whole again", |s| is_whole(s, 3)).await?;
    let new = bed.host_of(MEMBER).await?;
    ensure!(new != old);
    bed.until_recorded(MEMBER, &new).await?;
    let started = bed.command_line(MEMBER)?;
    ensure!(!started.contains("replace"), "{started}");
    let log = bed.log(MEMBER).await?;
    ensure!(!log.contains("Startup failed"), "{log}");
    let after = bed.ledger().await?;
    ensure!(
        after.grants.0 == before.grants.0 + 1,
        "one start, and no more: {after:?}"
    );
    ensure!(bed.status().await?.replacements.is_empty());
    let told = bed.events().await?;
    ensure!(told.iter().any(|r| r == "RemovedByHand"), "{told:?}");
    operator.stop().await?;
    bed.end().await
}
