//! What a check works with: a namespace, a client, and a way to assert.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::Login;

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP status.
    pub code: u16,
    /// The body, or null.
    pub body: Value,
}

impl Reply {
    /// The reason of a `Status`.
    pub fn reason(&self) -> &str {
        self.text("/reason")
    }

    /// The text at a JSON pointer.
    pub fn text(&self, pointer: &str) -> &str {
        self.body
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The value at a JSON pointer.
    pub fn at(&self, pointer: &str) -> Value {
        self.body.pointer(pointer).cloned().unwrap_or_default()
    }

    /// The revision of the object.
    pub fn version(&self) -> String {
        self.text("/metadata/resourceVersion").to_owned()
    }

    /// The names in a list.
    pub fn names(&self) -> Vec<String> {
        let items = self.body.get("items").and_then(Value::as_array);
        items
            .into_iter()
            .flatten()
            .filter_map(|item| item.pointer("/metadata/name")?.as_str().map(str::to_owned))
            .collect()
    }
}

/// The surroundings of one check.
#[derive(Clone)]
pub struct World {
    client: Client,
    login: Option<Login>,
    /// The namespace of this check.
    pub namespace: String,
    assertions: Arc<AtomicUsize>,
    skipped: Arc<OnceLock<&'static str>>,
}

impl World {
    pub(crate) async fn new(
        client: Client,
        login: Option<Login>,
        assertions: Arc<AtomicUsize>,
    ) -> Result<Self> {
        let mut world = Self {
            client,
            login,
            namespace: String::new(),
            assertions,
            skipped: Arc::default(),
        };
        let body = json!({"metadata": {"generateName": "conformance-"}});
        let made = world.post("/api/v1/namespaces", &body).await?;
        if made.code != 201 {
            bail!("no namespace: {}", made.body);
        }
        made.text("/metadata/name").clone_into(&mut world.namespace);
        Ok(world)
    }

    pub(crate) async fn clean(&self) -> Result<()> {
        self.delete(&format!("/api/v1/namespaces/{}", self.namespace))
            .await?;
        Ok(())
    }

    /// The same namespace as somebody else; `None` where tokens cannot be used.
    pub fn logged_in(&self, token: &str) -> Result<Option<Self>> {
        let Some(login) = &self.login else {
            self.skip("tokens cannot be used here");
            return Ok(None);
        };
        Ok(Some(Self {
            client: login(token)?,
            ..self.clone()
        }))
    }

    /// What this check is for cannot be asked here. It is reported.
    pub fn skip(&self, why: &'static str) {
        self.skipped.get_or_init(|| why);
    }

    pub(crate) fn skipped(&self) -> Option<&'static str> {
        self.skipped.get().copied()
    }

    /// Does anybody carry out what objects ask for? A dependent of nobody tells: garbage is collected by a controller.
    pub async fn has_controllers(&self) -> Result<bool> {
        let nobody = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "00000000-0000-4000-8000-000000000000"});
        let body = json!({"metadata": {"name": "orphan", "ownerReferences": [nobody]}});
        let orphan = "/api/v1/{ns}/configmaps/orphan";
        self.worked("made", self.post("/api/v1/{ns}/configmaps", &body).await?)?;
        for _ in 0..50 {
            if self.get(orphan).await?.code == 404 {
                return Ok(true);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.skip("no controllers run here");
        Ok(false)
    }

    /// Assert that two values are equal.
    #[allow(clippy::needless_pass_by_value, reason = "every call would need two more `&`")]
    pub fn same<T: PartialEq + std::fmt::Debug>(&self, what: &str, found: T, wanted: T) -> Result<()> {
        self.assertions.fetch_add(1, Ordering::Relaxed);
        if found == wanted {
            return Ok(());
        }
        bail!("{what}: found {found:?}, wanted {wanted:?}");
    }

    /// Assert that something is so.
    pub fn so(&self, what: &str, holds: bool, seen: &Value) -> Result<()> {
        self.assertions.fetch_add(1, Ordering::Relaxed);
        if holds {
            return Ok(());
        }
        bail!("{what}: {seen}");
    }

    /// Assert code and reason of a refusal.
    pub fn refused(&self, what: &str, reply: &Reply, code: u16, reason: &str) -> Result<()> {
        self.same(what, (reply.code, reply.reason()), (code, reason))
            .with_context(|| reply.body.to_string())
    }

    /// Assert that it worked.
    pub fn worked(&self, what: &str, reply: Reply) -> Result<Reply> {
        self.so(what, (200..300).contains(&reply.code), &reply.body)?;
        Ok(reply)
    }

    fn path(&self, path: &str) -> String {
        path.replace("{ns}", &format!("namespaces/{}", self.namespace))
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Request<Body>> {
        let bytes = body.map(ToString::to_string).unwrap_or_default().into_bytes();
        let request = Request::builder()
            .method(method)
            .uri(self.path(path))
            .header("content-type", content_type)
            .header("accept", "application/json");
        Ok(request.body(Body::from(bytes))?)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Reply> {
        let request = self.request(&method, path, content_type, body)?;
        self.send(request).await
    }

    async fn send(&self, request: Request<Body>) -> Result<Reply> {
        let response = self.client.send(request).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Ok(Reply { code, body })
    }

    /// `GET`
    pub async fn get(&self, path: &str) -> Result<Reply> {
        self.call(Method::GET, path, "application/json", None).await
    }

    /// `GET` in another form.
    pub async fn get_as(&self, path: &str, accept: &'static str) -> Result<Reply> {
        let mut request = self.request(&Method::GET, path, "application/json", None)?;
        request
            .headers_mut()
            .insert("accept", http::HeaderValue::from_static(accept));
        self.send(request).await
    }

    /// `POST`
    pub async fn post(&self, path: &str, body: &Value) -> Result<Reply> {
        self.call(Method::POST, path, "application/json", Some(body))
            .await
    }

    /// `PUT`
    pub async fn put(&self, path: &str, body: &Value) -> Result<Reply> {
        self.call(Method::PUT, path, "application/json", Some(body)).await
    }

    /// `DELETE` without options.
    pub async fn delete(&self, path: &str) -> Result<Reply> {
        self.call(Method::DELETE, path, "application/json", None).await
    }

    /// `DELETE` with options.
    pub async fn delete_with(&self, path: &str, options: &Value) -> Result<Reply> {
        self.call(Method::DELETE, path, "application/json", Some(options))
            .await
    }

    /// `PATCH` of a kind: `merge-patch+json`, `json-patch+json`, `strategic-merge-patch+json`, `apply-patch+yaml`.
    pub async fn patch(&self, kind: &str, path: &str, body: &Value) -> Result<Reply> {
        self.call(Method::PATCH, path, &format!("application/{kind}"), Some(body))
            .await
    }

    /// Any bytes as a body.
    pub async fn raw(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &'static str,
    ) -> Result<Reply> {
        let request = Request::builder()
            .method(method)
            .uri(self.path(path))
            .header("content-type", content_type)
            .header("accept", "application/json");
        self.send(request.body(Body::from(body.as_bytes().to_vec()))?)
            .await
    }

    /// A config map in the namespace of this check.
    pub async fn config_map(&self, name: &str, data: &Value, labels: &Value) -> Result<Reply> {
        let body = json!({"metadata": {"name": name, "labels": labels}, "data": data});
        let made = self.post("/api/v1/{ns}/configmaps", &body).await?;
        self.worked("a config map is made", made)
    }

    /// Follow a path with `watch=1`.
    pub async fn watch(&self, path: &str) -> Result<Lines> {
        let request = self.request(&Method::GET, path, "application/json", None)?;
        let response = self.client.send(request).await?;
        let code = response.status().as_u16();
        Ok(Lines {
            code,
            body: response.into_body(),
            rest: Vec::new(),
        })
    }

    /// Ask until it is so, for a minute.
    pub async fn eventually(&self, path: &str, is: impl Fn(&Reply) -> bool) -> Result<Reply> {
        for _ in 0..300 {
            let reply = self.get(path).await?;
            if is(&reply) {
                self.assertions.fetch_add(1, Ordering::Relaxed);
                return Ok(reply);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        bail!("it never became so: {path}")
    }
}

/// The lines of a watch.
pub struct Lines {
    /// The HTTP status.
    pub code: u16,
    body: Body,
    rest: Vec<u8>,
}

impl Lines {
    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.rest.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            let frame = tokio::time::timeout(Duration::from_mins(1), self.body.frame()).await;
            match frame.context("no event within a minute")? {
                Some(frame) => self.rest.extend(frame?.into_data().unwrap_or_default()),
                None => return Ok(None),
            }
        }
    }

    /// Type and name of the next event that is no bookmark.
    pub async fn event(&mut self) -> Result<(String, String)> {
        let text = |event: &Value, at: &str| {
            event
                .pointer(at)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        loop {
            let event = self.next().await?.context("the watch ended")?;
            if text(&event, "/type") != "BOOKMARK" {
                return Ok((text(&event, "/type"), text(&event, "/object/metadata/name")));
            }
        }
    }
}

/// Set what is at a JSON pointer whose place exists but for its last step.
pub(crate) fn set(value: &mut Value, pointer: &str, new: Value) {
    let Some((place, step)) = pointer.rsplit_once('/') else {
        return;
    };
    match value.pointer_mut(place) {
        Some(Value::Object(map)) => {
            map.insert(step.to_owned(), new);
        }
        Some(Value::Array(list)) => {
            if let Some(item) = step.parse::<usize>().ok().and_then(|at| list.get_mut(at)) {
                *item = new;
            }
        }
        _ => {}
    }
}
