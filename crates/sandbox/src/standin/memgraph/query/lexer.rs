//! Words, numbers and signs of a query, with their places.

/// A token and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// As it was written.
    pub(super) text: String,
    /// Byte offset in the query.
    pub(super) at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A word, or a name in backquotes.
    Word {
        quoted: bool,
    },
    Int(i64),
    Float(f64),
    /// A string without its quotes.
    Text(String),
    /// `$name`.
    Parameter(String),
    /// A sign of one or two characters.
    Sign,
    /// Something that no query has.
    Unknown,
    End,
}

/// Cuts a query. The last token is always `End`.
pub(super) fn tokens(query: &str) -> Vec<Token> {
    let mut cutter = Cutter {
        query,
        at: 0,
        tokens: Vec::new(),
    };
    while cutter.next_token() {}
    cutter.tokens
}

struct Cutter<'a> {
    query: &'a str,
    at: usize,
    tokens: Vec<Token>,
}

const SIGNS: [&str; 4] = ["<>", "<=", ">=", "!="];

impl Cutter<'_> {
    fn rest(&self) -> &str {
        self.query.get(self.at..).unwrap_or_default()
    }

    fn push(&mut self, length: usize, kind: Kind) {
        let text = self
            .query
            .get(self.at..self.at + length)
            .unwrap_or_default()
            .to_owned();
        self.tokens.push(Token {
            kind,
            text,
            at: self.at,
        });
        self.at += length;
    }

    fn next_token(&mut self) -> bool {
        let blank = self.rest().len() - self.rest().trim_start().len();
        self.at += blank;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            self.tokens.push(Token {
                kind: Kind::End,
                text: "<EOF>".to_owned(),
                at: self.at,
            });
            return false;
        };
        if rest.starts_with("//") {
            self.at += rest.find('\n').unwrap_or(rest.len());
            return true;
        }
        let word = |rest: &str| {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len())
        };
        if first.is_alphabetic() || first == '_' {
            self.push(word(rest), Kind::Word { quoted: false });
        } else if first.is_ascii_digit() {
            let (length, kind) = number(rest);
            self.push(length, kind);
        } else if first == '$' {
            let length = word(rest.get(1..).unwrap_or_default());
            let name = rest.get(1..=length).unwrap_or_default().to_owned();
            self.push(length + 1, Kind::Parameter(name));
        } else if matches!(first, '\'' | '"' | '`') {
            let (length, text) = quoted(rest, first);
            let kind = match (text, first) {
                (Some(_), '`') => Kind::Word { quoted: true },
                (Some(text), _) => Kind::Text(text),
                (None, _) => Kind::Unknown,
            };
            self.push(length, kind);
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            self.push(sign.len(), Kind::Sign);
        } else {
            self.push(first.len_utf8(), Kind::Sign);
        }
        true
    }
}

fn number(rest: &str) -> (usize, Kind) {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let whole = digits(rest);
    let after = rest.get(whole..).unwrap_or_default();
    if let Some(fraction) = after.strip_prefix('.') {
        let length = digits(fraction);
        if length > 0 {
            let end = whole + 1 + length;
            let value = rest.get(..end).and_then(|text| text.parse().ok());
            return (end, value.map_or(Kind::Unknown, Kind::Float));
        }
    }
    let value = rest.get(..whole).and_then(|text| text.parse().ok());
    (whole, value.map_or(Kind::Unknown, Kind::Int))
}

/// How long a quoted text is with its quotes, and what it says.
fn quoted(rest: &str, quote: char) -> (usize, Option<String>) {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        match c {
            c if c == quote => return (at + c.len_utf8(), Some(text)),
            '\\' => match characters.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, escaped)) => text.push(escaped),
                None => return (rest.len(), None),
            },
            c => text.push(c),
        }
    }
    (rest.len(), None)
}
