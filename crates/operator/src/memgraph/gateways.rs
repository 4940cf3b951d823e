//! The registered gateways, by their Leases, and what they answered to pushes.

use super::cluster::Cluster;
use super::processes::Processes;
use crate::call::{CallError, bounded};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::ListParams;
use mainstay_core::memgraph::ids::{GatewayId, Revision, Term};
use mainstay_core::memgraph::objects::{CLUSTER_LABEL, Confirmation, Heard, ROLE_LABEL};
use mainstay_core::memgraph::observed::Gateway;
use mainstay_core::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a gateway's Lease is labelled with.
pub const GATEWAY_ROLE: &str = "gateway";

/// One registered gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The name of its Lease.
    pub lease: String,
    /// What it confirmed. One that cannot be read has confirmed nothing.
    pub confirmed: Confirmation,
    /// Where it takes pushes.
    pub push: Option<String>,
    /// When it last wrote its Lease, by its own clock.
    pub renewed: Option<Time>,
}

/// A gateway renews its Lease every ten seconds. One that has not for this long cannot reach the API, or is gone; it is
/// told of, and nothing else comes of it: it may go on forwarding.
const SILENT: Duration = Duration::from_secs(30);

impl Registered {
    /// Does it not reach the API?
    pub fn is_silent(&self, now: Time) -> bool {
        self.renewed.is_none_or(|at| now.since(at) > SILENT)
    }
}

/// Reads who is registered, from the store itself: one that a cache does not know yet may already forward.
pub async fn read(cluster: &Cluster) -> Result<Vec<Registered>, CallError> {
    let labels = format!("{CLUSTER_LABEL}={},{ROLE_LABEL}={GATEWAY_ROLE}", cluster.name);
    let leases = cluster.leases();
    let listed = bounded(
        cluster.settings.call,
        leases.list(&ListParams::default().labels(&labels)),
    )
    .await?;
    let mut found = listed.items;
    found.sort_by_key(|lease| (lease.creation_timestamp().map(|at| at.0), lease.name_any()));
    Ok(found.iter().map(registered).collect())
}

fn registered(lease: &Lease) -> Registered {
    let read = Confirmation::read(lease.annotations());
    let (confirmed, push) = match read {
        Ok((confirmed, push)) => (confirmed, Some(push)),
        Err(error) => {
            tracing::warn!(lease = lease.name_any(), %error, "a gateway's confirmation cannot be read");
            let nothing = Confirmation {
                term: Term(0),
                revision: Revision(0),
                heard: None,
            };
            (nothing, None)
        }
    };
    Registered {
        lease: lease.name_any(),
        confirmed,
        push,
        renewed: renewed(lease),
    }
}

fn renewed(lease: &Lease) -> Option<Time> {
    let at = lease.spec.as_ref()?.renew_time.as_ref()?;
    u64::try_from(at.0.as_millisecond()).ok().map(Time)
}

/// What gateways answered to pushes. An answer is a confirmation, and may be newer than the Lease.
#[derive(Clone, Debug, Default)]
pub struct Answers(BTreeMap<String, Confirmation>);

impl Answers {
    /// A gateway answered.
    pub fn note(&mut self, lease: &str, confirmed: Confirmation) {
        self.0.insert(lease.to_owned(), confirmed);
    }

    /// Forgets those that are not registered any more: one that registers again under the name is another.
    pub fn keep(&mut self, registered: &[Registered]) {
        self.0
            .retain(|lease, _| registered.iter().any(|r| r.lease == *lease));
    }

    /// What the decisions take.
    pub fn merge(&self, registered: &[Registered], processes: &Processes) -> Vec<Gateway> {
        let merged = registered.iter().zip(0_u32..).map(|(gateway, number)| {
            let answer = self.0.get(&gateway.lease);
            let said = [Some(&gateway.confirmed), answer];
            let newest = said
                .into_iter()
                .flatten()
                .max_by_key(|c| (c.term, c.revision))
                .unwrap_or(&gateway.confirmed);
            let heard = said
                .into_iter()
                .flatten()
                .filter_map(|c| c.heard.as_ref())
                .max_by_key(|heard| heard.at_ms);
            Gateway {
                id: GatewayId(number),
                term: newest.term,
                revision: newest.revision,
                heard: heard.and_then(|Heard { run_id, at_ms }| {
                    processes.by_run(run_id).map(|process| (Time(*at_ms), process))
                }),
            }
        });
        merged.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confirmation(term: u64, revision: u64) -> Confirmation {
        Confirmation {
            term: Term(term),
            revision: Revision(revision),
            heard: None,
        }
    }

    fn gateway(lease: &str, term: u64, revision: u64) -> Registered {
        Registered {
            lease: lease.to_owned(),
            confirmed: confirmation(term, revision),
            push: None,
            renewed: None,
        }
    }

    #[test]
    fn a_gateway_that_does_not_renew_its_lease_is_silent_and_not_one_that_is_ahead() {
        let at = |ms| Registered {
            renewed: Some(Time(ms)),
            ..gateway("a", 1, 1)
        };
        let now = Time(100_000);
        for fresh in [at(70_000), at(100_000), at(105_000)] {
            assert!(!fresh.is_silent(now), "{fresh:?}");
        }
        for old in [at(69_999), gateway("a", 1, 1)] {
            assert!(old.is_silent(now), "{old:?}");
        }
    }

    #[test]
    fn the_newer_of_lease_and_answer_counts_and_only_for_who_is_registered() {
        let mut answers = Answers::default();
        answers.note("a", confirmation(2, 9));
        answers.note("b", confirmation(1, 1));
        answers.note("gone", confirmation(7, 7));
        let registered = [gateway("a", 2, 8), gateway("b", 2, 3)];
        answers.keep(&registered);
        let merged = answers.merge(&registered, &Processes::default());
        let shown: Vec<_> = merged.iter().map(|g| (g.term.0, g.revision.0)).collect();
        assert_eq!(shown, [(2, 9), (2, 3)]);
        assert_eq!(answers.0.len(), 2);
    }

    #[test]
    fn a_lease_that_cannot_be_read_has_confirmed_nothing() {
        let read = registered(&Lease::default());
        assert_eq!((read.confirmed, read.push), (confirmation(0, 0), None));
    }
}
