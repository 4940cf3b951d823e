//! Create, replace, patch: from a body to a commit.

use std::sync::Arc;

use serde_json::{Value, json};

use super::apply::{self, Manager, Operation};
use super::failure::{Cause, Failure};
use super::kinds::{Kind, KindInfo};
use super::request::Answer;
use super::store::{Call, Key, Store, done};
use super::value::{items, lost, put, put_or_remove, remove, text};
use super::{crd, defaults, events, granting, meta, patch, schema};

/// What is so wrong with an object that its rules are not asked.
const BLOCKING: [&str; 5] = [
    "FieldValueTypeInvalid",
    "FieldValueRequired",
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueTooMany",
];

/// Metadata that only the server writes.
const SERVERS: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
];

impl Store {
    /// `POST` of a new object.
    pub(crate) fn create(&mut self, call: &Call<'_>) -> Result<Answer, Failure> {
        let object = Self::read(call, &call.request.json()?)?;
        let manager = Manager::of(call, Operation::Update, None);
        let created = self.insert(call, object, &manager)?;
        Ok(done(201, call.present(&created)))
    }

    /// Check and store a new object.
    pub(crate) fn insert(
        &mut self,
        call: &Call<'_>,
        mut object: Value,
        manager: &Manager,
    ) -> Result<Arc<Value>, Failure> {
        let namespace = call.target.namespace.clone().unwrap_or_default();
        if call.info.namespaced {
            self.open_namespace(&namespace, call)?;
            put(&mut object, &["metadata", "namespace"], namespace.as_str());
        }
        if !text(&object, "/metadata/resourceVersion").is_empty() {
            return Err(Failure::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        self.name(call, &mut object)?;
        let key = Key {
            name: text(&object, "/metadata/name").to_owned(),
            ..call.key()
        };
        for field in SERVERS {
            remove(&mut object, &["metadata", field]);
        }
        if call
            .info
            .version(&call.resource.version)
            .is_some_and(|version| version.status)
        {
            defaults::first_status(call.resource.kind, &mut object);
        }
        let mut object = self.admitted(call, &object, None)?;
        granting::check(self, call, None, &object)?;
        if call.resource.kind == Kind::SERVICE {
            self.cluster_ip(&mut object);
        }
        if self.objects.contains_key(&key) {
            return Err(Failure::already_exists(&call.info, &key.name));
        }
        put(&mut object, &["metadata", "uid"], self.uid());
        put(&mut object, &["metadata", "creationTimestamp"], call.timestamp());
        if call.info.generation {
            put(&mut object, &["metadata", "generation"], 1);
        }
        apply::track(None, &mut object, manager, &Self::topology(call));
        Ok(if call.dry_run() {
            Arc::new(object)
        } else {
            self.commit(key, object, false)
        })
    }

    fn name(&mut self, call: &Call<'_>, object: &mut Value) -> Result<(), Failure> {
        if !text(object, "/metadata/name").is_empty() {
            return Ok(());
        }
        let base = text(object, "/metadata/generateName").to_owned();
        if base.is_empty() {
            let cause = Cause::required("metadata.name", "name or generateName is required");
            return Err(Failure::invalid(&call.info, "", &[cause]));
        }
        let name = format!("{base}{}", meta::suffix(self.draw()));
        put(object, &["metadata", "name"], name);
        Ok(())
    }

    fn open_namespace(&self, namespace: &str, call: &Call<'_>) -> Result<(), Failure> {
        let Some(found) = self.get(Kind::NAMESPACE, "", namespace) else {
            let info = self
                .kinds
                .info(Kind::NAMESPACE)
                .ok_or_else(Failure::no_such_path)?;
            return Err(Failure::not_found(info, namespace));
        };
        if meta::is_deleting(found) {
            return Err(Failure::terminating(&call.info, call.name(), namespace));
        }
        Ok(())
    }

    /// A body as an object of the stored version: right kind, right name, right shape.
    pub(crate) fn read(call: &Call<'_>, body: &Value) -> Result<Value, Failure> {
        let info = &call.info;
        meta::shape(body, info).map_err(Failure::bad_request)?;
        let expected = if call.resource.as_new_event {
            "events.k8s.io/v1".to_owned()
        } else {
            info.api_version(&call.resource.version)
        };
        let (version, kind) = (text(body, "/apiVersion"), text(body, "/kind"));
        if !version.is_empty() && version != expected {
            return Err(Failure::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({expected})"
            )));
        }
        if !kind.is_empty() && kind != info.kind {
            return Err(Failure::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {}: converting to the wrong kind",
                call.resource.version, info.kind
            )));
        }
        let namespace = text(body, "/metadata/namespace");
        if !namespace.is_empty() && Some(namespace) != call.target.namespace.as_deref() && info.namespaced {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let name = text(body, "/metadata/name");
        if let Some(wanted) = call
            .target
            .name
            .as_deref()
            .filter(|wanted| !name.is_empty() && name != *wanted)
        {
            return Err(Failure::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({wanted})"
            )));
        }
        let mut object = if call.resource.as_new_event {
            events::to_old(body)
        } else {
            body.clone()
        };
        put(&mut object, &["apiVersion"], info.stored_as());
        put(&mut object, &["kind"], info.kind.as_str());
        if !info.namespaced {
            remove(&mut object, &["metadata", "namespace"]);
        }
        Ok(object)
    }

    /// Pruned, defaulted and valid, or the reasons why not.
    fn admitted(&self, call: &Call<'_>, object: &Value, old: Option<&Value>) -> Result<Value, Failure> {
        let info = &call.info;
        let schema = info
            .version(&call.resource.version)
            .and_then(|version| version.schema.as_ref());
        let mut kept = match schema {
            Some(schema) => schema::pruned(schema, object),
            None if info.custom => object.clone(),
            None => self
                .rules
                .decode(&info.stored_as(), &info.kind, object)
                .map_err(|why| {
                    Failure::bad_request(format!(
                        "{} in version \"{}\" cannot be handled as a {}: {why}",
                        info.kind, call.resource.version, info.kind
                    ))
                })?,
        };
        if call.request.query("fieldValidation") == Some("Strict") {
            let mut unknown = Vec::new();
            lost(object, &kept, "", &mut unknown);
            if !unknown.is_empty() {
                let listed: Vec<_> = unknown
                    .iter()
                    .map(|path| format!("unknown field {path:?}"))
                    .collect();
                return Err(Failure::bad_request(format!(
                    "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
                    info.kind,
                    call.resource.version,
                    info.kind,
                    listed.join(", ")
                )));
            }
        }
        meta::without_empty(&mut kept);
        let mut causes = meta::check(call.resource.kind, &kept);
        if let Some(schema) = schema {
            schema::default(schema, &mut kept);
            let broken = schema::check(schema, &kept, self.rules.as_ref());
            // Rules may rely on types, so they are not asked about an object that has other ones, as upstream. A number
            // that is out of bounds is one all the same, and the rule may have the better sentence.
            let blocked = broken.iter().any(|cause| BLOCKING.contains(&cause.reason));
            causes.extend(broken);
            if !blocked {
                causes.extend(self.rules.cel(schema, &kept, old));
            }
        } else {
            defaults::fill(call.resource.kind, &mut kept);
            causes.extend(defaults::check(call.resource.kind, &kept, old));
        }
        if call.resource.kind == Kind::CUSTOM_RESOURCE_DEFINITION {
            causes.extend(crd::check(&kept));
        }
        if causes.is_empty() {
            Ok(kept)
        } else {
            let name = text(&kept, "/metadata/name").to_owned();
            Err(Failure::invalid(info, &name, &causes))
        }
    }

    /// `PUT` of an object or of its status.
    pub(crate) fn replace(&mut self, call: &Call<'_>, subresource: Option<&str>) -> Result<Answer, Failure> {
        let body = Self::read(call, &call.request.json()?)?;
        let old = Arc::clone(self.existing(call)?);
        if text(&body, "/metadata/resourceVersion").is_empty()
            && needs_version(call.resource.kind, &call.info)
        {
            let cause = Cause {
                reason: "FieldValueInvalid",
                field: "metadata.resourceVersion".to_owned(),
                message: "Invalid value: 0: must be specified for an update".to_owned(),
            };
            return Err(Failure::invalid(&call.info, call.name(), &[cause]));
        }
        let manager = Manager::of(call, Operation::Update, subresource);
        let stored = self.update(call, &old, body, &manager)?;
        Ok(done(200, call.present(&stored)))
    }

    /// `PATCH` of an object or of its status.
    pub(crate) fn patch(&mut self, call: &Call<'_>, subresource: Option<&str>) -> Result<Answer, Failure> {
        let media = call.request.content_type.as_deref().unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().trim();
        if matches!(
            media,
            "application/apply-patch+yaml" | "application/apply-patch+json"
        ) {
            return self.apply(call, subresource);
        }
        let old = Arc::clone(self.existing(call)?);
        let body = call.request.json()?;
        let changed = patch::patched(media, &call.info, &call.versioned(&old), &body)?;
        let changed = Self::read(call, &changed)?;
        let manager = Manager::of(call, Operation::Update, subresource);
        let stored = self.update(call, &old, changed, &manager)?;
        Ok(done(200, call.present(&stored)))
    }

    /// Store a changed object, unless nothing changed.
    pub(crate) fn update(
        &mut self,
        call: &Call<'_>,
        old: &Arc<Value>,
        mut new: Value,
        manager: &Manager,
    ) -> Result<Arc<Value>, Failure> {
        preconditions(call, old, &new)?;
        let has_status = call
            .info
            .version(&call.resource.version)
            .is_some_and(|version| version.status);
        match manager.subresource.as_deref() {
            Some("status") => new = only_status(call.resource.kind, old, &new),
            _ if has_status => put_or_remove(&mut new, &["status"], old.get("status").cloned()),
            _ => {}
        }
        for field in SERVERS {
            let kept = old.pointer(&format!("/metadata/{field}")).cloned();
            put_or_remove(&mut new, &["metadata", field], kept);
        }
        if call.info.namespaced {
            put(
                &mut new,
                &["metadata", "namespace"],
                text(old, "/metadata/namespace"),
            );
        }
        let mut new = self.admitted(call, &new, Some(old))?;
        granting::check(self, call, Some(old), &new)?;
        Self::only_fewer_finalizers(call, old, &new)?;
        if call.info.generation && spec_changed(old, &new) {
            let generation = super::value::int(old, "/metadata/generation").unwrap_or(0) + 1;
            put(&mut new, &["metadata", "generation"], generation);
        }
        apply::track(Some(old), &mut new, manager, &Self::topology(call));
        if apply::same(old, &new) || call.dry_run() {
            return Ok(if call.dry_run() {
                Arc::new(new)
            } else {
                Arc::clone(old)
            });
        }
        let last = meta::is_deleting(&new)
            && meta::finalizers(&new).is_empty()
            && items(&new, "/spec/finalizers").is_empty()
            && super::value::int(&new, "/metadata/deletionGracePeriodSeconds").unwrap_or(0) == 0;
        Ok(self.commit(call.key(), new, last))
    }

    fn only_fewer_finalizers(call: &Call<'_>, old: &Value, new: &Value) -> Result<(), Failure> {
        let before = meta::finalizers(old);
        let added: Vec<_> = meta::finalizers(new)
            .into_iter()
            .filter(|finalizer| !before.contains(finalizer))
            .collect();
        if added.is_empty() || !meta::is_deleting(old) {
            return Ok(());
        }
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
        );
        let cause = Cause::forbidden("metadata.finalizers", why);
        Err(Failure::invalid(&call.info, call.name(), &[cause]))
    }

    fn cluster_ip(&mut self, service: &mut Value) {
        let wanted = text(service, "/spec/clusterIP");
        if wanted.is_empty() && text(service, "/spec/type") != "ExternalName" {
            let draw = self.draw();
            let [first, second] = self.services;
            let (third, last) = ((draw >> 8) & 0xff, 1 + (draw & 0xff) % 254);
            let ip = format!("{first}.{second}.{third}.{last}");
            put(service, &["spec", "clusterIPs"], json!([ip]));
            put(service, &["spec", "clusterIP"], ip);
        }
    }

    /// What follows from a change inside the store itself.
    pub(crate) fn after(&mut self, key: &Key, object: &Arc<Value>, deleted: bool) {
        match key.kind {
            Kind::CUSTOM_RESOURCE_DEFINITION => self.definition_changed(object, deleted),
            Kind::NAMESPACE => self.namespace_changed(object, deleted),
            _ if deleted => {
                self.maybe_close_definition(key.kind);
                if !key.namespace.is_empty() {
                    self.maybe_close_namespace(&key.namespace);
                }
            }
            _ => {}
        }
    }
}

/// Kinds whose server refuses to overwrite what the client has not seen.
fn needs_version(kind: Kind, info: &KindInfo) -> bool {
    info.custom
        || matches!(
            kind,
            Kind::LEASE
                | Kind::POD_DISRUPTION_BUDGET
                | Kind::CUSTOM_RESOURCE_DEFINITION
                | Kind::ENDPOINT_SLICE
        )
}

fn preconditions(call: &Call<'_>, old: &Value, new: &Value) -> Result<(), Failure> {
    let (seen, now) = (
        text(new, "/metadata/resourceVersion"),
        text(old, "/metadata/resourceVersion"),
    );
    if !seen.is_empty() && seen != now {
        return Err(Failure::modified(&call.info, call.name()));
    }
    let (asked, uid) = (text(new, "/metadata/uid"), text(old, "/metadata/uid"));
    if !asked.is_empty() && asked != uid {
        let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {uid}");
        return Err(Failure::conflict(&call.info, call.name(), &why));
    }
    Ok(())
}

/// The old object with the new status, and nothing else of the new one; but
/// the status of a pod carries labels and annotations along, as upstream.
fn only_status(kind: Kind, old: &Value, new: &Value) -> Value {
    let mut object = old.clone();
    put_or_remove(&mut object, &["status"], new.get("status").cloned());
    let along: &[&str] = match kind {
        Kind::POD => &["managedFields", "labels", "annotations"],
        _ => &["managedFields"],
    };
    for field in along {
        let value = new.pointer(&format!("/metadata/{field}")).cloned();
        put_or_remove(&mut object, &["metadata", field], value);
    }
    object
}

/// Whether anything changed that is neither metadata nor status.
fn spec_changed(old: &Value, new: &Value) -> bool {
    let others = |object: &Value| {
        let mut object = object.clone();
        remove(&mut object, &["metadata"]);
        remove(&mut object, &["status"]);
        object
    };
    others(old) != others(new)
}
