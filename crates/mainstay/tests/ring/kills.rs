//! S10: the operator dies before and after every call of a replacement, and the next one goes on.

use super::bed::{Bed, is_whole};
use anyhow::{Context, Result, bail, ensure};
use mainstay_core::ring::ids::{DiskId, GrantNumber, HostId, VolumeUid};
use operator::tap::Tap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Where operators died.
type Places = Arc<Mutex<BTreeSet<String>>>;

/// Stands still for ever at the first place where nobody has died yet, and says so.
fn deadly(died: &Places, dying: &mpsc::UnboundedSender<String>) -> Tap {
    let (died, dying) = (Arc::clone(died), dying.clone());
    Tap::new(move |place| {
        // Revision and time differ from write to write; what is written is what matters.
        let known = place.split("revision").next().unwrap_or(place);
        let rest = place.rsplit(", ").next().unwrap_or_default();
        let rest = rest.split(" until ").next().unwrap_or_default();
        let new = died.lock().unwrap().insert(format!("{known}{rest}"));
        if new {
            dying.send(place.to_owned()).ok();
            Box::pin(std::future::pending())
        } else {
            Box::pin(std::future::ready(()))
        }
    })
}

/// What a permission to replace says, but for its number: whom, and on which volume and disk.
type Said = (HostId, VolumeUid, DiskId);

/// Reads the ledger all the time, and notes each permission to replace that was ever in it, by its number.
async fn permissions(bed: &Bed, noted: &Mutex<BTreeMap<GrantNumber, BTreeSet<Said>>>) {
    loop {
        let work = bed.ledger().await.ok().and_then(|ledger| ledger.work);
        if let Some((work, grant)) = work.as_ref().and_then(|w| Some((w, w.grant()?)))
            && let Some(lost) = work.lost()
        {
            let said = (lost.host, grant.volume, grant.disk);
            noted
                .lock()
                .unwrap()
                .entry(grant.number)
                .or_default()
                .insert(said);
        }
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_the_operator_dies_at_every_step_of_a_replacement_and_the_next_one_goes_on() -> Result<()> {
    let (bed, operator) = Bed::whole().await?;
    operator.stop().await?;
    let (old, before) = (bed.host_of("ring-b-0").await?, bed.ledger().await?);
    let noted = Mutex::default();
    tokio::select! {
        ended = everybody_dies(&bed) => ended?,
        () = permissions(&bed, &noted) => {}
    }
    bed.is_replaced("ring-b-0", &old).await?;
    // One storage was lost: one permission was given, whoever died, and nothing but that disk is fenced.
    let (after, noted) = (bed.ledger().await?, noted.into_inner().unwrap());
    ensure!(
        after.grants.0 == before.grants.0 + 1,
        "{} after {}",
        after.grants,
        before.grants
    );
    let said: Vec<_> = noted.into_iter().collect();
    let [(number, said)] = said.as_slice() else {
        bail!("there was more than one permission: {said:?}");
    };
    let member = "ring-b-0".parse()?;
    let (was, is) = (&before.known[&member], &after.known[&member]);
    let only = (
        was.host,
        is.volume.context("no volume")?,
        is.disk.context("no disk")?,
    );
    ensure!(*number == after.grants && said.iter().eq([&only]), "{said:?}");
    ensure!(after.retired.iter().eq(was.disk.iter()), "{:?}", after.retired);
    for other in ["ring-a-0", "ring-c-0"] {
        let other = other.parse()?;
        ensure!(after.known[&other] == before.known[&other]);
    }
    bed.end().await
}

/// The disk of a member is lost, and operators die at every step until one sees its replacement through.
async fn everybody_dies(bed: &Bed) -> Result<()> {
    let died = Places::default();
    let (dying, mut deaths) = mpsc::unbounded_channel();
    bed.lose("ring-b-0").await?;
    let mut operators = 0;
    loop {
        let operator = bed.operator(deadly(&died, &dying)).await?;
        operators += 1;
        // Nobody dies any more: this one sees it through, or already has.
        let death = timeout(Duration::from_secs(40), deaths.recv()).await;
        let Ok(Some(place)) = death else {
            bed.until("whole again", |s| is_whole(s, 3)).await?;
            operator.stop().await?;
            break;
        };
        println!("{operators}: died {place}");
        operator.kill().await;
        bed.free_the_lease().await?;
        ensure!(operators < 80, "it never ends: {:#?}", died.lock().unwrap());
    }
    let places = died.lock().unwrap().clone();
    let has = |what: &str| places.iter().any(|place| place.contains(what));
    for what in [
        "before write ledger",
        "after write ledger",
        "before create ring-b-0-autoreplacement-config",
        "after delete ring-b-0-autoreplacement-config",
    ] {
        ensure!(has(what), "nobody died {what}: {places:#?}");
    }
    Ok(())
}
