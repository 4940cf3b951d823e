//! The form of a distilled recording.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
pub(super) struct Step {
    /// Its number in the recording.
    pub(super) n: u32,
    /// When it began, in milliseconds.
    pub(super) t: u64,
    /// How long it took.
    pub(super) d: u64,
    #[serde(default)]
    pub(super) node: String,
    #[serde(flatten)]
    pub(super) deed: Deed,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Deed {
    Start {
        flags: Vec<String>,
        #[serde(default)]
        init: Option<String>,
        #[serde(default)]
        env: BTreeMap<String, String>,
    },
    Open,
    Signal {
        signal: String,
    },
    Ended {
        code: i32,
    },
    Wipe {
        folders: Vec<String>,
    },
    Save,
    Restore,
    Cut,
    Heal,
    Swallow {
        rpc: String,
    },
    Mend,
    /// A recovery does not end while this is played.
    SlowRecovery,
    /// Somebody else takes the replication port.
    Occupy,
    /// So many writes.
    Load {
        count: u32,
    },
    FirstRole {
        see: Option<String>,
    },
    Login {
        auth: BTreeMap<String, String>,
        see: String,
    },
    Ask {
        query: String,
        #[serde(default)]
        params: BTreeMap<String, Value>,
        see: Value,
        /// A ping may have come first.
        #[serde(default)]
        soon: bool,
    },
    Poll {
        query: String,
        see: Value,
        polled: u64,
        #[serde(default)]
        held: bool,
    },
    Transaction {
        replies: Vec<(String, Value)>,
    },
    Begin {
        query: String,
        see: Option<Value>,
    },
    Commit {
        see: Value,
    },
}

impl Step {
    pub(super) fn describe(&self) -> String {
        match &self.deed {
            Deed::Ask { query, .. } | Deed::Poll { query, .. } | Deed::Begin { query, .. } => {
                format!("{}: {query}", self.node)
            }
            other => {
                let text = format!("{other:?}");
                let end = text.char_indices().nth(90).map_or(text.len(), |(at, _)| at);
                format!("{}: {}", self.node, text.get(..end).unwrap_or_default())
            }
        }
    }
}
