//! A gateway in a small Kubernetes: its Lease, the record's ConfigMap, and an API that fails.

use crate::bed::{
    Database, PATIENCE, TOKEN, cluster, config, connect, data, http, is_cut, login_failure, metric, no_main,
    pods, push, serving, until, write,
};
use gateway::{Config, Gateway, Plane, Pod};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ObjectMeta, PostParams};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::ids::Term;
use mainstay_core::memgraph::objects::{CLUSTER_LABEL, Confirmation, ROLE_LABEL};
use sandbox::kube::Kubernetes;
use sandbox::kube::faults::{Fault, On};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

pub(crate) struct World {
    pub(crate) kubernetes: Kubernetes,
}

impl World {
    pub(crate) async fn new() -> Self {
        let kubernetes = Kubernetes::new(1);
        let namespaces: Api<Namespace> = Api::all(kubernetes.client());
        let db = Namespace {
            metadata: ObjectMeta {
                name: Some("db".to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        namespaces.create(&PostParams::default(), &db).await.unwrap();
        Self { kubernetes }
    }

    fn records(&self) -> Api<ConfigMap> {
        Api::namespaced(self.kubernetes.client(), "db")
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.kubernetes.client(), "db")
    }

    pub(crate) async fn write(&self, record: &Record) {
        let name = cluster().record();
        let before = self.records().get_opt(&name).await.unwrap();
        let map = ConfigMap {
            metadata: before.as_ref().map_or_else(
                || ObjectMeta {
                    name: Some(name.clone()),
                    ..ObjectMeta::default()
                },
                |before| before.metadata.clone(),
            ),
            data: Some(data(record)),
            ..ConfigMap::default()
        };
        let params = PostParams::default();
        match before {
            Some(_) => self.records().replace(&name, &params, &map).await.unwrap(),
            None => self.records().create(&params, &map).await.unwrap(),
        };
    }

    pub(crate) async fn gateway(
        &self,
        addresses: &[SocketAddr],
        change: impl FnOnce(&mut Config),
    ) -> Gateway {
        let mut config = config("a");
        config.timeouts.api = Duration::from_millis(500);
        change(&mut config);
        let plane = Plane::Kubernetes(self.kubernetes.client());
        Gateway::start(config, plane, pods(addresses)).await.unwrap()
    }

    async fn lease(&self) -> Option<Lease> {
        self.leases()
            .get_opt(&cluster().gateway_lease("a"))
            .await
            .unwrap()
    }

    async fn confirmed(&self) -> Option<(Confirmation, String)> {
        let annotations = self.lease().await?.metadata.annotations?;
        Confirmation::read(&annotations).ok()
    }

    async fn confirmed_term(&self, term: u64) {
        until("confirmed", async || {
            self.confirmed()
                .await
                .is_some_and(|(said, _)| said.term == Term(term))
        })
        .await;
    }
}

#[tokio::test]
async fn a_gateway_registers_reads_serves_and_confirms_in_its_lease() {
    let world = World::new().await;
    let main = Database::main(Some(4)).await;
    world.write(&serving(4, 0)).await;
    let gateway = world
        .gateway(&[main.server.bolt()], |config| {
            config.advertise = Some("10.0.0.1:7688".to_owned());
            config.pod = Some(Pod {
                name: "gateway-0".to_owned(),
                uid: "1-2-3".to_owned(),
            });
        })
        .await;
    let mut client = connect(&gateway).await.unwrap();
    write(&mut client).await.unwrap();
    let lease = world.lease().await.unwrap();
    let labels = lease.metadata.labels.unwrap();
    assert_eq!(labels[CLUSTER_LABEL], "memgraph-ha");
    assert_eq!(labels[ROLE_LABEL], "gateway");
    assert_eq!(lease.metadata.owner_references.unwrap()[0].uid, "1-2-3");
    world.confirmed_term(4).await;
    assert_eq!(world.confirmed().await.unwrap().1, "10.0.0.1:7688");
    // While traffic flows it says whom it hears.
    until("heard", async || {
        world.confirmed().await.unwrap().0.heard.is_some()
    })
    .await;
    let before = world.confirmed().await.unwrap().0.heard.unwrap().at_ms;
    until("heard again", async || {
        write(&mut client).await.unwrap();
        world.confirmed().await.unwrap().0.heard.unwrap().at_ms > before
    })
    .await;
    // A new term is confirmed when nobody is left in the old one.
    world.write(&no_main(&serving(4, 0), 1)).await;
    world.confirmed_term(5).await;
    assert_eq!(metric(&gateway, "sessions").await.to_string(), "0");
    assert_eq!(metric(&gateway, "cut_sessions_total").await.to_string(), "1");
    // A session without a database has nothing to end: it goes at once.
    timeout(PATIENCE / 2, gateway.shutdown()).await.unwrap();
    assert!(is_cut(&mut client).await);
    assert!(
        world.lease().await.is_none(),
        "nobody waits for a gateway that is gone"
    );
    world.kubernetes.shutdown().await;
}

#[tokio::test]
async fn nothing_is_forwarded_before_the_lease_exists() {
    let world = World::new().await;
    let main = Database::main(Some(4)).await;
    world.write(&serving(4, 0)).await;
    let fault = world
        .kubernetes
        .faults()
        .inject(Fault::Refuse, On::path("/leases"));
    let gateway = world.gateway(&[main.server.bolt()], |_| {}).await;
    let held = connect(&gateway);
    let registered = async {
        until("held", async || metric(&gateway, "waiting").await > 0.0).await;
        until("the record is known", async || {
            gateway.confirmation().term == Term(4)
        })
        .await;
        assert_eq!(metric(&gateway, "admitted_total").await.to_string(), "0");
        world.kubernetes.faults().lift(fault);
    };
    let (client, ()) = timeout(PATIENCE, async { tokio::join!(held, registered) })
        .await
        .unwrap();
    write(&mut client.unwrap()).await.unwrap();
    assert!(world.lease().await.is_some());
}

#[tokio::test]
async fn a_silent_api_changes_nothing_and_a_push_is_obeyed_meanwhile() {
    let world = World::new().await;
    let main = Database::main(Some(4)).await;
    world.write(&serving(4, 0)).await;
    let gateway = world.gateway(&[main.server.bolt()], |_| {}).await;
    let mut client = connect(&gateway).await.unwrap();
    world.kubernetes.faults().inject(Fault::Refuse, On::path("/"));
    world.kubernetes.faults().inject(Fault::CutWatch, On::path("/"));
    until("the API is missed", async || {
        metric(&gateway, "record_errors_total").await > 0.0
    })
    .await;
    write(&mut client).await.unwrap();
    write(&mut connect(&gateway).await.unwrap()).await.unwrap();
    let (status, body) = push(&gateway, &no_main(&serving(4, 0), 1), TOKEN).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(metric(&gateway, "sessions").await.to_string(), "0");
    assert!(metric(&gateway, "cut_sessions_total").await > 0.0);
    // When the API answers again it has an older record, and that is not followed.
    world.kubernetes.faults().lift_all();
    world.confirmed_term(5).await;
    until("ignored", async || {
        metric(&gateway, "records_ignored_total").await > 0.0
    })
    .await;
    assert_eq!(main.count().await, 2);
}

#[tokio::test]
async fn a_frozen_watch_is_found_out_when_a_connection_is_lost() {
    let world = World::new().await;
    let (old, new) = (Database::main(Some(4)).await, Database::main(Some(5)).await);
    let addresses = [old.server.bolt(), new.server.bolt()];
    let first = serving(4, 0);
    world.write(&first).await;
    let gateway = world.gateway(&addresses, |_| {}).await;
    let mut client = connect(&gateway).await.unwrap();
    write(&mut client).await.unwrap();
    world
        .kubernetes
        .faults()
        .inject(Fault::FreezeWatch, On::path("/"));
    let mut next = serving(5, 1);
    next.revision = no_main(&first, 1).revision.next();
    world.write(&next).await;
    drop(old);
    let mut served = timeout(PATIENCE, connect(&gateway)).await.unwrap().unwrap();
    write(&mut served).await.unwrap();
    assert_eq!(new.count().await, 1);
}

#[tokio::test]
async fn what_an_earlier_process_confirmed_is_not_taken_back_before_there_is_a_record() {
    let world = World::new().await;
    let main = Database::main(Some(6)).await;
    world.write(&serving(6, 0)).await;
    let first = world.gateway(&[main.server.bolt()], |_| {}).await;
    world.confirmed_term(6).await;
    drop(first);
    let name = cluster().record();
    world
        .records()
        .delete(&name, &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let again = world
        .gateway(&[main.server.bolt()], |config| {
            config.advertise = Some("10.0.0.2:7688".to_owned());
        })
        .await;
    until("registered again", async || {
        world
            .confirmed()
            .await
            .is_some_and(|(_, push)| push == "10.0.0.2:7688")
    })
    .await;
    assert_eq!(world.confirmed().await.unwrap().0.term, Term(6));
    // A push alone opens nothing that was not read.
    assert_eq!(again.confirmation().term, Term(0));
}

/// After a restart a push may be older than what the last process confirmed: only what was read says that it is not.
#[tokio::test]
async fn a_push_opens_nothing_as_long_as_no_record_was_read() {
    let some = |key: &str, value: &str| Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    for found in [
        None,
        some("record", "{ half of a rec"),
        some("targetMainIndex", "0"),
    ] {
        let world = World::new().await;
        let main = Database::main(Some(4)).await;
        if found.is_some() {
            let mut map = ConfigMap {
                data: found.clone(),
                ..ConfigMap::default()
            };
            map.metadata.name = Some(cluster().record());
            world
                .records()
                .create(&PostParams::default(), &map)
                .await
                .unwrap();
        }
        let gateway = world
            .gateway(&[main.server.bolt()], |config| {
                config.timeouts.hold = Duration::from_millis(300);
            })
            .await;
        until("registered", async || metric(&gateway, "registered").await > 0.0).await;
        assert_eq!(push(&gateway, &serving(4, 0), TOKEN).await.0, 200);
        assert_eq!(gateway.confirmation().term, Term(4), "it is obeyed, {found:?}");
        // Many times as long as it takes to read.
        login_failure(connect(&gateway).await);
        assert_eq!(
            http(&gateway, "GET /readyz HTTP/1.1", "").await.0,
            503,
            "{found:?}"
        );
        world.write(&serving(4, 0)).await;
        until("ready", async || {
            http(&gateway, "GET /readyz HTTP/1.1", "").await.0 == 200
        })
        .await;
        write(&mut connect(&gateway).await.unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_gateway_says_whether_the_api_answers_it() {
    let world = World::new().await;
    let main = Database::main(Some(4)).await;
    world.write(&serving(4, 0)).await;
    let gateway = world.gateway(&[main.server.bolt()], |_| {}).await;
    world.confirmed_term(4).await;
    assert_eq!(metric(&gateway, "api_silent").await.to_string(), "0");
    let refused = world
        .kubernetes
        .faults()
        .inject(Fault::Refuse, On::path("/leases"));
    // While it is heard from a client it writes its Lease each second.
    let mut client = connect(&gateway).await.unwrap();
    until("noticed", async || {
        write(&mut client).await.unwrap();
        metric(&gateway, "api_silent").await > 0.0
    })
    .await;
    write(&mut client).await.unwrap();
    world.kubernetes.faults().lift(refused);
    until("noticed", async || {
        write(&mut client).await.unwrap();
        metric(&gateway, "api_silent").await < 1.0
    })
    .await;
}
