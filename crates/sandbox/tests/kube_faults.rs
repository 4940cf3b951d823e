//! Every fault of the API, injected, seen by a client, and recorded.

use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use sandbox::kube::Kubernetes;
use sandbox::kube::faults::{Fault, On};
use sim::kube::{Method, User};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

fn world() -> (Kubernetes, Api<ConfigMap>) {
    let kubernetes = Kubernetes::new(7);
    let api = Api::default_namespaced(kubernetes.client());
    (kubernetes, api)
}

async fn make(api: &Api<ConfigMap>, name: &str) -> Result<ConfigMap, kube::Error> {
    api.create(&PostParams::default(), &map(name)).await
}

#[tokio::test]
async fn a_refused_request_does_nothing_and_is_recorded_with_its_time() {
    let (kubernetes, api) = world();
    let before = kubernetes.now();
    kubernetes.faults().inject(
        Fault::Refuse,
        On::path("configmaps").method(Method::Post).times(1),
    );
    assert!(matches!(make(&api, "a").await, Err(kube::Error::Service(_))));
    assert!(api.get_opt("a").await.unwrap().is_none());
    make(&api, "a").await.unwrap();
    let hits = kubernetes.faults().hits();
    assert_eq!(hits.len(), 1);
    assert!(hits[0].at >= before && hits[0].at <= kubernetes.now());
    assert_eq!(hits[0].request, "Post /api/v1/namespaces/default/configmaps");
}

#[tokio::test]
async fn a_lost_answer_is_of_a_request_that_was_done() {
    let (kubernetes, api) = world();
    kubernetes.faults().inject(
        Fault::LoseAnswer,
        On::path("configmaps").method(Method::Post).times(1),
    );
    assert!(matches!(make(&api, "a").await, Err(kube::Error::Service(_))));
    assert!(api.get_opt("a").await.unwrap().is_some());
}

#[tokio::test]
async fn too_many_requests_and_server_errors_have_their_codes() {
    let (kubernetes, api) = world();
    kubernetes
        .faults()
        .inject(Fault::TooManyRequests(3), On::path("configmaps").times(1));
    let error = make(&api, "a").await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 429));
    kubernetes
        .faults()
        .inject(Fault::ServerError, On::path("configmaps").times(1));
    let error = make(&api, "a").await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 500));
    assert!(api.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_is_done_later() {
    let (kubernetes, api) = world();
    let delay = Duration::from_secs(20);
    kubernetes
        .faults()
        .inject(Fault::Delay(delay), On::path("configmaps").times(1));
    let (wall, virtual_start) = (Instant::now(), tokio::time::Instant::now());
    make(&api, "a").await.unwrap();
    assert!(virtual_start.elapsed() >= delay);
    assert!(wall.elapsed() < delay, "the clock of the test is paused");
}

#[tokio::test]
async fn a_stale_list_shows_the_past_once() {
    let (kubernetes, api) = world();
    make(&api, "a").await.unwrap();
    make(&api, "b").await.unwrap();
    kubernetes
        .faults()
        .inject(Fault::StaleList(1), On::path("configmaps").times(1));
    let stale = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(
        stale.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(),
        ["a"]
    );
    let now = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(now.items.len(), 2);
    assert_ne!(stale.metadata.resource_version, now.metadata.resource_version);
}

#[tokio::test]
async fn a_cut_watch_ends_with_an_error() {
    let (kubernetes, api) = world();
    let mut watch = Box::pin(api.watch(&WatchParams::default(), "0").await.unwrap());
    make(&api, "a").await.unwrap();
    assert!(matches!(
        watch.try_next().await.unwrap(),
        Some(WatchEvent::Added(_))
    ));
    kubernetes
        .faults()
        .inject(Fault::CutWatch, On::path("configmaps").times(1));
    let next = timeout(PATIENCE, watch.try_next()).await.unwrap();
    assert!(next.is_err() || next.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_frozen_watch_says_nothing_until_it_thaws_and_then_everything() {
    let (kubernetes, api) = world();
    let mut watch = Box::pin(
        api.watch(&WatchParams::default().timeout(290), "0")
            .await
            .unwrap(),
    );
    let freeze = kubernetes
        .faults()
        .inject(Fault::FreezeWatch, On::path("configmaps"));
    make(&api, "a").await.unwrap();
    make(&api, "b").await.unwrap();
    assert!(timeout(Duration::from_mins(1), watch.try_next()).await.is_err());
    let hits = kubernetes.faults().hits();
    assert_eq!(
        hits.iter().filter(|hit| hit.fault == Fault::FreezeWatch).count(),
        1
    );
    kubernetes.faults().lift(freeze);
    for name in ["a", "b"] {
        match timeout(PATIENCE, watch.try_next()).await.unwrap().unwrap() {
            Some(WatchEvent::Added(found)) => assert_eq!(found.name_any(), name),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn compaction_ends_an_old_watch_with_410() {
    let (kubernetes, api) = world();
    let first = make(&api, "a").await.unwrap().resource_version().unwrap();
    make(&api, "b").await.unwrap();
    kubernetes.compact();
    assert_eq!(kubernetes.faults().hits().last().unwrap().fault, Fault::Compact);
    let mut watch = Box::pin(api.watch(&WatchParams::default(), &first).await.unwrap());
    match watch.try_next().await.unwrap() {
        Some(WatchEvent::Error(status)) => {
            assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_fault_hits_only_the_user_it_is_for() {
    let kubernetes = Kubernetes::new(7);
    let user = User {
        name: "operator".to_owned(),
        groups: vec!["system:masters".to_owned()],
    };
    let hit: Api<ConfigMap> = Api::default_namespaced(kubernetes.client_as(user));
    let spared: Api<ConfigMap> = Api::default_namespaced(kubernetes.client());
    kubernetes
        .faults()
        .inject(Fault::Refuse, On::path("/").user("operator"));
    assert!(hit.list(&ListParams::default()).await.is_err());
    assert!(spared.list(&ListParams::default()).await.is_ok());
    kubernetes.faults().lift_all();
    assert!(hit.list(&ListParams::default()).await.is_ok());
}
