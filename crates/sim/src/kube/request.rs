//! A request as the store sees it, and the way from a path to what it means.

use serde_json::Value;

use super::failure::Failure;
use super::watch::Watch;

/// The verbs of HTTP that the API knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Read, list, watch.
    Get,
    /// Create, and the verbs that are subresources.
    Post,
    /// Replace.
    Put,
    /// Change.
    Patch,
    /// Delete one or many.
    Delete,
}

/// Who asks, after authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// `system:serviceaccount:NAMESPACE:NAME`, or any other name.
    pub name: String,
    /// The groups, `system:authenticated` included.
    pub groups: Vec<String>,
}

impl User {
    /// May do everything: the user of the sandbox's own controllers and of its owner.
    pub fn admin() -> Self {
        Self {
            name: "admin".to_owned(),
            groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
        }
    }

    /// Nobody said who they are.
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
        }
    }

    /// A pod that shows the token of its service account.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
        }
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// What to do.
    pub method: Method,
    /// Where, percent-encoded as it came.
    pub path: String,
    /// The query, decoded, in order.
    pub query: Vec<(String, String)>,
    /// What the body is.
    pub content_type: Option<String>,
    /// What the answer should be.
    pub accept: Option<String>,
    /// Who asks.
    pub user: User,
    /// The body.
    pub body: Vec<u8>,
}

impl ApiRequest {
    /// The first value of a query parameter.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Whether a query parameter says yes.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.query(name), Some("true" | "1"))
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Result<Value, Failure> {
        let media = self.content_type.as_deref().unwrap_or_default();
        if media.contains("protobuf") || media.contains("cbor") {
            return Err(Failure::unsupported_media(format!(
                "the body is {media}; the sandbox reads only application/json (`kubectl create -f` sends it)"
            )));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::bad_request(format!("the body is not JSON: {error}")))
    }

    /// The body of a DELETE or of a verb that needs none.
    pub(crate) fn options(&self) -> Result<Value, Failure> {
        if self.body.is_empty() {
            Ok(Value::Null)
        } else {
            self.json()
        }
    }

    /// Whose fields a write makes.
    pub(crate) fn manager(&self) -> String {
        self.query("fieldManager").unwrap_or("unknown").to_owned()
    }
}

/// What the store says.
#[derive(Debug)]
pub enum Answer {
    /// The answer is complete.
    Done {
        /// The HTTP status.
        code: u16,
        /// The JSON body.
        body: Value,
    },
    /// The answer goes on: poll it.
    Watch(Watch),
    /// Only the node agent can answer.
    Stream(StreamRequest),
}

/// What is streamed from or to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// `pods/log`
    Log,
    /// `pods/exec`
    Exec,
    /// `pods/attach`
    Attach,
    /// `pods/portforward`
    PortForward,
}

/// A stream to be opened; the pod exists and is bound to a node.
#[derive(Clone, Debug)]
pub struct StreamRequest {
    /// Which stream.
    pub kind: StreamKind,
    /// The pod as it was when the request came.
    pub pod: std::sync::Arc<Value>,
    /// The container, named or the default one.
    pub container: String,
    /// All options, as they came.
    pub query: Vec<(String, String)>,
}

/// A path that names a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// The segments of a path, decoded. One that cannot be is refused before
/// anybody asks what it names.
pub(crate) fn segments(path: &str) -> Result<Vec<String>, Failure> {
    path.trim_start_matches('/')
        .trim_end_matches('/')
        .split('/')
        .map(|segment| {
            percent_decode(segment).ok_or_else(|| Failure::bad_request("the path cannot be decoded"))
        })
        .collect()
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The resource that a path names, if it has the form of one.
pub(crate) fn target(segments: &[String]) -> Option<Target> {
    let (group, version, rest) = match segments {
        [api, version, rest @ ..] if api == "api" => (String::new(), version, rest),
        [apis, group, version, rest @ ..] if apis == "apis" => (group.clone(), version, rest),
        _ => return None,
    };
    let core = group.is_empty();
    let (namespace, rest) = match rest {
        // The namespace itself and its two subresources.
        [first, _] if core && first == "namespaces" => (None, rest),
        [first, _, sub] if core && first == "namespaces" && (sub == "status" || sub == "finalize") => {
            (None, rest)
        }
        [first, namespace, rest @ ..] if first == "namespaces" && !rest.is_empty() => {
            (Some(namespace.clone()), rest)
        }
        _ => (None, rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some(name.clone()), None),
        [plural, name, sub] => (plural, Some(name.clone()), Some(sub.clone())),
        _ => return None,
    };
    Some(Target {
        group,
        version: version.clone(),
        plural: plural.clone(),
        namespace,
        name,
        subresource,
    })
}
