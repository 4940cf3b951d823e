//! The record as a ConfigMap holds it.
//!
//! Two keys. `targetMainIndex` is the seeds' own, for people and for what reads it today. `record` is the
//! truth, as JSON, with the last terms for whoever asks afterwards what happened.

use super::ids::{Ordinal, Term};
use super::record::{Record, State};
use super::rules::Rule;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// The seeds' key: the index of the pod that is MAIN or is to become it.
pub const TARGET_MAIN_INDEX: &str = "targetMainIndex";
/// The key of the record.
pub const RECORD: &str = "record";
/// The form that this version writes, and the only one it reads.
pub const VERSION: u32 = 1;

/// How many terms are remembered.
const REMEMBERED: usize = 10;

/// One term, for the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenure {
    /// Which term.
    pub term: Term,
    /// For which pod it was begun.
    pub pod: Ordinal,
    /// When it was begun.
    pub began: Time,
    /// When the next one was begun; `None` for the current one.
    pub ended: Option<Time>,
    /// The id of the rule that began it. Text, because a rule that a later version does not know must not
    /// make the record unreadable.
    pub why: String,
}

/// The record and the last terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// What is the case.
    pub record: Record,
    /// The last ten terms, the current one last.
    pub history: Vec<Tenure>,
}

/// What a ConfigMap says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Written by memgraph-controller: an index and nothing else. A hint for people, not a record.
    SeedOnly {
        /// The pod it names.
        index: Ordinal,
    },
    /// A record.
    Full {
        /// The record with its history.
        document: Box<Document>,
        /// Something to report; the record stands.
        warning: Option<IndexDisagrees>,
    },
}

/// `targetMainIndex` is not what the record says: somebody edited it, and it has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDisagrees {
    /// What the key says, if it is there.
    pub shown: Option<String>,
    /// What the record says.
    pub record: Option<Ordinal>,
}

impl fmt::Display for IndexDisagrees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.shown.as_deref().unwrap_or("missing");
        write!(f, "`{TARGET_MAIN_INDEX}` is {shown} and the record says ")?;
        match self.record {
            Some(pod) => write!(f, "{}", pod.0)?,
            None => f.write_str("nobody")?,
        }
        f.write_str(": the record counts; to move MAIN use `mainstay switchover`")
    }
}

/// A ConfigMap that is not a record.
#[derive(Debug, Error)]
pub enum DocumentError {
    /// Neither key is there.
    #[error("the ConfigMap has neither `{RECORD}` nor `{TARGET_MAIN_INDEX}`")]
    Empty,
    /// The seeds' key alone, and not an index.
    #[error("`{TARGET_MAIN_INDEX}` is `{0}`, and only 0 and 1 can be MAIN")]
    Index(String),
    /// Not JSON, or not a record.
    #[error(
        "`{RECORD}` cannot be read: {0}; restore it from `status.record` or delete the ConfigMap to have it rebuilt"
    )]
    Json(#[from] serde_json::Error),
    /// Written by a newer version.
    #[error(
        "`{RECORD}` has version {found} and this operator reads {VERSION}: a newer Mainstay wrote it; run that version again, nothing is changed until then"
    )]
    Newer {
        /// Its version.
        found: u64,
    },
    /// No version was ever called so.
    #[error("`{RECORD}` has version {found}, which no Mainstay ever wrote")]
    UnknownVersion {
        /// Its version.
        found: u64,
    },
}

/// Read before anything else: what follows may have any form.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<R, H> {
    version: u32,
    record: R,
    history: H,
}

impl Document {
    /// The first record of a cluster.
    pub fn first(record: Record, why: Rule, now: Time) -> Self {
        let history = tenure(&record, why, now).into_iter().collect();
        Self { record, history }
    }

    /// The document with the next record in it. A new term ends the one before in the history.
    #[must_use]
    pub fn succeed(&self, next: Record, why: Rule, now: Time) -> Self {
        let mut history = self.history.clone();
        if next.term != self.record.term {
            if let Some(last) = history.last_mut() {
                last.ended = last.ended.or(Some(now));
            }
            history.extend(tenure(&next, why, now));
            let surplus = history.len().saturating_sub(REMEMBERED);
            history.drain(..surplus);
        }
        Self {
            record: next,
            history,
        }
    }

    /// The pod that is MAIN, or that is to become it while there is none.
    pub fn target_main(&self) -> Option<Ordinal> {
        target_main(&self.record)
    }

    /// The keys of the ConfigMap.
    ///
    /// An index is shown only if there is one; an error is one of the serializer, which a record cannot cause.
    pub fn data(&self) -> Result<BTreeMap<String, String>, DocumentError> {
        let stored = Stored {
            version: VERSION,
            record: &self.record,
            history: &self.history,
        };
        let mut data = BTreeMap::from([(RECORD.to_owned(), serde_json::to_string_pretty(&stored)?)]);
        if let Some(pod) = self.target_main() {
            data.insert(TARGET_MAIN_INDEX.to_owned(), pod.0.to_string());
        }
        Ok(data)
    }

    /// Reads the keys of a ConfigMap.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Parsed, DocumentError> {
        let shown = data.get(TARGET_MAIN_INDEX);
        let Some(text) = data.get(RECORD) else {
            return seed_only(shown);
        };
        let Versioned { version } = serde_json::from_str(text)?;
        match version {
            v if v == u64::from(VERSION) => {}
            v if v > u64::from(VERSION) => return Err(DocumentError::Newer { found: v }),
            v => return Err(DocumentError::UnknownVersion { found: v }),
        }
        let Stored {
            version: _,
            record,
            history,
        } = serde_json::from_str(text)?;
        let document = Self { record, history };
        let target = document.target_main();
        let agrees = shown.map(String::as_str) == target.map(|p| p.0.to_string()).as_deref();
        let warning = (!agrees).then(|| IndexDisagrees {
            shown: shown.cloned(),
            record: target,
        });
        Ok(Parsed::Full {
            document: Box::new(document),
            warning,
        })
    }
}

fn seed_only(shown: Option<&String>) -> Result<Parsed, DocumentError> {
    let text = shown.ok_or(DocumentError::Empty)?;
    match text.trim().parse().map(Ordinal) {
        Ok(index) if index.is_authority() => Ok(Parsed::SeedOnly { index }),
        _ => Err(DocumentError::Index(text.clone())),
    }
}

fn target_main(record: &Record) -> Option<Ordinal> {
    let main = || record.main.as_ref().map(|m| m.pod);
    let candidate = || record.candidate.as_ref().map(|c| c.pod);
    match record.state {
        State::Serving | State::Hibernated => main(),
        State::Initialising | State::NoMain | State::SwitchingOver => candidate().or_else(main),
    }
}

fn tenure(record: &Record, why: Rule, now: Time) -> Option<Tenure> {
    let pod = target_main(record)?;
    Some(Tenure {
        term: record.term,
        pod,
        began: now,
        ended: None,
        why: why.id().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memgraph::ids::{DatabaseId, Gen, ProcessId, RegistrationName, ResetId, VolumeId};
    use crate::memgraph::record::{Candidate, Loose, Main, Override, Reset, Sync, Writes};
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    fn candidate(pod: u8) -> Candidate {
        Candidate {
            pod: Ordinal(pod),
            process: ProcessId(0x3f2a_0000_0000_0000_0000_0000_0000_0001),
            volume: VolumeId(0xa1),
            peers: vec![ProcessId(0xb1), ProcessId(0xc1)],
            suspect: false,
            forced: None,
            claim: None,
        }
    }

    fn office(pod: u8, term: Term) -> Main {
        Main {
            pod: Ordinal(pod),
            process: ProcessId(0x3f2a_0000_0000_0000_0000_0000_0000_0001),
            volume: VolumeId(0xa1),
            database: DatabaseId(0xd1),
            term,
            epoch: term,
            peers: vec![ProcessId(0xb1), ProcessId(0xc1)],
            suspect: false,
            history_from: Term(2),
            rebuilt: false,
            office_from: Term(1),
            rival: None,
        }
    }

    fn serving() -> Document {
        let begun = Record::initialising(Term(1), candidate(0), Time(1_000));
        let served = begun.serving(office(0, Term(1)), Writes::Open, Time(1_200));
        let sync = Sync {
            pod: Ordinal(1),
            process: ProcessId(0xb1),
            volume: VolumeId(0xb2),
            name: RegistrationName::Strict(Ordinal(1), Gen(1)),
        };
        Document::first(begun, Rule::Bootstrap, Time(1_000))
            .succeed(served.clone(), Rule::Complete, Time(1_200))
            .succeed(served.protected(sync), Rule::Prove, Time(1_400))
    }

    #[test]
    fn a_person_can_read_the_configmap() {
        let data = serving().data().unwrap();
        let shown: Vec<_> = data
            .iter()
            .map(|(key, value)| format!("{key}: {value}"))
            .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn the_index_names_the_candidate_while_there_is_no_main() {
        let document = serving();
        assert_eq!(document.target_main(), Some(Ordinal(0)));
        let next = document.record.new_term(candidate(1), true, Time(2_000));
        let document = document.succeed(next, Rule::Failover, Time(2_000));
        assert_eq!(document.data().unwrap()[TARGET_MAIN_INDEX], "1");
    }

    #[test]
    fn a_new_term_ends_the_one_before_and_only_the_last_ten_are_remembered() {
        let mut document = serving();
        for n in 2..=14 {
            let next = document
                .record
                .new_term(candidate(u8::from(n % 2 == 0)), true, Time(n * 1_000));
            document = document.succeed(next, Rule::Failover, Time(n * 1_000));
            let touched = document.record.touched();
            document = document.succeed(touched, Rule::R34, Time(n * 1_000 + 500));
        }
        let terms: Vec<u64> = document.history.iter().map(|t| t.term.0).collect();
        assert_eq!(terms, (5..=14).collect::<Vec<_>>());
        let last_two = &document.history[8..];
        assert_eq!(last_two[0].ended, Some(last_two[1].began));
        assert_eq!((last_two[1].ended, last_two[1].why.as_str()), (None, "FAILOVER"));
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn an_index_alone_is_the_seeds_configmap_and_no_record() {
        let parsed = Document::parse(&map(&[(TARGET_MAIN_INDEX, "1")])).unwrap();
        assert_eq!(parsed, Parsed::SeedOnly { index: Ordinal(1) });
        for bad in ["2", "", "-1", "one"] {
            let error = Document::parse(&map(&[(TARGET_MAIN_INDEX, bad)])).unwrap_err();
            assert!(matches!(error, DocumentError::Index(_)), "{error}");
        }
        assert!(matches!(Document::parse(&map(&[])), Err(DocumentError::Empty)));
    }

    #[test]
    fn an_edited_index_is_reported_and_the_record_counts() {
        for edit in [Some("1"), None] {
            let mut data = serving().data().unwrap();
            data.remove(TARGET_MAIN_INDEX);
            data.extend(edit.map(|v| (TARGET_MAIN_INDEX.to_owned(), v.to_owned())));
            let Parsed::Full {
                document,
                warning: Some(warning),
            } = Document::parse(&data).unwrap()
            else {
                panic!("no warning for {edit:?}");
            };
            assert_eq!(*document, serving());
            assert!(warning.to_string().contains("the record says 0"), "{warning}");
        }
    }

    #[test]
    fn a_newer_record_is_refused_with_what_to_do_and_a_broken_one_with_what_is_wrong() {
        let said = |text: &str| Document::parse(&map(&[(RECORD, text)])).unwrap_err().to_string();
        let newer = said(r#"{"version": 2, "cluster": {"anything": []}}"#);
        assert!(
            newer.contains("version 2") && newer.contains("run that version again"),
            "{newer}"
        );
        assert!(said(r#"{"version": 0}"#).contains("no Mainstay ever wrote"));
        assert!(said("{").contains("cannot be read"));
        assert!(said(r#"{"record": {}}"#).contains("version"));
        let data = serving().data().unwrap();
        let extra = data[RECORD].replacen("\"term\"", "\"unheardOf\": 1,\n    \"term\"", 1);
        assert!(
            said(&extra).contains("unheardOf"),
            "a field that is not understood must not be lost"
        );
    }

    #[test]
    fn a_rule_that_is_not_known_any_more_does_not_make_the_record_unreadable() {
        let mut data = serving().data().unwrap();
        let text = data[RECORD].replace("\"BOOTSTRAP\"", "\"A-RULE-OF-OLD\"");
        data.insert(RECORD.to_owned(), text);
        let Parsed::Full {
            document,
            warning: None,
        } = Document::parse(&data).unwrap()
        else {
            panic!()
        };
        assert_eq!(document.history[0].why, "A-RULE-OF-OLD");
    }

    prop_compose! {
        fn any_record()(
            ids in prop::array::uniform4(any::<u128>()),
            numbers in prop::array::uniform4(any::<u64>()),
            flags in prop::array::uniform8(any::<bool>()),
            state in prop::sample::select(vec![
                State::Initialising, State::Serving, State::NoMain, State::SwitchingOver, State::Hibernated,
            ]),
            writes in prop::sample::select(vec![Writes::Open, Writes::Held, Writes::Closed]),
            pod in 0u8..2,
        ) -> Record {
            let main = Main { process: ProcessId(ids[0]), suspect: flags[0], ..office(pod, Term(numbers[0])) };
            let begun = Candidate { process: ProcessId(ids[1]), suspect: flags[1], ..candidate(1 - pod) };
            let sync = Sync {
                pod: Ordinal(1 - pod),
                process: ProcessId(ids[2]),
                volume: VolumeId(ids[3]),
                name: RegistrationName::Strict(Ordinal(1 - pod), Gen(numbers[1])),
            };
            let reset = Reset { pod: Ordinal(2), process: ProcessId(ids[3]), id: ResetId(numbers[2]), term: Term(3), since: Time(numbers[0]), keep: flags[6] };
            let mut record = Record::initialising(Term(numbers[3]), begun.clone(), Time(numbers[2]));
            record.state = state;
            record.writes = writes;
            record.main = flags[2].then_some(main);
            record.candidate = flags[3].then_some(begun);
            record.sync = flags[4].then_some(sync);
            record.reset = flags[5].then_some(reset);
            record.exposed = flags[6];
            record.honoured = flags[5].then_some(Override { pod: Ordinal(pod), until: Time(numbers[1]) });
            record.moved_at = Time(numbers[3]);
            record.loose = if flags[7] { vec![Loose { pod: Ordinal(pod), process: ProcessId(ids[0]) }] } else { vec![] };
            record
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read_back(first in any_record(), second in any_record()) {
            let document = Document::first(first, Rule::Bootstrap, Time(1)).succeed(second, Rule::Failover, Time(2));
            let parsed = Document::parse(&document.data().unwrap()).unwrap();
            prop_assert_eq!(parsed, Parsed::Full { document: Box::new(document), warning: None });
        }
    }
}
