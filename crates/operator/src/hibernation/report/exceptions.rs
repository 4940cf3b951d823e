//! The status of the exceptions to a plan: does each count now?

use crate::call::bounded;
use crate::hibernation::executor::Place;
use api::ScheduleException;
use api::hibernation::{ExceptionState, ScheduleExceptionStatus, read_exception};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use mainstay_core::schedule::Exception;
use mainstay_core::time::Time;
use serde_json::json;

fn status(object: &ScheduleException, now: Time) -> ScheduleExceptionStatus {
    let (state, message) = match read_exception(object) {
        Err(bad) => (ExceptionState::Invalid, bad.to_string()),
        Ok(exception) => state(&exception, now),
    };
    ScheduleExceptionStatus {
        state: Some(state),
        message,
    }
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
pub(in crate::hibernation) async fn tell_exceptions(place: &Place, all: &[ScheduleException], now: Time) {
    let api: Api<ScheduleException> = Api::namespaced(place.client.clone(), &place.namespace);
    for object in all {
        let next = status(object, now);
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
