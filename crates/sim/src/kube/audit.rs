//! What service accounts asked for, and whether they were let: the log by which rights are judged.

use std::collections::BTreeMap;

/// One verb on one kind, by one account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    /// `get`, `list`, `watch`, ...
    pub verb: String,
    /// Empty for the first kinds of Kubernetes.
    pub group: String,
    /// `pods` or `pods/log`.
    pub resource: String,
    /// Empty for all of them.
    pub namespace: String,
}

/// How often it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Let.
    pub allowed: u64,
    /// Refused.
    pub refused: u64,
}

/// All of it, by who and what.
pub type Audit = BTreeMap<Asked, Times>;
