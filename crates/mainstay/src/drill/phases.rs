//! Where the time of a gap went, as far as the operator measured it. Pure.

use api::memgraph::TermStatus;
use serde::Serialize;

/// A gap in parts, in milliseconds. What the operator did not measure is `other`. What it measured is told as it was, also
/// where it began before the gap, as `detect` does when MAIN still answered, or ended after it: `other` is nothing then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Phases {
    /// Which rule began the term.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// From the first evidence to the new term in the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detect: Option<u64>,
    /// Until the old MAIN was fenced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fence: Option<u64>,
    /// Until the new one was promoted and marked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) promote: Option<u64>,
    /// Until the record served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) open: Option<u64>,
    /// The rest: until somebody noticed, and until clients were back.
    pub(crate) other: u64,
}

/// Splits a gap by the term that the fault led to: the first new one that moved MAIN, or the first new one at all.
pub(crate) fn phases(gap_ms: u64, before: &Before, history: &[TermStatus]) -> Phases {
    let mut new: Vec<&TermStatus> = history.iter().filter(|term| term.term > before.term).collect();
    new.sort_by_key(|term| term.term);
    let moved = new.iter().find(|term| Some(&term.pod) != before.main.as_ref());
    let Some(term) = moved.or_else(|| new.first()) else {
        return Phases {
            other: gap_ms,
            ..Phases::default()
        };
    };
    let parts = [term.detect_ms, term.fence_ms, term.promote_ms, term.open_ms];
    let measured: u64 = parts.iter().flatten().sum();
    Phases {
        why: Some(term.why.clone()),
        detect: term.detect_ms,
        fence: term.fence_ms,
        promote: term.promote_ms,
        open: term.open_ms,
        other: gap_ms.saturating_sub(measured),
    }
}

/// What held before the fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// The term.
    pub(crate) term: u64,
    /// The pod that was MAIN.
    pub(crate) main: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(number: u64, pod: &str, detect: u64) -> TermStatus {
        TermStatus {
            term: number,
            pod: pod.to_owned(),
            began: String::new(),
            why: format!("T{number}"),
            detect_ms: Some(detect),
            fence_ms: Some(20),
            promote_ms: Some(210),
            open_ms: None,
        }
    }

    fn before() -> Before {
        Before {
            term: 4,
            main: Some("db-0".to_owned()),
        }
    }

    #[test]
    fn the_term_that_moved_main_explains_the_gap_and_the_rest_is_other() {
        let history = [
            term(6, "db-1", 1),
            term(4, "db-0", 2),
            term(5, "db-1", 100),
            term(3, "db-1", 3),
        ];
        let split = phases(400, &before(), &history);
        assert_eq!(
            split,
            Phases {
                why: Some("T5".to_owned()),
                detect: Some(100),
                fence: Some(20),
                promote: Some(210),
                open: None,
                other: 70,
            }
        );
    }

    #[test]
    fn a_term_on_the_same_main_is_taken_if_there_is_no_other() {
        let split = phases(50, &before(), &[term(5, "db-0", 100)]);
        assert_eq!((split.why.as_deref(), split.other), (Some("T5"), 0));
    }

    #[test]
    fn without_a_new_term_nothing_is_explained() {
        let split = phases(50, &before(), &[term(4, "db-0", 100)]);
        assert_eq!(
            split,
            Phases {
                other: 50,
                ..Phases::default()
            }
        );
    }
}
