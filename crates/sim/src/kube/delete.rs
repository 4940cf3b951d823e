//! Deletion: preconditions, grace, finalizers, propagation; and what a
//! namespace takes with it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::failure::Failure;
use super::kinds::{Kind, KindInfo};
use super::meta;
use super::request::Answer;
use super::store::{Call, Key, Store, after, done, stamp};
use super::table::{self, Form};
use super::value::{int, items, put, text};

/// What a client asked about a deletion.
struct Options {
    grace: Option<i64>,
    propagation: String,
    uid: String,
    version: String,
}

impl Options {
    /// From the body, or else from the query.
    fn of(call: &Call<'_>) -> Result<Self, Failure> {
        let body = call.request.options()?;
        if !(body.is_null() || body.is_object()) {
            return Err(Failure::bad_request("the body is no DeleteOptions"));
        }
        let query = |name| call.request.query(name).unwrap_or_default().to_owned();
        let propagation = match text(&body, "/propagationPolicy") {
            "" => query("propagationPolicy"),
            policy => policy.to_owned(),
        };
        if !["", "Background", "Foreground", "Orphan"].contains(&propagation.as_str()) {
            return Err(Failure::unprocessable(format!(
                "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: {propagation:?}"
            )));
        }
        Ok(Self {
            grace: int(&body, "/gracePeriodSeconds").or_else(|| query("gracePeriodSeconds").parse().ok()),
            propagation,
            uid: text(&body, "/preconditions/uid").to_owned(),
            version: text(&body, "/preconditions/resourceVersion").to_owned(),
        })
    }

    fn check(&self, info: &KindInfo, name: &str, object: &Value) -> Result<(), Failure> {
        let uid = text(object, "/metadata/uid");
        let version = text(object, "/metadata/resourceVersion");
        let refuse = |what: &str, asked: &str, found: &str| {
            let why = format!(
                "Precondition failed: {what} in precondition: {asked}, {what} in object meta: {found}"
            );
            Err(Failure::conflict(info, name, &why))
        };
        if !self.uid.is_empty() && self.uid != uid {
            return refuse("UID", &self.uid, uid);
        }
        if !self.version.is_empty() && self.version != version {
            return refuse("ResourceVersion", &self.version, version);
        }
        Ok(())
    }
}

impl Store {
    /// `DELETE` of one object.
    pub(crate) fn delete(&mut self, call: &Call<'_>) -> Result<Answer, Failure> {
        let options = Options::of(call)?;
        let old = Arc::clone(self.existing(call)?);
        options.check(&call.info, call.name(), &old)?;
        let (left, gone) = self.remove(call, call.key(), &old, &options);
        if gone && call.resource.kind != Kind::POD {
            let uid = text(&left, "/metadata/uid");
            let details =
                json!({"name": call.name(), "group": call.info.group, "kind": call.info.plural, "uid": uid});
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
            return Ok(done(200, status));
        }
        Ok(done(200, call.present(&left)))
    }

    /// `DELETE` of everything that is selected.
    pub(crate) fn delete_collection(&mut self, call: &Call<'_>) -> Result<Answer, Failure> {
        let options = Options::of(call)?;
        let selector = Self::selector(call)?;
        if call.info.namespaced && call.target.namespace.is_none() {
            return Err(Failure::method_not_allowed());
        }
        let chosen: Vec<_> = self
            .range(call.resource.kind, call.target.namespace.as_deref())
            .filter(|(_, object)| selector.matches(object))
            .map(|(key, object)| (key.clone(), Arc::clone(object)))
            .collect();
        let mut left = Vec::new();
        for (key, object) in chosen {
            left.push(call.versioned(&self.remove(call, key, &object, &options).0));
        }
        let meta = json!({"resourceVersion": self.revision.to_string()});
        let form = Form::of(call.request);
        Ok(done(
            200,
            table::many(form, &call.info, &call.resource.version, &left, &meta, call.now),
        ))
    }

    /// Delete, or mark as being deleted. Says what is left, and whether it is gone.
    fn remove(
        &mut self,
        call: &Call<'_>,
        key: Key,
        old: &Arc<Value>,
        options: &Options,
    ) -> (Arc<Value>, bool) {
        let mut new = old.as_ref().clone();
        let grace = grace(key.kind, old, options.grace);
        let mut finalizers: Vec<_> = meta::finalizers(old).into_iter().map(str::to_owned).collect();
        let wanted = match options.propagation.as_str() {
            "Foreground" => Some("foregroundDeletion"),
            "Orphan" => Some("orphan"),
            _ => None,
        };
        if let Some(wanted) = wanted.filter(|_| !meta::is_deleting(old)) {
            finalizers.retain(|finalizer| finalizer != "foregroundDeletion" && finalizer != "orphan");
            finalizers.push(wanted.to_owned());
            put(&mut new, &["metadata", "finalizers"], finalizers.clone());
        }
        let waits = !finalizers.is_empty() || grace > 0 || !items(old, "/spec/finalizers").is_empty();
        if !waits {
            let gone = if call.dry_run() {
                Arc::clone(old)
            } else {
                self.commit(key, new, true)
            };
            return (gone, true);
        }
        let shorter = int(old, "/metadata/deletionGracePeriodSeconds").is_none_or(|before| grace < before);
        if meta::is_deleting(old) && !shorter {
            return (Arc::clone(old), false);
        }
        let end = after(call.now, grace);
        put(&mut new, &["metadata", "deletionTimestamp"], stamp(end));
        put(&mut new, &["metadata", "deletionGracePeriodSeconds"], grace);
        if call.info.generation && !meta::is_deleting(old) {
            let generation = int(old, "/metadata/generation").unwrap_or(0) + 1;
            put(&mut new, &["metadata", "generation"], generation);
        }
        if key.kind == Kind::NAMESPACE {
            put(&mut new, &["status", "phase"], "Terminating");
        }
        if call.dry_run() {
            return (Arc::new(new), false);
        }
        (self.commit(key, new, false), false)
    }

    /// A namespace begins with its service account, and takes everything with it.
    pub(crate) fn namespace_changed(&mut self, namespace: &Value, deleted: bool) {
        let name = text(namespace, "/metadata/name").to_owned();
        let key = |kind, own: &str| Key {
            kind,
            namespace: name.clone(),
            name: own.to_owned(),
        };
        if !deleted && !meta::is_deleting(namespace) {
            let account = key(Kind::SERVICE_ACCOUNT, "default");
            if !self.objects.contains_key(&account) {
                let created = namespace.pointer("/metadata/creationTimestamp").cloned();
                let object = json!({
                    "apiVersion": "v1", "kind": "ServiceAccount",
                    "metadata": {"name": "default", "namespace": name, "uid": self.uid(), "creationTimestamp": created},
                });
                self.commit(account, object, false);
            }
            return;
        }
        if deleted {
            return;
        }
        let at = namespace
            .pointer("/metadata/deletionTimestamp")
            .cloned()
            .unwrap_or_default();
        let inside: Vec<_> = self
            .objects
            .iter()
            .filter(|(key, object)| key.namespace == name && !meta::is_deleting(object))
            .map(|(key, object)| (key.clone(), Arc::clone(object)))
            .collect();
        for (key, object) in inside {
            let mut object = object.as_ref().clone();
            let grace = grace(key.kind, &object, None);
            let waits = grace > 0 || !meta::finalizers(&object).is_empty();
            if waits {
                put(&mut object, &["metadata", "deletionTimestamp"], at.clone());
                put(&mut object, &["metadata", "deletionGracePeriodSeconds"], grace);
            }
            self.commit(key, object, !waits);
        }
        self.maybe_close_namespace(&name);
    }

    /// A namespace that is being deleted goes when the last object in it goes.
    pub(crate) fn maybe_close_namespace(&mut self, name: &str) {
        let key = Key {
            kind: Kind::NAMESPACE,
            namespace: String::new(),
            name: name.to_owned(),
        };
        let Some(namespace) = self.objects.get(&key).filter(|found| meta::is_deleting(found)) else {
            return;
        };
        let empty = !self.objects.keys().any(|key| key.namespace == name);
        if empty && meta::finalizers(namespace).is_empty() {
            let mut last = namespace.as_ref().clone();
            super::value::remove(&mut last, &["spec", "finalizers"]);
            self.commit(key, last, true);
        }
    }
}

/// Only pods that run somewhere get time to end.
fn grace(kind: Kind, object: &Value, asked: Option<i64>) -> i64 {
    let ended = matches!(text(object, "/status/phase"), "Succeeded" | "Failed");
    if kind != Kind::POD || text(object, "/spec/nodeName").is_empty() || ended {
        return 0;
    }
    asked
        .or_else(|| int(object, "/spec/terminationGracePeriodSeconds"))
        .unwrap_or(30)
        .max(0)
}
