//! Following what a client says: where messages end, what they ask for, and which must not pass (G7).

use super::read_only::ReadOnly;
use super::statement::{Judgement, Statement};
use bolt::frame::{ChunkDecoder, FrameError, Piece};
use bolt::message::tag;

/// What a client said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The message that has begun must not be sent on. It began `wire` bytes before this position.
    RoleStatement {
        /// Bytes on the wire since its begin.
        wire: usize,
    },
    /// The same: it may write, and only reads pass here.
    Write {
        /// Bytes on the wire since its begin.
        wire: usize,
    },
    /// A message is complete.
    Ended {
        /// Which.
        tag: u8,
        /// What the words of a RUN make of it.
        words: Judgement,
        /// Bytes on the wire since its begin.
        wire: usize,
    },
}

#[derive(Clone, Debug)]
enum At {
    Marker,
    Tag,
    /// The marker of the query in a RUN.
    Text,
    /// Bytes of the size of the query that are still to come, and its value so far.
    Size {
        left: u8,
        value: usize,
    },
    Query {
        left: usize,
        statement: Statement,
        /// Where only reads pass.
        read: Option<Box<ReadOnly>>,
    },
    /// A message that the gateway may answer itself: none of it is sent on before it is complete.
    Ours,
    Decided,
}

/// Follows a client's stream. It keeps a few words and no payload.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    chunks: ChunkDecoder,
    at: At,
    tag: u8,
    words: Judgement,
    wire: usize,
    /// Only reads pass.
    only_reads: bool,
}

impl Requests {
    /// At the start of a stream, after the login.
    pub(crate) const fn new() -> Self {
        Self {
            // How large a message may be is for the database to say.
            chunks: ChunkDecoder::new(usize::MAX),
            at: At::Marker,
            tag: 0,
            words: Judgement::Plain,
            wire: 0,
            only_reads: false,
        }
    }

    /// Whether only reads pass from here on. A statement is then kept back until all of it was seen.
    pub(crate) const fn only_reads(&mut self, only: bool) {
        self.only_reads = only;
    }

    /// Whether the stream is between two messages.
    pub(crate) const fn is_between(&self) -> bool {
        self.chunks.is_idle()
    }

    /// Which message has begun, once that is known.
    pub(crate) const fn begun(&self) -> Option<u8> {
        match self.at {
            At::Marker | At::Tag => None,
            At::Text | At::Size { .. } | At::Query { .. } | At::Ours | At::Decided => Some(self.tag),
        }
    }

    /// Bytes on the wire since the message began.
    pub(crate) const fn wire(&self) -> usize {
        self.wire
    }

    /// How many of the bytes seen last must not be sent on yet, because what they begin may be forbidden.
    pub(crate) fn undecided(&self) -> usize {
        match self.at {
            At::Decided => 0,
            At::Marker | At::Tag | At::Text | At::Size { .. } | At::Query { .. } | At::Ours => self.wire,
        }
    }

    /// Advances `input` to the next thing to know; to its end if there is none.
    pub(crate) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Seen>, FrameError> {
        loop {
            let before = input.len();
            let piece = self.chunks.next(input)?;
            self.wire = self.wire.saturating_add(before.saturating_sub(input.len()));
            match piece {
                None => return Ok(None),
                Some(Piece::Noop) => self.wire = 0,
                Some(Piece::Data(data)) => match self.data(data) {
                    Passes::Yes => {}
                    Passes::Role => return Ok(Some(Seen::RoleStatement { wire: self.wire })),
                    Passes::Write => return Ok(Some(Seen::Write { wire: self.wire })),
                },
                Some(Piece::End) => {
                    let (tag, words, wire) = (self.tag, self.words, self.wire);
                    (self.at, self.tag, self.words, self.wire) = (At::Marker, 0, Judgement::Plain, 0);
                    return Ok(Some(Seen::Ended { tag, words, wire }));
                }
            }
        }
    }

    fn data(&mut self, mut data: &[u8]) -> Passes {
        while let Some((&first, rest)) = data.split_first() {
            match &mut self.at {
                At::Decided | At::Ours => return Passes::Yes,
                At::Query {
                    left,
                    statement,
                    read,
                } => {
                    let (query, _) = data.split_at_checked(*left).unwrap_or((data, &[]));
                    *left = left.saturating_sub(query.len());
                    let mut judgement = statement.read(query);
                    let mut reads = None;
                    if let Some(read) = read {
                        read.read(query);
                    }
                    if *left == 0 {
                        judgement = statement.finish();
                        reads = read.as_mut().map(|read| read.finish());
                    }
                    let over = *left == 0 || read.is_none() || judgement == Judgement::Role;
                    if judgement != Judgement::Open && over {
                        self.at = At::Decided;
                        self.words = judgement;
                    }
                    return match (judgement, reads) {
                        (Judgement::Role, _) => Passes::Role,
                        (_, Some(false)) => Passes::Write,
                        (_, Some(true) | None) => Passes::Yes,
                    };
                }
                At::Marker => self.at = At::Tag,
                At::Tag => {
                    self.tag = first;
                    self.at = match first {
                        tag::RUN => At::Text,
                        tag::ROUTE | tag::LOGON | tag::LOGOFF => At::Ours,
                        _ => At::Decided,
                    };
                }
                At::Text => self.at = text(first, self.only_reads),
                At::Size { left, value } => {
                    *value = value.saturating_mul(256).saturating_add(usize::from(first));
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        self.at = query(*value, self.only_reads);
                    }
                }
            }
            data = rest;
        }
        Passes::Yes
    }
}

/// Whether a message may be sent on, as far as it was seen.
enum Passes {
    Yes,
    Role,
    Write,
}

/// Where the marker of a string leads. What is no string is for the database to refuse.
fn text(marker: u8, only_reads: bool) -> At {
    match marker {
        0x80..=0x8F => query((marker & 0x0F) as usize, only_reads),
        0xD0 => At::Size { left: 1, value: 0 },
        0xD1 => At::Size { left: 2, value: 0 },
        0xD2 => At::Size { left: 4, value: 0 },
        _ => At::Decided,
    }
}

fn query(size: usize, only_reads: bool) -> At {
    match size {
        0 => At::Decided,
        left => At::Query {
            left,
            statement: Statement::new(),
            read: only_reads.then(|| Box::new(ReadOnly::new())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bolt::message::{Fetch, Request, Run};
    use bolt::version::Version;
    use proptest::prelude::*;

    fn wire(version: Version, requests: &[Request<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for request in requests {
            request.frame(version, &mut bytes).unwrap();
        }
        bytes
    }

    fn ended(tag: u8, words: Judgement) -> Seen {
        Seen::Ended { tag, words, wire: 0 }
    }

    /// Everything seen, with absolute positions of forbidden beginnings, however the bytes are cut.
    fn follow(bytes: &[u8], cuts: &[usize]) -> (Vec<Seen>, Vec<usize>) {
        let mut requests = Requests::new();
        let (mut seen, mut began) = (Vec::new(), Vec::new());
        let mut from = 0;
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        ends.sort_unstable();
        ends.push(bytes.len());
        for to in ends {
            let mut input = &bytes[from..to];
            while let Some(event) = requests.next(&mut input).unwrap() {
                let position = to - input.len();
                match event {
                    Seen::RoleStatement { wire } => {
                        began.push(position - wire);
                        seen.push(Seen::RoleStatement { wire: 0 });
                    }
                    Seen::Write { .. } => panic!("writes may pass here"),
                    Seen::Ended { tag, words, wire: _ } => seen.push(ended(tag, words)),
                }
            }
            assert!(
                requests.undecided() <= to,
                "nothing before the stream is kept back"
            );
            from = to;
        }
        (seen, began)
    }

    #[test]
    fn a_role_statement_is_seen_where_it_began() {
        for version in [Version::V1_0, Version::V4_3, Version::V5_2] {
            let before = [Request::Run(Run::new("RETURN 1")), Request::Pull(Fetch::ALL)];
            let start = wire(version, &before).len();
            let long = format!("/*{}*/ DROP REPLICA x", "x".repeat(70_000));
            for query in ["DROP REPLICA x", "DROP REPLICA xxxxxxxxxxxxxxxxxxxxxxx", &long] {
                let mut all = before.to_vec();
                all.extend([Request::Run(Run::new(query)), Request::Reset]);
                let (seen, began) = follow(&wire(version, &all), &[]);
                assert_eq!(began, [start]);
                assert_eq!(
                    seen,
                    [
                        ended(tag::RUN, Judgement::Plain),
                        ended(tag::PULL, Judgement::Plain),
                        Seen::RoleStatement { wire: 0 },
                        ended(tag::RUN, Judgement::Role),
                        ended(tag::RESET, Judgement::Plain),
                    ]
                );
            }
        }
    }

    #[test]
    fn a_query_is_kept_back_until_its_first_words_are_known_and_no_longer() {
        let bytes = wire(Version::V5_2, &[Request::Run(Run::new("MATCH (n) RETURN n"))]);
        let mut requests = Requests::new();
        // Chunk header, marker, tag, marker and size of the text, then the text.
        let (some, more) = (2 + 2 + 2 + 3, 2 + 2 + 2 + 6);
        let mut input = &bytes[..some];
        assert_eq!(requests.next(&mut input), Ok(None));
        assert_eq!(requests.undecided(), some, "MAT");
        let mut input = &bytes[some..more];
        assert_eq!(requests.next(&mut input), Ok(None));
        assert_eq!(requests.undecided(), 0, "MATCH and a space");
    }

    #[test]
    fn transactions_in_words_are_told_when_the_run_is_complete() {
        let queries = ["BEGIN", "CREATE ()", "commit;", "USE DATABASE x"];
        let runs: Vec<_> = queries
            .iter()
            .map(|query| Request::Run(Run::new(*query)))
            .collect();
        let (seen, _) = follow(&wire(Version::V5_2, &runs), &[3, 9, 20]);
        let words = [
            Judgement::Begin,
            Judgement::Plain,
            Judgement::Commit,
            Judgement::Session,
        ];
        assert_eq!(seen, words.map(|words| ended(tag::RUN, words)));
    }

    #[test]
    fn a_question_for_routes_is_kept_back_whole_because_the_gateway_answers_it() {
        let question = [0, 5, 0xB3, tag::ROUTE, 0xA0, 0x90, 0xC0, 0, 0];
        let mut requests = Requests::new();
        for end in 1..question.len() {
            let mut input = &question[end - 1..end];
            assert_eq!(requests.next(&mut input), Ok(None));
            assert_eq!(requests.undecided(), end);
            assert!(!requests.is_between() || end == 0);
        }
        let mut input = &question[question.len() - 1..];
        let all = Seen::Ended {
            tag: tag::ROUTE,
            words: Judgement::Plain,
            wire: question.len(),
        };
        assert_eq!(requests.next(&mut input), Ok(Some(all)));
        assert!(requests.is_between());
    }

    #[test]
    fn what_is_no_run_is_never_kept_back() {
        let mut requests = Requests::new();
        let mut input = [0, 4, 0xB1, tag::BEGIN, 0xA0].as_slice();
        assert_eq!(requests.next(&mut input), Ok(None));
        assert_eq!(requests.undecided(), 0);
        // A query that is no string is for the database to refuse.
        let mut requests = Requests::new();
        let mut input = [0, 4, 0xB3, tag::RUN, 0xC0, 0xA0].as_slice();
        assert_eq!(requests.next(&mut input), Ok(None));
        assert_eq!(requests.undecided(), 0);
    }

    #[test]
    fn where_only_reads_pass_a_statement_is_kept_back_until_all_of_it_was_seen() {
        let version = Version::V5_2;
        for (query, passes) in [("MATCH (n) RETURN n", true), ("MATCH (n) SET n.x = 1", false)] {
            let bytes = wire(version, &[Request::Run(Run::new(query))]);
            let mut requests = Requests::new();
            requests.only_reads(true);
            let mut kept = 0;
            let mut seen = Vec::new();
            for byte in &bytes {
                let mut input = std::slice::from_ref(byte);
                while let Some(event) = requests.next(&mut input).unwrap() {
                    seen.push(event);
                }
                kept = kept.max(requests.undecided());
            }
            assert!(kept > query.len(), "{query}");
            let write = matches!(seen.first(), Some(Seen::Write { .. }));
            assert_eq!(write, !passes, "{query}: {seen:?}");
            assert!(matches!(seen.last(), Some(Seen::Ended { tag: tag::RUN, .. })));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn how_the_bytes_are_cut_changes_nothing(
            cuts in prop::collection::vec(any::<usize>(), 0..12),
            chunk in 1usize..40,
        ) {
            // The same messages in small chunks, as a client may send them, with signs of life between.
            let mut bytes = Vec::new();
            for query in ["RETURN 1", "/* x */ SET REPLICATION ROLE TO MAIN", "CREATE ()", "drop replica a"] {
                let mut payload = Vec::new();
                Request::Run(Run::new(query)).encode(Version::V5_2, &mut payload).unwrap();
                for part in payload.chunks(chunk) {
                    bytes.extend_from_slice(&u16::try_from(part.len()).unwrap().to_be_bytes());
                    bytes.extend_from_slice(part);
                }
                bytes.extend_from_slice(&[0, 0, 0, 0]);
            }
            let whole = follow(&bytes, &[]);
            prop_assert_eq!(whole.1.len(), 2);
            prop_assert_eq!(follow(&bytes, &cuts), whole);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), cuts in prop::collection::vec(any::<usize>(), 0..6)) {
            follow(&bytes, &cuts);
        }
    }
}
