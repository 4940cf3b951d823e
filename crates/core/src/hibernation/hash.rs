//! A hash of text: FNV-1a with 128 bits.
//!
//! It finds what was edited by hand or cut short. It is no protection against somebody who wants to deceive: whoever
//! may write the ConfigMap may write the hash, and access control is what keeps them out.

/// The hash of a text.
pub fn of(text: &str) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes()
        .fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(of(""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(of("a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_ne!(of("ab"), of("ba"));
    }
}
