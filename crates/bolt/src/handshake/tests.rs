use super::*;

const MEMGRAPH_3_6: &[Version] = &[
    Version::V1_0,
    Version::V4_0,
    Version::V4_1,
    Version::V4_3,
    Version::V5_2,
];
const MEMGRAPH_3_12: &[Version] = &[
    Version::V1_0,
    Version::V4_0,
    Version::V4_1,
    Version::V4_3,
    Version::V4_4,
    Version::V5_2,
];

fn proposed(slots: [[u8; 4]; 4]) -> Proposals {
    let mut request = MAGIC.to_vec();
    request.extend(slots.into_iter().flatten());
    let mut input = request.as_slice();
    ServerHandshake::new().read(&mut input).unwrap().unwrap()
}

fn range(major: u8, newest: u8, oldest: u8) -> [u8; 4] {
    [0, newest - oldest, newest, major]
}

const NONE: [u8; 4] = [0; 4];

#[test]
fn single_versions_are_answered_as_a_real_memgraph_answers_them() {
    let cases = [
        (1, 0, true, true),
        (2, 0, false, false),
        (3, 0, false, false),
        (4, 0, true, true),
        (4, 1, true, true),
        (4, 2, false, false),
        (4, 3, true, true),
        (4, 4, false, true),
        (5, 0, false, false),
        (5, 1, false, false),
        (5, 2, true, true),
        (5, 3, false, false),
        (5, 4, false, false),
        (5, 8, false, false),
        (6, 0, false, false),
        (9, 0, false, false),
    ];
    for (major, minor, on_3_6, on_3_12) in cases {
        let proposals = proposed([range(major, minor, minor), NONE, NONE, NONE]);
        let version = Version::new(major, minor);
        assert_eq!(
            choose(&proposals, MEMGRAPH_3_6),
            on_3_6.then_some(version),
            "{version} on 3.6"
        );
        assert_eq!(
            choose(&proposals, MEMGRAPH_3_12),
            on_3_12.then_some(version),
            "{version} on 3.12"
        );
    }
}

#[test]
fn ranges_and_the_manifest_are_answered_as_a_real_memgraph_answers_them() {
    let driver = proposed([range(5, 8, 0), range(4, 4, 2), range(4, 1, 1), range(3, 0, 0)]);
    assert_eq!(choose(&driver, MEMGRAPH_3_6), Some(Version::V5_2));

    let manifest_first = proposed([[0, 0, 1, 0xFF], range(5, 8, 0), range(4, 4, 2), range(3, 0, 0)]);
    assert_eq!(manifest_first.0[0], Proposal::Manifest);
    assert_eq!(choose(&manifest_first, MEMGRAPH_3_6), Some(Version::V5_2));

    let fours = proposed([range(4, 4, 2), NONE, NONE, NONE]);
    assert_eq!(choose(&fours, MEMGRAPH_3_6), Some(Version::V4_3));
    assert_eq!(choose(&fours, MEMGRAPH_3_12), Some(Version::V4_4));

    assert_eq!(choose(&proposed([NONE; 4]), MEMGRAPH_3_12), None);
}

#[test]
fn the_first_proposal_wins_even_if_a_later_one_is_newer() {
    let proposals = proposed([range(4, 1, 0), range(5, 2, 2), NONE, NONE]);
    assert_eq!(choose(&proposals, MEMGRAPH_3_12), Some(Version::V4_1));
}

#[test]
fn a_range_longer_than_its_minor_version_ends_at_zero() {
    let proposals = proposed([[0, 200, 3, 4], NONE, NONE, NONE]);
    assert!(proposals.contain(Version::V4_0));
    assert!(!proposals.contain(Version::V4_4));
    assert_eq!(choose(&proposals, &[Version::V4_0]), Some(Version::V4_0));
}

#[test]
fn the_client_proposes_every_memgraph_version_from_4_on() {
    let request = ClientHandshake::new(Proposals::MEMGRAPH).request();
    let expected = [
        [0x60, 0x60, 0xB0, 0x17],
        [0x00, 0x00, 0x02, 0x05],
        [0x00, 0x01, 0x04, 0x04],
        [0x00, 0x01, 0x01, 0x04],
        [0x00, 0x00, 0x00, 0x00],
    ];
    assert_eq!(request.as_slice(), expected.as_flattened());
    let mut input = request.as_slice();
    assert_eq!(
        ServerHandshake::new().read(&mut input),
        Ok(Some(Proposals::MEMGRAPH))
    );
}

#[test]
fn a_peer_that_does_not_speak_bolt_is_named_after_four_bytes() {
    let cases: [(&[u8], Stranger); 4] = [
        (b"GET / HTTP/1.1\r\n", Stranger::Http),
        (b"POST", Stranger::Http),
        (&[0x16, 0x03, 0x01, 0x02, 0x00], Stranger::Tls),
        (
            &[0x60, 0x60, 0xB0, 0x18],
            Stranger::Unknown([0x60, 0x60, 0xB0, 0x18]),
        ),
    ];
    for (mut input, stranger) in cases {
        assert_eq!(
            ServerHandshake::new().read(&mut input),
            Err(HandshakeError::NotBolt(stranger))
        );
    }
}

#[test]
fn the_client_understands_every_kind_of_answer() {
    let answer = |bytes: &[u8]| {
        let mut input = bytes;
        ClientHandshake::new(Proposals::MEMGRAPH).read(&mut input)
    };
    assert_eq!(answer(&[0, 0, 2, 5]), Ok(Some(Version::V5_2)));
    assert_eq!(answer(&[0, 0, 3]), Ok(None));
    assert_eq!(answer(&[0, 0, 0, 0]), Err(HandshakeError::NoCommonVersion));
    // The first bytes of what a real Memgraph sends when it knows no proposed version.
    assert_eq!(
        answer(&[0x00, 0x86, 0xB1, 0x7F]),
        Err(HandshakeError::NoCommonVersion)
    );
    assert_eq!(
        answer(&[0, 0, 0, 3]),
        Err(HandshakeError::NotProposed(Version::new(3, 0)))
    );
    assert_eq!(
        answer(b"HTTP/1.1 400"),
        Err(HandshakeError::NotBolt(Stranger::Http))
    );
}

#[test]
fn bytes_after_the_handshake_are_left_alone() {
    let mut stream = Proposals::MEMGRAPH.to_bytes().to_vec();
    stream.extend([0xAA, 0xBB]);
    let (first, second) = stream.split_at(7);
    let mut server = ServerHandshake::new();
    let mut input = first;
    assert_eq!(server.read(&mut input), Ok(None));
    let mut input = second;
    assert_eq!(server.read(&mut input), Ok(Some(Proposals::MEMGRAPH)));
    assert_eq!(input, [0xAA, 0xBB]);
}
