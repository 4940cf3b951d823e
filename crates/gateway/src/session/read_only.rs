//! Whether a statement can be seen to be a read, from its words alone.
//!
//! It is asked only on the port for reads, and only while MAIN takes them: a replica refuses writes itself. What cannot
//! be seen to be a read counts as a write; a procedure may write, and nobody can tell from here.

/// How a read may begin.
const BEGIN: &[&[u8]] = &[
    b"MATCH",
    b"OPTIONAL",
    b"WITH",
    b"UNWIND",
    b"RETURN",
    b"CALL",
    b"USING",
    b"EXPLAIN",
    b"PROFILE",
    b"SHOW",
    b"BEGIN",
    b"COMMIT",
    b"ROLLBACK",
];
/// What no read has in it.
const WRITES: &[&[u8]] = &[
    b"CREATE", b"MERGE", b"SET", b"DELETE", b"DETACH", b"REMOVE", b"DROP", b"FOREACH", b"LOAD",
];
const CALL: &[u8] = b"CALL";

/// Longer than every word above.
const LONGEST: usize = 12;

#[derive(Clone, Copy, Debug)]
enum Place {
    Gap,
    Slash,
    LineComment,
    BlockComment {
        star: bool,
    },
    /// In quotes of this kind.
    Quoted {
        by: u8,
        escaped: bool,
    },
    /// In digits. A word needs no space after them.
    Number,
    /// In a word. It does not matter if it is longer than any that does, or is a name.
    Word {
        bytes: [u8; LONGEST],
        len: u8,
        matters: bool,
        /// It follows a number: how much of it still belongs to that (`1e5`, `0xF`) is the server's affair.
        glued: bool,
    },
}

/// Reads a statement byte by byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadOnly {
    place: Place,
    /// The last byte that was neither space nor comment, before the word: after some a word is a name.
    before: u8,
    first: bool,
    /// A CALL whose next byte says whether it is a subquery or a procedure.
    called: bool,
    broken: bool,
}

impl ReadOnly {
    pub(crate) const fn new() -> Self {
        Self {
            place: Place::Gap,
            before: 0,
            first: true,
            called: false,
            broken: false,
        }
    }

    /// Takes some more bytes of it.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.byte(*byte);
        }
    }

    /// There is no more of it: is it a read?
    pub(crate) fn finish(&mut self) -> bool {
        self.byte(b' ');
        !self.broken && !self.called
    }

    fn byte(&mut self, byte: u8) {
        self.place = match self.place {
            Place::Slash => match byte {
                b'/' => Place::LineComment,
                b'*' => Place::BlockComment { star: false },
                _ => {
                    self.said(b'/');
                    self.in_gap(byte)
                }
            },
            Place::LineComment if byte == b'\n' || byte == b'\r' => Place::Gap,
            Place::LineComment => Place::LineComment,
            Place::BlockComment { star: true } if byte == b'/' => Place::Gap,
            Place::BlockComment { star: _ } => Place::BlockComment { star: byte == b'*' },
            Place::Quoted { by, escaped } if !escaped && byte == by => Place::Gap,
            Place::Quoted { by, escaped } => Place::Quoted {
                by,
                // In backticks nothing is escaped: two of them are a name that goes on.
                escaped: !escaped && byte == b'\\' && by != b'`',
            },
            Place::Number if byte.is_ascii_digit() => Place::Number,
            Place::Number if is_letter(byte) => longer([0; LONGEST], 0, true, true, byte),
            Place::Gap | Place::Number => self.in_gap(byte),
            Place::Word {
                bytes,
                len,
                matters,
                glued,
            } if is_letter(byte) => longer(bytes, len, matters, glued, byte),
            Place::Word {
                bytes,
                len,
                matters,
                glued,
            } => {
                let word = bytes.get(..usize::from(len)).unwrap_or_default();
                match (matters, glued) {
                    (true, false) => self.word(word),
                    (true, true) => self.broken |= ends_like_a_write(word),
                    // Too long to tell.
                    (false, true) => self.broken = true,
                    (false, false) => {
                        self.broken |= self.first;
                        self.first = false;
                    }
                }
                self.before = b'a';
                self.in_gap(byte)
            }
        };
    }

    fn in_gap(&mut self, byte: u8) -> Place {
        match byte {
            b'/' => Place::Slash,
            b'\'' | b'"' | b'`' => {
                self.said(byte);
                Place::Quoted {
                    by: byte,
                    escaped: false,
                }
            }
            _ if byte.is_ascii_digit() => {
                self.broken |= self.called || self.first;
                (self.first, self.before) = (false, b'a');
                Place::Number
            }
            _ if is_letter(byte) => {
                // A procedure is called by its name.
                self.broken |= self.called;
                let name = matches!(self.before, b'.' | b':' | b'$' | b'|' | b'&' | b'!');
                longer([0; LONGEST], 0, !name, false, byte)
            }
            _ if byte.is_ascii_graphic() => {
                self.said(byte);
                Place::Gap
            }
            // Bytes that are not ASCII count as space, as some of them are to the server.
            _ => Place::Gap,
        }
    }

    /// Something other than a word.
    fn said(&mut self, byte: u8) {
        if self.called {
            self.called = false;
            self.broken |= byte != b'{';
        }
        self.broken |= self.first && byte != b';';
        self.first = byte == b';';
        self.before = byte;
    }

    fn word(&mut self, word: &[u8]) {
        if self.first && !BEGIN.contains(&word) {
            self.broken = true;
        }
        self.first = false;
        self.broken |= WRITES.contains(&word);
        self.called = word == CALL;
    }
}

/// Is the last of it a word that no read has in it?
fn ends_like_a_write(word: &[u8]) -> bool {
    WRITES.iter().any(|write| word.ends_with(write)) || word.ends_with(CALL)
}

fn longer(mut bytes: [u8; LONGEST], len: u8, matters: bool, glued: bool, byte: u8) -> Place {
    match bytes.get_mut(usize::from(len)) {
        Some(slot) => {
            *slot = byte.to_ascii_uppercase();
            Place::Word {
                bytes,
                len: len + 1,
                matters,
                glued,
            }
        }
        None => Place::Word {
            bytes,
            len,
            matters: false,
            glued,
        },
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(text: &str) -> bool {
        let mut all = ReadOnly::new();
        all.read(text.as_bytes());
        let mut by_byte = ReadOnly::new();
        for byte in text.as_bytes() {
            by_byte.read(&[*byte]);
        }
        let (all, by_byte) = (all.finish(), by_byte.finish());
        assert_eq!(all, by_byte, "{text:?}");
        all
    }

    #[test]
    fn what_can_be_seen_to_be_a_read_is_one() {
        for text in [
            "MATCH (n) RETURN n",
            "match (n:Create)-[:SET|DELETE]->(m) where n.set = m.`drop` return count(*)",
            "RETURN 'CREATE (n)', \"it's \\\" DELETE\"",
            "/* CREATE */ // SET\n RETURN 1;",
            "WITH $set AS x RETURN x",
            "UNWIND range(1, 3) AS settings RETURN settings",
            "OPTIONAL MATCH (n) RETURN n.created, n.x / 2",
            "CALL { MATCH (n) RETURN n } RETURN n",
            "EXPLAIN MATCH (n) RETURN n",
            "SHOW INDEX INFO",
            "BEGIN",
            "COMMIT",
            "ROLLBACK",
            "MATCH (n1set) WHERE n1set.x2 = 1.5e10 OR n1set.y = 0xFF RETURN $1, 17",
        ] {
            assert!(reads(text), "{text}");
        }
    }

    #[test]
    fn everything_else_is_not() {
        for text in [
            "CREATE (n)",
            "MATCH (n) SET n.x = 1",
            "MATCH (n) DETACH DELETE n",
            "MATCH (n)/**/DELETE n",
            "MATCH (n) WITH n, 'it\\'s' AS x MERGE (:P)",
            "RETURN `a``b` CREATE (n)",
            "UNWIND [1] AS x CREATE (:P)",
            "FOREACH (x IN [1] | CREATE (:P))",
            "CALL create.node(['P'], {})",
            "MATCH (n) CALL `x`.y() YIELD z RETURN z",
            "CALL",
            "LOAD CSV FROM 'x' NO HEADER AS row RETURN row",
            "STORAGE MODE IN_MEMORY_ANALYTICAL",
            "GRANT ALL PRIVILEGES TO x",
            "DROP INDEX ON :P",
            "EXPLAIN CREATE (n)",
            "SHOW INDEX INFO; CREATE (n)",
            "(n) RETURN n",
            "aVeryLongWordThatIsNothing",
            // A word needs no space after a number.
            "MATCH (n) WHERE n.x = 1SET n.y = 2",
            "MATCH (n) WHERE n.x = 12345678901234567890SET n.y = 2",
            "MATCH (n) WHERE n.x = 0xFFFFFFFFFFFFFFFFSET n.y = 2",
            "MATCH (n) WHERE n.x = 0xDSET n.y = 2",
            "MATCH (n) WHERE n.x = 1.5e3DELETE n",
            "UNWIND [0] AS x WITH $0CREATE (:P)",
            "MATCH (n) WHERE n.x = 1CALL create.node(['P'], {})",
            "1MATCH (n) RETURN n",
        ] {
            assert!(!reads(text), "{text}");
        }
    }
}
