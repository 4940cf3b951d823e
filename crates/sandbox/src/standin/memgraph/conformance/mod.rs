//! One list for both: what the operator relies on, asked of a stand-in or of a
//! real server.

mod assumptions;
mod cluster;
mod crashes;
mod items;
mod replication;

pub use items::{Item, Verdict};

use super::process::Program;
use cluster::{Cluster, Trouble};
use sim::memgraph::instance::Profile;
use std::path::Path;

/// Whom to ask, and how.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The program.
    pub program: Program,
    /// The release it is, or imitates.
    pub profile: Profile,
    /// What to multiply real times with; 1 for a real server.
    pub scale: f64,
}

/// Runs one item on three fresh servers, with their data below `folder`.
pub async fn check(subject: &Subject, item: Item, folder: &Path) -> Verdict {
    let mut cluster = match Cluster::start(subject, folder).await {
        Ok(cluster) => cluster,
        Err(trouble) => return Verdict::Different(format!("the servers did not start: {trouble}")),
    };
    match items::perform(item, &mut cluster).await {
        Ok(()) => Verdict::Confirmed,
        Err(Trouble::NotTestable(why)) => Verdict::NotTestable(why),
        Err(trouble) => Verdict::Different(trouble.to_string()),
    }
}
