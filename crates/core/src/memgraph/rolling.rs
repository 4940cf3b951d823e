//! The pods' template changed: which pod is made anew next?
//!
//! ASYNC pods first, then the protected one, then MAIN's office moves, once, and the old MAIN is the last. Each only
//! while everybody else is well and MAIN is protected. The StatefulSet's own rolling update knows ordinals and no
//! offices: it would restart MAIN in the middle, and each pod as soon as the last one has opened its port.

use super::ids::{Ordinal, PodUid};
use super::observed::{Observed, Registration, Status};
use super::record::{Main, Record, State, Writes};
use super::reset;
use super::view::View;
use crate::time::Time;
use std::fmt;

/// What a planned restart needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rolling {
    /// Delete this pod; it is made anew from the new template.
    Restart {
        /// Which.
        pod: Ordinal,
        /// Its uid.
        uid: PodUid,
    },
    /// Only MAIN is left: its office moves first.
    Move {
        /// To this pod.
        to: Ordinal,
    },
    /// Not now.
    Wait(NotNow),
}

/// What a planned restart waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotNow {
    /// A human paused the operator, or asked for something else.
    Asked,
    /// MAIN does not serve, is not protected, or something is under way.
    Unprotected,
    /// This pod is not back, or has not caught up.
    Away(Ordinal),
}

impl fmt::Display for NotNow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("something else was asked for"),
            Self::Unprotected => f.write_str("MAIN is not protected"),
            Self::Away(pod) => write!(f, "{pod} is not back"),
        }
    }
}

/// The next pod of those that were made from an older template; `None` if there is none of them.
pub fn next(record: Option<&Record>, seen: &Observed, now: Time, outdated: &[Ordinal]) -> Option<Rolling> {
    if outdated.is_empty() {
        return None;
    }
    let paused = seen.wishes.paused_until.is_some_and(|until| now < until);
    if paused || seen.wishes.hibernated {
        return Some(Rolling::Wait(NotNow::Asked));
    }
    // Nothing runs in it, so nothing is lost; and if the old template is what keeps it from running, nobody else
    // would ever replace it.
    if let Some(dead) = outdated.iter().find_map(|pod| restart_dead(seen, *pod)) {
        return Some(dead);
    }
    Some(match record {
        Some(record) => in_order(&View { record, seen, now }, outdated),
        None => Rolling::Wait(NotNow::Unprotected),
    })
}

fn restart_dead(seen: &Observed, pod: Ordinal) -> Option<Rolling> {
    let object = seen.object(pod)?;
    let dead = object.running.is_none() && !object.ready && !object.terminating;
    dead.then_some(Rolling::Restart { pod, uid: object.uid })
}

fn in_order(view: &View<'_>, outdated: &[Ordinal]) -> Rolling {
    let main = match quiet(view) {
        Ok(main) => main,
        Err(why) => return Rolling::Wait(why),
    };
    let others = outdated.iter().copied().filter(|pod| *pod != main.pod);
    // The protected pod is the last of them: while it restarts writes wait.
    let last = others.max_by_key(|pod| (!pod.is_authority(), *pod));
    match last {
        Some(pod) => match view.seen.object(pod) {
            Some(object) => Rolling::Restart { pod, uid: object.uid },
            None => Rolling::Wait(NotNow::Away(pod)),
        },
        // A human keeps MAIN where it is.
        None if view.seen.wishes.switchover.is_some() => Rolling::Wait(NotNow::Asked),
        None => match main.pod.partner() {
            Some(to) => Rolling::Move { to },
            None => Rolling::Wait(NotNow::Unprotected),
        },
    }
}

/// MAIN, if it serves and is protected, nothing is under way, and every pod follows.
fn quiet<'a>(view: &View<'a>) -> Result<&'a Main, NotNow> {
    let record = view.record;
    let main = record.main.as_ref().ok_or(NotNow::Unprotected)?;
    // A wish stays written after it was fulfilled.
    let wishes = &view.seen.wishes;
    let elsewhere = wishes.switchover.is_some_and(|to| to != main.pod);
    if elsewhere
        || wishes
            .override_main
            .is_some_and(|wish| record.honoured != Some(wish))
    {
        return Err(NotNow::Asked);
    }
    let protected = record.state == State::Serving
        && record.reset.is_none()
        && record.writes == Writes::Open
        && view.healthy(main)
        && record.sync.is_some_and(|sync| view.promotable(sync.pod));
    if !protected {
        return Err(NotNow::Unprotected);
    }
    match (0..view.spec().replicas)
        .map(Ordinal)
        .find(|pod| *pod != main.pod && !follows(view, main, *pod))
    {
        Some(away) => Err(NotNow::Away(away)),
        None => Ok(main),
    }
}

/// It is there and takes what MAIN sends. Under load a replica is hardly ever level when it is looked at: to ask for
/// that would wait for ever.
fn follows(view: &View<'_>, main: &Main, pod: Ordinal) -> bool {
    let there = view
        .seen
        .object(pod)
        .is_some_and(|object| object.ready && !object.terminating);
    // Of an ASYNC pod under load MAIN may show anything at any moment; only the protected one is judged by its status.
    let listed = |r: &Registration| {
        if pod.is_authority() {
            r.attached && matches!(r.status, Status::Ready | Status::Replicating)
        } else {
            r.status != Status::Diverged
        }
    };
    let sent = view
        .answer(main.pod)
        .is_some_and(|answer| View::registrations_of(answer, pod).any(listed));
    // One that is diverged waits for its reset, or for a person, and protects nobody: nothing waits for it.
    let given_up = !pod.is_authority() && reset::is_accused(view, main, pod);
    there && (sent || given_up) && view.answer(pod).is_some()
}
