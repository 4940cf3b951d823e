//! `mainstay quarantine restore`: what a reset set aside comes back to a person, as a folder that a Memgraph opens.
//!
//! Not onto a pod: docs/decisions/0014-what-was-set-aside-is-brought-out.md says why.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::AttachParams;
use kube::{Api, Client, ResourceExt};
use mainstay_core::memgraph::helper::HELPER;
use operator::pod::{Receiver, Sum};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

/// Where the image has this program.
const PROGRAM: &str = "/mainstay";
/// A disk that is read for the first time in months is slow; somebody who says nothing for this long is gone.
const SILENCE: Duration = Duration::from_mins(1);
const PIECE: usize = 64 * 1024;
/// What the pod says of its own accord.
const LARGEST_COMPLAINT: u64 = 64 * 1024;

/// Where it goes, and where it waits until it is whole.
#[derive(Debug)]
pub(crate) struct Goal {
    to: PathBuf,
    partial: PathBuf,
}

impl Goal {
    /// Nothing is overwritten.
    pub(crate) fn new(to: &Path) -> Result<Self> {
        let name = to.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("`{}` names no folder", to.display()))?;
        ensure!(
            !to.exists(),
            "{} is there already; name another folder",
            to.display()
        );
        let partial = to.with_file_name(format!("{name}.partial"));
        ensure!(
            !partial.exists(),
            "{} is left of a copy that was cut off; remove it, or name another folder",
            partial.display()
        );
        Ok(Self {
            to: to.to_owned(),
            partial,
        })
    }
}

/// Fetches a copy: whole, or not under its name.
pub(crate) async fn fetch(client: &Client, pod: &Pod, id: u64, goal: &Goal) -> Result<Sum> {
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let id = id.to_string();
    let words = [PROGRAM, "pod", "export", "--data=/var/lib/memgraph", &id];
    let params = AttachParams::default()
        .container(HELPER)
        .stdin(false)
        .stdout(true)
        .stderr(true);
    let mut process = timeout(SILENCE, pods.exec(&name, words, &params))
        .await
        .with_context(|| format!("{name} does not answer"))?
        .with_context(|| {
            format!("nothing can be run in {name}; it needs the right `create` of `pods/exec`")
        })?;
    let stdout = process.stdout().context("no stream from the pod")?;
    let stderr = process.stderr().context("no stream from the pod")?;
    let (received, complaint) = tokio::join!(receive(stdout, goal), complaint(stderr));
    let received = received.with_context(|| {
        let said = complaint.trim();
        format!(
            "no whole copy came from {name}; what did is in {}. {said}",
            goal.partial.display()
        )
    })?;
    fs::rename(&goal.partial, &goal.to).with_context(|| format!("cannot make {}", goal.to.display()))?;
    Ok(received)
}

async fn receive(mut from: impl AsyncRead + Unpin, goal: &Goal) -> Result<Sum> {
    let mut receiver = Receiver::new(&goal.partial)?;
    let mut piece = vec![0; PIECE];
    loop {
        let read = timeout(SILENCE, from.read(&mut piece)).await;
        match read.context("the pod fell silent")?? {
            0 => return Ok(receiver.finish()?),
            read => receiver.take(piece.get(..read).unwrap_or_default())?,
        }
    }
}

async fn complaint(from: impl AsyncRead + Unpin) -> String {
    let mut said = String::new();
    // What cannot be read complains of nothing.
    from.take(LARGEST_COMPLAINT).read_to_string(&mut said).await.ok();
    said
}

/// Says what there is, or refuses.
pub(crate) fn known(status: &[api::memgraph::QuarantineStatus], pod: &str, id: u64) -> Result<u64> {
    match status.iter().find(|one| one.pod == pod && one.id == id) {
        Some(found) => Ok(found.bytes),
        None => bail!("nothing was set aside on {pod} by request {id}; see `mainstay quarantine list`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_there_is_overwritten() {
        let folder = std::env::temp_dir().join(format!("mainstay-restore-{}", std::process::id()));
        fs::create_dir_all(folder.join("there")).unwrap();
        fs::create_dir_all(folder.join("begun.partial")).unwrap();
        assert!(Goal::new(&folder.join("there")).is_err());
        assert!(Goal::new(&folder.join("begun")).is_err());
        assert!(Goal::new(Path::new("/")).is_err());
        let goal = Goal::new(&folder.join("new")).unwrap();
        assert_eq!(goal.partial, folder.join("new.partial"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn a_stream_that_ends_early_leaves_no_folder_under_the_name() {
        let folder = std::env::temp_dir().join(format!("mainstay-restore-cut-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let goal = Goal::new(&folder.join("copy")).unwrap();
        let cut: &[u8] = b"{\"file\":{\"path\":\"wal/1\",\"bytes\":100}}\nonly this";
        assert!(receive(cut, &goal).await.is_err());
        assert!(!goal.to.exists() && goal.partial.exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
