//! What a drill says of its rounds: a table for people, lines of JSON for programs. Pure.

use super::faults::{Drill, Fault};
use super::ledger::Account;
use super::phases::Phases;
use super::round::{Done, Part};
use serde::Serialize;
use std::fmt::Write as _;

/// The end of a drill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    /// Which.
    pub(crate) drill: Drill,
    /// Whether MAIN was only declared dead.
    pub(crate) alive: bool,
    /// Whether the databases were stand-ins; not known of somebody else's cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stand_ins: Option<bool>,
    /// How many rounds were done.
    pub(crate) rounds: usize,
    /// Gaps: half of them were at most this long.
    pub(crate) gap_p50_ms: u64,
    /// 99 of 100.
    pub(crate) gap_p99_ms: u64,
    /// All.
    pub(crate) gap_max_ms: u64,
    /// The longest break after a MAIN served again.
    pub(crate) later_max_ms: u64,
    /// How long clients wrote, all rounds together.
    pub(crate) written_ms: u64,
    /// How many writes were acknowledged in a second of that, times without a MAIN included: what was asked for with
    /// `--rate` may be more than the cluster takes.
    pub(crate) acknowledged_per_second: u64,
    /// All writes together.
    #[serde(flatten)]
    pub(crate) account: Account,
    /// What each client had of it.
    pub(crate) clients: Vec<Client>,
}

/// What one client had of all rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Client {
    /// Its command line, or our own client.
    pub(crate) name: String,
    /// Its acknowledged writes, all rounds together.
    pub(crate) acknowledged: u64,
    /// Those until the fault, in the round in which they were fewest: with none it has seen nothing of the fault.
    pub(crate) least_before: u64,
    /// Those since a MAIN served again, in the round in which they were fewest.
    pub(crate) least_after: u64,
}

/// Every round has the same clients in the same order.
fn clients(rounds: &[Done]) -> Vec<Client> {
    let mut all: Vec<Client> = Vec::new();
    for Done { clients, .. } in rounds {
        for (index, part) in clients.iter().enumerate() {
            let Part {
                name,
                before,
                after,
                acknowledged,
            } = part;
            match all.get_mut(index) {
                Some(client) => {
                    client.acknowledged += acknowledged;
                    client.least_before = client.least_before.min(*before);
                    client.least_after = client.least_after.min(*after);
                }
                None => all.push(Client {
                    name: name.clone(),
                    acknowledged: *acknowledged,
                    least_before: *before,
                    least_after: *after,
                }),
            }
        }
    }
    all
}

impl Summary {
    /// Of these rounds.
    pub(crate) fn of(drill: Drill, alive: bool, stand_ins: Option<bool>, rounds: &[Done]) -> Self {
        let mut gaps: Vec<u64> = rounds.iter().map(|done| done.gap_ms).collect();
        gaps.sort_unstable();
        let accounts = rounds.iter().map(|done| done.account);
        let account = accounts.fold(Account::default(), Account::and);
        let written_ms = rounds.iter().map(|done| done.written_ms).sum();
        Self {
            drill,
            alive,
            stand_ins,
            rounds: rounds.len(),
            gap_p50_ms: percentile(&gaps, 50),
            gap_p99_ms: percentile(&gaps, 99),
            gap_max_ms: gaps.last().copied().unwrap_or_default(),
            later_max_ms: rounds.iter().map(|done| done.later_ms).max().unwrap_or_default(),
            written_ms,
            acknowledged_per_second: per_second(account.acknowledged, written_ms),
            account,
            clients: clients(rounds),
        }
    }
}

/// The smallest value that so many of a hundred do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// How many that is in a second, to the nearest.
fn per_second(count: u64, ms: u64) -> u64 {
    (count * 1_000 + ms / 2).checked_div(ms).unwrap_or_default()
}

/// The head of the table.
pub(crate) fn head() -> String {
    format!(
        "{:>5}  {:<28} {:>7}  {:>6} {:>6} {:>7} {:>6} {:>6}  {:>7} {:>7}  {:>7} {:>6} {:>7} {:>5} {:>5}  {}",
        "round",
        "fault",
        "gap ms",
        "detect",
        "fence",
        "promote",
        "open",
        "other",
        "later",
        "well ms",
        "acked",
        "failed",
        "unknown",
        "lost",
        "twice",
        "why"
    )
}

/// One round.
pub(crate) fn line(done: &Done) -> String {
    let Done {
        round,
        fault,
        gap_ms,
        phases,
        later_ms,
        interruptions: _,
        well_after_ms,
        written_ms: _,
        account,
        clients: _,
    } = done;
    let Phases {
        why,
        detect,
        fence,
        promote,
        open,
        other,
    } = phases;
    let Account {
        acknowledged,
        failed,
        unknown,
        lost,
        duplicated,
        despite_refusal: _,
    } = account;
    let or_dash = |ms: &Option<u64>| ms.map_or_else(|| "-".to_owned(), |ms| ms.to_string());
    format!(
        "{round:>5}  {:<28} {gap_ms:>7}  {:>6} {:>6} {:>7} {:>6} {other:>6}  {later_ms:>7} {well_after_ms:>7}  {acknowledged:>7} {failed:>6} {unknown:>7} {lost:>5} {duplicated:>5}  {}",
        name(fault),
        or_dash(detect),
        or_dash(fence),
        or_dash(promote),
        or_dash(open),
        why.as_deref().unwrap_or("-"),
    )
}

/// The end of the table.
pub(crate) fn foot(summary: &Summary) -> String {
    let Summary {
        drill: _,
        alive: _,
        stand_ins,
        rounds,
        gap_p50_ms,
        gap_p99_ms,
        gap_max_ms,
        later_max_ms,
        written_ms,
        acknowledged_per_second,
        account,
        clients,
    } = summary;
    let Account {
        acknowledged,
        failed,
        unknown,
        lost,
        duplicated,
        despite_refusal,
    } = account;
    let (seconds, tenths) = (written_ms / 1_000, written_ms % 1_000 / 100);
    let mut text = format!(
        "\n{rounds} rounds. Gap: p50 {gap_p50_ms} ms, p99 {gap_p99_ms} ms, max {gap_max_ms} ms; later breaks at most {later_max_ms} ms.\n\
         {acknowledged} writes acknowledged in {seconds}.{tenths} s of writing ({acknowledged_per_second} a second), {failed} failed, {unknown} without an answer; {lost} lost, {duplicated} there twice.\n"
    );
    for (number, client) in (1..).zip(clients) {
        let Client {
            name,
            acknowledged,
            least_before,
            least_after,
        } = client;
        let _ = writeln!(
            text,
            "Client {number}: {acknowledged} acknowledged; in each round at least {least_before} before the fault and {least_after} after it ({name})."
        );
    }
    if *despite_refusal > 0 {
        let _ = writeln!(text, "{despite_refusal} were refused and are there all the same.");
    }
    if *stand_ins == Some(true) {
        text.push_str("The databases were stand-ins, not Memgraph.\n");
    }
    if account.is_broken() {
        text.push_str("PROMISES WERE BROKEN.\n");
    }
    text
}

fn name(fault: &Fault) -> String {
    match fault {
        Fault::Kill { pod } => format!("kill {pod}"),
        Fault::Delete { pod } => format!("delete {pod}"),
        Fault::Hang { pod } => format!("hang {pod}"),
        Fault::Stall { pod } => format!("stall {pod}"),
        Fault::Isolate { pod } => format!("isolate {pod}"),
        Fault::Part { pod, from: _ } => format!("hide {pod}"),
        Fault::Deafen { pod, .. } => format!("hide {pod}, deafen gateways"),
        Fault::KillOperator { .. } => "kill the leader".to_owned(),
        Fault::DeleteAll { pods } => format!("delete all {}", pods.len()),
        Fault::Roll { pods } => format!("restart {} in turn", pods.len()),
        Fault::Switchover { to } => format!("switch over to {to}"),
        Fault::Diverge { pod } => format!("{pod} diverges"),
        Fault::StaleMarker { pod } => format!("old marker on {pod}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::round::Interruption;
    use super::*;

    fn done(round: u32, gap_ms: u64, lost: u64) -> Done {
        Done {
            round,
            fault: Fault::Kill {
                pod: "memgraph-ha-0".to_owned(),
            },
            gap_ms,
            phases: Phases {
                why: Some("FAILOVER".to_owned()),
                detect: Some(60),
                fence: Some(8),
                promote: Some(214),
                open: None,
                other: 33,
            },
            later_ms: 120,
            interruptions: vec![Interruption {
                after_ms: -2,
                ms: gap_ms,
            }],
            well_after_ms: 2_345,
            written_ms: 5_432,
            account: Account {
                acknowledged: 1_000,
                failed: 3,
                unknown: 4,
                lost,
                duplicated: 0,
                despite_refusal: 0,
            },
            clients: [
                ("mainstay", 100 * u64::from(round), 20),
                ("python3 'client.py' neo4j", 7, 800),
            ]
            .map(|(name, before, after)| Part {
                name: name.to_owned(),
                before,
                after,
                acknowledged: 500,
            })
            .into(),
        }
    }

    #[test]
    fn the_table_shows_where_the_time_went_and_what_was_lost() {
        let quiet = Done {
            fault: Fault::KillOperator {
                pod: "mainstay-operator-1".to_owned(),
            },
            phases: Phases {
                other: 9,
                ..Phases::default()
            },
            ..done(2, 9, 0)
        };
        let rounds = [done(1, 315, 0), quiet];
        let summary = Summary::of(Drill::KillMain, false, Some(true), &rounds);
        let table: Vec<String> = std::iter::once(head())
            .chain(rounds.iter().map(line))
            .chain([foot(&summary)])
            .collect();
        insta::assert_snapshot!("table", table.join("\n"));
    }

    #[test]
    fn a_lost_write_is_said_aloud() {
        let rounds = [done(1, 315, 1)];
        let told = foot(&Summary::of(Drill::KillMain, true, None, &rounds));
        assert!(
            told.contains("1 lost") && told.contains("PROMISES WERE BROKEN"),
            "{told}"
        );
        assert!(!told.contains("stand-ins"), "{told}");
    }

    #[test]
    fn the_lines_of_json_keep_their_names() {
        let rounds = [done(1, 315, 0)];
        let summary = Summary::of(Drill::KillMain, false, Some(true), &rounds);
        let lines = [
            serde_json::to_string_pretty(&rounds[0]).unwrap(),
            serde_json::to_string_pretty(&summary).unwrap(),
        ];
        insta::assert_snapshot!("json", lines.join("\n"));
    }

    #[test]
    fn the_rate_is_what_was_acknowledged_and_not_what_was_asked_for() {
        assert_eq!(per_second(2_000, 10_000), 200);
        assert_eq!((per_second(1_999, 10_000), per_second(1_994, 10_000)), (200, 199));
        assert_eq!(per_second(0, 0), 0);
        let told = foot(&Summary::of(
            Drill::KillMain,
            false,
            None,
            &[done(1, 315, 0), done(2, 9, 0)],
        ));
        assert!(
            told.contains("2000 writes acknowledged in 10.8 s of writing (184 a second)"),
            "{told}"
        );
    }

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let gaps: Vec<u64> = (1..=200).collect();
        assert_eq!((percentile(&gaps, 50), percentile(&gaps, 99)), (100, 198));
        assert_eq!((percentile(&[7], 50), percentile(&[7], 99)), (7, 7));
        assert_eq!(percentile(&[1, 2], 50), 1);
        assert_eq!(percentile(&[], 99), 0);
    }
}
