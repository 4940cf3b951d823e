//! Roles, replicas, users, schema: everything that begins with its own keywords.

use super::super::graph::Index;
use super::ast::{Administration, Definition, Query, Scope, Show, User};
use super::lexer::Kind;
use super::parser::{ParseError, Parser};
use sim::memgraph::instance::{Mode, Profile};

/// Reads such a query; nothing if it is none.
pub(super) fn query(parser: &mut Parser<'_>) -> Result<Option<Query>, ParseError> {
    let start = parser.mark();
    let found = if parser.word("SHOW") {
        Some(Query::Administration(show(parser)?))
    } else if parser.words(&["SET", "REPLICATION", "ROLE", "TO"]) {
        Some(Query::Administration(role(parser)?))
    } else if parser.words(&["SET", "PASSWORD", "FOR"]) {
        let name = parser.name()?;
        parser.need_word("TO")?;
        Some(user(User::SetPassword {
            name,
            password: password(parser)?,
        }))
    } else if parser.words(&["REGISTER", "REPLICA"]) {
        Some(Query::Administration(register(parser)?))
    } else if parser.word("DROP") {
        drop(parser)?
    } else if parser.word("CREATE") {
        create(parser)?
    } else if parser.words(&["ALTER", "ENUM"]) {
        Some(alter_enum(parser)?)
    } else {
        transaction(parser)
    };
    if found.is_none() {
        parser.back_to(start);
    }
    Ok(found)
}

fn transaction(parser: &mut Parser<'_>) -> Option<Query> {
    [
        ("BEGIN", Query::Begin),
        ("COMMIT", Query::Commit),
        ("ROLLBACK", Query::Rollback),
    ]
    .into_iter()
    .find_map(|(word, query)| parser.word(word).then_some(query))
}

const fn user(user: User) -> Query {
    Query::Administration(Administration::User(user))
}

fn show(parser: &mut Parser<'_>) -> Result<Administration, ParseError> {
    let shows: [(&[&str], Show); 11] = [
        (&["REPLICAS"], Show::Replicas),
        (&["REPLICATION", "ROLE"], Show::Role),
        (&["VERSION"], Show::Version),
        (&["LICENSE", "INFO"], Show::License),
        (&["BUILD", "INFO"], Show::Build),
        (&["CONFIG"], Show::Config),
        (&["INDEX", "INFO"], Show::Indexes),
        (&["SNAPSHOTS"], Show::Snapshots),
        (&["USERS"], Show::Users),
        (&["ENUMS"], Show::Enums),
        (&["TRIGGERS"], Show::Triggers),
    ];
    for (words, show) in shows {
        if parser.words(words) {
            return Ok(Administration::Show(show));
        }
    }
    if parser.words(&["STORAGE", "INFO"]) {
        return Ok(Administration::Show(Show::Storage(scope(parser)?)));
    }
    let semantic = |text: &str| Err(ParseError::Semantic(text.to_owned()));
    let old = matches!(parser.profile, Profile::V3_6 | Profile::V3_9);
    if parser.words(&["REPLICATION", "LAG"]) {
        return semantic(
            "Coordinator was not initialized as coordinator port, coordinator id or management port were not set.",
        );
    }
    if parser.word("DATABASES") {
        return semantic(if old {
            "Your license has an invalid type. To use multi-tenancy you need to have an enterprise license. \n"
        } else {
            "Access to multi-tenancy requires an enterprise, ai_platform, or oem license."
        });
    }
    if parser.word("DATABASE") {
        return semantic(
            "Trying to use enterprise feature without a valid license. Check your license status by running SHOW LICENSE INFO.",
        );
    }
    if parser.words(&["METRICS"]) {
        return semantic(if old {
            "Your license has an invalid type. To use SHOW METRICS INFO you need to have an enterprise license. \n"
        } else {
            "Access to SHOW METRICS INFO requires an enterprise, ai_platform, or oem license."
        });
    }
    Err(parser.unexpected("{BUILD, CONFIG, ENUMS, INDEX, LICENSE, REPLICAS, REPLICATION, SNAPSHOTS, STORAGE, TRIGGERS, USERS, VERSION}"))
}

fn scope(parser: &mut Parser<'_>) -> Result<Scope, ParseError> {
    let newer = matches!(parser.profile, Profile::V3_12 | Profile::Next);
    if newer && parser.words(&["ON", "CURRENT", "DATABASE"]) {
        return Ok(Scope::Database);
    }
    if newer && parser.words(&["ON", "DATABASE"]) {
        let name = parser.name()?;
        return if name == "memgraph" {
            Ok(Scope::Database)
        } else {
            Err(ParseError::Semantic(format!(
                "Tried to retrieve an unknown database \"{name}\"."
            )))
        };
    }
    Ok(Scope::Instance)
}

fn role(parser: &mut Parser<'_>) -> Result<Administration, ParseError> {
    let main = parser.word("MAIN");
    if !main {
        parser.need_word("REPLICA")?;
    }
    if !parser.words(&["WITH", "PORT"]) {
        return if main {
            Ok(Administration::PromoteToMain)
        } else {
            Err(ParseError::Semantic("Replica must set a port!".to_owned()))
        };
    }
    let Kind::Int(port) = *parser.kind() else {
        return Err(ParseError::Semantic(
            "Port must be an integer literal!".to_owned(),
        ));
    };
    parser.advance();
    if main {
        return Err(ParseError::Semantic("Main can't set a port!".to_owned()));
    }
    Ok(Administration::DemoteToReplica { port })
}

fn register(parser: &mut Parser<'_>) -> Result<Administration, ParseError> {
    let name = parser.name()?;
    let modes = [
        ("ASYNC", Mode::Async),
        ("STRICT_SYNC", Mode::StrictSync),
        ("SYNC", Mode::Sync),
    ];
    let Some(mode) = modes
        .into_iter()
        .find_map(|(word, mode)| parser.word(word).then_some(mode))
    else {
        return Err(parser.unexpected("{ASYNC, STRICT_SYNC, SYNC}"));
    };
    parser.need_word("TO")?;
    let Ok(address) = parser.text() else {
        return Err(ParseError::Semantic(
            "Socket address should be a string literal!".to_owned(),
        ));
    };
    Ok(Administration::Register { name, mode, address })
}

fn drop(parser: &mut Parser<'_>) -> Result<Option<Query>, ParseError> {
    if parser.word("REPLICA") {
        let name = parser.name()?;
        return Ok(Some(Query::Administration(Administration::Drop { name })));
    }
    if parser.word("USER") {
        let name = parser.name()?;
        return Ok(Some(user(User::Drop { name })));
    }
    if parser.word("TRIGGER") {
        let name = parser.name()?;
        return Ok(Some(Query::Administration(Administration::DropTrigger { name })));
    }
    if parser.words(&["INDEX", "ON"]) {
        return Ok(Some(Query::Definition(Definition::DropIndex(index(parser)?))));
    }
    Err(parser.unexpected("{INDEX, REPLICA, TRIGGER, USER}"))
}

/// `CREATE (` is Cypher and none of ours.
fn create(parser: &mut Parser<'_>) -> Result<Option<Query>, ParseError> {
    if parser.word("SNAPSHOT") {
        return Ok(Some(Query::Administration(Administration::CreateSnapshot)));
    }
    if parser.words(&["INDEX", "ON"]) {
        return Ok(Some(Query::Definition(Definition::CreateIndex(index(parser)?))));
    }
    if parser.word("USER") {
        let if_not_exists = parser.words(&["IF", "NOT", "EXISTS"]);
        let name = parser.name()?;
        let password = if parser.words(&["IDENTIFIED", "BY"]) {
            password(parser)?
        } else {
            None
        };
        return Ok(Some(user(User::Create {
            name,
            password,
            if_not_exists,
        })));
    }
    if parser.word("TRIGGER") {
        return trigger(parser).map(Some);
    }
    if parser.word("ENUM") {
        let name = parser.name()?;
        parser.need_word("VALUES")?;
        parser.need_sign("{")?;
        let mut values = vec![parser.name()?];
        while parser.sign(",") {
            values.push(parser.name()?);
        }
        parser.need_sign("}")?;
        return Ok(Some(Query::Definition(Definition::CreateEnum { name, values })));
    }
    Ok(None)
}

fn password(parser: &mut Parser<'_>) -> Result<Option<String>, ParseError> {
    if parser.word("NULL") {
        return Ok(None);
    }
    parser.text().map(Some)
}

/// `:Label` or `:Label(property, …)`.
fn index(parser: &mut Parser<'_>) -> Result<Index, ParseError> {
    parser.need_sign(":")?;
    let label = parser.name()?;
    let mut properties = Vec::new();
    if parser.sign("(") {
        properties.push(parser.name()?);
        while parser.sign(",") {
            properties.push(parser.name()?);
        }
        parser.need_sign(")")?;
    }
    Ok(Index { label, properties })
}

/// A trigger is kept by name; its statement is not looked at, and never runs.
fn trigger(parser: &mut Parser<'_>) -> Result<Query, ParseError> {
    let name = parser.name()?;
    let mut event = "ANY".to_owned();
    if parser.word("ON") {
        let start = parser.at();
        let changes = ["CREATE", "UPDATE", "DELETE"];
        if parser.sign("(") {
            parser.need_sign(")")?;
        }
        if !changes.iter().any(|change| parser.word(change)) {
            return Err(parser.unexpected("{CREATE, DELETE, UPDATE}"));
        }
        let written = parser.query.get(start..parser.ended_at()).unwrap_or_default();
        written.clone_into(&mut event);
    }
    let phase = if parser.word("BEFORE") {
        "BEFORE COMMIT"
    } else {
        parser.need_word("AFTER")?;
        "AFTER COMMIT"
    };
    parser.need_word("COMMIT")?;
    parser.need_word("EXECUTE")?;
    let statement = parser.query.get(parser.at()..).unwrap_or_default();
    let statement = statement.trim().trim_end_matches(';').to_owned();
    while *parser.kind() != Kind::End {
        parser.advance();
    }
    Ok(Query::Administration(Administration::CreateTrigger {
        name,
        statement,
        event,
        phase: phase.to_owned(),
    }))
}

fn alter_enum(parser: &mut Parser<'_>) -> Result<Query, ParseError> {
    let name = parser.name()?;
    parser.need_word("ADD")?;
    parser.need_word("VALUE")?;
    let value = parser.name()?;
    Ok(Query::Definition(Definition::AddEnumValue { name, value }))
}
