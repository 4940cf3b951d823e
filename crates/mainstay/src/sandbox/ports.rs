//! Ports for servers that listen on every address of the machine: free, and of one sandbox alone.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;

/// Nine databases are the most that a cluster has.
const DATABASES: u16 = 9;
/// One port for each of them, and a last one that the sandbox itself holds.
const WIDTH: u16 = DATABASES + 1;
/// Where blocks begin: far from the 10000 of stand-ins, and below the ports that Kubernetes gives to services and Linux
/// to outgoing connections, which come and go.
const BLOCKS: RangeInclusive<u16> = 20_000..=29_990;

/// Ports in a row. They are not listened on: a database does so only while it is a replica. What keeps other sandboxes
/// away meanwhile is the last port of the block, which is held as long as this lives.
pub(crate) struct Block {
    base: u16,
    _held: TcpListener,
}

impl Block {
    /// The first block in which nobody listens, at any address; `None`: there is none.
    pub(crate) fn find() -> Option<Self> {
        BLOCKS.step_by(usize::from(WIDTH)).find_map(Self::at)
    }

    fn at(base: u16) -> Option<Self> {
        let last = base.checked_add(DATABASES)?;
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, last)).ok()?;
        let is_free = |port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
        (base..last).all(is_free).then_some(Self { base, _held: held })
    }

    /// The port of the first database; the others follow.
    pub(crate) fn base(&self) -> u16 {
        self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_have_the_same_ports_although_nobody_listens_on_them_yet() {
        let (one, other) = (Block::find().unwrap(), Block::find().unwrap());
        assert!(one.base().abs_diff(other.base()) >= WIDTH);
        for port in one.base()..one.base() + DATABASES {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
        }
    }

    #[test]
    fn a_block_is_not_taken_while_somebody_listens_on_one_of_its_ports_at_any_address() {
        // Elsewhere than the blocks of sandboxes that may start meanwhile.
        let mut elsewhere = (30_000..=32_700).step_by(usize::from(WIDTH));
        let base = elsewhere.find_map(Block::at).unwrap().base();
        for address in [[127, 9, 8, 7], [127, 0, 0, 1], [0, 0, 0, 0]] {
            let somebody = TcpListener::bind((Ipv4Addr::from(address), base + 1)).unwrap();
            assert!(Block::at(base).is_none(), "{address:?}");
            drop(somebody);
            assert!(Block::at(base).is_some(), "{address:?}");
        }
    }
}
