//! What the kernel says about sockets, without privileges.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};

/// One line of `/proc/net/tcp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Socket {
    local: SocketAddrV4,
    remote: SocketAddrV4,
    listens: bool,
    inode: u64,
}

fn address(text: &str) -> Option<SocketAddrV4> {
    let (ip, port) = text.split_once(':')?;
    // In the machine's byte order, as the kernel prints it.
    let ip = u32::from_str_radix(ip, 16).ok()?.to_ne_bytes();
    Some(SocketAddrV4::new(
        Ipv4Addr::from(ip),
        u16::from_str_radix(port, 16).ok()?,
    ))
}

fn socket(line: &str) -> Option<Socket> {
    let mut fields = line.split_whitespace();
    Some(Socket {
        local: address(fields.nth(1)?)?,
        remote: address(fields.next()?)?,
        listens: fields.next()? == "0A",
        inode: fields.nth(5)?.parse().ok()?,
    })
}

fn sockets(table: &str) -> impl Iterator<Item = Socket> {
    table.lines().skip(1).filter_map(socket)
}

fn table() -> String {
    fs::read_to_string("/proc/net/tcp").unwrap_or_default()
}

/// Every address and port of this machine that accepts connections.
pub(super) fn listening() -> BTreeSet<SocketAddrV4> {
    sockets(&table())
        .filter(|socket| socket.listens)
        .map(|socket| socket.local)
        .collect()
}

/// The process group that holds the other end of an accepted connection.
pub(super) fn group_of(peer: SocketAddrV4, ours: SocketAddrV4, groups: &BTreeSet<i32>) -> Option<i32> {
    let inode = sockets(&table())
        .find(|socket| socket.local == peer && socket.remote == ours)?
        .inode;
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
    fn the_kernels_tables_are_read() {
        let line =
            "   2: 0100007F:92E4 0403C87F:1E07 01 00000000:00000000 00:00000000 00000000  0  0 249542 2 0 20";
        if cfg!(target_endian = "little") {
            let expected = Socket {
                local: SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 1), 0x92E4),
                remote: SocketAddrV4::new(Ipv4Addr::new(127, 200, 3, 4), 7687),
                listens: false,
                inode: 249_542,
            };
            assert_eq!(socket(line), Some(expected));
        }
        assert_eq!(socket("  sl  local_address rem_address   st"), None);
        assert_eq!(group("12 (a) b) S 1 77 77 0"), Some(77));
        assert_eq!(group(""), None);
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
