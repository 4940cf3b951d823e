//! The state, and the path of a request through it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::audit::Audit;
use super::failure::Failure;
use super::kinds::{Kind, KindInfo, Registry, Resource};
use super::meta;
use super::request::{self, Answer, ApiRequest, Method, Target};
use super::rules::Rules;
use super::value::{put, text};
use super::{discovery, events, rbac, reviews, table};

/// A point in the history of the whole store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u64);

/// Where an object is stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// One change: exactly one per revision.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) old: Option<Arc<Value>>,
    /// The object as it is after the change; for a deletion, as it was, with
    /// the revision of the deletion.
    pub(crate) new: Arc<Value>,
    pub(crate) deleted: bool,
}

/// How many changes are remembered. An older watch gets 410, as with a real
/// server whose storage was compacted. Each costs about 6 KiB, and watches are
/// read while things happen.
const LOG: usize = 4096;

/// Everything a cluster is.
#[derive(Debug)]
pub struct Store {
    pub(crate) seed: u64,
    pub(crate) counter: u64,
    pub(crate) revision: u64,
    pub(crate) kinds: Registry,
    pub(crate) objects: BTreeMap<Key, Arc<Value>>,
    pub(crate) log: VecDeque<Entry>,
    /// The last revision that is no longer in the log.
    pub(crate) compacted: u64,
    pub(crate) tokens: BTreeMap<String, reviews::Token>,
    pub(crate) rules: Arc<dyn Rules>,
    pub(crate) audit: Audit,
    /// The time of the last request: ages in tables count from it.
    pub(crate) now: Timestamp,
    /// The first half of the addresses of Services.
    pub(crate) services: [u8; 2],
}

/// A request whose path and kind are understood.
pub(crate) struct Call<'a> {
    pub(crate) now: Timestamp,
    pub(crate) request: &'a ApiRequest,
    pub(crate) target: Target,
    pub(crate) resource: Resource,
    pub(crate) info: Arc<KindInfo>,
}

impl Call<'_> {
    pub(crate) fn dry_run(&self) -> bool {
        self.request.query("dryRun") == Some("All")
    }

    pub(crate) fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn key(&self) -> Key {
        Key {
            kind: self.resource.kind,
            namespace: self.target.namespace.clone().unwrap_or_default(),
            name: self.name().to_owned(),
        }
    }

    pub(crate) fn timestamp(&self) -> String {
        stamp(self.now)
    }

    /// The object in the version and form that was asked for.
    pub(crate) fn present(&self, object: &Value) -> Value {
        table::shown(self, &self.versioned(object))
    }

    /// The object in the version that was asked for.
    pub(crate) fn versioned(&self, object: &Value) -> Value {
        if self.resource.as_new_event {
            return events::to_new(object);
        }
        let mut object = object.clone();
        if self.info.custom {
            put(
                &mut object,
                &["apiVersion"],
                self.info.api_version(&self.resource.version),
            );
        }
        object
    }
}

/// A moment as the API writes it: whole seconds.
pub(crate) fn stamp(now: Timestamp) -> String {
    format!("{now:.0}")
}

/// So many seconds later; a client may ask for more time than there is.
pub(crate) fn after(now: Timestamp, seconds: i64) -> Timestamp {
    now.saturating_add(jiff::SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

pub(crate) fn done(code: u16, body: Value) -> Answer {
    Answer::Done { code, body }
}

impl Store {
    /// An empty cluster with its first namespaces. The seed decides every uid
    /// and every generated name.
    pub fn new(seed: u64, now: Timestamp, rules: Arc<dyn Rules>) -> Self {
        let mut store = Self {
            seed,
            counter: 0,
            revision: 0,
            kinds: Registry::new(),
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            compacted: 0,
            tokens: BTreeMap::new(),
            audit: Audit::new(),
            rules,
            now,
            services: [10, 96],
        };
        store.found(now);
        store
    }

    /// Services get addresses that begin so, from now on.
    pub fn services_in(&mut self, half: [u8; 2]) {
        self.services = half;
    }

    /// What every cluster has before anybody asks for it.
    fn found(&mut self, now: Timestamp) {
        let objects = ["default", "kube-system", "kube-public", "kube-node-lease"]
            .into_iter()
            .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .chain(rbac::first_roles());
        for object in objects {
            let (group, version) = text(&object, "/apiVersion").split_once('/').unwrap_or(("", "v1"));
            let Some(kind) = self.kinds.by_kind(group, text(&object, "/kind")) else {
                continue;
            };
            let Some(plural) = self.kinds.info(kind).map(|info| info.plural.clone()) else {
                continue;
            };
            let root = if group.is_empty() {
                format!("/api/{version}")
            } else {
                format!("/apis/{group}/{version}")
            };
            let request = ApiRequest {
                method: Method::Post,
                path: format!("{root}/{plural}"),
                query: Vec::new(),
                content_type: None,
                accept: None,
                user: super::User::admin(),
                body: object.to_string().into_bytes(),
            };
            self.handle(now, &request);
        }
    }

    /// The last revision.
    pub fn revision(&self) -> Revision {
        Revision(self.revision)
    }

    /// Answer one request.
    pub fn handle(&mut self, now: Timestamp, request: &ApiRequest) -> Answer {
        self.now = now;
        self.answer(now, request)
            .unwrap_or_else(|failure| done(failure.code, failure.status()))
    }

    fn answer(&mut self, now: Timestamp, request: &ApiRequest) -> Result<Answer, Failure> {
        let segments = request::segments(&request.path)?;
        let target = request::target(&segments);
        let judged = rbac::authorize(self, request, target.as_ref());
        self.note(request, target.as_ref(), judged.is_ok());
        judged?;
        if let Some(body) = discovery::answer(&self.kinds, request, &segments) {
            return body.map(|body| done(200, body));
        }
        let target = target.ok_or_else(Failure::no_such_path)?;
        if let Some(answer) = self.review(now, request, &target) {
            return answer;
        }
        let resource = self
            .kinds
            .find(&target.group, &target.version, &target.plural)
            .ok_or_else(Failure::no_such_path)?;
        let info = self
            .kinds
            .info(resource.kind)
            .cloned()
            .ok_or_else(Failure::no_such_path)?;
        // A cluster-wide kind has no path below a namespace.
        if target.namespace.is_some() && !info.namespaced {
            return Err(Failure::no_such_path());
        }
        let call = Call {
            now,
            request,
            target,
            resource,
            info,
        };
        self.dispatch(&call)
    }

    fn note(&mut self, request: &ApiRequest, target: Option<&Target>, allowed: bool) {
        let Some(asked) = rbac::asked(request, target) else {
            return;
        };
        let times = self.audit.entry(asked).or_default();
        *(if allowed {
            &mut times.allowed
        } else {
            &mut times.refused
        }) += 1;
    }

    /// What service accounts asked for so far.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    fn dispatch(&mut self, call: &Call<'_>) -> Result<Answer, Failure> {
        let named = call.target.name.is_some();
        if named && call.info.namespaced && call.target.namespace.is_none() {
            return Err(Failure::no_such_path());
        }
        if let Some(subresource) = call.target.subresource.clone() {
            return self.subresource(call, &subresource);
        }
        match (call.request.method, named) {
            (Method::Get, true) => Ok(done(200, call.present(self.existing(call)?))),
            (Method::Get, false) if call.request.flag("watch") => self.watch(call).map(Answer::Watch),
            (Method::Get, false) => self.list_answer(call),
            (Method::Post, false) => self.create(call),
            (Method::Put, true) => self.replace(call, None),
            (Method::Patch, true) => self.patch(call, None),
            (Method::Delete, true) => self.delete(call),
            (Method::Delete, false) => self.delete_collection(call),
            _ => Err(Failure::method_not_allowed()),
        }
    }

    /// The object that a call names.
    pub(crate) fn existing(&self, call: &Call<'_>) -> Result<&Arc<Value>, Failure> {
        self.objects
            .get(&call.key())
            .ok_or_else(|| Failure::not_found(&call.info, call.name()))
    }

    /// All objects of a kind, by namespace and name, without copies.
    pub fn list(&self, kind: Kind, namespace: Option<&str>) -> Vec<&Value> {
        self.range(kind, namespace)
            .map(|(_, object)| object.as_ref())
            .collect()
    }

    /// One object.
    pub fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Value> {
        let key = Key {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        self.objects.get(&key).map(Arc::as_ref)
    }

    pub(crate) fn range<'a, 'n>(
        &'a self,
        kind: Kind,
        namespace: Option<&'n str>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> + use<'a, 'n> {
        let from = Key {
            kind,
            namespace: namespace.unwrap_or_default().to_owned(),
            name: String::new(),
        };
        self.objects.range(from..).take_while(move |(key, _)| {
            key.kind == kind && namespace.is_none_or(|wanted| key.namespace == wanted)
        })
    }

    /// A number nobody had before.
    pub(crate) fn draw(&mut self) -> u64 {
        self.counter += 1;
        meta::draw(self.seed, self.counter)
    }

    /// A uid nobody had before.
    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (self.draw(), self.draw());
        meta::uid(high, low)
    }

    /// Make a change: the only place where the state changes.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a key is made for a change and not used again"
    )]
    pub(crate) fn commit(&mut self, key: Key, mut new: Value, deleted: bool) -> Arc<Value> {
        self.revision += 1;
        put(
            &mut new,
            &["metadata", "resourceVersion"],
            self.revision.to_string(),
        );
        let new = Arc::new(new);
        let old = if deleted {
            self.objects.remove(&key)
        } else {
            self.objects.insert(key.clone(), Arc::clone(&new))
        };
        if self.log.len() >= LOG {
            self.log.pop_front();
            self.compacted += 1;
        }
        let entry = Entry {
            key: key.clone(),
            old,
            new: Arc::clone(&new),
            deleted,
        };
        self.log.push_back(entry);
        self.after(&key, &new, deleted);
        new
    }

    /// Forget all history: every older watch and continue token gets 410.
    pub fn compact(&mut self) {
        self.log.clear();
        self.compacted = self.revision;
    }

    /// The changes after a revision, or nothing if they are forgotten.
    pub(crate) fn since(&self, revision: u64) -> Option<impl Iterator<Item = (u64, &Entry)>> {
        let skip = usize::try_from(revision.checked_sub(self.compacted)?).ok()?;
        Some((revision + 1..).zip(self.log.iter().skip(skip)))
    }
}
