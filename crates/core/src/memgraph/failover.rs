//! MAIN is not healthy: who may take its office?

use super::ids::Ordinal;
use super::plan::Plan;
use super::reason::{Reason, Why};
use super::record::Main;
use super::rules::Rule;
use super::serving;
use super::term::{self, How};
use super::view::View;

/// `Serving`, and the recorded MAIN does not answer as MAIN in the recorded process.
///
/// Seed 001 reconcile step 2, and its event "Memgraph pod status changed to not ready: TargetMainPod".
pub(super) fn turn(view: &View<'_>, main: &Main) -> Plan {
    let Some((why, evidence)) = view.suspicion(main) else {
        return patience(view, main);
    };
    let suspicion = Reason::new(Rule::Failover, why).on([evidence]);
    if let Some(other) = main.pod.partner().filter(|q| view.promotable(*q)) {
        let reason = Reason::new(Rule::Failover, Why::PromoteProtected { pod: other }).on(view.said(other));
        return term::begin(view, other, true, How::Plain, reason).also(suspicion);
    }
    // Without the start-up fence it is back as MAIN, and what it lists may show that it lost its tail. Its mark would
    // be the first write that the replica says yes to and does not take, and hide it.
    if let Some(plan) = view
        .answer(main.pod)
        .and_then(|answer| serving::replica_ahead(view, main, answer))
    {
        return plan.also(suspicion);
    }
    if view.returning(main.pod) {
        let reason =
            Reason::new(Rule::Repromote, Why::PromoteReturned { pod: main.pod }).on(view.said(main.pod));
        return term::begin(view, main.pod, true, How::Plain, reason).also(suspicion);
    }
    nobody(view, main).also(suspicion)
}

/// Nobody is entitled: no command, and a sentence that names who is awaited.
pub(super) fn nobody(view: &View<'_>, main: &Main) -> Plan {
    let lost = view.volume(main.pod).is_some_and(|v| v != main.volume);
    let same_volume = view.volume(main.pod) == Some(main.volume);
    let read = same_volume && view.answer(main.pod).is_some_and(|a| a.data.is_some());
    let why = match main.pod.partner() {
        // The protected pod is only slow to answer: nobody has to choose yet.
        Some(other)
            if (lost || read)
                && view.record.sync.is_some_and(|s| s.pod == other)
                && view.answer(other).is_none() =>
        {
            Why::NobodyEntitled { awaited: other }
        }
        Some(other) if lost => Why::MainVolumeLost {
            main: main.pod,
            other,
        },
        // It is back with its volume, and its data is not what it should be: there is nothing to wait for.
        _ if read && !view.returning(main.pod) => Why::SuspiciousData { pod: main.pod },
        _ => Why::NobodyEntitled { awaited: main.pod },
    };
    Plan::wait(Reason::new(Rule::Stuck, why).on(view.said(main.pod)))
}

fn patience(view: &View<'_>, main: &Main) -> Plan {
    let pod: Ordinal = main.pod;
    let why = if view.vetoed(main) {
        Why::VetoedByGateway { main: pod }
    } else {
        Why::NoNews { pod }
    };
    let rule = if view.vetoed(main) { Rule::R21 } else { Rule::Stuck };
    Plan::wait(Reason::new(rule, why)).wake_at(view.now + view.spec().veto)
}
