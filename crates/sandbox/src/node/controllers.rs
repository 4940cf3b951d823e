//! The controllers, run against the store, and what follows on this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sim::kube::controllers::{Kind, Settings, View, name_of, reconcile};

use super::hosts;
use super::machine::Machine;
use super::spec::text;
use super::volumes::replace;

/// A turn that finds its own last writes refused waits this long.
const REFUSED: Duration = Duration::from_millis(100);

/// Run until the machine stops.
pub(super) async fn run(machine: Arc<Machine>, settings: Settings) {
    let mut news = machine.kubernetes.changes();
    let mut outside = Outside::default();
    loop {
        news.mark_unchanged();
        let turn = machine
            .kubernetes
            .with_store(|store| reconcile(machine.now(), &settings, store));
        outside.follow(&machine);
        let (mut done, writes) = (0, turn.writes.len());
        for write in &turn.writes {
            done += usize::from(machine.write(write).is_ok());
        }
        let wait = if writes > 0 && done == 0 {
            Some(REFUSED)
        } else {
            turn.next.map(|at| until(at, machine.now()))
        };
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return },
            () = sleep(wait) => {}
        }
    }
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    // Rounded up: a time in an object has whole seconds at best.
    Duration::try_from(at.duration_since(now) + SignedDuration::from_millis(1)).unwrap_or_default()
}

/// What the store says about this machine's files.
#[derive(Default)]
struct Outside {
    hosts: BTreeMap<String, String>,
    volumes: BTreeMap<String, PathBuf>,
}

impl Outside {
    fn follow(&mut self, machine: &Machine) {
        let (hosts, volumes) = machine.kubernetes.with_store(|store| {
            let hosts: BTreeMap<String, String> = hosts::namespaces(store)
                .into_iter()
                .map(|namespace| (hosts::render(store, &namespace), namespace))
                .map(|(text, namespace)| (namespace, text))
                .collect();
            let volumes: BTreeMap<String, PathBuf> = View::list(store, Kind::PersistentVolume)
                .into_iter()
                .map(|volume| {
                    (
                        name_of(volume).to_owned(),
                        text(volume, "/spec/hostPath/path").into(),
                    )
                })
                .collect();
            (hosts, volumes)
        });
        for (namespace, text) in hosts {
            if self.hosts.get(&namespace) != Some(&text)
                && replace(&machine.hosts_file(&namespace), text.as_bytes()).is_ok()
            {
                self.hosts.insert(namespace, text);
            }
        }
        let ours = machine.folder.join("volumes");
        self.volumes.retain(|name, folder| {
            let kept = volumes.contains_key(name);
            // Only what we made: a volume made by hand may point anywhere.
            if !kept && folder.starts_with(&ours) {
                let _ = std::fs::remove_dir_all(folder);
            }
            kept
        });
        self.volumes.extend(volumes);
    }
}
