//! The seed's four scenarios of the hard reset, on real containers, and a diverged replica when MAIN is lost.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::look::{PATIENCE, until};
use super::nodes;
use super::place::Place;
use super::pods;
use super::undo::Undo;

/// As the seed's checklist asks.
const IN_A_ROW: u32 = 10;
const ASYNC: &str = "memgraph-ha-2";
const MARKER: &str = ".hard-reset-requested";
/// So long nobody touches what waits for a person.
const HANDS_OFF: Duration = Duration::from_secs(5);
/// Terms that a slow machine begins: MAIN was not heard for a while, or its partner had to be proven anew.
const BY_ITSELF: [&str; 4] = ["FAILOVER", "RE-PROMOTE", "ABANDON", "RENEW"];
/// The Event of a MAIN whose process is ended because its history, and not the replica, may be wrong.
const BLAMED: &str = "MainSuspect";

/// So long after the beginning of a term no ASYNC replica is reset.
fn quiet(place: &Place<'_>, long: &str) -> Result<()> {
    place.patch(&json!({ "spec": { "hardReset": { "quiet": long, "perHour": 60 } } }))
}

/// Resets may follow each other, and young terms: otherwise ten of them take hours.
pub(super) fn often(place: &Place<'_>) -> Result<()> {
    quiet(place, "1s")?;
    place.until_whole()
}

/// A young term, in which a diverged replica stays as it is for longer than it takes to lose MAIN.
pub(super) fn young_term(place: &Place<'_>) -> Result<()> {
    quiet(place, "1m")?;
    pods::kill_main(place)
}

pub(super) fn four_pods(place: &Place<'_>) -> Result<()> {
    often(place)?;
    place.patch(&json!({ "spec": { "replicas": 4 } }))?;
    until(PATIENCE, "fourth pod", || {
        let set = place.object(Place::DATABASES, &format!("sts/{}", Place::CLUSTER))?;
        Ok((set.pointer("/status/readyReplicas") == Some(&json!(4))).then_some(()))
    })?;
    place.until_whole()
}

/// The requests whose data is on this volume.
fn set_aside(volume: &Path) -> Vec<u64> {
    let entries = fs::read_dir(volume.join("quarantine"));
    let names = entries.into_iter().flatten().flatten();
    let mut ids: Vec<u64> = names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    ids.sort_unstable();
    ids
}

/// Lets a replica take a write of its own, as nobody but a fault would. An operator may demote it in between.
fn diverge(place: &Place<'_>, pod: &str) -> Result<()> {
    println!("{pod} diverges");
    until(PATIENCE, "diverged replica", || {
        let wrote = place.ask(pod, &["SET REPLICATION ROLE TO MAIN", "CREATE (:Stray)"]);
        // The operator may have been quicker.
        place
            .ask(pod, &["SET REPLICATION ROLE TO REPLICA WITH PORT 10000"])
            .ok();
        Ok(wrote.is_ok().then_some(()))
    })
}

/// The requests that the operator made so far.
fn asked(place: &Place<'_>) -> Result<Vec<(u64, String)>> {
    let cluster = place.cluster()?;
    let all = cluster.pointer("/status/resets").and_then(Value::as_array);
    let one = |reset: &Value| Some((reset["id"].as_u64()?, reset["pod"].as_str()?.to_owned()));
    Ok(all.into_iter().flatten().filter_map(one).collect())
}

/// A later pod is ready and has what MAIN has, and nothing of its own.
fn until_clean(place: &Place<'_>, pod: &str, before: &str) -> Result<()> {
    until(PATIENCE, "pod that was made anew", || {
        Ok(place.uid(pod).ok().filter(|now| now != before))
    })?;
    place.until_whole()?;
    until(PATIENCE, "clean replica", || {
        let level = place.count(pod, "Drill").is_ok_and(|drills| drills > 0);
        Ok((level && place.count(pod, "Stray").is_ok_and(|strays| strays == 0)).then_some(()))
    })
}

pub(super) fn happy_path(place: &Place<'_>) -> Result<()> {
    let volume = place.volume(ASYNC)?;
    for round in 1..=IN_A_ROW {
        let began = Instant::now();
        let (before, term) = (place.uid(ASYNC)?, place.term()?);
        let (last, blamed) = (set_aside(&volume).last().copied(), place.events(BLAMED)?);
        diverge(place, ASYNC)?;
        until_clean(place, ASYNC, &before)?;
        let new: Vec<u64> = set_aside(&volume)
            .into_iter()
            .filter(|id| Some(*id) > last)
            .collect();
        ensure!(!volume.join(MARKER).exists(), "the marker is still there");
        ensure!(
            place.events(BLAMED)?.is_subset(&blamed),
            "MAIN had to go for it: its process was ended"
        );
        let terms = place.terms_after(term)?;
        for one in &terms {
            let why = one["why"].as_str().unwrap_or_default();
            ensure!(BY_ITSELF.contains(&why), "MAIN had to go for it: {one}");
            println!("a term began, not because of the reset: {one}");
        }
        // A new term overrules a request, and the replica may be asked once more.
        let wanted = 1..=1 + terms.len();
        ensure!(wanted.contains(&new.len()), "one request, one wipe: {new:?}");
        println!(
            "happy path {round} of {IN_A_ROW}: {:.1} s",
            began.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

/// MAIN is lost while a replica is diverged that protects nothing: it must not be in the way.
pub(super) fn diverged_then_delete(place: &Place<'_>) -> Result<()> {
    let usual = Undo::by(|| quiet(place, "5s"));
    let (before, term) = (place.uid(ASYNC)?, place.term()?);
    diverge(place, ASYNC)?;
    pods::force_delete(place, &place.main_pod()?)?;
    place.until_serving_after(term, PATIENCE)?;
    until_clean(place, ASYNC, &before)?;
    usual.now()
}

pub(super) fn marker_persistence(place: &Place<'_>) -> Result<()> {
    let volume = place.volume(ASYNC)?;
    let node = place.node_of(Place::DATABASES, ASYNC)?;
    let (first, before) = (place.uid(ASYNC)?, set_aside(&volume));
    // No pod can start where its volume is: its init container cannot look.
    let nowhere = nodes::cordon(place, [node])?;
    diverge(place, ASYNC)?;
    let mut last = first.clone();
    for _ in 0..3 {
        last = until(PATIENCE, "pod that was made anew", || {
            Ok(place.uid(ASYNC).ok().filter(|now| *now != last))
        })?;
        sleep(Duration::from_secs(1));
        ensure!(volume.join(MARKER).exists(), "the marker waits");
        ensure!(set_aside(&volume) == before, "nobody wiped");
        if last != first {
            pods::force_delete(place, ASYNC)?;
        }
    }
    nowhere.now()?;
    until_clean(place, ASYNC, &last)?;
    ensure!(
        set_aside(&volume)
            .iter()
            .filter(|id| !before.contains(id))
            .count()
            == 1,
        "one request, one wipe: {:?}",
        set_aside(&volume)
    );
    ensure!(!volume.join(MARKER).exists(), "the marker is still there");
    Ok(())
}

pub(super) fn sync_protection(place: &Place<'_>) -> Result<()> {
    let sync = place.sync_pod()?;
    let volume = place.volume(&sync)?;
    let (before, had) = (place.uid(&sync)?, set_aside(&volume));
    // Behind the operators' back: they would demote it, and withdraw its protection, at once.
    let nobody = pods::no_operators(place)?;
    diverge(place, &sync)?;
    nobody.now()?;
    place.until(PATIENCE, "question to a person", |cluster| {
        let reasons = cluster.pointer("/status/reasons").cloned().unwrap_or_default();
        reasons.to_string().contains("MANUAL INTERVENTION REQUIRED")
    })?;
    let began = Instant::now();
    while began.elapsed() < HANDS_OFF {
        ensure!(
            place.uid(&sync)? == before && set_aside(&volume) == had,
            "nobody approved it"
        );
        sleep(Duration::from_millis(200));
    }
    place.mainstay(&["approve", &sync, "--dry-run"])?;
    ensure!(place.uid(&sync)? == before, "a dry run asks for nothing");
    place.mainstay(&["approve", &sync])?;
    until_clean(place, &sync, &before)?;
    let new = set_aside(&volume)
        .into_iter()
        .filter(|id| !had.contains(id))
        .count();
    ensure!(new == 1, "its data is kept");
    Ok(())
}

pub(super) fn multi_replica(place: &Place<'_>) -> Result<()> {
    let replicas = [ASYNC, "memgraph-ha-3"];
    let mut volumes = Vec::new();
    for pod in replicas {
        let volume = place.volume(pod)?;
        volumes.push((pod, place.uid(pod)?, set_aside(&volume).last().copied(), volume));
    }
    let before = asked(place)?;
    for pod in replicas {
        diverge(place, pod)?;
    }
    for (pod, uid, last, volume) in &volumes {
        until_clean(place, pod, uid)?;
        let new: Vec<u64> = set_aside(volume)
            .into_iter()
            .filter(|id| Some(*id) > *last)
            .collect();
        ensure!(new.len() == 1, "{pod}: one request, one wipe: {new:?}");
    }
    // The record has room for one request: two at once cannot be.
    let new: Vec<(u64, String)> = asked(place)?
        .into_iter()
        .filter(|one| !before.contains(one))
        .collect();
    let mut pods: Vec<&str> = new.iter().map(|(_, pod)| pod.as_str()).collect();
    pods.sort_unstable();
    ensure!(pods == replicas, "one request each: {new:?}");
    Ok(())
}
