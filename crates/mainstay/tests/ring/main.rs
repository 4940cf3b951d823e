//! Rings of stand-ins as pods, kept by the operator: the scenarios are named by their numbers in
//! `docs/ring-scenarios.md`.

// Everything here is a test, also what is not marked as one.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing
)]

mod attended;
mod bed;
mod down;
mod first_boot;
mod five;
mod gate;
mod generic;
mod hands;
mod kills;
mod looks;
mod manifests;
mod misplaced;
mod namesake;
mod orphan;
mod records;
mod removed;
mod sleep;
mod twin;
mod ungated;
mod unseen;

use anyhow::{Context, Result, ensure};
use bed::{Bed, Kind, MEMBERS, is_whole};
use kube::ResourceExt;
use kube::api::DeleteParams;
use looks::every_check_is_named;
use operator::tap::Tap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How the conditions are spoken of.
fn says(status: &api::ring::RingClusterStatus, kind: &str) -> Option<String> {
    let found = status
        .conditions
        .iter()
        .find(|c| c.kind == kind && c.status == "True");
    found.map(|c| c.message.clone())
}

/// S1, S2, S3 and S11, with the words of the seed's own test: remove a member's claim and pod, wait, verify.
#[tokio::test(flavor = "multi_thread")]
async fn s1_s2_s3_s11_a_member_that_lost_its_disk_is_replaced_without_a_human_and_it_is_told() -> Result<()> {
    let (bed, operator) = Bed::whole().await?;
    for member in MEMBERS {
        let record = bed
            .maps()
            .get(&format!("{member}-autoreplacement-config"))
            .await?;
        ensure!(record.immutable == Some(true), "{member}: not immutable");
        let owner = record.owner_references().first().context("no owner")?;
        ensure!(owner.kind == "Service" && owner.name == member, "{owner:?}");
        let host = bed.host_of(member).await?;
        let line = record
            .data
            .and_then(|mut data| data.remove("autoreplacement.config"));
        ensure!(
            line == Some(format!("replace-node-first-boot: {host}\n")),
            "{line:?}"
        );
    }
    // The first one founded the ring, and nobody replaced anybody.
    for member in MEMBERS {
        let option = bed.rest(member, "/v2/config/replace_node_first_boot").await?;
        ensure!(option == "", "{member} was started with {option}");
    }
    let old = bed.host_of("ring-b-0").await?;
    let owned = format!("/storage_service/tokens/{}", bed.address("ring-b-0").await?);
    let tokens = bed.rest("ring-a-0", &owned).await?;
    ensure!(tokens.as_array().is_some_and(|all| !all.is_empty()), "{tokens}");
    bed.lose("ring-b-0").await?;
    let lost = bed
        .until("told of the loss", |s| {
            says(s, "StorageLost").is_some() && !s.checks.is_empty()
        })
        .await?;
    ensure!(
        lost.checks.len() == 11,
        "every check has a name: {:#?}",
        lost.checks
    );
    let first_good = lost
        .checks
        .iter()
        .position(|c| c.holds)
        .unwrap_or(lost.checks.len());
    ensure!(
        lost.checks.iter().skip(first_good).all(|c| c.holds),
        "the held ones come first: {:#?}",
        lost.checks
    );
    let after = bed
        .until("whole again", |s| is_whole(s, 3) && !s.replacements.is_empty())
        .await?;
    bed.is_replaced("ring-b-0", &old).await?;
    for member in MEMBERS {
        let is = bed.rest(member, &owned).await?;
        ensure!(
            is == tokens,
            "in the eyes of {member} it owned {tokens}, and owns {is}"
        );
    }
    // S11: who took whose place, and when; once in the status, in an Event, and in the metrics.
    let done = &after.replacements;
    ensure!(done.len() == 1 && done[0].member == "ring-b-0" && done[0].lost == old);
    ensure!(done[0].by == bed.host_of("ring-b-0").await? && !done[0].at.is_empty());
    let told = format!("ring-b-0 is whole again: {} took the place of {old}", done[0].by);
    bed.until_told("Replaced", &told).await?;
    let why = format!("ring-b-0 came back empty: the storage of {old} is lost");
    bed.until_told("StorageLost", &why).await?;
    let counted = |total: u8| {
        format!("mainstay_ring_replacements_total{{namespace=\"default\",ring=\"ring\"}} {total}\n")
    };
    let metrics = operator.metrics().await?;
    ensure!(metrics.contains(&counted(1)), "{metrics}");
    operator.stop().await?;
    bed.end().await
}

/// The seed's own test plan, in its words: create a cluster with 2 nodes; wait for it to deploy; remove the first node's
/// PVC; remove the first node's Pod; await their deletion; wait for it to become fully available again; verify. On a
/// version in which no majority decides about membership: on later ones nobody can replace one of two.
#[tokio::test(flavor = "multi_thread")]
async fn the_seeds_own_test_plan_two_nodes_and_the_first_one_loses_its_claim_and_its_pod() -> Result<()> {
    let (bed, operator) = Bed::whole_of(Kind::PAIR).await?;
    let (old, pod) = (bed.host_of("ring-a-0").await?, bed.uid("ring-a-0").await?);
    bed.lose("ring-a-0").await?;
    bed.until("without its first node", |s| says(s, "StorageLost").is_some())
        .await?;
    ensure!(bed.uid("ring-a-0").await? != pod, "the pod was deleted");
    bed.until("fully available again", |s| is_whole(s, 2)).await?;
    bed.is_replaced("ring-a-0", &old).await?;
    operator.stop().await?;
    bed.end().await
}

/// The same where a majority decides: one of two is none, so nothing is done, and it is said what a human must know.
#[tokio::test(flavor = "multi_thread")]
async fn d11_two_nodes_cannot_heal_where_a_majority_decides() -> Result<()> {
    let kind = Kind {
        members: 2,
        copies: 2,
        ..Kind::THREE
    };
    let (bed, operator) = Bed::whole_of(kind).await?;
    bed.lose("ring-a-0").await?;
    bed.until("held", |s| {
        let quorum = s.checks.iter().find(|c| c.name == "Quorum");
        quorum.is_some_and(|c| !c.holds && c.message.contains("cannot heal itself"))
    })
    .await?;
    sleep(Duration::from_secs(6)).await;
    ensure!(bed.ledger().await?.work.is_none());
    operator.stop().await?;
    bed.end().await
}

/// S4: the same with the one that founded the ring; then S5: the claim stays, only the folder is emptied. While the
/// process lives on the emptied folder, nobody touches it (N3: an empty mount of a living node).
#[tokio::test(flavor = "multi_thread")]
async fn s4_s5_n3_the_founder_and_an_emptied_folder() -> Result<()> {
    let (bed, operator) = Bed::whole().await?;
    let old = bed.host_of("ring-a-0").await?;
    bed.lose("ring-a-0").await?;
    bed.until("without its founder", |s| says(s, "StorageLost").is_some())
        .await?;
    bed.until("whole again", |s| is_whole(s, 3)).await?;
    bed.is_replaced("ring-a-0", &old).await?;

    let (old, uid) = (bed.host_of("ring-c-0").await?, bed.uid("ring-c-0").await?);
    bed.nodes.wipe("default", "data-ring-c-0")?;
    sleep(Duration::from_secs(8)).await;
    ensure!(bed.ledger().await?.work.is_none(), "a living node is left alone");
    ensure!(
        bed.uid("ring-c-0").await? == uid && bed.host_of("ring-c-0").await? == old,
        "a living node is left alone"
    );
    bed.nodes.kill(&Bed::party("ring-c-0"), None)?;
    bed.until("told of the loss", |s| says(s, "StorageLost").is_some())
        .await?;
    bed.until("whole again", |s| is_whole(s, 3)).await?;
    ensure!(bed.uid("ring-c-0").await? != uid, "the pod was made anew once");
    bed.is_replaced("ring-c-0", &old).await?;
    operator.stop().await?;
    bed.end().await
}

/// N1 and N7: a member that restarts with its disk stays who it is; two that lost theirs at once are both held, and one
/// sentence says what a human must do.
#[tokio::test(flavor = "multi_thread")]
async fn n1_n7_a_restart_is_no_loss_and_two_losses_are_held() -> Result<()> {
    let (bed, operator) = Bed::whole().await?;
    let (host, uid) = (bed.host_of("ring-b-0").await?, bed.uid("ring-b-0").await?);
    bed.nodes.kill(&Bed::party("ring-b-0"), None)?;
    sleep(Duration::from_secs(4)).await;
    bed.until("whole after a restart", |s| is_whole(s, 3)).await?;
    ensure!(bed.host_of("ring-b-0").await? == host && bed.uid("ring-b-0").await? == uid);
    ensure!(bed.status().await?.replacements.is_empty());

    bed.lose("ring-b-0").await?;
    bed.lose("ring-c-0").await?;
    // Which of the checks that hold it comes first depends on when each was seen down: both lost members must be held by
    // the one that says that the ring cannot heal itself.
    bed.until("held", |s| {
        let quorum = |member: &str| {
            let mut own = s
                .checks
                .iter()
                .filter(|c| c.member == member && c.name == "Quorum");
            own.any(|c| !c.holds && c.message.contains("cannot heal itself"))
        };
        says(s, "ReplacementHeld").is_some() && quorum("ring-b-0") && quorum("ring-c-0")
    })
    .await?;
    sleep(Duration::from_secs(10)).await;
    let ledger = bed.ledger().await?;
    ensure!(ledger.work.is_none(), "{}", ledger.headline());
    let later = bed.status().await?;
    for member in later.members.iter().filter(|m| m.name != "ring-a-0") {
        ensure!(member.gate == "Empty", "neither is started: {member:?}");
    }
    operator.stop().await?;
    bed.end().await
}

/// S12: a human gives the volume of a living member up.
#[tokio::test(flavor = "multi_thread")]
async fn s12_a_label_replaces_a_member_and_is_taken_off() -> Result<()> {
    let (bed, operator) = Bed::whole().await?;
    let old = bed.host_of("ring-c-0").await?;
    bed.label("ring-c-0").await?;
    bed.until("at work", |s| s.work.contains("by label")).await?;
    bed.until("whole again", |s| is_whole(s, 3)).await?;
    bed.is_replaced("ring-c-0", &old).await?;
    let labels = bed.labels("ring-c-0").await?;
    ensure!(!labels.contains(&"scylla/replace".to_owned()), "{labels:?}");
    operator.stop().await?;
    bed.end().await
}

/// N9: every row is kept once. To replace its keeper would make the loss final, and nothing would show it. A human who
/// accepts that says so for this ring.
#[tokio::test(flavor = "multi_thread")]
async fn n9_a_keyspace_with_one_copy_is_named_and_nothing_is_replaced_before_a_human_accepts_it() -> Result<()>
{
    let (bed, operator) = Bed::whole_with(1).await?;
    let old = bed.host_of("ring-b-0").await?;
    bed.lose("ring-b-0").await?;
    let held = bed
        .until("held", |s| {
            says(s, "ReplacementHeld").is_some_and(|why| why.contains("keyspace ks has 1 copies"))
        })
        .await?;
    let copies = held
        .checks
        .iter()
        .find(|c| c.name == "Copies")
        .context("no check")?;
    ensure!(!copies.holds, "{copies:?}");
    sleep(Duration::from_secs(8)).await;
    ensure!(bed.ledger().await?.work.is_none());
    ensure!(bed.host_of("ring-b-0").await? == old, "it is still on record");
    every_check_is_named(&bed.why().await?, "ring-b-0", &["Copies"])?;

    bed.change(serde_json::json!({ "autoreplacement": { "acceptLoss": true } }))
        .await?;
    bed.until("whole again", |s| is_whole(s, 3)).await?;
    bed.took_the_place("ring-b-0", &old).await?;
    operator.stop().await?;
    bed.end().await
}

/// S14: a member leaves the ring before its objects go, and its successor joins as new, without a replace option.
#[tokio::test(flavor = "multi_thread")]
async fn s14_a_member_that_left_is_not_replaced_by_the_next_one_of_its_name() -> Result<()> {
    let (bed, operator) = Bed::whole_with(2).await?;
    let old = bed.host_of("ring-c-0").await?;
    bed.members_in_c(0).await?;
    bed.until("two members", |s| is_whole(s, 2) && s.members.len() == 2)
        .await?;
    let record = bed.maps().get_opt("ring-c-0-autoreplacement-config").await?;
    ensure!(record.is_none(), "its record went with it");
    let listed = bed.rest("ring-a-0", "/storage_service/host_id").await?;
    ensure!(!listed.to_string().contains(&old), "{listed}");
    bed.members_in_c(1).await?;
    bed.until("three members", |s| is_whole(s, 3)).await?;
    ensure!(bed.host_of("ring-c-0").await? != old);
    let option = bed.rest("ring-c-0", "/v2/config/replace_node_first_boot").await?;
    ensure!(option == "", "it was started with {option}");
    operator.stop().await?;
    bed.end().await
}

/// S1 and N6: the only node has no record, and nobody told it to replace anybody. It loses its disk. Nothing can bring its rows back, and a new ring of the same name would hide that.
#[tokio::test(flavor = "multi_thread")]
async fn s1_n6_the_only_node_has_no_record_and_loses_its_disk_and_nothing_is_begun_anew() -> Result<()> {
    let kind = Kind {
        members: 1,
        copies: 1,
        ..Kind::THREE
    };
    let bed = Bed::of(kind).await?;
    let operator = bed.operator(Tap::default()).await?;
    bed.until("started", |s| {
        s.members
            .first()
            .is_some_and(|m| m.gate == "Started" || m.gate == "StartedByPermission")
    })
    .await?;
    bed.write_first().await?;
    // Until then it may be that nothing was ever founded, and that is said instead.
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let ledger = bed.ledger().await?;
        if ledger.founded && ledger.work.is_none() {
            break;
        }
        ensure!(Instant::now() < deadline, "{}", ledger.headline());
        sleep(Duration::from_millis(100)).await;
    }
    let option = bed.rest("ring-a-0", "/v2/config/replace_node_first_boot").await?;
    ensure!(option == "", "it was started with {option}");
    // Time enough for a record that should not be.
    sleep(Duration::from_secs(3)).await;
    ensure!(
        bed.record_line("ring-a-0").await?.is_none(),
        "nobody else has seen it"
    );
    ensure!(bed.ledger().await?.known.is_empty());
    bed.lose("ring-a-0").await?;
    bed.until("empty", |s| s.members.first().is_some_and(|m| m.gate == "Empty"))
        .await?;
    bed.until("told that its data is lost", |s| {
        says(s, "StorageLost").is_some_and(|why| why.contains("nobody else holds its data: the ring is lost"))
    })
    .await?;
    sleep(Duration::from_secs(8)).await;
    let status = bed.status().await?;
    ensure!(status.members[0].gate == "Empty", "it was started: {status:#?}");
    ensure!(bed.record_line("ring-a-0").await?.is_none());
    let ready = status
        .conditions
        .iter()
        .find(|c| c.kind == "Ready")
        .context("no condition")?;
    ensure!(ready.status == "False", "{ready:?}");
    operator.stop().await?;
    bed.end().await
}

/// N19: a record is only print. Without it nothing starts, and it is printed again from the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn n19_a_record_that_is_deleted_is_printed_again_and_starts_nothing() -> Result<()> {
    let (bed, operator) = Bed::whole().await?;
    let (host, uid) = (bed.host_of("ring-b-0").await?, bed.uid("ring-b-0").await?);
    let name = "ring-b-0-autoreplacement-config";
    let was = bed.maps().get(name).await?;
    bed.maps().delete(name, &DeleteParams::default()).await?;
    let deadline = Instant::now() + Duration::from_mins(1);
    let is = loop {
        match bed.maps().get_opt(name).await? {
            Some(is) => break is,
            None => ensure!(Instant::now() < deadline, "it is not printed again"),
        }
        sleep(Duration::from_millis(200)).await;
    };
    ensure!(is.uid() != was.uid() && is.data == was.data, "{is:?}");
    ensure!(bed.host_of("ring-b-0").await? == host && bed.uid("ring-b-0").await? == uid);
    ensure!(bed.ledger().await?.work.is_none());
    operator.stop().await?;
    bed.end().await
}
