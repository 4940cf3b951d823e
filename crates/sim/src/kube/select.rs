//! Label and field selectors.

use serde_json::Value;

use super::failure::Failure;
use super::value::{items, text};

/// One demand on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Demand {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

/// Which objects are meant: all demands hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    labels: Vec<Demand>,
    /// Pointer, value, and whether it must be equal.
    fields: Vec<(String, String, bool)>,
}

impl Selector {
    /// Read both selectors of a request.
    pub(crate) fn parse(labels: &str, fields: &str, known: impl Fn(&str) -> bool) -> Result<Self, Failure> {
        let labels = parse_labels(labels)
            .map_err(|why| Failure::bad_request(format!("unable to parse requirement: {why}")))?;
        Ok(Self {
            labels,
            fields: parse_fields(fields, known)?,
        })
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|demand| holds(demand, object))
            && self.fields.iter().all(|(pointer, wanted, equal)| {
                let found = match object.pointer(pointer) {
                    Some(Value::String(text)) => text.clone(),
                    Some(Value::Null) | None => String::new(),
                    Some(other) => other.to_string(),
                };
                (found == *wanted) == *equal
            })
    }
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(key)?.as_str()
}

fn holds(demand: &Demand, object: &Value) -> bool {
    let among = |key: &str, values: &[String]| {
        label(object, key).is_some_and(|found| values.iter().any(|value| value == found))
    };
    match demand {
        Demand::In(key, values) => among(key, values),
        Demand::NotIn(key, values) => !among(key, values),
        Demand::Exists(key) => label(object, key).is_some(),
        Demand::Absent(key) => label(object, key).is_none(),
    }
}

/// A `LabelSelector` of the API, as workloads and budgets carry it.
pub(crate) fn from_object(selector: &Value) -> Option<Selector> {
    let mut labels = Vec::new();
    for (key, value) in selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        labels.push(Demand::In(key.clone(), vec![value.as_str()?.to_owned()]));
    }
    for expression in items(selector, "/matchExpressions") {
        let key = text(expression, "/key").to_owned();
        let values = items(expression, "/values")
            .iter()
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect();
        labels.push(match text(expression, "/operator") {
            "In" => Demand::In(key, values),
            "NotIn" => Demand::NotIn(key, values),
            "Exists" => Demand::Exists(key),
            "DoesNotExist" => Demand::Absent(key),
            _ => return None,
        });
    }
    Some(Selector {
        labels,
        fields: Vec::new(),
    })
}

/// The same selector in the form of a query: `a=b,c in (d,e)`.
pub(crate) fn to_text(selector: &Value) -> String {
    let simple = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let complex = items(selector, "/matchExpressions").iter().map(|expression| {
        let key = text(expression, "/key");
        let values: Vec<_> = items(expression, "/values")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        match text(expression, "/operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        }
    });
    simple.chain(complex).collect::<Vec<_>>().join(",")
}

fn parse_labels(selector: &str) -> Result<Vec<Demand>, String> {
    let mut demands = Vec::new();
    for part in split_outside_brackets(selector)? {
        let part = part.trim();
        if !part.is_empty() {
            demands.push(parse_demand(part)?);
        }
    }
    Ok(demands)
}

/// Commas inside `(a,b)` do not separate demands.
fn split_outside_brackets(selector: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let mut depth = 0_u32;
    let mut rest = selector;
    let mut from = 0;
    for (at, character) in selector.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => {
                depth = depth
                    .checked_sub(1)
                    .ok_or_else(|| format!("found ')' in \"{selector}\""))?;
            }
            ',' if depth == 0 => {
                let (part, after) = rest.split_at(at - from);
                parts.push(part);
                rest = after.get(1..).unwrap_or_default();
                from = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(format!("found '', expected: ',' or ')' in \"{selector}\""));
    }
    parts.push(rest);
    Ok(parts)
}

fn parse_demand(part: &str) -> Result<Demand, String> {
    if let Some(key) = part.strip_prefix('!') {
        return Ok(Demand::Absent(key_of(key)?));
    }
    if let Some((head, values)) = part.split_once('(') {
        let values = values
            .strip_suffix(')')
            .ok_or_else(|| format!("found '{part}'"))?;
        let values = values
            .split(',')
            .map(|value| value_of(value.trim()))
            .collect::<Result<Vec<_>, _>>()?;
        return match head.split_whitespace().collect::<Vec<_>>().as_slice() {
            [key, "in"] => Ok(Demand::In(key_of(key)?, values)),
            [key, "notin"] => Ok(Demand::NotIn(key_of(key)?, values)),
            _ => Err(format!("found '{head}', expected: in, notin")),
        };
    }
    for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some((key, value)) = part.split_once(operator) {
            let (key, value) = (key_of(key)?, vec![value_of(value.trim())?]);
            return Ok(if equal {
                Demand::In(key, value)
            } else {
                Demand::NotIn(key, value)
            });
        }
    }
    Ok(Demand::Exists(key_of(part)?))
}

fn key_of(key: &str) -> Result<String, String> {
    let key = key.trim();
    if super::meta::is_label_key(key) {
        Ok(key.to_owned())
    } else {
        Err(format!(
            "<nil>: Invalid value: \"{key}\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
        ))
    }
}

fn value_of(value: &str) -> Result<String, String> {
    if super::meta::is_label_value(value) {
        Ok(value.to_owned())
    } else {
        Err(format!(
            "<nil>: Invalid value: \"{value}\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
        ))
    }
}

fn parse_fields(
    selector: &str,
    known: impl Fn(&str) -> bool,
) -> Result<Vec<(String, String, bool)>, Failure> {
    let mut fields = Vec::new();
    for part in selector.split(',').filter(|part| !part.is_empty()) {
        let found = [("!=", false), ("==", true), ("=", true)]
            .into_iter()
            .find_map(|(operator, equal)| {
                part.split_once(operator)
                    .map(|(field, value)| (field, value, equal))
            });
        let Some((field, value, equal)) = found else {
            return Err(Failure::bad_request(format!(
                "invalid selector: '{selector}'; can't understand '{part}'"
            )));
        };
        if !known(field) {
            return Err(Failure::bad_request(format!(
                "field label not supported: {field}"
            )));
        }
        fields.push((format!("/{}", field.replace('.', "/")), value.to_owned(), equal));
    }
    Ok(fields)
}
