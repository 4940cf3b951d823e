//! What a turn stands on before it looks: the spec, the credentials, the objects of the cluster.
//!
//! What cannot be had now stays what it was, and is told: a mistake in a manifest, a quota or a webhook must not leave a
//! cluster without failover.

use super::cluster::{Cluster, Settings};
use super::keeper::TurnError;
use super::resources;
use super::resources::Part;
use crate::call::bounded;
use crate::engine::lease::Permit;
use api::memgraph::{Credentials, MemgraphCluster};
use bolt::message::Auth;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use mainstay_core::memgraph::rules::Rules;
use mainstay_core::memgraph::spec::Spec;
use mainstay_core::time::Time;
use std::time::Duration;
use tokio::time::Instant;

/// How often the objects are looked at although nothing changed.
const ENSURE_EVERY: Duration = Duration::from_secs(30);
/// The same, after something was refused.
const TRY_AGAIN: Duration = Duration::from_secs(5);
/// For how long they wait for a turn in which MAIN serves and nothing is to be done: longer than a failover takes.
const WAIT_FOR_CALM: Duration = Duration::from_secs(10);

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
    token: Option<String>,
    ensured: Option<Ensured>,
    pass: Option<Pass>,
}

/// The objects of the cluster were written, for this generation of its spec; or were refused.
struct Ensured {
    generation: Option<i64>,
    at: Instant,
    setbacks: Vec<Setback>,
}

/// The objects are to be seen to, and are not all yet.
#[derive(Clone)]
struct Pass {
    generation: Option<i64>,
    due_since: Instant,
    next: usize,
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

    /// Sees to all objects of the cluster, if they are due. However long it takes: only for a cluster that has no MAIN to
    /// be looked after.
    pub async fn ensure(
        &mut self,
        cluster: &Cluster,
        object: &MemgraphCluster,
        permit: &Permit,
        followed: bool,
    ) {
        if let Some(pass) = self.due(object.metadata.generation) {
            self.go_on(pass, (cluster, object, permit), followed, None).await;
        }
    }

    /// Sees to some of them after what the turn had to do, if they are due: to as many as are answered for in the time
    /// between two turns, so that the next look at MAIN is hardly later. `calm`: MAIN serves and nothing was to be done.
    ///
    /// A failover does not wait for them. They do not wait for calm for ever either: a StatefulSet that was deleted, or a
    /// template that keeps MAIN from starting, is what calm waits for.
    pub async fn ensure_some(
        &mut self,
        cluster: &Cluster,
        object: &MemgraphCluster,
        permit: &Permit,
        followed: bool,
        calm: bool,
    ) {
        if let Some(pass) = self.due(object.metadata.generation)
            && (calm || pass.due_since.elapsed() >= WAIT_FOR_CALM)
        {
            let patience = cluster.settings.interval;
            self.go_on(pass, (cluster, object, permit), followed, Some(patience))
                .await;
        }
    }

    /// What could not be had when the objects were last seen to.
    pub fn refused(&self) -> &[Setback] {
        self.ensured.as_ref().map_or(&[], |ensured| &ensured.setbacks)
    }

    /// The token of gateways and helpers, as far as it is known. Whoever begins to lead reads it at once: without it no
    /// gateway takes a push.
    pub async fn token(&mut self, cluster: &Cluster) -> Option<String> {
        if self.token.is_none() && self.ensured.is_none() {
            self.token = resources::token(cluster).await.ok().flatten();
        }
        self.token.clone()
    }

    /// What is to be seen to, if anything is. For another spec it begins anew.
    fn due(&mut self, generation: Option<i64>) -> Option<Pass> {
        let lasts =
            |ensured: &Ensured| ensured.generation == generation && ensured.at.elapsed() < ensured.lasts();
        if self.ensured.as_ref().is_some_and(lasts) {
            self.pass = None;
            return None;
        }
        let begun = self.pass.take();
        let pass = match begun {
            Some(pass) if pass.generation == generation => pass,
            other => Pass {
                generation,
                due_since: other.map_or_else(Instant::now, |pass| pass.due_since),
                next: 0,
                setbacks: Vec::new(),
            },
        };
        self.pass = Some(pass.clone());
        Some(pass)
    }

    async fn go_on(
        &mut self,
        mut pass: Pass,
        (cluster, object, permit): (&Cluster, &MemgraphCluster, &Permit),
        followed: bool,
        patience: Option<Duration>,
    ) {
        // What cannot be read is not built from.
        let part = if cluster.settings.manage && followed {
            resources::ensure(cluster, object, permit, pass.next, patience).await
        } else {
            alone(resources::token(cluster).await)
        };
        let Part { token, errors, next } = part;
        self.token = token.or_else(|| self.token.take());
        pass.setbacks.extend(errors.iter().map(|error| Setback {
            reason: "ObjectNotWritten",
            message: error.to_string(),
        }));
        self.pass = next.map(|next| Pass { next, ..pass.clone() });
        if self.pass.is_none() {
            self.ensured = Some(Ensured {
                generation: pass.generation,
                at: Instant::now(),
                setbacks: pass.setbacks,
            });
        }
    }
}

/// Nothing but the token was looked at.
fn alone(token: Result<Option<String>, resources::ApplyError>) -> Part {
    match token {
        Ok(token) => Part {
            token,
            ..Part::default()
        },
        Err(error) => Part {
            errors: vec![error],
            ..Part::default()
        },
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
    use crate::scripted;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

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

    /// An API in which every object is there and is somebody else's, and which takes its time for each; how many it was
    /// asked for.
    fn slow_api() -> (Cluster, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let client = scripted::client(move |request| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::time::sleep(SLOW).await;
                let name = request.path.rsplit('/').next().unwrap_or_default();
                let found = json!({
                    "metadata": { "name": name }, "data": { "token": "dG9rZW4=" },
                });
                (200, found)
            }
        });
        let at = Cluster {
            name: "memgraph-ha".parse().unwrap(),
            namespace: "db".to_owned(),
            client,
            settings: Arc::new(Settings::default()),
            auth: Auth::None,
            memgraph: None,
        };
        (at, asked)
    }

    const SLOW: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn with_a_slow_api_a_turn_sees_to_few_objects_and_all_turns_together_to_all() {
        let (object, permit) = (cluster(&json!({})), Permit::ALWAYS);
        let (at, asked) = slow_api();
        Footing::default().ensure(&at, &object, &permit, true).await;
        let all = asked.swap(0, Ordering::Relaxed);
        assert!(all > 8, "{all} objects");

        let mut footing = Footing::default();
        for turn in 0..all {
            let began = Instant::now();
            footing.ensure_some(&at, &object, &permit, true, true).await;
            assert!(began.elapsed() <= SLOW * 2, "turn {turn}: {:?}", began.elapsed());
        }
        assert_eq!(asked.load(Ordering::Relaxed), all, "each of them once");
        assert_eq!(footing.refused(), []);
        assert_eq!(footing.token(&at).await.as_deref(), Some("token"));
        assert_eq!(asked.load(Ordering::Relaxed), all, "the token is known");
    }

    #[tokio::test(start_paused = true)]
    async fn objects_wait_for_calm_and_not_for_ever() {
        let (object, permit) = (cluster(&json!({})), Permit::ALWAYS);
        let (at, asked) = slow_api();
        let mut footing = Footing::default();
        let began = Instant::now();
        while asked.load(Ordering::Relaxed) == 0 {
            footing.ensure_some(&at, &object, &permit, true, false).await;
            tokio::time::sleep(at.settings.busy_interval).await;
        }
        let waited = began.elapsed();
        assert!(
            waited >= WAIT_FOR_CALM && waited < WAIT_FOR_CALM + SLOW * 3,
            "{waited:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn another_spec_is_seen_to_from_the_first_object_on() {
        let (mut object, permit) = (cluster(&json!({})), Permit::ALWAYS);
        let (at, asked) = slow_api();
        let mut footing = Footing::default();
        object.metadata.generation = Some(1);
        footing.ensure(&at, &object, &permit, true).await;
        let all = asked.swap(0, Ordering::Relaxed);
        footing.ensure(&at, &object, &permit, true).await;
        assert_eq!(asked.load(Ordering::Relaxed), 0, "nothing changed");
        object.metadata.generation = Some(2);
        footing.ensure_some(&at, &object, &permit, true, true).await;
        object.metadata.generation = Some(3);
        asked.store(0, Ordering::Relaxed);
        for _ in 0..all {
            footing.ensure_some(&at, &object, &permit, true, true).await;
        }
        assert_eq!(asked.load(Ordering::Relaxed), all);
    }
}
