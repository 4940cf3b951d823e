//! Wall-clock time as the server writes it into names and rows, and random ids.

use jiff::Timestamp;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment, as names and rows have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp(Timestamp);

impl Stamp {
    pub(super) fn now() -> Self {
        Self(Timestamp::try_from(SystemTime::now()).unwrap_or_default())
    }

    /// As in the name of a log or snapshot file: sorts by time.
    pub(super) fn for_file(self) -> String {
        self.0.strftime("%Y%m%d%H%M%S%6f").to_string()
    }

    /// As in a row of `SHOW SNAPSHOTS`.
    pub(super) fn for_row(self) -> String {
        self.0.strftime("%Y-%m-%dT%H:%M:%S.%6f+0000").to_string()
    }
}

/// A random number. The keys of std's hasher are random per process and
/// differ per call, which is all that an id in a test needs.
pub(super) fn random() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u128(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos(),
    );
    hasher.finish()
}

/// A random number that is never zero, small enough for the model's ids.
pub(super) fn random_id() -> u32 {
    u32::try_from(random() >> 32).unwrap_or(1).max(1)
}

/// The UUID that stands for a small id of the model: the same on every node.
pub(super) fn uuid_of(id: u32) -> String {
    let mix = |seed: u64| {
        // splitmix64
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    uuid(mix(u64::from(id)), mix(u64::from(id) ^ u64::MAX))
}

/// A random UUID.
pub(super) fn random_uuid() -> String {
    uuid(random(), random())
}

fn uuid(high: u64, low: u64) -> String {
    let (high, low) = (high & !0xf000 | 0x4000, low & !(0b11 << 62) | 0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_as_a_real_server_writes_it() {
        let stamp = |text: &str| Stamp(text.parse().unwrap());
        let leap = stamp("2000-02-29T23:59:58.000007Z");
        assert_eq!(leap.for_file(), "20000229235958000007");
        assert_eq!(leap.for_row(), "2000-02-29T23:59:58.000007+0000");
        assert_eq!(stamp("1970-01-01T00:00:00Z").for_file(), "19700101000000000000");
    }

    #[test]
    fn an_id_has_one_uuid_on_every_node() {
        assert_eq!(uuid_of(7), uuid_of(7));
        assert_ne!(uuid_of(7), uuid_of(8));
        assert_eq!(uuid_of(7).len(), 36);
        assert_eq!(uuid_of(7).as_bytes()[14], b'4');
    }
}
