//! What the operator tells of its last turn, for people. Pure.

use super::gateways::names;
use super::status::aligned;
use api::MemgraphCluster;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write as _;

/// The operator's account, as far as it is shown.
#[derive(Deserialize)]
struct Turn {
    /// Of the cluster, from which pods have theirs.
    name: Option<String>,
    timestamp: Option<String>,
    reasons: Option<Vec<Reason>>,
    steps: Option<Vec<Did>>,
    ended: Option<String>,
    violations: Option<Vec<String>>,
    notes: Option<Vec<String>>,
    gateways: Option<Vec<Gateway>>,
    pods: Vec<Pod>,
    record: Option<Value>,
}

#[derive(Deserialize)]
struct Reason {
    rule: String,
    text: String,
    evidence: Vec<Evidence>,
}

#[derive(Deserialize)]
struct Evidence {
    fact: Value,
    at: i64,
    source: Value,
    process: Option<String>,
}

#[derive(Deserialize)]
struct Did {
    step: String,
    outcome: String,
    ms: u64,
}

#[derive(Deserialize)]
struct Gateway {
    id: u64,
    term: u64,
    revision: u64,
}

#[derive(Deserialize)]
struct Pod {
    name: String,
    memgraph_role: String,
    timestamp: Option<String>,
}

/// The last turn: reasons with their evidence, steps, pods, gateways, of which these are registered.
pub(super) fn render(
    turn: &Value,
    registered: Vec<Lease>,
    now: Timestamp,
) -> Result<String, serde_json::Error> {
    let Turn {
        name,
        timestamp,
        reasons,
        steps,
        ended,
        violations,
        notes,
        gateways,
        pods,
        record,
    } = Turn::deserialize(turn)?;
    let cluster = name.unwrap_or_else(|| "pod".to_owned());
    let gateways = gateways.unwrap_or_default();
    let taken = timestamp.as_ref().and_then(|at| at.parse().ok());
    let called = names(registered, taken, gateways.len()).unwrap_or_default();
    let mut text = String::new();
    let when = timestamp.map_or_else(|| "never".to_owned(), |at| format!("{} ago", age(&at, now)));
    // Writing to a String does not fail.
    let _ = writeln!(text, "\nThe last turn ({when})");
    for Reason {
        rule,
        text: why,
        evidence,
    } in reasons.iter().flatten()
    {
        let _ = writeln!(text, "  [{rule}] {why}");
        for evidence in evidence {
            let _ = writeln!(text, "      {}", evidence.line(&cluster, now));
        }
    }
    for Did { step, outcome, ms } in steps.iter().flatten() {
        let _ = writeln!(text, "  did: {step} -> {outcome}, {ms} ms");
    }
    for line in ended.iter().map(|why| format!("ended early: {why}")) {
        let _ = writeln!(text, "  {line}");
    }
    for violation in violations.iter().flatten() {
        let _ = writeln!(text, "  REFUSED, it would have broken an invariant: {violation}");
    }
    for note in notes.iter().flatten() {
        let _ = writeln!(text, "  note: {note}");
    }
    let _ = writeln!(text, "\nPods");
    let rows: Vec<[String; 3]> = pods.iter().map(|pod| pod.row(now)).collect();
    for line in aligned(&rows) {
        let _ = writeln!(text, "  {line}");
    }
    let recorded = record
        .as_ref()
        .and_then(|record| record.get("term"))
        .and_then(Value::as_u64);
    for (at, Gateway { id, term, revision }) in gateways.iter().enumerate() {
        let named = called.get(at).map_or_else(|| id.to_string(), Clone::clone);
        let behind = if recorded == Some(*term) {
            ""
        } else {
            ", BEHIND the record"
        };
        let _ = writeln!(
            text,
            "  gateway {named}: confirmed term {term}, revision {revision}{behind}"
        );
    }
    Ok(text)
}

impl Evidence {
    fn line(&self, cluster: &str, now: Timestamp) -> String {
        let Self {
            fact,
            at,
            source,
            process,
        } = self;
        let at = Timestamp::from_millisecond(*at).unwrap_or_default();
        let process = process.as_ref().and_then(|process| process.get(..8));
        let of = process
            .map(|process| format!(" of process {process}"))
            .unwrap_or_default();
        format!(
            "{}{of}, by {}, {} old",
            plain(fact),
            by(source, cluster),
            passed(now.duration_since(at))
        )
    }
}

impl Pod {
    fn row(&self, now: Timestamp) -> [String; 3] {
        let Self {
            name,
            memgraph_role,
            timestamp,
        } = self;
        let seen = timestamp
            .as_ref()
            .map(|at| format!("answered {} ago", age(at, now)));
        [name.clone(), memgraph_role.clone(), seen.unwrap_or_default()]
    }
}

/// `{"Database": 1}` as who said it.
fn by(source: &Value, cluster: &str) -> String {
    let said = source.as_object().and_then(|map| map.iter().next());
    let said = said.and_then(|(who, pod)| Some((who.as_str(), pod.as_u64()?)));
    match said {
        Some(("Database", pod)) => format!("{cluster}-{pod}"),
        Some(("Kubernetes", pod)) => format!("Kubernetes of {cluster}-{pod}"),
        Some(("Probe", pod)) => format!("probes of {cluster}-{pod}"),
        _ => plain(source),
    }
}

/// `"Silent"` and `{"Gone": 1}` as words.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(map) => {
            let parts = map.iter().map(|(key, value)| format!("{key} {}", plain(value)));
            parts.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// The last terms, newest last.
pub(super) fn history(cluster: &MemgraphCluster) -> String {
    let Some(status) = cluster
        .status
        .as_ref()
        .filter(|status| !status.history.is_empty())
    else {
        return String::new();
    };
    let ms = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |ms| ms.to_string());
    let header = [
        "TERM",
        "MAIN",
        "BEGAN",
        "RULE",
        "DETECT",
        "FENCE",
        "PROMOTE",
        "OPEN (ms)",
    ];
    let mut rows = vec![header.map(str::to_owned)];
    rows.extend(status.history.iter().map(|term| {
        [
            term.term.to_string(),
            term.pod.clone(),
            term.began.clone(),
            term.why.clone(),
            ms(term.detect_ms),
            ms(term.fence_ms),
            ms(term.promote_ms),
            ms(term.open_ms),
        ]
    }));
    let lines = aligned(&rows).into_iter().map(|line| format!("  {line}\n"));
    format!("\nTerms\n{}", lines.collect::<String>())
}

/// How long ago that was.
pub(super) fn age(at: &str, now: Timestamp) -> String {
    match at.parse::<Timestamp>() {
        Ok(at) => passed(now.duration_since(at)),
        Err(_) => at.to_owned(),
    }
}

pub(super) fn passed(time: SignedDuration) -> String {
    let seconds = time.as_secs().max(0);
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64().max(0.0)),
        10..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-11-16T12:00:00Z".parse().unwrap()
    }

    fn cluster() -> MemgraphCluster {
        let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status, "reason": "r", "message": "m", "lastTransitionTime": "t" });
        serde_json::from_value(json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
            "metadata": { "name": "memgraph-ha", "namespace": "db" },
            "spec": {},
            "status": {
                "phase": "OPERATIONAL", "state": "Serving", "term": 4, "targetMainPod": "memgraph-ha-1",
                "writes": "Open", "reasons": ["[JOIN] pod-0 is catching up"],
                "conditions": [condition("Ready", "True"), condition("Protected", "False")],
                "history": [
                    { "term": 3, "pod": "memgraph-ha-0", "began": "2026-11-15T12:00:00Z", "why": "BOOTSTRAP" },
                    { "term": 4, "pod": "memgraph-ha-1", "began": "2026-11-16T11:59:15Z", "why": "FAILOVER",
                      "detectMs": 120, "fenceMs": 4, "promoteMs": 210, "openMs": 9 },
                ],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_cluster_is_told_in_a_line_with_its_reasons() {
        insta::assert_snapshot!(super::super::status::render(&[cluster()], now()));
        assert_eq!(
            super::super::status::render(&[], now()),
            "No MemgraphCluster is there.\n"
        );
    }

    #[test]
    fn a_turn_is_told_with_the_age_of_its_evidence() {
        let at = now().as_millisecond() - 1_500;
        let turn = json!({
            "name": "memgraph-ha", "timestamp": "2026-11-16T11:59:59Z",
            "reasons": [{ "rule": "JOIN", "text": "pod-0 is catching up", "evidence": [
                { "fact": { "Behind": 3 }, "at": at, "source": { "Database": 1 }, "process": "0123456789abcdef" },
                { "fact": "ProcessEnded", "at": at, "source": { "Kubernetes": 0 }, "process": "fedcba9876543210" },
                { "fact": { "Silent": 3 }, "at": at, "source": { "Probe": 0 }, "process": null },
            ] }],
            "steps": [{ "step": "pod-1: REGISTER REPLICA memgraph_ha_0 ASYNC TO pod-0", "outcome": "Done", "ms": 12 }],
            "ended": null, "violations": [], "notes": ["the annotation `x` cannot be read and is ignored"],
            "gateways": [{ "id": 0, "term": 4, "revision": 9, "heard": null }, { "id": 1, "term": 3, "revision": 7, "heard": null }],
            "record": { "term": 4 },
            "pods": [
                { "name": "memgraph-ha-0", "memgraph_role": "silent", "timestamp": null },
                { "name": "memgraph-ha-1", "memgraph_role": "main", "timestamp": "2026-11-16T11:59:59Z" },
            ],
        });
        let gateway = |pod: &str, created: &str| -> Lease {
            let lease = json!({
                "metadata": { "name": format!("{pod}-lease"), "creationTimestamp": created },
                "spec": { "holderIdentity": pod },
            });
            serde_json::from_value(lease).unwrap()
        };
        let registered = vec![
            gateway("memgraph-ha-gateway-b", "2026-11-16T11:00:01Z"),
            gateway("memgraph-ha-gateway-a", "2026-11-16T11:00:02Z"),
        ];
        let told = render(&turn, registered, now()).unwrap() + &history(&cluster());
        insta::assert_snapshot!(told);
        let unnamed = render(&turn, Vec::new(), now()).unwrap();
        assert!(unnamed.contains("gateway 1: confirmed term 3"), "{unnamed}");
    }

    #[test]
    fn an_answer_of_another_form_is_an_error_and_no_panic() {
        assert!(render(&json!({ "pods": 3 }), Vec::new(), now()).is_err());
    }
}
