//! REGISTER and DROP, as an operator's calls.

use super::state::{Remembered, State, model_name};
use super::{Doing, Violation};
use crate::memgraph::instance::{Dropped, Error, Mode, NodeId};
use mainstay_core::memgraph::observed;
use mainstay_core::memgraph::plan::Target;
use mainstay_core::memgraph::turn::Outcome;

impl State {
    pub(super) fn register(
        &mut self,
        doing: &mut Doing<'_>,
        op: Option<u8>,
        on: Target,
        name: mainstay_core::memgraph::ids::RegistrationName,
        mode: observed::Mode,
        peer: Target,
    ) -> Outcome {
        if self.running(on.process).is_none() {
            return Outcome::Refused;
        }
        let mode = match mode {
            observed::Mode::Async => Mode::Async,
            observed::Mode::Sync => Mode::Sync,
            observed::Mode::StrictSync => Mode::StrictSync,
        };
        let before = self.false_divergence(on.pod.0, peer.pod.0);
        let listens = self.pod(peer.pod.0).is_some_and(|p| p.alive) && !self.is_cut(on.pod.0, peer.pod.0);
        if doing.config.report_stalls && !listens {
            doing.violate(Violation::RegisterDead {
                main: on.pod,
                replica: peer.pod,
            });
        }
        let theirs = self.registered(on.pod.0, name);
        let result = self.with_db(on.pod.0, |db, net| {
            db.register(model_name(name), mode, NodeId(peer.pod.0), net)
        });
        match result {
            Some(Ok(status)) => {
                doing.note(|| format!("  {status:?}"));
                Outcome::Done
            }
            Some(Err(error)) => {
                doing.note(|| format!("  {error}"));
                if error == Error::Diverged {
                    doing.note(|| self.why_diverged(on.pod.0, peer.pod.0, before));
                    self.remember_refusal(doing, op, on, peer, before);
                }
                // Only what this very call left behind: one that was there before is somebody else's, and to drop it
                // would take a protected MAIN's replica away.
                if !theirs && self.registered(on.pod.0, name) {
                    Outcome::Spoiled
                } else {
                    Outcome::Refused
                }
            }
            None => Outcome::Refused,
        }
    }

    /// What MAIN judged by, and whether it is right.
    fn why_diverged(&self, main: u8, peer: u8, false_one: bool) -> String {
        let lineage = |n: u8| self.pod(n).map(|p| p.db.lineage());
        let (Some(judge), Some(accused)) = (lineage(main), lineage(peer)) else {
            return String::new();
        };
        let truth = if false_one { "wrongly" } else { "rightly" };
        let history: Vec<_> = judge
            .history
            .iter()
            .map(|e| format!("e{}@{}", e.epoch.0, e.ts.0))
            .collect();
        format!(
            "  {truth}: it has e{}@{}, MAIN's history is {}",
            accused.reported_epoch().0,
            accused.ldt.0,
            history.join(" ")
        )
    }

    fn remember_refusal(
        &mut self,
        doing: &mut Doing<'_>,
        op: Option<u8>,
        on: Target,
        peer: Target,
        false_one: bool,
    ) {
        let serving = self.record.as_ref().is_some_and(|r| {
            r.state == mainstay_core::memgraph::record::State::Serving
                && r.main.as_ref().is_some_and(|m| m.process == on.process)
        });
        if false_one && serving && doing.config.report_false_divergence {
            doing.violate(Violation::FalseDivergence {
                main: on.pod,
                accused: peer.pod,
            });
        }
        let term = self.record.as_ref().map_or_else(Default::default, |r| r.term);
        if let Some(operator) = op.and_then(|op| self.operators.get_mut(usize::from(op))) {
            operator.refused.retain(|r| r.pod != peer.pod);
            operator.refused.push(Remembered {
                pod: peer.pod,
                by: on.process,
                of: peer.process,
                code: 3,
                term,
            });
            operator.refused.sort_unstable();
        }
    }

    pub(super) fn drop_registration(
        &mut self,
        doing: &mut Doing<'_>,
        on: Target,
        name: mainstay_core::memgraph::ids::RegistrationName,
    ) -> Outcome {
        if self.running(on.process).is_none() {
            return Outcome::Refused;
        }
        match self.with_db(on.pod.0, |db, _| db.drop_replica(model_name(name))) {
            Some(Ok(Dropped::Clean)) => Outcome::Done,
            Some(Ok(Dropped::WhileWorking)) => {
                doing.note(|| "  MAIN crashes: the replica had background work".to_owned());
                if doing.config.report_drops {
                    doing.violate(Violation::DropWhileWorking {
                        main: on.pod,
                        replica: name.pod(),
                    });
                }
                self.end_process(doing.config, on.pod.0, false);
                Outcome::Unknown
            }
            _ => Outcome::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Action, Config, Effect};
    use super::*;

    #[test]
    fn a_refusal_of_a_busy_main_leaves_nothing_behind_although_the_name_is_registered() {
        let config = Config::small("test");
        let mut state = State::first(&config);
        for action in [Action::Connect(0), Action::Write(0)] {
            state.apply(&config, action, false);
        }
        let sync = state.record.as_ref().and_then(|r| r.sync).unwrap();
        let main = state.record.as_ref().and_then(|r| r.main.clone()).unwrap();
        let mut doing = Doing {
            config: &config,
            noting: false,
            effect: Effect::default(),
        };
        let on = Target {
            pod: main.pod,
            process: main.process,
        };
        let peer = Target {
            pod: sync.pod,
            process: sync.process,
        };
        let outcome = state.register(
            &mut doing,
            Some(0),
            on,
            sync.name,
            observed::Mode::StrictSync,
            peer,
        );
        assert_eq!(outcome, Outcome::Refused, "what is there is somebody else's");
        assert!(state.registered(main.pod.0, sync.name));
    }
}
