//! The suite against the small Kubernetes: in this process, and over its port.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use conformance::{Login, Report};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use sandbox::kube::Kubernetes;

/// The issue of the suite is breadth: a suite that shrinks is noticed.
const LEAST: usize = 80;

/// What cannot be asked without tokens, and what without controllers.
const TOKENS: &str = "tokens cannot be used here";
const CONTROLLERS: &str = "no controllers run here";

fn judge(report: &Report, may_skip: &[&str]) {
    println!("{} checks, {} assertions", report.checks, report.assertions);
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
    assert!(report.assertions >= LEAST, "{}", report.assertions);
    let why: BTreeSet<&str> = report.skipped.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(why, may_skip.iter().copied().collect(), "{:#?}", report.skipped);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_small_kubernetes_does_what_is_relied_upon() {
    let kubernetes = Kubernetes::new(1);
    judge(
        &conformance::run(&kubernetes.client(), None, "").await,
        &[TOKENS, CONTROLLERS],
    );
    kubernetes.shutdown().await;
}

/// As against a real control plane: controllers, and no node for anything to run on.
#[tokio::test(flavor = "multi_thread")]
async fn it_does_the_same_with_its_controllers() {
    let folder = std::env::temp_dir().join(format!("mainstay-conformance-{}", std::process::id()));
    let kubernetes = Kubernetes::new(3);
    let mut config = sandbox::node::Config::new(&folder, sandbox::node::Images::new());
    config.nodes.clear();
    let nodes = sandbox::node::Nodes::start(&kubernetes, config).unwrap();
    judge(&conformance::run(&kubernetes.client(), None, "").await, &[TOKENS]);
    nodes.stop().await;
    kubernetes.shutdown().await;
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn it_does_the_same_over_its_port_and_with_tokens() {
    let kubernetes = Kubernetes::new(2);
    let listening = kubernetes
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await
        .unwrap();
    let file = Kubeconfig::from_yaml(&listening.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.default_retry = false;
    let client = Client::try_from(config.clone()).unwrap();
    let login: Login = Arc::new(move |token| {
        let mut config = config.clone();
        config.auth_info = AuthInfo {
            token: Some(token.to_owned().into()),
            ..AuthInfo::default()
        };
        Client::try_from(config)
    });
    judge(&conformance::run(&client, Some(&login), "").await, &[CONTROLLERS]);
    drop((client, login));
    kubernetes.shutdown().await;
}
