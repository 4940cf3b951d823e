use super::*;

fn framed(messages: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for message in messages {
        frame_into(&mut out, message);
    }
    out
}

fn scan(scanner: &mut FrameScanner, mut input: &[u8]) -> Result<Vec<ScanEvent>, FrameError> {
    let mut events = Vec::new();
    while let Some(event) = scanner.next(&mut input)? {
        events.push(event);
    }
    assert!(input.is_empty(), "a scanner takes everything it is given");
    Ok(events)
}

#[test]
fn a_short_message_is_one_chunk_and_an_end() {
    assert_eq!(framed(&[&[0xB0, 0x0F]]), [0x00, 0x02, 0xB0, 0x0F, 0x00, 0x00]);
}

#[test]
fn a_message_of_exactly_one_full_chunk_is_not_cut() {
    let message = vec![0xB0; MAX_CHUNK];
    let sizes: Vec<usize> = Chunks::new(&message).map(|chunk| chunk.body.len()).collect();
    assert_eq!(sizes, [MAX_CHUNK, 0]);
    let message = vec![0xB0; MAX_CHUNK + 1];
    let sizes: Vec<usize> = Chunks::new(&message).map(|chunk| chunk.body.len()).collect();
    assert_eq!(sizes, [MAX_CHUNK, 1, 0]);
}

#[test]
fn writing_in_place_gives_the_same_bytes_as_cutting_afterwards() {
    for size in [2, 200, MAX_CHUNK, MAX_CHUNK + 1, 3 * MAX_CHUNK] {
        let message = vec![0xB0; size];
        let mut out = b"before".to_vec();
        frame_with(&mut out, |out| {
            out.extend_from_slice(&message);
            Ok::<(), FrameError>(())
        })
        .unwrap();
        assert_eq!(out, [b"before".as_slice(), &framed(&[&message])].concat());
    }
}

#[test]
fn a_failed_write_leaves_the_output_as_it_was() {
    let mut out = b"before".to_vec();
    let result = frame_with(&mut out, |out| {
        out.extend_from_slice(b"half a message");
        Err(FrameError::NoTag)
    });
    assert_eq!(result, Err(FrameError::NoTag));
    assert_eq!(out, b"before");
}

#[test]
fn whole_messages_are_lent_out_of_the_input_and_split_ones_are_put_together() {
    let stream = framed(&[&[0xB1, 0x01, 0xA0], &[0xB0, 0x0F]]);
    let mut assembler = Assembler::new(64);
    let mut input = stream.as_slice();
    let first = assembler.next(&mut input).unwrap().unwrap();
    assert!(
        stream.as_ptr_range().contains(&first.as_ptr()),
        "nothing was copied"
    );
    assert_eq!(assembler.next(&mut input).unwrap(), Some([0xB0, 0x0F].as_slice()));
    assert_eq!(assembler.next(&mut input).unwrap(), None);

    let in_two_chunks = [0, 1, 0xB1, 0, 2, 0x01, 0xA0, 0, 0];
    let mut input = in_two_chunks.as_slice();
    assert_eq!(
        assembler.next(&mut input).unwrap(),
        Some([0xB1, 0x01, 0xA0].as_slice())
    );
}

#[test]
fn a_noop_is_seen_only_between_messages() {
    let stream = [0, 0, 0, 2, 0xB0, 0x0F, 0, 0, 0, 0];
    let events = scan(&mut FrameScanner::new(64), &stream).unwrap();
    assert_eq!(
        events,
        [
            ScanEvent::Noop,
            ScanEvent::Begin(MessageHead {
                tag: 0x0F,
                fields: 0,
                wire: 4
            }),
            ScanEvent::End(MessageEnd {
                tag: 0x0F,
                payload: 2,
                wire: 6
            }),
            ScanEvent::Noop,
        ]
    );
    let mut input = stream.as_slice();
    assert_eq!(
        Assembler::new(64).next(&mut input).unwrap(),
        Some([0xB0, 0x0F].as_slice())
    );
}

#[test]
fn a_tag_is_found_however_the_message_is_cut() {
    // Marker and tag in chunks of their own, then one more byte.
    let stream = [0, 1, 0xB1, 0, 1, 0x3F, 0, 1, 0xA0, 0, 0];
    let events = scan(&mut FrameScanner::new(64), &stream).unwrap();
    assert_eq!(
        events,
        [
            ScanEvent::Begin(MessageHead {
                tag: 0x3F,
                fields: 1,
                wire: 6
            }),
            ScanEvent::End(MessageEnd {
                tag: 0x3F,
                payload: 3,
                wire: 11
            }),
        ]
    );
}

#[test]
fn a_message_over_the_limit_is_refused_when_it_is_announced() {
    let mut decoder = ChunkDecoder::new(4);
    let mut input: &[u8] = &[0, 3, 0xB0, 0x0F, 0, 0, 2];
    assert!(matches!(decoder.next(&mut input), Ok(Some(Piece::Data(_)))));
    assert_eq!(decoder.next(&mut input), Err(FrameError::TooLarge { limit: 4 }));
    assert_eq!(
        decoder.next(&mut input),
        Err(FrameError::TooLarge { limit: 4 }),
        "and stays refused"
    );
}

#[test]
fn the_limit_on_messages_is_exact_whole_or_in_pieces() {
    for size in [1, 2, 100] {
        let (mut at_limit, mut over) = (Assembler::new(4), Assembler::new(4));
        let (four, five) = (framed(&[&[0xB0; 4]]), framed(&[&[0xB0; 5]]));
        let whole = four
            .chunks(size)
            .any(|mut piece| at_limit.next(&mut piece).unwrap().is_some());
        assert!(whole, "in pieces of {size}");
        let refused = five
            .chunks(size)
            .find_map(|mut piece| over.next(&mut piece).err());
        assert_eq!(
            refused,
            Some(FrameError::TooLarge { limit: 4 }),
            "in pieces of {size}"
        );
    }
}

#[test]
fn a_stream_that_holds_no_messages_is_refused() {
    assert_eq!(
        scan(&mut FrameScanner::new(64), &[0, 2, 0x91, 0x01]),
        Err(FrameError::NotAMessage(0x91))
    );
    let mut scanner = FrameScanner::new(64);
    assert_eq!(scan(&mut scanner, &[0, 1, 0xB0, 0, 0]), Err(FrameError::NoTag));
    assert_eq!(
        scan(&mut scanner, &[0, 2, 0xB0, 0x0F]),
        Err(FrameError::NoTag),
        "and stays refused"
    );
}
