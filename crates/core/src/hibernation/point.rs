//! A restore point: what a target looked like before it went to sleep.
//!
//! The document is the one that users of hibernator know: `type`, `data`, `isLive`, `capturedAt`. Everything else is
//! additive. `data` has the state of each resource by its id; `resources` says of each whether it was captured live and
//! whether it is consumed. `hash` comes last and covers the text before it.

use super::hash;
use super::ids::{CycleId, ExecutorName, ResourceId, TargetName};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// One resource in a restore point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What is needed to bring it back.
    pub state: Value,
    /// It ran when it was captured, so it is started on waking. One that did not run stays as it is.
    pub live: bool,
    /// It was brought back; the entry has done its duty.
    pub consumed: bool,
    /// It was usable when it was captured. One that was not is started, and nobody waits until it is.
    pub settled: bool,
    /// In which ConfigMap it is kept. It never moves, so that two writes can never disagree about it.
    pub shard: Option<u16>,
}

/// The restore point of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Of which executor.
    pub executor: ExecutorName,
    /// Of which target.
    pub target: TargetName,
    /// In which cycle it was captured last; `None` in a document that knows no cycles.
    pub cycle: Option<CycleId>,
    /// And in which leg of it. A stop rests on a point that was written in its own leg: so an operator that does not know
    /// yet that the cycle has turned cannot call anything restored behind its back.
    pub leg: u32,
    /// When, as RFC 3339; for people.
    pub captured_at: String,
    /// Every resource.
    pub entries: BTreeMap<ResourceId, Entry>,
    /// The ConfigMaps that it was split into and that are not there. A point is written with them in mind: a part that
    /// is lost stays lost until it is put back or given up.
    pub missing: BTreeSet<u16>,
}

/// A restore point that cannot be used. It is never overwritten.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PointError {
    /// Not JSON, or not a restore point.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// Not as it was written.
    #[error("it was changed after it was written (its hash does not fit)")]
    Tampered,
    /// Of somebody else.
    #[error("it says it belongs to executor `{0}`")]
    Foreign(String),
    /// It does not fit.
    #[error("`{resource}` needs {bytes} bytes, and a ConfigMap holds {most}")]
    ResourceTooLarge {
        /// Which.
        resource: ResourceId,
        /// How much.
        bytes: usize,
        /// How much there is.
        most: usize,
    },
    /// All together do not fit.
    #[error("it needs more than {0} ConfigMaps: split the target, or let it select less")]
    TooLarge(u16),
}

impl Point {
    /// One without resources: a shutdown that found nothing is remembered, too.
    pub fn empty(executor: ExecutorName, target: TargetName) -> Self {
        Self {
            executor,
            target,
            cycle: None,
            leg: 0,
            captured_at: String::new(),
            entries: BTreeMap::new(),
            missing: BTreeSet::new(),
        }
    }

    /// Nothing of it is to be brought back any more.
    #[must_use]
    pub fn given_up(mut self) -> Self {
        self.entries.values_mut().for_each(|e| e.consumed = true);
        self.missing.clear();
        self
    }

    /// A part of it is not there.
    pub fn is_incomplete(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Something in it still has to be brought back.
    pub fn is_open(&self) -> bool {
        self.entries.values().any(|e| !e.consumed)
    }

    /// The seed's quality: captured from something that ran.
    pub fn is_live(&self) -> bool {
        self.entries.values().any(|e| e.live)
    }

    /// Written before there were resources in it.
    pub fn is_old(&self) -> bool {
        self.cycle.is_none() && self.entries.contains_key(&ResourceId::whole())
    }
}

#[derive(Serialize, Deserialize, Clone, Copy)]
struct Flags {
    live: bool,
    consumed: bool,
    /// Said only of those that were not.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    settled: bool,
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_yes(flag: &bool) -> bool {
    *flag
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    r#type: &'a ExecutorName,
    data: BTreeMap<&'a ResourceId, &'a Value>,
    is_live: bool,
    captured_at: &'a str,
    cycle: Option<CycleId>,
    leg: u32,
    consumed: bool,
    resources: BTreeMap<&'a ResourceId, Flags>,
    parts: &'a BTreeSet<u16>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    r#type: String,
    #[serde(default)]
    data: Value,
    is_live: Option<bool>,
    captured_at: Option<String>,
    cycle: Option<CycleId>,
    #[serde(default)]
    leg: u32,
    resources: Option<BTreeMap<ResourceId, Flags>>,
    #[serde(default)]
    parts: BTreeSet<u16>,
    hash: Option<String>,
}

/// What one ConfigMap says of a point.
pub(super) struct Part {
    pub(super) cycle: Option<CycleId>,
    pub(super) leg: u32,
    pub(super) captured_at: String,
    pub(super) entries: BTreeMap<ResourceId, Entry>,
    pub(super) parts: BTreeSet<u16>,
}

const HASH: &str = ",\"hash\":\"";

/// The document of those entries that are kept in this ConfigMap.
pub(super) fn render(point: &Point, shard: u16, parts: &BTreeSet<u16>) -> Result<String, PointError> {
    let mine = || point.entries.iter().filter(|(_, e)| e.shard == Some(shard));
    let written = Written {
        r#type: &point.executor,
        data: mine().map(|(id, e)| (id, &e.state)).collect(),
        is_live: mine().any(|(_, e)| e.live),
        captured_at: &point.captured_at,
        cycle: point.cycle,
        leg: point.leg,
        consumed: mine().all(|(_, e)| e.consumed),
        resources: mine()
            .map(|(id, e)| {
                let flags = Flags {
                    live: e.live,
                    consumed: e.consumed,
                    settled: e.settled,
                };
                (id, flags)
            })
            .collect(),
        parts,
    };
    let text = serde_json::to_string(&written).map_err(|e| PointError::Unreadable(e.to_string()))?;
    let body = text.strip_suffix('}').unwrap_or(&text);
    Ok(format!("{body}{HASH}{:032x}\"}}", hash::of(body)))
}

/// Reads what one ConfigMap says. `marked`: the target carries the seed's mark of a restored one.
pub(super) fn read(
    text: &str,
    executor: &ExecutorName,
    shard: u16,
    marked: bool,
) -> Result<Part, PointError> {
    let Read {
        r#type,
        data,
        is_live,
        captured_at,
        cycle,
        leg,
        resources,
        parts,
        hash: found,
    } = serde_json::from_str(text).map_err(|e| PointError::Unreadable(e.to_string()))?;
    if r#type != executor.as_str() {
        return Err(PointError::Foreign(r#type));
    }
    let Some(flags) = resources else {
        // The seed's own form. Without a quality it counts as good.
        let entry = Entry {
            state: data,
            live: is_live.unwrap_or(true),
            consumed: marked,
            settled: true,
            shard: Some(shard),
        };
        return Ok(Part {
            cycle: None,
            leg: 0,
            captured_at: captured_at.unwrap_or_default(),
            entries: [(ResourceId::whole(), entry)].into(),
            parts: [shard].into(),
        });
    };
    let body = text.rsplit_once(HASH).map_or(text, |(body, _)| body);
    if found != Some(format!("{:032x}", hash::of(body))) {
        return Err(PointError::Tampered);
    }
    let Value::Object(mut states) = data else {
        return Err(PointError::Unreadable("`data` has no resources".to_owned()));
    };
    let entries = flags.into_iter().map(|(id, flags)| {
        let Flags {
            live,
            consumed,
            settled,
        } = flags;
        let state = states
            .remove(id.as_str())
            .ok_or_else(|| PointError::Unreadable(format!("`data` has no `{id}`")))?;
        let entry = Entry {
            state,
            live,
            consumed,
            settled,
            shard: Some(shard),
        };
        Ok((id, entry))
    });
    Ok(Part {
        cycle,
        leg,
        captured_at: captured_at.unwrap_or_default(),
        entries: entries.collect::<Result<_, PointError>>()?,
        parts,
    })
}
