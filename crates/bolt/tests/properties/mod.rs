//! Properties that hold for every input.
//!
//! Each takes bytes and asserts. `tests/properties.rs` calls them with random
//! bytes, `tests/corpus.rs` with the seeds, and the targets in `fuzz/` with
//! whatever a fuzzer comes up with.

mod sessions;

pub(crate) use sessions::{client_session, server_session};

use bolt::frame::{Assembler, ChunkDecoder, FrameError, FrameScanner, Piece, ScanEvent, frame_into};
use bolt::handshake::{ClientHandshake, HandshakeError, Proposals, REQUEST_SIZE, ServerHandshake, choose};
use bolt::message::{Request, Response};
use bolt::packstream::{Limits, decode, encode};
use bolt::version::Version;

const LIMIT: usize = 4096;
const LIMITS: Limits = Limits {
    depth: 16,
    values: 4096,
};

const VERSIONS: [Version; 9] = [
    Version::V1_0,
    Version::V4_0,
    Version::V4_1,
    Version::V4_3,
    Version::V4_4,
    Version::V5_0,
    Version::V5_1,
    Version::V5_2,
    Version::V5_4,
];

/// A version chosen by the first byte, and the rest.
fn with_version(data: &[u8]) -> Option<(Version, &[u8])> {
    let (first, rest) = data.split_first()?;
    let version = VERSIONS
        .iter()
        .cycle()
        .nth(usize::from(*first) % VERSIONS.len())?;
    Some((*version, rest))
}

/// Cuts `data` into pieces of `size` bytes; zero means not at all.
fn pieces(data: &[u8], size: usize) -> impl Iterator<Item = &[u8]> {
    data.chunks(if size == 0 { data.len().max(1) } else { size })
}

/// How a stream is cut must not matter, and messages survive being framed again.
pub(crate) fn framing(data: &[u8]) {
    let scanned = scan(data, 0);
    let assembled = assemble(data, 0);
    for size in [1, 2, 3, 7] {
        assert_eq!(scan(data, size), scanned, "scanning in pieces of {size}");
        assert_eq!(assemble(data, size), assembled, "assembling in pieces of {size}");
    }
    let (messages, error) = assembled;
    let (events, _) = scanned;
    let ends = events
        .iter()
        .filter(|event| matches!(event, ScanEvent::End(_)))
        .count();
    assert!(
        ends <= messages.len(),
        "a scanner sees no message that is not there"
    );
    assert!(
        messages
            .iter()
            .all(|message| !message.is_empty() && message.len() <= LIMIT)
    );

    let mut again = Vec::new();
    for message in &messages {
        frame_into(&mut again, message);
    }
    assert_eq!(assemble(&again, 0), (messages, None));
    assert!(
        again.len() <= data.len(),
        "one chunk per message is the shortest form"
    );
    assert!(error.is_none_or(|error| error == FrameError::TooLarge { limit: LIMIT }));
    chunks_lose_nothing(data);
}

fn scan(data: &[u8], size: usize) -> (Vec<ScanEvent>, Option<FrameError>) {
    let (mut scanner, mut events) = (FrameScanner::new(LIMIT), Vec::new());
    for mut piece in pieces(data, size) {
        loop {
            match scanner.next(&mut piece) {
                Ok(Some(ScanEvent::Begin(head))) => {
                    // Where in a chunk the tag was noticed depends on the cut.
                    events.push(ScanEvent::Begin(bolt::frame::MessageHead { wire: 0, ..head }));
                }
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Some(error)),
            }
        }
        assert!(piece.is_empty());
    }
    (events, None)
}

fn assemble(data: &[u8], size: usize) -> (Vec<Vec<u8>>, Option<FrameError>) {
    let (mut assembler, mut messages) = (Assembler::new(LIMIT), Vec::new());
    for mut piece in pieces(data, size) {
        loop {
            match assembler.next(&mut piece) {
                Ok(Some(message)) => messages.push(message.to_vec()),
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            }
        }
        assert!(piece.is_empty());
    }
    (messages, None)
}

fn chunks_lose_nothing(data: &[u8]) {
    let (mut decoder, mut input, mut payload) = (ChunkDecoder::new(LIMIT), data, 0);
    while let Ok(Some(piece)) = decoder.next(&mut input) {
        if let Piece::Data(data) = piece {
            assert!(!data.is_empty());
            payload += data.len();
        }
    }
    assert!(payload <= data.len());
}

/// What can be decoded can be encoded, in no more bytes, and is the same again.
pub(crate) fn packstream(data: &[u8]) {
    let Ok(value) = decode(data, LIMITS) else { return };
    let mut canonical = Vec::new();
    assert_eq!(encode(&value, &mut canonical), Ok(()));
    assert!(
        canonical.len() <= data.len(),
        "the canonical form is the smallest"
    );
    let mut again = Vec::new();
    let decoded = decode(&canonical, LIMITS);
    assert!(decoded.is_ok(), "{decoded:?}");
    if let Ok(decoded) = decoded {
        // By bytes, because NaN is not equal to itself.
        assert_eq!(encode(&decoded.into_owned(), &mut again), Ok(()));
    }
    assert_eq!(canonical, again);
}

/// What can be parsed can be written, and is the same again.
pub(crate) fn messages(data: &[u8]) {
    let Some((version, payload)) = with_version(data) else {
        return;
    };
    // Writing may add an entry that was left out, such as the scheme of a login.
    let more = Limits {
        values: LIMITS.values + 8,
        ..LIMITS
    };
    if let Ok(request) = Request::parse(version, payload, LIMITS) {
        assert_eq!(payload.get(1), Some(&request.tag()));
        let (mut first, mut second) = (Vec::new(), Vec::new());
        assert_eq!(request.encode(version, &mut first), Ok(()));
        let again = Request::parse(version, &first, more).map(Request::into_owned);
        assert_eq!(again.map(|again| again.encode(version, &mut second)), Ok(Ok(())));
        assert_eq!(first, second);
    }
    if let Ok(response) = Response::parse(payload, LIMITS) {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        assert_eq!(response.encode(&mut first), Ok(()));
        let again = Response::parse(&first, LIMITS);
        assert_eq!(again.map(|again| again.encode(&mut second)), Ok(Ok(())));
        assert_eq!(first, second);
    }
}

/// How a handshake is cut must not matter; what is chosen was proposed; nothing beyond it is taken.
pub(crate) fn handshake(data: &[u8]) {
    let whole = serve(data, 0);
    assert_eq!(serve(data, 1), whole);
    if let Ok(Some(proposals)) = whole {
        assert!(data.len() >= REQUEST_SIZE);
        if let Some(version) = choose(&proposals, &VERSIONS) {
            assert!(proposals.contain(version) && VERSIONS.contains(&version));
            let answer = ServerHandshake::answer(version);
            assert_eq!(
                ClientHandshake::new(proposals).read(&mut answer.as_slice()),
                Ok(Some(version))
            );
        }
        let mut canonical = proposals.to_bytes().to_vec();
        canonical.push(0xAA);
        let mut input = canonical.as_slice();
        assert_eq!(ServerHandshake::new().read(&mut input), Ok(Some(proposals)));
        assert_eq!(input, [0xAA]);
    }
    let mut input = data;
    if let Ok(Some(version)) = ClientHandshake::new(Proposals::MEMGRAPH).read(&mut input) {
        assert!(Proposals::MEMGRAPH.contain(version));
    }
}

fn serve(data: &[u8], size: usize) -> Result<Option<Proposals>, HandshakeError> {
    let mut handshake = ServerHandshake::new();
    for mut piece in pieces(data, size) {
        if let Some(proposals) = handshake.read(&mut piece)? {
            return Ok(Some(proposals));
        }
    }
    Ok(None)
}
