//! A world of candidates around one lease object: true time, clocks that differ, and faults.
//!
//! Everything follows from the seed. What is checked after each event: no two processes whose leadership
//! permits a step, no epoch given out twice or out of order, no candidate that asks to be woken in the past.

use super::model::{Api, Clock, Rng};
use crate::lease::rules::Rule;
use crate::lease::{Answer, Candidate, HolderId, Input, LeaseEpoch, LeaseTiming, Request, RequestId};
use std::collections::BTreeMap;
use std::time::Duration;

/// What may go wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// Slowest and fastest monotonic clock, in thousandths of true time; zero for exact clocks.
    pub(super) rates: (u64, u64),
    /// Of a thousand messages: lost, slow (up to 4 s), late (up to 40 s).
    pub(super) lost: u64,
    pub(super) slow: u64,
    pub(super) late: u64,
    /// What can happen to a node or to the lease, every few seconds.
    pub(super) incidents: &'static [Incident],
    /// Wall clocks up to two hours apart.
    pub(super) skewed_walls: bool,
    /// An API server that does not compare versions.
    pub(super) blind_writes: bool,
    /// A rule that all candidates break.
    pub(super) without: Option<Rule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incident {
    Pause,
    Suspend,
    Crash,
    Release,
    CutOff,
    DeleteLease,
    /// Deleted, and put back empty by whoever manages the manifests.
    RecreateLease,
    ClockRate,
    WallForward,
    WallBack,
}

#[derive(Clone, Debug)]
enum Event {
    Wake(usize),
    Execute {
        from: Process,
        request: Request,
    },
    Deliver {
        to: Process,
        id: RequestId,
        answer: Answer,
    },
    Resume(Process),
    Reconnect(usize),
    Restart(usize),
    Incident,
}

/// A node and which of the processes it ran one after the other.
type Process = (usize, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Paused,
    Suspended,
    Down,
}

struct Node {
    candidate: Candidate,
    clock: Clock,
    state: State,
    run: u32,
    connected: bool,
    leaving: bool,
    inbox: Vec<(RequestId, Answer)>,
    wake_at: Option<u64>,
}

pub(super) struct World {
    pub(super) now: u64,
    pub(super) violation: Option<String>,
    pub(super) log: Vec<String>,
    pub(super) api: Api,
    rng: Rng,
    faults: Faults,
    nodes: Vec<Node>,
    queue: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    terms: BTreeMap<String, (u32, Process)>,
}

impl World {
    /// Nodes that start within the first second, before a lease that was held and released once.
    pub(super) fn new(seed: u64, size: usize, faults: Faults) -> Self {
        let mut world = Self {
            now: 0,
            violation: None,
            log: Vec::new(),
            api: Api::with_free_lease(!faults.blind_writes),
            rng: Rng(seed),
            faults,
            nodes: Vec::new(),
            queue: BTreeMap::new(),
            sequence: 0,
            terms: BTreeMap::new(),
        };
        for index in 0..size {
            let node = world.boot(index, 0);
            world.nodes.push(node);
            let at = world.rng.below(1_000);
            world.nodes[index].wake_at = Some(at);
            world.push(at, Event::Wake(index));
        }
        if !faults.incidents.is_empty() {
            world.push(2_000, Event::Incident);
        }
        world
    }

    fn boot(&mut self, index: usize, run: u32) -> Node {
        let me = HolderId::new(format!("n{index}-{run}")).unwrap();
        let mut candidate = Candidate::new(me, LeaseTiming::default());
        candidate.rules.without = self.faults.without;
        let rate = self.draw_rate();
        let skew = if self.faults.skewed_walls {
            self.rng.below(7_200_000)
        } else {
            0
        };
        Node {
            candidate,
            clock: Clock::new(self.now, rate, skew),
            state: State::Running,
            run,
            connected: true,
            leaving: false,
            inbox: Vec::new(),
            wake_at: None,
        }
    }

    /// Mostly the extremes: what breaks, breaks there first.
    fn draw_rate(&mut self) -> u64 {
        let (slowest, fastest) = self.faults.rates;
        match self.rng.below(5) {
            _ if slowest == 0 => 1_000,
            0 | 1 => slowest,
            2 | 3 => fastest,
            _ => slowest + self.rng.below(fastest - slowest),
        }
    }

    fn push(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), event);
    }

    /// Runs to a moment of true time, or to the first violation.
    pub(super) fn run_until(&mut self, end: u64) {
        self.run_while(end, |_| true);
    }

    /// Runs to a moment of true time, a violation, or until `go_on` says no.
    pub(super) fn run_while(&mut self, end: u64, go_on: impl Fn(&Self) -> bool) {
        while self.violation.is_none() && go_on(self) {
            let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) else {
                self.now = end;
                return;
            };
            self.now = entry.key().0;
            let event = entry.remove();
            self.log.push(format!("{:>7} {event:?}", self.now));
            self.happen(event);
            self.check();
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake(index) => {
                let node = &mut self.nodes[index];
                if node.state == State::Running && node.wake_at == Some(self.now) {
                    self.handle(index, Input::Tick);
                }
            }
            Event::Execute { from, request } => {
                let answer = self.api.apply(request.action);
                self.answer(from, request.id, answer);
            }
            Event::Deliver {
                to: (index, run),
                id,
                answer,
            } => {
                let node = &mut self.nodes[index];
                match node.state {
                    _ if node.run != run => {}
                    State::Running => self.handle(index, Input::Answered { id, answer }),
                    State::Paused | State::Suspended => node.inbox.push((id, answer)),
                    State::Down => {}
                }
            }
            Event::Resume((index, run)) => {
                if self.nodes[index].run == run {
                    self.resume(index);
                }
            }
            Event::Reconnect(index) => self.nodes[index].connected = true,
            Event::Restart(index) => {
                let run = self.nodes[index].run + 1;
                self.nodes[index] = self.boot(index, run);
                self.handle(index, Input::Tick);
            }
            Event::Incident => {
                self.incident();
                let next = self.now + 500 + self.rng.below(8_000);
                self.push(next, Event::Incident);
            }
        }
    }

    /// What was missed comes in before or after the tick: a real event loop promises no order.
    fn resume(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if !matches!(node.state, State::Paused | State::Suspended) {
            return;
        }
        node.clock.resume(self.now);
        node.state = State::Running;
        self.check();
        if self.rng.chance(500) {
            self.handle(index, Input::Tick);
        }
        for (id, answer) in std::mem::take(&mut self.nodes[index].inbox) {
            self.handle(index, Input::Answered { id, answer });
        }
        self.handle(index, Input::Tick);
    }

    fn handle(&mut self, index: usize, input: Input) {
        let node = &mut self.nodes[index];
        let (mono, wall) = (node.clock.mono(self.now), node.clock.wall(self.now));
        node.candidate.handle(mono, wall, input);
        let request = node.candidate.poll();
        let wake_at = node.candidate.next_deadline().map(|deadline| {
            if deadline <= mono {
                self.violation = Some(format!("n{index} wants to be woken in the past"));
            }
            node.clock.true_time_of(deadline)
        });
        node.wake_at = wake_at;
        let from = (index, node.run);
        let epoch = node
            .candidate
            .leadership()
            .map(|leadership| leadership.epoch().clone());
        if let Some(at) = wake_at {
            self.push(at, Event::Wake(index));
        }
        if let Some(epoch) = epoch {
            self.note_term(from, &epoch);
        }
        if let Some(request) = request {
            self.send(from, request);
        }
    }

    fn note_term(&mut self, by: Process, epoch: &LeaseEpoch) {
        let last = self.terms.insert(epoch.uid.0.clone(), (epoch.transitions, by));
        if last.is_some_and(|last| last != (epoch.transitions, by) && last.0 >= epoch.transitions) {
            self.violation = Some(format!("{by:?} leads in epoch {epoch} after {last:?}"));
        }
    }

    fn send(&mut self, from: Process, request: Request) {
        match self.transit(from.0) {
            Some(delay) => self.push(self.now + delay, Event::Execute { from, request }),
            None => self.maybe_fail(from, request.id),
        }
    }

    fn answer(&mut self, to: Process, id: RequestId, answer: Answer) {
        match self.transit(to.0) {
            Some(delay) => self.push(self.now + delay, Event::Deliver { to, id, answer }),
            None => self.maybe_fail(to, id),
        }
    }

    /// A lost message is noticed as a broken connection, or not at all.
    fn maybe_fail(&mut self, to: Process, id: RequestId) {
        if self.rng.chance(300) {
            let at = self.now + 1 + self.rng.below(1_000);
            self.push(
                at,
                Event::Deliver {
                    to,
                    id,
                    answer: Answer::Failed,
                },
            );
        }
    }

    fn transit(&mut self, index: usize) -> Option<u64> {
        let Faults { lost, slow, late, .. } = self.faults;
        let roll = self.rng.below(1_000);
        if !self.nodes[index].connected || roll < lost {
            None
        } else if roll < lost + slow {
            Some(100 + self.rng.below(3_900))
        } else if roll < lost + slow + late {
            Some(4_000 + self.rng.below(36_000))
        } else {
            Some(1 + self.rng.below(49))
        }
    }

    fn incident(&mut self) {
        let kinds = self.faults.incidents;
        let kind = kinds[self.rng.index(kinds.len())];
        // Usually it hits the leader, where it hurts.
        let index = match self.leader() {
            Some(leader) if self.rng.chance(700) => leader,
            _ => self.rng.index(self.nodes.len()),
        };
        self.log.push(format!("{:>7} {kind:?} at n{index}", self.now));
        let long = 500 + self.rng.below(25_000);
        match kind {
            Incident::Pause => self.stop(index, State::Paused, long),
            Incident::Suspend => self.stop(index, State::Suspended, long),
            Incident::Crash => self.crash(index, Some(long)),
            Incident::Release => {
                if self.nodes[index].state == State::Running {
                    self.release(index);
                    self.push(self.now + long, Event::Restart(index));
                }
            }
            Incident::CutOff => {
                self.nodes[index].connected = false;
                self.push(self.now + long, Event::Reconnect(index));
            }
            Incident::DeleteLease => self.api.delete(),
            Incident::RecreateLease => self.api.recreate(),
            Incident::ClockRate => {
                let rate = self.draw_rate();
                let node = &mut self.nodes[index];
                if node.state == State::Running {
                    node.clock.set_rate(self.now, rate);
                    self.handle(index, Input::Tick);
                }
            }
            Incident::WallForward => self.nodes[index].clock.wall_ahead += long,
            Incident::WallBack => {
                let clock = &mut self.nodes[index].clock;
                clock.wall_ahead = clock.wall_ahead.saturating_sub(long);
            }
        }
    }

    fn stop(&mut self, index: usize, state: State, long: u64) {
        let node = &mut self.nodes[index];
        if node.state == State::Running {
            node.state = state;
            if state == State::Suspended {
                node.clock.suspend(self.now);
            }
            let process = (index, node.run);
            self.push(self.now + long, Event::Resume(process));
        }
    }

    /// Ends a process; another one starts after the given time.
    pub(super) fn crash(&mut self, index: usize, restart_after: Option<u64>) {
        if self.nodes[index].state == State::Running {
            self.nodes[index].state = State::Down;
            if let Some(long) = restart_after {
                self.push(self.now + long, Event::Restart(index));
            }
        }
    }

    pub(super) fn release(&mut self, index: usize) {
        self.nodes[index].leaving = true;
        self.handle(index, Input::ReleaseRequested);
    }

    /// The API server stops or starts answering everybody.
    pub(super) fn set_api_reachable(&mut self, reachable: bool) {
        for node in &mut self.nodes {
            node.connected = reachable;
        }
    }

    /// All faults end: what is under way is lost, everybody runs and is connected.
    pub(super) fn heal(&mut self) {
        let Faults { rates, without, .. } = self.faults;
        self.faults = Faults {
            rates,
            without,
            ..Faults::default()
        };
        self.queue.retain(|_, event| matches!(event, Event::Wake(_)));
        for index in 0..self.nodes.len() {
            self.nodes[index].connected = true;
            if self.nodes[index].state == State::Down || self.nodes[index].leaving {
                self.happen(Event::Restart(index));
            } else {
                self.resume(index);
            }
        }
    }

    /// Who may act right now.
    pub(super) fn leaders(&self) -> Vec<usize> {
        let permitted = |node: &Node| {
            let awake = matches!(node.state, State::Running | State::Paused);
            awake
                && node.candidate.leadership().is_some_and(|leadership| {
                    let (mono, wall) = (node.clock.mono(self.now), node.clock.wall(self.now));
                    leadership.permits(mono, wall, Duration::ZERO).is_ok()
                })
        };
        (0..self.nodes.len())
            .filter(|index| permitted(&self.nodes[*index]))
            .collect()
    }

    pub(super) fn leader(&self) -> Option<usize> {
        self.leaders().first().copied()
    }

    pub(super) fn is_released(&self, index: usize) -> bool {
        self.nodes[index].candidate.is_released()
    }

    /// A leadership begins only at an event, so looking after each event misses no overlap.
    fn check(&mut self) {
        let leaders = self.leaders();
        if leaders.len() > 1 && self.violation.is_none() {
            self.violation = Some(format!("at {} all of {leaders:?} may act", self.now));
        }
    }
}
