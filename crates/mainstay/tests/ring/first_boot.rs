//! N10 and N11: a member that joins for the first time.

use super::bed::{Bed, Kind, is_whole};
use super::says;
use anyhow::{Context, Result, ensure};
use operator::tap::Tap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const MEMBER: &str = "ring-b-0";
const JOINING: &str = "/storage_service/nodes/joining";

/// The host id under which the founder lists the member.
async fn listed(bed: &Bed, address: &str) -> Result<Option<String>> {
    let all = bed.rest("ring-a-0", "/storage_service/host_id").await?;
    let mut pairs = all.as_array().into_iter().flatten();
    let own = pairs.find(|pair| pair["key"] == address);
    Ok(own.and_then(|pair| Some(pair["value"].as_str()?.to_owned())))
}

/// N11: while it joins, this version already lists it with its host id. That is no reason for a record.
///
/// N10: it is killed in the middle. What it left is emptied, and it joins as a new node: there is nobody to replace.
#[tokio::test(flavor = "multi_thread")]
async fn n10_n11_a_first_bootstrap_has_no_record_and_begins_again_on_a_clean_disk() -> Result<()> {
    let kind = Kind {
        members: 2,
        copies: 2,
        ..Kind::THREE
    };
    let bed = Bed::of(kind).await?;
    let operator = bed.operator(Tap::default()).await?;
    bed.until("joined by a second one", |s| s.work.starts_with("join ring-b-0"))
        .await?;
    let address = bed.address(MEMBER).await?;
    bed.until_listed(&["ring-a-0"], JOINING, &address).await?;
    let first = listed(&bed, &address).await?.context("not listed")?;
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        ensure!(bed.record_line(MEMBER).await?.is_none(), "it only joins");
        let ledger = bed.ledger().await?;
        ensure!(!ledger.known.contains_key(&MEMBER.parse()?), "{ledger:?}");
        ensure!(
            bed.lists("ring-a-0", JOINING, &address).await?,
            "it is done too soon"
        );
        sleep(Duration::from_millis(200)).await;
    }

    let uid = bed.uid(MEMBER).await?;
    bed.nodes.kill(&Bed::party(MEMBER), None)?;
    bed.until("told of a start that did not finish", |s| {
        says(s, "ReplacementFailed").is_some_and(|why| why.contains("tried again on an emptied disk"))
    })
    .await?;
    ensure!(bed.record_line(MEMBER).await?.is_none());
    bed.until("whole", |s| {
        assert_eq!(says(s, "StorageLost"), None, "it had nothing to lose");
        is_whole(s, 2)
    })
    .await?;
    let line = bed.command_line(MEMBER)?;
    ensure!(!line.contains("replace"), "{line}");
    ensure!(bed.host_of(MEMBER).await? != first, "its disk was not emptied");
    ensure!(
        bed.uid(MEMBER).await? == uid,
        "its pod was not made anew for this"
    );
    ensure!(bed.status().await?.replacements.is_empty());
    // One to found, one to join, one to join again.
    ensure!(bed.ledger().await?.grants.0 == 3, "{:?}", bed.ledger().await?);
    operator.stop().await?;
    bed.end().await
}
