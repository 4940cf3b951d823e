//! One cluster as JSON: the keys of memgraph-controller, and ours beside them.

use super::board::{Shown, protected};
use crate::clock::rfc3339;
use crate::engine::turns::Key;
use crate::memgraph::report::{Place, Told};
use mainstay_core::memgraph::document::Document;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::objects::BOLT_PORT;
use mainstay_core::memgraph::observed::{Answer, Contact, Mode, Pod, Role, Status};
use mainstay_core::memgraph::read_gate::{LetIn, NotRead, Readers, Reads, login, readers};
use serde_json::{Value, json};

/// One cluster.
pub(super) fn cluster(key: &Key, shown: &Shown) -> Value {
    let Key { namespace, name } = key;
    let told = shown.told.as_ref();
    let document = told.and_then(|told| told.document.as_ref());
    let observed = told.and_then(|told| told.observed.as_ref());
    let main = document.and_then(Document::target_main);
    let as_shown = told.map(|told| Names { name, told, main });
    let pods: Vec<Value> = observed
        .iter()
        .flat_map(|seen| &seen.pods)
        .filter_map(|pod| as_shown.as_ref().map(|names| names.pod(pod)))
        .collect();
    let healthy = pods
        .iter()
        .filter(|pod| pod.get("healthy") == Some(&Value::Bool(true)))
        .count();
    let pod = |ordinal: Ordinal| format!("{name}-{}", ordinal.0);
    json!({
        "namespace": namespace, "name": name,
        "timestamp": told.map(|told| rfc3339(told.at)),
        "cluster_state": {
            "current_main": main.map(pod),
            "current_sync_replica": main.and_then(Ordinal::partner).map(pod),
            "total_pods": pods.len(),
            "healthy_pods": healthy,
            "unhealthy_pods": pods.len().saturating_sub(healthy),
            "sync_replica_healthy": protected(shown),
            "reconciliation_metrics": turns(shown),
            "replica_registrations": as_shown.as_ref().map(Names::registrations),
            "read_gateway_status": as_shown.as_ref().map(Names::reads),
        },
        "record": document.map(|d| &d.record),
        "reasons": told.map(|told| told.plan.reasons.iter().map(|reason| json!({
            "rule": reason.rule.id(), "text": reason.why.to_string(), "evidence": reason.evidence,
        })).collect::<Vec<_>>()),
        "steps": told.map(|told| told.acted.taken.iter().map(|taken| json!({
            "step": taken.step, "outcome": format!("{:?}", taken.outcome), "ms": u64::try_from(taken.took.as_millis()).unwrap_or(u64::MAX),
        })).collect::<Vec<_>>()),
        "ended": told.and_then(|told| told.acted.ended.clone()),
        "violations": told.map(|told| told.violations.clone()),
        "notes": told.map(|told| told.notes.clone()),
        "setbacks": told.map(|told| told.setbacks.iter().map(|s| s.message.clone()).collect::<Vec<_>>()),
        "gateways": observed.map(|seen| &seen.gateways),
        "pods": pods,
    })
}

fn turns(shown: &Shown) -> Value {
    let told = shown.told.as_ref();
    let why = told.and_then(|told| told.plan.reasons.first());
    json!({
        "total_reconciliations": shown.turns + shown.failed,
        "successful_reconciliations": shown.turns,
        "failed_reconciliations": shown.failed,
        "average_reconciliation_time": u64::try_from(shown.times.average().as_nanos()).unwrap_or(u64::MAX),
        "last_reconciliation_time": shown.last.map(rfc3339),
        "last_reconciliation_reason": why.map(ToString::to_string),
        "last_reconciliation_error": shown.error,
    })
}

/// What pods and registrations are called.
struct Names<'a> {
    name: &'a str,
    told: &'a Told,
    main: Option<Ordinal>,
}

impl Names<'_> {
    fn of(&self, pod: Ordinal) -> String {
        format!("{}-{}", self.name, pod.0)
    }

    fn place(&self, pod: Ordinal) -> Place {
        self.told.places.get(&pod).cloned().unwrap_or_default()
    }

    fn registered(&self, main: &Answer) -> Vec<Value> {
        let prefix = self.name.replace('-', "_");
        let all = main.replicas.iter().flatten().map(|one| {
            let pod = one.name.pod();
            let mode = match one.mode {
                Mode::Async => "async",
                Mode::Sync => "sync",
                Mode::StrictSync => "strict_sync",
            };
            json!({
                "name": one.name.render(&prefix), "pod_name": self.of(pod),
                // Under another address than its pod has it is somebody else's.
                "address": self.place(pod).replication.filter(|_| one.address_ok),
                "sync_mode": mode,
                "is_healthy": one.attached && one.address_ok && one.status == Status::Ready,
            })
        });
        all.collect()
    }

    /// Of the pod that is to be MAIN, if it answers.
    fn registrations(&self) -> Vec<Value> {
        let answer = self
            .told
            .observed
            .as_ref()
            .zip(self.main)
            .and_then(|(seen, main)| seen.answer(main));
        answer.map(|answer| self.registered(answer)).unwrap_or_default()
    }

    /// Whom gateways send reads to, by the same rule and from the same list of MAIN's as they have it. How many
    /// connections there are is known to them alone: they are processes of their own and tell of themselves.
    fn reads(&self) -> Value {
        let readers = self.told.reads.map(|declared| self.readers(declared));
        let (pods, why) = match readers {
            None => (vec![], None),
            Some(Ok(Readers::Replicas(pods))) => (pods, None),
            Some(Ok(Readers::Main(main))) => (vec![main], None),
            Some(Err(why)) => (vec![], Some(why.to_string())),
        };
        let addresses = pods
            .iter()
            .filter_map(|pod| Some(format!("{}:{BOLT_PORT}", self.place(*pod).ip?)));
        let names = pods.iter().map(|pod| self.of(*pod));
        json!({
            "enabled": self.told.reads.is_some(),
            "current_upstream": listed(addresses),
            "upstream_pod_name": listed(names),
            "upstream_healthy": !pods.is_empty(),
            "reason": why,
            "connection_stats": {
                "active_connections": null, "total_connections": null, "rejected_connections": null, "errors": null,
            },
            "health_check_stats": { "consecutive_failures": null, "last_health_status": null },
        })
    }

    fn readers(&self, declared: Reads) -> Result<Readers, NotRead> {
        let Told {
            document, observed, ..
        } = self.told;
        let (Some(document), Some(seen)) = (document, observed) else {
            return Err(NotRead::NotServing);
        };
        let record = &document.record;
        let main = login(record).ok_or(NotRead::NotServing)?;
        let answer = seen.answer(main.pod);
        let rows = answer.and_then(|answer| answer.replicas.as_deref());
        // As of a client that MAIN let in: the others are not asked for.
        let client = LetIn {
            by: main.pod,
            term: main.term,
        };
        let (now, rules) = (self.told.at, seen.spec.rules);
        readers(
            record,
            rows.unwrap_or_default(),
            Some(client),
            declared,
            now,
            rules,
        )
    }

    fn pod(&self, pod: &Pod) -> Value {
        let (role, at) = match &pod.contact {
            Contact::Answered(answer) => (role(answer.role), Some(rfc3339(answer.at))),
            Contact::Refused { .. } => ("refused", None),
            Contact::Silent { .. } => ("silent", None),
            Contact::Unknown => ("unknown", None),
        };
        let registered: Vec<Value> = match &pod.contact {
            Contact::Answered(answer) => self.registered(answer),
            _ => Vec::new(),
        };
        let names: Vec<Value> = registered
            .iter()
            .filter_map(|one| one.get("pod_name").cloned())
            .collect();
        json!({
            "name": self.of(pod.ordinal), "state": state(pod), "memgraph_role": role, "timestamp": at,
            "ip_address": self.place(pod.ordinal).ip,
            "healthy": matches!(pod.contact, Contact::Answered(_)),
            "replicas_registered": names,
            "inconsistency": self.inconsistency(pod),
            "evidence": pod,
        })
    }

    /// Its role is not the one that the record gives it.
    fn inconsistency(&self, pod: &Pod) -> Value {
        let Contact::Answered(answer) = &pod.contact else {
            return Value::Null;
        };
        let description = match (answer.role, self.main == Some(pod.ordinal)) {
            (Role::Main, false) => "it answers as MAIN and the record names another",
            (Role::Replica, true) => "the record names it MAIN and it answers as REPLICA",
            _ => return Value::Null,
        };
        json!({ "description": description, "memgraph_role": role(answer.role) })
    }
}

/// With commas between them: where memgraph-controller has one there may be several.
fn listed(all: impl Iterator<Item = String>) -> Option<String> {
    let all: Vec<String> = all.collect();
    (!all.is_empty()).then(|| all.join(","))
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Main => "main",
        Role::Replica => "replica",
    }
}

fn state(pod: &Pod) -> &'static str {
    match &pod.object {
        None => "missing",
        Some(object) if object.terminating => "terminating",
        Some(object) if object.running.is_none() => "not running",
        Some(object) if object.ready => "ready",
        Some(_) => "running",
    }
}
