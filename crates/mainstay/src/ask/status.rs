//! One line for each cluster, and what it says. Pure.

use super::why::age;
use api::MemgraphCluster;
use api::memgraph::{MemgraphClusterStatus, TermStatus};
use jiff::Timestamp;
use kube::ResourceExt;
use std::fmt::Write as _;

/// The table.
pub(super) fn render(clusters: &[MemgraphCluster], now: Timestamp) -> String {
    if clusters.is_empty() {
        return "No MemgraphCluster is there.\n".to_owned();
    }
    let mut rows = vec![
        [
            "CLUSTER",
            "PHASE",
            "MAIN",
            "SINCE",
            "TERM",
            "READY",
            "PROTECTED",
            "WRITES",
        ]
        .map(str::to_owned),
    ];
    rows.extend(clusters.iter().map(|cluster| row(cluster, now)));
    let mut text = String::new();
    let mut lines = aligned(&rows).into_iter();
    // Writing to a String does not fail.
    let _ = writeln!(text, "{}", lines.next().unwrap_or_default());
    for (line, cluster) in lines.zip(clusters) {
        let _ = writeln!(text, "{line}");
        for reason in cluster.status.iter().flat_map(|status| &status.reasons) {
            let _ = writeln!(text, "    {reason}");
        }
    }
    text
}

fn row(cluster: &MemgraphCluster, now: Timestamp) -> [String; 8] {
    let name = format!(
        "{}/{}",
        cluster.namespace().unwrap_or_default(),
        cluster.name_any()
    );
    let unknown = || "-".to_owned();
    let Some(status) = &cluster.status else {
        let none = "no operator has looked at it".to_owned();
        let [main, since, term, ready, protected, writes] = std::array::from_fn(|_| unknown());
        return [name, none, main, since, term, ready, protected, writes];
    };
    let condition = |kind: &str| {
        let found = status.conditions.iter().find(|c| c.kind == kind);
        found.map_or_else(unknown, |condition| condition.status.clone())
    };
    let began = since(status);
    [
        name,
        status.phase.clone(),
        status.target_main_pod.clone().unwrap_or_else(unknown),
        began.map_or_else(unknown, |term| age(&term.began, now)),
        status.term.map_or_else(unknown, |term| term.to_string()),
        condition("Ready"),
        condition("Protected"),
        status.writes.clone().unwrap_or_else(unknown),
    ]
}

/// The first of the terms in a row that its pod has been MAIN in: a new term on the same pod is no new MAIN.
fn since(status: &MemgraphClusterStatus) -> Option<&TermStatus> {
    let main = status.target_main_pod.as_deref()?;
    let newest_first = status.history.iter().rev();
    newest_first.take_while(|term| term.pod == main).last()
}

/// Columns as wide as what is in them.
pub(super) fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String; N]| {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn since_of(main: &str, history: &[(u64, &str)]) -> Option<u64> {
        let history: Vec<_> = history
            .iter()
            .map(|(term, pod)| json!({ "term": term, "pod": pod, "began": "", "why": "" }))
            .collect();
        let status = json!({ "targetMainPod": main, "history": history });
        let status: MemgraphClusterStatus = serde_json::from_value(status).unwrap();
        since(&status).map(|term| term.term)
    }

    #[test]
    fn a_new_term_on_the_same_pod_is_no_new_main() {
        assert_eq!(
            since_of("db-0", &[(1, "db-0"), (2, "db-0"), (3, "db-0")]),
            Some(1)
        );
        assert_eq!(
            since_of("db-0", &[(1, "db-0"), (2, "db-1"), (3, "db-0"), (4, "db-0")]),
            Some(3)
        );
        assert_eq!(
            since_of("db-1", &[(1, "db-0")]),
            None,
            "its term is not in the history yet"
        );
    }
}
