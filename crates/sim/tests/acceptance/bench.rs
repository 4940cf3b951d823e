//! A world on a bench: the test decides what goes wrong, everything else does its work.

use mainstay_core::memgraph::ids::{Ordinal, ProcessId, RegistrationName};
use mainstay_core::memgraph::observed::{Contact, Mode, Observed, Registration, Status};
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::reason::Why;
use mainstay_core::memgraph::record::{State as Phase, Writes};
use mainstay_core::memgraph::{Plan, Record, Rule, decide};
use mainstay_core::time::Time;
use sim::memgraph::data::{Delta, WriteId};
use sim::memgraph::instance::{self, Begun, EpochId, MainId, Role, Shown};
use sim::memgraph::world::{Action, Config, Effect, Lens, Look, NOW, State, Timeless, describe};

/// How the operator sees the world, where that is not as it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Eyes {
    /// Pods that leave our probes unanswered, dead or alive.
    pub(super) silent: Vec<u8>,
    /// Pods whose node reports nothing any more.
    pub(super) unreported: Vec<u8>,
    /// A gateway just had an answer from this process.
    pub(super) heard: Option<ProcessId>,
    /// No status has stood still for long yet.
    pub(super) young: bool,
    turn: u64,
}

impl Eyes {
    fn timeless(&self) -> Timeless {
        Timeless {
            suspect: None,
            late: false,
            dying: None,
            turn: self.turn,
        }
    }
}

impl Lens for Eyes {
    fn now(&self) -> Time {
        NOW
    }

    fn contact(&self, pod: u8) -> Option<Contact> {
        self.silent.contains(&pod).then_some(Contact::Silent {
            probes: 9,
            since: Time::ZERO,
        })
    }

    fn reported(&self, pod: u8) -> bool {
        !self.unreported.contains(&pod)
    }

    fn since(&self, main: u8, shown: &Shown, stuck: bool) -> Time {
        if self.young {
            NOW
        } else {
            self.timeless().since(main, shown, stuck)
        }
    }

    fn heard(&self, _gateway: u8) -> Option<(Time, ProcessId)> {
        self.heard.map(|process| (NOW, process))
    }

    fn turn(&self) -> u64 {
        self.turn
    }

    fn stamp(&self, record: &mut Record) {
        self.timeless().stamp(record);
    }
}

/// A world and what happened in it.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) config: Config,
    pub(super) state: State,
    pub(super) eyes: Eyes,
    /// What does not happen for now.
    pub(super) blocked: Vec<Action>,
    /// Looks that led to a plan with steps.
    pub(super) looks: usize,
    /// Every step that was tried, in order.
    pub(super) steps: Vec<Step>,
    story: Vec<String>,
}

/// Three pods, one gateway, one operator; a DROP that would crash a real MAIN is a violation.
pub(super) fn three_pods() -> Config {
    let mut config = Config::small("acceptance");
    config.pods = 3;
    config.spec.replicas = 3;
    config.writes = 1000;
    config.report_drops = true;
    config
}

/// Far more than any scenario needs; only a livelock reaches it.
const MANY: usize = 3000;

impl Run {
    /// Empty pods and no record.
    pub(super) fn fresh(config: Config) -> Self {
        let state = State::fresh(&config);
        Self {
            config,
            state,
            eyes: Eyes::default(),
            blocked: Vec::new(),
            looks: 0,
            steps: Vec::new(),
            story: Vec::new(),
        }
    }

    /// A protected cluster at rest, its gateways open.
    pub(super) fn protected(config: Config) -> Self {
        let mut run = Self::fresh(config);
        run.quiet();
        run.assert_whole();
        run.forget();
        run
    }

    /// Counts from here.
    pub(super) fn forget(&mut self) {
        self.looks = 0;
        self.steps.clear();
    }

    pub(super) fn eyes(&self) -> Eyes {
        let turn = self.state.record.as_ref().map_or(0, |r| r.revision.0) + 1;
        Eyes {
            turn,
            ..self.eyes.clone()
        }
    }

    /// What happened, for a person.
    pub(super) fn story(&self) -> String {
        self.story.join("\n")
    }

    /// Does it. Nothing that must never happen may happen.
    pub(super) fn act(&mut self, action: Action) -> Effect {
        let step = match action {
            Action::Step(op) => self.state.current_step(op).cloned(),
            _ => None,
        };
        self.steps.extend(step);
        let eyes = self.eyes();
        let effect = self.state.apply_with(&self.config, action, true, &eyes);
        if !effect.idle {
            self.looks += usize::from(matches!(action, Action::Observe(..)));
            self.story.push(format!("{action}"));
            self.story.extend(effect.notes.iter().map(|n| format!("    {n}")));
            self.story.push(format!("  {}", describe(&self.state)));
        }
        if let Some(violation) = &effect.violation {
            panic!("{violation}\n{}", self.story());
        }
        effect
    }

    pub(super) fn all(&mut self, actions: impl IntoIterator<Item = Action>) {
        for action in actions {
            self.act(action);
        }
    }

    /// The next thing that a calm world would do.
    pub(super) fn next(&self) -> Option<Action> {
        let eyes = self.eyes();
        let mut actions: Vec<Action> = self.state.enabled(&self.config);
        actions.retain(|a| !matches!(a, Action::Step(_)) && rank(*a).is_some() && !self.blocked.contains(a));
        let operators = self.state.operators.iter().zip(0_u8..);
        let able = operators.filter(|(_, op)| self.state.may_step(&self.config, *op, &eyes));
        actions.extend(
            able.map(|(_, op)| Action::Step(op))
                .filter(|a| !self.blocked.contains(a)),
        );
        actions.sort_by_key(|a| rank(*a));
        actions.into_iter().find(|action| {
            let mut copy = self.state.clone();
            let effect = copy.apply_with(&self.config, *action, false, &eyes);
            effect.violation.is_some() || (!effect.idle && copy != self.state)
        })
    }

    /// Lets everybody work until this is so.
    pub(super) fn until(&mut self, reached: impl Fn(&Self) -> bool) {
        for _ in 0..MANY {
            if reached(self) {
                return;
            }
            let Some(action) = self.next() else {
                panic!("it came to rest before that\n{}", self.story())
            };
            self.act(action);
        }
        panic!("it never came to that\n{}", self.story());
    }

    /// Lets everybody work for this many actions, or until nothing is left to do.
    pub(super) fn some(&mut self, actions: usize) {
        for _ in 0..actions {
            let Some(action) = self.next() else { return };
            self.act(action);
        }
    }

    /// Lets everybody work until nothing is left to do.
    pub(super) fn quiet(&mut self) {
        for _ in 0..MANY {
            let Some(action) = self.next() else { return };
            self.act(action);
        }
        panic!("it never came to rest\n{}", self.story());
    }

    /// Lets one operator finish the turn it is in, without looking again.
    pub(super) fn finish_turn(&mut self, op: u8) {
        self.blocked.push(Action::Observe(op, Look::Plain));
        self.until(|run| run.state.current_step(op).is_none());
        self.blocked.pop();
    }

    /// What an operator that looks now decides.
    pub(super) fn plan(&self) -> Plan {
        self.plan_for(&self.seen())
    }

    pub(super) fn plan_for(&self, seen: &Observed) -> Plan {
        decide(self.state.record.as_deref(), seen, NOW)
    }

    pub(super) fn seen(&self) -> Observed {
        self.state.observe(&self.config, 0, &self.eyes(), None)
    }

    pub(super) fn record(&self) -> &Record {
        self.state.record.as_deref().expect("there is a record")
    }

    pub(super) fn role(&self, pod: u8) -> Role {
        self.state.pod(pod).expect("there is such a pod").db.role()
    }

    pub(super) fn roles(&self) -> Vec<Role> {
        self.state.pods.iter().map(|p| p.db.role()).collect()
    }

    /// `SHOW REPLICAS` on this pod, in the words of the core.
    pub(super) fn listed(&self, main: u8) -> Vec<Registration> {
        self.seen()
            .answer(Ordinal(main))
            .and_then(|a| a.replicas.clone())
            .unwrap_or_default()
    }

    pub(super) fn registration(&self, main: u8, pod: u8) -> Option<Registration> {
        self.listed(main)
            .into_iter()
            .find(|r| r.name.pod() == Ordinal(pod))
    }

    /// Where this gateway sends new sessions.
    pub(super) fn route(&self, gateway: usize) -> Option<u8> {
        self.state.gateways[gateway].gate.route().map(|r| r.pod.0)
    }

    pub(super) fn open(&self) -> bool {
        self.state
            .record
            .as_ref()
            .is_some_and(|r| r.state == Phase::Serving && r.writes == Writes::Open)
    }

    pub(super) fn serves(&self, pod: u8) -> bool {
        let serving =
            |r: &Record| r.state == Phase::Serving && r.main.as_ref().is_some_and(|m| m.pod == Ordinal(pod));
        self.state.record.as_deref().is_some_and(serving)
    }

    pub(super) fn holds(&self, pod: u8, write: WriteId) -> bool {
        self.state
            .pod(pod)
            .is_some_and(|p| p.db.store().writes.contains(write))
    }

    /// A client begins a write through this gateway; `None` if it is refused.
    pub(super) fn begin_write(&mut self, gateway: u8) -> Option<(u8, WriteId)> {
        self.all([Action::Read(gateway), Action::Connect(gateway)]);
        self.write_on_session(gateway)
    }

    /// The same on the session that the gateway has.
    pub(super) fn write_on_session(&mut self, gateway: u8) -> Option<(u8, WriteId)> {
        let (pod, _) = self.state.gateways[usize::from(gateway)].session?;
        let write = WriteId(self.state.next_write);
        self.act(Action::Write(gateway));
        (self.state.next_write > write.0).then_some((pod, write))
    }

    /// A client's write, all the way; `None` if it is not acknowledged.
    pub(super) fn write(&mut self) -> Option<WriteId> {
        let (pod, write) = self.begin_write(0)?;
        self.act(Action::CommitLocally(pod));
        if self.state.pods[usize::from(pod)].db.is_two_phase() {
            self.act(Action::Finalize(pod));
        }
        self.act(Action::Acknowledge(pod));
        self.state.acked.contains(write).then_some(write)
    }

    pub(super) fn write_acked(&mut self) -> WriteId {
        match self.write() {
            Some(write) => write,
            None => panic!("the write was not acknowledged\n{}", self.story()),
        }
    }

    /// Somebody writes on this database, past every gateway. Was it committed?
    pub(super) fn write_directly(&mut self, pod: u8) -> bool {
        let write = WriteId(self.state.next_write);
        self.state.next_write += 1;
        let committed = self.state.with_db(pod, |db, net| {
            let begun = match db.begin(Delta::Write(write), net) {
                Ok(Begun::Aborted(_)) | Err(_) => return false,
                Ok(begun) => begun,
            };
            db.commit_locally().unwrap();
            if begun == Begun::Prepared {
                db.finalize(net).unwrap();
            }
            let _ = db.finish().unwrap();
            true
        });
        committed == Some(true)
    }

    /// Somebody makes this database MAIN by hand.
    pub(super) fn promote_by_hand(&mut self, pod: u8) {
        let (epoch, main) = (EpochId(self.state.fresh_id()), MainId(self.state.fresh_id()));
        self.state.pods[usize::from(pod)].db.promote(epoch, main).unwrap();
    }

    /// Somebody makes this database REPLICA by hand.
    pub(super) fn demote_by_hand(&mut self, pod: u8) {
        let main = MainId(self.state.fresh_id());
        self.state.pods[usize::from(pod)].db.demote(main).unwrap();
    }

    /// Somebody registers a replica by hand, under the name of `named`, at the address of `at`.
    pub(super) fn register_by_hand(
        &mut self,
        main: u8,
        named: RegistrationName,
        mode: instance::Mode,
        at: u8,
    ) -> Result<instance::Status, instance::Error> {
        let name = in_model(named);
        let done = self
            .state
            .with_db(main, |db, net| db.register(name, mode, instance::NodeId(at), net));
        assert!(self.state.registered(main, named), "the model names it otherwise");
        done.unwrap()
    }

    /// Whole, at rest, nothing lost, and every pod that runs has every acknowledged write.
    pub(super) fn assert_whole(&self) {
        let story = || format!("{}\n{}", describe(&self.state), self.story());
        assert!(self.state.is_whole(), "not whole: {}", story());
        assert!(
            self.state.gateways.iter().all(|g| g.gate.route().is_some()),
            "a gateway is closed: {}",
            story()
        );
        for pod in self.state.pods.iter().filter(|p| p.alive) {
            assert_eq!(
                self.state.acked.first_missing_in(&pod.db.store().writes),
                None,
                "{}",
                story()
            );
        }
    }

    /// Whole, and every other pod is a ready ASYNC replica of MAIN.
    pub(super) fn assert_complete(&self) {
        self.assert_whole();
        let main = self.state.recorded_main().expect("whole");
        for pod in 0..self.config.spec.replicas {
            let role = self.role(pod);
            assert_eq!(
                role == Role::Main,
                pod == main,
                "{} is {role:?}\n{}",
                Ordinal(pod),
                self.story()
            );
            let mode = if pod < 2 { Mode::StrictSync } else { Mode::Async };
            let row = self
                .registration(main, pod)
                .map(|r| (r.mode, r.status, r.attached, r.behind));
            let wanted = (pod != main).then_some((mode, Status::Ready, true, 0));
            assert_eq!(row, wanted, "{}\n{}", Ordinal(pod), self.story());
        }
    }

    /// A look decides to do nothing, and says this.
    pub(super) fn assert_waits(&self, rule: Rule, why: Why) {
        let plan = self.plan();
        assert_eq!(plan.steps, [], "{}", self.story());
        let said: Vec<_> = plan.reasons.iter().map(|r| (r.rule, r.why)).collect();
        assert!(said.contains(&(rule, why)), "{said:?}\n{}", self.story());
    }

    pub(super) fn role_commands(&self) -> Vec<Step> {
        self.steps
            .iter()
            .filter(|s| s.is_role_command())
            .cloned()
            .collect()
    }

    /// Pods that were registered, in order.
    pub(super) fn registered_pods(&self) -> Vec<u8> {
        let peer = |s: &Step| match s {
            Step::Register { peer, .. } => Some(peer.pod.0),
            _ => None,
        };
        self.steps.iter().filter_map(peer).collect()
    }

    /// Pods whose registration was dropped, in order.
    pub(super) fn dropped_pods(&self) -> Vec<u8> {
        let pod = |s: &Step| match s {
            Step::Drop { name, .. } => Some(name.pod().0),
            _ => None,
        };
        self.steps.iter().filter_map(pod).collect()
    }
}

/// The pods that a plan's role commands and registrations reach.
pub(super) fn touched(plan: &Plan) -> Vec<u8> {
    let pod = |s: &Step| match s {
        Step::Promote(t) | Step::Demote(t) => vec![t.pod.0],
        Step::Register { on, peer, .. } => vec![on.pod.0, peer.pod.0],
        Step::Drop { on, .. }
        | Step::WriteProof { on, .. }
        | Step::AdvanceMark { on, .. }
        | Step::ReadProof { on, .. }
        | Step::RunOnPromotion(on) => vec![on.pod.0],
        _ => Vec::new(),
    };
    plan.steps.iter().flat_map(|p| pod(&p.step)).collect()
}

pub(super) fn promotes(plan: &Plan) -> Vec<u8> {
    let pod = |s: &Step| match s {
        Step::Promote(t) => Some(t.pod.0),
        _ => None,
    };
    plan.steps.iter().filter_map(|p| pod(&p.step)).collect()
}

fn rank(action: Action) -> Option<u8> {
    match action {
        Action::Acknowledge(_) => Some(0),
        Action::Finalize(_) => Some(1),
        Action::CommitLocally(_) => Some(2),
        Action::Heal(..) => Some(3),
        Action::Start(_) => Some(4),
        Action::Tend(..) => Some(5),
        Action::Read(_) => Some(6),
        Action::Step(_) => Some(7),
        Action::Observe(_, Look::Plain) => Some(8),
        _ => None,
    }
}

/// How the model numbers a registration's name; checked where it is used.
fn in_model(name: RegistrationName) -> instance::RegistrationName {
    let number = match name {
        RegistrationName::Async(pod) => u64::from(pod.0) << 28,
        RegistrationName::Strict(pod, generation) => (u64::from(pod.0) << 28) + generation.0 + 1,
    };
    instance::RegistrationName(u32::try_from(number).unwrap())
}
