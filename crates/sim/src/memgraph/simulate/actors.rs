//! Who does what, and when: operators, gateways, clients, MAINs and the kubelet.

use super::events::Event;
use super::{PATIENCE, RELOOK, Simulation};
use crate::memgraph::world::{Action, Look};
use mainstay_core::memgraph::plan::Step;

impl Simulation<'_> {
    pub(super) fn operator(&mut self, op: u8) {
        let at = usize::from(op);
        if self.asleep.get(at).is_some_and(|until| *until > self.clock.now) {
            self.later(50..200, Event::Operator(op));
            return;
        }
        if self.state.current_step(op).is_some() {
            self.operator_steps(op);
            return;
        }
        if !self.leads(op) {
            self.later(300..900, Event::Operator(op));
            return;
        }
        let now = (self.stirred, self.clock.now);
        let stale = self
            .looked
            .get(at)
            .is_none_or(|(stirred, when)| *stirred != self.stirred || now.1.since(*when) > RELOOK);
        if !stale {
            self.later(100..400, Event::Operator(op));
            return;
        }
        if let Some(looked) = self.looked.get_mut(at) {
            *looked = now;
        }
        self.clock.turn += 1;
        self.clock.observer = op;
        let look = if self.wish.is_some_and(|until| until > self.clock.now) {
            Look::Switchover
        } else {
            Look::Plain
        };
        if self.act(Action::Observe(op, look)) {
            if let Some(since) = self.waiting.get_mut(at) {
                *since = self.clock.now;
            }
            self.later(1..40, Event::Operator(op));
        } else {
            self.later(50..250, Event::Operator(op));
        }
    }

    /// Leadership is an optimisation: a paused leader finishes its turn although another one took over.
    fn leads(&mut self, op: u8) -> bool {
        let away = self
            .asleep
            .get(usize::from(self.leader))
            .is_some_and(|until| *until > self.clock.now);
        if away && op != self.leader {
            self.leader = op;
        }
        op == self.leader || self.clock.now < self.both_lead_until
    }

    fn operator_steps(&mut self, op: u8) {
        let at = usize::from(op);
        self.clock.observer = op;
        if !self.state.may_step(self.config, op, &self.clock) {
            let since = self.waiting.get(at).copied().unwrap_or_default();
            if self.clock.now.since(since) > PATIENCE {
                self.end_turn(op);
            }
            self.later(10..60, Event::Operator(op));
            return;
        }
        let before = self.state.current_step(op).cloned();
        let reachable = self.clock.reaches(op, self.state.current_step(op));
        let command = matches!(
            self.state.current_step(op),
            Some(Step::Promote(_) | Step::Demote(_) | Step::Drop { .. })
        );
        self.stirred += 1;
        if !reachable {
            // It does not get through, or it does and the answer is lost.
            if command && self.chance.one_in(2) {
                self.act(Action::StepLate(op));
                self.later_execute();
            } else {
                self.end_turn(op);
            }
        } else if command && !self.healing && self.chance.one_in(25) {
            self.act(Action::StepLate(op));
            self.later_execute();
        } else {
            self.act(Action::Step(op));
        }
        let since = self.waiting.get(at).copied().unwrap_or_default();
        if self.state.current_step(op) != before.as_ref() {
            if let Some(since) = self.waiting.get_mut(at) {
                *since = self.clock.now;
            }
        } else if self.clock.now.since(since) > PATIENCE {
            self.end_turn(op);
        }
        self.later(1..30, Event::Operator(op));
    }

    fn later_execute(&mut self) {
        self.later(1..12_000, Event::Do(Action::Execute(0)));
    }

    fn end_turn(&mut self, op: u8) {
        if let Some(operator) = self.state.operators.get_mut(usize::from(op)) {
            operator.turn = None;
        }
    }

    pub(super) fn gateway(&mut self, g: u8) {
        let awake = self
            .gateway_asleep
            .get(usize::from(g))
            .is_none_or(|until| *until <= self.clock.now);
        let behind = self
            .state
            .gateways
            .get(usize::from(g))
            .zip(self.state.record.as_ref())
            .is_some_and(|(gateway, record)| {
                (record.term, record.revision) > (gateway.gate.term(), gateway.gate.revision())
            });
        if awake && behind {
            self.stirred += 1;
            self.act(Action::Read(g));
        }
        self.later(40..200, Event::Gateway(g));
    }

    pub(super) fn client(&mut self, g: u8) {
        let pause = if self.clock.now < self.busy_until {
            5..60
        } else {
            300..1500
        };
        self.later(pause, Event::Client(g));
        let Some(gateway) = self.state.gateways.get(usize::from(g)) else {
            return;
        };
        match (gateway.session, gateway.gate.route()) {
            (Some((pod, run)), _) => {
                let free = self
                    .state
                    .pod(pod)
                    .is_some_and(|p| p.alive && p.run == run && p.db.stage().is_none());
                if free && self.state.next_write < u16::MAX - 1 {
                    self.act(Action::Write(g));
                    self.clock.heard(g, &self.state, pod);
                    self.later_commit(pod);
                } else if self.state.pod(pod).is_none_or(|p| !p.alive || p.run != run) {
                    self.act(Action::Connect(g));
                }
            }
            (None, Some(route)) => {
                self.act(Action::Connect(g));
                self.clock.heard(g, &self.state, route.pod.0);
            }
            (None, None) => {}
        }
    }

    /// Most commits are quick; some hang long enough for anything to happen between two of their steps.
    fn later_commit(&mut self, pod: u8) {
        let pause = if self.clock.now < self.busy_until && self.chance.one_in(6) {
            50..1_500
        } else {
            0..4
        };
        self.later(pause, Event::Commit(pod));
    }

    /// A client's commit goes on, a step at a time.
    pub(super) fn commit(&mut self, pod: u8) {
        let Some(action) = self.state.commit_action(pod) else {
            if self
                .state
                .pod(pod)
                .is_some_and(|p| p.alive && p.waiting.is_some())
            {
                self.later(50..200, Event::Commit(pod));
            }
            return;
        };
        self.act(action);
        self.later_commit(pod);
    }

    pub(super) fn pingers(&mut self) {
        for (main, replica, empties) in self.state.tendable(self.config) {
            self.stirred += 1;
            if empties && self.chance.one_in(2) {
                self.act(Action::Empty(main, replica));
            } else {
                self.act(Action::Tend(main, replica));
            }
        }
        let pause = if self.clock.now < self.busy_until || self.healing {
            100..400
        } else {
            500..1500
        };
        self.later(pause, Event::Pingers);
    }

    /// What is down is started again: a crashed container, a deleted pod, a process that was ended.
    pub(super) fn kubelet(&mut self) {
        for pod in 0..self.config.pods {
            let due = self
                .down_until
                .get(usize::from(pod))
                .is_some_and(|until| *until <= self.clock.now);
            if due && self.state.pod(pod).is_some_and(|p| !p.alive && !p.scaled_away) {
                self.stirred += 1;
                self.act(Action::Start(pod));
            }
        }
        self.later(200..700, Event::Kubelet);
    }
}
