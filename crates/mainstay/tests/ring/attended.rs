//! A cluster that scylla-operator runs: all that is ever changed there is its own label on one member's Service.
//!
//! What that operator leaves in the API is made by hand here, and its agents are small servers that answer what a test
//! makes them.

use anyhow::{Context, Result, bail, ensure};
use api::RingCluster;
use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use mainstay_core::ring::Ledger;
use mainstay_core::ring::spec::Timing;
use operator::engine::keeper::Keeper as _;
use operator::ring::{RingKeeper, RingSettings};
use sandbox::kube::Kubernetes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// What users are shown is what is tried.
const EXAMPLE: &str = include_str!("../../../../examples/ring-attended.yaml");
const NAME: &str = "simple-attended";
/// As scylla-operator names the members of the cluster that the example attends.
const MEMBERS: [&str; 3] = [
    "simple-us-east-1-us-east-1a-0",
    "simple-us-east-1-us-east-1b-0",
    "simple-us-east-1-us-east-1c-0",
];
const DATACENTER: &str = "us-east-1";
const RACKS: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
const TOKEN: &str = "a token of the agents";

/// One node, as the agents tell of it.
#[derive(Clone)]
struct Node {
    host: String,
    up: bool,
    down_for: Duration,
}

/// What all agents tell. They are of one mind.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<BTreeMap<String, Node>>>);

fn host(number: usize, round: usize) -> String {
    format!("e7b1c0de-0000-4000-8000-00000000{round:02}{number:02}")
}

fn service_address(number: usize) -> String {
    format!("10.96.7.{}", number + 1)
}

/// Each test has agents of its own.
fn pod_address(test: u8, number: usize) -> IpAddr {
    IpAddr::from([127, 11, test, u8::try_from(number + 1).unwrap()])
}

impl Told {
    fn change(&self, number: usize, change: impl FnOnce(&mut Node)) {
        let mut nodes = self.0.lock().unwrap();
        change(nodes.get_mut(&service_address(number)).unwrap());
    }

    fn answer(&self, path: &str) -> Option<Value> {
        let nodes = self.0.lock().unwrap();
        let last = path.rsplit('/').next().unwrap_or_default();
        let live = || nodes.iter().filter(|(_, n)| n.up).map(|(a, _)| a);
        Some(match path {
            "/storage_service/host_id" => nodes
                .iter()
                .map(|(a, n)| json!({ "key": a, "value": n.host }))
                .collect(),
            "/gossiper/endpoint/live/" => json!(live().collect::<Vec<_>>()),
            "/storage_service/nodes/joining"
            | "/storage_service/nodes/leaving"
            | "/storage_service/nodes/excluded" => json!([]),
            "/storage_service/keyspaces?type=non_local_strategy" => json!(["ks"]),
            "/storage_service/describe_ring/ks" => {
                let kept: Vec<Value> = nodes
                    .keys()
                    .map(|_| json!({ "datacenter": DATACENTER }))
                    .collect();
                json!([{ "endpoint_details": kept }])
            }
            _ if path.starts_with("/storage_service/tokens/") => json!([last]),
            _ if path.starts_with("/gossiper/generation_number/") => json!(1),
            _ if path.starts_with("/gossiper/downtime/") => {
                json!(nodes.get(last)?.down_for.as_micros())
            }
            _ if path.starts_with("/snitch/datacenter") => json!(DATACENTER),
            _ if path.starts_with("/snitch/rack") => {
                let of = |n: &usize| path.ends_with(&service_address(*n));
                json!(RACKS[(0..RACKS.len()).find(of)?])
            }
            _ => return None,
        })
    }
}

/// The agent of a member: TLS with a certificate of its own, and a token.
async fn agent(listener: TcpListener, told: Told) -> Result<()> {
    let key = rcgen::generate_simple_self_signed(vec!["agent".to_owned()])?;
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![key.cert.der().clone()],
            rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()).into(),
        )?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let mut open = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        let (acceptor, told) = (acceptor.clone(), told.clone());
        open.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
                let told = told.clone();
                async move { Ok::<_, Infallible>(respond(&request, &told)) }
            });
            let served = hyper::server::conn::http1::Builder::new();
            served.serve_connection(TokioIo::new(stream), answer).await.ok();
        });
    }
}

fn respond(request: &Request<hyper::body::Incoming>, told: &Told) -> Response<Full<Bytes>> {
    let known = request.headers().get("authorization");
    let path = request.uri().path_and_query().map_or("", |p| p.as_str());
    let (status, body) = if known.is_none_or(|t| t != format!("Bearer {TOKEN}").as_str()) {
        (401, Value::Null)
    } else {
        told.answer(path).map_or((404, Value::Null), |body| (200, body))
    };
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap();
    response
}

struct Bed {
    test: u8,
    kubernetes: Kubernetes,
    client: Client,
    told: Told,
    keeper: RingKeeper,
    permit: operator::engine::lease::Permit,
    _agents: JoinSet<Result<()>>,
}

fn labels(number: usize) -> Value {
    json!({
        "scylla/cluster": "simple", "scylla/datacenter": DATACENTER, "scylla/rack": RACKS[number],
        "app": "scylla",
    })
}

fn pod(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": MEMBERS[number], "labels": labels(number) },
        "spec": {
            "initContainers": [{ "name": "scylladb-bootstrap-barrier", "image": "scylladb/scylla-operator:1.22" }],
            "containers": [{ "name": "scylla", "image": "scylladb/scylla:2025.2.0" }],
        },
    })
}

/// Its database runs.
fn ready(test: u8, number: usize) -> Value {
    json!({ "status": {
        "podIP": pod_address(test, number), "phase": "Running",
        "initContainerStatuses": [{ "name": "scylladb-bootstrap-barrier", "ready": true, "restartCount": 0,
            "image": "i", "imageID": "i", "state": { "terminated": { "exitCode": 0 } } }],
        "containerStatuses": [{ "name": "scylla", "ready": true, "restartCount": 0, "image": "i", "imageID": "i" }],
    } })
}

/// Its barrier found a disk that is not bootstrapped, a while ago.
fn waiting(test: u8, number: usize) -> Value {
    json!({ "status": {
        "podIP": pod_address(test, number), "phase": "Pending",
        "initContainerStatuses": [{ "name": "scylladb-bootstrap-barrier", "ready": false, "restartCount": 0,
            "image": "i", "imageID": "i", "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } } }],
        "containerStatuses": [{ "name": "scylla", "ready": false, "restartCount": 0, "image": "i", "imageID": "i" }],
    } })
}

impl Bed {
    /// A cluster of three as scylla-operator has it, and a RingCluster that attends it.
    async fn new() -> Result<Self> {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        rustls::crypto::aws_lc_rs::default_provider()
            .install_default()
            .ok();
        let kubernetes = Kubernetes::new(17);
        let client = kubernetes.client();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in api::kinds() {
            definitions.create(&PostParams::default(), &definition).await?;
        }
        let test = NEXT.fetch_add(1, Ordering::Relaxed);
        let told = Told::default();
        let mut agents = JoinSet::new();
        for number in 0..MEMBERS.len() {
            let node = Node {
                host: host(number, 0),
                up: true,
                down_for: Duration::ZERO,
            };
            told.0.lock().unwrap().insert(service_address(number), node);
            let listener = TcpListener::bind(SocketAddr::new(pod_address(test, number), 10_001)).await?;
            agents.spawn(agent(listener, told.clone()));
        }
        let settings = RingSettings {
            timing: Timing {
                grace: Duration::from_mins(1),
                confirm: Duration::from_millis(300),
                ..Timing::default()
            },
            ..RingSettings::default()
        };
        let bed = Self {
            test,
            keeper: RingKeeper::new(client.clone(), "default", NAME, Arc::new(settings)),
            permit: operator::engine::lease::Permit::ALWAYS,
            kubernetes,
            client,
            told,
            _agents: agents,
        };
        bed.create().await?;
        Ok(bed)
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::default_namespaced(self.client.clone())
    }

    async fn create(&self) -> Result<()> {
        let params = PostParams::default();
        let secret: Secret = serde_json::from_value(json!({
            "metadata": { "name": "simple-auth-token" },
            "stringData": { "auth-token.yaml": format!("auth_token: {TOKEN}\n") },
        }))?;
        self.api::<Secret>().create(&params, &secret).await?;
        for (number, member) in MEMBERS.iter().enumerate() {
            let service: Service = serde_json::from_value(json!({
                "metadata": {
                    "name": member, "labels": labels(number),
                    "annotations": { "internal.scylla-operator.scylladb.com/host-id": host(number, 0) },
                },
                "spec": { "clusterIP": service_address(number), "ports": [{ "port": 9042 }] },
            }))?;
            self.api::<Service>().create(&params, &service).await?;
            let claim: PersistentVolumeClaim = serde_json::from_value(json!({
                "metadata": { "name": format!("data-{member}"), "labels": labels(number) },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
            }))?;
            self.api::<PersistentVolumeClaim>()
                .create(&params, &claim)
                .await?;
            let pod: Pod = serde_json::from_value(pod(number))?;
            self.api::<Pod>().create(&params, &pod).await?;
            self.set_status(number, &ready(self.test, number)).await?;
        }
        let ring: RingCluster = serde_saphyr::from_str(EXAMPLE)?;
        self.api::<RingCluster>().create(&params, &ring).await?;
        Ok(())
    }

    async fn set_status(&self, number: usize, status: &Value) -> Result<()> {
        let pods = self.api::<Pod>();
        let patch = Patch::Merge(status);
        pods.patch_status(MEMBERS[number], &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Turns, until it is so.
    async fn turn_until(&mut self, what: &str, fits: impl AsyncFn(&Self) -> Result<bool>) -> Result<()> {
        for _ in 0..40 {
            self.keeper.turn(&self.permit).await?;
            if fits(self).await? {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let status = self.api::<RingCluster>().get(NAME).await?.status;
        bail!("not {what}: {status:#?}")
    }

    async fn turns(&mut self, times: usize) -> Result<()> {
        for _ in 0..times {
            self.keeper.turn(&self.permit).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn labelled(&self, number: usize) -> Result<bool> {
        let service = self.api::<Service>().get(MEMBERS[number]).await?;
        Ok(service.labels().contains_key("scylla/replace"))
    }

    async fn ledger(&self) -> Result<Ledger> {
        let maps = self.api::<k8s_openapi::api::core::v1::ConfigMap>();
        let map = maps.get(&format!("{NAME}-ring")).await?;
        let text = map.data.and_then(|mut data| data.remove("ledger"));
        Ok(Ledger::parse(&text.context("no ledger")?)?)
    }

    /// Every object of that cluster, with its version.
    async fn versions(&self) -> Result<BTreeMap<String, String>> {
        let params = ListParams::default().labels("scylla/cluster=simple");
        let mut all = BTreeMap::new();
        let mut note = |kind: &str, name: String, version: Option<String>| {
            all.insert(format!("{kind} {name}"), version.unwrap_or_default());
        };
        for o in self.api::<Service>().list(&params).await? {
            note("Service", o.name_any(), o.resource_version());
        }
        for o in self.api::<Pod>().list(&params).await? {
            note("Pod", o.name_any(), o.resource_version());
        }
        for o in self.api::<PersistentVolumeClaim>().list(&params).await? {
            note("Claim", o.name_any(), o.resource_version());
        }
        Ok(all)
    }

    /// A cluster whose members are on record.
    async fn known() -> Result<Self> {
        let mut bed = Self::new().await?;
        bed.turn_until("known", async |bed| Ok(bed.ledger().await?.known.len() == 3))
            .await?;
        Ok(bed)
    }

    /// The last member's disk is empty, and the others have seen it down for long enough.
    async fn lose(&self) -> Result<()> {
        self.told.change(2, |node| {
            node.up = false;
            node.down_for = Duration::from_secs(90);
        });
        self.set_status(2, &waiting(self.test, 2)).await
    }
}

#[tokio::test]
async fn a_member_that_lost_its_disk_gets_that_operators_label_and_nothing_else_changes() -> Result<()> {
    let mut bed = Bed::known().await?;
    bed.lose().await?;
    let before = bed.versions().await?;
    bed.turn_until("labelled", async |bed| bed.labelled(2).await)
        .await?;
    bed.turns(3).await?;
    let after = bed.versions().await?;
    let changed: Vec<&String> = after
        .iter()
        .filter(|(k, v)| before.get(*k) != Some(v))
        .map(|(k, _)| k)
        .collect();
    ensure!(changed == [&format!("Service {}", MEMBERS[2])], "{changed:?}");
    ensure!(before.len() == after.len());
    ensure!(!bed.labelled(0).await? && !bed.labelled(1).await?);

    // scylla-operator has done its work: another host id is there, and the label is gone.
    let services = bed.api::<Service>();
    let done = json!({ "metadata": {
        "labels": { "scylla/replace": null },
        "annotations": { "internal.scylla-operator.scylladb.com/host-id": host(2, 1) },
    } });
    services
        .patch(MEMBERS[2], &PatchParams::default(), &Patch::Merge(done))
        .await?;
    bed.told.change(2, |node| {
        node.host = host(2, 1);
        node.up = true;
    });
    bed.set_status(2, &ready(bed.test, 2)).await?;
    bed.turn_until("on record again", async |bed| {
        let ledger = bed.ledger().await?;
        let known = ledger.known.get(&MEMBERS[2].parse()?).map(|k| k.host.to_string());
        Ok(ledger.work.is_none() && known == Some(host(2, 1)))
    })
    .await?;
    ensure!(!bed.labelled(2).await?, "it is labelled once");
    bed.kubernetes.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn n3_n18_a_living_member_a_doubt_and_a_label_of_a_human_are_left_alone() -> Result<()> {
    let mut bed = Bed::known().await?;
    // Its barrier waits, and the others see it alive: whatever the barrier read, nobody is replaced.
    bed.set_status(2, &waiting(bed.test, 2)).await?;
    bed.turns(8).await?;
    ensure!(!bed.labelled(2).await?, "it lives");
    // Down, but not for long enough.
    bed.told.change(2, |node| {
        node.up = false;
        node.down_for = Duration::from_secs(10);
    });
    bed.turns(8).await?;
    ensure!(!bed.labelled(2).await?, "it may come back");
    // A human has another member in hand.
    let services = bed.api::<Service>();
    let label = json!({ "metadata": { "labels": { "scylla/replace": "" } } });
    services
        .patch(MEMBERS[0], &PatchParams::default(), &Patch::Merge(label))
        .await?;
    bed.lose().await?;
    bed.turns(8).await?;
    ensure!(!bed.labelled(2).await?, "one at a time, whoever began");
    let off = json!({ "metadata": { "labels": { "scylla/replace": null } } });
    services
        .patch(MEMBERS[0], &PatchParams::default(), &Patch::Merge(off))
        .await?;
    bed.turn_until("labelled", async |bed| bed.labelled(2).await)
        .await?;
    bed.kubernetes.shutdown().await;
    Ok(())
}

/// Down without a barrier that waits: its disk is there, as far as anybody knows (N2). And a sidecar that noted another
/// host id than the one on record: that operator would replace the wrong node.
#[tokio::test]
async fn n2_a_member_that_is_only_down_or_is_not_the_one_on_record_is_left_alone() -> Result<()> {
    let mut bed = Bed::known().await?;
    bed.lose().await?;
    let mut down = waiting(bed.test, 2);
    down["status"]["initContainerStatuses"] = json!([]);
    bed.set_status(2, &down).await?;
    bed.turns(8).await?;
    ensure!(!bed.labelled(2).await?, "nobody said that its disk is lost");
    let services = bed.api::<Service>();
    let note = json!({ "metadata": { "annotations": {
        "internal.scylla-operator.scylladb.com/host-id": host(1, 7),
    } } });
    services
        .patch(MEMBERS[2], &PatchParams::default(), &Patch::Merge(note))
        .await?;
    bed.set_status(2, &waiting(bed.test, 2)).await?;
    bed.turns(8).await?;
    ensure!(!bed.labelled(2).await?, "its sidecar noted somebody else");
    bed.kubernetes.shutdown().await;
    Ok(())
}

/// Without the token nobody can be asked, so nothing is done.
#[tokio::test]
async fn n5_who_cannot_be_asked_says_nothing() -> Result<()> {
    let mut bed = Bed::known().await?;
    let secrets = bed.api::<Secret>();
    let other = json!({ "stringData": { "auth-token.yaml": "auth_token: another\n" } });
    secrets
        .patch("simple-auth-token", &PatchParams::default(), &Patch::Merge(other))
        .await?;
    bed.lose().await?;
    bed.turns(8).await?;
    ensure!(!bed.labelled(2).await?);
    bed.kubernetes.shutdown().await;
    Ok(())
}
