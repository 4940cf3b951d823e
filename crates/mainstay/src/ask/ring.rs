//! What the operator tells of a ring, for people. Pure.

use super::status::aligned;
use api::RingCluster;
use api::ring::RingClusterStatus;
use std::fmt::Write as _;

/// One line for each ring; nothing if there is none.
pub(super) fn table(rings: &[RingCluster]) -> String {
    if rings.is_empty() {
        return String::new();
    }
    let mut rows = vec![["RING", "MEMBERS", "WORK", "WHY"].map(str::to_owned)];
    for ring in rings {
        let status = ring.status.clone().unwrap_or_default();
        let name = ring.metadata.name.clone().unwrap_or_default();
        let why = status.reasons.first().cloned().unwrap_or_default();
        let work = if status.work.is_empty() { "-" } else { &status.work };
        rows.push([name, status.summary.clone(), work.to_owned(), why]);
    }
    let mut text = String::new();
    for line in aligned(&rows) {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

/// The last turn of a ring: reasons, every check by name with the held ones first, members, replacements.
pub(super) fn why(ring: &RingCluster) -> String {
    let RingClusterStatus {
        observed_generation: _,
        summary: _,
        work: _,
        reasons,
        checks,
        conditions: _,
        members,
        replacements,
    } = ring.status.clone().unwrap_or_default();
    let mut text = table(std::slice::from_ref(ring));
    let _ = writeln!(text, "\nThe last turn");
    for reason in reasons {
        let _ = writeln!(text, "  {reason}");
    }
    if !checks.is_empty() {
        let _ = writeln!(text, "\nChecks");
        let rows: Vec<[String; 4]> = checks
            .into_iter()
            .map(|check| {
                let word = if check.holds { "holds" } else { "HELD" };
                [word.to_owned(), check.name, check.member, check.message]
            })
            .collect();
        for line in aligned(&rows) {
            let _ = writeln!(text, "  {line}");
        }
    }
    let _ = writeln!(text, "\nMembers");
    let rows: Vec<[String; 4]> = members
        .into_iter()
        .map(|m| {
            let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            [m.name, m.gate, dash(m.address), dash(m.host_id)]
        })
        .collect();
    for line in aligned(&rows) {
        let _ = writeln!(text, "  {line}");
    }
    for done in replacements {
        let _ = writeln!(
            text,
            "  replaced: {} at {}, {} took the place of {}",
            done.member, done.at, done.by, done.lost
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::ring::CheckStatus;
    use mainstay_core::ring::checks::Letter;
    use serde_json::json;

    fn ring() -> RingCluster {
        serde_json::from_value(json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "RingCluster",
            "metadata": { "name": "ring", "namespace": "db" },
            "spec": { "image": "scylladb/scylla:2025.2.0", "racks": [{ "name": "a", "members": 3 }] },
            "status": {
                "summary": "3/3", "work": "replace ring-a-1: confirming",
                "reasons": ["ring-a-1 is not replaced yet: StillAlive"],
                "checks": [
                    { "name": "Down", "member": "ring-a-1", "holds": false, "message": "StillAlive: ring-a-0 sees it" },
                    { "name": "Quorum", "member": "ring-a-1", "holds": true, "message": "enough members answer" },
                ],
                "members": [{ "name": "ring-a-1", "gate": "Empty", "hostId": "7" }],
                "replacements": [{ "member": "ring-a-0", "lost": "1", "by": "2", "at": "2026-01-01T00:00:00Z" }],
            },
        }))
        .unwrap()
    }

    #[test]
    fn every_check_is_named_and_the_held_ones_come_first() {
        let text = why(&ring());
        let at = |what: &str| {
            text.find(what)
                .unwrap_or_else(|| panic!("{what} is not in:\n{text}"))
        };
        assert!(at("HELD") < at("holds"));
        assert!(at("Down") < at("Quorum"));
        at("replace ring-a-1: confirming");
        at("2 took the place of 1");
    }

    /// As the operator writes it: the held ones first, then all others in their order.
    #[test]
    fn all_checks_of_a_lost_member_are_told_by_name() {
        let told = |letter: &Letter, held: Option<&str>| CheckStatus {
            name: letter.name().to_owned(),
            member: "ring-a-1".to_owned(),
            holds: held.is_none(),
            message: held.unwrap_or_else(|| letter.text()).to_owned(),
        };
        let held = [
            (Letter::Down, "StillAlive: ring-a-0 sees 7 alive"),
            (Letter::Copies, "keyspace ks has 1 copies and 1 members are lost"),
        ];
        let others = Letter::ALL.iter().filter(|l| held.iter().all(|(h, _)| h != *l));
        let mut ring = ring();
        let status = ring.status.get_or_insert_default();
        status.checks = held.iter().map(|(letter, why)| told(letter, Some(why))).collect();
        status.checks.extend(others.map(|letter| told(letter, None)));
        insta::assert_snapshot!(why(&ring));
    }

    #[test]
    fn without_rings_nothing_is_said() {
        assert_eq!(table(&[]), "");
    }
}
