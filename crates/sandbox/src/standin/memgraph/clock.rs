//! Wall-clock time as the server writes it into names and rows, and random ids.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment, cut into what a name needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    year: i64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    micros: u32,
}

impl Stamp {
    pub(super) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = civil(days);
        Self {
            year,
            month,
            day,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            micros: since.subsec_micros(),
        }
    }

    /// As in the name of a log or snapshot file: sorts by time.
    pub(super) fn for_file(self) -> String {
        let Self {
            year,
            month,
            day,
            hour,
            minute,
            second,
            micros,
        } = self;
        format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}{micros:06}")
    }

    /// As in a row of `SHOW SNAPSHOTS`.
    pub(super) fn for_row(self) -> String {
        let Self {
            year,
            month,
            day,
            hour,
            minute,
            second,
            micros,
        } = self;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+0000")
    }
}

/// Days since 1970 as year, month and day (Howard Hinnant's algorithm).
fn civil(days: u64) -> (i64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (i64::try_from(year).unwrap_or(i64::MAX), month, day)
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
    fn a_day_has_its_date() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_773), (2026, 11, 16));
    }

    #[test]
    fn an_id_has_one_uuid_on_every_node() {
        assert_eq!(uuid_of(7), uuid_of(7));
        assert_ne!(uuid_of(7), uuid_of(8));
        assert_eq!(uuid_of(7).len(), 36);
        assert_eq!(uuid_of(7).as_bytes()[14], b'4');
    }
}
