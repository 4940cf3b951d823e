//! S8 and N20: what the generic configuration says, and how options are spelt.

use super::bed::{Bed, Kind, is_whole};
use super::says;
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Where a dead node is named by its address: so the record and the generic configuration set the same option.
const BY_ADDRESS: Kind = Kind {
    version: "4.6.11",
    profile: "gossip-4.x",
    scale: 8,
    ..Kind::PAIR
};

const OPTION: &str = "/v2/config/replace_address_first_boot";

/// The generic configuration names a living member. The record wins: who lost its disk takes its own place, and the
/// living one does not even notice. A dashed key in the file, as the record has it, would be unknown to the database and
/// ignored: nothing that the gate makes is spelt so.
#[tokio::test(flavor = "multi_thread")]
async fn s8_n20_the_record_wins_over_the_generic_configuration_and_is_spelt_as_the_database_obeys_it()
-> Result<()> {
    let (bed, operator) = Bed::whole_of(BY_ADDRESS).await?;
    let (lost, living) = ("ring-b-0", "ring-a-0");
    let (own, other) = (bed.address(lost).await?, bed.address(living).await?);
    let (old, lives) = (bed.host_of(lost).await?, bed.host_of(living).await?);
    let pod = bed.uid(living).await?;
    let line = bed.record_line(lost).await?.context("no record")?;
    ensure!(line == format!("replace-address-first-boot: {own}\n"), "{line}");

    bed.configure(&format!("replace_address_first_boot: {other}\n"))?;
    bed.lose(lost).await?;
    bed.until("told of the loss", |s| says(s, "StorageLost").is_some())
        .await?;
    let after = bed.until("whole again", |s| is_whole(s, 2)).await?;
    let effective = bed.rest(lost, OPTION).await?;
    ensure!(
        effective == own,
        "it was started with {effective}, not with {own}"
    );
    // This version gives the host id of the dead node to the one that takes its place.
    let done = after.replacements.first().context("nobody was replaced")?;
    ensure!(
        done.member == lost && done.lost == old && done.by == old,
        "{done:?}"
    );
    ensure!(bed.host_of(living).await? == lives && bed.uid(living).await? == pod);
    let rows = bed.admin(lost, "GET", "/rows").await?;
    ensure!(rows.as_array().map_or(0, Vec::len) == 20, "{rows}");

    // N20: both understood every word that they were started with.
    for member in [lost, living] {
        bed.understood(member).await?;
        let line = bed.command_line(member)?;
        let keys = line.split(' ').filter(|w| w.starts_with("--"));
        let misspelt: Vec<&str> = keys
            .filter(|w| w.split('=').next().is_some_and(|k| k.contains('_')))
            .collect();
        ensure!(misspelt.is_empty(), "{misspelt:?}");
    }
    // What it would look like if the line of the record were put into the file as it is.
    bed.configure(&line)?;
    bed.nodes.kill(&Bed::party(lost), None)?;
    let deadline = Instant::now() + Duration::from_mins(1);
    while !bed
        .log(lost)
        .await
        .is_ok_and(|log| log.contains("Unknown option : replace-address-first-boot"))
    {
        ensure!(Instant::now() < deadline, "{:?}", bed.log(lost).await);
        sleep(Duration::from_millis(200)).await;
    }
    // Nobody may have noticed yet that it was away: it is asked until it answers.
    let option = loop {
        match bed.rest(lost, OPTION).await {
            Ok(option) => break option,
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => sleep(Duration::from_millis(200)).await,
        }
    };
    ensure!(option == "", "a key that is not known is no option: {option}");
    bed.until("whole after a restart", |s| is_whole(s, 2)).await?;
    ensure!(bed.host_of(lost).await? == old);
    operator.stop().await?;
    bed.end().await
}
