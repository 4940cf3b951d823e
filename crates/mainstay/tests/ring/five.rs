//! N8 and N25: in a ring of five.

use super::bed::{Bed, Kind, is_whole};
use super::looks::{against, gate};
use super::says;
use anyhow::{Context, Result, ensure};
use sandbox::node::Direction;
use std::collections::BTreeMap;

/// The newest family of versions: the only one in which a human can declare a node dead for good.
const FIVE: Kind = Kind {
    version: "2026.2.0",
    profile: "raft-2026.2",
    members: 5,
    ..Kind::QUICK
};

const HERE: [&str; 2] = ["ring-a-0", "ring-b-0"];
const THERE: [&str; 2] = ["ring-c-0", "ring-d-0"];
const LOST: &str = "ring-e-0";
const LIVE: &str = "/gossiper/endpoint/live/";
const DOWN: &str = "/gossiper/endpoint/down/";

/// Cuts the network between `HERE` and `THERE`, or mends it.
fn cut(bed: &Bed, on: bool) {
    for (here, there) in HERE.into_iter().flat_map(|h| THERE.map(|t| (h, t))) {
        let (here, there) = (Bed::party(here), Bed::party(there));
        if on {
            bed.nodes.cut(&here, &there, Direction::Both);
        } else {
            bed.nodes.heal(&here, &there, Direction::Both);
        }
    }
}

/// The operator is on this machine and cannot be cut off from a pod: so this member does not answer it, or does again.
async fn answers(bed: &Bed, member: &str, on: bool) -> Result<()> {
    let frozen = format!("/fault/freeze_api?on={}", !on);
    bed.admin(member, "POST", &frozen).await.map(drop)
}

/// Every row is where it should be, so many times.
async fn all_rows_are_kept(bed: &Bed) -> Result<()> {
    let mut kept: BTreeMap<u64, u8> = BTreeMap::new();
    for member in &bed.members {
        let rows = bed.admin(member, "GET", "/rows").await?;
        let rows = rows.as_array().context("no rows")?;
        for row in rows.iter().filter_map(serde_json::Value::as_u64) {
            *kept.entry(row).or_default() += 1;
        }
    }
    ensure!(
        kept.len() == 20 && kept.values().all(|n| *n >= FIVE.copies),
        "{kept:?}"
    );
    Ok(())
}

/// N25: the operator hears two of five, and one of those it hears of is empty: held for want of a majority.
///
/// N8: then a second one is lost. ScyllaDB refuses to replace either while the other is down: its refusal is shown, and
/// nothing is set that would silence it. When a human has declared one of them dead for good, in the database's own
/// words, the other is replaced, and that one after it: one at a time.
#[tokio::test(flavor = "multi_thread")]
async fn n8_n25_in_five_a_minority_holds_and_of_two_lost_one_is_replaced_at_a_time() -> Result<()> {
    let (bed, operator) = Bed::whole_of(FIVE).await?;
    let second = "ring-d-0";
    let old = (bed.host_of(LOST).await?, bed.host_of(second).await?);
    cut(&bed, true);
    for there in THERE {
        answers(&bed, there, false).await?;
    }
    bed.lose(LOST).await?;
    let minority = "2 of 5 members answer; a majority of 3 is needed to change the ring";
    bed.until("held in a minority", |s| {
        says(s, "StorageLost").is_some() && against(s, LOST, "Quorum") == Some(minority)
    })
    .await?;
    bed.holds(&[LOST]).await.context("in a minority")?;
    let why = bed.why().await?;
    ensure!(why.contains(minority), "{why}");

    // The operator still hears two only: with all others there, the first would be replaced before the second is lost.
    // And the network is mended before: what it held back would tell of a dead node as of one that lives.
    cut(&bed, false);
    let (address, third) = (bed.address(second).await?, bed.address(THERE[0]).await?);
    bed.until_listed(&HERE, LIVE, &third).await?;
    bed.lose(second).await?;
    bed.until("without a second one", |s| gate(s, second) == "Empty")
        .await?;
    bed.until_listed(&HERE, DOWN, &address).await?;
    answers(&bed, THERE[0], true).await?;
    let refusal = "request canceled because some required nodes are dead";
    let both = [LOST, second];
    let held = bed
        .until("held by the database's refusal", |s| {
            let refused = |m: &&str| against(s, m, "OthersUp").is_some_and(|why| why.contains(refusal));
            both.iter().all(refused) && both.iter().all(|m| against(s, m, "Quorum").is_none())
        })
        .await?;
    let said = says(&held, "ReplacementHeld").unwrap_or_default();
    ensure!(
        said.contains(refusal) && said.contains("never done for you"),
        "{said}"
    );
    bed.holds(&both).await.context("with two lost")?;

    bed.order(HERE[0], &format!("/storage_service/exclude_node?hosts={}", old.1))
        .await?;
    let turn = format!("{second} waits until {LOST} is done: one at a time");
    bed.until("replacing one of them", |s| {
        s.work.starts_with(&format!("replace {LOST}")) && s.reasons.contains(&turn)
    })
    .await?;
    let after = bed.until("whole again", |s| is_whole(s, 5)).await?;
    let order: Vec<&str> = after.replacements.iter().map(|r| r.member.as_str()).collect();
    ensure!(order == both, "{order:?}");
    bed.took_the_place(LOST, &old.0).await?;
    bed.took_the_place(second, &old.1).await?;
    for member in both {
        let line = bed.command_line(member)?;
        ensure!(
            line.contains("--replace-node-first-boot=") && !line.contains("ignore"),
            "{line}"
        );
    }
    all_rows_are_kept(&bed).await?;
    operator.stop().await?;
    bed.end().await
}
