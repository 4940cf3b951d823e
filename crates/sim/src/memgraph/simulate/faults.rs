//! What goes wrong, and when it is right again.

use super::events::{Event, Restore};
use super::{Simulation, TROUBLE};
use crate::memgraph::instance::Profile;
use crate::memgraph::world::Action;
use mainstay_core::time::Time;
use std::time::Duration;

impl Simulation<'_> {
    /// One fault, and the next one is planned.
    pub(super) fn fault(&mut self) {
        if self.healing {
            return;
        }
        // Bursts: most faults meet a cluster that is still busy with the last one.
        let pause = if self.chance.one_in(3) {
            4_000..15_000
        } else {
            5..900
        };
        self.later(pause, Event::Fault);
        self.busy_until = self.clock.now + Duration::from_secs(3);
        self.faults += 1;
        self.stirred += 1;
        match self.chance.below(100) {
            30..=41 => self.cut_link(),
            42..=56 => self.lose_contact(),
            57..=66 => self.gateway_sleeps(),
            67..=76 => self.operator_pauses(),
            77..=81 => self.operator_dies(),
            82..=88 => self.wish = Some(self.clock.now + Duration::from_secs(3)),
            89..=91 => self.lose_node(),
            92..=93 => self.lose_volume(),
            94..=95 => self.sleep_and_wake(),
            96 if self.chance.one_in(5) => self.lose_mark(),
            96 => self.take_snapshot(),
            97 => self.lose_record(),
            98 => {
                self.both_lead_until =
                    self.clock.now + Duration::from_millis(self.chance.between(500..6_000));
            }
            _ => self.crash(),
        }
    }

    /// A pod, more often than not one of the pair.
    fn victim(&mut self) -> u8 {
        if self.chance.one_in(4) {
            self.chance.pick(self.config.pods)
        } else {
            self.chance.pick(2)
        }
    }

    fn crash(&mut self) {
        let pod = self.victim();
        if self.state.pod(pod).is_some_and(|p| p.alive) {
            self.act(Action::Crash(pod));
            let down = if self.chance.one_in(4) {
                2_000..20_000
            } else {
                100..1_500
            };
            self.stays_down(pod, down);
        }
    }

    fn cut_link(&mut self) {
        let (a, b) = (self.victim(), self.chance.pick(self.config.pods));
        if a != b && !self.state.is_cut(a, b) {
            self.act(Action::Cut(a, b));
            self.later(100..9_000, Event::Do(Action::Heal(a, b)));
        }
    }

    /// One or both operators do not reach a pod.
    fn lose_contact(&mut self) {
        let pod = self.victim();
        let both = self.chance.one_in(3);
        let first = self.chance.pick(self.config.operators);
        for op in (0..self.config.operators).filter(|op| both || *op == first) {
            self.clock.lose_contact(op, pod, true);
            self.later(500..9_000, Event::Restore(Restore::Contact(op, pod)));
        }
    }

    fn gateway_sleeps(&mut self) {
        let g = self.chance.pick(self.config.gateways);
        let until = self.clock.now + Duration::from_millis(self.chance.between(200..15_000));
        if let Some(asleep) = self.gateway_asleep.get_mut(usize::from(g)) {
            *asleep = until;
        }
    }

    fn operator_pauses(&mut self) {
        let op = self.chance.pick(self.config.operators);
        let until = self.clock.now + Duration::from_millis(self.chance.between(50..15_000));
        if let Some(asleep) = self.asleep.get_mut(usize::from(op)) {
            *asleep = until;
        }
    }

    fn operator_dies(&mut self) {
        let op = self.chance.pick(self.config.operators);
        self.act(Action::Die(op));
    }

    /// The node is gone: the pod is dead or alive, and Kubernetes does not know which.
    fn lose_node(&mut self) {
        let pod = self.victim();
        self.clock.lose_report(pod, true);
        if self.chance.one_in(2) && self.state.pod(pod).is_some_and(|p| p.alive) {
            self.act(Action::Crash(pod));
        }
        let away = self.chance.between(1_000..20_000);
        self.queue.push(
            self.clock.now + Duration::from_millis(away),
            Event::Restore(Restore::Report(pod)),
        );
        self.stays_down(pod, away + 300..away + 301);
    }

    fn lose_volume(&mut self) {
        let pod = self.victim();
        if self.state.pod(pod).is_some_and(|p| p.alive) {
            self.act(Action::Crash(pod));
            self.act(Action::LoseVolume(pod));
            self.stays_down(pod, 500..5_000);
        }
    }

    /// Kubernetes starts a pod again, but not before this.
    fn stays_down(&mut self, pod: u8, millis: std::ops::Range<u64>) {
        let until = self.clock.now + Duration::from_millis(self.chance.between(millis));
        if let Some(down) = self.down_until.get_mut(usize::from(pod)) {
            *down = until;
        }
    }

    fn sleep_and_wake(&mut self) {
        self.act(Action::Sleep(true));
        self.later(2_000..12_000, Event::Do(Action::Sleep(false)));
    }

    /// Only on the release whose start-up from a snapshot was recorded. What 3.12 makes of the epoch in which a
    /// snapshot was taken is known from the source alone, and the model of it calls good copies diverged.
    fn take_snapshot(&mut self) {
        let pod = self.victim();
        if self.config.profile == Profile::V3_6 {
            self.act(Action::Snapshot(pod));
        }
    }

    /// A client deletes everything. Rarely: if MAIN dies before the mark is there again, a human is needed.
    fn lose_mark(&mut self) {
        let gateway = self.chance.pick(self.config.gateways);
        self.act(Action::Unmark(gateway));
    }

    fn lose_record(&mut self) {
        // Rarely, because a human is often needed afterwards.
        if self.chance.one_in(6) {
            self.act(Action::LoseRecord);
        }
    }

    pub(super) fn restore(&mut self, restore: Restore) {
        self.stirred += 1;
        match restore {
            Restore::Contact(op, pod) => self.clock.lose_contact(op, pod, false),
            Restore::Report(pod) => self.clock.lose_report(pod, false),
        }
    }

    /// From here on nothing new goes wrong, and what can be repaired by waiting is repaired.
    pub(super) fn stop_faults(&mut self) {
        self.healing = true;
        self.clock.now = Time::ZERO + TROUBLE;
        self.clock.heal();
        self.stirred += 1;
        self.wish = None;
        self.both_lead_until = Time::ZERO;
        self.asleep
            .iter_mut()
            .chain(&mut self.gateway_asleep)
            .for_each(|until| *until = Time::ZERO);
        for (a, b) in self.state.cut.clone() {
            self.act(Action::Heal(a, b));
        }
        self.act(Action::Sleep(false));
        self.down_until.iter_mut().for_each(|until| *until = Time::ZERO);
    }
}
