//! N17 and N18: a human has a hand in it, and automation keeps its own off.

use super::bed::{Bed, Kind, is_whole};
use super::looks::{against, gate};
use super::says;
use anyhow::{Result, ensure};
use mainstay_core::ring::Ledger;
use mainstay_core::ring::ledger::Task;
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

const MEMBER: &str = "ring-b-0";
const MAINTENANCE: &str = "scylla/node-maintenance";

/// Whatever is under way is what the label asks for.
fn by_label(ledger: &Ledger) -> bool {
    let tasks = ledger.work.iter().map(|work| &work.task);
    tasks
        .into_iter()
        .all(|t| matches!(t, Task::Replace { manual: true, .. }))
}

/// N17: the member is in maintenance; then the ring is paused. Neither is replaced, and each is named.
///
/// N18: `scylla/replace` is on the Service of the lost member before the pause ends. Automation leaves it to the label: it is
/// replaced once, by hand, and the label goes.
///
/// There is no rollout to wait for: a changed template is rolled out by people, one pod at a time.
#[tokio::test(flavor = "multi_thread")]
async fn n17_n18_maintenance_and_pause_hold_and_a_labelled_member_is_left_to_the_label() -> Result<()> {
    let (bed, operator) = Bed::whole_of(Kind::QUICK).await?;
    let (old, before) = (bed.host_of(MEMBER).await?, bed.ledger().await?);
    bed.set_label(MEMBER, MAINTENANCE, true).await?;
    bed.lose(MEMBER).await?;
    let maintenance = "it is in maintenance; end the maintenance";
    let held = bed
        .until("held by the maintenance", |s| {
            let others = s.checks.iter().filter(|c| c.name != "HandsOff");
            gate(s, MEMBER) == "Empty"
                && against(s, MEMBER, "HandsOff") == Some(maintenance)
                && others.into_iter().all(|c| c.holds)
        })
        .await?;
    let said = says(&held, "ReplacementHeld").unwrap_or_default();
    ensure!(
        said == format!("{MEMBER} is not replaced: {maintenance}"),
        "{said}"
    );
    bed.holds(&[MEMBER]).await?;

    bed.change(json!({ "paused": { "until": "2199-01-01T00:00:00Z" } }))
        .await?;
    bed.set_label(MEMBER, MAINTENANCE, false).await?;
    bed.until("paused", |s| {
        s.reasons
            .iter()
            .any(|why| why.starts_with("paused by a human until"))
    })
    .await?;
    let revision = bed.ledger().await?.revision;
    bed.holds(&[MEMBER]).await?;
    ensure!(
        bed.ledger().await?.revision == revision,
        "nothing at all is written"
    );

    bed.label(MEMBER).await?;
    bed.change(json!({ "paused": null })).await?;
    loop {
        let ledger = bed.ledger().await?;
        ensure!(by_label(&ledger), "automation began it: {}", ledger.headline());
        if ledger.work.is_none() && ledger.grants > before.grants {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    bed.until("whole again", |s| is_whole(s, 3)).await?;
    bed.is_replaced(MEMBER, &old).await?;
    let labels = bed.labels(MEMBER).await?;
    ensure!(!labels.contains(&"scylla/replace".to_owned()), "{labels:?}");
    let after = bed.ledger().await?;
    ensure!(after.grants.0 == before.grants.0 + 1, "{}", after.headline());
    operator.stop().await?;
    bed.end().await
}
