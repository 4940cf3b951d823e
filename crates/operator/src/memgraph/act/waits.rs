//! Steps that wait: for a fence, or for gateways. Each look asks the lease again.

use super::{Acted, Actor};
use crate::clock::{draw, wall};
use crate::memgraph::gateways;
use crate::memgraph::observe::look_at_pods;
use crate::memgraph::pods::Workload;
use crate::memgraph::probe::Depth;
use mainstay_core::memgraph::observed::Observed;
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::spec::FenceTimeout;
use mainstay_core::memgraph::turn::{Outcome, awaited, confirmed, fence_patience};
use std::time::Instant;

impl Actor<'_> {
    pub(super) async fn wait_for(&mut self, step: &Step, acted: &mut Acted) -> Outcome {
        let settings = self.cluster.settings.clone();
        let patience = match step {
            Step::AwaitFence { otherwise, .. } => {
                let written = self.look.stored.document.as_ref();
                written.map_or(settings.fence, |document| {
                    fence_patience(&document.record, *otherwise, settings.fence, wall())
                })
            }
            // A planned move waits for running transactions too.
            _ => settings.gateways.max(self.look.observed.spec.drain),
        };
        let began = Instant::now();
        loop {
            if self.permit.check(settings.probe + settings.call).is_err() {
                return Outcome::Unknown;
            }
            if self
                .look_again(false)
                .await
                .is_some_and(|seen| confirmed(step, &seen))
            {
                return Outcome::Done;
            }
            let fence = matches!(step, Step::AwaitFence { .. });
            if fence
                && self
                    .look_again(true)
                    .await
                    .is_some_and(|seen| awaited(step, &seen))
            {
                return Outcome::Done;
            }
            if began.elapsed() >= patience {
                break;
            }
            tokio::time::sleep(settings.poll).await;
        }
        match step {
            Step::AwaitFence {
                otherwise: FenceTimeout::Proceed,
                ..
            } => {
                tracing::warn!(cluster = %self.cluster.name, "the old MAIN could not be fenced: promoting all the same, as policy says");
                acted.unfenced = true;
                Outcome::Done
            }
            _ => Outcome::Refused,
        }
    }

    /// Gateways always; pods only where a fence may come from them.
    async fn look_again(&mut self, pods: bool) -> Option<Observed> {
        let read_at = wall();
        let read = Instant::now();
        let registered = gateways::read(self.cluster).await.ok()?;
        self.remembered.answers.keep(&registered);
        let mut seen = self.look.observed.clone();
        seen.read_at = read_at;
        seen.turn = draw();
        if pods {
            // What was seen before the term was written is no fence of it.
            let workload = Workload::read(self.cluster).await.ok()?;
            let spec = seen.spec;
            seen.pods = look_at_pods(self.cluster, &workload, spec, self.remembered, read, Depth::Role).await;
        }
        seen.gateways = self
            .remembered
            .answers
            .merge(&registered, &self.remembered.processes);
        self.look.gateways = registered;
        Some(seen)
    }
}
