//! What a drill ends with. Pure.

use super::ledger::Account;
use super::report::Summary;

/// What its exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Every promise was kept.
    Kept,
    /// One was broken, or the goal was missed.
    Broken,
    /// It could not be done, or not to its end.
    Undone,
}

impl Verdict {
    /// Of what is known of the rounds, and whether anything kept the drill from its end. A broken promise is the worse
    /// news, and stays one whatever comes after it. Of anything less, a drill that was not done is no witness.
    pub(crate) fn of(summary: Option<&Summary>, undone: bool, strict: bool) -> Self {
        let account = summary.map(|summary| summary.account);
        if account.is_some_and(Account::is_broken) {
            return Self::Broken;
        }
        let Some(summary) = summary.filter(|_| !undone) else {
            return Self::Undone;
        };
        let noticed = strict && summary.account.is_noticed();
        let missed = summary.within_goal == Some(false);
        if noticed || missed {
            Self::Broken
        } else {
            Self::Kept
        }
    }

    /// For whoever called the program.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Kept => 0,
            Self::Broken => 1,
            Self::Undone => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::faults::Drill;
    use super::super::report::{Asked, Course};
    use super::*;

    /// Of a drill whose last round was settled and did not come to its end.
    fn summary(settled: Account) -> Summary {
        let asked = Asked {
            drill: Drill::KillMain,
            alive: false,
            stand_ins: None,
            rounds: 3,
            goal_p99_ms: None,
        };
        let course = Course {
            settled,
            ..Course::default()
        };
        Summary::of(&asked, &course)
    }

    fn code(account: Account, undone: bool, strict: bool) -> u8 {
        Verdict::of(Some(&summary(account)), undone, strict).code()
    }

    #[test]
    fn a_broken_promise_is_one_whatever_else_went_wrong() {
        let (lost, duplicated, despite_refusal) = (1, 1, 1);
        for account in [
            Account {
                lost,
                ..Account::default()
            },
            Account {
                duplicated,
                ..Account::default()
            },
            Account {
                despite_refusal,
                ..Account::default()
            },
        ] {
            for undone in [false, true] {
                assert_eq!(code(account, undone, false), 1, "{account:?}");
            }
        }
    }

    #[test]
    fn a_drill_that_was_not_done_says_nothing_about_what_only_clients_noticed() {
        let noticed = Account {
            unknown: 1,
            ..Account::default()
        };
        assert_eq!((code(noticed, false, false), code(noticed, false, true)), (0, 1));
        assert_eq!((code(noticed, true, false), code(noticed, true, true)), (2, 2));
        assert_eq!(Verdict::of(None, true, false).code(), 2);
    }

    #[test]
    fn a_goal_that_was_missed_fails_a_drill_that_was_done() {
        let goal = |within_goal| Summary {
            within_goal,
            ..summary(Account::default())
        };
        let code = |within, undone| Verdict::of(Some(&goal(within)), undone, false).code();
        assert_eq!(
            (
                code(None, false),
                code(Some(true), false),
                code(Some(false), false)
            ),
            (0, 0, 1)
        );
        assert_eq!(code(Some(false), true), 2);
    }
}
