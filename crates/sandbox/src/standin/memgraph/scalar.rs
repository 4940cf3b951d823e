//! Values that the stand-in stores.

use bolt::packstream::{OwnedValue, Value};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A property. The model compares and hashes data, so a float is its bits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Float(u64),
    Text(String),
    List(Vec<Self>),
    Map(BTreeMap<String, Self>),
}

impl Scalar {
    pub(super) fn float(value: f64) -> Self {
        Self::Float(value.to_bits())
    }

    /// A parameter of a query. Bytes, times, points and graph types are none
    /// of the stand-in's business.
    pub(super) fn from_bolt(value: &Value<'_>) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Float(value) => Self::float(*value),
            Value::String(text) => Self::Text(text.to_string()),
            Value::List(values) => Self::List(values.iter().map(Self::from_bolt).collect::<Option<_>>()?),
            Value::Dict(entries) => Self::Map(
                entries
                    .iter()
                    .map(|(key, value)| Some((key.to_string(), Self::from_bolt(value)?)))
                    .collect::<Option<_>>()?,
            ),
            Value::Bytes(_) | Value::Structure(_) => return None,
        })
    }

    pub(super) fn to_bolt(&self) -> OwnedValue {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Float(bits) => Value::Float(f64::from_bits(*bits)),
            Self::Text(text) => Value::from(text.clone()),
            Self::List(values) => Value::List(values.iter().map(Self::to_bolt).collect()),
            Self::Map(entries) => Value::Dict(
                entries
                    .iter()
                    .map(|(key, value)| (Cow::Owned(key.clone()), value.to_bolt()))
                    .collect(),
            ),
        }
    }

    /// Cypher's order; `None` if the two cannot be compared.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Null, _) | (_, Self::Null) => None,
            (Self::Float(a), Self::Float(b)) => f64::from_bits(*a).partial_cmp(&f64::from_bits(*b)),
            (Self::Int(a), Self::Float(b)) => int_as_float(*a).partial_cmp(&f64::from_bits(*b)),
            (Self::Float(a), Self::Int(b)) => f64::from_bits(*a).partial_cmp(&int_as_float(*b)),
            _ if std::mem::discriminant(self) == std::mem::discriminant(other) => Some(self.cmp(other)),
            _ => None,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "Cypher compares numbers as floats too")]
const fn int_as_float(value: i64) -> f64 {
    value as f64
}
