//! What the first words of a statement make of it, recognised while its bytes arrive: a change of roles or replicas
//! (G7), the frame of a transaction, or state of the session (G6).

/// What is known of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Not enough was seen.
    Open,
    /// An ordinary statement.
    Plain,
    /// It begins a transaction, as the message BEGIN does.
    Begin,
    /// It commits.
    Commit,
    /// It rolls back.
    Rollback,
    /// It changes the session itself: another connection would not be the same.
    Session,
    /// It changes a role or a replica: only the operator may.
    Role,
}

/// What is known after the first word.
const ALONE: &[(&[u8], Judgement)] = &[
    (b"BEGIN", Judgement::Begin),
    (b"COMMIT", Judgement::Commit),
    (b"ROLLBACK", Judgement::Rollback),
    (b"USE", Judgement::Session),
];

/// Statements of two words that change the session: isolation level, tracing.
const SESSION: &[(&[u8], &[u8])] = &[(b"SET", b"SESSION"), (b"SET", b"NEXT")];

/// The first two words of what clients must not say. The last group is for coordinators, which no cluster of ours
/// has, and which would be a second master over the roles.
const FORBIDDEN: &[(&[u8], &[u8])] = &[
    (b"SET", b"REPLICATION"),
    (b"REGISTER", b"REPLICA"),
    (b"DROP", b"REPLICA"),
    (b"REGISTER", b"INSTANCE"),
    (b"UNREGISTER", b"INSTANCE"),
    (b"SET", b"INSTANCE"),
    (b"SET", b"COORDINATOR"),
    (b"DEMOTE", b"INSTANCE"),
    (b"ADD", b"COORDINATOR"),
    (b"REMOVE", b"COORDINATOR"),
    (b"FORCE", b"RESET"),
];

/// Words that may stand before a statement without changing what it is.
const BEFORE: &[&[u8]] = &[b"EXPLAIN", b"PROFILE"];

/// Longer than every word above.
const LONGEST: usize = 16;

/// A word in upper case, as far as it matters.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Word {
    /// Adds a letter; false if it became longer than any word that matters.
    fn push(&mut self, byte: u8) -> bool {
        let Some(slot) = self.bytes.get_mut(self.len) else {
            return false;
        };
        *slot = byte.to_ascii_uppercase();
        self.len += 1;
        true
    }

    fn text(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Gap,
    /// A `/` that may begin a comment.
    Slash,
    LineComment,
    BlockComment {
        star: bool,
    },
    Word(Word),
}

/// Reads a statement byte by byte and keeps two words of it, however long the comments before them are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement {
    place: Place,
    first: Option<Word>,
    judgement: Judgement,
}

impl Statement {
    pub(crate) const fn new() -> Self {
        Self {
            place: Place::Gap,
            first: None,
            judgement: Judgement::Open,
        }
    }

    /// Takes some more bytes of it.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Judgement {
        for byte in bytes {
            if self.judgement != Judgement::Open {
                break;
            }
            self.byte(*byte);
        }
        self.judgement
    }

    /// There is no more of it.
    pub(crate) fn finish(&mut self) -> Judgement {
        if self.judgement == Judgement::Open {
            if let Place::Word(word) = self.place {
                self.word(word);
            }
            if self.judgement == Judgement::Open {
                self.judgement = Judgement::Plain;
            }
        }
        self.judgement
    }

    fn byte(&mut self, byte: u8) {
        self.place = match self.place {
            Place::Gap => self.in_gap(byte),
            Place::Slash => match byte {
                b'/' => Place::LineComment,
                b'*' => Place::BlockComment { star: false },
                _ => return self.judgement = Judgement::Plain,
            },
            // Whether a lone carriage return ends it is not said: then it does, and a comment may be refused.
            Place::LineComment if byte == b'\n' || byte == b'\r' => Place::Gap,
            Place::LineComment => Place::LineComment,
            Place::BlockComment { star: true } if byte == b'/' => Place::Gap,
            Place::BlockComment { star: _ } => Place::BlockComment { star: byte == b'*' },
            Place::Word(mut word) if is_letter(byte) => {
                if !word.push(byte) {
                    return self.judgement = Judgement::Plain;
                }
                Place::Word(word)
            }
            Place::Word(word) => {
                self.word(word);
                self.in_gap(byte)
            }
        };
    }

    /// Bytes that are not ASCII count as space: some of them are, to the server, and what is not is no statement.
    fn in_gap(&mut self, byte: u8) -> Place {
        match byte {
            b'/' => Place::Slash,
            _ if is_letter(byte) => {
                let mut word = Word::default();
                word.push(byte);
                Place::Word(word)
            }
            _ if byte.is_ascii_graphic() && byte != b';' => {
                if self.judgement == Judgement::Open {
                    self.judgement = Judgement::Plain;
                }
                Place::Gap
            }
            _ => Place::Gap,
        }
    }

    fn word(&mut self, word: Word) {
        let text = word.text();
        match self.first {
            None if BEFORE.contains(&text) => {}
            None if FORBIDDEN.iter().any(|(first, _)| *first == text) => self.first = Some(word),
            None => {
                let known = ALONE.iter().find(|(alone, _)| *alone == text);
                self.judgement = known.map_or(Judgement::Plain, |(_, judgement)| *judgement);
            }
            Some(first) => {
                let both = (first.text(), text);
                self.judgement = if FORBIDDEN.contains(&both) {
                    Judgement::Role
                } else if SESSION.contains(&both) {
                    Judgement::Session
                } else {
                    Judgement::Plain
                };
            }
        }
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(text: &str) -> Judgement {
        let mut statement = Statement::new();
        statement.read(text.as_bytes());
        statement.finish()
    }

    const ROLE: &[&str] = &[
        "SET REPLICATION ROLE TO MAIN",
        "set replication role to replica with port 10000;",
        "  \n\tDrop Replica x",
        "DROP/**/REPLICA x",
        "/* a * / b **/ // c\n REGISTER REPLICA r SYNC TO 'x'",
        "// only \rDROP REPLICA x",
        "EXPLAIN DROP REPLICA x",
        "profile set replication role to main",
        "SET\u{a0}REPLICATION ROLE TO MAIN",
        "\u{2003}DROP\u{3000}REPLICA x",
        ";DROP REPLICA x",
        "DROP\u{1c}REPLICA",
        "DROP REPLICA",
        "DROP REPLICA`x`",
        "REGISTER INSTANCE a ON b",
        "FORCE RESET CLUSTER STATE",
    ];
    const PLAIN: &[&str] = &[
        "",
        "MATCH (n) SET n.x = 1",
        "DROP INDEX ON :Replica",
        "SET DATABASE SETTING 'a' TO 'b'",
        "SHOW REPLICAS",
        "SHOW REPLICATION ROLE",
        "RETURN 'DROP REPLICA x'",
        "'DROP REPLICA x'",
        "/* DROP REPLICA x */ RETURN 1",
        "// DROP REPLICA x",
        "/* DROP REPLICA x",
        "DROP REPLICAS",
        "DROPREPLICA x",
        "DROP (REPLICA)",
        "SET",
        "/",
        "aVeryLongWordThatIsNoKeywordAtAll REPLICA",
    ];

    #[test]
    fn role_statements_are_recognised_in_every_dress() {
        for text in ROLE {
            assert_eq!(judge(text), Judgement::Role, "{text:?}");
        }
    }

    #[test]
    fn everything_else_passes() {
        for text in PLAIN {
            assert_eq!(judge(text), Judgement::Plain, "{text:?}");
        }
    }

    #[test]
    fn transactions_and_session_state_in_words_are_recognised() {
        for (text, judgement) in [
            ("BEGIN", Judgement::Begin),
            (" begin;", Judgement::Begin),
            ("/* x */ Commit", Judgement::Commit),
            ("ROLLBACK ;", Judgement::Rollback),
            ("USE DATABASE other", Judgement::Session),
            (
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                Judgement::Session,
            ),
            (
                "set next transaction isolation level snapshot isolation",
                Judgement::Session,
            ),
            (
                "SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED",
                Judgement::Plain,
            ),
            ("BEGINS", Judgement::Plain),
            ("RETURN 'COMMIT'", Judgement::Plain),
        ] {
            assert_eq!(judge(text), judgement, "{text:?}");
        }
    }

    #[test]
    fn it_does_not_matter_how_the_bytes_arrive() {
        for text in ROLE.iter().chain(PLAIN) {
            let mut statement = Statement::new();
            for byte in text.as_bytes() {
                statement.read(&[*byte]);
            }
            assert_eq!(statement.finish(), judge(text), "{text:?}");
        }
    }

    #[test]
    fn an_ordinary_query_is_judged_by_its_first_word() {
        assert_eq!(Statement::new().read(b"MATCH "), Judgement::Plain);
        assert_eq!(Statement::new().read(b"MATCH"), Judgement::Open);
        assert_eq!(Statement::new().read(&vec![b' '; 100_000]), Judgement::Open);
    }
}
