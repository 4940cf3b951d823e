//! What costs memory and what does not.
//!
//! The counting allocator comes with the `allocation-counter` crate: a
//! `GlobalAlloc` of our own would be unsafe code, which this workspace forbids.

use allocation_counter::{AllocationInfo, measure};
use bolt::frame::{Assembler, ChunkDecoder, Chunks, FrameScanner, ScanEvent, frame_into};
use bolt::packstream::{Limits, decode};

/// A message of 128 bytes: PULL, and a string as its field.
fn message() -> Vec<u8> {
    let mut message = vec![0xB1, 0x3F, 0xD0, 124];
    message.extend([b'x'; 124]);
    assert_eq!(message.len(), 128);
    message
}

fn framed() -> Vec<u8> {
    let mut framed = Vec::new();
    frame_into(&mut framed, &message());
    framed
}

fn assert_free(what: &str, work: impl FnOnce()) {
    let AllocationInfo { count_total, .. } = measure(work);
    assert_eq!(count_total, 0, "{what} must not allocate");
}

#[test]
fn the_allocator_counts() {
    assert_eq!(
        measure(|| drop(std::hint::black_box(vec![7_u8; 10]))).count_total,
        1
    );
}

#[test]
fn framing_and_following_a_message_of_128_bytes_costs_no_allocation() {
    let (message, stream) = (message(), framed());
    let mut scanner = FrameScanner::new(1024);
    assert_free("scanning", || {
        let (mut input, mut ends) = (stream.as_slice(), 0);
        while let Ok(Some(event)) = scanner.next(&mut input) {
            ends += usize::from(matches!(event, ScanEvent::End(_)));
        }
        assert_eq!(ends, 1);
    });
    let mut decoder = ChunkDecoder::new(1024);
    assert_free("decoding chunks", || {
        let (mut input, mut pieces) = (stream.as_slice(), 0);
        while let Ok(Some(_)) = decoder.next(&mut input) {
            pieces += 1;
        }
        assert_eq!(pieces, 2);
    });
    let mut assembler = Assembler::new(1024);
    assert_free("assembling a message that came in one piece", || {
        let mut input = stream.as_slice();
        assert_eq!(
            assembler.next(&mut input).map(|message| message.map(<[u8]>::len)),
            Ok(Some(128))
        );
    });
    assert_free("cutting into chunks", || {
        let sent: usize = Chunks::new(&message)
            .map(|chunk| chunk.header.len() + chunk.body.len())
            .sum();
        assert_eq!(sent, stream.len());
    });
    let mut out = Vec::with_capacity(stream.len());
    assert_free("framing into a buffer with room", || {
        frame_into(&mut out, &message);
    });
    assert_eq!(out, stream);
}

#[test]
fn a_scanner_costs_nothing_however_the_stream_is_cut() {
    let stream = framed();
    let mut scanner = FrameScanner::new(1024);
    assert_free("scanning byte by byte", || {
        for mut byte in stream.chunks(1) {
            assert!(scanner.next(&mut byte).is_ok());
        }
    });
    assert!(scanner.is_idle());
    assert!(
        size_of::<FrameScanner>() <= 128,
        "small enough for ten thousand connections"
    );
}

#[test]
fn an_assembler_owns_nothing_between_messages() {
    let stream = framed();
    let mut assembler = Assembler::new(1024);
    let info = measure(|| {
        for mut byte in stream.chunks(1) {
            while let Ok(Some(message)) = assembler.next(&mut byte) {
                assert_eq!(message.len(), 128);
            }
        }
    });
    assert!(info.bytes_max >= 128, "it had to put the message together");
    assert_eq!(info.bytes_current, 0, "and gave everything back");
}

#[test]
fn an_announced_size_is_not_believed() {
    let most = |bytes: &[u8]| measure(|| assert!(decode(bytes, Limits::DEFAULT).is_err())).bytes_max;
    for marker in [0xCE, 0xD2, 0xD6, 0xDA] {
        assert_eq!(most(&[marker, 0xFF, 0xFF, 0xFF, 0xFF]), 0, "{marker:#04x}");
    }
    // A message of 16 MiB is announced, and its first byte comes.
    let mut assembler = Assembler::new(1 << 24);
    let info = measure(|| {
        let mut input: &[u8] = &[0xFF, 0xFF, 0xB1];
        assert_eq!(assembler.next(&mut input), Ok(None));
    });
    assert!(info.bytes_max <= 64, "{info:?}");
}

#[test]
fn nested_claims_add_up_to_no_more_than_the_limit() {
    // Lists in lists, each of which claims as many values as there are bytes left.
    let mut hostile = Vec::new();
    for level in 0..60_u32 {
        hostile.push(0xD6);
        hostile.extend((60_000 - level * 8).to_be_bytes());
    }
    hostile.resize(70_000, 0xC0);
    let limits = Limits {
        depth: 64,
        values: 100_000,
    };
    let info = measure(|| assert!(decode(&hostile, limits).is_err()));
    let limit = u64::try_from(limits.values * size_of::<bolt::packstream::Value<'_>>()).unwrap();
    assert!(
        info.bytes_max <= limit,
        "{} bytes for a limit of {limit}",
        info.bytes_max
    );
}
