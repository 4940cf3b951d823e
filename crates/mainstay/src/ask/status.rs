//! One line for each cluster, and what it says. Pure.

use super::why::age;
use api::MemgraphCluster;
use jiff::Timestamp;
use kube::ResourceExt;
use std::fmt::Write as _;

/// The table.
pub(super) fn render(clusters: &[MemgraphCluster], now: Timestamp) -> String {
    if clusters.is_empty() {
        return "No MemgraphCluster is there.\n".to_owned();
    }
    let mut rows =
        vec![["CLUSTER", "PHASE", "MAIN", "SINCE", "TERM", "PROTECTED", "WRITES"].map(str::to_owned)];
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

fn row(cluster: &MemgraphCluster, now: Timestamp) -> [String; 7] {
    let name = format!(
        "{}/{}",
        cluster.namespace().unwrap_or_default(),
        cluster.name_any()
    );
    let unknown = || "-".to_owned();
    let Some(status) = &cluster.status else {
        let none = "no operator has looked at it".to_owned();
        return [name, none, unknown(), unknown(), unknown(), unknown(), unknown()];
    };
    let protected = status.conditions.iter().find(|c| c.kind == "Protected");
    let began = status.history.iter().find(|term| Some(term.term) == status.term);
    [
        name,
        status.phase.clone(),
        status.target_main_pod.clone().unwrap_or_else(unknown),
        began.map_or_else(unknown, |term| age(&term.began, now)),
        status.term.map_or_else(unknown, |term| term.to_string()),
        protected.map_or_else(unknown, |condition| condition.status.clone()),
        status.writes.clone().unwrap_or_else(unknown),
    ]
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
