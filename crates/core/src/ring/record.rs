//! The record of a member: the ConfigMap `<service>-autoreplacement-config` that users know.
//!
//! It says which node is to be replaced if this member ever comes back empty. It is written once another member has
//! seen the node Normal, it is immutable, and it belongs to the member's Service. It takes precedence over what the
//! generic configuration says. It starts nothing by itself: an empty node needs a permission, too (`gate`).
//!
//! What the operator believes stands in the ledger; this is its print. So a record that somebody edits or makes up
//! changes nothing, and is printed again.

use super::ids::{Address, ClusterUid, DiskId, HostId, Location, VolumeUid};
use super::ledger::Known;
use super::spec::ReplaceBy;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use thiserror::Error;

/// The key of the ConfigMap.
pub const KEY: &str = "autoreplacement.config";
/// The option that names an address, as the seed spells it.
pub const BY_ADDRESS: &str = "replace-address-first-boot";
/// The option that names a host id.
pub const BY_HOST: &str = "replace-node-first-boot";

const HOST: &str = "mainstay.dev/host-id";
const ADDRESS: &str = "mainstay.dev/address";
const DC: &str = "mainstay.dev/datacenter";
const RACK: &str = "mainstay.dev/rack";
const CLUSTER: &str = "mainstay.dev/cluster-uid";
const VOLUME: &str = "mainstay.dev/volume-uid";
const DISK: &str = "mainstay.dev/disk-id";

/// A record that cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// Not the one line that is written there.
    #[error(
        "`{0}` is not a replace option: one line `replace-node-first-boot: ID` or `replace-address-first-boot: IP` is expected"
    )]
    Line(String),
    /// An annotation is missing.
    #[error("the annotation {0} is missing")]
    Missing(&'static str),
    /// An annotation cannot be read.
    #[error("the annotation {0} cannot be read")]
    Bad(&'static str),
    /// The line and the annotations name different nodes.
    #[error("the line and the annotations name different nodes")]
    Contradiction,
}

/// Whom a start is to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Replaces {
    /// The node with this host id.
    Host(HostId),
    /// The node at this address.
    Address(Address),
}

impl Replaces {
    /// The node as this version of the database wants it named.
    pub fn of(known: &Known, by: ReplaceBy) -> Self {
        match by {
            ReplaceBy::Host => Self::Host(known.host),
            ReplaceBy::Address => Self::Address(known.address),
        }
    }

    /// The one line of the record.
    pub fn line(self) -> String {
        match self {
            Self::Host(host) => format!("{BY_HOST}: {host}\n"),
            Self::Address(address) => format!("{BY_ADDRESS}: {address}\n"),
        }
    }

    /// Reads the line.
    pub fn parse(text: &str) -> Result<Self, RecordError> {
        let bad = || RecordError::Line(text.trim_end().to_owned());
        let (key, value) = text.trim().split_once(':').ok_or_else(bad)?;
        let value = value.trim();
        match key.trim() {
            BY_HOST => value.parse().map(Self::Host).map_err(|_| bad()),
            BY_ADDRESS => value.parse().map(Self::Address).map_err(|_| bad()),
            _ => Err(bad()),
        }
    }
}

/// What the ConfigMap holds: its data and its annotations, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordMap {
    /// `immutable: true`.
    pub immutable: bool,
    /// Its data.
    pub data: BTreeMap<String, String>,
    /// Its annotations of ours.
    pub annotations: BTreeMap<String, String>,
}

impl RecordMap {
    /// The record of what is known of a member.
    pub fn print(known: &Known, by: ReplaceBy, cluster: ClusterUid) -> Self {
        let Known {
            host,
            address,
            location: Location { dc, rack },
            volume,
            disk,
        } = known;
        let mut annotations = BTreeMap::from([
            (HOST.to_owned(), host.to_string()),
            (ADDRESS.to_owned(), address.to_string()),
            (DC.to_owned(), dc.to_string()),
            (RACK.to_owned(), rack.to_string()),
            (CLUSTER.to_owned(), cluster.to_string()),
        ]);
        annotations.extend(volume.map(|v| (VOLUME.to_owned(), v.to_string())));
        annotations.extend(disk.map(|d| (DISK.to_owned(), d.to_string())));
        Self {
            immutable: true,
            data: BTreeMap::from([(KEY.to_owned(), Replaces::of(known, by).line())]),
            annotations,
        }
    }

    /// Is it what [`print`](Self::print) would write? Asked in every turn of every member, so nothing is printed for it.
    pub fn says(&self, known: &Known, by: ReplaceBy, cluster: ClusterUid) -> bool {
        let Known {
            host,
            address,
            location: Location { dc, rack },
            volume,
            disk,
        } = known;
        let line = match Replaces::of(known, by) {
            Replaces::Host(host) => is(self.data.get(KEY), format_args!("{BY_HOST}: {host}\n")),
            Replaces::Address(address) => is(self.data.get(KEY), format_args!("{BY_ADDRESS}: {address}\n")),
        };
        let note = |key: &str, value: fmt::Arguments<'_>| is(self.annotations.get(key), value);
        let optional = usize::from(volume.is_some()) + usize::from(disk.is_some());
        let whole = self.immutable && self.data.len() == 1 && self.annotations.len() == 5 + optional;
        whole
            && line
            && note(HOST, format_args!("{host}"))
            && note(ADDRESS, format_args!("{address}"))
            && note(DC, format_args!("{dc}"))
            && note(RACK, format_args!("{rack}"))
            && note(CLUSTER, format_args!("{cluster}"))
            && volume.is_none_or(|v| note(VOLUME, format_args!("{v}")))
            && disk.is_none_or(|d| note(DISK, format_args!("{d}")))
    }

    /// Reads it back: whom it replaces, what is known, and of which cluster.
    pub fn parse(&self) -> Result<(Replaces, Known, ClusterUid), RecordError> {
        let line = self.data.get(KEY).map_or("", String::as_str);
        let replaces = Replaces::parse(line)?;
        let known = Known {
            host: self.needed::<HostId>(HOST)?,
            address: self.needed::<Address>(ADDRESS)?,
            location: Location {
                dc: self.needed(DC)?,
                rack: self.needed(RACK)?,
            },
            volume: self.optional::<VolumeUid>(VOLUME)?,
            disk: self.optional::<DiskId>(DISK)?,
        };
        let agrees = match replaces {
            Replaces::Host(host) => host == known.host,
            Replaces::Address(address) => address == known.address,
        };
        if !agrees {
            return Err(RecordError::Contradiction);
        }
        Ok((replaces, known, self.needed::<ClusterUid>(CLUSTER)?))
    }

    fn optional<T: std::str::FromStr>(&self, key: &'static str) -> Result<Option<T>, RecordError> {
        let text = self.annotations.get(key);
        text.map(|t| t.parse().map_err(|_| RecordError::Bad(key)))
            .transpose()
    }

    fn needed<T: std::str::FromStr>(&self, key: &'static str) -> Result<T, RecordError> {
        self.optional(key)?.ok_or(RecordError::Missing(key))
    }
}

/// A text that something is printed against.
struct Left<'a>(&'a str);

impl fmt::Write for Left<'_> {
    fn write_str(&mut self, printed: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(printed).ok_or(fmt::Error)?;
        Ok(())
    }
}

/// Is this what the value prints?
fn is(text: Option<&String>, value: fmt::Arguments<'_>) -> bool {
    text.is_some_and(|text| {
        let mut left = Left(text);
        left.write_fmt(value).is_ok() && left.0.is_empty()
    })
}

/// The generic configuration with the record on top: the record's option wins over one that is there already, in
/// either spelling and under either name, and nothing else changes.
pub fn on_top_of(generic: &BTreeMap<String, String>, replaces: Replaces) -> BTreeMap<String, String> {
    let ours = |key: &String| {
        let dashed = key.replace('_', "-");
        dashed == BY_HOST || dashed == BY_ADDRESS || dashed == "replace-address"
    };
    let mut merged: BTreeMap<_, _> = generic
        .iter()
        .filter(|(key, _)| !ours(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let (key, value) = match replaces {
        Replaces::Host(host) => (BY_HOST, host.to_string()),
        Replaces::Address(address) => (BY_ADDRESS, address.to_string()),
    };
    merged.insert(key.to_owned(), value);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        Known {
            host: HostId(0xa1),
            address: "10.0.0.7".parse().unwrap(),
            location: Location {
                dc: "dc1".parse().unwrap(),
                rack: "r1".parse().unwrap(),
            },
            volume: Some(VolumeUid(7)),
            disk: None,
        }
    }

    #[test]
    fn the_line_is_the_seeds_own_and_by_host_id_where_the_database_has_it() {
        let by = |by| RecordMap::print(&known(), by, ClusterUid(9)).data[KEY].clone();
        assert_eq!(by(ReplaceBy::Address), "replace-address-first-boot: 10.0.0.7\n");
        assert_eq!(
            by(ReplaceBy::Host),
            "replace-node-first-boot: 00000000-0000-0000-0000-0000000000a1\n"
        );
    }

    #[test]
    fn what_was_printed_is_read_and_anything_else_is_refused() {
        for by in [ReplaceBy::Host, ReplaceBy::Address] {
            let map = RecordMap::print(&known(), by, ClusterUid(9));
            assert!(map.immutable);
            assert_eq!(
                map.parse(),
                Ok((Replaces::of(&known(), by), known(), ClusterUid(9)))
            );
            for key in map.annotations.keys().filter(|k| *k != VOLUME) {
                let mut cut = map.clone();
                cut.annotations.remove(key);
                assert!(cut.parse().is_err(), "without {key}");
            }
            let mut other = map.clone();
            other.annotations.insert(HOST.to_owned(), HostId(5).to_string());
            other
                .annotations
                .insert(ADDRESS.to_owned(), "10.0.0.8".to_owned());
            assert_eq!(other.parse(), Err(RecordError::Contradiction));
        }
        for bad in [
            "",
            "replace-address: 10.0.0.7",
            "replace-node-first-boot: 10.0.0.7",
            "x",
        ] {
            assert!(Replaces::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn it_says_what_is_printed_and_nothing_else() {
        for (by, disk) in [
            (ReplaceBy::Host, None),
            (ReplaceBy::Address, None),
            (ReplaceBy::Host, Some(DiskId(4))),
        ] {
            let known = Known { disk, ..known() };
            let map = RecordMap::print(&known, by, ClusterUid(9));
            assert!(map.says(&known, by, ClusterUid(9)));
            assert!(!map.says(&known, by, ClusterUid(8)));
            let other = Known {
                volume: None,
                ..known.clone()
            };
            assert!(!map.says(&other, by, ClusterUid(9)), "one annotation too many");
            for key in map.annotations.keys() {
                let mut cut = map.clone();
                cut.annotations.remove(key);
                assert!(!cut.says(&known, by, ClusterUid(9)), "without {key}");
                let mut edited = map.clone();
                edited.annotations.get_mut(key).unwrap().push('0');
                assert!(!edited.says(&known, by, ClusterUid(9)), "{key} edited");
            }
            let mut loose = map.clone();
            loose.immutable = false;
            assert!(!loose.says(&known, by, ClusterUid(9)));
            let mut line = map.clone();
            line.data.insert(KEY.to_owned(), String::new());
            assert!(!line.says(&known, by, ClusterUid(9)));
        }
    }

    #[test]
    fn s8_the_record_wins_over_the_generic_configuration() {
        let generic = BTreeMap::from([
            ("replace_address_first_boot".to_owned(), "10.9.9.9".to_owned()),
            ("replace-node-first-boot".to_owned(), "x".to_owned()),
            ("cluster_name".to_owned(), "ring".to_owned()),
        ]);
        let merged = on_top_of(&generic, Replaces::Address("10.0.0.7".parse().unwrap()));
        assert_eq!(
            merged,
            BTreeMap::from([
                ("cluster_name".to_owned(), "ring".to_owned()),
                (BY_ADDRESS.to_owned(), "10.0.0.7".to_owned()),
            ])
        );
    }
}
