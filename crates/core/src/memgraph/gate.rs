//! What a gateway decides: whom it forwards to, when it cuts, what it confirms (G1 to G3).

use super::ids::{Ordinal, Revision, Term};
use super::observed::Role;
use super::record::{Record, State, Writes};
use super::rules::{Rule, Rules};

/// Whom a gateway forwards to: this pod, in this term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// The pod.
    pub pod: Ordinal,
    /// The term its data must show.
    pub term: Term,
}

/// What a gateway must do after it read the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Cut every session first.
    pub cut: bool,
    /// Before that, transactions that run may end, and no other begins.
    pub drain: Option<Drain>,
    /// Then confirm: nothing older than this is forwarded any more.
    pub confirm: (Term, Revision),
}

/// How long a cut may wait for transactions: MAIN stays as it is until the record is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// As long as a planned move may take.
    Moved,
    /// A moment: writes are held, or the same process gets a new term, and everybody waits.
    Held,
}

/// A gateway's view of the record. Terms never go back (G3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gate {
    term: Term,
    revision: Revision,
    route: Option<Route>,
}

impl Gate {
    /// Highest term seen.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Highest revision seen in that term.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Where new sessions go, if anywhere (G1).
    pub fn route(&self) -> Option<Route> {
        self.route
    }

    /// The numbers in here, for a search that renumbers them.
    #[cfg(any(test, feature = "rule-switches"))]
    pub fn numbers_mut(&mut self) -> (impl Iterator<Item = &mut Term>, &mut Revision) {
        let Self {
            term,
            revision,
            route,
        } = self;
        let routed = route.as_mut().map(|Route { pod: _, term }| term);
        (std::iter::once(term).chain(routed), revision)
    }

    /// Takes a record that was read, or that an operator pushed; `None` if it is older than what is known.
    pub fn on_record(&mut self, record: &Record) -> Option<Verdict> {
        if (record.term, record.revision) < (self.term, self.revision) {
            return None;
        }
        let open = record.state == State::Serving && record.writes == Writes::Open;
        let route = record.main.as_ref().filter(|_| open).map(|main| Route {
            pod: main.pod,
            term: record.term,
        });
        let cut = route != self.route;
        let drain = self.route.filter(|_| cut).and_then(|old| stays(record, old));
        *self = Self {
            term: record.term,
            revision: record.revision,
            route,
        };
        Some(Verdict {
            cut,
            drain,
            confirm: (record.term, record.revision),
        })
    }

    /// May clients be forwarded on a connection that answered this (R10)?
    pub fn admits(&self, rules: Rules, role: Role, mark: Option<Term>) -> bool {
        let Some(route) = self.route else { return false };
        role == Role::Main && (mark == Some(route.term) || !rules.on(Rule::R10))
    }
}

/// Does the MAIN of this route go on until gateways have confirmed the record? It does when it is moved, held, or given
/// a new term in the same process; not when it has lost its office, or writes are closed.
pub fn stays(record: &Record, old: Route) -> Option<Drain> {
    let main = record.main.as_ref().filter(|main| main.pod == old.pod)?;
    match record.state {
        State::SwitchingOver => Some(Drain::Moved),
        State::Serving => (record.writes == Writes::Held && record.term == old.term).then_some(Drain::Held),
        State::NoMain => {
            let next = record.candidate.as_ref()?;
            (next.pod == main.pod && next.process == main.process).then_some(Drain::Held)
        }
        State::Initialising | State::Hibernated => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memgraph::ids::{DatabaseId, ProcessId, VolumeId};
    use crate::memgraph::record::{Candidate, Main};
    use crate::time::Time;

    fn candidate() -> Candidate {
        Candidate {
            pod: Ordinal(0),
            process: ProcessId(1),
            volume: VolumeId(1),
            peers: vec![],
            suspect: false,
            forced: None,
            claim: None,
        }
    }

    fn serving(writes: Writes) -> Record {
        let main = Main {
            pod: Ordinal(0),
            process: ProcessId(1),
            volume: VolumeId(1),
            database: DatabaseId(1),
            term: Term(4),
            epoch: Term(4),
            peers: vec![],
            suspect: false,
            history_from: Term(0),
            rebuilt: false,
            office_from: Term(1),
            rival: None,
        };
        Record::initialising(Term(4), candidate(), Time::ZERO).serving(main, writes, Time::ZERO)
    }

    #[test]
    fn a_gate_forwards_only_while_serving_and_open_and_cuts_when_that_changes() {
        let mut gate = Gate::default();
        assert!(
            !gate.admits(Rules::ALL, Role::Main, Some(Term(4))),
            "nothing read yet"
        );
        let open = serving(Writes::Open);
        assert_eq!(
            gate.on_record(&open),
            Some(Verdict {
                cut: true,
                drain: None,
                confirm: (Term(4), Revision(2))
            })
        );
        assert_eq!(
            gate.route(),
            Some(Route {
                pod: Ordinal(0),
                term: Term(4)
            })
        );
        assert_eq!((gate.term(), gate.revision()), (Term(4), Revision(2)));
        assert!(
            !gate.on_record(&open.touched()).unwrap().cut,
            "the same route is not cut"
        );
        assert!(gate.on_record(&open.touched().held(Time::ZERO)).unwrap().cut);
        assert_eq!(gate.route(), None);
        let next = open.new_term(candidate(), true, Time::ZERO);
        assert_eq!(gate.on_record(&next).unwrap().confirm, (Term(5), Revision(3)));
        assert_eq!(gate.on_record(&open), None, "terms never go back");
        assert_eq!(gate.route(), None);
    }

    #[test]
    fn running_transactions_may_end_only_while_main_stays_until_the_gateways_have_confirmed() {
        let open = serving(Writes::Open);
        let elsewhere = Candidate {
            pod: Ordinal(1),
            process: ProcessId(2),
            ..candidate()
        };
        let restarted = Candidate {
            process: ProcessId(9),
            ..candidate()
        };
        for (name, next, drain) in [
            (
                "moved",
                open.switching_over(elsewhere.clone(), Time::ZERO),
                Some(Drain::Moved),
            ),
            ("held", open.held(Time::ZERO), Some(Drain::Held)),
            (
                "renewed",
                open.new_term(candidate(), true, Time::ZERO),
                Some(Drain::Held),
            ),
            ("came back", open.new_term(restarted, true, Time::ZERO), None),
            (
                "lost its office",
                open.new_term(elsewhere, true, Time::ZERO),
                None,
            ),
            ("closed", open.with_writes(Writes::Closed), None),
        ] {
            let mut gate = Gate::default();
            assert_eq!(
                gate.on_record(&open).unwrap().drain,
                None,
                "nobody is there to drain"
            );
            let verdict = gate.on_record(&next).unwrap();
            assert!(verdict.cut, "{name}");
            assert_eq!(verdict.drain, drain, "{name}");
            assert_eq!(gate.on_record(&next).unwrap().drain, None, "once");
        }
    }

    #[test]
    fn a_connection_is_admitted_only_to_a_main_whose_data_shows_the_term() {
        let mut gate = Gate::default();
        gate.on_record(&serving(Writes::Open));
        assert!(gate.admits(Rules::ALL, Role::Main, Some(Term(4))));
        for (role, mark) in [
            (Role::Replica, Some(Term(4))),
            (Role::Main, Some(Term(3))),
            (Role::Main, Some(Term(5))),
            (Role::Main, None),
        ] {
            assert!(!gate.admits(Rules::ALL, role, mark), "{role:?} {mark:?}");
        }
    }
}
