//! Notifications and summaries.

use super::graph::Index;
use super::query::Stats;
use bolt::packstream::{OwnedDict, OwnedValue, Value};
use std::borrow::Cow;

/// A summary entry by entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    entries: OwnedDict,
    notifications: Vec<OwnedValue>,
}

impl Summary {
    /// What every last page says.
    pub(super) fn new(kind: &'static str) -> Self {
        let mut summary = Self::default();
        summary.put("type", Value::from(kind));
        summary.put("db", Value::from("memgraph"));
        // A clock would only make answers differ.
        for time in ["parsing_time", "planning_time"] {
            summary.put(time, Value::Float(0.0001));
        }
        summary.put("cost_estimate", Value::Float(0.0));
        summary
    }

    /// What a query on the graph adds.
    #[must_use]
    pub(super) fn with_plan(mut self) -> Self {
        self.put("plan_execution_time", Value::Float(0.0001));
        self.put("number_of_hops", Value::Int(0));
        self
    }

    /// What a query that changes the graph adds.
    #[must_use]
    pub(super) fn with_stats(mut self, stats: Stats) -> Self {
        let Stats {
            created,
            deleted,
            labels,
            properties,
        } = stats;
        if stats == Stats::default() {
            return self;
        }
        let entries = [
            ("nodes-created", created),
            ("nodes-deleted", deleted),
            ("relationships-created", 0),
            ("relationships-deleted", 0),
            ("properties-set", properties),
            ("labels-added", labels),
            ("labels-removed", 0),
        ];
        let stats = entries
            .into_iter()
            .map(|(key, value)| (Cow::Borrowed(key), Value::Int(value)))
            .collect();
        self.put("stats", Value::Dict(stats));
        self
    }

    /// One more thing for people.
    #[must_use]
    pub(super) fn with_note(mut self, code: &'static str, title: impl Into<String>) -> Self {
        self.note("INFO", code, title.into());
        self
    }

    /// A SYNC replica did not confirm, and the release calls that a warning.
    pub(super) fn warn(&mut self, title: String) {
        self.note("WARNING", "SyncReplicationFailure", title);
    }

    fn note(&mut self, severity: &'static str, code: &'static str, title: String) {
        self.notifications.push(Value::Dict(
            [
                ("severity", Value::from(severity)),
                ("code", Value::from(code)),
                ("title", Value::from(title)),
                ("description", Value::from("")),
            ]
            .into_iter()
            .map(|(key, value)| (Cow::Borrowed(key), value))
            .collect(),
        ));
    }

    fn put(&mut self, key: &'static str, value: OwnedValue) {
        self.entries.insert(Cow::Borrowed(key), value);
    }

    /// The metadata of the last page.
    pub(super) fn metadata(self) -> OwnedDict {
        let Self {
            mut entries,
            notifications,
        } = self;
        if !notifications.is_empty() {
            entries.insert(Cow::Borrowed("notifications"), Value::List(notifications));
        }
        entries
    }
}

/// What the planner says about a filter without an index.
pub(super) fn hint(symbol: &str, labels: &[String], properties: &[String]) -> String {
    let labels: Vec<String> = labels.iter().map(|label| format!(":{label}")).collect();
    if properties.is_empty() {
        return format!(
            "Sequential scan will be used on symbol `{symbol}` although there is a filter on labels {}. \
             Consider creating a label index.",
            labels.join(", ")
        );
    }
    format!(
        "Sequential scan will be used on symbol `{symbol}` although there is a filter on labels {} and \
         properties {}. Consider creating a label-property index.",
        labels.join(", "),
        properties.join(", ")
    )
}

/// `Created index on label W on properties id.`
pub(super) fn index_title(verb: &str, index: &Index) -> String {
    format!(
        "{verb} index on label {} on properties {}.",
        index.label,
        index.properties.join(", ")
    )
}
