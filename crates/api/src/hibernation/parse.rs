//! From what a user wrote to what the decisions take.

use super::exception::{ExceptionType, ScheduleException, ScheduleExceptionSpec};
use super::spec::{
    Behavior, BehaviorMode, DeletionPolicy, Dependency, DriftPolicy, HibernatePlanSpec, OffHours,
    ScheduleSpec, StageSpec, StrategySpec, StrategyType, TargetSpec, WeekInterval,
};
use crate::times::{self, moment};
use mainstay_core::hibernation::HibernatePlan;
use mainstay_core::hibernation::ids::{ExecutorName, NameError, PlanName, TargetName};
use mainstay_core::hibernation::plan::{
    Behaviour, Deletion, Drift, Edge, Intent, Mode, PlanError, Stage, Strategy, Target, TargetOverride,
};
use mainstay_core::schedule::{
    Cover, Exception, Holiday, Kind, Override, Schedule, ScheduleError, Span, Window, Zone,
};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use thiserror::Error;

/// A plan that the schema let through and that still cannot be followed. Nothing is touched because of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadPlan {
    /// The schedule, or an exception to it.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// Targets or their order.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Not a length of time.
    #[error("`{field}` is `{value}`: write a whole number with ms, s, m or h, such as 10m")]
    Duration {
        /// Where.
        field: &'static str,
        /// What is there.
        value: String,
    },
    /// Not a moment.
    #[error("exception `{exception}`: `{value}` is not a time: write one such as 2026-12-24T18:00:00+01:00")]
    Moment {
        /// Of which exception.
        exception: String,
        /// What is there.
        value: String,
    },
    /// An exception that speaks of a target that is not there.
    #[error(
        "exception `{exception}` changes the target `{target}`, and the plan has none of that name: that change is left out"
    )]
    UnknownTarget {
        /// Which exception.
        exception: String,
        /// What it names.
        target: TargetName,
    },
}

impl BadPlan {
    /// The reason of a condition.
    pub fn id(&self) -> &'static str {
        match self {
            Self::Schedule(_) | Self::Moment { .. } => "ScheduleInvalid",
            Self::Plan(_) | Self::Name(_) | Self::Duration { .. } | Self::UnknownTarget { .. } => {
                "PlanInvalid"
            }
        }
    }
}

/// The plan that the decisions follow: what is declared, what is different this time, and what somebody asked for.
///
/// What is wrong with an exception is left out, and told by [`bad_exceptions`]: one that was forgotten somewhere must not
/// keep a plan from waking what sleeps.
pub fn follow(
    name: &str,
    spec: &HibernatePlanSpec,
    exceptions: &[ScheduleException],
    wanted: Option<Override>,
) -> Result<HibernatePlan, BadPlan> {
    let targets: Vec<Target> = spec.targets.iter().map(target).collect::<Result<_, _>>()?;
    let Behavior { mode, retries } = &spec.behavior;
    let behaviour = Behaviour {
        mode: match mode {
            BehaviorMode::Strict => Mode::Strict,
            BehaviorMode::BestEffort => Mode::BestEffort,
        },
        retries: *retries,
    };
    let intent = Intent::new(targets, strategy(&spec.execution.strategy)?, behaviour)?;
    let plan = follow_recorded(name, spec, exceptions, wanted, intent)?;
    Ok(HibernatePlan {
        ending: false,
        ..plan
    })
}

/// The same with the targets and the order that were recorded when its cycle began, and only to the end of that: whatever
/// is made of them while something sleeps, it is woken in time.
pub fn follow_recorded(
    name: &str,
    spec: &HibernatePlanSpec,
    exceptions: &[ScheduleException],
    wanted: Option<Override>,
    intent: Intent,
) -> Result<HibernatePlan, BadPlan> {
    let HibernatePlanSpec {
        schedule,
        execution: _,
        behavior: _,
        suspend,
        deletion_policy,
        targets: _,
    } = spec;
    let names = intent.targets.iter().map(|t| t.name.clone()).collect();
    let Excepted {
        exceptions,
        overrides,
        bad: _,
    } = excepted(exceptions, &names);
    Ok(HibernatePlan {
        name: PlanName::parse(name)?,
        schedule: self::schedule(schedule)?
            .with_exceptions(exceptions)
            .with_override(wanted),
        intent,
        overrides,
        deletion: match deletion_policy {
            DeletionPolicy::WakeFirst => Deletion::WakeFirst,
            DeletionPolicy::Abandon => Deletion::Abandon,
        },
        suspend: *suspend,
        ending: true,
    })
}

/// What cannot be followed of the exceptions to a plan, with their names.
pub fn bad_exceptions(spec: &HibernatePlanSpec, exceptions: &[ScheduleException]) -> Vec<(String, BadPlan)> {
    let names = spec
        .targets
        .iter()
        .filter_map(|t| TargetName::parse(&t.name).ok());
    excepted(exceptions, &names.collect()).bad
}

/// Exceptions as the decisions take them.
#[derive(Default)]
struct Excepted {
    exceptions: Vec<Exception>,
    overrides: Vec<TargetOverride>,
    bad: Vec<(String, BadPlan)>,
}

fn excepted(objects: &[ScheduleException], targets: &BTreeSet<TargetName>) -> Excepted {
    let mut all = Excepted::default();
    for object in objects {
        let name = object.metadata.name.clone().unwrap_or_default();
        match exception(&name, &object.spec) {
            Err(bad) => all.bad.push((name, bad)),
            Ok(exception) => {
                let (changes, bad) = changes(&name, &object.spec, &exception, targets);
                all.overrides.extend(changes);
                all.bad.extend(bad.into_iter().map(|bad| (name.clone(), bad)));
                all.exceptions.push(exception);
            }
        }
    }
    all
}

/// The targets that can be read, whatever is wrong with the others and their order: it does not make what they name
/// anybody else's.
pub fn claimed(spec: &HibernatePlanSpec) -> Vec<Target> {
    spec.targets.iter().filter_map(|t| target(t).ok()).collect()
}

/// What is left of a plan that is being deleted and cannot be followed: nothing sleeps any more, and every target that
/// can be read is known. Otherwise a wrong zone would keep the plan, and what it put to sleep, for ever.
pub fn last_will(name: &str, spec: &HibernatePlanSpec) -> Result<HibernatePlan, BadPlan> {
    let never = Holiday::parse("1970-01-01", "")?;
    Ok(HibernatePlan {
        name: PlanName::parse(name)?,
        schedule: Schedule::new(Zone::parse("UTC")?, Vec::new(), vec![never])?,
        intent: Intent {
            targets: claimed(spec),
            strategy: Strategy::Parallel { max: None },
            behaviour: Behaviour::default(),
        },
        overrides: Vec::new(),
        deletion: match spec.deletion_policy {
            DeletionPolicy::WakeFirst => Deletion::WakeFirst,
            DeletionPolicy::Abandon => Deletion::Abandon,
        },
        suspend: false,
        ending: true,
    })
}

/// One exception alone.
pub fn read_exception(object: &ScheduleException) -> Result<Exception, BadPlan> {
    exception(object.metadata.name.as_deref().unwrap_or_default(), &object.spec)
}

fn schedule(spec: &ScheduleSpec) -> Result<Schedule, ScheduleError> {
    let ScheduleSpec {
        timezone,
        off_hours,
        intervals,
        holidays,
    } = spec;
    let zone = Zone::parse(timezone)?;
    let holidays = holidays.iter().map(|day| Holiday::parse(&day.date, &day.name));
    Schedule::new(
        zone,
        windows(off_hours, intervals)?,
        holidays.collect::<Result<_, _>>()?,
    )
}

fn windows(daily: &[OffHours], weekly: &[WeekInterval]) -> Result<Vec<Window>, ScheduleError> {
    let daily = daily.iter().map(|window| {
        let days: Vec<&str> = window.days_of_week.iter().map(|day| day.name()).collect();
        Window::daily(&window.start, &window.end, &days)
    });
    let weekly = weekly
        .iter()
        .map(|WeekInterval { from, to }| Window::interval(from, to));
    daily.chain(weekly).collect()
}

fn target(spec: &TargetSpec) -> Result<Target, BadPlan> {
    let TargetSpec {
        name,
        executor,
        parameters,
        ready_within,
        drift,
    } = spec;
    Ok(Target {
        name: TargetName::parse(name)?,
        executor: ExecutorName::parse(executor)?,
        // Nothing at all is what a target has that only its restore point knows.
        parameters: match parameters {
            Value::Null => Value::Object(Map::new()),
            written => written.clone(),
        },
        ready_within: duration("targets.readyWithin", ready_within)?,
        drift: match drift {
            DriftPolicy::Ignore => Drift::Ignore,
            DriftPolicy::Report => Drift::Report,
            DriftPolicy::Enforce => Drift::Enforce,
        },
    })
}

fn duration(field: &'static str, text: &str) -> Result<Duration, BadPlan> {
    times::duration(text).ok_or_else(|| BadPlan::Duration {
        field,
        value: text.to_owned(),
    })
}

fn strategy(spec: &StrategySpec) -> Result<Strategy, BadPlan> {
    let StrategySpec {
        kind,
        max_concurrency,
        dependencies,
        stages,
    } = spec;
    let max = max_concurrency.map(usize::from);
    Ok(match kind {
        StrategyType::Sequential => Strategy::Sequential,
        StrategyType::Parallel => Strategy::Parallel { max },
        StrategyType::Dag => Strategy::Dag {
            edges: dependencies.iter().map(edge).collect::<Result<_, _>>()?,
            max,
        },
        StrategyType::Staged => Strategy::Staged(stages.iter().map(stage).collect::<Result<_, _>>()?),
    })
}

fn edge(Dependency { from, to }: &Dependency) -> Result<Edge, NameError> {
    Ok(Edge {
        from: TargetName::parse(from)?,
        to: TargetName::parse(to)?,
    })
}

fn stage(spec: &StageSpec) -> Result<Stage, NameError> {
    let StageSpec {
        name,
        targets,
        parallel,
        max_concurrency,
    } = spec;
    Ok(Stage {
        name: name.clone(),
        targets: targets
            .iter()
            .map(|t| TargetName::parse(t))
            .collect::<Result<_, _>>()?,
        parallel: *parallel,
        max: max_concurrency.map(usize::from),
    })
}

fn exception(name: &str, spec: &ScheduleExceptionSpec) -> Result<Exception, BadPlan> {
    let at = |text: &String| {
        moment(text).ok_or_else(|| BadPlan::Moment {
            exception: name.to_owned(),
            value: text.clone(),
        })
    };
    let valid = Span {
        from: at(&spec.valid_from)?,
        to: at(&spec.valid_until)?,
    };
    let kind = match spec.kind {
        ExceptionType::Extend => Kind::Extend,
        ExceptionType::Suspend => Kind::Suspend {
            lead: match &spec.lead_time {
                Some(lead) => duration("leadTime", lead)?,
                None => Duration::ZERO,
            },
        },
        ExceptionType::Replace => Kind::Replace,
    };
    let cover = Cover::of(windows(&spec.windows, &spec.intervals)?);
    Ok(Exception::new(name, valid, kind, cover)?)
}

/// What an exception changes about targets, and what it cannot.
fn changes(
    name: &str,
    spec: &ScheduleExceptionSpec,
    exception: &Exception,
    targets: &BTreeSet<TargetName>,
) -> (Option<TargetOverride>, Vec<BadPlan>) {
    let (mut disabled, mut parameters) = (BTreeSet::new(), BTreeMap::new());
    let mut bad = Vec::new();
    for change in &spec.targets {
        match TargetName::parse(&change.name) {
            Err(error) => bad.push(error.into()),
            Ok(target) if !targets.contains(&target) => bad.push(BadPlan::UnknownTarget {
                exception: name.to_owned(),
                target,
            }),
            Ok(target) if change.disabled => {
                disabled.insert(target);
            }
            Ok(target) => parameters.extend(change.parameters.clone().map(|value| (target, value))),
        }
    }
    let changes = !(disabled.is_empty() && parameters.is_empty());
    let change = changes.then(|| TargetOverride {
        exception: name.to_owned(),
        valid: exception.valid(),
        disabled,
        parameters,
    });
    (change, bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::schedule::{Desired, rfc3339};
    use mainstay_core::time::Time;
    use serde_json::json;

    fn spec(change: impl FnOnce(&mut Value)) -> HibernatePlanSpec {
        let mut value = json!({
            "schedule": {
                "timezone": "Europe/Berlin",
                "offHours": [{ "start": "20:00", "end": "06:00", "daysOfWeek": ["MON", "TUE", "WED", "THU"] }],
                "intervals": [{ "from": "FRI 20:00", "to": "MON 06:00" }],
            },
            "targets": [
                { "name": "web", "executor": "workloads", "parameters": { "a": 1 } },
                { "name": "db", "executor": "memgraph", "readyWithin": "5m", "drift": "Enforce" },
            ],
        });
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    fn refused(change: impl FnOnce(&mut Value)) -> String {
        follow("p", &spec(change), &[], None).unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_reaches_the_decisions() {
        let plan = follow("staging", &spec(|_| {}), &[], None).unwrap();
        assert_eq!(plan.intent.strategy, Strategy::Sequential);
        let [web, db] = plan.intent.targets.as_slice() else {
            panic!("two targets")
        };
        assert_eq!(
            (web.parameters.clone(), web.drift),
            (json!({ "a": 1 }), Drift::Ignore)
        );
        assert_eq!(
            (db.ready_within, db.drift),
            (Duration::from_mins(5), Drift::Enforce)
        );
        // 2026-11-14 is a Saturday: the interval covers it.
        let noon = Time(1_794_654_000_000);
        assert_eq!(rfc3339(noon), "2026-11-14T11:00:00Z");
        assert_eq!(plan.schedule.at(noon).desired, Desired::Asleep);
    }

    #[test]
    fn what_the_schema_cannot_refuse_is_refused_here() {
        assert!(refused(|s| s["schedule"]["timezone"] = json!("Europe/Bielefeld")).contains("IANA"));
        assert!(
            refused(|s| s["schedule"]["holidays"] = json!([{ "date": "2026-02-30" }])).contains("YYYY-MM-DD")
        );
        assert!(refused(|s| s["targets"][0]["readyWithin"] = json!("1d")).contains("readyWithin"));
        let circle = json!({ "strategy": { "type": "DAG", "dependencies": [
            { "from": "web", "to": "db" }, { "from": "db", "to": "web" },
        ] } });
        assert!(refused(|s| s["execution"] = circle).contains("circle"));
        let twice = json!({ "strategy": { "type": "Staged", "stages": [
            { "name": "a", "targets": ["web", "db"] }, { "name": "b", "targets": ["db"] },
        ] } });
        assert!(refused(|s| s["execution"] = twice).contains("two stages"));
        assert!(follow("a.b", &spec(|_| {}), &[], None).is_err());
    }

    #[test]
    fn exceptions_change_the_schedule_and_the_targets() {
        let object = |targets: Value| -> ScheduleException {
            serde_json::from_value(json!({
                "apiVersion": "mainstay.dev/v1alpha1", "kind": "ScheduleException",
                "metadata": { "name": "release" },
                "spec": {
                    "planRef": { "name": "p" }, "type": "extend", "targets": targets,
                    "validFrom": "2026-11-16T08:00:00Z", "validUntil": "2026-11-16T12:00:00Z",
                },
            }))
            .unwrap()
        };
        let noon = Time(1_794_823_200_000);
        assert_eq!(rfc3339(noon), "2026-11-16T10:00:00Z");
        let extended =
            object(json!([{ "name": "web", "disabled": true }, { "name": "db", "parameters": { "x": 2 } }]));
        let plan = follow("p", &spec(|_| {}), &[extended], None).unwrap();
        assert_eq!(plan.schedule.at(noon).desired, Desired::Asleep);
        let intent = plan.intent_at(noon);
        assert_eq!(intent.targets.len(), 1);
        assert_eq!(intent.targets[0].parameters, json!({ "x": 2 }));
    }

    #[test]
    fn an_exception_that_makes_no_sense_is_left_out_and_named_and_the_plan_is_followed() {
        let object = |name: &str, until: &str, targets: Value| -> ScheduleException {
            serde_json::from_value(json!({
                "apiVersion": "mainstay.dev/v1alpha1", "kind": "ScheduleException",
                "metadata": { "name": name },
                "spec": {
                    "planRef": { "name": "p" }, "type": "extend", "targets": targets,
                    "validFrom": "2026-11-16T08:00:00Z", "validUntil": until,
                },
            }))
            .unwrap()
        };
        let noon = Time(1_794_823_200_000);
        let until = "2026-11-16T12:00:00Z";
        let stranger = object(
            "stranger",
            until,
            json!([{ "name": "cache", "disabled": true }, { "name": "web", "disabled": true }]),
        );
        let endless = object("endless", "tomorrow", json!([]));
        let all = [stranger, endless];
        let plan = follow("p", &spec(|_| {}), &all, None).unwrap();
        // What can be followed of the first one counts: its hours, and what it says of a target that is there.
        assert_eq!(plan.schedule.at(noon).desired, Desired::Asleep);
        assert_eq!(plan.intent_at(noon).targets.len(), 1);
        assert_eq!(plan.schedule.exceptions().len(), 1);
        let bad = bad_exceptions(&spec(|_| {}), &all);
        let told: Vec<String> = bad.iter().map(|(name, bad)| format!("{name}: {bad}")).collect();
        assert!(
            told[0].starts_with("stranger: ") && told[0].contains("`cache`"),
            "{told:?}"
        );
        assert!(
            told[1].starts_with("endless: ") && told[1].contains("tomorrow"),
            "{told:?}"
        );
        assert_eq!(told.len(), 2);
    }
}
