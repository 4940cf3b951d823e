//! A value of any type.

use super::graph::Structure;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A dictionary: no key twice, sorted by key.
pub type Dict<'a> = BTreeMap<Cow<'a, str>, Value<'a>>;

/// A dictionary of the given entries. Of two with the same key the last counts.
pub fn dict<'a, const N: usize>(entries: [(&'a str, Value<'a>); N]) -> Dict<'a> {
    entries
        .into_iter()
        .map(|(key, value)| (Cow::Borrowed(key), value))
        .collect()
}

/// A value that borrows nothing.
pub type OwnedValue = Value<'static>;

/// A dictionary that borrows nothing.
pub type OwnedDict = Dict<'static>;

/// A value of any type that Bolt knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A floating point number.
    Float(f64),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
    /// Text.
    String(Cow<'a, str>),
    /// Values in order.
    List(Vec<Self>),
    /// Values by name.
    Dict(Dict<'a>),
    /// A graph, time or space type. In a box, because it is rare and large.
    Structure(Box<Structure<'a>>),
}

impl<'a> Value<'a> {
    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self {
            Some(text)
        } else {
            None
        }
    }

    /// The number, if it is a whole number.
    pub const fn as_int(&self) -> Option<i64> {
        if let Self::Int(number) = self {
            Some(*number)
        } else {
            None
        }
    }

    /// The number, if it is a floating point number.
    pub const fn as_float(&self) -> Option<f64> {
        if let Self::Float(number) = self {
            Some(*number)
        } else {
            None
        }
    }

    /// Whether it is true or false, if it is one of them.
    pub const fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self {
            Some(*value)
        } else {
            None
        }
    }

    /// The values, if it is a list.
    pub fn as_list(&self) -> Option<&[Self]> {
        if let Self::List(values) = self {
            Some(values)
        } else {
            None
        }
    }

    /// The values by name, if it is a dictionary.
    pub const fn as_dict(&self) -> Option<&Dict<'a>> {
        if let Self::Dict(dict) = self {
            Some(dict)
        } else {
            None
        }
    }

    /// The structure, if it is one.
    pub fn as_structure(&self) -> Option<&Structure<'a>> {
        if let Self::Structure(structure) = self {
            Some(structure)
        } else {
            None
        }
    }

    /// Whether there is no value.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::String(Cow::Borrowed(value))
    }
}

impl From<String> for Value<'_> {
    fn from(value: String) -> Self {
        Self::String(Cow::Owned(value))
    }
}

impl<'a> From<Cow<'a, str>> for Value<'a> {
    fn from(value: Cow<'a, str>) -> Self {
        Self::String(value)
    }
}

impl From<Vec<Self>> for Value<'_> {
    fn from(values: Vec<Self>) -> Self {
        Self::List(values)
    }
}

impl<'a> From<Dict<'a>> for Value<'a> {
    fn from(dict: Dict<'a>) -> Self {
        Self::Dict(dict)
    }
}

impl<'a> From<Structure<'a>> for Value<'a> {
    fn from(structure: Structure<'a>) -> Self {
        Self::Structure(Box::new(structure))
    }
}

impl<T: Into<Self>> From<Option<T>> for Value<'_> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
