//! N23: pods that have no gate, because they were made before there was one.

use super::bed::{Bed, Kind, NAME, is_whole};
use super::looks::{LONG_ENOUGH, gate, uid};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::EnvVar;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use operator::tap::Tap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const MEMBER: &str = "ring-b-0";

/// Makes the pods of a whole ring anew without a gate, and removes what only an operator with gates writes. The database
/// is started at once, with the arguments that the gate would have given it.
async fn without_gates(bed: &Bed) -> Result<()> {
    let mut seeds = Vec::new();
    for member in &bed.members {
        seeds.push(bed.address(member).await?);
    }
    let sets: Api<StatefulSet> = Api::default_namespaced(bed.client.clone());
    for (member, own) in bed.members.iter().zip(&seeds) {
        let name = member.trim_end_matches("-0");
        let mut set = sets.get(name).await?;
        let pod = set
            .spec
            .as_mut()
            .and_then(|s| s.template.spec.as_mut())
            .context("no pod")?;
        pod.init_containers = None;
        let container = &mut pod.containers[0];
        let args = container.args.take().unwrap_or_default();
        let after = args.iter().position(|word| word == "--").context("no gate")?;
        let mut database = args.into_iter().skip(after + 1);
        container.command = Some(database.by_ref().take(1).collect());
        // Where it lives, as its image would have it.
        let rack = name.trim_start_matches("ring-");
        let conf = bed.folder.join(format!("conf-{rack}"));
        std::fs::create_dir_all(&conf)?;
        std::fs::write(
            conf.join("cassandra-rackdc.properties"),
            format!("dc=dc1\nrack={rack}\n"),
        )?;
        container.env.get_or_insert_default().push(EnvVar {
            name: "SCYLLA_CONF".to_owned(),
            value: Some(conf.display().to_string()),
            ..EnvVar::default()
        });
        let of_this_start = [
            "--endpoint-snitch=GossipingPropertyFileSnitch".to_owned(),
            format!("--broadcast-address={own}"),
            format!("--seed-provider-parameters=seeds={}", seeds.join(",")),
        ];
        container.args = Some(database.chain(of_this_start).collect());
        set.status = None;
        // Made by an older operator, from something else: this one writes its own template, and deletes no pod for it.
        set.annotations_mut()
            .insert("mainstay.dev/applied".to_owned(), "older".to_owned());
        sets.replace(name, &PostParams::default(), &set).await?;
    }
    for member in &bed.members {
        let old = bed.uid(member).await?;
        bed.pods()
            .delete(member, &DeleteParams::default().grace_period(1))
            .await?;
        until_ready(bed, member, &old).await?;
        ensure!(!bed.command_line(member)?.contains("ring-gate"));
        let record = format!("{member}-autoreplacement-config");
        bed.maps().delete(&record, &DeleteParams::default()).await?;
    }
    bed.maps()
        .delete(&format!("{NAME}-ring"), &DeleteParams::default())
        .await?;
    Ok(())
}

/// Waits for another pod than the old one, whose database runs.
async fn until_ready(bed: &Bed, member: &str, old: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let pod = bed
            .pods()
            .get_opt(member)
            .await?
            .filter(|p| p.uid().is_some_and(|u| u != old));
        let containers = pod.and_then(|p| p.status?.container_statuses).unwrap_or_default();
        if containers.iter().any(|c| c.ready) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "{member} is not made anew: {containers:?}"
        );
        sleep(Duration::from_millis(100)).await;
    }
}

/// Records are written, and nothing else is done: that a disk is lost is said by a gate, or by nobody. A human who knows
/// it labels the member (`docs/ring.md`), and it is replaced in a pod that has a gate.
#[tokio::test(flavor = "multi_thread")]
async fn n23_pods_without_a_gate_get_records_and_a_loss_is_for_the_label_of_a_human() -> Result<()> {
    let (bed, operator) = Bed::whole_of(Kind {
        scale: 8,
        ..Kind::PAIR
    })
    .await?;
    operator.stop().await?;
    let old = bed.host_of(MEMBER).await?;
    without_gates(&bed).await?;
    let operator = bed.operator(Tap::default()).await?;
    let seen = bed
        .until("on record without gates", |s| {
            is_whole(s, 2) && bed.members.iter().all(|m| gate(s, m) == "Silent")
        })
        .await?;
    ensure!(seen.replacements.is_empty());
    for member in &bed.members {
        bed.until_recorded(member, &bed.host_of(member).await?).await?;
    }
    ensure!(bed.host_of(MEMBER).await? == old);

    let (pod, claim) = (bed.uid(MEMBER).await?, uid(&bed.claim_of(MEMBER).await?)?);
    bed.nodes.wipe("default", &format!("data-{MEMBER}"))?;
    bed.nodes.kill(&Bed::party(MEMBER), None)?;
    let deadline = Instant::now() + Duration::from_mins(1);
    while !bed
        .log(MEMBER)
        .await
        .is_ok_and(|log| log.contains("already exists, cancelling join"))
    {
        ensure!(Instant::now() < deadline, "{:?}", bed.log(MEMBER).await);
        sleep(Duration::from_millis(100)).await;
    }
    let until = Instant::now() + LONG_ENOUGH;
    while Instant::now() < until {
        let ledger = bed.ledger().await?;
        ensure!(
            ledger.work.is_none() && ledger.grants.0 == 0,
            "{}",
            ledger.headline()
        );
        sleep(Duration::from_millis(200)).await;
    }
    ensure!(bed.uid(MEMBER).await? == pod && uid(&bed.claim_of(MEMBER).await?)? == claim);

    bed.label(MEMBER).await?;
    bed.until("at work", |s| s.work.contains("by label")).await?;
    bed.until("whole again", |s| is_whole(s, 2)).await?;
    bed.is_replaced(MEMBER, &old).await?;
    ensure!(bed.ledger().await?.grants.0 == 1, "{:?}", bed.ledger().await?);
    ensure!(gate(&bed.status().await?, MEMBER) == "StartedByPermission");
    ensure!(!bed.labels(MEMBER).await?.contains(&"scylla/replace".to_owned()));
    operator.stop().await?;
    bed.end().await
}
