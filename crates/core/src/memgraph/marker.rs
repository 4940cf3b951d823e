//! The file on the volume that asks for a hard reset.
//!
//! Six fields are the seeds' own and stay as they are: people and scripts read them. Four are ours: which request it
//! is, in which term, and for which process in which pod. A file without ours asks for nothing.

use super::ids::{PodUid, ProcessId, ResetId, Term};
use super::prepare::Marker;
use serde::{Deserialize, Serialize};

/// Its name on the volume.
pub const MARKER_FILE: &str = ".hard-reset-requested";
/// The data on the volume.
pub const DATA_FOLDER_NAME: &str = "mg_data";

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkerFile {
    /// When it was written.
    pub timestamp: String,
    /// `diverged_data`.
    pub reason: String,
    /// `memgraph-controller`, whoever wrote it: what reads the file looks for this word.
    pub requested_by: String,
    /// Who was MAIN.
    pub original_main: Option<String>,
    /// The name under which the replica is registered.
    pub replica_name: String,
    /// 3.
    pub error_code: u8,
    /// Which request.
    pub id: ResetId,
    /// In which term it was decided.
    pub term: Term,
    /// The process that was seen diverged.
    pub process: ProcessId,
    /// The pod in which it ran.
    pub pod_uid: PodUid,
}

impl MarkerFile {
    /// The marker of one request.
    pub fn new(pod: &str, main: Option<&str>, at: String, meant: Meant) -> Self {
        let Meant {
            id,
            term,
            process,
            pod_uid,
        } = meant;
        Self {
            timestamp: at,
            reason: "diverged_data".to_owned(),
            requested_by: "memgraph-controller".to_owned(),
            original_main: main.map(str::to_owned),
            replica_name: pod.replace('-', "_"),
            error_code: 3,
            id,
            term,
            process,
            pod_uid,
        }
    }

    /// Reads it; `None` if it is not one of ours, or was cut off.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// As it is written.
    pub fn render(&self) -> Result<String, serde_json::Error> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    /// Which request it carries.
    pub fn marker(&self) -> Marker {
        Marker {
            id: self.id,
            term: self.term,
        }
    }
}

/// Which request a marker carries, and for whom it is meant. Also what the operator asks a pod's helper for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meant {
    /// Which request.
    pub id: ResetId,
    /// In which term it was decided.
    pub term: Term,
    /// The process that was seen diverged.
    pub process: ProcessId,
    /// The pod in which it ran.
    pub pod_uid: PodUid,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> MarkerFile {
        let meant = Meant {
            id: ResetId(9),
            term: Term(4),
            process: ProcessId(7),
            pod_uid: PodUid(5),
        };
        let at = "2026-11-16T04:00:00Z".to_owned();
        MarkerFile::new("memgraph-ha-2", Some("memgraph-ha-0"), at, meant)
    }

    #[test]
    fn the_marker_says_what_the_seeds_say_and_which_request_it_is() {
        let read: serde_json::Value = serde_json::from_str(&file().render().unwrap()).unwrap();
        assert_eq!(read["timestamp"], "2026-11-16T04:00:00Z");
        assert_eq!(read["reason"], "diverged_data");
        assert_eq!(read["requested_by"], "memgraph-controller");
        assert_eq!(read["original_main"], "memgraph-ha-0");
        assert_eq!(read["replica_name"], "memgraph_ha_2");
        let numbers = ["error_code", "id", "term"].map(|key| read[key].as_u64());
        assert_eq!(numbers, [Some(3), Some(9), Some(4)]);
    }

    #[test]
    fn what_was_written_is_read_and_anything_else_is_not() {
        let text = file().render().unwrap();
        assert_eq!(MarkerFile::parse(&text), Some(file()));
        let cut = text.get(..text.len() / 2).unwrap();
        for other in [cut, "", "{}", r#"{"reason": "diverged_data", "error_code": 3}"#] {
            assert_eq!(MarkerFile::parse(other), None, "{other}");
        }
    }
}
