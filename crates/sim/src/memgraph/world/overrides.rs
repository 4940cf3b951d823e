//! What a human accepts to lose by naming a MAIN.

use super::state::{Chosen, State};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::record::{Candidate, Override};
use mainstay_core::time::Time;

impl State {
    /// A human makes this pod MAIN, and has seen what it holds.
    pub(super) fn choose(&mut self, pod: u8) {
        self.budget.overrides = self.budget.overrides.saturating_sub(1);
        self.overriding = Some(Override {
            pod: Ordinal(pod),
            // Never over, and another one each time.
            until: Time(u64::MAX - u64::from(self.budget.overrides)),
        });
        self.chosen = self.pod(pod).map(|p| Chosen {
            pod,
            held: p.db.store().writes.clone(),
            accepted: None,
        });
    }

    /// The pod that a human chose takes the office: what it lacks now and lacked when it was chosen is lost by the
    /// human's word, once in each term that is begun for it. What it held then, and what is acknowledged from now
    /// on, must still be kept.
    pub(super) fn accept_loss(&mut self, pod: u8) {
        let Some(term) = self.record.as_ref().and_then(|r| {
            let forced = |c: &&Candidate| c.pod == Ordinal(pod) && c.forced.is_some();
            r.candidate.as_ref().filter(forced).map(|_| r.term)
        }) else {
            return;
        };
        let Some(holds) = self.pod(pod).map(|p| p.db.store().writes.clone()) else {
            return;
        };
        let new = |c: &&mut Chosen| c.pod == pod && c.accepted != Some(term);
        if let Some(chosen) = self.chosen.as_mut().filter(new) {
            chosen.accepted = Some(term);
            let held = chosen.held.clone();
            self.acked
                .retain(|write| holds.contains(write) || held.contains(write));
        }
    }
}
