//! What Memgraph shows, as values: rows of `SHOW REPLICAS` and `SHOW STORAGE INFO`.
//!
//! Drivers and versions show the same thing in different forms: a map, the text of a map, nothing at all.
//! Unknown keys and columns are ignored, because versions add them.

mod flow;

use super::ids::{DatabaseId, ParseIdError, RegistrationName};
use super::observed::{Mode, Registration, Status};
use crate::time::Time;
use std::collections::BTreeMap;
use thiserror::Error;

/// A value in a row, without a driver's types.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// Text.
    Text(String),
    /// Several.
    List(Vec<Self>),
    /// By name.
    Map(BTreeMap<String, Self>),
}

/// A row that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RowError {
    /// A column that must be there is not, or is not of its type.
    #[error("column `{0}` is missing or is not of its type")]
    Column(&'static str),
    /// Not one of our names.
    #[error(transparent)]
    Name(#[from] ParseIdError),
    /// A mode that no version has.
    #[error("`{0}` is not a replication mode")]
    Mode(String),
    /// `data_info` has another form than any version gives it.
    #[error("data_info cannot be read at `{0}`")]
    DataInfo(String),
    /// A row of storage info that must be there is not, or is not of its type.
    #[error(
        "storage info has no usable `{0}`; from 3.11 on it is in `SHOW STORAGE INFO ON CURRENT DATABASE`"
    )]
    Storage(&'static str),
}

/// The database that we replicate; others need a licence and are none of our business.
const DATABASE: &str = "memgraph";

/// `data_info` of one registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataInfo {
    /// Empty, null, or only about other databases: listed, and not consulted on commit.
    Detached,
    /// Replicated to.
    Attached {
        /// Cached status.
        status: Shown,
        /// Replica minus MAIN: negative is lag, positive means that MAIN lost its tail.
        behind: i64,
        /// How far the replica is: it moves as long as anything is replicated.
        ts: Option<i64>,
    },
}

/// A status, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// One that we know.
    Known(Status),
    /// A newer version's.
    Unknown(String),
}

impl Shown {
    fn read(text: &str) -> Self {
        Self::Known(match text {
            "ready" => Status::Ready,
            "replicating" => Status::Replicating,
            "recovery" => Status::Recovery,
            "invalid" => Status::Invalid,
            "diverged" => Status::Diverged,
            _ => return Self::Unknown(text.to_owned()),
        })
    }

    /// What it is taken for. Unknown is taken for `recovery`: not level, not an accusation, and the one status
    /// in which nothing is dropped, whatever work may be behind it (R33).
    pub fn status(&self) -> Status {
        match self {
            Self::Known(status) => *status,
            Self::Unknown(_) => Status::Recovery,
        }
    }
}

/// A row of `SHOW REPLICAS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Its name.
    pub name: RegistrationName,
    /// Its address, as it was given.
    pub address: String,
    /// Its mode.
    pub mode: Mode,
    /// How it stands.
    pub info: DataInfo,
}

impl Replica {
    /// Reads a row. `prefix` is the StatefulSet's name with `-` turned into `_`.
    pub fn read(prefix: &str, columns: &[&str], row: &[Cell]) -> Result<Self, RowError> {
        let text = |column| match cell(columns, row, column) {
            Some(Cell::Text(text)) => Ok(text.as_str()),
            _ => Err(RowError::Column(column)),
        };
        Ok(Self {
            name: RegistrationName::parse(prefix, text("name")?)?,
            address: text("socket_address")?.to_owned(),
            mode: mode(text("sync_mode")?)?,
            info: data_info(cell(columns, row, "data_info").ok_or(RowError::Column("data_info"))?)?,
        })
    }

    /// How far the replica is, if MAIN says so.
    pub fn ts(&self) -> Option<i64> {
        match self.info {
            DataInfo::Detached => None,
            DataInfo::Attached { ts, .. } => ts,
        }
    }

    /// The registration, with what only the observer knows: whether the address means the pod that the name
    /// means, since when the status has been so, and when it last moved.
    pub fn registration(&self, address_ok: bool, since: Time, moved: Option<Time>) -> Registration {
        let (attached, status, behind) = match &self.info {
            DataInfo::Detached => (false, Status::Invalid, 0),
            DataInfo::Attached {
                status,
                behind,
                ts: _,
            } => (true, status.status(), *behind),
        };
        Registration {
            name: self.name,
            mode: self.mode,
            address_ok,
            attached,
            status,
            behind,
            since,
            moved,
        }
    }
}

fn cell<'a>(columns: &[&str], row: &'a [Cell], name: &str) -> Option<&'a Cell> {
    row.get(columns.iter().position(|c| *c == name)?)
}

fn mode(text: &str) -> Result<Mode, RowError> {
    match text {
        "async" => Ok(Mode::Async),
        "sync" => Ok(Mode::Sync),
        "strict_sync" => Ok(Mode::StrictSync),
        _ => Err(RowError::Mode(text.to_owned())),
    }
}

/// Reads `data_info`: a map, the text of one, or nothing.
pub fn data_info(cell: &Cell) -> Result<DataInfo, RowError> {
    match cell {
        Cell::Null => Ok(DataInfo::Detached),
        Cell::Map(databases) => of_database(databases),
        Cell::Text(text) => match flow::parse(text) {
            Some(Cell::Map(databases)) => of_database(&databases),
            Some(Cell::Null) => Ok(DataInfo::Detached),
            _ => Err(RowError::DataInfo(text.clone())),
        },
        Cell::Bool(_) | Cell::Int(_) | Cell::Float(_) | Cell::List(_) => {
            Err(RowError::DataInfo(format!("{cell:?}")))
        }
    }
}

fn of_database(databases: &BTreeMap<String, Cell>) -> Result<DataInfo, RowError> {
    let entry = match databases.get(DATABASE) {
        None | Some(Cell::Null) => return Ok(DataInfo::Detached),
        Some(Cell::Map(entry)) => entry,
        Some(_) => return Err(RowError::DataInfo(DATABASE.to_owned())),
    };
    let wrong = |key: &str| RowError::DataInfo(format!("{DATABASE}.{key}"));
    let Some(Cell::Text(status)) = entry.get("status") else {
        return Err(wrong("status"));
    };
    let Some(Cell::Int(behind)) = entry.get("behind") else {
        return Err(wrong("behind"));
    };
    Ok(DataInfo::Attached {
        status: Shown::read(status),
        behind: *behind,
        ts: match entry.get("ts") {
            Some(Cell::Int(ts)) => Some(*ts),
            _ => None,
        },
    })
}

/// What `SHOW STORAGE INFO` says of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageInfo {
    /// `database_uuid`.
    pub database: DatabaseId,
    /// How many vertices, the mark counted.
    pub vertices: u64,
    /// How many edges.
    pub edges: u64,
}

impl StorageInfo {
    /// Reads the rows `storage info`, `value`: all of them up to 3.10, those of
    /// `SHOW STORAGE INFO ON CURRENT DATABASE` from 3.11 on.
    pub fn read<'a, R: AsRef<[Cell]>>(rows: &'a [R]) -> Result<Self, RowError> {
        let value = |key: &'static str| {
            let of_row = |row: &'a R| match row.as_ref() {
                [Cell::Text(name), value] if name == key => Some(value),
                _ => None,
            };
            rows.iter().find_map(of_row).ok_or(RowError::Storage(key))
        };
        // A count that cannot be read must not look like zero: an empty pod may be begun anew.
        let count = |key| match value(key)? {
            Cell::Int(n) => u64::try_from(*n).map_err(|_| RowError::Storage(key)),
            Cell::Text(text) => text.parse().map_err(|_| RowError::Storage(key)),
            _ => Err(RowError::Storage(key)),
        };
        let Cell::Text(uuid) = value("database_uuid")? else {
            return Err(RowError::Storage("database_uuid"));
        };
        Ok(Self {
            database: uuid.parse()?,
            vertices: count("vertex_count")?,
            edges: count("edge_count")?,
        })
    }
}

#[cfg(test)]
mod tests;
