//! Values of Bolt as the decisions take them.

use bolt::packstream::Value;
use mainstay_core::memgraph::rows::Cell;

/// A value without Bolt's types. Graph, time and space types are text: nothing that is asked gives any.
pub fn cell(value: &Value<'_>) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Bool(yes) => Cell::Bool(*yes),
        Value::Int(number) => Cell::Int(*number),
        Value::Float(number) => Cell::Float(*number),
        Value::String(text) => Cell::Text(text.to_string()),
        Value::List(items) => Cell::List(items.iter().map(cell).collect()),
        Value::Dict(entries) => Cell::Map(
            entries
                .iter()
                .map(|(key, value)| (key.to_string(), cell(value)))
                .collect(),
        ),
        Value::Bytes(_) | Value::Structure(_) => Cell::Text(format!("{value:?}")),
    }
}
