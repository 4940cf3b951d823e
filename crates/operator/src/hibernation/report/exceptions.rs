//! The status of the exceptions to a plan: does each count now?

use super::Note;
use crate::call::bounded;
use crate::hibernation::executor::Place;
use api::ScheduleException;
use api::hibernation::{BadPlan, ExceptionState, ScheduleExceptionStatus, read_exception};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use mainstay_core::schedule::Exception;
use mainstay_core::time::Time;
use serde_json::json;

fn status(object: &ScheduleException, bad: &[(String, BadPlan)], now: Time) -> ScheduleExceptionStatus {
    let problem = bad.iter().find(|(name, _)| *name == object.name_any());
    let (state, message) = match (read_exception(object), problem) {
        (Err(bad), _) => (ExceptionState::Invalid, bad.to_string()),
        // What is over needs no repair.
        (Ok(exception), Some((_, bad))) if !is_over(&exception, now) => {
            let (state, message) = state(&exception, now);
            (state, format!("{message}; {bad}"))
        }
        (Ok(exception), _) => state(&exception, now),
    };
    ScheduleExceptionStatus {
        state: Some(state),
        message,
    }
}

fn is_over(exception: &Exception, now: Time) -> bool {
    exception.valid().to <= now
}

/// What a plan has to say of its exceptions that cannot be followed, except for those that are over.
pub(in crate::hibernation) fn unfollowed(
    all: &[ScheduleException],
    bad: &[(String, BadPlan)],
    now: Time,
) -> Vec<Note> {
    let over = |name: &String| {
        let object = all.iter().find(|object| object.name_any() == *name);
        let read = object.and_then(|object| read_exception(object).ok());
        read.is_some_and(|exception| is_over(&exception, now))
    };
    let left = bad.iter().filter(|(name, _)| !over(name));
    left.map(|(_, bad)| Note {
        reason: "ExceptionInvalid",
        text: bad.to_string(),
    })
    .collect()
}

fn state(exception: &Exception, now: Time) -> (ExceptionState, String) {
    let valid = exception.valid();
    if now < valid.from {
        (ExceptionState::Pending, "it does not count yet".to_owned())
    } else if valid.has(now) {
        (ExceptionState::Active, "it counts now".to_owned())
    } else {
        (ExceptionState::Expired, "it does not count any more".to_owned())
    }
}

/// Writes those that changed.
pub(in crate::hibernation) async fn tell_exceptions(
    place: &Place,
    all: &[ScheduleException],
    bad: &[(String, BadPlan)],
    now: Time,
) {
    let api: Api<ScheduleException> = Api::namespaced(place.client.clone(), &place.namespace);
    for object in all {
        let next = status(object, bad, now);
        if object.status.as_ref() == Some(&next) {
            continue;
        }
        let patch = Patch::Merge(json!({ "status": next }));
        let (name, params) = (object.name_any(), PatchParams::default());
        let call = bounded(place.settings.call, api.patch_status(&name, &params, &patch));
        let tap = &place.settings.tap;
        if let Err(error) = tap.around("write an exception's status", call).await {
            tracing::info!(%error, "the status of an exception was not written");
        }
    }
}

/// When the next of them begins or ends to count.
pub(in crate::hibernation) fn next_change(all: &[ScheduleException], now: Time) -> Option<Time> {
    let valid = all.iter().filter_map(|object| read_exception(object).ok());
    let edges = valid.flat_map(|e| [e.valid().from, e.valid().to]);
    edges.filter(|at| *at > now).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn an_exception_with_a_problem_says_so_while_it_counts_and_not_when_it_is_over() {
        let spec: Value = json!({
            "planRef": { "name": "p" }, "type": "extend", "targets": [{ "name": "gone", "disabled": true }],
            "validFrom": "1970-01-01T00:00:10Z", "validUntil": "1970-01-01T00:00:20Z",
        });
        let object: ScheduleException = serde_json::from_value(json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "ScheduleException",
            "metadata": { "name": "x" }, "spec": spec,
        }))
        .unwrap();
        let plan: api::hibernation::HibernatePlanSpec = serde_json::from_value(json!({
            "schedule": { "timezone": "UTC", "intervals": [{ "from": "FRI 20:00", "to": "MON 06:00" }] },
            "targets": [{ "name": "web", "executor": "noop" }],
        }))
        .unwrap();
        let all = [object];
        let bad = api::hibernation::bad_exceptions(&plan, &all);
        for (at, state, told) in [
            (Time(0), ExceptionState::Pending, true),
            (Time(15_000), ExceptionState::Active, true),
            (Time(20_000), ExceptionState::Expired, false),
        ] {
            let [object] = &all;
            let status = status(object, &bad, at);
            assert_eq!(status.state, Some(state));
            assert_eq!(status.message.contains("`gone`"), told, "{}", status.message);
            assert_eq!(unfollowed(&all, &bad, at).len(), usize::from(told));
        }
    }
}
