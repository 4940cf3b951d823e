//! The replica's side of the requests.

use super::Instance;
use super::ids::{DatabaseId, MainId, Ts};
use super::lineage::{Lineage, is_prefix};
use super::roles::Role;
use super::rpc::{Answer, Files, Rpc, Store, Transaction};

impl<S: Store> Instance<S> {
    /// Answers a request of a MAIN.
    pub fn serve(&mut self, rpc: Rpc<S>) -> Answer {
        if self.role == Role::Main {
            return Answer::Refused;
        }
        match rpc {
            Rpc::Ping => Answer::Yes,
            Rpc::SwapMain { main } => {
                self.set_main_id(main);
                Answer::Yes
            }
            Rpc::SystemRecovery { main, db } => yes(self.system_recovery(main, db)),
            Rpc::Heartbeat { main, db } if self.obeys(main, db) => Answer::Position {
                epoch: self.lineage.reported_epoch(),
                ldt: self.lineage.ldt,
            },
            Rpc::Prepare {
                main,
                db,
                transaction,
                two_phase,
            } if self.obeys(main, db) => yes(self.prepare(transaction, two_phase)),
            Rpc::Finalize { main, ts, commit } if main == self.main => {
                self.finalize_prepared(ts, commit);
                Answer::Yes
            }
            Rpc::Clear { main, db } if self.obeys(main, db) => {
                self.clear();
                Answer::Yes
            }
            Rpc::Files { main, db, files } if self.obeys(main, db) => yes(self.load(*files)),
            Rpc::Heartbeat { .. }
            | Rpc::Prepare { .. }
            | Rpc::Finalize { .. }
            | Rpc::Clear { .. }
            | Rpc::Files { .. } => Answer::No,
        }
    }

    /// The connection of MAIN ended: newer releases drop what it had prepared,
    /// and can be promoted again.
    pub fn connection_lost(&mut self) {
        if self.profile.refuses_promotion_while_prepared() {
            self.prepared = None;
        }
    }

    fn obeys(&self, main: MainId, db: DatabaseId) -> bool {
        main == self.main && db == self.db
    }

    fn system_recovery(&mut self, main: MainId, db: DatabaseId) -> bool {
        if main != self.main {
            return false;
        }
        // A disk with data of its own keeps its id, for ever `invalid`.
        if self.db != db && self.lineage.ldt != Ts::ZERO {
            return false;
        }
        self.db = db;
        true
    }

    fn prepare(&mut self, transaction: Transaction<S::Delta>, two_phase: bool) -> bool {
        self.prepared = None;
        // MAIN is behind us in one epoch: everything in the message counts as
        // old, so it is skipped and answered with yes. Acknowledged, missing.
        if transaction.ts <= self.lineage.ldt {
            return true;
        }
        // Something before it is missing here, or we hold something MAIN lacks
        // and its new objects have ids that are taken.
        if transaction.after.as_ref() != self.lineage.runs.last() {
            return false;
        }
        self.lineage.enter(transaction.epoch);
        if two_phase {
            self.prepared = Some(transaction);
        } else {
            self.commit_received(&transaction);
        }
        true
    }

    fn finalize_prepared(&mut self, ts: Ts, commit: bool) {
        if let Some(transaction) = self.prepared.take_if(|prepared| prepared.ts == ts)
            && commit
        {
            self.commit_received(&transaction);
        }
    }

    fn commit_received(&mut self, transaction: &Transaction<S::Delta>) {
        self.store.apply(&transaction.delta);
        self.lineage.append(transaction.writer, transaction.ts);
    }

    /// The old files move aside, the data is gone until `load`.
    fn clear(&mut self) {
        self.prepared = None;
        self.store = S::default();
        self.lineage = Lineage::fresh(self.lineage.epoch);
        self.snapshot = None;
    }

    fn load(&mut self, files: Files<S>) -> bool {
        let Files {
            store,
            runs,
            snapshot,
        } = files;
        match snapshot {
            Some(mut snapshot) => {
                snapshot.received = true;
                self.lineage = Lineage {
                    epoch: snapshot.epoch,
                    ldt: snapshot.ldt,
                    history: snapshot.history.clone(),
                    runs: Vec::new(),
                };
                self.snapshot = Some(Box::new(snapshot));
            }
            // Same labels, other transactions: the log cannot be applied, and
            // this is not called diverged. It is tried again for ever.
            None if !is_prefix(&self.lineage.runs, &runs) => return false,
            None => {}
        }
        self.prepared = None;
        self.lineage.follow(&runs);
        self.store = store;
        true
    }
}

const fn yes(done: bool) -> Answer {
    if done { Answer::Yes } else { Answer::No }
}
