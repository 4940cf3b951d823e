//! What a turn stands on before it looks: the spec, the credentials, the objects of the cluster.
//!
//! What cannot be had now stays what it was, and is told: a mistake in a manifest, a quota or a webhook must not leave a
//! cluster without failover.

use super::cluster::{Cluster, Settings};
use super::keeper::TurnError;
use super::resources;
use crate::call::bounded;
use crate::engine::lease::Permit;
use api::memgraph::{Credentials, MemgraphCluster};
use bolt::message::Auth;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use mainstay_core::memgraph::rules::Rules;
use mainstay_core::memgraph::spec::Spec;
use mainstay_core::time::Time;
use std::time::{Duration, Instant};

/// How often the objects are looked at although nothing changed.
const ENSURE_EVERY: Duration = Duration::from_secs(30);
/// The same, after something was refused.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// Something that was declared and is not so, and why. The cluster is looked after all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setback {
    /// A word for programs.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

/// What is known of a cluster from earlier turns.
#[derive(Default)]
pub struct Footing {
    spec: Option<Spec>,
    auth: Option<Auth<'static>>,
    ensured: Option<Ensured>,
}

/// The objects of the cluster were written, for this generation of its spec; or were refused.
struct Ensured {
    generation: Option<i64>,
    at: Instant,
    token: Option<String>,
    setbacks: Vec<Setback>,
}

/// What was declared, as far as it can be followed.
pub struct Declared {
    /// For the decisions.
    pub spec: Spec,
    /// Until when nothing is changed.
    pub paused_until: Option<Time>,
    /// What cannot be followed.
    pub setbacks: Vec<Setback>,
}

impl Footing {
    /// Reads the spec. What cannot be read stays what it was; at first, what it is by default.
    pub fn declared(&mut self, object: &MemgraphCluster, rules: Rules) -> Declared {
        let (read, bad) = object.spec.read(self.spec.unwrap_or_default());
        let spec = Spec { rules, ..read };
        self.spec = Some(spec);
        let not_followed = |message: String| Setback {
            reason: "SpecNotFollowed",
            message,
        };
        let mut setbacks: Vec<Setback> = bad
            .iter()
            .map(|bad| not_followed(format!("spec: {bad}; it stays what it was")))
            .collect();
        let paused_until = object.spec.paused_until().unwrap_or_else(|bad| {
            setbacks.push(not_followed(format!("spec: {bad}; it is not paused")));
            None
        });
        Declared {
            spec,
            paused_until,
            setbacks,
        }
    }

    /// Whom to log in as; what was known if the Secret cannot be used now.
    pub async fn auth(
        &mut self,
        client: &Client,
        namespace: &str,
        settings: &Settings,
        from: Option<&Credentials>,
    ) -> Result<(Auth<'static>, Option<Setback>), TurnError> {
        let Some(from) = from else {
            self.auth = None;
            return Ok((Auth::None, None));
        };
        match (read_secret(client, namespace, settings, from).await, &self.auth) {
            (Ok(auth), _) => {
                self.auth = Some(auth.clone());
                Ok((auth, None))
            }
            (Err(error), Some(known)) => {
                let setback = Setback {
                    reason: "SecretUnusable",
                    message: format!("{error}; the credentials stay what they were"),
                };
                Ok((known.clone(), Some(setback)))
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Sees to the objects of the cluster, if they are due. The token of its gateways and helpers, as far as it is known.
    pub async fn ensure(
        &mut self,
        cluster: &Cluster,
        object: &MemgraphCluster,
        permit: &Permit,
        followed: bool,
    ) -> (Option<String>, Vec<Setback>) {
        let generation = object.metadata.generation;
        if let Some(ensured) = &self.ensured
            && ensured.generation == generation
            && ensured.at.elapsed() < ensured.lasts()
        {
            return (ensured.token.clone(), ensured.setbacks.clone());
        }
        // What cannot be read is not built from.
        let (token, errors) = if cluster.settings.manage && followed {
            resources::ensure(cluster, object, permit).await
        } else {
            match resources::token(cluster).await {
                Ok(token) => (token, vec![]),
                Err(error) => (None, vec![error]),
            }
        };
        let token = token.or_else(|| self.ensured.take().and_then(|ensured| ensured.token));
        let setbacks: Vec<Setback> = errors
            .iter()
            .map(|error| Setback {
                reason: "ObjectNotWritten",
                message: error.to_string(),
            })
            .collect();
        self.ensured = Some(Ensured {
            generation,
            at: Instant::now(),
            token: token.clone(),
            setbacks: setbacks.clone(),
        });
        (token, setbacks)
    }
}

impl Ensured {
    fn lasts(&self) -> Duration {
        if self.setbacks.is_empty() {
            ENSURE_EVERY
        } else {
            TRY_AGAIN
        }
    }
}

async fn read_secret(
    client: &Client,
    namespace: &str,
    settings: &Settings,
    from: &Credentials,
) -> Result<Auth<'static>, TurnError> {
    let Credentials {
        secret_name,
        username_key,
        password_key,
    } = from;
    let wrong = |why: String| TurnError::Secret {
        name: secret_name.clone(),
        why,
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = bounded(settings.call, secrets.get(secret_name))
        .await
        .map_err(|error| wrong(error.to_string()))?;
    let data = secret.data.unwrap_or_default();
    let text = |key: &String| {
        let bytes = data
            .get(key)
            .ok_or_else(|| wrong(format!("it has no key `{key}`")))?;
        String::from_utf8(bytes.0.clone()).map_err(|_| wrong(format!("`{key}` is not text")))
    };
    Ok(Auth::basic(text(username_key)?, text(password_key)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn cluster(spec: &Value) -> MemgraphCluster {
        serde_json::from_value(json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
            "metadata": { "name": "memgraph-ha" }, "spec": spec,
        }))
        .unwrap()
    }

    #[test]
    fn a_spec_that_cannot_be_read_stays_what_it_was_and_is_told() {
        let mut footing = Footing::default();
        let good = footing.declared(&cluster(&json!({ "failover": { "drain": "30s" } })), Rules::ALL);
        assert_eq!(good.setbacks, []);
        let bad = json!({ "failover": { "drain": "1.5s" }, "paused": { "until": "2026-13-40T00:00:00Z" } });
        let now = footing.declared(&cluster(&bad), Rules::ALL);
        assert_eq!(
            (now.spec.drain, now.paused_until),
            (Duration::from_secs(30), None)
        );
        assert_eq!(now.setbacks.len(), 2, "{:?}", now.setbacks);
        let fresh = Footing::default().declared(&cluster(&bad), Rules::ALL);
        assert_eq!(fresh.spec, Spec::default(), "an operator that just started");
    }
}
