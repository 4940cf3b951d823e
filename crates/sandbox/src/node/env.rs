//! What a container's process is started with.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::images::Program;
use super::paths::{Paths, expand};
use super::process::Launch;
use super::spec::{items, text};

/// ConfigMaps and Secrets of the pod's namespace, by kind and name.
pub(super) type Sources<'a> = &'a dyn Fn(&str, &str) -> Option<Value>;

/// What a pod may ask about itself beyond its own object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) host: Ipv4Addr,
    pub(super) pod: Ipv4Addr,
}

/// The value of a `fieldRef`.
pub(super) fn field(pod: &Value, facts: Facts, path: &str) -> Result<String, String> {
    let keyed = |map: &str| {
        let key = path.strip_prefix(map)?.strip_prefix("['")?.strip_suffix("']")?;
        Some(
            pod.pointer("/metadata")?
                .get(map.strip_prefix("metadata.")?)?
                .get(key)?
                .as_str()?
                .to_owned(),
        )
    };
    match path {
        "metadata.name"
        | "metadata.namespace"
        | "metadata.uid"
        | "spec.nodeName"
        | "spec.serviceAccountName" => Ok(text(pod, &format!("/{}", path.replace('.', "/"))).to_owned()),
        "status.podIP" | "status.podIPs" => Ok(facts.pod.to_string()),
        "status.hostIP" | "status.hostIPs" => Ok(facts.host.to_string()),
        // A label that is not there is empty, as upstream.
        _ if path.starts_with("metadata.labels[") => Ok(keyed("metadata.labels").unwrap_or_default()),
        _ if path.starts_with("metadata.annotations[") => {
            Ok(keyed("metadata.annotations").unwrap_or_default())
        }
        _ => Err(format!("field {path:?} is not supported here")),
    }
}

/// The bytes of every key of a ConfigMap or Secret.
pub(super) fn entries(object: &Value) -> BTreeMap<String, Vec<u8>> {
    let of = |field: &str| object.get(field).and_then(Value::as_object).into_iter().flatten();
    let plain = of("data").filter(|_| text(object, "/kind") != "Secret");
    let coded = of("data")
        .filter(|_| text(object, "/kind") == "Secret")
        .chain(of("binaryData"));
    let decode = |value: &Value| STANDARD.decode(value.as_str()?).ok();
    plain
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.as_bytes().to_vec())))
        .chain(coded.filter_map(|(key, value)| Some((key.clone(), decode(value)?))))
        .collect()
}

fn one_key(kind: &str, reference: &Value, sources: Sources<'_>) -> Result<Option<String>, String> {
    let (name, key) = (text(reference, "/name"), text(reference, "/key"));
    let found = sources(kind, name).and_then(|object| entries(&object).remove(key));
    match found {
        Some(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        None if reference.get("optional").and_then(Value::as_bool) == Some(true) => Ok(None),
        None => Err(format!("couldn't find key {key} in {kind} {name}")),
    }
}

/// The variables that the pod asks for, in its own words.
pub(super) fn variables(
    pod: &Value,
    container: &Value,
    facts: Facts,
    sources: Sources<'_>,
) -> Result<BTreeMap<String, String>, String> {
    let mut variables = BTreeMap::new();
    for from in items(container, "/envFrom") {
        for (field, kind) in [("configMapRef", "ConfigMap"), ("secretRef", "Secret")] {
            let Some(reference) = from.get(field) else {
                continue;
            };
            let object = sources(kind, text(reference, "/name"));
            if object.is_none() && reference.get("optional").and_then(Value::as_bool) != Some(true) {
                return Err(format!(
                    "{} {:?} not found",
                    kind.to_lowercase(),
                    text(reference, "/name")
                ));
            }
            for (key, value) in object.iter().flat_map(entries) {
                let value = String::from_utf8_lossy(&value).into_owned();
                variables.insert(format!("{}{key}", text(from, "/prefix")), value);
            }
        }
    }
    for variable in items(container, "/env") {
        let from = |field: &str| variable.pointer(&format!("/valueFrom/{field}"));
        let value = if let Some(reference) = from("fieldRef") {
            Some(field(pod, facts, text(reference, "/fieldPath"))?)
        } else if let Some(reference) = from("secretKeyRef") {
            one_key("Secret", reference, sources)?
        } else if let Some(reference) = from("configMapKeyRef") {
            one_key("ConfigMap", reference, sources)?
        } else {
            let known = |name: &str| variables.get(name).map(String::as_str);
            Some(expand(text(variable, "/value"), &known))
        };
        variables.extend(value.map(|value| (text(variable, "/name").to_owned(), value)));
    }
    Ok(variables)
}

/// Where things are for one container.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    pub(super) paths: Paths,
    /// Where the process starts if the pod does not say.
    pub(super) folder: PathBuf,
    /// What every process here gets; the pod's own variables win.
    pub(super) base: BTreeMap<String, String>,
}

/// Command and arguments of a container, for a program that its image names.
pub(super) fn launch(
    container: &Value,
    program: Program,
    variables: &BTreeMap<String, String>,
    around: &Surroundings,
) -> Launch {
    let Program { path, args, env } = program;
    let known = |name: &str| variables.get(name).map(String::as_str);
    let words = |field: &str| -> Vec<String> {
        let words = items(container, field).iter().filter_map(Value::as_str);
        words
            .map(|word| around.paths.translate(&expand(word, &known)))
            .collect()
    };
    // An image's own arguments are words of the container like all others.
    let own_args: Vec<String> = args.iter().map(|arg| around.paths.translate(arg)).collect();
    let (mut args, file) = match words("/command").split_first() {
        Some((first, rest)) => match on_this_machine(first, around) {
            Some(file) => (rest.to_vec(), file),
            // The entry point of an image that is only a name here.
            None => ([own_args, rest.to_vec()].concat(), path),
        },
        None => (own_args, path),
    };
    args.extend(words("/args"));
    let own = variables
        .iter()
        .map(|(name, value)| (name.clone(), around.paths.translate(value)));
    let folder = match text(container, "/workingDir") {
        "" => around.folder.clone(),
        folder => Some(PathBuf::from(around.paths.translate(folder)))
            .filter(|folder| folder.is_dir())
            .unwrap_or_else(|| around.folder.clone()),
    };
    Launch {
        program: file,
        args,
        env: around.base.clone().into_iter().chain(env).chain(own).collect(),
        folder,
    }
}

/// A command in the surroundings of a container, for hooks, probes and exec.
pub(super) fn command(words: &[String], like: &Launch, paths: &Paths) -> Launch {
    let mut words = words.iter().map(|word| paths.translate(word));
    let program = PathBuf::from(words.next().unwrap_or_default());
    // An image of one program has it at its root.
    let own = program.parent() == Some(Path::new("/")) && program.file_name() == like.program.file_name();
    Launch {
        program: if own { like.program.clone() } else { program },
        args: words.collect(),
        ..like.clone()
    }
}

fn on_this_machine(command: &str, around: &Surroundings) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(around.folder.join(command)).filter(|path| path.is_file());
    }
    let path = around.base.get("PATH").map(String::as_str).unwrap_or_default();
    path.split(':')
        .map(|folder| Path::new(folder).join(command))
        .find(|file| file.is_file())
}
