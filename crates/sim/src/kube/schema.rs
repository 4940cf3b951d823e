//! The structural schema of a custom kind: pruning, defaults, checks.

use serde_json::{Map, Value};

use super::failure::Cause;
use super::rules::Rules;
use super::value::{items, text};

fn preserves(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

fn is_int_or_string(schema: &Value) -> bool {
    schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true))
}

/// The object without the fields that the schema does not know.
pub(crate) fn pruned(schema: &Value, object: &Value) -> Value {
    let mut kept = prune(schema, object);
    for field in ["apiVersion", "kind", "metadata"] {
        if let (Some(value), Value::Object(kept)) = (object.get(field), &mut kept) {
            kept.insert(field.to_owned(), value.clone());
        }
    }
    kept
}

fn prune(schema: &Value, value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let others = schema
                .get("additionalProperties")
                .filter(|others| **others != Value::Bool(false));
            let embedded = schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
            let mut kept = Map::new();
            for (key, value) in map {
                let own = embedded && matches!(key.as_str(), "apiVersion" | "kind" | "metadata");
                let known = properties.and_then(|properties| properties.get(key)).or(others);
                match known {
                    Some(schema) => {
                        kept.insert(key.clone(), prune(schema, value));
                    }
                    None if own || preserves(schema) => {
                        kept.insert(key.clone(), value.clone());
                    }
                    None => {}
                }
            }
            Value::Object(kept)
        }
        Value::Array(list) => match schema.get("items") {
            Some(schema) => list.iter().map(|item| prune(schema, item)).collect(),
            None => value.clone(),
        },
        other => other.clone(),
    }
}

/// Fill in what the schema has a default for.
pub(crate) fn default(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (key, schema) in properties.into_iter().flatten() {
                let nullable = schema.get("nullable") == Some(&Value::Bool(true));
                let missing = map.get(key).is_none_or(|value| value.is_null() && !nullable);
                if let Some(value) = schema.get("default").filter(|_| missing) {
                    map.insert(key.clone(), value.clone());
                }
                if let Some(value) = map.get_mut(key) {
                    default(schema, value);
                }
            }
            if let Some(schema) = schema
                .get("additionalProperties")
                .filter(|schema| schema.is_object())
            {
                for (key, value) in map.iter_mut() {
                    if properties.is_none_or(|properties| !properties.contains_key(key)) {
                        default(schema, value);
                    }
                }
            }
        }
        Value::Array(list) => {
            for (item, schema) in list
                .iter_mut()
                .zip(std::iter::repeat_with(|| schema.get("items")))
            {
                if let Some(schema) = schema {
                    default(schema, item);
                }
            }
        }
        _ => {}
    }
}

/// Everything that is wrong with an object.
pub(crate) fn check(schema: &Value, object: &Value, rules: &dyn Rules) -> Vec<Cause> {
    let mut check = Check {
        rules,
        causes: Vec::new(),
    };
    check.value(schema, object, "");
    check.causes
}

struct Check<'a> {
    rules: &'a dyn Rules,
    causes: Vec<Cause>,
}

impl Check<'_> {
    fn wrong(&mut self, path: &str, value: &Value, why: impl std::fmt::Display) {
        self.causes
            .push(Cause::invalid(path, value, format!("{path} in body {why}")));
    }

    fn value(&mut self, schema: &Value, value: &Value, path: &str) {
        let nullable = schema.get("nullable") == Some(&Value::Bool(true));
        if value.is_null() && nullable {
            return;
        }
        if !has_type(schema, value) {
            let wanted = if is_int_or_string(schema) {
                "integer or string"
            } else {
                text(schema, "/type")
            };
            let found = type_of(value);
            self.causes.push(Cause {
                reason: "FieldValueTypeInvalid",
                field: path.to_owned(),
                message: format!(
                    "Invalid value: {found:?}: {path} in body must be of type {wanted}: {found:?}"
                ),
            });
            return;
        }
        if let Some(allowed) = schema
            .get("enum")
            .and_then(Value::as_array)
            .filter(|all| !all.contains(value))
        {
            let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
            self.causes.push(Cause {
                reason: "FieldValueNotSupported",
                field: path.to_owned(),
                message: format!(
                    "Unsupported value: {value}: supported values: {}",
                    allowed.join(", ")
                ),
            });
        }
        match value {
            Value::Object(map) => self.object(schema, map, value, path),
            Value::Array(list) => self.list(schema, list, value, path),
            Value::String(string) => self.string(schema, string, path),
            Value::Number(_) => self.number(schema, value, path),
            _ => {}
        }
        self.combined(schema, value, path);
    }

    fn object(&mut self, schema: &Value, map: &Map<String, Value>, value: &Value, path: &str) {
        let below = |key: &str| {
            if path.is_empty() {
                key.to_owned()
            } else {
                format!("{path}.{key}")
            }
        };
        for required in items(schema, "/required").iter().filter_map(Value::as_str) {
            if !map.contains_key(required) {
                self.causes.push(Cause::required(below(required), ""));
            }
        }
        self.size(schema, map.len(), "Properties", value, path);
        let properties = schema.get("properties").and_then(Value::as_object);
        for (key, value) in map {
            let known = properties.and_then(|properties| properties.get(key));
            // Metadata has its own checks.
            if path.is_empty() && key == "metadata" {
                continue;
            }
            if let Some(schema) = known
                .or_else(|| schema.get("additionalProperties"))
                .filter(|schema| schema.is_object())
            {
                self.value(schema, value, &below(key));
            }
        }
    }

    fn list(&mut self, schema: &Value, list: &[Value], value: &Value, path: &str) {
        self.size(schema, list.len(), "Items", value, path);
        let keys = items(schema, "/x-kubernetes-list-map-keys");
        let kind = text(schema, "/x-kubernetes-list-type");
        for (index, item) in list.iter().enumerate() {
            let here = format!("{path}[{index}]");
            if let Some(schema) = schema.get("items") {
                self.value(schema, item, &here);
            }
            let same = |other: &&Value| match kind {
                "set" => *other == item,
                "map" => keys
                    .iter()
                    .filter_map(Value::as_str)
                    .all(|key| other.get(key) == item.get(key)),
                _ => false,
            };
            if list.iter().take(index).any(|other| same(&other)) {
                self.causes.push(Cause {
                    reason: "FieldValueDuplicate",
                    field: here,
                    message: format!("Duplicate value: {item}"),
                });
            }
        }
    }

    fn size(&mut self, schema: &Value, found: usize, what: &str, value: &Value, path: &str) {
        let bound = |name: String| {
            let bound = schema.get(name).and_then(Value::as_u64);
            bound.and_then(|bound| usize::try_from(bound).ok())
        };
        if let Some(most) = bound(format!("max{what}")).filter(|most| found > *most) {
            self.causes.push(Cause {
                reason: "FieldValueTooMany",
                field: path.to_owned(),
                message: format!(
                    "Too many: {found}: must have at most {most} {}",
                    what.to_lowercase()
                ),
            });
        }
        if let Some(least) = bound(format!("min{what}")).filter(|least| found < *least) {
            self.wrong(
                path,
                value,
                format_args!("should have at least {least} {}", what.to_lowercase()),
            );
        }
    }

    fn string(&mut self, schema: &Value, string: &str, path: &str) {
        let value = Value::String(string.to_owned());
        let length = u64::try_from(string.chars().count()).unwrap_or(u64::MAX);
        let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
        if let Some(least) = bound("minLength").filter(|least| length < *least) {
            self.wrong(
                path,
                &value,
                format_args!("should be at least {least} chars long"),
            );
        }
        if let Some(most) = bound("maxLength").filter(|most| length > *most) {
            self.causes.push(Cause {
                reason: "FieldValueTooLong",
                field: path.to_owned(),
                message: format!("Too long: may not be more than {most} bytes"),
            });
        }
        let pattern = text(schema, "/pattern");
        if !pattern.is_empty() && !self.rules.matches(pattern, string) {
            self.wrong(path, &value, format_args!("should match '{pattern}'"));
        }
        let is_time = || string.parse::<jiff::Timestamp>().is_ok();
        if text(schema, "/format") == "date-time" && !is_time() {
            self.wrong(path, &value, format_args!("must be of type date-time: {value}"));
        }
    }

    fn number(&mut self, schema: &Value, value: &Value, path: &str) {
        let (Some(number), bound) = (value.as_f64(), |name: &str| {
            schema.get(name).and_then(Value::as_f64)
        }) else {
            return;
        };
        let excluded = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        if let Some(least) = bound("minimum") {
            let below = number < least || (excluded("exclusiveMinimum") && number <= least);
            if below {
                self.wrong(
                    path,
                    value,
                    format_args!("should be greater than or equal to {least}"),
                );
            }
        }
        if let Some(most) = bound("maximum") {
            let above = number > most || (excluded("exclusiveMaximum") && number >= most);
            if above {
                self.wrong(
                    path,
                    value,
                    format_args!("should be less than or equal to {most}"),
                );
            }
        }
        let fits = match text(schema, "/format") {
            "int32" => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            _ => true,
        };
        if !fits {
            self.wrong(path, value, "must be of type int32");
        }
    }

    fn combined(&mut self, schema: &Value, value: &Value, path: &str) {
        let holds = |schema: &Value| {
            let mut inner = Check {
                rules: self.rules,
                causes: Vec::new(),
            };
            inner.value(schema, value, path);
            inner.causes.is_empty()
        };
        let holding = |list: &str| {
            let all = schema.get(list).and_then(Value::as_array)?;
            Some((all.iter().filter(|schema| holds(schema)).count(), all.len()))
        };
        let mut wrong = Vec::new();
        if holding("allOf").is_some_and(|(good, all)| good < all) {
            wrong.push("must validate all the schemas (allOf)");
        }
        if holding("anyOf").is_some_and(|(good, _)| good == 0) {
            wrong.push("must validate at least one schema (anyOf)");
        }
        if holding("oneOf").is_some_and(|(good, _)| good != 1) {
            wrong.push("must validate one and only one schema (oneOf)");
        }
        if schema.get("not").is_some_and(holds) {
            wrong.push("must not validate the schema (not)");
        }
        for why in wrong {
            self.wrong(path, value, why);
        }
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    if is_int_or_string(schema) {
        return value.is_string() || value.is_i64() || value.is_u64();
    }
    match text(schema, "/type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        "number" => value.is_number(),
        _ => true,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
