//! Terms that another turn began: completed with their candidate, taken over, or abandoned.

use super::cluster::{Situation, TERM, a_candidate, ago, cluster, fresh, process};
use super::render::assert_table;
use mainstay_core::memgraph::ids::{Term, VolumeId};
use mainstay_core::memgraph::observed::{Role, Status};
use mainstay_core::memgraph::record::{Record, State};
use mainstay_core::memgraph::spec::{FenceTimeout, WritesWithoutSync};

/// A failover to pod-1 that was begun and not finished; MAIN is down.
fn begun() -> Situation {
    cluster().crashed(0).no_main(1)
}

/// A first term that was begun and not finished.
fn initialising() -> Situation {
    let record = Record::initialising(Term(1), a_candidate(0), ago(1000));
    fresh().with(|s| s.record = Some(record)).confirmed()
}

#[test]
fn a_term_is_taken_over() {
    assert_table!(
        "terms__a_term_is_taken_over",
        [
            ("the candidate answers: its process is loose from now on", begun()),
            (
                "the candidate is MAIN already, and nobody knows its epoch",
                begun().role(1, Role::Main)
            ),
            (
                "the candidate is MAIN and has the mark of the term",
                begun().role(1, Role::Main).mark(1, Some(TERM.0 + 1))
            ),
            (
                "the mark is one above the term",
                begun().mark(1, Some(TERM.0 + 2))
            ),
            (
                "the mark is one below the last MAIN's",
                begun().mark(1, Some(TERM.0 - 1))
            ),
            ("the mark is missing", begun().mark(1, None)),
            ("the data cannot be read", begun().answer(1, |a| a.data = None)),
            ("it was loose already", begun().loose(1, process(1))),
            (
                "a loose process that ended is forgotten",
                begun().loose(0, process(0))
            ),
            ("the old MAIN still answers as MAIN", cluster().no_main(1)),
            (
                "the old MAIN still answers, and the fence is awaited",
                cluster()
                    .no_main(1)
                    .spec(|s| s.fence_timeout = FenceTimeout::Wait)
            ),
            (
                "the old MAIN came back without the init file",
                cluster()
                    .restarted(0)
                    .no_main(1)
                    .object(0, |o| o.start_fence = false)
            ),
            (
                "statements run before it serves",
                begun().spec(|s| s.on_promotion = true)
            ),
            (
                "the candidate's history is suspect",
                begun().record(|r| r.candidate.as_mut().unwrap().suspect = true)
            ),
            (
                "a renewal whose candidate is still MAIN keeps its epoch",
                cluster().becomes(|r| r.new_term(a_candidate(0), false, ago(1000))),
            ),
            (
                "a renewal whose candidate was demoted begins one",
                cluster()
                    .becomes(|r| r.new_term(a_candidate(0), false, ago(1000)))
                    .role(0, Role::Replica),
            ),
            (
                "a rebuilt MAIN that was demoted stays rebuilt",
                cluster()
                    .record(|r| r.main.as_mut().unwrap().rebuilt = true)
                    .becomes(|r| r.new_term(a_candidate(0), false, ago(1000)))
                    .role(0, Role::Replica),
            ),
            (
                "without protection writes are closed by policy Never",
                begun().policy(WritesWithoutSync::Never),
            ),
        ]
    );
}

#[test]
fn a_term_waits_or_is_abandoned() {
    let gone = || cluster().crashed(1).no_main(1);
    assert_table!(
        "terms__a_term_waits_or_is_abandoned",
        [
            ("the candidate is silent", begun().silent(1, 3)),
            (
                "the candidate's answer is older than the record",
                begun().answer(1, |a| a.at = ago(200))
            ),
            (
                "the candidate restarted and MAIN is back with everything",
                cluster().restarted(0).restarted(1).no_main(1)
            ),
            ("the candidate ended and MAIN never stopped", gone()),
            ("the candidate ended and MAIN does not answer", gone().crashed(0)),
            ("the candidate ended and MAIN lost its volume", gone().emptied(0)),
            (
                "MAIN has the mark of the unfinished term",
                gone().mark(0, Some(TERM.0 + 1))
            ),
            (
                "MAIN has a mark above the unfinished term",
                gone().mark(0, Some(TERM.0 + 2))
            ),
            (
                "MAIN has a mark below its own term",
                gone().mark(0, Some(TERM.0 - 1))
            ),
            (
                "a term that was to be held stays so",
                cluster()
                    .crashed(1)
                    .becomes(|r| r.new_term(a_candidate(1), false, ago(1000)))
            ),
            (
                "somebody took the candidate out of the record",
                begun().record(|r| r.candidate = None)
            ),
            (
                "serving, and somebody took MAIN out of the record",
                cluster().record(|r| r.main = None)
            ),
            (
                "MAIN keeps its office over a dead STRICT_SYNC registration: it is dropped",
                gone().listed(1, |r| {
                    r.status = Status::Invalid;
                    r.since = ago(5000);
                }),
            ),
            (
                "a registration that may have work is left",
                gone().listed(1, |r| r.status = Status::Replicating),
            ),
            (
                "a registration that has just become invalid is left while its pod is there",
                cluster().restarted(1).no_main(1).listed(1, |r| {
                    r.status = Status::Invalid;
                    r.since = ago(4999);
                }),
            ),
            (
                "one that has been invalid for long enough is dropped",
                cluster().restarted(1).no_main(1).listed(1, |r| {
                    r.status = Status::Invalid;
                    r.since = ago(5000);
                }),
            ),
            (
                "a zombie and an ASYNC registration block nothing and are left",
                gone()
                    .listed(1, |r| {
                        r.status = Status::Invalid;
                        r.attached = false;
                    })
                    .listed(2, |r| r.status = Status::Invalid),
            ),
        ]
    );
}

#[test]
fn the_first_term_begins_again() {
    let again = || initialising().restarted(0);
    assert_table!(
        "terms__the_first_term_begins_again",
        [
            ("its candidate answers", initialising()),
            (
                "its candidate is MAIN and marked",
                initialising().role(0, Role::Main).mark(0, Some(1))
            ),
            (
                "its candidate has a mark above the term",
                initialising().mark(0, Some(2))
            ),
            ("the other pod is a MAIN", initialising().role(1, Role::Main)),
            ("its candidate restarted", again()),
            (
                "its candidate restarted with the mark of the term",
                again().mark(0, Some(1))
            ),
            (
                "its candidate restarted with a mark above the term",
                again().mark(0, Some(2))
            ),
            (
                "its candidate restarted on another volume",
                again().object(0, |o| o.volume = Some(VolumeId(0xe0)))
            ),
            (
                "its candidate ended and nothing answers",
                initialising().crashed(0)
            ),
            ("its candidate is silent", initialising().silent(0, 3)),
        ]
    );
}

#[test]
fn nothing_else_in_the_record_makes_a_term_unfinished() {
    // Every state but Serving and Hibernated resumes; the same observations do nothing in Serving.
    for state in [State::Initialising, State::NoMain, State::SwitchingOver] {
        let situation = cluster().no_main(1).record(|r| r.state = state);
        assert!(!situation.plan().steps.is_empty(), "{state}");
    }
    assert!(cluster().plan().steps.is_empty());
}
