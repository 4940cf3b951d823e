use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::lifecycle::{at, seconds};
use crate::node::{Action, BackOff, ContainerId, Event, Exit, Lifecycle, PodSpec, ProbeKind};

/// What may happen to a pod, by chance.
#[derive(Debug, Clone, Copy)]
enum Chance {
    Wait(i64),
    Exit(usize, i32),
    Refuse,
    Probe(usize, bool),
    Hook,
    Delete(i64),
    Gates(bool),
    Prepare(bool),
}

fn chance() -> impl Strategy<Value = Chance> {
    prop_oneof![
        (0..40i64).prop_map(Chance::Wait),
        (any::<usize>(), 0..3i32).prop_map(|(run, code)| Chance::Exit(run, code)),
        Just(Chance::Refuse),
        (any::<usize>(), any::<bool>()).prop_map(|(run, good)| Chance::Probe(run, good)),
        Just(Chance::Hook),
        (0..40i64).prop_map(Chance::Delete),
        any::<bool>().prop_map(Chance::Gates),
        any::<bool>().prop_map(Chance::Prepare),
    ]
}

/// A node that keeps count of its processes.
struct Node {
    life: Lifecycle,
    second: i64,
    alive: BTreeMap<String, ContainerId>,
    asked: Vec<(ContainerId, ProbeKind)>,
    hooks: Vec<ContainerId>,
    signalled: Vec<(ContainerId, &'static str)>,
    runs: u32,
    refuse: bool,
    prepared: bool,
    gone: bool,
}

impl Node {
    fn tell(&mut self, event: Event) -> Result<(), TestCaseError> {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.life.handle(at(self.second), event) {
                events.extend(self.act(action)?);
            }
        }
        prop_assert_eq!(self.life.is_gone(), self.gone);
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<Option<Event>, TestCaseError> {
        prop_assert!(!self.gone, "{:?} after the end", action);
        let runs = |node: &Self, id: &ContainerId| node.alive.values().any(|other| other == id);
        match action {
            Action::Prepare => {
                let result = if self.prepared {
                    Ok(())
                } else {
                    Err("not yet".to_owned())
                };
                return Ok(Some(Event::Prepared(result)));
            }
            Action::Start { container, .. } => {
                prop_assert!(self.prepared, "started without its folders");
                prop_assert!(!self.alive.contains_key(&container), "{} runs twice", container);
                let init = self.alive.keys().any(|name| name.starts_with('i'));
                prop_assert!(!init, "{} beside an init container", container);
                if std::mem::take(&mut self.refuse) {
                    return Ok(Some(Event::NotStarted {
                        container,
                        reason: "ErrImagePull",
                        message: String::new(),
                    }));
                }
                self.runs += 1;
                let id = ContainerId(format!("{container}#{}", self.runs));
                self.alive.insert(container.clone(), id.clone());
                return Ok(Some(Event::Started { container, id }));
            }
            Action::PreStop(id) => {
                prop_assert!(runs(self, &id));
                self.hooks.push(id);
            }
            Action::Terminate(id) => self.signal(id, "TERM")?,
            Action::Kill(id) => self.signal(id, "KILL")?,
            Action::Probe(id, kind) => {
                prop_assert!(runs(self, &id));
                self.asked.push((id, kind));
            }
            Action::Gone => {
                prop_assert!(self.alive.is_empty(), "gone while {:?} run", self.alive);
                self.gone = true;
            }
        }
        Ok(None)
    }

    fn signal(&mut self, id: ContainerId, signal: &'static str) -> Result<(), TestCaseError> {
        prop_assert!(self.alive.values().any(|other| *other == id));
        prop_assert!(
            !self.signalled.contains(&(id.clone(), signal)),
            "{} twice",
            signal
        );
        prop_assert!(
            signal == "KILL" || !self.signalled.contains(&(id.clone(), "KILL")),
            "TERM after KILL"
        );
        self.signalled.push((id, signal));
        Ok(())
    }

    fn exit(&mut self, name: &str, code: i32) -> Result<(), TestCaseError> {
        match self.alive.remove(name) {
            Some(id) => self.tell(Event::Exited {
                id,
                exit: Exit::code(code),
            }),
            None => Ok(()),
        }
    }

    fn happen(&mut self, chance: Chance) -> Result<(), TestCaseError> {
        match chance {
            Chance::Wait(seconds) => {
                self.second += seconds;
                self.tell(Event::Tick)
            }
            Chance::Exit(run, code) => {
                let name = self
                    .alive
                    .keys()
                    .nth(run.checked_rem(self.alive.len()).unwrap_or_default())
                    .cloned();
                name.map_or(Ok(()), |name| self.exit(&name, code))
            }
            Chance::Refuse => {
                self.refuse = true;
                Ok(())
            }
            Chance::Probe(run, good) if !self.asked.is_empty() => {
                let (id, probe) = self.asked.remove(run % self.asked.len());
                self.tell(Event::Probed {
                    id,
                    probe,
                    result: if good { Ok(()) } else { Err(String::new()) },
                })
            }
            Chance::Hook => match self.hooks.pop() {
                Some(id) => self.tell(Event::PreStopped { id }),
                None => Ok(()),
            },
            Chance::Delete(grace) => self.tell(Event::Delete {
                grace: seconds(grace),
            }),
            Chance::Gates(open) => self.tell(Event::Gates(open)),
            Chance::Prepare(possible) => {
                // Folders that are there stay there.
                self.prepared |= possible;
                self.tell(Event::Tick)
            }
            Chance::Probe(..) => Ok(()),
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_a_deleted_pod_ends_and_nothing_runs_twice(
        policy in prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")],
        hook in any::<bool>(),
        chances in prop::collection::vec(chance(), 0..80),
    ) {
        let mut container = json!({ "name": "a", "readinessProbe": {}, "livenessProbe": { "failureThreshold": 1 } });
        if hook {
            container["lifecycle"] = json!({ "preStop": {} });
        }
        let spec = json!({ "spec": {
            "restartPolicy": policy, "terminationGracePeriodSeconds": 10,
            "initContainers": [{ "name": "i1" }, { "name": "i2" }],
            "containers": [container, { "name": "b", "startupProbe": {} }],
        } });
        let mut node = Node {
            life: Lifecycle::new(at(0), PodSpec::read(&spec), BackOff::UPSTREAM),
            second: 0, alive: BTreeMap::new(), asked: Vec::new(), hooks: Vec::new(), signalled: Vec::new(),
            runs: 0, refuse: false, prepared: false, gone: false,
        };
        node.tell(Event::Tick)?;
        for chance in chances {
            node.happen(chance)?;
        }
        node.tell(Event::Delete { grace: seconds(5) })?;
        // From here on time passes, hooks hang, and processes end only when they are killed.
        for _ in 0..100 {
            if node.gone { break }
            let killed: Vec<String> = node.alive.iter()
                .filter(|(_, id)| node.signalled.contains(&((*id).clone(), "KILL")))
                .map(|(name, _)| name.clone())
                .collect();
            for name in killed {
                node.exit(&name, 137)?;
            }
            node.happen(Chance::Wait(1))?;
        }
        prop_assert!(node.gone, "{:?}", node.life);
    }
}
