//! What the kernel says about sockets, without privileges.
//!
//! Asked through `NETLINK_SOCK_DIAG`: a tenth of a millisecond, where printing
//! and reading `/proc/net/tcp` takes five.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink, recv, send, socket};

/// The numbers of `linux/netlink.h`, `linux/sock_diag.h` and `linux/inet_diag.h`.
const REQUEST: u16 = 0x001;
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const BY_FAMILY: u16 = 20;
const IPV4: u8 = 2;
const TCP: u8 = 6;
const LISTENING: u32 = 1 << 10;
const HEADER: usize = 16;

/// A socket, as the kernel describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Socket {
    local: SocketAddrV4,
    inode: u32,
}

const NOWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

fn question(flags: u16, states: u32, local: SocketAddrV4, remote: SocketAddrV4) -> Vec<u8> {
    let padded = |ip: &Ipv4Addr| [ip.octets(), [0; 4], [0; 4], [0; 4]].concat();
    let body = [
        vec![IPV4, TCP, 0, 0],
        states.to_ne_bytes().to_vec(),
        local.port().to_be_bytes().to_vec(),
        remote.port().to_be_bytes().to_vec(),
        padded(local.ip()),
        padded(remote.ip()),
        vec![0; 4],
        // No cookie: any socket with these ends.
        vec![0xff; 8],
    ]
    .concat();
    let length = u32::try_from(HEADER + body.len()).unwrap_or_default();
    let (length, kind, flags) = (
        length.to_ne_bytes(),
        BY_FAMILY.to_ne_bytes(),
        (REQUEST | flags).to_ne_bytes(),
    );
    [&length[..], &kind[..], &flags[..], &[0; 8][..], &body[..]].concat()
}

/// The bytes at a place, if the message is that long.
fn at<const N: usize>(message: &[u8], from: usize) -> Option<[u8; N]> {
    message.get(from..from + N)?.try_into().ok()
}

fn described(message: &[u8]) -> Option<Socket> {
    Some(Socket {
        local: SocketAddrV4::new(at::<4>(message, 8)?.into(), u16::from_be_bytes(at(message, 4)?)),
        inode: u32::from_ne_bytes(at(message, 68)?),
    })
}

fn ask(flags: u16, states: u32, local: SocketAddrV4, remote: SocketAddrV4) -> io::Result<Vec<Socket>> {
    let kernel = socket(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        Some(netlink::SOCK_DIAG),
    )?;
    send(
        &kernel,
        &question(flags, states, local, remote),
        SendFlags::empty(),
    )?;
    let mut found = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let (count, _) = recv(&kernel, buffer.as_mut_slice(), RecvFlags::empty())?;
        let mut rest = buffer.get(..count).unwrap_or_default();
        while let (Some(length), Some(kind)) = (
            at(rest, 0).map(u32::from_ne_bytes),
            at(rest, 4).map(u16::from_ne_bytes),
        ) {
            let length = usize::try_from(length).unwrap_or_default();
            match kind {
                DONE => return Ok(found),
                ERROR => return Err(io::Error::other("the kernel knows no such socket")),
                _ => found.extend(rest.get(HEADER..length).and_then(described)),
            }
            // Messages begin at multiples of four.
            rest = rest
                .get(length.next_multiple_of(4).max(HEADER)..)
                .unwrap_or_default();
        }
        if flags != DUMP {
            return Ok(found);
        }
    }
}

/// Whether this kernel answers at all.
pub(super) fn check() -> io::Result<()> {
    ask(DUMP, LISTENING, NOWHERE, NOWHERE).map(drop)
}

/// Every address and port of this machine that accepts connections.
pub(super) fn listening() -> BTreeSet<SocketAddrV4> {
    let all = ask(DUMP, LISTENING, NOWHERE, NOWHERE).unwrap_or_default();
    all.into_iter().map(|socket| socket.local).collect()
}

/// The process group that holds the other end of an accepted connection.
pub(super) fn group_of(peer: SocketAddrV4, ours: SocketAddrV4, groups: &BTreeSet<i32>) -> Option<i32> {
    let found = ask(0, u32::MAX, peer, ours).ok()?;
    let inode = found.first()?.inode;
    let link = format!("socket:[{inode}]");
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let group = group(&fs::read_to_string(entry.path().join("stat")).ok()?)?;
        let holds = groups.contains(&group)
            && fs::read_dir(format!("/proc/{pid}/fd"))
                .ok()?
                .flatten()
                .any(|file| {
                    fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == link.as_str())
                });
        holds.then_some(group)
    })
}

/// The process group in a line of `/proc/PID/stat`. The name before it may
/// contain anything, parentheses included.
fn group(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_in_what_the_kernel_says_about_a_process() {
        assert_eq!(group("12 (a) b) S 1 77 77 0"), Some(77));
        assert_eq!(group(""), None);
    }

    #[test]
    fn a_message_that_is_cut_short_describes_nothing() {
        let mut message = vec![0; 72];
        message[4..6].copy_from_slice(&7687u16.to_be_bytes());
        message[8..12].copy_from_slice(&[127, 1, 2, 3]);
        message[68..72].copy_from_slice(&99u32.to_ne_bytes());
        let expected = Socket {
            local: SocketAddrV4::new(Ipv4Addr::new(127, 1, 2, 3), 7687),
            inode: 99,
        };
        assert_eq!(described(&message), Some(expected));
        assert!((0..72).all(|length| described(&message[..length]).is_none()));
    }

    #[test]
    fn the_group_behind_a_connection_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let std::net::SocketAddr::V4(ours) = listener.local_addr().unwrap() else {
            panic!("IPv4 asked")
        };
        let client = std::net::TcpStream::connect(ours).unwrap();
        let std::net::SocketAddr::V4(peer) = client.local_addr().unwrap() else {
            panic!("IPv4 asked")
        };
        let own = group(&fs::read_to_string("/proc/self/stat").unwrap()).unwrap();
        assert_eq!(group_of(peer, ours, &[own].into()), Some(own));
        assert_eq!(group_of(peer, ours, &[own + 1].into()), None);
        drop(client);
        assert_eq!(
            group_of(SocketAddrV4::new(*peer.ip(), 1), ours, &[own].into()),
            None
        );
    }

    #[test]
    fn a_listening_port_is_seen_while_it_listens() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let std::net::SocketAddr::V4(address) = listener.local_addr().unwrap() else {
            panic!("IPv4 asked")
        };
        assert!(listening().contains(&address));
        drop(listener);
        assert!(!listening().contains(&address));
    }
}
