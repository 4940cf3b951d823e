//! The next days as a person should see them before a plan is applied, by the code that the operator runs.

use super::files::{self, Declared};
use super::{Where, table, written};
use anyhow::{Context, Result};
use api::hibernation::wishes::Asked;
use api::hibernation::{bad_exceptions, follow};
use clap::Args;
use kube::ResourceExt;
use mainstay_core::hibernation::HibernatePlan;
use mainstay_core::schedule::preview::{Entry, preview};
use mainstay_core::schedule::{Desired, rfc3339};
use mainstay_core::time::Time;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(crate) struct Arguments {
    /// A plan that is applied already; without it, files.
    name: Option<String>,
    /// Files with the plan and its exceptions.
    #[arg(long, short, conflicts_with = "name")]
    file: Vec<PathBuf>,
    /// How many days.
    #[arg(long, default_value_t = 14, value_parser = clap::value_parser!(u32).range(1..=366))]
    days: u32,
    /// From when, as RFC 3339; now if not given.
    #[arg(long)]
    from: Option<jiff::Timestamp>,
    #[command(flatten)]
    place: Where,
}

/// What is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    plan: String,
    timezone: String,
    from: String,
    to: String,
    intervals: Vec<Stretch>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stretch {
    desired: Desired,
    from: String,
    to: String,
    from_local: String,
    to_local: String,
    minutes: u64,
    begins: String,
    ends: String,
    /// What decides in it, one after the other.
    because: Vec<Decides>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    clocks_change: Vec<String>,
    longer_than_72_hours: bool,
}

/// What decides from a moment on.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Decides {
    from: String,
    from_local: String,
    why: String,
}

pub(crate) async fn command(arguments: Arguments) -> Result<()> {
    let Arguments {
        name,
        file,
        days,
        from,
        place,
    } = arguments;
    let Declared { plan, exceptions } = match &name {
        None => {
            anyhow::ensure!(!file.is_empty(), "name a plan, or give files with -f");
            files::read(&file)?
        }
        Some(name) => {
            let client = place.client().await?;
            let plan = place.plan(&client, name).await?;
            let exceptions = place.exceptions(&client, name).await?;
            Declared { plan, exceptions }
        }
    };
    let wanted = Asked::read(plan.annotations()).wanted;
    let followed = follow(&plan.name_any(), &plan.spec, &exceptions, wanted)?;
    let bad = bad_exceptions(&plan.spec, &exceptions);
    let from = match from {
        Some(at) => Time(u64::try_from(at.as_millisecond()).context("a time before 1970")?),
        None => ::operator::clock::wall(),
    };
    let mut shown = shown(&followed, from, days);
    shown
        .notes
        .extend(bad.into_iter().map(|(_, bad)| bad.to_string()));
    print!("{}", written(&shown, place.output, text)?);
    Ok(())
}

fn shown(plan: &HibernatePlan, from: Time, days: u32) -> Shown {
    let to = from + Duration::from_hours(24) * days;
    let entries = preview(&plan.schedule, from, to);
    let collisions = plan.schedule.collisions().into_iter().map(|(a, b)| {
        let (a, b) = (a.name(), b.name());
        format!("exceptions `{a}` and `{b}` are of one type and valid at the same time: their windows count together")
    });
    let mut notes: Vec<String> = collisions.collect();
    if entries.iter().all(|e| e.interval.desired == Desired::Awake) {
        notes.push("nothing sleeps in these days".to_owned());
    }
    Shown {
        plan: plan.name.to_string(),
        timezone: plan.schedule.zone().to_string(),
        from: rfc3339(from),
        to: rfc3339(to),
        intervals: entries.iter().map(stretch).collect(),
        notes,
    }
}

fn stretch(entry: &Entry) -> Stretch {
    let Entry {
        interval,
        begins_local,
        ends_local,
        because,
        clocks_change,
        long,
    } = entry;
    let because = because.iter().map(|one| Decides {
        from: rfc3339(one.from),
        from_local: one.from_local.clone(),
        why: one.why.to_string(),
    });
    let changes = clocks_change.iter().map(|change| {
        let way = if change.by_minutes > 0 { "forward" } else { "back" };
        format!(
            "the clocks are put {way} by {} minutes: {}",
            change.by_minutes.abs(),
            change.local
        )
    });
    Stretch {
        desired: interval.desired,
        from: rfc3339(interval.from),
        to: rfc3339(interval.to),
        from_local: begins_local.clone(),
        to_local: ends_local.clone(),
        minutes: interval.to.since(interval.from).as_secs() / 60,
        begins: interval.begins.to_string(),
        ends: interval.ends.to_string(),
        because: because.collect(),
        clocks_change: changes.collect(),
        longer_than_72_hours: *long,
    }
}

fn text(shown: &Shown) -> String {
    let Shown {
        plan,
        timezone,
        from: _,
        to: _,
        intervals,
        notes,
    } = shown;
    let mut rows = vec![
        ["", "FROM", "TO", "LENGTH", "BECAUSE"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for one in intervals {
        let word = match one.desired {
            Desired::Asleep => "asleep",
            Desired::Awake => "awake",
        };
        let length = format!("{}h{:02}", one.minutes / 60, one.minutes % 60);
        rows.push(vec![
            word.to_owned(),
            one.from_local.clone(),
            one.to_local.clone(),
            length,
            one.begins.clone(),
        ]);
    }
    let mut lines = table(&rows).lines().map(str::to_owned).collect::<Vec<_>>();
    // What a person should notice stands right below the line it is about.
    for (index, one) in intervals.iter().enumerate().rev() {
        let later = one.because.iter().skip(1);
        let mut remarks: Vec<String> = later
            .map(|Decides { from_local, why, .. }| format!("  from {from_local}: {why}"))
            .collect();
        remarks.extend(one.clocks_change.iter().map(|change| format!("! {change}")));
        if one.longer_than_72_hours {
            remarks.push("! this sleep is longer than 72 hours: is it meant?".to_owned());
        }
        for remark in remarks.into_iter().rev() {
            lines.insert(index + 2, format!("        {remark}"));
        }
    }
    lines.extend(notes.iter().map(|note| format!("! {note}")));
    format!("{plan}, all times in {timezone}\n\n{}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hibernate::Output;
    use std::path::Path;

    fn example(names: &[&str], from: &str, days: u32) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hibernation");
        let files: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
        let Declared { plan, exceptions } = files::read(&files).unwrap();
        let plan = follow(&plan.name_any(), &plan.spec, &exceptions, None).unwrap();
        let from: jiff::Timestamp = from.parse().unwrap();
        text(&shown(
            &plan,
            Time(u64::try_from(from.as_millisecond()).unwrap()),
            days,
        ))
    }

    #[test]
    fn a_week_is_shown_with_its_weekend_and_its_exception() {
        insta::assert_snapshot!(example(
            &["staging.yaml", "release-night.yaml"],
            "2026-11-16T11:00:00Z",
            7
        ));
    }

    #[test]
    fn changes_of_the_clocks_and_long_sleeps_are_pointed_out() {
        // Christmas is a Friday: the holiday and the weekend are one sleep. In March the clocks change.
        insta::assert_snapshot!(example(&["staging.yaml"], "2026-12-24T11:00:00Z", 5));
        insta::assert_snapshot!(example(&["staging.yaml"], "2027-03-26T11:00:00Z", 4));
    }

    #[test]
    fn programs_get_the_same_as_data() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hibernation");
        let Declared { plan, .. } = files::read(&[folder.join("staging.yaml")]).unwrap();
        let plan = follow(&plan.name_any(), &plan.spec, &[], None).unwrap();
        let shown = shown(&plan, Time(1_794_830_400_000), 1);
        let json = written(&shown, Some(Output::Json), text).unwrap();
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["intervals"][1]["desired"], "Asleep");
        assert_eq!(read["intervals"][1]["from"], "2026-11-16T19:00:00Z");
        let yaml = written(&shown, Some(Output::Yaml), text).unwrap();
        assert!(yaml.contains("timezone: Europe/Berlin"), "{yaml}");
    }
}
