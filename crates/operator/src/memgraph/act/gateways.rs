//! Pushing the record to gateways, so that a slow API server does not slow a failover (G4).

use super::Actor;
use crate::http::client::post;
use futures::future::join_all;
use mainstay_core::memgraph::ids::Revision;
use mainstay_core::memgraph::objects::Confirmation;
use mainstay_core::memgraph::turn::Outcome;

/// Where a gateway takes pushes.
const PUSH_PATH: &str = "/v1/record";

impl Actor<'_> {
    /// To every registered gateway at once. One that does not answer is no reason to stop: the fence is.
    pub(super) async fn push(&mut self, revision: Revision) -> Outcome {
        let document = self.look.stored.document.as_ref();
        let Some(document) = document.filter(|d| d.record.revision == revision) else {
            return Outcome::Refused;
        };
        // What the ConfigMap says, word for word.
        let keys = document.data().ok();
        let Some(body) = keys.and_then(|keys| serde_json::to_string(&keys).ok()) else {
            return Outcome::Refused;
        };
        let patience = self.cluster.settings.poll * 10;
        let (token, tap) = (self.token, &self.cluster.settings.tap);
        let pushes = self.look.gateways.iter().filter_map(|gateway| {
            let address = gateway.push.as_deref()?;
            let body = body.clone();
            Some(async move {
                let answer = post(address, PUSH_PATH, token, body, patience);
                let answer = tap.around(format!("push to {}", gateway.lease), answer).await;
                (gateway.lease.clone(), answer)
            })
        });
        let answers = join_all(pushes).await;
        let mut all = answers.len() == self.look.gateways.len();
        for (lease, answer) in answers {
            let confirmed = answer.and_then(|text| Ok(serde_json::from_str::<Confirmation>(&text)?));
            match confirmed {
                Ok(confirmed) => self.remembered.answers.note(&lease, confirmed),
                Err(error) => {
                    tracing::info!(lease, %error, "a gateway did not take the record");
                    all = false;
                }
            }
        }
        if all { Outcome::Done } else { Outcome::Refused }
    }
}
