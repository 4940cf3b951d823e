//! What kube-rs offers an operator, each against the small Kubernetes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{AttachParams, DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event as Finalizing, finalizer};
use kube::runtime::{Controller, WatchStreamExt as _, reflector, watcher};
use kube::{Api, Client, ResourceExt as _};
use sandbox::kube::Kubernetes;
use sandbox::kube::faults::{Fault, On};
use sandbox::kube::streams::{
    BoxRead, Duplex, ExecRequest, ExecStreams, LogRequest, PodRef, PodStreams, StreamError,
};
use serde_json::json;
use sim::kube::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

fn map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let data: BTreeMap<_, _> = data
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let mut map = ConfigMap {
        data: Some(data),
        ..ConfigMap::default()
    };
    map.metadata.name = Some(name.to_owned());
    map
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

#[tokio::test]
async fn an_object_is_made_read_changed_listed_and_deleted() {
    let kubernetes = Kubernetes::new(1);
    let api = maps(&kubernetes.client());
    let made = api
        .create(&PostParams::default(), &map("a", &[("k", "v")]))
        .await
        .unwrap();
    assert!(made.uid().is_some() && made.resource_version().is_some());
    let mut read = api.get("a").await.unwrap();
    read.data
        .get_or_insert_default()
        .insert("k".to_owned(), "w".to_owned());
    let replaced = api.replace("a", &PostParams::default(), &read).await.unwrap();
    assert_ne!(replaced.resource_version(), made.resource_version());
    let stale = api.replace("a", &PostParams::default(), &read).await.unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict"));
    let patch = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "y"}}));
    let applied = api
        .patch("a", &PatchParams::apply("tests"), &patch)
        .await
        .unwrap();
    assert_eq!(applied.data.unwrap().len(), 2);
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn a_watcher_sees_what_is_there_and_what_comes_and_survives_a_cut_and_a_compaction() {
    for streaming in [false, true] {
        let kubernetes = Kubernetes::new(1);
        let api = maps(&kubernetes.client());
        api.create(&PostParams::default(), &map("a", &[])).await.unwrap();
        let config = if streaming {
            watcher::Config::default().streaming_lists()
        } else {
            watcher::Config::default()
        };
        let mut seen = Box::pin(watcher(api.clone(), config).default_backoff().applied_objects());
        assert_eq!(
            timeout(PATIENCE, seen.try_next())
                .await
                .unwrap()
                .unwrap()
                .unwrap()
                .name_any(),
            "a"
        );
        api.create(&PostParams::default(), &map("b", &[])).await.unwrap();
        assert_eq!(
            timeout(PATIENCE, seen.try_next())
                .await
                .unwrap()
                .unwrap()
                .unwrap()
                .name_any(),
            "b"
        );
        // The connection breaks; what happens meanwhile is not lost.
        kubernetes
            .faults()
            .inject(Fault::CutWatch, On::path("configmaps").times(1));
        api.create(&PostParams::default(), &map("c", &[])).await.unwrap();
        let next = timeout(PATIENCE, async {
            loop {
                // The cut itself is an error that the watcher goes on after.
                let next = seen.next().await;
                if next.is_some_and(|next| next.is_ok_and(|object| object.name_any() == "c")) {
                    return;
                }
            }
        });
        next.await.unwrap();
        // History is forgotten while the watcher is cut off: it must list again.
        kubernetes
            .faults()
            .inject(Fault::Refuse, On::path("configmaps").method(Method::Get).times(1));
        kubernetes
            .faults()
            .inject(Fault::CutWatch, On::path("configmaps").times(1));
        api.create(&PostParams::default(), &map("d", &[])).await.unwrap();
        kubernetes.compact();
        let next = timeout(PATIENCE, async {
            loop {
                let next = seen.next().await;
                if next.is_some_and(|next| next.is_ok_and(|object| object.name_any() == "d")) {
                    return;
                }
            }
        });
        next.await.unwrap();
    }
}

#[tokio::test]
async fn a_reflector_holds_what_the_store_holds() {
    let kubernetes = Kubernetes::new(1);
    let api = maps(&kubernetes.client());
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &map(name, &[])).await.unwrap();
    }
    let (reader, writer) = reflector::store();
    let mut stream = Box::pin(reflector(
        writer,
        watcher(api.clone(), watcher::Config::default()),
    ));
    let filled = async {
        while reader.len() < 3 {
            stream.next().await;
        }
        api.delete("b", &DeleteParams::default()).await.unwrap();
        while reader.len() > 2 {
            stream.next().await;
        }
    };
    timeout(PATIENCE, filled).await.unwrap();
    let mut names: Vec<_> = reader.state().iter().map(|map| map.name_any()).collect();
    names.sort();
    assert_eq!(names, ["a", "c"]);
}

#[tokio::test]
async fn a_finalizer_is_set_and_cleans_up() {
    let kubernetes = Kubernetes::new(1);
    let api = maps(&kubernetes.client());
    api.create(&PostParams::default(), &map("a", &[])).await.unwrap();
    let count = AtomicUsize::new(0);
    let cleaned = &count;
    for _ in 0..4 {
        let Some(object) = api.get_opt("a").await.unwrap() else {
            break;
        };
        finalizer(&api, "example.com/tests", Arc::new(object), |event| async move {
            match event {
                Finalizing::Apply(_) => {}
                Finalizing::Cleanup(_) => {
                    cleaned.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok::<_, std::convert::Infallible>(Action::await_change())
        })
        .await
        .unwrap();
        let object = api.get_opt("a").await.unwrap();
        if object.is_some_and(|object| object.metadata.deletion_timestamp.is_none()) {
            api.delete("a", &DeleteParams::default()).await.unwrap();
        }
    }
    assert_eq!(cleaned.load(Ordering::Relaxed), 1);
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn a_controller_reconciles_what_changes() {
    let kubernetes = Kubernetes::new(1);
    let client = kubernetes.client();
    let api = maps(&client);
    for name in ["a", "b"] {
        api.create(&PostParams::default(), &map(name, &[])).await.unwrap();
    }
    let reconcile = |object: Arc<ConfigMap>, api: Arc<Api<ConfigMap>>| async move {
        let patch = Patch::Merge(json!({"data": {"done": "yes"}}));
        api.patch(&object.name_any(), &PatchParams::default(), &patch)
            .await?;
        Ok::<_, kube::Error>(Action::await_change())
    };
    let controller = Controller::new(api.clone(), watcher::Config::default())
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(50)),
            Arc::new(api.clone()),
        )
        .for_each(|_| async {});
    let done = async {
        loop {
            let all = api.list(&ListParams::default()).await.unwrap();
            let is_done = |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data.contains_key("done"));
            if all.items.len() == 3 && all.items.iter().all(is_done) {
                return;
            }
            if all.items.iter().filter(|map| is_done(map)).count() == 2 && all.items.len() == 2 {
                api.create(&PostParams::default(), &map("c", &[])).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = controller => panic!("the controller ended"),
        done = timeout(PATIENCE, done) => done.unwrap(),
    }
}

/// Runs nothing, and answers as if.
struct Echo;

impl PodStreams for Echo {
    fn logs(&self, request: LogRequest) -> BoxFuture<'static, Result<BoxRead, StreamError>> {
        let text = format!(
            "{}/{} of {}\n",
            request.pod.name, request.container, request.pod.node
        );
        Box::pin(async move { Ok(Box::new(std::io::Cursor::new(text.into_bytes())) as BoxRead) })
    }

    fn exec(
        &self,
        request: ExecRequest,
        streams: ExecStreams,
    ) -> BoxFuture<'static, Result<i32, StreamError>> {
        Box::pin(async move {
            let ExecStreams {
                stdin,
                mut stdout,
                mut stderr,
                resize: _,
            } = streams;
            let mut input = String::new();
            if let Some(mut stdin) = stdin {
                stdin.read_to_string(&mut input).await?;
            }
            stdout
                .write_all(format!("{} {input}", request.command.join(" ")).as_bytes())
                .await?;
            stderr.write_all(b"warning").await?;
            Ok(if request.command.first().is_some_and(|first| first == "false") {
                7
            } else {
                0
            })
        })
    }

    fn forward(&self, _: PodRef, port: u16) -> BoxFuture<'static, Result<Box<dyn Duplex>, StreamError>> {
        Box::pin(async move {
            if port != 7687 {
                return Err(StreamError::Unavailable(format!("nothing listens on {port}")));
            }
            let (ours, theirs) = tokio::io::duplex(64);
            // An echo on the other end.
            tokio::task::spawn(async move {
                let (mut reader, mut writer) = tokio::io::split(theirs);
                tokio::io::copy(&mut reader, &mut writer).await
            });
            Ok(Box::new(ours) as Box<dyn Duplex>)
        })
    }
}

async fn with_pod() -> anyhow::Result<(Kubernetes, Api<Pod>)> {
    let kubernetes = Kubernetes::new(1);
    kubernetes.set_streams(Arc::new(Echo));
    let api: Api<Pod> = Api::default_namespaced(kubernetes.client());
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x:1"}]},
    }))?;
    api.create(&PostParams::default(), &pod).await?;
    Ok((kubernetes, api))
}

#[tokio::test]
async fn exec_carries_stdin_stdout_stderr_and_the_exit_code() {
    let (kubernetes, api) = with_pod().await.unwrap();
    for (program, code) in [("true", None), ("false", Some("7"))] {
        let params = AttachParams::default().stdin(true).stdout(true).stderr(true);
        let mut process = api.exec("p", [program, "-x"], &params).await.unwrap();
        let mut stdin = process.stdin().unwrap();
        stdin.write_all(b"hello").await.unwrap();
        stdin.shutdown().await.unwrap();
        drop(stdin);
        let (mut out, mut err) = (String::new(), String::new());
        let (mut stdout, mut stderr) = (process.stdout().unwrap(), process.stderr().unwrap());
        let status = process.take_status().unwrap();
        let read = async { tokio::join!(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err)) };
        let (read_out, read_err) = timeout(PATIENCE, read).await.unwrap();
        read_out.unwrap();
        read_err.unwrap();
        let status = timeout(PATIENCE, status).await.unwrap().unwrap();
        assert_eq!(
            (out.as_str(), err.as_str()),
            (format!("{program} -x hello").as_str(), "warning")
        );
        match code {
            None => assert_eq!(status.status.as_deref(), Some("Success")),
            Some(code) => {
                assert_eq!(status.reason.as_deref(), Some("NonZeroExitCode"));
                let causes = status.details.unwrap().causes.unwrap();
                assert_eq!(causes[0].message.as_deref(), Some(code));
            }
        }
    }
    kubernetes.shutdown().await;
}

#[tokio::test]
async fn exec_in_a_pod_or_container_that_is_not_there_is_refused() {
    let (kubernetes, api) = with_pod().await.unwrap();
    assert!(api.exec("none", ["x"], &AttachParams::default()).await.is_err());
    let params = AttachParams::default().container("none");
    assert!(api.exec("p", ["x"], &params).await.is_err());
    kubernetes.shutdown().await;
}

#[tokio::test]
async fn port_forward_carries_bytes_both_ways_and_tells_of_a_closed_port() {
    let (kubernetes, api) = with_pod().await.unwrap();
    let mut forward = api.portforward("p", &[7687, 1]).await.unwrap();
    let mut stream = forward.take_stream(7687).unwrap();
    stream.write_all(b"ping").await.unwrap();
    let mut answer = [0; 4];
    timeout(PATIENCE, stream.read_exact(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&answer, b"ping");
    let error = timeout(PATIENCE, forward.take_error(1).unwrap()).await.unwrap();
    assert!(error.unwrap().contains("nothing listens on 1"));
    drop(stream);
    kubernetes.shutdown().await;
}

#[tokio::test]
async fn logs_come_from_the_node() {
    let (kubernetes, api) = with_pod().await.unwrap();
    assert_eq!(api.logs("p", &LogParams::default()).await.unwrap(), "p/c of n\n");
    kubernetes.shutdown().await;
}
