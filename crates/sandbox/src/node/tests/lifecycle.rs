use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::node::lifecycle::LAST_WORDS;
use crate::node::status::{Place, status};
use crate::node::{Action, BackOff, ContainerId, Event, Exit, Lifecycle, PodSpec, ProbeKind, Stage};

pub(super) fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// A pod and a node that starts whatever it is asked to.
struct Play {
    life: Lifecycle,
    second: i64,
    runs: u32,
}

impl Play {
    fn new(spec: &Value) -> Self {
        let spec = PodSpec::read(&json!({ "spec": spec }));
        Self {
            life: Lifecycle::new(at(0), spec, BackOff::UPSTREAM),
            second: 0,
            runs: 0,
        }
    }

    /// Folders made, first containers started.
    fn started(spec: &Value) -> Self {
        let mut play = Self::new(spec);
        assert_eq!(play.tell(Event::Tick), [Action::Prepare]);
        play.tell(Event::Prepared(Ok(())));
        play
    }

    /// An event; starts are answered at once, everything else is handed out.
    fn tell(&mut self, event: Event) -> Vec<Action> {
        let mut open = self.life.handle(at(self.second), event);
        let mut rest = Vec::new();
        while !open.is_empty() {
            match open.remove(0) {
                Action::Start { container, .. } => {
                    self.runs += 1;
                    let id = ContainerId(format!("{container}#{}", self.runs));
                    open.extend(
                        self.life
                            .handle(at(self.second), Event::Started { container, id }),
                    );
                }
                other => rest.push(other),
            }
        }
        rest
    }

    fn wait(&mut self, seconds: i64) -> Vec<Action> {
        self.second += seconds;
        self.tell(Event::Tick)
    }

    fn exits(&mut self, run: &str, exit: Exit) -> Vec<Action> {
        self.tell(Event::Exited { id: id(run), exit })
    }

    fn probed(&mut self, run: &str, probe: ProbeKind, good: bool) -> Vec<Action> {
        let result = if good { Ok(()) } else { Err("no".to_owned()) };
        self.tell(Event::Probed {
            id: id(run),
            probe,
            result,
        })
    }

    fn delete(&mut self, grace: i64) -> Vec<Action> {
        self.tell(Event::Delete {
            grace: seconds(grace),
        })
    }

    fn runs(&self) -> Vec<String> {
        self.life.runs().into_values().map(|id| id.0.clone()).collect()
    }

    fn status(&self) -> Value {
        let place = Place {
            host: [127, 0, 0, 1].into(),
            pod: [127, 0, 0, 2].into(),
            since: at(0),
        };
        status(at(self.second), &json!({}), &self.life, place)
    }

    fn ready(&self) -> bool {
        let status = self.status();
        let conditions = status["conditions"].as_array().unwrap();
        conditions
            .iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    }

    fn waiting(&self) -> (Value, i64) {
        let until = self
            .life
            .deadline()
            .map_or(0, |until| until.duration_since(at(self.second)).as_secs());
        (
            self.status()["containerStatuses"][0]["state"]["waiting"]["reason"].clone(),
            until,
        )
    }
}

fn id(run: &str) -> ContainerId {
    ContainerId(run.to_owned())
}

fn one(change: Value) -> Value {
    let mut container = json!({ "name": "a", "image": "i" });
    if let (Some(container), Value::Object(change)) = (container.as_object_mut(), change) {
        container.extend(change);
    }
    json!({ "containers": [container] })
}

#[test]
fn init_containers_run_one_after_the_other_before_all_others() {
    let spec = json!({
        "initContainers": [{ "name": "i1" }, { "name": "i2" }],
        "containers": [{ "name": "a" }, { "name": "b" }],
    });
    let mut play = Play::started(&spec);
    assert_eq!(play.runs(), ["i1#1"]);
    assert_eq!(
        play.status()["containerStatuses"][0]["state"]["waiting"]["reason"],
        "PodInitializing"
    );
    play.exits("i1#1", Exit::code(0));
    assert_eq!(play.runs(), ["i2#2"]);
    assert_eq!(play.status()["phase"], "Pending");
    play.exits("i2#2", Exit::code(0));
    assert_eq!(play.runs(), ["a#3", "b#4"]);
    assert_eq!(play.status()["phase"], "Running");
    assert!(play.ready());
}

#[test]
fn an_init_container_that_fails_is_tried_again() {
    let spec = json!({ "initContainers": [{ "name": "i" }], "containers": [{ "name": "a" }] });
    let mut play = Play::started(&spec);
    play.exits("i#1", Exit::code(1));
    assert_eq!(play.runs(), ["i#2"]);
    play.exits("i#2", Exit::code(0));
    assert_eq!(play.runs(), ["a#3"]);
}

#[test]
fn without_restarts_a_failing_init_container_fails_the_pod() {
    let spec = json!({ "restartPolicy": "Never", "initContainers": [{ "name": "i" }], "containers": [{ "name": "a" }] });
    let mut play = Play::started(&spec);
    assert_eq!(play.exits("i#1", Exit::code(3)), []);
    assert_eq!(play.runs(), [""; 0]);
    assert_eq!(play.status()["phase"], "Failed");
}

#[test]
fn folders_that_cannot_be_made_are_tried_again_and_the_pod_says_why() {
    let mut play = Play::new(&one(json!({})));
    play.tell(Event::Tick);
    assert_eq!(
        play.tell(Event::Prepared(Err("secret \"s\" not found".to_owned()))),
        []
    );
    let waiting = play.status()["containerStatuses"][0]["state"]["waiting"].clone();
    assert_eq!(
        waiting,
        json!({ "reason": "ContainerCreating", "message": "secret \"s\" not found" })
    );
    assert_eq!(play.wait(1), [Action::Prepare]);
}

#[test]
fn a_restarted_container_waits_longer_each_time_and_is_forgiven_when_it_ran_well() {
    let mut play = Play::started(&one(json!({})));
    play.exits("a#1", Exit::code(1));
    assert_eq!(play.runs(), ["a#2"], "the first time at once");
    for (run, pause) in [
        ("a#2", 10),
        ("a#3", 20),
        ("a#4", 40),
        ("a#5", 80),
        ("a#6", 160),
        ("a#7", 300),
        ("a#8", 300),
    ] {
        play.exits(run, Exit::code(1));
        assert_eq!(play.waiting(), (json!("CrashLoopBackOff"), pause), "{run}");
        assert_eq!(play.wait(pause - 1), []);
        assert_eq!(play.runs(), [""; 0]);
        play.wait(1);
    }
    play.wait(600);
    play.exits("a#9", Exit::code(1));
    assert_eq!(play.waiting().1, 10);
    assert_eq!(play.status()["containerStatuses"][0]["restartCount"], 8);
}

#[test]
fn an_image_that_is_not_there_is_asked_for_again() {
    let mut play = Play::new(&one(json!({})));
    play.tell(Event::Tick);
    play.life.handle(at(0), Event::Prepared(Ok(())));
    let missing = || Event::NotStarted {
        container: "a".to_owned(),
        reason: "ErrImagePull",
        message: "no".to_owned(),
    };
    play.life.handle(at(0), missing());
    assert_eq!(play.waiting(), (json!("ErrImagePull"), 10));
    play.second = 10;
    let again = play.life.handle(at(10), Event::Tick);
    assert_eq!(
        again,
        [Action::Start {
            container: "a".to_owned(),
            attempt: 0
        }]
    );
    play.life.handle(at(10), missing());
    assert_eq!(play.waiting(), (json!("ImagePullBackOff"), 20));
}

#[test]
fn a_deleted_container_gets_its_hook_then_the_signal_then_no_mercy() {
    let mut play = Play::started(&one(json!({ "lifecycle": { "preStop": {} } })));
    assert_eq!(play.delete(30), [Action::PreStop(id("a#1"))]);
    play.second = 5;
    assert_eq!(
        play.tell(Event::PreStopped { id: id("a#1") }),
        [Action::Terminate(id("a#1"))]
    );
    assert_eq!(play.wait(24), [], "29 seconds after the deletion");
    assert_eq!(play.wait(1), [Action::Kill(id("a#1"))]);
    assert_eq!(play.exits("a#1", Exit::signal(9)), [Action::Gone]);
    assert_eq!(
        play.status()["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        137
    );
    assert_eq!(play.status()["phase"], "Failed");
}

#[test]
fn a_hook_that_hangs_uses_up_the_grace() {
    let mut play = Play::started(&one(json!({ "lifecycle": { "preStop": {} } })));
    play.delete(30);
    assert_eq!(play.wait(30), [Action::Kill(id("a#1"))]);
    assert_eq!(
        play.tell(Event::PreStopped { id: id("a#1") }),
        [],
        "too late to matter"
    );
}

#[test]
fn after_a_slow_hook_there_is_still_time_for_last_words() {
    let mut play = Play::started(&one(json!({ "lifecycle": { "preStop": {} } })));
    play.delete(30);
    play.second = 29;
    play.tell(Event::PreStopped { id: id("a#1") });
    assert_eq!(play.wait(LAST_WORDS.as_secs() - 1), []);
    assert_eq!(play.wait(1), [Action::Kill(id("a#1"))]);
}

#[test]
fn a_second_deletion_can_only_hurry() {
    let mut play = Play::started(&one(json!({})));
    assert_eq!(play.delete(30), [Action::Terminate(id("a#1"))]);
    assert_eq!(play.delete(100), []);
    assert_eq!(play.life.deadline(), Some(at(30)));
    assert_eq!(play.delete(0), [Action::Kill(id("a#1"))]);
}

#[test]
fn a_container_that_is_just_starting_when_its_pod_is_deleted_is_stopped_too() {
    let mut play = Play::new(&one(json!({})));
    play.tell(Event::Tick);
    let started = play.life.handle(at(0), Event::Prepared(Ok(())));
    assert_eq!(
        started,
        [Action::Start {
            container: "a".to_owned(),
            attempt: 0
        }]
    );
    assert_eq!(play.life.handle(at(0), Event::Delete { grace: seconds(5) }), []);
    let actions = play.life.handle(
        at(1),
        Event::Started {
            container: "a".to_owned(),
            id: id("x"),
        },
    );
    assert_eq!(actions, [Action::Terminate(id("x"))]);
    assert_eq!(play.life.stage("a"), Some(Stage::Terminated));
}

#[test]
fn a_pod_that_never_started_is_gone_at_once() {
    let mut play = Play::new(&one(json!({})));
    assert_eq!(play.delete(30), [Action::Gone]);
    assert_eq!(play.wait(100), []);
}

#[test]
fn readiness_comes_and_goes_with_its_thresholds() {
    let probe =
        json!({ "readinessProbe": { "periodSeconds": 5, "failureThreshold": 2, "initialDelaySeconds": 3 } });
    let mut play = Play::started(&one(probe));
    assert_eq!(play.wait(2), []);
    assert_eq!(play.wait(1), [Action::Probe(id("a#1"), ProbeKind::Readiness)]);
    assert!(!play.ready());
    play.probed("a#1", ProbeKind::Readiness, true);
    assert!(play.ready());
    assert_eq!(play.wait(5), [Action::Probe(id("a#1"), ProbeKind::Readiness)]);
    play.probed("a#1", ProbeKind::Readiness, false);
    assert!(play.ready(), "one failure of two");
    play.wait(5);
    play.probed("a#1", ProbeKind::Readiness, false);
    assert!(!play.ready());
    assert_eq!(play.runs(), ["a#1"], "readiness never restarts");
}

#[test]
fn a_container_that_fails_its_liveness_is_stopped_properly_and_started_again() {
    let probe = json!({ "livenessProbe": { "periodSeconds": 1, "failureThreshold": 2 } });
    let mut spec = one(probe);
    spec["terminationGracePeriodSeconds"] = json!(7);
    let mut play = Play::started(&spec);
    assert_eq!(play.probed("a#1", ProbeKind::Liveness, false), []);
    assert_eq!(
        play.probed("a#1", ProbeKind::Liveness, false),
        [Action::Terminate(id("a#1"))]
    );
    assert_eq!(play.wait(7), [Action::Kill(id("a#1"))]);
    play.exits("a#1", Exit::signal(9));
    assert_eq!(play.runs(), ["a#2"]);
}

#[test]
fn until_the_startup_probe_passed_nothing_else_is_asked() {
    let probes =
        json!({ "startupProbe": { "failureThreshold": 3 }, "livenessProbe": {}, "readinessProbe": {} });
    let mut play = Play::new(&one(probes));
    play.tell(Event::Tick);
    let asked = play.tell(Event::Prepared(Ok(())));
    assert_eq!(asked, [Action::Probe(id("a#1"), ProbeKind::Startup)]);
    assert!(!play.ready());
    assert_eq!(play.status()["containerStatuses"][0]["started"], false);
    let asked = play.probed("a#1", ProbeKind::Startup, true);
    let expected = [ProbeKind::Readiness, ProbeKind::Liveness].map(|kind| Action::Probe(id("a#1"), kind));
    assert_eq!(asked, expected);
}

#[test]
fn an_answer_about_an_older_run_says_nothing_about_this_one() {
    let mut play = Play::started(&one(json!({ "readinessProbe": {} })));
    play.exits("a#1", Exit::code(1));
    play.probed("a#1", ProbeKind::Readiness, true);
    assert!(!play.ready());
    assert_eq!(play.exits("a#1", Exit::code(1)), []);
    assert_eq!(play.runs(), ["a#2"]);
}

#[test]
fn a_readiness_gate_holds_the_pod_back() {
    let mut spec = one(json!({}));
    spec["readinessGates"] = json!([{ "conditionType": "example.com/ok" }]);
    let mut play = Play::started(&spec);
    assert!(!play.ready());
    play.tell(Event::Gates(true));
    assert!(play.ready());
}

#[test]
fn a_task_is_over_when_it_succeeded_and_tried_again_when_it_failed() {
    let mut spec = one(json!({}));
    spec["restartPolicy"] = json!("OnFailure");
    let mut play = Play::started(&spec);
    play.exits("a#1", Exit::code(1));
    assert_eq!(play.runs(), ["a#2"]);
    play.exits("a#2", Exit::code(0));
    assert_eq!(play.status()["phase"], "Succeeded");
    assert_eq!(play.life.deadline(), None);
    assert_eq!(play.delete(30), [Action::Gone]);
}

#[test]
fn a_condition_keeps_its_time_while_it_holds() {
    let mut play = Play::started(&one(json!({})));
    let first = play.status();
    let place = Place {
        host: [127, 0, 0, 1].into(),
        pod: [127, 0, 0, 2].into(),
        since: at(0),
    };
    play.second = 60;
    let later = status(at(60), &json!({ "status": first }), &play.life, place);
    assert_eq!(later, first);
    play.exits("a#1", Exit::code(1));
    play.exits("a#2", Exit::code(1));
    let broken = status(at(60), &json!({ "status": first }), &play.life, place);
    let ready = broken["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["type"] == "Ready")
        .unwrap();
    assert_eq!(
        (ready["status"].as_str(), ready["lastTransitionTime"].as_str()),
        (Some("False"), Some("2027-01-15T08:01:00Z"))
    );
}
