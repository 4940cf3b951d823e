//! The operator dies before and after every call that changes something, one after the other, and the next one goes
//! on: each time the cluster ends serving and protected, and nothing acknowledged is lost.
//!
//! The lease is no such place: it is renewed by the clock, beside everything else, and whoever dies around it leaves a
//! lease that expires, which `core::lease` is tested for without a clock.
//!
//! All places take a quarter of an hour. The normal run tries every seventh, each test begins elsewhere;
//! `MAINSTAY_KILLS=all cargo test -p sandbox --test operator -- kills:: --nocapture` tries all and prints them.

use crate::bed::{Bed, NAME};
use crate::trap::Trap;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::record::State;
use serde_json::json;
use std::time::Duration;

/// One in so many places is tried with every change. An odd number: places before and after a call take turns.
const EVERY: usize = 7;

/// The numbers of the places at which to die, beginning with this one.
fn numbers(first: usize) -> std::iter::StepBy<std::ops::RangeFrom<usize>> {
    if all() {
        (1..).step_by(1)
    } else {
        (first..).step_by(EVERY)
    }
}

fn all() -> bool {
    std::env::var_os("MAINSTAY_KILLS").is_some_and(|which| which == "all")
}

/// So many places there are at least; of which one in [`EVERY`] is tried, unless all are.
fn enough(what: &str, places: &[String], least: usize) -> Result<()> {
    eprintln!("{what}: died at {} places: {places:#?}", places.len());
    let least = if all() { least } else { least / EVERY };
    ensure!(places.len() >= least, "only {} places", places.len());
    Ok(())
}

/// Whoever held the lease is dead, and this test knows it: nobody has to wait until it expires.
async fn free_lease(bed: &Bed) -> Result<()> {
    let leases: Api<Lease> = Api::default_namespaced(bed.client.clone());
    if leases.get_opt("mainstay-operator").await?.is_some() {
        let patch = Patch::Merge(json!({ "spec": { "holderIdentity": null } }));
        leases
            .patch("mainstay-operator", &PatchParams::default(), &patch)
            .await?;
    }
    Ok(())
}

/// Runs an operator that dies at the place of this number, then one that does not; until `done`. Which place it was,
/// or `None` if it was done before.
async fn die_at(bed: &Bed, number: usize, done: impl Fn(&Record) -> bool + Copy) -> Result<Option<String>> {
    let trap = Trap::at(number);
    let doomed = bed.operator_with(trap.tap()).await?;
    let reached = tokio::select! {
        () = trap.sprung.notified() => true,
        ended = bed.until("done", done) => {
            ended?;
            // What follows the last write of the record is a status or an Event; it may still spring.
            tokio::time::timeout(Duration::from_millis(600), trap.sprung.notified()).await.is_ok()
        }
    };
    doomed.kill().await;
    free_lease(bed).await?;
    let place = trap.place();
    let next = bed.operator().await?;
    bed.until(place.as_deref().unwrap_or("done"), done).await?;
    next.stop().await?;
    ensure!(reached == place.is_some());
    Ok(place)
}

fn whole(record: &Record) -> bool {
    record.state == State::Serving && record.sync.is_some() && record.candidate.is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_die_anywhere_in_a_bootstrap() -> Result<()> {
    let mut places = Vec::new();
    for number in numbers(2) {
        let bed = Bed::new().await?;
        bed.create(2).await?;
        let place = die_at(&bed, number, whole).await?;
        bed.end().await?;
        match place {
            Some(place) => places.push(place),
            None => break,
        }
    }
    enough("bootstrap", &places, 50)
}

/// Loses MAIN, and becomes whole again with the lost pod as its replica, while the operator dies on the way.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_die_anywhere_in_a_failover_and_the_rejoin_after_it() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    let mut main = bed.until("whole", whole).await?.main.context("no MAIN")?.pod;
    operator.stop().await?;
    let mut places = Vec::new();
    for number in numbers(4) {
        let written = bed.write(main.0, "Written").await?;
        let before = bed.record().await?.context("no record")?.term;
        bed.nodes.kill(&Bed::party(main.0), None)?;
        let moved = move |r: &Record| whole(r) && r.term > before;
        let place = die_at(&bed, number, moved).await?;
        main = bed.record().await?.and_then(|r| r.main).context("no MAIN")?.pod;
        ensure!(
            bed.count(main.0, "Written").await? == written,
            "lost after {place:?}"
        );
        match place {
            Some(place) => places.push(place),
            None => break,
        }
    }
    enough("failover and rejoin", &places, 40)?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_die_anywhere_in_a_switchover() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    let mut main = bed.until("whole", whole).await?.main.context("no MAIN")?.pod;
    operator.stop().await?;
    let mut places = Vec::new();
    for number in numbers(6) {
        let written = bed.write(main.0, "Written").await?;
        let to = main.partner().context("no partner")?;
        wish(&bed, Some(to)).await?;
        let moved = move |r: &Record| whole(r) && r.main.as_ref().is_some_and(|m| m.pod == to);
        let place = die_at(&bed, number, moved).await?;
        wish(&bed, None).await?;
        main = to;
        ensure!(
            bed.count(main.0, "Written").await? == written,
            "lost after {place:?}"
        );
        match place {
            Some(place) => places.push(place),
            None => break,
        }
    }
    enough("switchover", &places, 36)?;
    bed.end().await
}

async fn wish(bed: &Bed, to: Option<Ordinal>) -> Result<()> {
    let to = to.map(|to| to.0.to_string());
    let patch = json!({ "metadata": { "annotations": { "mainstay.dev/switchover-to": to } } });
    bed.clusters()
        .patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}
