//! What slept, and how long of it ran all the same. Written when it changes, which is when somebody starts or stops
//! something at night; for people who ask what sleeping saved, and for nothing else.

use super::status::Report;
use crate::clock::rfc3339;
use api::hibernation::{CycleStatus, HibernatePlanStatus, SleptStatus};
use mainstay_core::hibernation::ids::TargetName;
use mainstay_core::hibernation::observed::{Look, Power};
use mainstay_core::hibernation::state::{Cycle, State};
use mainstay_core::time::Time;

/// Seconds from a moment that was written down.
fn seconds_since(text: &str, now: Time) -> u64 {
    let then = text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_second);
    let then = then.ok().and_then(|s| u64::try_from(s).ok());
    then.map_or(0, |then| (now.0 / 1000).saturating_sub(then))
}

impl Report<'_> {
    /// How many of what this cycle recorded run now; `None`: nobody has looked.
    fn running(&self, target: &TargetName) -> Option<u64> {
        let look: &Look = self.looks.get(target).and_then(|look| look.as_ref().ok())?;
        let recorded = self.recorded.get(target)?;
        let up = look
            .iter()
            .filter(|(id, r)| r.power == Power::Up && recorded.contains(*id));
        Some(u64::try_from(up.count()).unwrap_or(u64::MAX))
    }
}

/// The same after so many run now.
fn next(
    before: Option<&SleptStatus>,
    name: &TargetName,
    resources: u64,
    running: u64,
    now: Time,
) -> SleptStatus {
    let mut leaked = before.map_or(0, |b| b.leaked_seconds);
    let known = before.and_then(|b| Some((b.running?, b.since.as_deref()?)));
    if let Some((count, since)) = known {
        if count == running {
            // Nothing changed: what is written down stays as it is.
            return SleptStatus {
                resources,
                ..before.cloned().unwrap_or_else(|| slept(name, resources, leaked))
            };
        }
        leaked += count.saturating_mul(seconds_since(since, now));
    }
    let mut next = slept(name, resources, leaked);
    if running > 0 {
        next.running = Some(running);
        next.since = Some(rfc3339(now));
    }
    next
}

fn slept(name: &TargetName, resources: u64, leaked_seconds: u64) -> SleptStatus {
    SleptStatus {
        name: name.to_string(),
        resources,
        leaked_seconds,
        running: None,
        since: None,
    }
}

/// What the open cycle put to sleep.
pub(super) fn asleep(before: &HibernatePlanStatus, cycle: &Cycle, report: &Report<'_>) -> Vec<SleptStatus> {
    let one = |name: &TargetName| {
        let known = before.asleep.iter().find(|s| s.name == name.as_str());
        let recorded = report.recorded.get(name);
        let recorded = recorded.map(|ids| u64::try_from(ids.len()).unwrap_or(u64::MAX));
        let resources = recorded
            .or_else(|| known.map(|k| k.resources))
            .unwrap_or_default();
        // In every phase: a night in which nothing could be stopped saved nothing, and neither did a day in between.
        let running = report.running(name);
        let running = running
            .or_else(|| known.and_then(|k| k.running))
            .unwrap_or_default();
        next(known, name, resources, running, report.now)
    };
    cycle.targets.keys().map(one).collect()
}

/// The last cycles, with what slept in each.
pub(super) fn history(before: &HibernatePlanStatus, state: &State, now: Time) -> Vec<CycleStatus> {
    let past = state.history.iter();
    past.map(|past| {
        let known = before.history.iter().find(|c| c.cycle == past.id.0);
        let targets = match known {
            Some(known) => known.targets.clone(),
            None => closed(&before.asleep, now),
        };
        CycleStatus {
            cycle: past.id.0,
            began: rfc3339(past.began),
            ended: rfc3339(past.ended),
            targets,
        }
    })
    .collect()
}

fn closed(asleep: &[SleptStatus], now: Time) -> Vec<SleptStatus> {
    let one = |s: &SleptStatus| {
        let open = s.running.zip(s.since.as_deref());
        let more = open.map_or(0, |(count, since)| {
            count.saturating_mul(seconds_since(since, now))
        });
        SleptStatus {
            leaked_seconds: s.leaked_seconds + more,
            running: None,
            since: None,
            ..s.clone()
        }
    };
    asleep.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::status::Followed;
    use super::*;
    use mainstay_core::hibernation::ids::{CycleId, ExecutorName, ResourceId};
    use mainstay_core::hibernation::observed::Resource;
    use mainstay_core::hibernation::plan::{
        Behaviour, DEFAULT_GATE, Drift, Intent, PlanError, Strategy, Target,
    };
    use std::collections::BTreeMap;

    #[test]
    fn s87_what_ran_at_night_is_counted_by_resource_and_second() {
        let name = TargetName::parse("web").unwrap();
        let at = |minutes: u64| Time(1_794_830_400_000 + minutes * 60_000);
        let quiet = next(None, &name, 3, 0, at(0));
        assert_eq!((quiet.leaked_seconds, quiet.running), (0, None));
        let two = next(Some(&quiet), &name, 3, 2, at(10));
        assert_eq!(two.running, Some(2));
        assert_eq!(
            next(Some(&two), &name, 3, 2, at(20)),
            two,
            "nothing is written while nothing changes"
        );
        let one = next(Some(&two), &name, 3, 1, at(30));
        assert_eq!(one.leaked_seconds, 2 * 20 * 60);
        let none = next(Some(&one), &name, 3, 0, at(40));
        assert_eq!((none.leaked_seconds, none.running), (2 * 20 * 60 + 10 * 60, None));
        assert_eq!(closed(&[one], at(40)), [none]);
    }

    #[test]
    fn s87_a_night_in_which_nothing_could_be_stopped_saves_nothing() {
        let name = TargetName::parse("web").unwrap();
        let id = |text: &str| ResourceId::parse(text).unwrap();
        let up = |power| Resource {
            power,
            settled: true,
            state: serde_json::Value::Null,
            version: None,
            selected: true,
            skip: None,
        };
        let target = Target {
            name: name.clone(),
            executor: ExecutorName::parse("noop").unwrap(),
            parameters: serde_json::Value::Null,
            ready_within: DEFAULT_GATE,
            drift: Drift::Ignore,
        };
        let intent = Intent::new(vec![target], Strategy::Sequential, Behaviour::default()).unwrap();
        let cycle = Cycle::begin(CycleId(1), intent, Time(0));
        let bad = api::hibernation::BadPlan::Plan(PlanError::NoTargets);
        let at = |minutes: u64| Time(1_794_830_400_000 + minutes * 60_000);
        let told = |before: &HibernatePlanStatus, recorded: &[&str], power, now| {
            let recorded = BTreeMap::from([(name.clone(), recorded.iter().map(|r| id(r)).collect())]);
            // `stranger` runs, and was never recorded.
            let look: Look = [("a", up(power)), ("b", up(power)), ("stranger", up(Power::Up))]
                .map(|(text, seen)| (id(text), seen))
                .into();
            let report = Report {
                followed: Followed::Not(&bad),
                outlook: None,
                reasons: &[],
                recorded: &recorded,
                looks: &BTreeMap::from([(name.clone(), Ok(look))]),
                selected: true,
                watched: true,
                error: None,
                notes: &[],
                now,
            };
            HibernatePlanStatus {
                asleep: asleep(before, &cycle, &report),
                ..HibernatePlanStatus::default()
            }
        };
        let begun = told(&HibernatePlanStatus::default(), &["a", "b"], Power::Up, at(0));
        assert_eq!((begun.asleep[0].resources, begun.asleep[0].running), (2, Some(2)));
        // The stop is refused all night: ten hours of two, and nothing was saved.
        let night = closed(&begun.asleep, at(600)).remove(0);
        assert_eq!(night.leaked_seconds, 2 * 600 * 60);
        // Stopped after a minute, only that minute leaked.
        let slept = told(&begun, &["a", "b"], Power::Down, at(1));
        assert_eq!(
            (slept.asleep[0].running, slept.asleep[0].leaked_seconds),
            (None, 120)
        );
        // Nothing was recorded in this cycle: nothing slept.
        let none = told(&HibernatePlanStatus::default(), &[], Power::Up, at(0));
        assert_eq!((none.asleep[0].resources, none.asleep[0].running), (0, None));
    }
}
