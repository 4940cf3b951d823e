//! The operator dies before and after every call that changes something, one after the other, and the next one goes
//! on: each time the cluster ends serving and protected, and nothing acknowledged is lost.
//!
//! The cluster has all that the operator talks to: two gateways, which are pushed to and confirm, a third pod, which is
//! ASYNC, and statements for a new MAIN. Somebody writes through a gateway all the time, and what was acknowledged is
//! looked for when the cluster is whole again.
//!
//! A step that makes several calls is left between them too: each statement, the push to each gateway, the delete after a
//! look at the pod, the look after a refusal. What a step reads before its first call is no place of its own: to die
//! there is to die before the step. The lease is none either: it is renewed by the clock, beside everything else, and
//! whoever dies around it leaves a lease that expires, which `core::lease` is tested for without a clock.
//!
//! To die while writes are held for a replica costs half a minute: they are not held again so soon. All places take half
//! an hour. The normal run tries one in [`EVERY`], each test begins elsewhere;
//! `MAINSTAY_KILLS=all cargo test -p sandbox --test operator -- kills:: --nocapture` tries all and prints them.

use crate::bed::{Bed, NAME};
use crate::ledger::{self, Ledger};
use crate::trap::Trap;
use anyhow::{Context, Result, ensure};
use gateway::Gateway;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::record::State;
use serde_json::json;
use std::time::{Duration, Instant};

/// One in so many places is tried with every change. An odd number: places before and after a call take turns.
const EVERY: usize = 17;

/// The pod outside the pair.
const THIRD: u8 = 2;

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

/// A cluster with all that an operator talks to, and somebody who writes.
struct World {
    bed: Bed,
    gateways: [Gateway; 2],
    ledger: Ledger,
}

impl World {
    /// It is declared, and nobody looks after it yet.
    async fn new() -> Result<Self> {
        let bed = Bed::new().await?;
        let gateways = [bed.gateway("one").await?, bed.gateway("two").await?];
        let [first, _] = &gateways;
        let ledger = Ledger::through(first.bolt());
        bed.create_with(json!({
            "replicas": 3,
            "gateway": { "enabled": true, "replicas": 1 },
            "onPromotion": ["MERGE (:Promoted)", "MERGE (:PromotedToo)"],
        }))
        .await?;
        Ok(Self {
            bed,
            gateways,
            ledger,
        })
    }

    /// It is whole, and nobody looks after it any more.
    async fn whole() -> Result<(Self, Record)> {
        let world = Self::new().await?;
        let operator = world.bed.operator().await?;
        let record = world.until_whole("whole", |_| true).await?;
        operator.stop().await?;
        Ok((world, record))
    }

    /// Serving, protected, followed by the third pod, and this too.
    async fn until_whole(&self, what: &str, too: impl Fn(&Record) -> bool) -> Result<Record> {
        let record = self.bed.until(what, |r| whole(r) && too(r)).await?;
        // What is written from now on comes to the third pod only if it is registered.
        self.ledger.until_one_more().await?;
        let acknowledged = self.ledger.acknowledged();
        ledger::until_found(&self.bed, THIRD, &acknowledged).await?;
        Ok(record)
    }

    /// Everything that was acknowledged is there, on MAIN and on who protects it.
    async fn has_lost_nothing(&self, record: &Record) -> Result<()> {
        let main = record.main.as_ref().context("no MAIN")?.pod;
        let sync = record.sync.as_ref().context("not protected")?.pod;
        let acknowledged = self.ledger.acknowledged();
        let found = ledger::found(&self.bed, main.0).await?;
        let lost: Vec<&i64> = acknowledged.difference(&found).collect();
        ensure!(lost.is_empty(), "lost: {lost:?}");
        ledger::until_found(&self.bed, sync.0, &acknowledged).await
    }

    async fn end(self) -> Result<()> {
        let Self {
            bed,
            gateways,
            ledger,
        } = self;
        drop(ledger);
        drop(gateways);
        bed.end().await
    }
}

fn whole(record: &Record) -> bool {
    record.state == State::Serving && record.sync.is_some() && record.candidate.is_none()
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

/// What came of an operator that was to die.
enum Died {
    /// It did, here.
    At(String),
    /// It was done before. These places it passed.
    Not(Vec<String>),
}

/// Runs an operator that dies at the place of this number, then one that does not; until it is whole, and `too`.
async fn die_at(
    world: &World,
    number: usize,
    too: impl Fn(&Record) -> bool + Copy,
) -> Result<(Died, Record)> {
    let trap = Trap::at(number);
    let began = Instant::now();
    let doomed = world.bed.operator_with(trap.tap()).await?;
    let reached = tokio::select! {
        () = trap.sprung.notified() => true,
        ended = world.until_whole("done", too) => {
            ended?;
            // What follows the last write of the record is a status or an Event; it may still spring.
            tokio::time::timeout(Duration::from_millis(600), trap.sprung.notified()).await.is_ok()
        }
    };
    doomed.kill().await;
    free_lease(&world.bed).await?;
    let place = trap.place();
    let what = place.as_deref().unwrap_or("done");
    let next = world.bed.operator().await?;
    let record = world.until_whole(what, too).await.context(what.to_owned())?;
    next.stop().await?;
    world.has_lost_nothing(&record).await.context(what.to_owned())?;
    ensure!(reached == place.is_some());
    eprintln!("{number}: {what}, whole after {:?}", began.elapsed());
    let died = place.map_or_else(|| Died::Not(trap.places()), Died::At);
    Ok((died, record))
}

/// Where operators died, and where they could have.
#[derive(Default)]
struct Tally {
    died: Vec<String>,
    passed: Vec<String>,
}

impl Tally {
    /// Is this the end of it?
    fn note(&mut self, died: Died) -> bool {
        match died {
            Died::At(place) => self.died.push(place),
            Died::Not(passed) => self.passed = passed,
        }
        !self.passed.is_empty()
    }

    /// So many places there are at least, these among them; of which one in [`EVERY`] is tried, unless all are.
    fn enough(&self, what: &str, least: usize, among: &[&str]) -> Result<()> {
        let Self { died, passed } = self;
        eprintln!(
            "{what}: died at {} of {} places: {died:#?}",
            died.len(),
            passed.len()
        );
        ensure!(passed.len() >= least, "only {} places: {passed:#?}", passed.len());
        let tried = if all() { least } else { least / EVERY };
        ensure!(died.len() >= tried, "only {} were tried", died.len());
        for part in among {
            let met = passed.iter().any(|place| place.contains(part));
            ensure!(met, "`{part}` is no place: {passed:#?}");
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_die_anywhere_in_a_bootstrap() -> Result<()> {
    let mut tally = Tally::default();
    for number in numbers(2) {
        let world = World::new().await?;
        let (died, _) = die_at(&world, number, |_| true).await?;
        world.end().await?;
        if tally.note(died) {
            break;
        }
    }
    let among = [
        "create Secret",
        "create Deployment",
        "create record",
        "push to memgraph-ha-gw-two",
        "statement 2 of 2",
        "STRICT_SYNC",
        "memgraph_ha_2 ASYNC",
    ];
    tally.enough("bootstrap", 80, &among)
}

/// Loses MAIN, and becomes whole again with the lost pod as its replica, while the operator dies on the way.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_die_anywhere_in_a_failover_and_the_rejoin_after_it() -> Result<()> {
    let (world, mut record) = World::whole().await?;
    let mut tally = Tally::default();
    for number in numbers(4) {
        let main = record.main.as_ref().context("no MAIN")?.pod;
        let before = record.term;
        let still = world.ledger.between_writes().await;
        world.bed.nodes.kill(&Bed::party(main.0), None)?;
        drop(still);
        let (died, now) = die_at(&world, number, |r| r.term > before).await?;
        record = now;
        if tally.note(died) {
            break;
        }
    }
    let among = [
        "push to memgraph-ha-gw-two",
        "is fenced",
        "SET REPLICATION ROLE TO MAIN",
        "statement 2 of 2",
        "STRICT_SYNC",
        "memgraph_ha_2 ASYNC",
    ];
    tally.enough("failover and rejoin", 60, &among)?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_die_anywhere_in_a_switchover() -> Result<()> {
    let (world, mut record) = World::whole().await?;
    let mut tally = Tally::default();
    for number in numbers(6) {
        let main = record.main.as_ref().context("no MAIN")?.pod;
        let to = main.partner().context("no partner")?;
        wish(&world.bed, Some(to)).await?;
        let moved = |r: &Record| r.main.as_ref().is_some_and(|m| m.pod == to);
        let (died, now) = die_at(&world, number, moved).await?;
        wish(&world.bed, None).await?;
        record = now;
        if tally.note(died) {
            break;
        }
    }
    let among = [
        "push to memgraph-ha-gw-two",
        "every gateway confirmed",
        "SET REPLICATION ROLE TO REPLICA",
        "SET REPLICATION ROLE TO MAIN",
        "statement 2 of 2",
        "STRICT_SYNC",
        "memgraph_ha_2 ASYNC",
    ];
    tally.enough("switchover", 60, &among)?;
    world.end().await
}

async fn wish(bed: &Bed, to: Option<Ordinal>) -> Result<()> {
    let to = to.map(|to| to.0.to_string());
    let patch = json!({ "metadata": { "annotations": { "mainstay.dev/switchover-to": to } } });
    bed.clusters()
        .patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}
