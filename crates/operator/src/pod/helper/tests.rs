//! The helper answers whatever its disk is busy with.

use super::*;
use crate::http::client::{get, post};
use crate::pod::disk::RealDisk;
use mainstay_core::memgraph::helper::VolumeReport;
use mainstay_core::memgraph::ids::{Ordinal as Pod, PodUid, ResetId};
use std::io;
use std::path::Path;
use std::time::Instant;

const SLOW: Duration = Duration::from_secs(2);

/// A disk on which it takes long to delete something.
struct Slow;

impl Disk for Slow {
    fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        RealDisk.make_folder(path)
    }
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        RealDisk.write(path, text)
    }
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn remove(&mut self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        std::thread::sleep(SLOW);
        RealDisk.remove_folder(path)
    }
    fn sync(&mut self, folder: &Path) -> io::Result<()> {
        RealDisk.sync(folder)
    }
}

/// On one thread, as `mainstay pod serve` runs.
#[tokio::test]
async fn while_something_is_deleted_the_kubelet_is_answered() {
    let root = std::env::temp_dir().join(format!("mainstay-helper-{}", std::process::id()));
    std::fs::create_dir_all(root.join("quarantine/3")).unwrap();
    std::fs::write(root.join("token"), "secret").unwrap();
    let helper = Arc::new(Helper {
        me: Me {
            cluster: "memgraph-ha".parse().unwrap(),
            ordinal: Pod(2),
            uid: PodUid(5),
        },
        volume: Arc::new(DataVolume::new(&root, Slow).into()),
        ask: Arc::new(|| Box::pin(async { Ok(None) })),
        token: PushToken::File(root.join("token")),
        limits: PreStopLimits::default(),
        ending: 0.into(),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(Arc::clone(&helper).serve(listener, stop.clone()));
    let purge = Purge {
        pod_uid: PodUid(5),
        ids: vec![ResetId(3)],
    };
    let body = serde_json::to_string(&purge).unwrap();
    let there = at.clone();
    let purging = tokio::spawn(async move {
        post(&there, PURGE_PATH, Some("secret"), body, SLOW * 20)
            .await
            .map(|_| ())
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = Instant::now();
    for path in ["/livez", PRE_STOP_PATH] {
        get(&at, path, None, SLOW * 10).await.unwrap();
    }
    assert!(began.elapsed() < SLOW, "{:?}", began.elapsed());
    assert!(!purging.is_finished());
    purging.await.unwrap().unwrap();
    let report = get(&at, VOLUME_PATH, Some("secret"), SLOW).await.unwrap();
    let report: VolumeReport = serde_json::from_str(&report).unwrap();
    assert_eq!(report.quarantines, []);
    stop.cancel();
    serving.await.unwrap();
    std::fs::remove_dir_all(&root).unwrap();
}
