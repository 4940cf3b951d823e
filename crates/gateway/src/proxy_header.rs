//! The PROXY protocol, version 2: who a connection is really from, said by a load balancer in its first bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use thiserror::Error;

/// How every header begins.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family, length.
const FIXED: usize = 16;
/// What is announced at most: addresses, and what a load balancer adds to them.
const LARGEST: usize = 2048;

/// Why the first bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum HeaderError {
    #[error("it does not begin as one")]
    Signature,
    #[error("its version is {0}")]
    Version(u8),
    #[error("its command is {0}")]
    Command(u8),
    #[error("it announces {0} bytes")]
    TooLarge(usize),
    #[error("it is too short for its addresses")]
    TooShort,
}

/// Who a connection is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The load balancer itself, to see whether somebody is here; or somebody whose address it cannot say.
    Unknown,
    /// Somebody behind the load balancer, and where they meant to go.
    Carried {
        source: SocketAddr,
        destination: SocketAddr,
    },
}

/// Takes a header from the front of `input`; none if more bytes are needed.
pub(crate) fn read(input: &mut &[u8]) -> Result<Option<Origin>, HeaderError> {
    let known = input.get(..SIGNATURE.len()).unwrap_or(input);
    if !SIGNATURE.starts_with(known) {
        return Err(HeaderError::Signature);
    }
    let Some((fixed, rest)) = input.split_first_chunk::<FIXED>() else {
        return Ok(None);
    };
    let [.., command, family, high, low] = *fixed;
    if command >> 4 != 2 {
        return Err(HeaderError::Version(command >> 4));
    }
    let size = usize::from(u16::from_be_bytes([high, low]));
    if size > LARGEST {
        return Err(HeaderError::TooLarge(size));
    }
    let Some((body, rest)) = rest.split_at_checked(size) else {
        return Ok(None);
    };
    let origin = match command & 0x0F {
        // LOCAL: whatever it carries is to be ignored.
        0 => Origin::Unknown,
        1 => addresses(family, body)?,
        other => return Err(HeaderError::Command(other)),
    };
    *input = rest;
    Ok(Some(origin))
}

/// How many bytes are missing at least to the end of a header of which these were taken to be the begin.
pub(crate) fn missing(begin: &[u8]) -> usize {
    let whole = match begin.split_first_chunk::<FIXED>() {
        None => FIXED,
        Some((&[.., high, low], _)) => FIXED.saturating_add(usize::from(u16::from_be_bytes([high, low]))),
    };
    whole.saturating_sub(begin.len())
}

/// The addresses of a connection over TCP. What else there is, is skipped.
fn addresses(family: u8, body: &[u8]) -> Result<Origin, HeaderError> {
    let (source, destination, ports) = match family {
        0x11 => {
            let (from, rest) = body.split_first_chunk::<4>().ok_or(HeaderError::TooShort)?;
            let (to, ports) = rest.split_first_chunk::<4>().ok_or(HeaderError::TooShort)?;
            (IpAddr::from(*from), IpAddr::from(*to), ports)
        }
        0x21 => {
            let (from, rest) = body.split_first_chunk::<16>().ok_or(HeaderError::TooShort)?;
            let (to, ports) = rest.split_first_chunk::<16>().ok_or(HeaderError::TooShort)?;
            (IpAddr::from(*from), IpAddr::from(*to), ports)
        }
        // UNSPEC, a datagram, a socket of one machine: nothing that could be limited by address.
        _ => return Ok(Origin::Unknown),
    };
    let (&[a, b, c, d], _) = ports.split_first_chunk::<4>().ok_or(HeaderError::TooShort)?;
    Ok(Origin::Carried {
        source: SocketAddr::new(source, u16::from_be_bytes([a, b])),
        destination: SocketAddr::new(destination, u16::from_be_bytes([c, d])),
    })
}

/// The header of a connection that is the gateway's own.
pub(crate) fn own() -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    // Version 2, LOCAL, no family, no bytes.
    header.extend_from_slice(&[0x20, 0, 0, 0]);
    header
}

/// Writes a header for a connection from `source` to `destination`.
pub(crate) fn write(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let (source, destination) = (canonical(source), canonical(destination));
    let mut addresses = Vec::with_capacity(36);
    let family = match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            addresses.extend_from_slice(&from.octets());
            addresses.extend_from_slice(&to.octets());
            0x11
        }
        (from, to) => {
            addresses.extend_from_slice(&wide(from).octets());
            addresses.extend_from_slice(&wide(to).octets());
            0x21
        }
    };
    addresses.extend_from_slice(&source.port().to_be_bytes());
    addresses.extend_from_slice(&destination.port().to_be_bytes());
    let mut header = Vec::with_capacity(FIXED.saturating_add(addresses.len()));
    header.extend_from_slice(&SIGNATURE);
    header.extend_from_slice(&[0x21, family]);
    // 12 or 36.
    let size = u16::try_from(addresses.len()).unwrap_or_default();
    header.extend_from_slice(&size.to_be_bytes());
    header.extend_from_slice(&addresses);
    header
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

const fn wide(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::to_ipv6_mapped(&address),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FOUR: &[u8] =
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0C\x0A\x00\x00\x09\x7F\x00\x00\x01\x15\xB3\x1E\x07";

    fn carried(source: &str, destination: &str) -> Origin {
        Origin::Carried {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
        }
    }

    #[test]
    fn a_connection_of_the_gateway_itself_says_so() {
        let own = own();
        let mut input = own.as_slice();
        assert_eq!(read(&mut input), Ok(Some(Origin::Unknown)));
        assert!(input.is_empty());
    }

    #[test]
    fn a_header_is_read_as_the_specification_writes_it() {
        let bytes = [FOUR, b"rest"].concat();
        let mut input = bytes.as_slice();
        assert_eq!(
            read(&mut input),
            Ok(Some(carried("10.0.0.9:5555", "127.0.0.1:7687")))
        );
        assert_eq!(input, b"rest");
    }

    #[test]
    fn what_a_load_balancer_adds_is_skipped() {
        let mut bytes = FOUR.to_vec();
        bytes[15] += 5;
        bytes.extend_from_slice(&[0x04, 0, 2, 1, 2]);
        let mut input = bytes.as_slice();
        assert!(matches!(read(&mut input), Ok(Some(Origin::Carried { .. }))));
        assert!(input.is_empty());
    }

    #[test]
    fn a_check_of_the_load_balancer_is_from_nobody() {
        let mut local = FOUR.to_vec();
        local[12] = 0x20;
        assert_eq!(read(&mut local.as_slice()), Ok(Some(Origin::Unknown)));
        let mut unix = FOUR.to_vec();
        unix[13] = 0x31;
        assert_eq!(read(&mut unix.as_slice()), Ok(Some(Origin::Unknown)));
    }

    #[test]
    fn what_is_no_header_is_said_to_be_none_as_soon_as_it_is_seen() {
        let changed = |at: usize, to: u8| {
            let mut bytes = FOUR.to_vec();
            bytes[at] = to;
            read(&mut bytes.as_slice())
        };
        assert_eq!(read(&mut &b"\x60\x60\xB0\x17"[..]), Err(HeaderError::Signature));
        assert_eq!(read(&mut &b"PROXY TCP4"[..]), Err(HeaderError::Signature));
        assert_eq!(changed(11, 0), Err(HeaderError::Signature));
        assert_eq!(changed(12, 0x11), Err(HeaderError::Version(1)));
        assert_eq!(changed(12, 0x22), Err(HeaderError::Command(2)));
        assert_eq!(changed(14, 0xFF), Err(HeaderError::TooLarge(0xFF0C)));
        assert_eq!(changed(15, 11), Err(HeaderError::TooShort));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_was_written_is_read(source: (IpAddr, u16), destination: (IpAddr, u16), rest: Vec<u8>) {
            let (source, destination) = (SocketAddr::from(source), SocketAddr::from(destination));
            let header = write(source, destination);
            for end in 0..header.len() {
                prop_assert_eq!(read(&mut header.get(..end).unwrap()), Ok(None));
                let missing = missing(&header[..end]);
                prop_assert!(missing > 0 && end + missing <= header.len());
            }
            let bytes = [header, rest.clone()].concat();
            let mut input = bytes.as_slice();
            let Ok(Some(Origin::Carried { source: from, destination: to })) = read(&mut input) else {
                return Err(TestCaseError::fail("not read"));
            };
            prop_assert_eq!(canonical(from), canonical(source));
            prop_assert_eq!(canonical(to), canonical(destination));
            prop_assert_eq!(input, rest.as_slice());
        }

        #[test]
        fn no_bytes_make_it_panic_or_wait_for_more_than_it_may(tail: Vec<u8>, command: u8, family: u8) {
            let mut bytes = SIGNATURE.to_vec();
            bytes.extend_from_slice(&[command, family]);
            bytes.extend_from_slice(&tail);
            let mut input = bytes.as_slice();
            if read(&mut input) == Ok(None) {
                prop_assert!(bytes.len() < FIXED + LARGEST);
            }
            read(&mut tail.as_slice()).ok();
        }
    }
}
