//! N15 and N21: a member that lost its disk and must not start as it is: in another datacenter, or as its own seed.

use super::bed::{Bed, Kind, NAME, is_whole};
use super::looks::{LONG_ENOUGH, against, gate, uid};
use super::says;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use mainstay_core::ring::Ledger;
use mainstay_core::ring::ids::GrantNumber;
use mainstay_core::ring::ledger::{Grant, Phase, Task, Work};
use mainstay_core::ring::stamp::{Found, REPORT_ANNOTATION, Report};
use mainstay_core::time::Time;
use operator::tap::Tap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const MEMBER: &str = "ring-c-0";

/// Somebody edits the set of the member's rack while no operator is there: its next pod is in another datacenter, and its
/// database too.
///
/// A declared datacenter cannot be changed, and a pod of a rack is labelled with that rack by the set that makes it: an
/// edit by hand is the only way in which a pod comes up elsewhere. For the check one is as good as the other.
async fn move_to(bed: &Bed, datacenter: &str) -> Result<()> {
    let sets: Api<StatefulSet> = Api::default_namespaced(bed.client.clone());
    let mut set = sets.get("ring-c").await?;
    let template = &mut set.spec.as_mut().context("no spec")?.template;
    let labels = template.metadata.as_mut().and_then(|m| m.labels.as_mut());
    labels
        .context("no labels")?
        .insert("mainstay.dev/datacenter".to_owned(), datacenter.to_owned());
    let container = template.spec.as_mut().and_then(|pod| pod.containers.first_mut());
    let env = container.and_then(|c| c.env.as_mut()).context("no environment")?;
    for variable in env.iter_mut().filter(|v| v.name == "DATACENTER") {
        variable.value = Some(datacenter.to_owned());
    }
    sets.replace("ring-c", &PostParams::default(), &set).await?;
    Ok(())
}

/// What the gate of the member's pod says, once it holds an empty disk.
async fn held_empty(bed: &Bed) -> Result<Report> {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let pod = bed.pods().get_opt(MEMBER).await?;
        let said = pod.and_then(|pod| pod.annotations().get(REPORT_ANNOTATION).cloned());
        let said = said.and_then(|text| serde_json::from_str::<Report>(&text).ok());
        if let Some(report) = said.filter(|r| r.found == Found::Empty) {
            return Ok(report);
        }
        ensure!(Instant::now() < deadline, "its gate says {said:?}");
        sleep(Duration::from_millis(100)).await;
    }
}

async fn write(bed: &Bed, ledger: &Ledger) -> Result<()> {
    let name = format!("{NAME}-ring");
    let mut map = bed.maps().get(&name).await?;
    map.data
        .get_or_insert_default()
        .insert("ledger".to_owned(), ledger.print()?);
    bed.maps().replace(&name, &PostParams::default(), &map).await?;
    Ok(())
}

/// N21: no operator gives such a permission. So it is written by hand, with no operator there: everything in it is true
/// but its seeds.
async fn own_seed(bed: &Bed, before: &Ledger) -> Result<()> {
    let (report, pod) = (held_empty(bed).await?, bed.pods().get(MEMBER).await?);
    let lost = before
        .known
        .get(&MEMBER.parse()?)
        .context("not on record")?
        .clone();
    let number = GrantNumber(before.grants.0 + 1);
    let grant = Grant {
        number,
        pod: uid(&pod)?.parse()?,
        volume: uid(&bed.claim_of(MEMBER).await?)?.parse()?,
        disk: report.disk,
        wipe: false,
        seeds: vec![lost.address],
        generation: 0,
        at: Time(1),
        lasts: Duration::from_mins(1),
        retires: false,
    };
    let forged = before.with(|next| {
        next.grants = number;
        next.work = Some(Work {
            member: lost_member(),
            task: Task::Replace { lost, manual: false },
            phase: Phase::Granted(grant),
            since: Time(1),
            failed: 0,
        });
    });
    write(bed, &forged).await?;
    let until = Instant::now() + LONG_ENOUGH;
    while Instant::now() < until {
        ensure!(held_empty(bed).await? == report);
        sleep(Duration::from_millis(200)).await;
    }
    let log = bed.log(MEMBER).await?;
    ensure!(
        log.contains("the permission names this node as its own seed") && !log.contains("starting"),
        "{log}"
    );
    let started = bed.command_line(MEMBER)?;
    ensure!(started.contains("ring-gate"), "a database runs: {started}");
    write(bed, before).await
}

fn lost_member() -> mainstay_core::ring::ids::Member {
    MEMBER.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn n15_n21_one_that_would_be_its_own_seed_or_in_another_datacenter_is_not_started() -> Result<()> {
    let (bed, operator) = Bed::whole_of(Kind::QUICK).await?;
    let (old, before) = (bed.host_of(MEMBER).await?, bed.ledger().await?);
    operator.stop().await?;
    move_to(&bed, "dc2").await?;
    bed.lose(MEMBER).await?;
    own_seed(&bed, &before).await?;

    let operator = bed.operator(Tap::default()).await?;
    let mismatch =
        "TopologyMismatch: its pod is in dc2/c, the lost node was in dc1/c; bring the pod back there";
    let held = bed
        .until("held where it is", |s| {
            gate(s, MEMBER) == "Empty" && against(s, MEMBER, "Topology") == Some(mismatch)
        })
        .await?;
    let said = says(&held, "ReplacementHeld").unwrap_or_default();
    ensure!(said == format!("{MEMBER} is not replaced: {mismatch}"), "{said}");
    bed.holds(&[MEMBER]).await?;
    let why = bed.why().await?;
    ensure!(why.contains("HELD") && why.contains(mismatch), "{why}");

    // As it is told: the pod is brought back there.
    move_to(&bed, "dc1").await?;
    bed.pods().delete(MEMBER, &DeleteParams::default()).await?;
    bed.until("whole again", |s| is_whole(s, 3)).await?;
    bed.is_replaced(MEMBER, &old).await?;
    operator.stop().await?;
    bed.end().await
}
