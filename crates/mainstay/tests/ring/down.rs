//! S2, S7, N2 and N5: members that are left alone, and an empty one for which nobody speaks.

use super::bed::{Bed, Kind, is_whole};
use super::looks::{LONG_ENOUGH, against, gate};
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often the operator has asked this member who is in the ring.
async fn asked(bed: &Bed, member: &str) -> Result<u64> {
    let calls = bed.admin(member, "GET", "/calls").await?;
    Ok(calls["/storage_service/host_id"].as_u64().unwrap_or(0))
}

/// For this long nobody is permitted anything, and nothing is under way.
async fn left_alone(bed: &Bed, time: Duration) -> Result<()> {
    let (before, until) = (bed.ledger().await?, Instant::now() + time);
    while Instant::now() < until {
        let ledger = bed.ledger().await?;
        ensure!(
            ledger.grants == before.grants && ledger.work.is_none(),
            "{}",
            ledger.headline()
        );
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s2_s7_n2_nobody_is_asked_without_need_and_a_member_that_restarts_or_is_only_down_is_left_alone()
-> Result<()> {
    let (bed, operator) = Bed::whole_of(Kind::QUICK).await?;
    // S2: every record is there and nothing changes.
    sleep(Duration::from_secs(2)).await;
    let before = asked(&bed, "ring-a-0").await?;
    ensure!(before > 0, "it was asked while the ring came up");
    sleep(Duration::from_secs(5)).await;
    ensure!(asked(&bed, "ring-a-0").await? == before, "nothing changed");

    // S7: a member that was replaced restarts as the one that it became, and replaces nobody.
    let member = "ring-c-0";
    let old = bed.host_of(member).await?;
    bed.lose(member).await?;
    bed.until("lost", |s| gate(s, member) == "Empty").await?;
    bed.until("whole again", |s| is_whole(s, 3)).await?;
    bed.is_replaced(member, &old).await?;
    let (new, pod) = (bed.host_of(member).await?, bed.uid(member).await?);
    bed.nodes.kill(&Bed::party(member), None)?;
    let deadline = Instant::now() + Duration::from_mins(1);
    while !bed
        .log(member)
        .await
        .is_ok_and(|log| log.contains(&format!("starting {new}")))
    {
        ensure!(Instant::now() < deadline, "it does not start again");
        sleep(Duration::from_millis(200)).await;
    }
    bed.until("whole", |s| is_whole(s, 3)).await?;
    ensure!(
        !bed.command_line(member)?.contains("replace"),
        "it replaces nobody"
    );
    ensure!(bed.host_of(member).await? == new && bed.uid(member).await? == pod);

    // N2: down for longer than anything that is waited for, and its volume is whole.
    let member = "ring-b-0";
    let (host, address) = (bed.host_of(member).await?, bed.address(member).await?);
    bed.nodes.stop_processes(&Bed::party(member), None)?;
    bed.until_listed(&["ring-a-0"], "/gossiper/endpoint/down/", &address)
        .await?;
    left_alone(&bed, LONG_ENOUGH * 2).await?;
    bed.nodes.continue_processes(&Bed::party(member), None)?;
    bed.until("whole", |s| is_whole(s, 3)).await?;
    ensure!(bed.host_of(member).await? == host);
    operator.stop().await?;
    bed.end().await
}

/// N5: the other members live and serve, and none of them answers the operator.
#[tokio::test(flavor = "multi_thread")]
async fn n5_an_empty_member_is_not_started_while_no_other_one_answers() -> Result<()> {
    let (bed, operator) = Bed::whole_of(Kind::QUICK).await?;
    let member = "ring-a-0";
    let old = bed.host_of(member).await?;
    let others = ["ring-b-0", "ring-c-0"];
    for other in others {
        bed.admin(other, "POST", "/fault/freeze_api").await?;
    }
    bed.lose(member).await?;
    let held = bed
        .until("held", |s| {
            gate(s, member) == "Empty" && against(s, member, "Quorum").is_some()
        })
        .await?;
    let why = against(&held, member, "Quorum").context("no check")?;
    ensure!(why.starts_with("no other member answers"), "{why}");
    bed.holds(&[member]).await?;
    for other in others {
        bed.admin(other, "POST", "/fault/freeze_api?on=false").await?;
    }
    bed.until("whole again", |s| is_whole(s, 3)).await?;
    bed.is_replaced(member, &old).await?;
    operator.stop().await?;
    bed.end().await
}
