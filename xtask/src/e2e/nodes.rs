//! Faults of whole nodes: always MAIN's.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use super::look::{Node, PATIENCE, until};
use super::place::Place;
use super::undo::Undo;

/// So long a node is away at least.
const AWAY: Duration = Duration::from_secs(20);
/// And at most: whoever has not been replaced by then comes back, and the gap says so.
const LONGEST: Duration = Duration::from_secs(45);
/// So long nobody can take the place of an operator that was deleted.
const ALONE: Duration = Duration::from_secs(25);

/// No pod is scheduled on these nodes until this is undone.
pub(super) fn cordon<'a>(place: &'a Place<'_>, nodes: impl IntoIterator<Item = Node>) -> Result<Undo<'a>> {
    let names: Vec<String> = nodes.into_iter().map(|node| node.to_string()).collect();
    let all = names.clone();
    let undo = Undo::by(move || all.iter().try_for_each(|name| place.kubectl(&["uncordon", name])));
    for name in &names {
        place.kubectl(&["cordon", name])?;
    }
    Ok(undo)
}

/// The operator that leads is not on MAIN's node.
pub(super) fn leader_elsewhere(place: &Place<'_>) -> Result<()> {
    if leader_node(place)? == place.main_node()? {
        // Not both of them are there: they keep apart.
        place.kubectl(&["-n", Place::OPERATORS, "delete", "pod", &place.leader()?])?;
    }
    place.until_whole()?;
    ensure!(
        leader_node(place)? != place.main_node()?,
        "the leader stays on MAIN's node"
    );
    Ok(())
}

/// The operator that leads is on MAIN's node, and the other one is not.
pub(super) fn leader_beside_main(place: &Place<'_>) -> Result<()> {
    let main = place.main_node()?;
    if leader_node(place)? == main {
        return Ok(());
    }
    // Its successor can be scheduled beside MAIN alone; then the one that took over goes as well.
    let only_there = cordon(place, place.nodes().filter(|node| *node != main))?;
    let follower_is_there = follower(place)?
        .map(|pod| place.node_of(Place::OPERATORS, &pod))
        .transpose()?
        == Some(main);
    if !follower_is_there {
        place.kubectl(&["-n", Place::OPERATORS, "delete", "pod", &place.leader()?])?;
        place.until_whole()?;
    }
    only_there.now()?;
    if leader_node(place)? != main {
        place.kubectl(&["-n", Place::OPERATORS, "delete", "pod", &place.leader()?])?;
    }
    place.until_whole()?;
    ensure!(leader_node(place)? == main, "the leader is not on MAIN's node");
    Ok(())
}

fn leader_node(place: &Place<'_>) -> Result<Node> {
    place.node_of(Place::OPERATORS, &place.leader()?)
}

/// The operator that does not lead.
fn follower(place: &Place<'_>) -> Result<Option<String>> {
    let leader = place.leader()?;
    let pods = place.object(Place::OPERATORS, "pods")?;
    let names = pods
        .pointer("/items")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    Ok(names
        .filter_map(|pod| pod.pointer("/metadata/name")?.as_str())
        .find(|name| *name != leader)
        .map(str::to_owned))
}

/// Somebody else serves while the node is away; it comes back, and all is whole.
fn away(place: &Place<'_>, goes: &str, comes: &str) -> Result<()> {
    let (node, term) = (place.main_node()?, place.term()?);
    println!("on {node}: {}", place.pods_on(node)?.join(", "));
    let began = Instant::now();
    let back = Undo::by(|| place.node(comes, node));
    place.node(goes, node)?;
    let served = place.until_serving_after(term, LONGEST);
    sleep(AWAY.saturating_sub(began.elapsed()));
    back.now()?;
    if let Err(error) = served {
        println!("nobody else served while {node} was away: {error:#}");
    }
    place.until_whole()
}

pub(super) fn freeze(place: &Place<'_>) -> Result<()> {
    away(place, "freeze", "thaw")
}

pub(super) fn partition(place: &Place<'_>) -> Result<()> {
    away(place, "cut", "heal")
}

pub(super) fn power_cut(place: &Place<'_>) -> Result<()> {
    away(place, "off", "on")
}

pub(super) fn drain(place: &Place<'_>) -> Result<()> {
    let (main, node, term) = (place.main_pod()?, place.main_node()?, place.term()?);
    // A drain cordons first, and this one may be left by an error.
    let drained = cordon(place, [node])?;
    place.kubectl(&[
        "drain",
        &node.to_string(),
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--timeout=180s",
    ])?;
    place.until_serving_after(term, PATIENCE)?;
    // Its volume is on the node: its pod waits for it, and is the one that may be missing.
    until(PATIENCE, "pod that waits for its node", || {
        let pod = place.pod(&main)?;
        Ok((pod.pointer("/status/phase") == Some(&"Pending".into())).then_some(()))
    })?;
    let now = place.main_pod()?;
    ensure!(now != main, "MAIN is where it was");
    ensure!(!place.evict(&now)?, "the budget let MAIN go while {main} is away");
    println!("the budget keeps {now} while {main} is away");
    drained.now()?;
    place.until_whole()
}

/// The operator that leads is deleted, and the new one cannot start: the one that has only watched must lead.
pub(super) fn follower_leads(place: &Place<'_>) -> Result<()> {
    let leader = place.leader()?;
    let nowhere = cordon(place, place.nodes())?;
    let began = Instant::now();
    place.kubectl(&["-n", Place::OPERATORS, "delete", "pod", &leader, "--wait=false"])?;
    let next = until(ALONE, "operator that leads", || {
        let now = place.leader()?;
        Ok((!now.is_empty() && now != leader).then_some(now))
    })?;
    println!("{next} leads after {:.1} s", began.elapsed().as_secs_f64());
    place.until_protected()?;
    sleep(ALONE.saturating_sub(began.elapsed()));
    nowhere.now()?;
    place.until_whole()
}
