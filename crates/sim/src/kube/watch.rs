//! Watches: where a client stands in the log.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::failure::Failure;
use super::kinds::{Kind, KindInfo, Resource};
use super::select::Selector;
use super::store::{Call, Entry, Revision, Store};
use super::table::Form;
use super::value::put;
use super::{events, table};

/// What happened, in the words of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// It is there now.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
    /// Nothing happened; this is how far you have seen.
    Bookmark,
    /// The watch is over; the object is a `Status`.
    Error,
}

impl EventType {
    /// As it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }
}

/// One line of a watch.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchEvent {
    /// What happened.
    pub event: EventType,
    /// To what.
    pub object: Value,
}

impl WatchEvent {
    fn new(event: EventType, object: Value) -> Self {
        Self { event, object }
    }

    /// The line, without its end.
    pub fn to_json(&self) -> String {
        json!({"type": self.event.as_str(), "object": self.object}).to_string()
    }
}

/// A client's place in the log.
#[derive(Clone, Debug)]
pub struct Watch {
    kind: Kind,
    info: Arc<KindInfo>,
    resource: Resource,
    namespace: Option<String>,
    selector: Selector,
    form: Form,
    /// Seen up to here.
    at: u64,
    /// What is sent before the log is followed.
    initial: Vec<WatchEvent>,
    /// The client understands bookmarks.
    pub bookmarks: bool,
    /// When the client wants it closed, in seconds.
    pub timeout_seconds: Option<u64>,
    over: bool,
}

impl Watch {
    /// How far it has seen.
    pub fn position(&self) -> Revision {
        Revision(self.at)
    }

    /// After an error nothing follows.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Which kind it follows.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    fn bookmark(&self, revision: u64, last_of_initial: bool) -> WatchEvent {
        let mut object = json!({
            "kind": self.info.kind,
            "apiVersion": self.info.api_version(&self.resource.version),
            "metadata": {"resourceVersion": revision.to_string(), "creationTimestamp": null},
        });
        if last_of_initial {
            let path = ["metadata", "annotations", "k8s.io/initial-events-end"];
            put(&mut object, &path, "true");
        }
        if let Form::Partial = self.form {
            put(&mut object, &["kind"], "PartialObjectMetadata");
            put(&mut object, &["apiVersion"], "meta.k8s.io/v1");
        }
        WatchEvent::new(EventType::Bookmark, object)
    }

    fn present(&self, object: &Value, now: Timestamp) -> Value {
        let object = if self.resource.as_new_event {
            events::to_new(object)
        } else if self.info.custom {
            let mut object = object.clone();
            put(
                &mut object,
                &["apiVersion"],
                self.info.api_version(&self.resource.version),
            );
            object
        } else {
            object.clone()
        };
        table::one(self.form, &self.info, &self.resource.version, &object, now)
    }

    /// What a change means to somebody who sees only what is selected.
    fn seen(&self, entry: &Entry, now: Timestamp) -> Option<WatchEvent> {
        let here = entry.key.kind == self.kind
            && self
                .namespace
                .as_ref()
                .is_none_or(|wanted| *wanted == entry.key.namespace);
        if !here {
            return None;
        }
        let before = entry.old.as_ref().is_some_and(|old| self.selector.matches(old));
        let after = !entry.deleted && self.selector.matches(&entry.new);
        let event = match (before, after) {
            (false, true) => EventType::Added,
            (true, true) => EventType::Modified,
            (true, false) => EventType::Deleted,
            (false, false) => return None,
        };
        // What leaves the selection is shown as it was, at the revision at which it left.
        let object = match (&entry.old, event) {
            (Some(old), EventType::Deleted) if !entry.deleted => {
                let mut object = old.as_ref().clone();
                let revision = entry.new.pointer("/metadata/resourceVersion").cloned();
                put(
                    &mut object,
                    &["metadata", "resourceVersion"],
                    revision.unwrap_or_default(),
                );
                self.present(&object, now)
            }
            _ => self.present(&entry.new, now),
        };
        Some(WatchEvent::new(event, object))
    }
}

impl Store {
    /// Begin a watch.
    pub(crate) fn watch(&self, call: &Call<'_>) -> Result<Watch, Failure> {
        let request = call.request;
        let from = match request.query("resourceVersion") {
            None | Some("" | "0") => None,
            Some(text) => Some(super::list::revision_of(text)?),
        };
        let initial = match request.query("sendInitialEvents") {
            Some("true") => {
                if request.query("resourceVersionMatch") != Some("NotOlderThan") {
                    return Err(Failure::unprocessable(
                        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                    ));
                }
                true
            }
            Some(_) => false,
            None => from.is_none(),
        };
        let mut watch = Watch {
            kind: call.resource.kind,
            info: Arc::clone(&call.info),
            resource: call.resource.clone(),
            namespace: call.target.namespace.clone(),
            selector: Self::selector(call)?,
            form: Form::of(request),
            at: if initial {
                self.revision
            } else {
                from.unwrap_or(self.revision)
            },
            initial: Vec::new(),
            bookmarks: request.flag("allowWatchBookmarks"),
            timeout_seconds: request.query("timeoutSeconds").and_then(|text| text.parse().ok()),
            over: false,
        };
        if initial {
            watch.initial = self
                .range(watch.kind, watch.namespace.as_deref())
                .filter(|(_, object)| watch.selector.matches(object))
                .map(|(_, object)| WatchEvent::new(EventType::Added, watch.present(object, self.now)))
                .collect();
            if request.query("sendInitialEvents").is_some() && watch.bookmarks {
                let last = watch.bookmark(self.revision, true);
                watch.initial.push(last);
            }
        }
        Ok(watch)
    }

    /// What happened since the last poll, in order. After an error nothing follows.
    pub fn poll(&self, watch: &mut Watch) -> Vec<WatchEvent> {
        let mut seen = std::mem::take(&mut watch.initial);
        if watch.over {
            return seen;
        }
        let Some(entries) = self.since(watch.at) else {
            watch.over = true;
            let message = format!("too old resource version: {} ({})", watch.at, self.compacted);
            seen.push(WatchEvent::new(
                EventType::Error,
                Failure::expired(message).status(),
            ));
            return seen;
        };
        for (revision, entry) in entries {
            watch.at = revision;
            seen.extend(watch.seen(entry, self.now));
        }
        seen
    }

    /// A bookmark for a watch that was just polled.
    pub fn bookmark(&self, watch: &Watch) -> WatchEvent {
        watch.bookmark(watch.at.max(self.revision), false)
    }
}
