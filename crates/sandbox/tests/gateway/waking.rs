//! Waking a cluster that hibernates, because somebody connects.

use crate::bed::{Database, PATIENCE, connect, count, metric, serving, until, write};
use crate::kubernetes::World;
use crate::reads_bed::{FROM_MAIN, reads};
use bolt::message::Auth;
use kube::api::{Api, PostParams};
use mainstay_core::memgraph::ids::Term;
use mainstay_core::time::Time;
use sandbox::kube::faults::{Fault, On};
use sandbox::standin::memgraph::client::Client;
use sim::kube::Method;
use std::time::Duration;
use tokio::time::timeout;

/// A cluster that hibernates, and whether it still wants to.
struct Asleep {
    world: World,
    clusters: Api<api::MemgraphCluster>,
}

impl Asleep {
    async fn new() -> Self {
        use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
        use kube::CustomResourceExt;
        let world = World::new().await;
        let client = world.kubernetes.client();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let params = PostParams::default();
        let definition = api::MemgraphCluster::crd();
        definitions.create(&params, &definition).await.unwrap();
        let clusters: Api<api::MemgraphCluster> = Api::namespaced(client, "db");
        let object = serde_json::from_value(serde_json::json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
            "metadata": { "name": "memgraph-ha" },
            "spec": { "hibernated": true, "gateway": { "hold": "7s" } },
        }));
        clusters.create(&params, &object.unwrap()).await.unwrap();
        world.write(&serving(4, 0).hibernated(Time::ZERO)).await;
        Self { world, clusters }
    }

    async fn sleeps(&self) -> bool {
        self.clusters.get("memgraph-ha").await.unwrap().spec.hibernated
    }
}

#[tokio::test]
async fn a_connection_wakes_a_cluster_that_hibernates_and_is_served_when_it_is_awake() {
    let asleep = Asleep::new().await;
    let main = Database::main(Some(5)).await;
    let gateway = asleep
        .world
        .gateway(&[main.server.bolt()], |config| {
            config.timeouts.hold = Duration::from_millis(100);
            config.timeouts.wake = Some(PATIENCE);
            config.timeouts.wake_rest = Duration::from_secs(6);
        })
        .await;
    until("read", async || gateway.confirmation().term == Term(4)).await;
    assert!(asleep.sleeps().await, "nobody has come");
    let connects = connect(&gateway);
    let wakes = async {
        until("woken", async || !asleep.sleeps().await).await;
        // Longer than a connection is held otherwise.
        tokio::time::sleep(Duration::from_millis(300)).await;
        asleep.world.write(&serving(5, 0)).await;
    };
    let (client, ()) = tokio::join!(connects, wakes);
    write(&mut client.unwrap()).await.unwrap();
    let spec = asleep.clusters.get("memgraph-ha").await.unwrap().spec;
    assert_eq!(spec.gateway.hold, "7s", "nothing else is changed");
    assert_eq!(metric(&gateway, "wakes_total").await.to_string(), "1");
    // Whoever puts it to sleep again means it.
    let patch = kube::api::Patch::Merge(serde_json::json!({ "spec": { "hibernated": true } }));
    let params = kube::api::PatchParams::default();
    asleep
        .clusters
        .patch("memgraph-ha", &params, &patch)
        .await
        .unwrap();
    asleep.world.write(&serving(6, 0).hibernated(Time::ZERO)).await;
    until("read", async || gateway.confirmation().term == Term(6)).await;
    let next = timeout(Duration::from_secs(2), connect(&gateway)).await;
    assert!(next.is_err(), "it is held");
    assert!(asleep.sleeps().await);
    // Nor does the one who came in vain wake it later, when nobody waits any more.
    until("it left", async || {
        metric(&gateway, "waiting").await.to_string() == "0"
    })
    .await;
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert!(asleep.sleeps().await);
    assert_eq!(metric(&gateway, "wakes_total").await.to_string(), "1");
}

#[tokio::test]
async fn a_connection_to_the_port_for_reads_wakes_it_too() {
    let asleep = Asleep::new().await;
    let main = Database::main(Some(5)).await;
    let gateway = asleep
        .world
        .gateway(&[main.server.bolt()], |config| {
            config.reads = Some(reads(FROM_MAIN));
            config.timeouts.hold = Duration::from_millis(100);
            config.timeouts.wake = Some(PATIENCE);
        })
        .await;
    until("read", async || gateway.confirmation().term == Term(4)).await;
    let connects = Client::connect_within(gateway.reads().unwrap(), Auth::None, PATIENCE);
    let wakes = async {
        until("woken", async || !asleep.sleeps().await).await;
        asleep.world.write(&serving(5, 0)).await;
    };
    let (client, ()) = tokio::join!(connects, wakes);
    assert_eq!(count(&mut client.unwrap()).await, 0);
    assert_eq!(metric(&gateway, "wakes_total").await.to_string(), "1");
}

#[tokio::test]
async fn nobody_wakes_a_cluster_that_is_not_to_be_woken() {
    let asleep = Asleep::new().await;
    let main = Database::main(Some(4)).await;
    let gateway = asleep
        .world
        .gateway(&[main.server.bolt()], |config| {
            config.timeouts.hold = Duration::from_millis(500);
        })
        .await;
    until("read", async || gateway.confirmation().term == Term(4)).await;
    assert!(connect(&gateway).await.is_err());
    assert!(asleep.sleeps().await);
}

/// The client that waits says so once: whoever asks for it must not give up after one refusal.
#[tokio::test]
async fn a_wish_that_is_refused_is_said_again_as_long_as_somebody_waits() {
    let asleep = Asleep::new().await;
    let main = Database::main(Some(5)).await;
    let gateway = asleep
        .world
        .gateway(&[main.server.bolt()], |config| {
            config.timeouts.hold = Duration::from_millis(100);
            config.timeouts.wake = Some(PATIENCE);
        })
        .await;
    until("read", async || gateway.confirmation().term == Term(4)).await;
    let faults = asleep.world.kubernetes.faults();
    let patches = On::path("/memgraphclusters/").method(Method::Patch);
    faults.inject(Fault::ServerError, patches.times(1));
    let connects = connect(&gateway);
    let wakes = async {
        until("woken", async || !asleep.sleeps().await).await;
        asleep.world.write(&serving(5, 0)).await;
    };
    let (client, ()) = tokio::join!(connects, wakes);
    write(&mut client.unwrap()).await.unwrap();
    let refused = faults
        .hits()
        .iter()
        .filter(|hit| hit.fault == Fault::ServerError)
        .count();
    assert_eq!(refused, 1);
    assert_eq!(metric(&gateway, "wakes_total").await.to_string(), "1");
}

/// There was no route before, and there is none now: nothing is cut, and whoever is held must hear of it all the same.
#[tokio::test]
async fn who_is_held_already_when_the_cluster_falls_asleep_wakes_it() {
    let asleep = Asleep::new().await;
    let held = serving(5, 0).held(Time::ZERO);
    asleep.world.write(&held).await;
    let main = Database::main(Some(6)).await;
    let gateway = asleep
        .world
        .gateway(&[main.server.bolt()], |config| {
            config.timeouts.hold = Duration::from_secs(5);
            config.timeouts.wake = Some(PATIENCE);
        })
        .await;
    until("read", async || gateway.confirmation().term == Term(5)).await;
    let connects = connect(&gateway);
    let wakes = async {
        until("held", async || metric(&gateway, "waiting").await > 0.0).await;
        assert!(asleep.sleeps().await, "what is held is not asleep");
        asleep.world.write(&held.hibernated(Time::ZERO)).await;
        until("woken", async || !asleep.sleeps().await).await;
        // Longer than anybody is held for something else.
        tokio::time::sleep(Duration::from_secs(6)).await;
        asleep.world.write(&serving(6, 0)).await;
    };
    let (client, ()) = tokio::join!(connects, wakes);
    write(&mut client.unwrap()).await.unwrap();
}
