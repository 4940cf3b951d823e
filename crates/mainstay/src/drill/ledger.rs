//! The account of numbered writes: who was promised what, and what is there. Pure.

use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of a write; never used twice in one drill.
pub(crate) type Number = i64;

/// A break between two acknowledged writes that is worth a line.
const NOTEWORTHY: Duration = Duration::from_millis(100);

/// What a client was told of its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is committed.
    Acknowledged,
    /// It is not, and cannot be.
    Failed,
    /// Nothing that settles it: the connection was lost, or the answer did not come.
    Unknown,
}

/// One write of one client. Times count from the beginning of the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    /// Which.
    pub(crate) number: Number,
    /// Whose, from zero.
    pub(crate) client: u16,
    /// What the client was told.
    pub(crate) answer: Answer,
    /// When it was sent.
    pub(crate) began: Duration,
    /// When the client was told.
    pub(crate) ended: Duration,
}

/// All writes of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    writes: Vec<Write>,
}

/// What the writes of a round came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Account {
    /// Writes that were promised.
    pub(crate) acknowledged: u64,
    /// Writes that were refused.
    pub(crate) failed: u64,
    /// Writes of which nobody told.
    pub(crate) unknown: u64,
    /// Promised, and not there.
    pub(crate) lost: u64,
    /// There more than once, whatever was promised.
    pub(crate) duplicated: u64,
    /// Refused, and there all the same: whoever was told that nothing was committed writes again, and has two.
    pub(crate) despite_refusal: u64,
}

/// How many writes of one client were acknowledged. All clients together say nothing of one that was too slow to be
/// there when the fault came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Until the fault.
    pub(crate) before: u64,
    /// Since a MAIN served again.
    pub(crate) after: u64,
    /// In all.
    pub(crate) acknowledged: u64,
}

/// A time without an acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The last acknowledged write before it; the beginning of the round, if there is none.
    pub(crate) from: Duration,
    /// The first one after it.
    pub(crate) to: Duration,
}

impl Gap {
    /// How long.
    pub(crate) fn length(self) -> Duration {
        self.to.saturating_sub(self.from)
    }
}

impl Account {
    /// Was a promise broken?
    pub(crate) fn is_broken(self) -> bool {
        self.lost > 0 || self.duplicated > 0 || self.despite_refusal > 0
    }

    /// Did a client notice anything but a wait?
    pub(crate) fn is_noticed(self) -> bool {
        self.failed > 0 || self.unknown > 0 || self.is_broken()
    }

    /// Both together.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        let Self {
            acknowledged,
            failed,
            unknown,
            lost,
            duplicated,
            despite_refusal,
        } = other;
        Self {
            acknowledged: self.acknowledged + acknowledged,
            failed: self.failed + failed,
            unknown: self.unknown + unknown,
            lost: self.lost + lost,
            duplicated: self.duplicated + duplicated,
            despite_refusal: self.despite_refusal + despite_refusal,
        }
    }
}

impl Ledger {
    /// What the clients noted, in any order.
    pub(crate) fn new(writes: Vec<Write>) -> Self {
        Self { writes }
    }

    /// Compares it with what was read back.
    pub(crate) fn settle(&self, present: &[Number]) -> Account {
        let mut copies: BTreeMap<Number, u64> = BTreeMap::new();
        for number in present {
            *copies.entry(*number).or_default() += 1;
        }
        let mut account = Account {
            duplicated: copies.values().filter(|copies| **copies > 1).count() as u64,
            ..Account::default()
        };
        for write in &self.writes {
            let there = copies.contains_key(&write.number);
            match write.answer {
                Answer::Acknowledged => {
                    account.acknowledged += 1;
                    account.lost += u64::from(!there);
                }
                Answer::Failed => {
                    account.failed += 1;
                    account.despite_refusal += u64::from(there);
                }
                Answer::Unknown => account.unknown += 1,
            }
        }
        account
    }

    /// The numbers of the writes that were promised and are not there.
    pub(crate) fn lost(&self, present: &[Number]) -> Vec<Write> {
        let copies: std::collections::BTreeSet<Number> = present.iter().copied().collect();
        self.writes
            .iter()
            .filter(|write| write.answer == Answer::Acknowledged && !copies.contains(&write.number))
            .copied()
            .collect()
    }

    /// The share of each of so many clients.
    pub(crate) fn shares(&self, clients: u16, injected: Duration, served: Duration) -> Vec<Share> {
        let of = |client| {
            let mut share = Share::default();
            let own = self.writes.iter().filter(|write| write.client == client);
            for write in own.filter(|write| write.answer == Answer::Acknowledged) {
                share.acknowledged += 1;
                share.before += u64::from(write.ended <= injected);
                share.after += u64::from(write.ended > served);
            }
            share
        };
        (0..clients).map(of).collect()
    }

    /// The longest time without an acknowledged write between the fault and the moment when a MAIN served again: it
    /// was not over at the one, and had begun at the other. A MAIN that is only suspected goes on for a while, so the
    /// gap need not begin with the fault. `None` if no write was acknowledged after it.
    pub(crate) fn gap(&self, injected: Duration, served: Duration) -> Option<Gap> {
        let gaps = self.gaps(injected).into_iter();
        gaps.filter(|gap| gap.from <= served)
            .max_by_key(|gap| gap.length())
    }

    /// The longest one that began after that: what it costs to be protected again.
    pub(crate) fn later(&self, injected: Duration, served: Duration) -> Option<Gap> {
        let gaps = self.gaps(injected).into_iter();
        gaps.filter(|gap| gap.from > served)
            .max_by_key(|gap| gap.length())
    }

    /// Every interruption since the fault that a client would notice, in order.
    pub(crate) fn interruptions(&self, injected: Duration) -> Vec<Gap> {
        let mut all = self.gaps(injected);
        all.retain(|gap| gap.length() >= NOTEWORTHY);
        all
    }

    fn gaps(&self, injected: Duration) -> Vec<Gap> {
        let mut acknowledged: Vec<Duration> = self
            .writes
            .iter()
            .filter(|write| write.answer == Answer::Acknowledged)
            .map(|write| write.ended)
            .collect();
        acknowledged.sort_unstable();
        let mut from = Duration::ZERO;
        let mut gaps = Vec::new();
        for to in acknowledged {
            if to > injected {
                gaps.push(Gap { from, to });
            }
            from = to;
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(number: Number, answer: Answer, ended: u64) -> Write {
        let ended = Duration::from_millis(ended);
        Write {
            number,
            client: 0,
            answer,
            began: ended.saturating_sub(Duration::from_millis(1)),
            ended,
        }
    }

    fn acknowledged(at: &[u64]) -> Ledger {
        let numbered = at.iter().zip(0..);
        Ledger::new(
            numbered
                .map(|(at, number)| write(number, Answer::Acknowledged, *at))
                .collect(),
        )
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn gap(from: u64, to: u64) -> Gap {
        Gap {
            from: ms(from),
            to: ms(to),
        }
    }

    #[test]
    fn a_promise_that_is_not_there_is_lost_and_nothing_else_is() {
        let ledger = Ledger::new(vec![
            write(1, Answer::Acknowledged, 10),
            write(2, Answer::Acknowledged, 20),
            write(3, Answer::Failed, 30),
            write(4, Answer::Unknown, 40),
        ]);
        let account = ledger.settle(&[1]);
        assert_eq!(
            account,
            Account {
                acknowledged: 2,
                failed: 1,
                unknown: 1,
                lost: 1,
                ..Account::default()
            }
        );
        assert!(account.is_broken());
        assert_eq!(ledger.lost(&[1]), [write(2, Answer::Acknowledged, 20)]);
        assert!(!ledger.settle(&[1, 2]).is_broken());
    }

    #[test]
    fn a_write_that_is_there_twice_is_duplicated_whatever_was_promised() {
        for answer in [Answer::Acknowledged, Answer::Failed, Answer::Unknown] {
            let account = Ledger::new(vec![write(1, answer, 10)]).settle(&[1, 1, 1]);
            assert_eq!((account.duplicated, account.is_broken()), (1, true), "{answer:?}");
        }
    }

    #[test]
    fn an_unknown_write_may_be_there_or_not_and_a_refused_one_that_is_there_breaks_a_promise() {
        let ledger = Ledger::new(vec![write(1, Answer::Unknown, 10), write(2, Answer::Failed, 10)]);
        assert!(!ledger.settle(&[]).is_broken());
        assert!(!ledger.settle(&[1]).is_broken());
        let account = ledger.settle(&[1, 2]);
        assert_eq!((account.despite_refusal, account.is_broken()), (1, true));
    }

    #[test]
    fn the_gap_reaches_from_the_last_promise_before_the_fault_to_the_first_after_it() {
        let ledger = acknowledged(&[990, 100, 500, 900]);
        assert_eq!(ledger.gap(ms(600), ms(850)), Some(gap(500, 900)));
        assert_eq!(
            ledger.interruptions(ms(600)),
            [gap(500, 900)],
            "90 ms are nothing"
        );
    }

    #[test]
    fn a_gap_that_begins_after_the_fault_counts_and_one_that_was_over_does_not() {
        let ledger = acknowledged(&[100, 3_000, 3_010, 3_020, 4_000, 4_010]);
        assert_eq!(ledger.gap(ms(3_005), ms(3_900)), Some(gap(3_020, 4_000)));
    }

    #[test]
    fn a_longer_break_after_main_served_again_is_not_the_gap_but_a_later_one() {
        let ledger = acknowledged(&[100, 500, 600, 3_000, 3_100]);
        assert_eq!(ledger.gap(ms(150), ms(550)), Some(gap(100, 500)));
        assert_eq!(ledger.later(ms(150), ms(550)), Some(gap(600, 3_000)));
        assert_eq!(ledger.later(ms(150), ms(3_100)), None);
    }

    #[test]
    fn refused_writes_do_not_end_a_gap_and_without_a_promise_after_the_fault_there_is_none() {
        let mut ledger = acknowledged(&[100, 200]);
        ledger.writes.push(write(7, Answer::Failed, 300));
        ledger.writes.push(write(8, Answer::Unknown, 400));
        assert_eq!(ledger.gap(ms(250), ms(800)), None);
        ledger.writes.push(write(9, Answer::Acknowledged, 900));
        assert_eq!(ledger.gap(ms(250), ms(800)), Some(gap(200, 900)));
    }

    #[test]
    fn each_client_has_its_share_before_the_fault_and_after_it() {
        let by = |client, answer, at| Write {
            client,
            ..write(0, answer, at)
        };
        let ledger = Ledger::new(vec![
            by(0, Answer::Acknowledged, 100),
            by(0, Answer::Acknowledged, 200),
            by(0, Answer::Failed, 210),
            by(0, Answer::Acknowledged, 300),
            by(2, Answer::Unknown, 100),
            by(2, Answer::Acknowledged, 500),
        ]);
        let share = |before, after, acknowledged| Share {
            before,
            after,
            acknowledged,
        };
        let shares = ledger.shares(3, ms(200), ms(400));
        assert_eq!(shares, [share(2, 0, 3), share(0, 0, 0), share(0, 1, 1)]);
    }

    #[test]
    fn whoever_is_told_anything_but_yes_has_noticed() {
        let quiet = acknowledged(&[1, 2]).settle(&[0, 1]);
        assert!(!quiet.is_noticed());
        for answer in [Answer::Failed, Answer::Unknown] {
            let account = Ledger::new(vec![write(1, answer, 10)]).settle(&[]);
            assert!(account.is_noticed() && !account.is_broken(), "{answer:?}");
        }
        assert!(acknowledged(&[1]).settle(&[]).is_noticed());
    }

    #[test]
    fn accounts_of_rounds_add_up() {
        let one = Account {
            acknowledged: 1,
            failed: 2,
            unknown: 3,
            lost: 4,
            duplicated: 5,
            despite_refusal: 6,
        };
        let two = one.and(one);
        assert_eq!(
            two,
            Account {
                acknowledged: 2,
                failed: 4,
                unknown: 6,
                lost: 8,
                duplicated: 10,
                despite_refusal: 12,
            }
        );
    }
}
