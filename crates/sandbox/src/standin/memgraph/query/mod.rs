//! The queries that the stand-in understands: those that an operator, a
//! gateway or a test sends. A recogniser, not a Cypher engine; anything else
//! gets the syntax error of a real server.

mod administration;
mod ast;
mod cypher;
mod evaluate;
mod lexer;
mod operators;
mod parser;
#[cfg(test)]
mod tests;

pub(super) use ast::{Administration, Cypher, Definition, Query, Scope, Show, User};
pub(super) use evaluate::{Evaluated, EvaluationError, Stats, View, evaluate};
pub(super) use parser::{ParseError, parse};
