//! Words for what people ask for.

use super::cluster::{Situation, process};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::observed::{Approval, Wishes};
use mainstay_core::memgraph::record::Override;
use mainstay_core::time::Time;

impl Situation {
    pub(crate) fn wish(self, change: impl FnOnce(&mut Wishes)) -> Self {
        self.with(|s| change(&mut s.seen.wishes))
    }

    /// A human makes this pod MAIN.
    pub(crate) fn overrides(self, pod: u8, until: Time) -> Self {
        let pod = Ordinal(pod);
        self.wish(|w| w.override_main = Some(Override { pod, until }))
    }

    /// A human looked at the first process of this pod and approves its reset.
    pub(crate) fn approves(self, pod: u8) -> Self {
        let approval = Approval {
            pod: Ordinal(pod),
            process: process(pod),
        };
        self.wish(|w| w.approve_reset = Some(approval))
    }
}
