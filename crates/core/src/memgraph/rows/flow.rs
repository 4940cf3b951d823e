//! The text of a map, as some drivers hand `data_info` on: YAML in one line, of which JSON is a part.

use super::Cell;
use std::collections::BTreeMap;

/// Nothing that Memgraph shows is deeper; a text that is comes from somewhere else.
const DEEPEST: u8 = 8;

/// Reads a whole text; `None` if it is not a value, or more than one.
pub(super) fn parse(text: &str) -> Option<Cell> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Some(Cell::Null);
    }
    let value = value(&mut rest, DEEPEST)?;
    rest.trim().is_empty().then_some(value)
}

fn value(rest: &mut &str, depth: u8) -> Option<Cell> {
    let depth = depth.checked_sub(1)?;
    skip_space(rest);
    match rest.chars().next()? {
        '{' => map(rest, depth),
        '[' => list(rest, depth),
        '"' | '\'' => quoted(rest).map(Cell::Text),
        _ => Some(scalar(plain(rest)?)),
    }
}

fn map(rest: &mut &str, depth: u8) -> Option<Cell> {
    let mut entries = BTreeMap::new();
    take(rest, '{')?;
    while take(rest, '}').is_none() {
        skip_space(rest);
        let key = if rest.starts_with(['"', '\'']) {
            quoted(rest)?
        } else {
            plain(rest)?.to_owned()
        };
        take(rest, ':')?;
        // A key that comes twice has no meaning.
        if entries.insert(key, value(rest, depth)?).is_some() {
            return None;
        }
        more(rest, '}')?;
    }
    Some(Cell::Map(entries))
}

fn list(rest: &mut &str, depth: u8) -> Option<Cell> {
    let mut items = Vec::new();
    take(rest, '[')?;
    while take(rest, ']').is_none() {
        items.push(value(rest, depth)?);
        more(rest, ']')?;
    }
    Some(Cell::List(items))
}

/// A comma, or the end right ahead.
fn more(rest: &mut &str, end: char) -> Option<()> {
    take(rest, ',').or_else(|| rest.trim_start().starts_with(end).then_some(()))
}

fn take(rest: &mut &str, wanted: char) -> Option<()> {
    *rest = rest.trim_start().strip_prefix(wanted)?;
    Some(())
}

fn skip_space(rest: &mut &str) {
    *rest = rest.trim_start();
}

fn quoted(rest: &mut &str) -> Option<String> {
    let quote = rest.chars().next()?;
    let (inside, after) = rest.get(1..)?.split_once(quote)?;
    // Neither statuses nor names of databases need escapes; half a string must not pass for one.
    if inside.contains('\\') {
        return None;
    }
    *rest = after;
    Some(inside.to_owned())
}

fn plain<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let end = rest
        .find([',', ':', '{', '}', '[', ']', '"', '\''])
        .unwrap_or(rest.len());
    let (word, after) = rest.split_at_checked(end)?;
    *rest = after;
    let word = word.trim();
    (!word.is_empty()).then_some(word)
}

fn scalar(word: &str) -> Cell {
    match word {
        "null" | "Null" | "NULL" | "~" | "None" => Cell::Null,
        "true" | "True" => Cell::Bool(true),
        "false" | "False" => Cell::Bool(false),
        _ => match (word.parse(), word.parse()) {
            (Ok(whole), _) => Cell::Int(whole),
            (_, Ok(number)) => Cell::Float(number),
            _ => Cell::Text(word.to_owned()),
        },
    }
}
