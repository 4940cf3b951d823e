//! Status, scale, binding, eviction, tokens, and the streams of pods.

use std::sync::Arc;

use serde_json::{Value, json};

use super::apply::{Manager, Operation};
use super::failure::{Cause, Failure};
use super::kinds::{Kind, KindInfo};
use super::patch;
use super::request::{Answer, Method, StreamKind, StreamRequest};
use super::select;
use super::store::{Call, Key, Store, done};
use super::value::{int, items, put, text};

impl Store {
    pub(crate) fn subresource(&mut self, call: &Call<'_>, name: &str) -> Result<Answer, Failure> {
        let version = call.info.version(&call.resource.version);
        let has_status = version.is_some_and(|version| version.status);
        let has_scale = version.is_some_and(|version| version.scale.is_some());
        match (call.resource.kind, name, call.request.method) {
            (_, "status", Method::Get) if has_status => Ok(done(200, call.present(self.existing(call)?))),
            (_, "status", Method::Put) if has_status => self.replace(call, Some("status")),
            (_, "status", Method::Patch) if has_status => self.patch(call, Some("status")),
            (_, "scale", Method::Get | Method::Put | Method::Patch) if has_scale => self.scale(call),
            (Kind::POD, "binding", Method::Post) => self.bind(call),
            (Kind::POD, "eviction", Method::Post) => self.evict(call),
            (Kind::POD, "log", Method::Get) => self.stream(call, StreamKind::Log),
            (Kind::POD, "exec", Method::Get | Method::Post) => self.stream(call, StreamKind::Exec),
            (Kind::POD, "attach", Method::Get | Method::Post) => self.stream(call, StreamKind::Attach),
            (Kind::POD, "portforward", Method::Get | Method::Post) => {
                self.stream(call, StreamKind::PortForward)
            }
            (Kind::SERVICE_ACCOUNT, "token", Method::Post) => self.issue_token(call),
            _ => Err(Failure::no_such_path()),
        }
    }

    fn scale(&mut self, call: &Call<'_>) -> Result<Answer, Failure> {
        let old = Arc::clone(self.existing(call)?);
        let paths = call
            .info
            .version(&call.resource.version)
            .and_then(|version| version.scale.clone())
            .ok_or_else(Failure::no_such_path)?;
        let shown = |object: &Value| {
            let selector = match object.pointer(&paths.selector) {
                Some(Value::String(text)) => text.clone(),
                Some(selector) => select::to_text(selector),
                None => String::new(),
            };
            let meta = |field: &str| object.pointer(&format!("/metadata/{field}")).cloned();
            json!({
                "kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": {
                    "name": meta("name"), "namespace": meta("namespace"), "uid": meta("uid"),
                    "resourceVersion": meta("resourceVersion"), "creationTimestamp": meta("creationTimestamp"),
                },
                "spec": {"replicas": int(object, &paths.spec).unwrap_or(0)},
                "status": {"replicas": int(object, &paths.status).unwrap_or(0), "selector": selector},
            })
        };
        let wanted = match call.request.method {
            Method::Put => call.request.json()?,
            Method::Patch => {
                let media = call.request.content_type.as_deref().unwrap_or_default();
                let media = media.split(';').next().unwrap_or_default().trim();
                patch::patched(media, &call.info, &shown(&old), &call.request.json()?)?
            }
            _ => return Ok(done(200, shown(&old))),
        };
        let replicas = wanted
            .pointer("/spec/replicas")
            .cloned()
            .unwrap_or_else(|| json!(0));
        if replicas.as_i64().is_none_or(|replicas| replicas < 0) {
            let cause = Cause::invalid("spec.replicas", &replicas, "must be greater than or equal to 0");
            return Err(Failure::invalid(&call.info, call.name(), &[cause]));
        }
        let mut new = old.as_ref().clone();
        let path: Vec<_> = paths.spec.split('/').filter(|step| !step.is_empty()).collect();
        put(&mut new, &path, replicas);
        // What the client saw of the scale is what it saw of the object.
        for field in ["resourceVersion", "uid"] {
            let seen = text(&wanted, &format!("/metadata/{field}"));
            if !seen.is_empty() {
                put(&mut new, &["metadata", field], seen);
            }
        }
        let manager = Manager::of(call, Operation::Update, Some("scale"));
        let stored = self.update(call, &old, new, &manager)?;
        Ok(done(200, shown(&stored)))
    }

    /// A scheduler says where a pod runs.
    fn bind(&mut self, call: &Call<'_>) -> Result<Answer, Failure> {
        let body = call.request.json()?;
        let old = self.existing(call)?;
        let node = text(&body, "/target/name");
        if node.is_empty() {
            let cause = Cause::required("target.name", "");
            return Err(Failure::invalid(&call.info, call.name(), &[cause]));
        }
        let bound = text(old, "/spec/nodeName");
        if !bound.is_empty() {
            let why = format!("pod {} is already assigned to node {bound:?}", call.name());
            return Err(Failure::conflict(&call.info, call.name(), &why));
        }
        let mut new = old.as_ref().clone();
        put(&mut new, &["spec", "nodeName"], node);
        let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": call.timestamp()});
        let conditions = items(old, "/status/conditions")
            .iter()
            .filter(|condition| text(condition, "/type") != "PodScheduled")
            .cloned()
            .chain([condition]);
        put(
            &mut new,
            &["status", "conditions"],
            conditions.collect::<Vec<_>>(),
        );
        if !call.dry_run() {
            self.commit(call.key(), new, false);
        }
        Ok(done(201, success(201)))
    }

    /// Delete a pod, if its budgets allow it.
    fn evict(&mut self, call: &Call<'_>) -> Result<Answer, Failure> {
        let body = call.request.json()?;
        let pod = Arc::clone(self.existing(call)?);
        let budgets: Vec<_> = self
            .range(Kind::POD_DISRUPTION_BUDGET, call.target.namespace.as_deref())
            .filter(|(_, budget)| covers(budget, &pod))
            .map(|(key, budget)| (key.clone(), Arc::clone(budget)))
            .collect();
        match budgets.as_slice() {
            [] => {}
            [(key, budget)] => self.spend(call, key, budget, &pod)?,
            _ => {
                return Err(Failure::internal(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        }
        let options = body.get("deleteOptions").cloned().unwrap_or_else(|| json!({}));
        let mut request = call.request.clone();
        request.body = options.to_string().into_bytes();
        let mut target = call.target.clone();
        target.subresource = None;
        let delete = Call {
            now: call.now,
            request: &request,
            target,
            resource: call.resource.clone(),
            info: Arc::clone(&call.info),
        };
        self.delete(&delete)?;
        Ok(done(201, success(201)))
    }

    /// One disruption less, if there is one left.
    fn spend(&mut self, call: &Call<'_>, key: &Key, budget: &Value, pod: &Value) -> Result<(), Failure> {
        let number = |field: &str| int(budget, &format!("/status/{field}")).unwrap_or(0);
        let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed" | "Pending");
        if ended || super::meta::is_deleting(pod) {
            return Ok(());
        }
        let ready = items(pod, "/status/conditions")
            .iter()
            .any(|condition| text(condition, "/type") == "Ready" && text(condition, "/status") == "True");
        let healthy = number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
        if !ready && (healthy || text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow") {
            return Ok(());
        }
        if number("observedGeneration") < int(budget, "/metadata/generation").unwrap_or(0) {
            return Err(Failure::blocked_by_budget(
                &key.name,
                "is still being processed by the server.",
            ));
        }
        if number("disruptionsAllowed") < 1 {
            let why = format!(
                "needs {} healthy pods and has {} currently",
                number("desiredHealthy"),
                number("currentHealthy")
            );
            return Err(Failure::blocked_by_budget(&key.name, &why));
        }
        if !call.dry_run() {
            let mut spent = budget.clone();
            put(
                &mut spent,
                &["status", "disruptionsAllowed"],
                number("disruptionsAllowed") - 1,
            );
            put(
                &mut spent,
                &["status", "disruptedPods", call.name()],
                call.timestamp(),
            );
            self.commit(key.clone(), spent, false);
        }
        Ok(())
    }

    fn stream(&self, call: &Call<'_>, kind: StreamKind) -> Result<Answer, Failure> {
        let pod = Arc::clone(self.existing(call)?);
        if text(&pod, "/spec/nodeName").is_empty() {
            return Err(Failure::bad_request(format!(
                "pod {} does not have a host assigned",
                call.name()
            )));
        }
        let container = match call.request.query("container").filter(|name| !name.is_empty()) {
            Some(name) => name.to_owned(),
            None => default_container(&pod),
        };
        let known = ["/spec/containers", "/spec/initContainers"]
            .iter()
            .flat_map(|list| items(&pod, list))
            .any(|known| text(known, "/name") == container);
        if !known && kind != StreamKind::PortForward {
            return Err(Failure::bad_request(format!(
                "container {container} is not valid for pod {}",
                call.name()
            )));
        }
        Ok(Answer::Stream(StreamRequest {
            kind,
            pod,
            container,
            query: call.request.query.clone(),
        }))
    }
}

fn default_container(pod: &Value) -> String {
    let annotated = pod.pointer("/metadata/annotations/kubectl.kubernetes.io~1default-container");
    let first = || {
        items(pod, "/spec/containers")
            .first()
            .map(|first| text(first, "/name"))
    };
    annotated
        .and_then(Value::as_str)
        .or_else(first)
        .unwrap_or_default()
        .to_owned()
}

fn covers(budget: &Value, pod: &Value) -> bool {
    budget
        .pointer("/spec/selector")
        .and_then(select::from_object)
        .is_some_and(|selector| selector.matches(pod))
}

fn success(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code})
}

/// What discovery says about subresources.
pub(crate) fn names(
    kind: Kind,
    info: &KindInfo,
    version: &str,
) -> Vec<(&'static str, &'static str, &'static str, &'static [&'static str])> {
    let mut found: Vec<(&str, &str, &str, &[&str])> = Vec::new();
    let version = info.version(version);
    if version.is_some_and(|version| version.status) {
        found.push(("status", "", "", &["get", "patch", "update"]));
    }
    if version.is_some_and(|version| version.scale.is_some()) {
        found.push(("scale", "autoscaling/v1", "Scale", &["get", "patch", "update"]));
    }
    if kind == Kind::POD {
        found.push(("binding", "v1", "Binding", &["create"]));
        found.push(("eviction", "policy/v1", "Eviction", &["create"]));
        found.push(("log", "v1", "Pod", &["get"]));
        found.push(("exec", "v1", "PodExecOptions", &["create", "get"]));
        found.push(("attach", "v1", "PodAttachOptions", &["create", "get"]));
        found.push(("portforward", "v1", "PodPortForwardOptions", &["create", "get"]));
    }
    if kind == Kind::SERVICE_ACCOUNT {
        found.push(("token", "authentication.k8s.io/v1", "TokenRequest", &["create"]));
    }
    found
}
