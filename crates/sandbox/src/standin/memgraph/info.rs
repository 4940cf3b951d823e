//! Everything that begins with SHOW.

use super::clock::uuid_of;
use super::node::{Core, Node};
use super::query::{Scope, Show};
use super::texts;
use bolt::message::Failure;
use bolt::packstream::{OwnedValue, Value};
use sim::memgraph::instance::{Mode, Profile, Role, Status};
use std::borrow::Cow;

type Rows = Vec<Vec<OwnedValue>>;

/// The columns of each.
pub(super) const fn columns(show: Show) -> &'static [&'static str] {
    match show {
        Show::Replicas => &["name", "socket_address", "sync_mode", "system_info", "data_info"],
        Show::Role => &["replication role"],
        Show::Version => &["version"],
        Show::Storage(_) => &["storage info", "value"],
        Show::License => &["license info", "value"],
        Show::Build => &["build info", "value"],
        Show::Config => &["name", "default_value", "current_value", "description"],
        Show::Indexes => &["index type", "label", "property", "count"],
        Show::Snapshots => &["path", "timestamp", "creation_time", "size"],
        Show::Users => &["user"],
        Show::Enums => &["Enum Name", "Enum Values"],
        Show::Triggers => &["trigger name", "statement", "event type", "phase", "owner"],
    }
}

fn text(text: impl Into<String>) -> OwnedValue {
    Value::from(text.into())
}

fn pairs<const N: usize>(rows: [(&'static str, OwnedValue); N]) -> Rows {
    rows.into_iter()
        .map(|(key, value)| vec![Value::from(key), value])
        .collect()
}

impl Node {
    pub(super) async fn show(&self, show: Show) -> Result<Rows, Failure<'static>> {
        match show {
            // Cached, so a hanging commit does not matter; a registration does.
            Show::Replicas | Show::Role => {
                let _state = self.state.read().await;
                self.show_state(show)
            }
            // These begin a storage transaction.
            Show::Storage(_) | Show::Indexes | Show::Enums => {
                let _engine = self.engine.lock().await;
                self.show_state(show)
            }
            _ => self.show_state(show),
        }
    }

    fn show_state(&self, show: Show) -> Result<Rows, Failure<'static>> {
        let core = self.core();
        Ok(match show {
            Show::Replicas => replicas(&core)?,
            Show::Role => vec![vec![Value::from(match core.model.role() {
                Role::Main => "main",
                Role::Replica => "replica",
            })]],
            Show::Version => vec![vec![Value::from(texts::version(self.config.profile))]],
            Show::Storage(scope) => storage(&core, self.config.profile, scope),
            Show::License => license(self.config.profile),
            Show::Build => pairs([("build_type", Value::from("Release"))]),
            Show::Config => self
                .config
                .given
                .iter()
                .map(|(name, value)| vec![text(name.replace('-', "_")), text(""), text(value), text("")])
                .collect(),
            Show::Indexes => indexes(&core),
            Show::Snapshots => snapshots(&core)?,
            Show::Users => core.users.keys().map(|name| vec![text(name)]).collect(),
            Show::Enums => core
                .model
                .store()
                .0
                .enums
                .iter()
                .map(|(name, values)| vec![text(name), Value::List(values.iter().map(text).collect())])
                .collect(),
            Show::Triggers => core
                .triggers
                .iter()
                .map(|(name, trigger)| {
                    vec![
                        text(name),
                        text(&trigger.statement),
                        text(&trigger.event),
                        text(&trigger.phase),
                        Value::Null,
                    ]
                })
                .collect(),
        })
    }
}

fn replicas(core: &Core) -> Result<Rows, Failure<'static>> {
    let shown = core
        .model
        .show_replicas()
        .map_err(|_| Failure::client("Show replicas query should only be run on the main instance."))?;
    Ok(shown
        .map(|entry| {
            let info = entry.info.map(|info| {
                let status = match info.status {
                    Status::Ready => "ready",
                    Status::Replicating => "replicating",
                    Status::Recovery => "recovery",
                    Status::Invalid => "invalid",
                    Status::Diverged => "diverged",
                };
                let database = [
                    (Cow::Borrowed("ts"), Value::Int(i64::from(info.ts.0))),
                    (Cow::Borrowed("behind"), Value::Int(info.behind)),
                    (Cow::Borrowed("status"), Value::from(status)),
                ];
                (Cow::Borrowed("memgraph"), Value::Dict(database.into()))
            });
            vec![
                text(core.name(entry.name)),
                text(
                    core.address(entry.peer)
                        .map_or_else(String::new, |a| a.to_string()),
                ),
                Value::from(match entry.mode {
                    Mode::Async => "async",
                    Mode::Sync => "sync",
                    Mode::StrictSync => "strict_sync",
                }),
                Value::Null,
                Value::Dict(info.into_iter().collect()),
            ]
        })
        .collect())
}

/// Sizes are made up: nobody should read them.
fn storage(core: &Core, profile: Profile, scope: Scope) -> Rows {
    let name = ("name", text("memgraph"));
    let uuid = ("database_uuid", text(uuid_of(core.database().0)));
    let vertices = core.model.store().0.vertices.len();
    let vertices = (
        "vertex_count",
        Value::Int(i64::try_from(vertices).unwrap_or(i64::MAX)),
    );
    let edges = ("edge_count", Value::Int(0));
    let degree = ("average_degree", Value::Float(0.0));
    let deltas = ("unreleased_delta_objects", Value::Int(0));
    let size = || text("64.00KiB");
    match (profile, scope) {
        (Profile::V3_6 | Profile::V3_9, _) => pairs([
            name,
            uuid,
            vertices,
            edges,
            degree,
            ("vm_max_map_count", Value::Int(65_530)),
            ("memory_res", size()),
            ("peak_memory_res", size()),
            deltas,
            ("disk_usage", size()),
            ("memory_tracked", text("0B")),
            ("allocation_limit", size()),
            ("global_isolation_level", text("SNAPSHOT_ISOLATION")),
            ("session_isolation_level", text("")),
            ("next_session_isolation_level", text("")),
            ("storage_mode", text("IN_MEMORY_TRANSACTIONAL")),
        ]),
        (Profile::V3_12 | Profile::Next, Scope::Instance) => pairs([
            ("vm_max_map_count", Value::Int(65_530)),
            ("memory_res", size()),
            ("peak_memory_res", size()),
            ("disk_usage", size()),
            ("memory_tracked", text("0B")),
            ("memory_limit", size()),
            ("license_memory_limit", text("unlimited")),
            ("query+graph_memory_tracked", text("0B")),
            ("vector_index_memory_tracked", text("0B")),
            ("global_isolation_level", text("SNAPSHOT_ISOLATION")),
            ("session_isolation_level", text("")),
            ("next_session_isolation_level", text("")),
            ("global_storage_mode", text("IN_MEMORY_TRANSACTIONAL")),
        ]),
        (Profile::V3_12 | Profile::Next, Scope::Database) => pairs([
            name,
            uuid,
            ("state", text("HOT")),
            ("storage_mode", text("IN_MEMORY_TRANSACTIONAL")),
            vertices,
            edges,
            degree,
            deltas,
            ("disk_usage", size()),
            ("graph_memory_tracked", text("0B")),
            ("query_memory_tracked", size()),
            ("vector_index_memory_tracked", text("0B")),
            ("tenant_memory_tracked", size()),
            ("tenant_peak_memory_tracked", size()),
            ("tenant_memory_limit", size()),
            ("storage_isolation_level", text("SNAPSHOT_ISOLATION")),
            ("health", text("ready")),
        ]),
    }
}

fn license(profile: Profile) -> Rows {
    let mut rows = pairs([
        ("organization_name", text("")),
        ("license_key", text("")),
        ("is_valid", Value::Bool(false)),
        ("license_type", text("")),
        ("valid_until", text("")),
        ("memory_limit", text("UNLIMITED")),
        ("status", text("You have not provided any license!")),
    ]);
    if matches!(profile, Profile::V3_12 | Profile::Next) {
        rows.extend(pairs([(
            "memory_limit_policy",
            text("Memory usage is not limited."),
        )]));
    }
    rows
}

fn indexes(core: &Core) -> Rows {
    let content = &core.model.store().0;
    content
        .indexes
        .iter()
        .map(|index| {
            let (kind, properties) = if index.properties.is_empty() {
                ("label", Value::Null)
            } else {
                let properties = index.properties.iter().map(text).collect();
                ("label+property", Value::List(properties))
            };
            let count = i64::try_from(content.indexed(index)).unwrap_or(i64::MAX);
            vec![
                Value::from(kind),
                text(&index.label),
                properties,
                Value::Int(count),
            ]
        })
        .collect()
}

fn snapshots(core: &Core) -> Result<Rows, Failure<'static>> {
    let rows = core
        .disk
        .snapshot_rows()
        .map_err(|error| Failure::transient(error.to_string()))?;
    Ok(rows
        .into_iter()
        .map(|row| {
            vec![
                text(row.path.to_string_lossy()),
                Value::Int(row.ts),
                text(row.created),
                text(format!("{}B", row.size)),
            ]
        })
        .collect())
}
