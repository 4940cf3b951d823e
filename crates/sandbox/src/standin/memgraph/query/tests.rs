//! What is understood, what is not, and in which words.

use super::super::graph::{Change, Content, VertexId};
use super::super::scalar::Scalar;
use super::{EvaluationError, Query, View, evaluate, parse};
use bolt::packstream::OwnedValue;
use sim::memgraph::instance::Profile;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

fn view(content: Arc<Content>) -> View {
    let next = Mutex::new(content.next_id());
    View {
        content,
        changes: Vec::new(),
        next_id: Box::new(move || {
            let mut next = next.lock().unwrap();
            *next += 1;
            *next - 1
        }),
        claim: Box::new(|_: VertexId| Ok(())),
    }
}

/// Runs queries one after the other; the rows of the last.
fn run(queries: &[&str]) -> Result<Vec<Vec<OwnedValue>>, EvaluationError> {
    let mut content = Arc::new(Content::default());
    let mut rows = Vec::new();
    let parameters = BTreeMap::from([("id".to_owned(), Scalar::Int(7))]);
    for query in queries {
        let Query::Cypher(cypher) = parse(query, Profile::V3_12).unwrap() else {
            panic!("{query} is not Cypher");
        };
        let mut view = view(Arc::clone(&content));
        rows = evaluate(&cypher, &parameters, &mut view)?.rows;
        content = view.content;
    }
    Ok(rows)
}

fn numbers(rows: &[Vec<OwnedValue>]) -> Vec<Option<i64>> {
    rows.iter().map(|row| row[0].as_int()).collect()
}

fn refusal(query: &str, profile: Profile) -> String {
    parse(query, profile).unwrap_err().to_string()
}

#[test]
fn nodes_are_created_found_changed_and_deleted() {
    let made = ["CREATE (:W {id: 1}), (:W {id: $id})", "CREATE (:V {id: 3})"];
    let with = |query| run(&[made[0], made[1], query]).unwrap();
    assert_eq!(
        numbers(&with("MATCH (n:W) RETURN n.id ORDER BY n.id DESC")),
        [Some(7), Some(1)]
    );
    assert_eq!(numbers(&with("MATCH (n) RETURN count(*)")), [Some(3)]);
    assert_eq!(
        numbers(&with("MATCH (n:W {id: 7}) SET n.id = n.id + 1 RETURN n.id")),
        [Some(8)]
    );
    assert_eq!(
        numbers(&with("MATCH (n) WHERE n.id > 1 AND NOT n.id = 3 RETURN n.id")),
        [Some(7)]
    );
    assert_eq!(numbers(&with("MATCH (n) RETURN max(n.id) AS most")), [Some(7)]);
    assert_eq!(numbers(&with("OPTIONAL MATCH (n:Nobody) RETURN n.id")), [None]);
    let rows = run(&[made[0], "MATCH (n) DETACH DELETE n", "MATCH (n) RETURN count(n)"]).unwrap();
    assert_eq!(numbers(&rows), [Some(0)]);
}

#[test]
fn merge_creates_once_and_says_which() {
    let merge =
        "MERGE (m:__mainstay) ON CREATE SET m.term = 1 ON MATCH SET m.term = m.term + 1 RETURN m.term";
    assert_eq!(numbers(&run(&[merge]).unwrap()), [Some(1)]);
    assert_eq!(numbers(&run(&[merge, merge]).unwrap()), [Some(2)]);
}

#[test]
fn unwind_gives_a_row_for_each() {
    let rows = run(&["UNWIND range(1, 5) AS x RETURN x SKIP 1 LIMIT 2"]).unwrap();
    assert_eq!(numbers(&rows), [Some(2), Some(3)]);
    let rows = run(&[
        "UNWIND range(1, 4) AS i CREATE (:D {id: i})",
        "MATCH (n:D) RETURN count(n)",
    ])
    .unwrap();
    assert_eq!(numbers(&rows), [Some(4)]);
}

#[test]
fn a_query_that_cannot_run_is_refused_in_the_words_of_a_real_server() {
    let refused = |query| run(&[query]).unwrap_err().to_string();
    assert_eq!(refused("RETURN 1/0"), "Invalid types: int and int for '/'.");
    assert_eq!(refused("RETURN $other"), "Parameter $other not provided.");
    assert_eq!(refused("RETURN x"), "Unbound variable: x.");
}

#[test]
fn a_syntax_error_says_where_and_what_was_expected() {
    let text = refusal("SHOW STORAGE INFO ON CURRENT DATABASE", Profile::V3_6);
    assert_eq!(
        text,
        "Error on line 1 position 19. The underlying parsing error is mismatched input 'ON' expecting {<EOF>, ';'}"
    );
    assert!(parse("SHOW STORAGE INFO ON CURRENT DATABASE", Profile::V3_12).is_ok());
    let text = refusal("REGISTER REPLICA a-b SYNC TO 'x'", Profile::V3_12);
    assert!(
        text.ends_with("mismatched input '-' expecting {ASYNC, STRICT_SYNC, SYNC}"),
        "{text}"
    );
    let text = refusal("NOT CYPHER", Profile::V3_6);
    assert!(text.starts_with("Error on line 1 position 1. The underlying parsing error is mismatched input 'NOT' expecting {ADD, ALTER,"));
    let text = refusal("RETURN 1\n  nonsense", Profile::V3_12);
    assert!(text.starts_with("Error on line 2 position 3."), "{text}");
}

#[test]
fn no_text_makes_the_parser_panic() {
    let texts = [
        "",
        ";",
        "$",
        "`",
        "'",
        "\"\\",
        "MATCH",
        "MATCH (",
        "CREATE ({",
        "RETURN [1,",
        "SET",
        "é",
        "RETURN 99999999999999999999",
        "CREATE TRIGGER",
        "CREATE TRIGGER t ON",
        "CREATE ENUM E VALUES {",
        "UNWIND",
        "RETURN 1 ORDER BY",
        "// nothing",
    ];
    for text in texts {
        assert!(parse(text, Profile::V3_12).is_err(), "{text} was understood");
    }
}

#[test]
fn a_schema_is_a_change_of_its_own() {
    let mut content = Content::default();
    for query in [
        "CREATE INDEX ON :W(id)",
        "CREATE ENUM Color VALUES { Red, Green }",
        "ALTER ENUM Color ADD VALUE Blue",
    ] {
        assert!(
            matches!(parse(query, Profile::V3_12), Ok(Query::Definition(_))),
            "{query}"
        );
    }
    content.apply(&Change::CreateEnum {
        name: "Color".to_owned(),
        values: vec!["Red".to_owned()],
    });
    content.apply(&Change::AddEnumValue {
        name: "Color".to_owned(),
        value: "Blue".to_owned(),
    });
    assert_eq!(content.enums["Color"], ["Red", "Blue"]);
}
