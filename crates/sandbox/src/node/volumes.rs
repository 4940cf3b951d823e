//! Volumes are folders; what comes from the API follows it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::env::{Facts, Sources, entries, field};
use super::spec::{items, text};

/// What is to be in a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// A folder somewhere else that lives longer than the pod.
    Elsewhere(PathBuf),
    /// A folder of the pod, empty at first.
    Empty,
    /// Exactly these files.
    Files(BTreeMap<String, Vec<u8>>),
}

/// What a volume asks for beyond its own text.
pub(super) struct Asked<'a> {
    pub(super) pod: &'a Value,
    pub(super) facts: Facts,
    pub(super) sources: Sources<'a>,
    /// The folder of a claim, once it is bound.
    pub(super) claim: &'a dyn Fn(&str) -> Option<PathBuf>,
    /// A token for the pod's service account.
    pub(super) token: &'a str,
}

impl Asked<'_> {
    /// What is to be in one volume of the pod.
    pub(super) fn content(&self, volume: &Value) -> Result<Content, String> {
        let name = text(volume, "/name");
        if let Some(claim) = volume.get("persistentVolumeClaim") {
            let claim = text(claim, "/claimName");
            let folder = (self.claim)(claim).ok_or_else(|| format!("claim {claim:?} is not bound"))?;
            return Ok(Content::Elsewhere(folder));
        }
        if let Some(host) = volume.get("hostPath") {
            return Ok(Content::Elsewhere(text(host, "/path").into()));
        }
        if volume.get("emptyDir").is_some() {
            return Ok(Content::Empty);
        }
        if let Some(projected) = volume.get("projected") {
            let mut files = BTreeMap::new();
            for source in items(projected, "/sources") {
                files.extend(self.files(source)?);
            }
            return Ok(Content::Files(files));
        }
        let known = ["configMap", "secret", "downwardAPI"];
        if known.iter().any(|kind| volume.get(kind).is_some()) {
            return self.files(volume).map(Content::Files);
        }
        Err(format!("volume {name:?} is of a kind that is not supported here"))
    }

    fn files(&self, source: &Value) -> Result<BTreeMap<String, Vec<u8>>, String> {
        if let Some(map) = source.get("configMap") {
            return self.keys("ConfigMap", text(map, "/name"), map);
        }
        if let Some(secret) = source.get("secret") {
            // A volume says `secretName`, a projection `name`.
            let name = [text(secret, "/secretName"), text(secret, "/name")].concat();
            return self.keys("Secret", &name, secret);
        }
        if let Some(token) = source.get("serviceAccountToken") {
            return Ok([(text(token, "/path").to_owned(), self.token.as_bytes().to_vec())].into());
        }
        let mut files = BTreeMap::new();
        for item in source
            .get("downwardAPI")
            .map(|api| items(api, "/items"))
            .unwrap_or_default()
        {
            let value = field(self.pod, self.facts, text(item, "/fieldRef/fieldPath"))?;
            files.insert(text(item, "/path").to_owned(), value.into_bytes());
        }
        Ok(files)
    }

    fn keys(&self, kind: &str, name: &str, source: &Value) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let optional = source.get("optional").and_then(Value::as_bool) == Some(true);
        let Some(object) = (self.sources)(kind, name) else {
            return if optional {
                Ok(BTreeMap::new())
            } else {
                Err(format!("{} {name:?} not found", kind.to_lowercase()))
            };
        };
        let mut all = entries(&object);
        let chosen = items(source, "/items");
        if chosen.is_empty() {
            return Ok(all);
        }
        let mut files = BTreeMap::new();
        for item in chosen {
            match all.remove(text(item, "/key")) {
                Some(bytes) => drop(files.insert(text(item, "/path").to_owned(), bytes)),
                None if optional => {}
                None => return Err(format!("{kind} {name:?} has no key {:?}", text(item, "/key"))),
            }
        }
        Ok(files)
    }
}

/// Bring a volume in line with its content. The folder is the answer.
pub(super) fn place(folder: PathBuf, content: &Content) -> io::Result<PathBuf> {
    match content {
        Content::Elsewhere(elsewhere) => {
            fs::create_dir_all(elsewhere)?;
            Ok(elsewhere.clone())
        }
        Content::Empty => {
            fs::create_dir_all(&folder)?;
            Ok(folder)
        }
        Content::Files(files) => {
            fs::create_dir_all(&folder)?;
            let wanted: BTreeSet<PathBuf> = files.keys().filter_map(|name| inside(&folder, name)).collect();
            remove_others(&folder, &wanted)?;
            for (name, bytes) in files {
                let Some(path) = inside(&folder, name) else {
                    continue;
                };
                if fs::read(&path).is_ok_and(|old| old == *bytes) {
                    continue;
                }
                replace(&path, bytes)?;
            }
            Ok(folder)
        }
    }
}

/// A path below the folder; an absolute one or one with `..` is none.
fn inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let plain = Path::new(name)
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    (plain && !name.is_empty()).then(|| folder.join(name))
}

/// Write a file so that a reader sees the old or the new, never a part.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push("..new");
    let new = path.with_file_name(name);
    fs::write(&new, bytes)?;
    fs::rename(new, path)
}

fn remove_others(folder: &Path, wanted: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, wanted)?;
        } else if !wanted.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Empty a folder but keep it: what a lost disk looks like.
pub(super) fn wipe(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            fs::remove_dir_all(path)?;
        } else {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
