//! What sleeping saved: hours asleep times a price, without the hours in which something ran all the same.

use super::{Where, table, written};
use anyhow::{Context, Result};
use api::hibernation::{CycleStatus, HibernatePlanStatus, SleptStatus};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The plan.
    name: String,
    /// What one resource costs in an hour.
    #[arg(long, default_value_t = 0.0)]
    price: f64,
    /// A table of prices: `default: 0.10` and `targets: {db: 0.40}`, each for one resource and hour.
    #[arg(long)]
    prices: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
}

/// What one resource costs in an hour.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Prices {
    default: f64,
    targets: BTreeMap<String, f64>,
}

/// One target in one cycle.
#[derive(Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Line {
    cycle: u64,
    target: String,
    /// Hours, of all resources together.
    asleep: f64,
    /// Hours in which something ran all the same.
    leaked: f64,
    saved: f64,
}

#[derive(Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Savings {
    lines: Vec<Line>,
    saved: f64,
}

pub(crate) async fn command(arguments: Arguments) -> Result<()> {
    let Arguments {
        name,
        price,
        prices,
        place,
    } = arguments;
    let mut table = match prices {
        None => Prices::default(),
        Some(file) => {
            let shown = file.display();
            let text = std::fs::read_to_string(&file).with_context(|| format!("{shown} cannot be read"))?;
            serde_saphyr::from_str(&text).with_context(|| format!("{shown} is no table of prices"))?
        }
    };
    if price > 0.0 {
        table.default = price;
    }
    let client = place.client().await?;
    let plan = place.plan(&client, &name).await?;
    let savings = savings(&plan.status.unwrap_or_default(), &table);
    print!("{}", written(&savings, place.output, text)?);
    Ok(())
}

#[allow(
    clippy::cast_precision_loss,
    reason = "seconds of a few days, shown with two decimals"
)]
fn hours(seconds: u64) -> f64 {
    seconds as f64 / 3600.0
}

fn savings(status: &HibernatePlanStatus, prices: &Prices) -> Savings {
    let lines: Vec<Line> = status
        .history
        .iter()
        .flat_map(|cycle| of_cycle(cycle, prices))
        .collect();
    let saved = lines.iter().map(|line| line.saved).sum();
    Savings { lines, saved }
}

fn of_cycle<'a>(cycle: &'a CycleStatus, prices: &'a Prices) -> impl Iterator<Item = Line> + 'a {
    let at = |text: &str| {
        text.parse::<jiff::Timestamp>()
            .map_or(0, jiff::Timestamp::as_second)
    };
    let long = u64::try_from(at(&cycle.ended) - at(&cycle.began)).unwrap_or_default();
    cycle.targets.iter().map(move |slept| {
        let SleptStatus {
            name,
            resources,
            leaked_seconds,
            running: _,
            since: _,
        } = slept;
        let price = prices.targets.get(name).copied().unwrap_or(prices.default);
        let all = long.saturating_mul(*resources);
        let leaked = (*leaked_seconds).min(all);
        Line {
            cycle: cycle.cycle,
            target: name.clone(),
            asleep: hours(all),
            leaked: hours(leaked),
            saved: hours(all - leaked) * price,
        }
    })
}

fn text(savings: &Savings) -> String {
    let Savings { lines, saved } = savings;
    if lines.is_empty() {
        return "no cycle is over yet\n".to_owned();
    }
    let head = ["CYCLE", "TARGET", "HOURS ASLEEP", "OF THEM AWAKE", "SAVED"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for line in lines {
        rows.push(vec![
            line.cycle.to_string(),
            line.target.clone(),
            format!("{:.1}", line.asleep),
            format!("{:.1}", line.leaked),
            format!("{:.2}", line.saved),
        ]);
    }
    format!(
        "{}saved {saved:.2} in the last {} cycles\n",
        table(&rows),
        lines
            .iter()
            .map(|l| l.cycle)
            .collect::<std::collections::BTreeSet<_>>()
            .len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn night(cycle: u64, day: u32, leaked_seconds: u64) -> CycleStatus {
        CycleStatus {
            cycle,
            began: format!("2026-11-{day}T20:00:00Z"),
            ended: format!("2026-11-{}T06:00:00Z", day + 1),
            targets: vec![SleptStatus {
                name: "web".to_owned(),
                resources: 3,
                leaked_seconds,
                running: None,
                since: None,
            }],
        }
    }

    #[test]
    fn s87_two_nights_of_three_at_ten_cents_an_hour_and_what_leaked_is_subtracted() {
        let status = |leaked| HibernatePlanStatus {
            history: vec![night(1, 16, 0), night(2, 17, leaked)],
            ..HibernatePlanStatus::default()
        };
        let flat = Prices {
            default: 0.10,
            ..Prices::default()
        };
        let about = |saved: f64, expected: f64| assert!((saved - expected).abs() < 1e-9, "{saved}");
        about(savings(&status(0), &flat).saved, 6.0);
        // Two of them ran for an hour.
        about(savings(&status(7200), &flat).saved, 5.8);
        // More than everything cannot leak.
        about(savings(&status(u64::MAX), &flat).saved, 3.0);
        let table = Prices {
            default: 0.10,
            targets: BTreeMap::from([("web".to_owned(), 1.0)]),
        };
        about(savings(&status(0), &table).saved, 60.0);
        insta::assert_snapshot!(text(&savings(&status(7200), &flat)));
        assert_eq!(
            text(&savings(&HibernatePlanStatus::default(), &flat)),
            "no cycle is over yet\n"
        );
    }
}
