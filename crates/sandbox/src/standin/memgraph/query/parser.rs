//! Reading a query: what all parts of it share.

use super::administration;
use super::ast::Query;
use super::cypher;
use super::lexer::{Kind, Token, tokens};
use sim::memgraph::instance::Profile;
use thiserror::Error;

/// A query that is not understood, in the words of a real server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(in super::super) enum ParseError {
    /// The grammar does not have it.
    #[error(
        "Error on line {line} position {position}. The underlying parsing error is mismatched input '{found}' expecting {expecting}"
    )]
    Syntax {
        line: usize,
        position: usize,
        found: String,
        expecting: String,
    },
    /// The grammar has it, but it makes no sense or needs a licence.
    #[error("{0}")]
    Semantic(String),
}

/// Reads a query as a server of `profile` does.
pub(in super::super) fn parse(query: &str, profile: Profile) -> Result<Query, ParseError> {
    let mut parser = Parser {
        query,
        profile,
        tokens: tokens(query),
        next: 0,
    };
    let parsed = parser.query()?;
    parser.sign(";");
    parser.end()?;
    Ok(parsed)
}

pub(super) struct Parser<'a> {
    pub(super) query: &'a str,
    pub(super) profile: Profile,
    tokens: Vec<Token>,
    next: usize,
}

/// What follows the end of everything.
const END: &str = "{<EOF>, ';'}";

impl Parser<'_> {
    fn query(&mut self) -> Result<Query, ParseError> {
        if let Some(query) = administration::query(self)? {
            return Ok(query);
        }
        if let Some(query) = cypher::query(self)? {
            return Ok(query);
        }
        Err(self.unexpected(first_words(self.profile)))
    }

    fn token(&self) -> Option<&Token> {
        self.tokens.get(self.next).or_else(|| self.tokens.last())
    }

    pub(super) fn kind(&self) -> &Kind {
        self.token().map_or(&Kind::End, |token| &token.kind)
    }

    /// Where the next token begins.
    pub(super) fn at(&self) -> usize {
        self.token().map_or(0, |token| token.at)
    }

    /// Where the token before ended.
    pub(super) fn ended_at(&self) -> usize {
        self.next
            .checked_sub(1)
            .and_then(|before| self.tokens.get(before))
            .map_or(0, |token| token.at + token.text.len())
    }

    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    pub(super) const fn mark(&self) -> usize {
        self.next
    }

    pub(super) const fn back_to(&mut self, mark: usize) {
        self.next = mark;
    }

    /// Takes a keyword if it is next.
    pub(super) fn word(&mut self, wanted: &str) -> bool {
        let found = self.token().is_some_and(|token| {
            token.kind == Kind::Word { quoted: false } && token.text.eq_ignore_ascii_case(wanted)
        });
        if found {
            self.advance();
        }
        found
    }

    /// Takes all keywords or none.
    pub(super) fn words(&mut self, wanted: &[&str]) -> bool {
        let mark = self.next;
        let found = wanted.iter().all(|word| self.word(word));
        if !found {
            self.next = mark;
        }
        found
    }

    /// Takes a sign if it is next.
    pub(super) fn sign(&mut self, wanted: &str) -> bool {
        let found = self
            .token()
            .is_some_and(|token| token.kind == Kind::Sign && token.text == wanted);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn need_word(&mut self, wanted: &str) -> Result<(), ParseError> {
        if self.word(wanted) {
            Ok(())
        } else {
            Err(self.unexpected(wanted))
        }
    }

    pub(super) fn need_sign(&mut self, wanted: &str) -> Result<(), ParseError> {
        if self.sign(wanted) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("'{wanted}'")))
        }
    }

    /// A name: any word, or one in backquotes.
    pub(super) fn name(&mut self) -> Result<String, ParseError> {
        let Some(token) = self.token() else {
            return Err(self.unexpected("a name"));
        };
        let name = match token.kind {
            Kind::Word { quoted: true } => token.text.trim_matches('`').to_owned(),
            Kind::Word { quoted: false } => token.text.clone(),
            _ => return Err(self.unexpected("a name")),
        };
        self.advance();
        Ok(name)
    }

    pub(super) fn text(&mut self) -> Result<String, ParseError> {
        let Kind::Text(text) = self.kind().clone() else {
            return Err(self.unexpected("StringLiteral"));
        };
        self.advance();
        Ok(text)
    }

    pub(super) fn end(&self) -> Result<(), ParseError> {
        if *self.kind() == Kind::End {
            Ok(())
        } else {
            Err(self.unexpected(END))
        }
    }

    pub(super) fn unexpected(&self, expecting: &str) -> ParseError {
        let at = self.at();
        let before = self.query.get(..at).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ParseError::Syntax {
            line: before.matches('\n').count() + 1,
            position: at - line_start + 1,
            found: self.token().map_or_else(String::new, |token| token.text.clone()),
            expecting: expecting.to_owned(),
        }
    }
}

/// What a query may begin with.
const fn first_words(profile: Profile) -> &'static str {
    match profile {
        Profile::V3_6 | Profile::V3_9 => {
            "{ADD, ALTER, ANALYZE, CALL, CHECK, CLEAR, DATA, DEMOTE, DENY, DISABLE, DROP, DUMP, EDGE, \
             ENABLE, FORCE, FOREACH, FREE, GRANT, LOAD, LOCK, RECOVER, REGISTER, RENAME, REVOKE, START, \
             STOP, STORAGE, TERMINATE, UNLOCK, UNREGISTER, UPDATE, USE, USING, YIELD, CREATE, DELETE, \
             DETACH, EXPLAIN, MATCH, MERGE, OPTIONAL, PROFILE, REMOVE, RETURN, SET, SHOW, UNWIND, WITH}"
        }
        Profile::V3_12 | Profile::Next => {
            "{ADD, ALTER, ANALYZE, CALL, CHECK, CLEAR, DATA, DEMOTE, DENY, DISABLE, DROP, DUMP, EDGE, \
             ENABLE, FORCE, FOREACH, FREE, GRANT, LOAD, LOCK, RECOVER, REGISTER, RELOAD, RENAME, RESET, \
             RESUME, REVOKE, START, STOP, STORAGE, SUSPEND, TERMINATE, UNLOCK, UNSET, UNREGISTER, UPDATE, \
             USE, USING, YIELD, CREATE, DELETE, DETACH, EXPLAIN, MATCH, MERGE, OPTIONAL, PROFILE, REMOVE, \
             RETURN, SET, SHOW, UNWIND, WITH}"
        }
    }
}
