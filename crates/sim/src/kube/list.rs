//! Lists: selectors, pages, and lists of the past.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::failure::Failure;
use super::kinds::{Kind, KindInfo};
use super::request::Answer;
use super::select::Selector;
use super::store::{Call, Key, Store, done};
use super::table::{self, Form};

/// Fields that can be selected on, besides name and namespace.
fn selectable(kind: Kind, info: &KindInfo, version: &str, field: &str) -> bool {
    let own: &[&str] = match kind {
        Kind::POD => &[
            "spec.nodeName",
            "status.phase",
            "spec.restartPolicy",
            "status.podIP",
            "spec.serviceAccountName",
        ],
        Kind::SECRET => &["type"],
        Kind::NAMESPACE => &["status.phase"],
        Kind::NODE => &["spec.unschedulable"],
        Kind::EVENT => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "type",
            "reportingComponent",
        ],
        _ => &[],
    };
    field == "metadata.name"
        || (field == "metadata.namespace" && info.namespaced)
        || own.contains(&field)
        || info.version(version).is_some_and(|version| {
            version
                .selectable
                .iter()
                .any(|path| path.trim_start_matches('.') == field)
        })
}

/// A revision that a client names.
pub(crate) fn revision_of(text: &str) -> Result<u64, Failure> {
    text.parse().map_err(|_| {
        Failure::bad_request(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

/// Where the next page begins, and at which revision the first one was read.
struct Place {
    revision: u64,
    after: Option<Key>,
}

impl Store {
    pub(crate) fn selector(call: &Call<'_>) -> Result<Selector, Failure> {
        let query = |name| call.request.query(name).unwrap_or_default();
        Selector::parse(query("labelSelector"), query("fieldSelector"), |field| {
            selectable(call.resource.kind, &call.info, &call.resource.version, field)
        })
    }

    /// The objects of a kind as they were at a revision.
    pub(crate) fn at_revision(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<BTreeMap<Key, Arc<Value>>, Failure> {
        let mut objects: BTreeMap<_, _> = self
            .range(kind, namespace)
            .map(|(key, object)| (key.clone(), Arc::clone(object)))
            .collect();
        if revision >= self.revision {
            return Ok(objects);
        }
        let expired = || {
            Failure::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
            )
        };
        let entries: Vec<_> = self.since(revision).ok_or_else(expired)?.collect();
        // Backwards: the oldest change after the revision has the last word.
        for (_, entry) in entries.into_iter().rev() {
            let here = entry.key.kind == kind && namespace.is_none_or(|wanted| wanted == entry.key.namespace);
            match &entry.old {
                _ if !here => {}
                Some(old) => {
                    objects.insert(entry.key.clone(), Arc::clone(old));
                }
                None => {
                    objects.remove(&entry.key);
                }
            }
        }
        Ok(objects)
    }

    fn place(&self, call: &Call<'_>) -> Result<Place, Failure> {
        let query = |name| call.request.query(name).filter(|text| !text.is_empty());
        if let Some(token) = query("continue") {
            return continued(token, call.resource.kind);
        }
        let asked = query("resourceVersion").map(revision_of).transpose()?;
        if asked.is_some_and(|asked| asked > self.revision) {
            let mut failure = Failure::internal(format!(
                "Too large resource version: {}, current: {}",
                asked.unwrap_or_default(),
                self.revision
            ));
            failure.code = 504;
            failure.reason = "Timeout";
            failure.details = json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1});
            return Err(failure);
        }
        let exact = query("resourceVersionMatch") == Some("Exact");
        Ok(Place {
            revision: asked.filter(|_| exact).unwrap_or(self.revision),
            after: None,
        })
    }

    pub(crate) fn list_answer(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let selector = Self::selector(call)?;
        let place = self.place(call)?;
        let limit = match call.request.query("limit").filter(|text| !text.is_empty()) {
            Some(text) => text
                .parse()
                .map_err(|_| Failure::bad_request(format!("unable to convert {text:?} to an int64")))?,
            None => 0_usize,
        };
        let namespace = call.target.namespace.as_deref();
        let all = self.at_revision(call.resource.kind, namespace, place.revision)?;
        let mut found: Vec<_> = all
            .iter()
            .filter(|(key, _)| place.after.as_ref().is_none_or(|after| *key > after))
            .filter(|(_, object)| selector.matches(object))
            .collect();
        let mut meta = json!({"resourceVersion": place.revision.to_string()});
        if limit > 0 && found.len() > limit {
            let remaining = found.len() - limit;
            found.truncate(limit);
            if let Some((last, _)) = found.last() {
                let token = json!([place.revision, last.namespace, last.name]).to_string();
                super::value::put(&mut meta, &["continue"], hex(&token));
                super::value::put(&mut meta, &["remainingItemCount"], remaining);
            }
        }
        let objects: Vec<_> = found.iter().map(|(_, object)| call.versioned(object)).collect();
        let form = Form::of(call.request);
        Ok(done(
            200,
            table::many(
                form,
                &call.info,
                &call.resource.version,
                &objects,
                &meta,
                call.now,
            ),
        ))
    }
}

fn hex(text: &str) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
    text.bytes()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

fn continued(token: &str, kind: Kind) -> Result<Place, Failure> {
    let bad = || Failure::bad_request("continue key is not valid: illegal base64 data");
    let digits: Vec<_> = token
        .chars()
        .map(|digit| digit.to_digit(16).ok_or_else(bad))
        .collect::<Result<_, _>>()?;
    let bytes: Vec<u8> = digits
        .chunks(2)
        .filter_map(|pair| match pair {
            [high, low] => u8::try_from(high * 16 + low).ok(),
            _ => None,
        })
        .collect();
    let (revision, namespace, name) = serde_json::from_slice(&bytes).map_err(|_| bad())?;
    Ok(Place {
        revision,
        after: Some(Key {
            kind,
            namespace,
            name,
        }),
    })
}
