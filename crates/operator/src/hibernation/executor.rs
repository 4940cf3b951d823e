//! Who stops and starts things. An executor looks, stops one resource and starts one resource; it decides nothing and
//! knows nothing of restore points. `docs/hibernation.md` says what it must keep to.

use super::clusters::Clusters;
use super::noop::Noop;
use super::settings::Settings;
use super::workloads::Workloads;
use crate::call::CallError;
use futures::future::BoxFuture;
use kube::Client;
use mainstay_core::hibernation::ids::{ExecutorName, PlanName, ResourceId};
use mainstay_core::hibernation::observed::{Look, Refusal, Resource, Severity};
use mainstay_core::hibernation::plan::Target;
use mainstay_core::hibernation::step::Aim;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Where a plan is, and who else is there.
#[derive(Clone)]
pub struct Place {
    /// How Kubernetes is asked.
    pub client: Client,
    /// Where the plan is.
    pub namespace: String,
    /// The plan.
    pub plan: PlanName,
    /// Other plans of the namespace that have a better right to what they select: older, then by name.
    pub before: Vec<Claims>,
    /// How long things take.
    pub settings: Arc<Settings>,
}

/// What another plan claims.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims {
    /// Which plan.
    pub plan: PlanName,
    /// Its targets.
    pub targets: Vec<Target>,
}

/// What an executor is asked to look at.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// Where.
    pub place: &'a Place,
    /// Which target.
    pub target: &'a Target,
    /// What its restore point names, with the recorded states: each is looked at, selected or not.
    pub recorded: &'a BTreeMap<ResourceId, Value>,
    /// Nothing else is asked for: it is time to wake up, and what the target would select by now must not matter, nor
    /// whether that can be found out.
    pub only_recorded: bool,
}

impl Ask<'_> {
    /// Is anything to be selected? A target that only a restore point knows has no parameters, not even empty ones:
    /// nothing is, also when nothing is left in its point. Empty ones select a whole namespace.
    pub fn selects(&self) -> bool {
        let stranger = self.target.parameters.is_null();
        !self.only_recorded && !stranger
    }
}

/// What an executor saw of a target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sight {
    /// What could be looked at.
    pub look: Look,
    /// What could not, although something else could.
    pub unseen: BTreeMap<ResourceId, Refusal>,
}

impl From<Look> for Sight {
    fn from(look: Look) -> Self {
        Self {
            look,
            unseen: BTreeMap::new(),
        }
    }
}

impl Sight {
    /// Takes note of what came of a look at one recorded resource. Only on waking it keeps nobody else asleep: whoever goes
    /// down must have seen all that is recorded.
    pub fn note(
        &mut self,
        ask: &Ask<'_>,
        id: &ResourceId,
        seen: Result<Resource, Refusal>,
    ) -> Result<(), Refusal> {
        match seen {
            Ok(resource) => {
                self.look.insert(id.clone(), resource);
            }
            Err(refusal) if ask.only_recorded => {
                self.unseen.insert(id.clone(), refusal);
            }
            Err(refusal) => return Err(refusal),
        }
        Ok(())
    }

    /// A refusal if nothing at all could be looked at.
    pub fn or_refusal(self) -> Result<Self, Refusal> {
        match self.unseen.values().next() {
            Some(refusal) if self.look.is_empty() => Err(refusal.clone()),
            Some(_) | None => Ok(self),
        }
    }
}

/// Kinds of which nobody answers for now. The others of such a kind are not asked for as well: each would be waited for as
/// long as the first.
#[derive(Debug, Default)]
pub(super) struct Silent(BTreeMap<String, Refusal>);

impl Silent {
    pub(super) fn of(&self, kind: &str) -> Option<Refusal> {
        self.0.get(kind).cloned()
    }

    pub(super) fn note(&mut self, kind: &str, seen: &Result<Resource, Refusal>) {
        if let Err(refusal) = seen
            && refusal.severity == Severity::Transient
        {
            self.0.insert(kind.to_owned(), refusal.clone());
        }
    }
}

/// Who stops and starts the resources of a target.
pub trait Executor: Send + Sync {
    /// Everything that the target selects or its restore point names. Reads only. A resource is gone only if whoever keeps
    /// it says so: an answer that does not speak of it is a refusal.
    fn observe<'a>(&'a self, ask: Ask<'a>) -> BoxFuture<'a, Result<Sight, Refusal>>;

    /// Stops one resource, if it is still in the version that was seen.
    fn stop<'a>(&'a self, place: &'a Place, aim: &'a Aim) -> BoxFuture<'a, Result<(), Refusal>>;

    /// Brings one resource back to this state, if it is still in the version that was seen, and leaves it in another
    /// version.
    fn start<'a>(
        &'a self,
        place: &'a Place,
        aim: &'a Aim,
        state: &'a Value,
    ) -> BoxFuture<'a, Result<(), Refusal>>;
}

/// Every executor, by the name that a target gives.
#[derive(Clone, Default)]
pub struct Executors(BTreeMap<String, Arc<dyn Executor>>);

impl fmt::Debug for Executors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Executors {
    /// Those that need nothing but the Kubernetes API.
    pub fn in_cluster() -> Self {
        Self::default()
            .with("workloads", Workloads)
            .with("memgraph", Clusters::MEMGRAPH)
            .with("ring", Clusters::RING)
            .with("noop", Noop)
    }

    /// One more.
    #[must_use]
    pub fn with(mut self, name: &str, executor: impl Executor + 'static) -> Self {
        self.0.insert(name.to_owned(), Arc::new(executor));
        self
    }

    /// The one of this name.
    pub fn get(&self, name: &ExecutorName) -> Result<Arc<dyn Executor>, Refusal> {
        let known = || self.0.keys().cloned().collect::<Vec<_>>().join(", ");
        let found = self.0.get(name.as_str()).map(Arc::clone);
        found.ok_or_else(|| permanent(format!("there is no executor `{name}`: there are {}", known())))
    }
}

/// Trying again without a change by a human is pointless.
pub fn permanent(message: impl Into<String>) -> Refusal {
    Refusal {
        message: message.into(),
        severity: Severity::Permanent,
    }
}

/// Refuses a restore point that was written before there were resources in it. What it says is only understood by
/// whoever wrote it.
pub fn refuse_whole(aim: &Aim) -> Result<(), Refusal> {
    if aim.resource == ResourceId::whole() {
        return Err(permanent("it names no resources"));
    }
    Ok(())
}

/// The resource is not the one that was looked at any more.
pub fn changed(message: impl Into<String>) -> Refusal {
    Refusal {
        message: message.into(),
        severity: Severity::Changed,
    }
}

/// What a call that did not do what it should is worth.
pub fn refusal(error: &CallError) -> Refusal {
    let severity = match error {
        CallError::NotFound | CallError::Conflict(_) => Severity::Changed,
        // Too slow, too many, or with a token that is being replaced: none of it says anything about the resource.
        CallError::Refused {
            code: 401 | 408 | 429,
            ..
        }
        | CallError::NoSuchPath(_)
        | CallError::Unknown(_) => Severity::Transient,
        CallError::Ending(_) | CallError::Refused { .. } => Severity::Permanent,
    };
    Refusal {
        message: error.to_string(),
        severity,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_refused_call_is_worth() {
        let refused = |code| CallError::Refused {
            code,
            message: String::new(),
        };
        for (error, severity) in [
            (CallError::NotFound, Severity::Changed),
            (CallError::Conflict(String::new()), Severity::Changed),
            (CallError::Unknown(String::new()), Severity::Transient),
            // A definition that is being replaced comes back.
            (CallError::NoSuchPath(String::new()), Severity::Transient),
            (refused(429), Severity::Transient),
            // A token that is being replaced is repaired without anybody who knows of the plan.
            (refused(401), Severity::Transient),
            (refused(403), Severity::Permanent),
            (CallError::Ending(String::new()), Severity::Permanent),
            (refused(422), Severity::Permanent),
        ] {
            assert_eq!(refusal(&error).severity, severity, "{error}");
        }
    }
}
