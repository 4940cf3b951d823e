//! Epochs: what the server remembers about its past, wrongly at times, and
//! what is really in the data.

use super::ids::{EpochId, IdVisitor, MainId, Ts};
use super::profile::Profile;
use super::registration::Status;
use serde::{Deserialize, Serialize};

/// One line of the history that divergence is judged by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// The epoch.
    pub epoch: EpochId,
    /// The position at its supposed end.
    pub ts: Ts,
}

/// A stretch of committed transactions with one label.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The label in the log, all that the real server has.
    pub epoch: EpochId,
    /// Who really wrote them. Two instances that hold a transaction of one
    /// writer with one timestamp hold the same transaction; two with one
    /// epoch need not (a MAIN that lost its tail, or its epoch, reuses it).
    pub writer: MainId,
    /// Timestamp of the last one.
    pub last: Ts,
}

/// What a snapshot file says about the past.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// The history as it was in memory, right or wrong.
    pub history: Vec<Ended>,
    /// The epoch at that time.
    pub epoch: EpochId,
    /// The position at that time.
    pub ldt: Ts,
    /// It came from a MAIN; the log of this disk starts only after it.
    pub received: bool,
}

/// Past and position of one instance.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lineage {
    /// Label of the next commit.
    pub epoch: EpochId,
    /// Last durable timestamp.
    pub ldt: Ts,
    /// What the server believes.
    pub history: Vec<Ended>,
    /// What is committed.
    pub runs: Vec<Run>,
}

/// How the data of two instances really relate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Relation {
    /// The same transactions.
    Level,
    /// The other one has a part of this one's and nothing else.
    OtherBehind,
    /// This one has a part of the other's and nothing else.
    OtherAhead,
    /// Each has something the other lacks.
    Forked,
}

impl Lineage {
    /// The lineage of an empty disk.
    pub const fn fresh(epoch: EpochId) -> Self {
        Self {
            epoch,
            ldt: Ts::ZERO,
            history: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Notes the end of the current epoch, unless nothing was committed since
    /// the last note. After a restart the first note of an epoch is stale as
    /// soon as one more commit came, and this adds a second, correct one: the
    /// lookup takes the first.
    fn note_end(&mut self) {
        if self.history.last().is_none_or(|last| last.ts != self.ldt) {
            self.history.push(Ended {
                epoch: self.epoch,
                ts: self.ldt,
            });
        }
    }

    /// Begins another epoch: promotion, or a replica that meets a new label.
    pub fn enter(&mut self, epoch: EpochId) {
        if epoch != self.epoch {
            self.note_end();
            self.epoch = epoch;
        }
    }

    /// One more transaction is durable.
    pub fn append(&mut self, writer: MainId, ts: Ts) {
        self.ldt = ts;
        let run = Run {
            epoch: self.epoch,
            writer,
            last: ts,
        };
        match self.runs.last_mut() {
            Some(last) if last.epoch == run.epoch && last.writer == writer => last.last = ts,
            _ => self.runs.push(run),
        }
    }

    /// What a heartbeat reports: the last epoch with a commit.
    pub fn reported_epoch(&self) -> EpochId {
        match self.history.last() {
            Some(last) if last.ts == self.ldt => last.epoch,
            _ => self.epoch,
        }
    }

    /// What a MAIN with this lineage makes of a peer's heartbeat.
    pub fn judge(&self, epoch: EpochId, ldt: Ts) -> Status {
        if ldt != Ts::ZERO && epoch != self.epoch {
            let first = self.history.iter().find(|ended| ended.epoch == epoch);
            if first.is_none_or(|ended| ended.ts < ldt) {
                return Status::Diverged;
            }
        }
        if ldt >= self.ldt {
            Status::Ready
        } else {
            Status::Recovery
        }
    }

    /// Goes on with the part of MAIN's log that is missing here.
    pub fn follow(&mut self, runs: &[Run]) {
        let from = self.ldt;
        for run in runs.iter().filter(|run| run.last > from) {
            self.enter(run.epoch);
            self.ldt = run.last;
        }
        self.runs = runs.to_vec();
    }

    /// What start-up makes of the files on disk. `empty` is the epoch of an
    /// instance that has none.
    pub fn recovered(runs: Vec<Run>, snapshot: Option<&Snapshot>, empty: EpochId, profile: Profile) -> Self {
        let mut lineage = Self::fresh(empty);
        if let Some(Snapshot {
            history,
            epoch,
            ldt,
            received: _,
        }) = snapshot
        {
            lineage.history.clone_from(history);
            lineage.epoch = *epoch;
            lineage.ldt = *ldt;
            if profile.notes_epoch_of_snapshot() {
                lineage.note_recovered();
            }
        }
        for run in runs
            .iter()
            .filter(|run| snapshot.is_none_or(|snapshot| run.last > snapshot.ldt))
        {
            lineage.epoch = run.epoch;
            lineage.ldt = run.last;
            lineage.note_recovered();
        }
        lineage.runs = runs;
        lineage
    }

    /// Recovery notes even the epoch that is not over: the seed of the false
    /// divergence.
    fn note_recovered(&mut self) {
        match self.history.last_mut() {
            Some(last) if last.epoch == self.epoch => last.ts = last.ts.max(self.ldt),
            _ => self.history.push(Ended {
                epoch: self.epoch,
                ts: self.ldt,
            }),
        }
    }

    /// Shows every id to `visitor`.
    pub(super) fn visit_ids(&mut self, visitor: &mut impl IdVisitor) {
        let Self {
            epoch,
            ldt,
            history,
            runs,
        } = self;
        visitor.epoch(epoch);
        visitor.ts(ldt);
        for ended in history {
            visitor.epoch(&mut ended.epoch);
            visitor.ts(&mut ended.ts);
        }
        visit_runs(runs, visitor);
    }

    /// Would a MAIN with this lineage refuse the other for an epoch it has never heard of?
    ///
    /// A candidate that takes a snapshot between its promotion and its first commit has such an epoch on disk, and
    /// no data of its own. No MAIN ever takes it back: to be reset is all that is left.
    pub fn has_never_heard_of(&self, other: &Self) -> bool {
        let epoch = other.reported_epoch();
        let known = epoch == self.epoch || self.history.iter().any(|ended| ended.epoch == epoch);
        other.ldt != Ts::ZERO && !known
    }

    /// How the data really relate, whatever the histories say.
    pub fn relation(&self, other: &Self) -> Relation {
        match (
            is_prefix(&other.runs, &self.runs),
            is_prefix(&self.runs, &other.runs),
        ) {
            (true, true) => Relation::Level,
            (true, false) => Relation::OtherBehind,
            (false, true) => Relation::OtherAhead,
            (false, false) => Relation::Forked,
        }
    }
}

impl Snapshot {
    /// Shows every id to `visitor`.
    pub(super) fn visit_ids(&mut self, visitor: &mut impl IdVisitor) {
        let Self {
            history,
            epoch,
            ldt,
            received: _,
        } = self;
        visitor.epoch(epoch);
        visitor.ts(ldt);
        for ended in history {
            visitor.epoch(&mut ended.epoch);
            visitor.ts(&mut ended.ts);
        }
    }
}

pub(super) fn visit_runs(runs: &mut [Run], visitor: &mut impl IdVisitor) {
    for run in runs {
        visitor.epoch(&mut run.epoch);
        visitor.main(&mut run.writer);
        visitor.ts(&mut run.last);
    }
}

/// Whether everything in `short` is in `long`, and in front.
pub(super) fn is_prefix(short: &[Run], long: &[Run]) -> bool {
    let Some((last, earlier)) = short.split_last() else {
        return true;
    };
    let Some((same, rest)) = long.split_at_checked(earlier.len()) else {
        return false;
    };
    same == earlier
        && rest
            .first()
            .is_some_and(|run| run.epoch == last.epoch && run.writer == last.writer && run.last >= last.last)
}
