//! Random plans.

use crate::memgraph::simulate::Chance;
use mainstay_core::hibernation::HibernatePlan;
use mainstay_core::hibernation::ids::{ExecutorName, PlanName, TargetName};
use mainstay_core::hibernation::plan::{
    Behaviour, Deletion, Drift, Edge, Intent, Mode, PlanError, Stage, Strategy, Target,
};
use mainstay_core::schedule::{Schedule, ScheduleError, Window, Zone};
use serde_json::Value;
use std::time::Duration;
use thiserror::Error;

/// The only plan.
pub(super) const PLAN: &str = "staging";

/// The generator made something that is no plan: a fault of the generator.
#[derive(Debug, Error)]
pub(super) enum SpecError {
    #[error(transparent)]
    Name(#[from] mainstay_core::hibernation::ids::NameError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

pub(super) const MOST_TARGETS: u64 = 5;

pub(super) fn target_name(index: u64) -> Result<TargetName, SpecError> {
    Ok(TargetName::parse(&format!("t{index}"))?)
}

/// A plan with some of the possible targets.
pub(super) fn plan(chance: &mut Chance, schedule: Schedule) -> Result<HibernatePlan, SpecError> {
    Ok(HibernatePlan {
        name: PlanName::parse(PLAN)?,
        schedule,
        intent: intent(chance)?,
        overrides: Vec::new(),
        deletion: if chance.one_in(4) {
            Deletion::Abandon
        } else {
            Deletion::WakeFirst
        },
        suspend: false,
        ending: false,
    })
}

pub(super) fn schedule(chance: &mut Chance) -> Result<Schedule, SpecError> {
    let zones = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Jakarta"];
    let zone = zones.get(usize::from(chance.pick(4))).copied().unwrap_or("UTC");
    let days = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];
    let ends = ["06:00", "07:30", "11:00"];
    let end = ends.get(usize::from(chance.pick(3))).copied().unwrap_or("06:00");
    let window = Window::daily("20:00", end, &days)?;
    Ok(Schedule::new(Zone::parse(zone)?, vec![window], Vec::new())?)
}

pub(super) fn intent(chance: &mut Chance) -> Result<Intent, SpecError> {
    let mut names = Vec::new();
    for index in 0..MOST_TARGETS {
        if names.is_empty() || !chance.one_in(3) {
            names.push(target_name(index)?);
        }
    }
    let targets = names
        .iter()
        .map(|name| {
            Ok(Target {
                name: name.clone(),
                executor: ExecutorName::parse(if chance.one_in(6) { "other" } else { "noop" })?,
                parameters: Value::Null,
                ready_within: Duration::from_mins(chance.between(2..20)),
                drift: match chance.below(3) {
                    0 => Drift::Ignore,
                    1 => Drift::Report,
                    _ => Drift::Enforce,
                },
            })
        })
        .collect::<Result<_, SpecError>>()?;
    let behaviour = Behaviour {
        mode: if chance.one_in(2) {
            Mode::Strict
        } else {
            Mode::BestEffort
        },
        retries: chance.pick(4),
    };
    let strategy = strategy(chance, &names);
    Ok(Intent::new(targets, strategy, behaviour)?)
}

fn strategy(chance: &mut Chance, names: &[TargetName]) -> Strategy {
    let max = chance.one_in(2).then(|| 1 + usize::from(chance.pick(3)));
    match chance.below(4) {
        0 => Strategy::Sequential,
        1 => Strategy::Parallel { max },
        2 => {
            let mut edges = Vec::new();
            for (index, from) in names.iter().enumerate() {
                for to in names.iter().skip(index + 1) {
                    if chance.one_in(3) {
                        let (from, to) = (from.clone(), to.clone());
                        edges.push(Edge { from, to });
                    }
                }
            }
            Strategy::Dag { edges, max }
        }
        _ => {
            let cut = usize::from(chance.pick(u8::try_from(names.len()).unwrap_or(1)));
            let stage = |name: &str, targets: &[TargetName], parallel| Stage {
                name: name.to_owned(),
                targets: targets.to_vec(),
                parallel,
                max,
            };
            let parallel = chance.one_in(2);
            let (one, two) = names.split_at_checked(cut).unwrap_or((names, &[]));
            Strategy::Staged(vec![stage("one", one, parallel), stage("two", two, !parallel)])
        }
    }
}
