//! Values of Bolt as the decisions take them.

use bolt::client::QueryResult;
use bolt::packstream::Value;
use gateway::cell;
use mainstay_core::memgraph::rows::Cell;

/// All rows.
pub fn rows(result: &QueryResult) -> Vec<Vec<Cell>> {
    result
        .records
        .iter()
        .map(|row| row.iter().map(cell).collect())
        .collect()
}

/// The number in the first row of this column, if there is exactly one row.
pub fn only_number(result: &QueryResult, column: usize) -> Option<i64> {
    match result.records.as_slice() {
        [row] => row.get(column).and_then(Value::as_int),
        _ => None,
    }
}
