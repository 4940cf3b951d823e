//! Reading and writing the graph: single nodes, no relationships.

use super::super::scalar::Scalar;
use super::ast::{Aggregate, Assignment, Clause, Cypher, Expression, Item, Operator, Pattern, Query, Return};
use super::lexer::Kind;
use super::parser::{ParseError, Parser};

/// Reads such a query; nothing if it is none.
pub(super) fn query(parser: &mut Parser<'_>) -> Result<Option<Query>, ParseError> {
    let mut clauses = Vec::new();
    while let Some(clause) = clause(parser)? {
        let last = matches!(clause, Clause::Return(_));
        clauses.push(clause);
        if last {
            break;
        }
    }
    match clauses.last() {
        None => Ok(None),
        Some(Clause::Match { .. } | Clause::Unwind { .. }) => Err(ParseError::Semantic(
            "Query should either create or update something, or return results!".to_owned(),
        )),
        Some(_) => Ok(Some(Query::Cypher(Cypher { clauses }))),
    }
}

fn clause(parser: &mut Parser<'_>) -> Result<Option<Clause>, ParseError> {
    Ok(Some(if parser.words(&["OPTIONAL", "MATCH"]) {
        matching(parser, true)?
    } else if parser.word("MATCH") {
        matching(parser, false)?
    } else if parser.word("UNWIND") {
        let list = expression(parser)?;
        parser.need_word("AS")?;
        Clause::Unwind {
            list,
            variable: parser.name()?,
        }
    } else if parser.word("CREATE") {
        let mut patterns = vec![pattern(parser)?];
        while parser.sign(",") {
            patterns.push(pattern(parser)?);
        }
        Clause::Create(patterns)
    } else if parser.word("MERGE") {
        merge(parser)?
    } else if parser.word("SET") {
        Clause::Set(assignments(parser)?)
    } else if parser.word("REMOVE") {
        let mut keys = vec![property(parser)?];
        while parser.sign(",") {
            keys.push(property(parser)?);
        }
        Clause::Remove(keys)
    } else if parser.words(&["DETACH", "DELETE"]) || parser.word("DELETE") {
        let mut variables = vec![parser.name()?];
        while parser.sign(",") {
            variables.push(parser.name()?);
        }
        Clause::Delete(variables)
    } else if parser.word("RETURN") {
        Clause::Return(returning(parser)?)
    } else {
        return Ok(None);
    }))
}

fn matching(parser: &mut Parser<'_>, optional: bool) -> Result<Clause, ParseError> {
    let pattern = pattern(parser)?;
    let filter = if parser.word("WHERE") {
        Some(expression(parser)?)
    } else {
        None
    };
    Ok(Clause::Match {
        pattern,
        filter,
        optional,
    })
}

fn merge(parser: &mut Parser<'_>) -> Result<Clause, ParseError> {
    let pattern = pattern(parser)?;
    let (mut on_create, mut on_match) = (Vec::new(), Vec::new());
    loop {
        if parser.words(&["ON", "CREATE", "SET"]) {
            on_create.extend(assignments(parser)?);
        } else if parser.words(&["ON", "MATCH", "SET"]) {
            on_match.extend(assignments(parser)?);
        } else {
            break;
        }
    }
    Ok(Clause::Merge {
        pattern,
        on_create,
        on_match,
    })
}

fn pattern(parser: &mut Parser<'_>) -> Result<Pattern, ParseError> {
    parser.need_sign("(")?;
    let variable = match parser.kind() {
        Kind::Word { .. } => Some(parser.name()?),
        _ => None,
    };
    let mut labels = Vec::new();
    while parser.sign(":") {
        labels.push(parser.name()?);
    }
    let mut properties = Vec::new();
    if parser.sign("{") && !parser.sign("}") {
        loop {
            let key = parser.name()?;
            parser.need_sign(":")?;
            properties.push((key, expression(parser)?));
            if !parser.sign(",") {
                break;
            }
        }
        parser.need_sign("}")?;
    }
    parser.need_sign(")")?;
    Ok(Pattern {
        variable,
        labels,
        properties,
    })
}

fn property(parser: &mut Parser<'_>) -> Result<(String, String), ParseError> {
    let variable = parser.name()?;
    parser.need_sign(".")?;
    Ok((variable, parser.name()?))
}

fn assignments(parser: &mut Parser<'_>) -> Result<Vec<Assignment>, ParseError> {
    let mut all = Vec::new();
    loop {
        let (variable, key) = property(parser)?;
        parser.need_sign("=")?;
        all.push(Assignment {
            variable,
            key,
            value: expression(parser)?,
        });
        if !parser.sign(",") {
            return Ok(all);
        }
    }
}

fn returning(parser: &mut Parser<'_>) -> Result<Return, ParseError> {
    let mut items = vec![item(parser)?];
    while parser.sign(",") {
        items.push(item(parser)?);
    }
    let mut order = Vec::new();
    if parser.words(&["ORDER", "BY"]) {
        loop {
            let key = expression(parser)?;
            let falling = parser.word("DESC") || parser.word("DESCENDING");
            if !falling {
                let _ = parser.word("ASC") || parser.word("ASCENDING");
            }
            order.push((key, falling));
            if !parser.sign(",") {
                break;
            }
        }
    }
    let skip = if parser.word("SKIP") {
        Some(expression(parser)?)
    } else {
        None
    };
    let limit = if parser.word("LIMIT") {
        Some(expression(parser)?)
    } else {
        None
    };
    Ok(Return {
        items,
        order,
        skip,
        limit,
    })
}

/// Without AS a column is called what was written.
fn item(parser: &mut Parser<'_>) -> Result<Item, ParseError> {
    let start = parser.at();
    let value = expression(parser)?;
    let written = parser.query.get(start..parser.ended_at()).unwrap_or_default();
    let name = if parser.word("AS") {
        parser.name()?
    } else {
        written.to_owned()
    };
    Ok(Item { value, name })
}

fn expression(parser: &mut Parser<'_>) -> Result<Expression, ParseError> {
    chain(parser, &[("OR", Operator::Or)], |parser| {
        chain(parser, &[("AND", Operator::And)], negation)
    })
}

/// Operators that are words, from the left.
fn chain(
    parser: &mut Parser<'_>,
    operators: &[(&str, Operator)],
    operand: fn(&mut Parser<'_>) -> Result<Expression, ParseError>,
) -> Result<Expression, ParseError> {
    let mut left = operand(parser)?;
    while let Some((_, operator)) = operators.iter().find(|(word, _)| parser.word(word)) {
        left = Expression::Binary(*operator, Box::new(left), Box::new(operand(parser)?));
    }
    Ok(left)
}

fn negation(parser: &mut Parser<'_>) -> Result<Expression, ParseError> {
    if parser.word("NOT") {
        return Ok(Expression::Not(Box::new(negation(parser)?)));
    }
    comparison(parser)
}

fn comparison(parser: &mut Parser<'_>) -> Result<Expression, ParseError> {
    let left = sum(parser)?;
    if parser.words(&["IS", "NOT", "NULL"]) {
        return Ok(Expression::IsNull(Box::new(left), false));
    }
    if parser.words(&["IS", "NULL"]) {
        return Ok(Expression::IsNull(Box::new(left), true));
    }
    if parser.word("IN") {
        return Ok(Expression::Binary(
            Operator::In,
            Box::new(left),
            Box::new(sum(parser)?),
        ));
    }
    let signs = [
        ("=", Operator::Equal),
        ("<>", Operator::NotEqual),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ];
    match signs.iter().find(|(sign, _)| parser.sign(sign)) {
        Some((_, operator)) => Ok(Expression::Binary(
            *operator,
            Box::new(left),
            Box::new(sum(parser)?),
        )),
        None => Ok(left),
    }
}

fn sum(parser: &mut Parser<'_>) -> Result<Expression, ParseError> {
    let mut left = product(parser)?;
    loop {
        let operator = if parser.sign("+") {
            Operator::Add
        } else if parser.sign("-") {
            Operator::Subtract
        } else {
            return Ok(left);
        };
        left = Expression::Binary(operator, Box::new(left), Box::new(product(parser)?));
    }
}

fn product(parser: &mut Parser<'_>) -> Result<Expression, ParseError> {
    let mut left = atom(parser)?;
    loop {
        let operator = if parser.sign("*") {
            Operator::Multiply
        } else if parser.sign("/") {
            Operator::Divide
        } else {
            return Ok(left);
        };
        left = Expression::Binary(operator, Box::new(left), Box::new(atom(parser)?));
    }
}

fn atom(parser: &mut Parser<'_>) -> Result<Expression, ParseError> {
    if parser.sign("(") {
        let inner = expression(parser)?;
        parser.need_sign(")")?;
        return Ok(inner);
    }
    if parser.sign("[") {
        return list(parser);
    }
    if parser.sign("-") {
        let zero = Box::new(Expression::Literal(Scalar::Int(0)));
        return Ok(Expression::Binary(
            Operator::Subtract,
            zero,
            Box::new(atom(parser)?),
        ));
    }
    let literal = match parser.kind().clone() {
        Kind::Int(value) => Expression::Literal(Scalar::Int(value)),
        Kind::Float(value) => Expression::Literal(Scalar::float(value)),
        Kind::Text(text) => Expression::Literal(Scalar::Text(text)),
        Kind::Parameter(name) => Expression::Parameter(name),
        Kind::Word { .. } => return named(parser),
        Kind::Sign | Kind::Unknown | Kind::End => return Err(parser.unexpected("an expression")),
    };
    parser.advance();
    Ok(literal)
}

fn list(parser: &mut Parser<'_>) -> Result<Expression, ParseError> {
    let mut values = Vec::new();
    if !parser.sign("]") {
        values.push(expression(parser)?);
        while parser.sign(",") {
            values.push(expression(parser)?);
        }
        parser.need_sign("]")?;
    }
    Ok(Expression::List(values))
}

fn named(parser: &mut Parser<'_>) -> Result<Expression, ParseError> {
    let constants = [
        ("true", Scalar::Bool(true)),
        ("false", Scalar::Bool(false)),
        ("null", Scalar::Null),
    ];
    for (word, value) in constants {
        if parser.word(word) {
            return Ok(Expression::Literal(value));
        }
    }
    let name = parser.name()?;
    if parser.sign("(") {
        return function(parser, &name.to_ascii_lowercase());
    }
    if parser.sign(".") {
        return Ok(Expression::Property(name, parser.name()?));
    }
    Ok(Expression::Variable(name))
}

fn function(parser: &mut Parser<'_>, name: &str) -> Result<Expression, ParseError> {
    let call = match name {
        "count" if parser.sign("*") => Expression::Count(None),
        "count" => Expression::Count(Some(parser.name()?)),
        "range" => {
            let from = expression(parser)?;
            parser.need_sign(",")?;
            Expression::Range(Box::new(from), Box::new(expression(parser)?))
        }
        "max" => Expression::Aggregate(Aggregate::Max, Box::new(expression(parser)?)),
        "min" => Expression::Aggregate(Aggregate::Min, Box::new(expression(parser)?)),
        "collect" => Expression::Aggregate(Aggregate::Collect, Box::new(expression(parser)?)),
        _ => {
            return Err(ParseError::Semantic(format!(
                "Function '{}' doesn't exist.",
                name.to_ascii_uppercase()
            )));
        }
    };
    parser.need_sign(")")?;
    Ok(call)
}
