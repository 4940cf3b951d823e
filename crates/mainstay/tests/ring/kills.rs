//! S10: the operator dies before and after every call of a replacement, and the next one goes on.

use super::bed::{Bed, is_whole};
use anyhow::{Result, ensure};
use operator::tap::Tap;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

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

#[tokio::test(flavor = "multi_thread")]
async fn s10_the_operator_dies_at_every_step_of_a_replacement_and_the_next_one_goes_on() -> Result<()> {
    let (bed, operator) = Bed::whole().await?;
    operator.stop().await?;
    let old = bed.host_of("ring-b-0").await?;
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
    bed.is_replaced("ring-b-0", &old).await?;
    ensure!(bed.ledger().await?.grants.0 >= 1);
    bed.end().await
}
