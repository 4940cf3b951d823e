//! Events: what was done and why, once each. What a quiet plan thinks is not news.

use super::Note;
use crate::call::bounded;
use crate::clock::draw;
use crate::hibernation::executor::Place;
use api::HibernatePlan as Object;
use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time as KubeTime};
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use mainstay_core::hibernation::plan::Drift;
use mainstay_core::hibernation::reason::Why;
use mainstay_core::hibernation::state::{Cycle, State};
use mainstay_core::time::Time;
use std::collections::VecDeque;

/// How many sentences are remembered at least, to say each once.
const REMEMBERED: usize = 64;

/// What was said lately.
#[derive(Debug, Default)]
pub(in crate::hibernation) struct Seen(VecDeque<String>);

/// Is it worth an Event, and is it a warning? Waiting and resting are not.
fn worth(why: &Why, open: Option<&Cycle>) -> Option<bool> {
    match why {
        Why::Awake { .. }
        | Why::AlreadyHibernated { .. }
        | Why::WaitForLook { .. }
        | Why::NotLooked { .. }
        | Why::WaitUntilDown { .. }
        | Why::WaitUntilUsable { .. }
        | Why::StillSuspended
        | Why::NothingToDo
        | Why::LeftAsItIs { .. }
        | Why::Failed { .. } => None,
        Why::Drifted { target, .. } => {
            let policy = open.and_then(|c| c.intent.target(target)).map(|t| t.drift);
            (policy == Some(Drift::Report)).then_some(true)
        }
        Why::LookFailed { .. }
        | Why::Unseen { .. }
        | Why::CallFailed { .. }
        | Why::GateTimedOut { .. }
        | Why::GivenUp { .. }
        | Why::PointTooLarge { .. }
        | Why::NoRestorePoint { .. }
        | Why::RestorePointIncomplete { .. }
        | Why::RestorePointCorrupt { .. }
        | Why::RestorePointOld { .. }
        | Why::Conflict { .. }
        | Why::Contended { .. }
        | Why::Enforced { .. }
        | Why::Partial { .. }
        | Why::Abandoned { .. }
        | Why::Blocked { .. }
        | Why::PointsStay { .. } => Some(true),
        _ => Some(false),
    }
}

impl Seen {
    /// Is it new? Cycle and leg are part of it: the same sentence in the next night is another one. A turn that says so
    /// many things must not have forgotten the first when the next turn says them again.
    fn is_new(&mut self, key: String, in_this_turn: usize) -> bool {
        if self.0.contains(&key) {
            return false;
        }
        self.0.push_back(key);
        let most = REMEMBERED.max(in_this_turn.saturating_mul(2));
        let surplus = self.0.len().saturating_sub(most);
        self.0.drain(..surplus);
        true
    }

    /// Says what is worth saying. What fails is not said.
    pub(in crate::hibernation) async fn tell(
        &mut self,
        place: &Place,
        object: &Object,
        state: Option<&State>,
        reasons: &[Why],
        notes: &[Note],
        error: Option<&str>,
    ) {
        let open = state.and_then(|s| s.open.as_ref());
        let leg = open.map_or_else(String::new, |c| format!("{}.{}", c.id.0, c.leg));
        let mut said: Vec<(bool, &str, String)> = reasons
            .iter()
            .filter_map(|why| Some((worth(why, open)?, why.id(), why.to_string())))
            .collect();
        said.extend(notes.iter().map(|note| (true, note.reason, note.text.clone())));
        said.extend(error.map(|error| (true, "TurnFailed", error.to_owned())));
        let api: Api<Event> = Api::namespaced(place.client.clone(), &place.namespace);
        let count = said.len();
        for (warning, reason, message) in said {
            if !self.is_new(format!("{leg} {reason} {message}"), count) {
                continue;
            }
            let event = event(object, place.settings.clock.now(), warning, reason, message);
            let params = PostParams::default();
            let call = bounded(place.settings.call, api.create(&params, &event));
            if let Err(error) = call.await {
                tracing::debug!(%error, "an Event was not written");
            }
        }
    }
}

fn event(object: &Object, now: Time, warning: bool, reason: &str, message: String) -> Event {
    let at = jiff::Timestamp::from_millisecond(i64::try_from(now.0).unwrap_or_default())
        .ok()
        .map(KubeTime);
    Event {
        metadata: ObjectMeta {
            name: Some(format!(
                "{}.{:012x}{:04x}",
                object.name_any(),
                now.0,
                draw() & 0xffff
            )),
            namespace: object.namespace(),
            ..ObjectMeta::default()
        },
        involved_object: object.object_ref(&()),
        type_: Some(if warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        first_timestamp: at.clone(),
        last_timestamp: at,
        count: Some(1),
        source: Some(EventSource {
            component: Some("mainstay-operator".to_owned()),
            host: None,
        }),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_says_much_says_it_once() {
        let mut seen = Seen::default();
        let many = 5 * REMEMBERED;
        let turn = |seen: &mut Seen| {
            let all = (0..many).filter(|n| seen.is_new(format!("sentence {n}"), many));
            all.count()
        };
        assert_eq!((turn(&mut seen), turn(&mut seen), turn(&mut seen)), (many, 0, 0));
        // What is not said any more is forgotten.
        for n in 0..REMEMBERED {
            assert!(seen.is_new(format!("other {n}"), 1));
        }
        assert_eq!(seen.0.len(), REMEMBERED);
    }
}
