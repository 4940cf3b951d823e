//! What a drill says of its rounds: a table for people, lines of JSON for programs. Pure.

use super::faults::{Drill, Fault};
use super::ledger::Account;
use super::phases::Phases;
use super::round::{Done, Part};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What was asked for, and where.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// What is broken.
    pub(crate) drill: Drill,
    /// Whether MAIN is only declared dead.
    pub(crate) alive: bool,
    /// Whether the databases are stand-ins; not known of somebody else's cluster.
    pub(crate) stand_ins: Option<bool>,
    /// How often.
    pub(crate) rounds: u32,
    /// 99 of 100 gaps are to be this long at most.
    pub(crate) goal_p99_ms: Option<u64>,
}

/// What came of it so far. It outlives what ends a drill: what is known by then is told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    /// A round was begun.
    pub(crate) begun: bool,
    /// The rounds that came to their end.
    pub(crate) done: Vec<Done>,
    /// The writes of the round that has not, if they were read back.
    pub(crate) settled: Account,
    /// Somebody ended it.
    pub(crate) interrupted: bool,
}

impl Course {
    /// A round came to its end.
    pub(crate) fn push(&mut self, round: Done) {
        self.settled = Account::default();
        self.done.push(round);
    }
}

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
    /// How many were asked for.
    #[serde(skip)]
    pub(crate) asked: u32,
    /// Somebody ended it before they were done.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) interrupted: bool,
    /// Gaps: half of them were at most this long.
    pub(crate) gap_p50_ms: u64,
    /// 99 of 100.
    pub(crate) gap_p99_ms: u64,
    /// All.
    pub(crate) gap_max_ms: u64,
    /// What 99 of 100 were to be, if anything was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goal_p99_ms: Option<u64>,
    /// Whether they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) within_goal: Option<bool>,
    /// How many rounds led to a new term, by the rule that began it.
    pub(crate) new_terms: BTreeMap<String, u64>,
    /// How many led to none.
    pub(crate) without_new_term: u64,
    /// The longest break after a MAIN served again.
    pub(crate) later_max_ms: u64,
    /// How long clients wrote, all rounds together.
    pub(crate) written_ms: u64,
    /// How many writes were acknowledged in a second of that, times without a MAIN included: what was asked for with
    /// `--rate` may be more than the cluster takes.
    pub(crate) acknowledged_per_second: u64,
    /// All writes together, also those of a round that did not come to its end, if they were read back.
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
    /// Of the rounds so far.
    pub(crate) fn of(asked: &Asked, course: &Course) -> Self {
        let Asked {
            drill,
            alive,
            stand_ins,
            rounds: wanted,
            goal_p99_ms,
        } = asked;
        let Course {
            begun: _,
            done: rounds,
            settled,
            interrupted,
        } = course;
        let mut gaps: Vec<u64> = rounds.iter().map(|done| done.gap_ms).collect();
        gaps.sort_unstable();
        let gap_p99_ms = percentile(&gaps, 99);
        let accounts = rounds.iter().map(|done| done.account);
        let account = accounts.fold(Account::default(), Account::and);
        let written_ms = rounds.iter().map(|done| done.written_ms).sum();
        let (new_terms, without_new_term) = terms(rounds);
        Self {
            drill: *drill,
            alive: *alive,
            stand_ins: *stand_ins,
            rounds: rounds.len(),
            asked: *wanted,
            interrupted: *interrupted,
            gap_p50_ms: percentile(&gaps, 50),
            gap_p99_ms,
            gap_max_ms: gaps.last().copied().unwrap_or_default(),
            goal_p99_ms: *goal_p99_ms,
            within_goal: goal_p99_ms.map(|goal| gap_p99_ms <= goal),
            new_terms,
            without_new_term,
            later_max_ms: rounds.iter().map(|done| done.later_ms).max().unwrap_or_default(),
            written_ms,
            acknowledged_per_second: per_second(account.acknowledged, written_ms),
            account: account.and(*settled),
            clients: clients(rounds),
        }
    }
}

/// How many rounds led to a new term by each rule, and how many to none.
fn terms(rounds: &[Done]) -> (BTreeMap<String, u64>, u64) {
    let (mut by_rule, mut none) = (BTreeMap::new(), 0);
    for done in rounds {
        match &done.phases.why {
            Some(rule) => *by_rule.entry(rule.clone()).or_default() += 1,
            None => none += 1,
        }
    }
    (by_rule, none)
}

/// That in a sentence; nothing without a round.
fn new_terms(by_rule: &BTreeMap<String, u64>, none: u64) -> Option<String> {
    let counted: Vec<String> = by_rule
        .iter()
        .map(|(rule, rounds)| format!("{rounds} {rule}"))
        .collect();
    let counted = (!counted.is_empty()).then(|| counted.join(", "));
    let rounds = if none == 1 { "round" } else { "rounds" };
    let none = (none > 0).then(|| format!("none in {none} {rounds}"));
    let parts: Vec<String> = counted.into_iter().chain(none).collect();
    (!parts.is_empty()).then(|| format!("New terms: {}.", parts.join("; ")))
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
        asked,
        interrupted,
        gap_p50_ms,
        gap_p99_ms,
        gap_max_ms,
        goal_p99_ms,
        within_goal,
        new_terms: by_rule,
        without_new_term,
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
    if let Some(sentence) = new_terms(by_rule, *without_new_term) {
        let _ = writeln!(text, "{sentence}");
    }
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
    if let (Some(goal), Some(within)) = (goal_p99_ms, within_goal) {
        let _ = match within {
            true => writeln!(text, "The p99 of the gaps is within the goal of {goal} ms."),
            false => writeln!(
                text,
                "THE GOAL WAS MISSED: the p99 of the gaps is above {goal} ms."
            ),
        };
    }
    if *interrupted {
        let _ = writeln!(text, "Interrupted: {rounds} of {asked} rounds were done.");
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

    /// Nobody ended it.
    fn summed(alive: bool, stand_ins: Option<bool>, rounds: &[Done]) -> Summary {
        let course = Course {
            done: rounds.to_vec(),
            ..Course::default()
        };
        Summary::of(&asked(alive, stand_ins), &course)
    }

    fn asked(alive: bool, stand_ins: Option<bool>) -> Asked {
        Asked {
            drill: Drill::KillMain,
            alive,
            stand_ins,
            rounds: 1_000,
            goal_p99_ms: None,
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
        let summary = summed(false, Some(true), &rounds);
        let table: Vec<String> = std::iter::once(head())
            .chain(rounds.iter().map(line))
            .chain([foot(&summary)])
            .collect();
        insta::assert_snapshot!("table", table.join("\n"));
    }

    #[test]
    fn a_lost_write_is_said_aloud() {
        let rounds = [done(1, 315, 1)];
        let told = foot(&summed(true, None, &rounds));
        assert!(
            told.contains("1 lost") && told.contains("PROMISES WERE BROKEN"),
            "{told}"
        );
        assert!(!told.contains("stand-ins"), "{told}");
    }

    #[test]
    fn a_loss_of_the_rounds_before_an_interruption_and_of_one_that_was_not_done_is_told() {
        let mut course = Course {
            interrupted: true,
            ..Course::default()
        };
        course.push(done(1, 315, 1));
        course.settled.lost = 2;
        let summary = Summary::of(&asked(false, None), &course);
        assert_eq!((summary.rounds, summary.account.lost), (1, 3));
        let told = foot(&summary);
        for said in ["Interrupted: 1 of 1000 rounds were done.", "PROMISES WERE BROKEN"] {
            assert!(told.contains(said), "{told}");
        }
        assert_eq!(serde_json::to_value(&summary).unwrap()["interrupted"], true);
        // It is the same round that comes to its end: nothing counts twice.
        course.push(done(2, 315, 2));
        assert_eq!(Summary::of(&asked(false, None), &course).account.lost, 3);
    }

    #[test]
    fn the_rules_that_began_new_terms_are_counted_and_rounds_without_one_too() {
        let by = |why: Option<&str>| Done {
            phases: Phases {
                why: why.map(str::to_owned),
                ..Phases::default()
            },
            ..done(1, 315, 0)
        };
        let told = |whys: &[Option<&str>]| {
            let rounds: Vec<Done> = whys.iter().map(|why| by(*why)).collect();
            let (by_rule, none) = terms(&rounds);
            new_terms(&by_rule, none)
        };
        let (failover, switchover) = (Some("FAILOVER"), Some("SWITCHOVER"));
        assert_eq!(
            told(&[switchover, failover, None, switchover]).unwrap(),
            "New terms: 1 FAILOVER, 2 SWITCHOVER; none in 1 round."
        );
        assert_eq!(told(&[failover]).unwrap(), "New terms: 1 FAILOVER.");
        assert_eq!(told(&[None, None]).unwrap(), "New terms: none in 2 rounds.");
        assert_eq!(told(&[]), None);
    }

    #[test]
    fn a_goal_is_for_the_p99_of_the_gaps_and_nothing_is_said_without_one() {
        let course = Course {
            done: vec![done(1, 300, 0), done(2, 315, 0)],
            ..Course::default()
        };
        let with = |goal_p99_ms| {
            let asked = Asked {
                goal_p99_ms,
                ..asked(false, None)
            };
            Summary::of(&asked, &course)
        };
        assert_eq!(with(Some(315)).within_goal, Some(true));
        assert!(foot(&with(Some(315))).contains("within the goal of 315 ms"));
        assert_eq!(with(Some(314)).within_goal, Some(false));
        assert!(foot(&with(Some(314))).contains("THE GOAL WAS MISSED"));
        assert_eq!(with(None).within_goal, None);
        assert!(!foot(&with(None)).to_lowercase().contains("goal"));
    }

    #[test]
    fn the_lines_of_json_keep_their_names() {
        let rounds = [done(1, 315, 0)];
        let summary = summed(false, Some(true), &rounds);
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
        let told = foot(&summed(false, None, &[done(1, 315, 0), done(2, 9, 0)]));
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
