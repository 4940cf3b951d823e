//! What every object has: names, labels, owners, identity.

use serde_json::{Value, json};

use super::failure::Cause;
use super::kinds::{Kind, KindInfo};
use super::value::{items, remove, text};

/// Where deletion stands.
pub(crate) fn is_deleting(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|at| !at.is_null())
}

/// The finalizers, in order.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    items(object, "/metadata/finalizers")
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

/// Upstream does not write lists and maps of the metadata that have nothing in them.
pub(crate) fn without_empty(object: &mut Value) {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    };
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let path = format!("/metadata/{field}");
        if object.pointer(&path).is_some_and(empty) {
            remove(object, &["metadata", field]);
        }
    }
}

/// Letters that make no words, as upstream uses for generated names.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A draw that depends on nothing but its arguments (splitmix64).
pub(crate) fn draw(seed: u64, counter: u64) -> u64 {
    let mut z = seed ^ counter.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Five letters for a generated name.
pub(crate) fn suffix(mut draw: u64) -> String {
    (0..5)
        .filter_map(|_| {
            let letter = usize::try_from(draw % 27).ok().and_then(|at| LETTERS.get(at));
            draw /= 27;
            letter.map(|letter| char::from(*letter))
        })
        .collect()
}

/// Two draws in the form of a random UUID.
pub(crate) fn uid(high: u64, low: u64) -> String {
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        (low >> 48) & 0xfff,
        low & 0xffff_ffff_ffff
    )
}

fn is_dns_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=63).contains(&name.len()) && name.chars().all(inner) && name.starts_with(end) && name.ends_with(end)
}

fn is_dns_subdomain(name: &str) -> bool {
    let part = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.chars().all(inner) && part.starts_with(end) && part.ends_with(end)
    };
    (1..=253).contains(&name.len()) && name.split('.').all(part)
}

fn is_qualified_part(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let end = |c: char| c.is_ascii_alphanumeric();
    (1..=63).contains(&name.len()) && name.chars().all(inner) && name.starts_with(end) && name.ends_with(end)
}

/// `app`, `example.com/app`.
pub(crate) fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_qualified_part(name),
        None => is_qualified_part(key),
    }
}

/// Empty, or like the name part of a key.
pub(crate) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_qualified_part(value)
}

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
fn name_rule(kind: Kind, name: &str) -> Option<&'static str> {
    let rbac = [
        Kind::ROLE,
        Kind::ROLE_BINDING,
        Kind::CLUSTER_ROLE,
        Kind::CLUSTER_ROLE_BINDING,
    ];
    if rbac.contains(&kind) {
        // These are path segments, and contain colons.
        return (name == "." || name == ".." || name.contains('/') || name.contains('%'))
            .then_some("must be a path segment name");
    }
    match kind {
        // Services may begin with a digit since Kubernetes 1.36.
        Kind::NAMESPACE | Kind::SERVICE => (!is_dns_label(name)).then_some(LABEL),
        _ => (!is_dns_subdomain(name)).then_some(SUBDOMAIN),
    }
}

/// What is wrong with the metadata of an object that is about to be stored.
pub(crate) fn check(kind: Kind, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(object, "/metadata/name");
    if let Some(why) = name_rule(kind, name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), why));
    }
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        if !is_label_key(key) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), QUALIFIED));
        }
        if !value.as_str().is_some_and(is_label_value) {
            causes.push(Cause::invalid("metadata.labels", value, VALUE));
        }
    }
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    for key in annotations.into_iter().flatten().map(|(key, _)| key) {
        if !is_label_key(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &json!(key), QUALIFIED));
        }
    }
    for finalizer in finalizers(object) {
        if !is_label_key(finalizer) {
            causes.push(Cause::invalid(
                "metadata.finalizers",
                &json!(finalizer),
                QUALIFIED,
            ));
        }
    }
    for (index, owner) in items(object, "/metadata/ownerReferences").iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &format!("/{field}")).is_empty() {
                let path = format!("metadata.ownerReferences[{index}].{field}");
                causes.push(Cause::invalid(path, &json!(""), "must not be empty"));
            }
        }
    }
    causes
}

/// Metadata that is not even of the right shape: a request that cannot be read.
pub(crate) fn shape(object: &Value, info: &KindInfo) -> Result<(), String> {
    let of_texts = |value: &Value| {
        value
            .as_object()
            .is_some_and(|map| map.values().all(Value::is_string))
    };
    let texts = |value: &Value| {
        value
            .as_array()
            .is_some_and(|list| list.iter().all(Value::is_string))
    };
    let owners = |value: &Value| {
        value
            .as_array()
            .is_some_and(|list| list.iter().all(Value::is_object))
    };
    let Some(object) = object.as_object() else {
        return Err("couldn't get version/kind; json parse error: cannot unmarshal".to_owned());
    };
    let Some(meta) = object.get("metadata").filter(|meta| !meta.is_null()) else {
        return Ok(());
    };
    let good = meta.as_object().is_some_and(|meta| {
        meta.iter().all(|(key, value)| {
            value.is_null()
                || match key.as_str() {
                    "name" | "namespace" | "generateName" | "uid" | "resourceVersion" => value.is_string(),
                    "labels" | "annotations" => of_texts(value),
                    "finalizers" => texts(value),
                    "ownerReferences" | "managedFields" => owners(value),
                    _ => true,
                }
        })
    });
    if good {
        Ok(())
    } else {
        Err(format!(
            "{} in version \"{}\" cannot be handled as a {}: metadata has a field of the wrong type",
            info.kind,
            info.stored_as(),
            info.kind
        ))
    }
}
