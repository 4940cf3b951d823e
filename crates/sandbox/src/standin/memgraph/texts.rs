//! What the server says about commits that were not confirmed, and which
//! version it is.

use bolt::message::Failure;
use sim::memgraph::instance::{Failure as Unconfirmed, Mode, Profile, Reason, RegistrationName, SyncFailure};
use std::fmt::Write as _;

/// How a commit came about: the code of a failure depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transaction {
    /// RUN and PULL.
    Automatic,
    /// BEGIN and COMMIT.
    Explicit,
}

/// `SHOW VERSION`.
pub(super) const fn version(profile: Profile) -> &'static str {
    match profile {
        Profile::V3_6 => "3.6.2",
        Profile::V3_9 => "3.9.0",
        Profile::V3_12 => "3.12.0",
        Profile::Next => "3.13.0",
    }
}

/// A committed transaction that SYNC replicas did not confirm: a failure, or
/// the title of a warning.
pub(super) fn unconfirmed(
    profile: Profile,
    failures: &[Unconfirmed],
    transaction: Transaction,
    name: impl Fn(RegistrationName) -> String,
) -> Result<String, Failure<'static>> {
    let text = text(profile, failures, false, name);
    match profile.sync_failure() {
        SyncFailure::Warning => Ok(text),
        SyncFailure::Transient if transaction == Transaction::Automatic => Err(Failure::transient(text)),
        SyncFailure::Transient | SyncFailure::Client => Err(Failure::client(text)),
    }
}

/// A transaction that was aborted everywhere.
pub(super) fn aborted(
    profile: Profile,
    failures: &[Unconfirmed],
    transaction: Transaction,
    name: impl Fn(RegistrationName) -> String,
) -> Failure<'static> {
    let text = text(profile, failures, true, name);
    if profile.sync_failure() == SyncFailure::Transient && transaction == Transaction::Automatic {
        Failure::transient(text)
    } else {
        Failure::client(text)
    }
}

fn text(
    profile: Profile,
    failures: &[Unconfirmed],
    aborted: bool,
    name: impl Fn(RegistrationName) -> String,
) -> String {
    match profile {
        Profile::V3_6 | Profile::V3_9 if aborted => "At least one STRICT_SYNC replica has not confirmed \
             committing last transaction. Transaction will be aborted on all instances."
            .to_owned(),
        Profile::V3_6 | Profile::V3_9 => {
            "At least one SYNC replica has not confirmed committing last transaction.".to_owned()
        }
        Profile::V3_12 | Profile::Next => detailed(failures, aborted, name),
    }
}

/// From 3.10 on each replica is named; those with one mode and one reason together.
fn detailed(failures: &[Unconfirmed], aborted: bool, name: impl Fn(RegistrationName) -> String) -> String {
    let mut groups: Vec<((Mode, Reason), Vec<String>)> = Vec::new();
    for failure in failures {
        let key = (failure.mode, failure.reason);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, names)) => names.push(name(failure.name)),
            None => groups.push((key, vec![name(failure.name)])),
        }
    }
    let mut text = "Replication Exception:".to_owned();
    for ((mode, reason), names) in &groups {
        let several = names.len() > 1;
        let mode = match mode {
            Mode::StrictSync => "STRICT_SYNC",
            Mode::Sync => "SYNC",
            Mode::Async => "ASYNC",
        };
        let replicas = if several { "replicas" } else { "replica" };
        let _ = write!(
            text,
            " Failed to replicate to {mode} {replicas} {}: {}. {} will be recovered automatically.",
            listed(names),
            reason_text(*reason, several),
            if several { "Replicas" } else { "Replica" },
        );
    }
    text.push_str(if aborted {
        " Transaction was aborted on all instances."
    } else {
        " Transaction is still committed on the main instance and other alive replicas."
    });
    let late: Vec<String> = groups
        .iter()
        .filter(|((_, reason), _)| *reason == Reason::TimedOut)
        .flat_map(|(_, names)| names.clone())
        .collect();
    if !late.is_empty() {
        let _ = write!(
            text,
            " Main reached an RPC timeout while replicating to [{}]. One possible reason for this error is \
             that the replica is down and in that case make sure to recover it. If all of your replicas are \
             up and running normally, then please try setting a smaller parameter value for \
             'deltas_batch_progress_size' using 'SET COORDINATOR SETTING' query on the coordinator.",
            late.join(", ")
        );
    }
    text.push_str(" Check the status of the replicas using 'SHOW REPLICAS' query.");
    text
}

/// `'a'`, `'a' and 'b'`, `'a', 'b' and 'c'`.
fn listed(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

const fn reason_text(reason: Reason, several: bool) -> &'static str {
    match (reason, several) {
        (Reason::NotInSync, false) => "replica is not reachable or not in sync with the main",
        (Reason::NotInSync, true) => "replicas are not reachable or not in sync with the main",
        (Reason::Rpc, _) => "RPC communication error",
        (Reason::TimedOut, _) => "RPC timeout while replicating",
        (Reason::Diverged, false) => "replica has diverged from main",
        (Reason::Diverged, true) => "replicas have diverged from main",
    }
}

/// Said by several commands in an explicit transaction. The misspellings are the real servers'.
pub(super) fn not_in_transaction(profile: Profile, what: &str) -> String {
    let (known, query) = match profile {
        Profile::V3_6 | Profile::V3_9 => ("knwon", "particular query"),
        Profile::V3_12 | Profile::Next => ("known", "particularquery"),
    };
    format!(
        "{what} not allowed in multicommand transactions. A multicommand transaction, also known as an \
         explicit transaction, groups multiple commands into a single atomic operation. Instead, please use \
         an implicit transaction, also {known} as an auto committing transaction, in order to execute this \
         {query}. For more details, visit https://memgraph.com/docs"
    )
}

/// A write on a replica.
pub(super) const WRITE_ON_REPLICA: &str = "Write queries are forbidden on the replica instance. Replica \
    instances accept only read queries, while the main instance accepts read and write queries. Please \
    retry your query on the main instance.";

/// A change of users on a replica.
pub(super) const USERS_ON_REPLICA: &str = "Query forbidden on the replica! Update on MAIN, as it is the only \
    source of truth for authentication data. MAIN will then replicate the update to connected REPLICAs";

/// A commit after the demotion.
pub(super) const NOT_MAIN_ANY_MORE: &str = "Cannot commit because instance is not main anymore.";

/// A query that runs when the process is told to end.
pub(super) const SHUTDOWN: &str = "Transaction was asked to abort because of database shutdown.";
