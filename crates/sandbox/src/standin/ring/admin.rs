//! What can be broken, and rows that are written and counted.

use mainstay_core::ring::ids::Address;
use std::collections::BTreeSet;

/// What is broken now.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// It neither sends nor hears gossip.
    pub(super) pause_gossip: bool,
    /// The REST interface does not answer.
    pub(super) freeze_api: bool,
    /// The next stream fails.
    pub(super) fail_stream: bool,
    /// It does not talk to these.
    pub(super) dropped: BTreeSet<Address>,
}

impl Faults {
    /// Orders a fault by its name, or takes it back; `false` if there is none of this name.
    pub(super) fn order(&mut self, name: &str, on: bool) -> bool {
        match name {
            "pause_gossip" => self.pause_gossip = on,
            "freeze_api" => self.freeze_api = on,
            "fail_stream" => self.fail_stream = on,
            _ => return self.drop_peer(name, on),
        }
        true
    }

    /// `drop:ADDRESS`.
    fn drop_peer(&mut self, name: &str, on: bool) -> bool {
        let Some(peer) = name.strip_prefix("drop:").and_then(|text| text.parse().ok()) else {
            return false;
        };
        if on {
            self.dropped.insert(peer)
        } else {
            self.dropped.remove(&peer)
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_ordered_by_name_and_taken_back() {
        let mut faults = Faults::default();
        assert!(faults.order("pause_gossip", true) && faults.pause_gossip);
        assert!(faults.order("drop:10.0.0.1", true) && faults.dropped.len() == 1);
        assert!(faults.order("drop:10.0.0.1", false) && faults.dropped.is_empty());
        assert!(!faults.order("drop:nobody", true) && !faults.order("x", true));
    }
}
