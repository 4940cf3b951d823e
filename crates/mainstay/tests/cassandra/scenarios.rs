//! What is done to the ring.

use super::bed::{Bed, gate, is_lost, is_whole};
use anyhow::{Context, Result, ensure};
use api::ring::RingClusterStatus;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::sleep;

type Played<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// One thing that happens, and what must come of it.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) play: for<'a> fn(&'a mut Bed) -> Played<'a>,
}

/// On one ring, one after the other: each leaves it whole.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "same-address",
        about: "a member loses claim and pod, and is replaced at its own address",
        play: |bed| Box::pin(same_address(bed, "ring-b-0")),
    },
    Scenario {
        name: "first-node",
        about: "the same with the one that founded the ring",
        play: |bed| Box::pin(same_address(bed, "ring-a-0")),
    },
    Scenario {
        name: "restart",
        about: "a member is killed and has its disk: nobody is replaced",
        play: |bed| Box::pin(restart(bed)),
    },
    Scenario {
        name: "interrupted",
        about: "a replacement is killed in its middle, and tried again on a wiped disk",
        play: |bed| Box::pin(interrupted(bed)),
    },
    Scenario {
        name: "two-lost",
        about: "two of three lose their disks: both are held, until one of the disks is back",
        play: |bed| Box::pin(two_lost(bed)),
    },
    Scenario {
        name: "old-disk",
        about: "a disk whose place was given away comes back, and is not started",
        play: |bed| Box::pin(old_disk(bed)),
    },
    Scenario {
        name: "new-address",
        about: "a member loses its disk and its Service, and is replaced at another address",
        play: |bed| Box::pin(new_address(bed)),
    },
];

/// It was replaced so many times since.
fn replaced(before: &RingClusterStatus) -> impl Fn(&RingClusterStatus) -> bool + use<> {
    let last = before.replacements.last().map(|r| r.at.clone());
    move |now| is_whole(now) && now.replacements.last().map(|r| r.at.clone()) != last
}

async fn same_address(bed: &mut Bed, member: &str) -> Result<()> {
    let (before, was) = (bed.status().await?, bed.known(member).await?);
    let other = if member == "ring-c-0" {
        "ring-a-0"
    } else {
        "ring-c-0"
    };
    bed.lose(member).await?;
    bed.until("told of the loss", is_lost).await?;
    bed.write_some(other).await?;
    bed.until("whole again", replaced(&before)).await?;
    let is = bed.known(member).await?;
    ensure!(is.host == was.host, "at the same address the host id stays");
    ensure!(
        is.address == was.address && is.disk != was.disk,
        "{was:?} became {is:?}"
    );
    Ok(())
}

async fn restart(bed: &mut Bed) -> Result<()> {
    let (before, was) = (bed.status().await?, bed.known("ring-c-0").await?);
    bed.kill("ring-c-0")?;
    bed.until("without it", |s| !is_whole(s)).await?;
    bed.write_some("ring-a-0").await?;
    bed.until("whole after a restart", is_whole).await?;
    ensure!(bed.known("ring-c-0").await? == was);
    ensure!(bed.status().await?.replacements == before.replacements);
    Ok(())
}

async fn interrupted(bed: &mut Bed) -> Result<()> {
    let (before, was) = (bed.status().await?, bed.known("ring-b-0").await?);
    bed.lose("ring-b-0").await?;
    // Its last pod may have been started by a permission, too.
    bed.until("told of the loss", |s| {
        is_lost(s) && gate(s, "ring-b-0") == "Empty"
    })
    .await?;
    bed.until("replacing", |s| gate(s, "ring-b-0") == "StartedByPermission")
        .await?;
    // The others hear of it, and call it `hibernate` from then on.
    let mut seen = false;
    for _ in 0..200 {
        let gossip = bed.gossip_status("ring-a-0", was.address).await;
        seen = matches!(&gossip, Ok(Some(status)) if status.starts_with("hibernate"));
        if seen {
            break;
        }
        sleep(Duration::from_millis(300)).await;
    }
    ensure!(seen, "it was never seen to replace anybody");
    bed.kill("ring-b-0")?;
    // The reason names what the others call it: `nodetool status` shows such a node like any other that is down.
    bed.until("told of the failure", |s| {
        let named = |r: &String| r.contains("`hibernate`") && r.contains("ring-b-0");
        s.reasons.iter().any(named)
    })
    .await?;
    bed.write_some("ring-a-0").await?;
    bed.until("whole again", replaced(&before)).await?;
    ensure!(bed.known("ring-b-0").await?.host == was.host);
    let ledger = bed.ledger().await?;
    ensure!(ledger.work.is_none(), "{}", ledger.headline());
    Ok(())
}

async fn two_lost(bed: &mut Bed) -> Result<()> {
    let before = bed.status().await?;
    bed.swap_disk("ring-b-0", None, "disk-of-b")?;
    bed.swap_disk("ring-c-0", None, "disk-of-c")?;
    let empty = |s: &RingClusterStatus| gate(s, "ring-b-0") == "Empty" && gate(s, "ring-c-0") == "Empty";
    bed.until("two of them lost", empty).await?;
    // Longer than a heart has to stand still, and the checks have to hold.
    bed.stays("held", Duration::from_secs(75), |s| {
        !gate(s, "ring-b-0").starts_with("Started") && !gate(s, "ring-c-0").starts_with("Started")
    })
    .await?;
    let ledger = bed.ledger().await?;
    ensure!(ledger.work.is_none(), "{}", ledger.headline());
    let status = bed.status().await?;
    let held = status.conditions.iter().find(|c| c.kind == "ReplacementHeld");
    let held = held.filter(|c| c.status == "True").context("nobody says why")?;
    println!("      held: {}", held.message);
    // One of the disks is found again: it starts, and the other member can be replaced.
    bed.put_disk("ring-b-0", "disk-of-b", "nothing-1")?;
    bed.until("whole again", replaced(&before)).await?;
    let last = bed
        .status()
        .await?
        .replacements
        .pop()
        .context("nobody was replaced")?;
    ensure!(last.member == "ring-c-0", "{last:?}");
    Ok(())
}

async fn old_disk(bed: &mut Bed) -> Result<()> {
    let before = bed.status().await?;
    bed.swap_disk("ring-c-0", None, "old-disk")?;
    bed.until("whole again", replaced(&before)).await?;
    bed.write_some("ring-a-0").await?;
    let was = bed.known("ring-c-0").await?;
    // The new one goes, and the old one is back behind the same claim.
    bed.swap_disk("ring-c-0", Some("old-disk"), "new-disk")?;
    bed.until("told of the old disk", |s| gate(s, "ring-c-0") == "Retired")
        .await?;
    bed.stays("fenced", Duration::from_secs(30), |s| {
        gate(s, "ring-c-0") == "Retired"
    })
    .await?;
    ensure!(
        bed.known("ring-c-0").await? == was,
        "the place is still the new disk's"
    );
    bed.put_disk("ring-c-0", "new-disk", "nothing-2")?;
    bed.until("whole with its own disk", is_whole).await?;
    ensure!(bed.known("ring-c-0").await? == was);
    Ok(())
}

async fn new_address(bed: &mut Bed) -> Result<()> {
    let (before, was) = (bed.status().await?, bed.known("ring-b-0").await?);
    bed.lose_address("ring-b-0").await?;
    bed.lose("ring-b-0").await?;
    bed.until("told of the loss", is_lost).await?;
    bed.write_some("ring-a-0").await?;
    bed.until("whole again", replaced(&before)).await?;
    let is = bed.known("ring-b-0").await?;
    ensure!(
        is.address != was.address && is.host != was.host,
        "{was:?} became {is:?}"
    );
    for by in ["ring-a-0", "ring-c-0"] {
        let hosts = bed.ring_by(by).await?.hosts;
        ensure!(
            !hosts.values().any(|host| *host == was.host),
            "{by} still lists {}",
            was.host
        );
    }
    Ok(())
}
