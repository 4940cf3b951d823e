//! Tokens, and questions about users that are asked but not stored.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::failure::Failure;
use super::kinds::Kind;
use super::rbac::{self, Attributes};
use super::request::{Answer, ApiRequest, Method, Target, User};
use super::store::{Call, Store, after, done, stamp};
use super::value::{int, put, text};

/// Whom a token stands for, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    namespace: String,
    account: String,
    account_uid: String,
    until: Timestamp,
    /// Name and uid of the pod that it lives and dies with.
    pod: Option<(String, String)>,
}

impl Store {
    /// Whom a token stands for. Nobody, once it expired, or once its account
    /// or its pod is gone or was made anew.
    pub fn authenticate(&self, now: Timestamp, token: &str) -> Option<User> {
        let token = self.tokens.get(token).filter(|token| now < token.until)?;
        let account = self.get(Kind::SERVICE_ACCOUNT, &token.namespace, &token.account)?;
        let alive = text(account, "/metadata/uid") == token.account_uid
            && token.pod.as_ref().is_none_or(|(name, uid)| {
                self.get(Kind::POD, &token.namespace, name)
                    .is_some_and(|pod| text(pod, "/metadata/uid") == uid)
            });
        alive.then(|| User::service_account(&token.namespace, &token.account))
    }

    /// `POST serviceaccounts/NAME/token`.
    pub(crate) fn issue_token(&mut self, call: &Call<'_>) -> Result<Answer, Failure> {
        let mut body = call.request.json()?;
        let account = self.existing(call)?;
        let account_uid = text(account, "/metadata/uid").to_owned();
        let namespace = call.target.namespace.clone().unwrap_or_default();
        let seconds = int(&body, "/spec/expirationSeconds").unwrap_or(3600);
        if !(600..=1 << 32).contains(&seconds) {
            return Err(Failure::unprocessable(format!(
                "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: {seconds}: may not specify a duration less than 10 minutes"
            )));
        }
        let pod = match text(&body, "/spec/boundObjectRef/kind") {
            "Pod" => {
                let name = text(&body, "/spec/boundObjectRef/name").to_owned();
                let pod = self.get(Kind::POD, &namespace, &name);
                let info = self.kinds.info(Kind::POD).ok_or_else(Failure::no_such_path)?;
                let pod = pod.ok_or_else(|| Failure::not_found(info, &name))?;
                Some((name, text(pod, "/metadata/uid").to_owned()))
            }
            _ => None,
        };
        let until = after(call.now, seconds);
        let token = format!("sandbox.{}.{}", call.name(), self.uid());
        self.tokens.insert(
            token.clone(),
            Token {
                namespace,
                account: call.name().to_owned(),
                account_uid,
                until,
                pod,
            },
        );
        put(&mut body, &["kind"], "TokenRequest");
        put(&mut body, &["apiVersion"], "authentication.k8s.io/v1");
        put(&mut body, &["spec", "expirationSeconds"], seconds);
        put(
            &mut body,
            &["status"],
            json!({"token": token, "expirationTimestamp": stamp(until)}),
        );
        Ok(done(201, body))
    }

    /// Kinds that are only asked: `None` if this is not one of them.
    pub(crate) fn review(
        &self,
        now: Timestamp,
        request: &ApiRequest,
        target: &Target,
    ) -> Option<Result<Answer, Failure>> {
        let kind = (target.group.as_str(), target.plural.as_str());
        if request.method != Method::Post || target.name.is_some() {
            return None;
        }
        let answer: fn(&Self, Timestamp, &ApiRequest, &Value) -> Value = match kind {
            ("authorization.k8s.io", "selfsubjectaccessreviews") => {
                |store, _, request, body| json!({"allowed": rbac::allowed(store, &request.user, &attributes(body))})
            }
            ("authorization.k8s.io", "subjectaccessreviews") => |store, _, _, body| {
                let groups = super::value::items(body, "/spec/groups").iter();
                let user = User {
                    name: text(body, "/spec/user").to_owned(),
                    groups: groups
                        .filter_map(|group| group.as_str().map(str::to_owned))
                        .collect(),
                };
                json!({"allowed": rbac::allowed(store, &user, &attributes(body))})
            },
            ("authentication.k8s.io", "tokenreviews") => {
                |store, now, _, body| match store.authenticate(now, text(body, "/spec/token")) {
                    Some(user) => {
                        json!({"authenticated": true, "user": {"username": user.name, "groups": user.groups}})
                    }
                    None => json!({"authenticated": false, "error": "invalid bearer token"}),
                }
            }
            ("authentication.k8s.io", "selfsubjectreviews") => {
                |_, _, request, _| json!({"userInfo": {"username": request.user.name, "groups": request.user.groups}})
            }
            _ => return None,
        };
        Some(request.json().map(|mut body| {
            let status = answer(self, now, request, &body);
            put(&mut body, &["status"], status);
            done(201, body)
        }))
    }
}

fn attributes(body: &Value) -> Attributes {
    let of = |field: &str| text(body, &format!("/spec/resourceAttributes/{field}")).to_owned();
    let mut resource = of("resource");
    if !of("subresource").is_empty() {
        resource = format!("{resource}/{}", of("subresource"));
    }
    Attributes {
        verb: if of("verb").is_empty() {
            text(body, "/spec/nonResourceAttributes/verb").to_owned()
        } else {
            of("verb")
        },
        group: of("group"),
        resource,
        namespace: of("namespace"),
        name: of("name"),
        path: text(body, "/spec/nonResourceAttributes/path").to_owned(),
    }
}
