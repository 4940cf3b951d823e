//! What MAIN last said of its replicas, how long that counts, and whether it was asked at all.

use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::gate::Route;
use mainstay_core::memgraph::observed::Registration;
use mainstay_core::memgraph::read_gate::login;
use std::time::Duration;
use tokio::time::Instant;

/// How old an answer may be. MAIN is asked each second: a few of them may be lost, and a replica that nobody vouches
/// for is not read from.
pub(super) const FRESH: Duration = Duration::from_secs(5);

/// What is known of the replicas.
#[derive(Clone, Debug, Default)]
pub(crate) struct News {
    /// What MAIN said last.
    pub(super) known: Option<Known>,
    /// Which MAIN was asked, in which term, and has answered or failed to, since somebody reads. Before that nothing is
    /// known of its replicas, which does not mean that none of them may be read from.
    pub(super) asked: Option<Route>,
}

impl News {
    /// MAIN answered.
    pub(super) fn told(&mut self, known: Known) {
        self.asked = Some(known.by);
        self.known = Some(known);
    }

    /// MAIN could not be asked. What it said before counts as long as it would have. Is that news?
    pub(super) fn failed(&mut self, by: Route) -> bool {
        self.asked.replace(by) != Some(by)
    }

    /// Nobody asks any more, because nobody reads.
    pub(super) fn rest(&mut self) -> bool {
        self.asked = None;
        // Nobody has to do anything about it.
        false
    }

    /// What counts of it now, if anything.
    pub(super) fn rows(&self, record: &Record, now: Instant) -> &[Registration] {
        self.known.as_ref().map_or(&[], |known| known.rows(record, now))
    }

    /// Was the MAIN of this record asked?
    pub(super) fn is_of(&self, record: &Record) -> bool {
        self.asked.is_some() && self.asked == login(record)
    }
}

/// What MAIN said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Who said it, in which term.
    pub(super) by: Route,
    /// When it was asked.
    pub(super) at: Instant,
    pub(super) rows: Vec<Registration>,
}

impl Known {
    /// What counts of it now: all, or nothing.
    pub(super) fn rows(&self, record: &Record, now: Instant) -> &[Registration] {
        let fresh = now.saturating_duration_since(self.at) <= FRESH;
        if fresh && login(record) == Some(self.by) {
            &self.rows
        } else {
            &[]
        }
    }

    /// When it counts no more.
    pub(super) fn ends(&self) -> Instant {
        self.at + FRESH
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::memgraph::ids::{DatabaseId, Ordinal, ProcessId, RegistrationName, Term, VolumeId};
    use mainstay_core::memgraph::observed::{Mode, Status};
    use mainstay_core::memgraph::record::{Candidate, Main, Writes};
    use mainstay_core::time::Time;

    fn serving(term: u64, pod: u8) -> Record {
        let candidate = Candidate {
            pod: Ordinal(pod),
            process: ProcessId(1),
            volume: VolumeId(1),
            peers: vec![],
            suspect: false,
            forced: None,
            claim: None,
        };
        let main = Main {
            pod: Ordinal(pod),
            process: ProcessId(1),
            volume: VolumeId(1),
            database: DatabaseId(1),
            term: Term(term),
            epoch: Term(term),
            peers: vec![],
            suspect: false,
            history_from: Term(0),
            rebuilt: false,
            office_from: Term(1),
            rival: None,
        };
        Record::initialising(Term(term), candidate, Time::ZERO).serving(main, Writes::Open, Time::ZERO)
    }

    /// Nothing known is not nobody there: after a start, in a new term, and when readers come back after a while.
    #[test]
    fn before_main_was_asked_in_this_term_nothing_is_known_of_its_replicas() {
        let (record, by) = (
            serving(4, 0),
            Route {
                pod: Ordinal(0),
                term: Term(4),
            },
        );
        let mut news = News::default();
        assert!(!news.is_of(&record));
        assert!(news.failed(by) && news.is_of(&record), "it was tried");
        assert!(!news.failed(by), "once");
        assert!(!news.is_of(&serving(5, 0)) && !news.is_of(&serving(4, 1)));
        news.rest();
        assert!(!news.is_of(&record), "that was long ago");
        news.told(Known {
            by,
            at: Instant::now(),
            rows: vec![],
        });
        assert!(news.is_of(&record));
        news.rest();
        assert!(!news.is_of(&record) && news.known.is_some());
    }

    #[test]
    fn what_is_old_or_was_said_by_another_main_or_in_another_term_does_not_count() {
        let at = Instant::now();
        let known = Known {
            by: Route {
                pod: Ordinal(0),
                term: Term(4),
            },
            at,
            rows: vec![Registration {
                name: RegistrationName::Async(Ordinal(2)),
                mode: Mode::Async,
                address_ok: true,
                attached: true,
                status: Status::Ready,
                behind: 0,
                since: Time::ZERO,
                moved: None,
            }],
        };
        let record = serving(4, 0);
        assert_eq!(known.rows(&record, at).len(), 1);
        assert_eq!(known.rows(&record, known.ends()).len(), 1);
        let late = known.ends() + Duration::from_millis(1);
        assert!(known.rows(&record, late).is_empty());
        for other in [
            serving(5, 0),
            serving(4, 1),
            serving(4, 0).new_term(
                Candidate {
                    pod: Ordinal(1),
                    process: ProcessId(2),
                    volume: VolumeId(2),
                    peers: vec![],
                    suspect: false,
                    forced: None,
                    claim: None,
                },
                true,
                Time::ZERO,
            ),
        ] {
            assert!(known.rows(&other, at).is_empty(), "{}", other.headline());
        }
    }
}
