//! What databases do by themselves, and what is done to them.

use super::config::Config;
use super::state::{Pod, State, Waiting, database, model_name, process};
use super::{Doing, Violation};
use crate::memgraph::data::{Delta, WriteId};
use crate::memgraph::instance::{
    self, Begun, EpochId, MainId, Mode, Relation, Restart, Role, Stage, Status, Stop, Verdict, verdict,
};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::plan::Target;
use mainstay_core::memgraph::prepare::{Asked, Prepare, prepare};

impl State {
    /// A client's write begins on the MAIN that its gateway is connected to.
    pub(super) fn client_writes(&mut self, doing: &mut Doing<'_>, gateway: u8) {
        let session = self.gateways.get(usize::from(gateway)).and_then(|g| g.session);
        let Some((number, _)) = session else { return };
        let write = WriteId(self.next_write);
        let begun = self.with_db(number, |db, net| db.begin(Delta::Write(write), net));
        match begun {
            Some(Ok(Begun::Prepared | Begun::Local | Begun::Waiting)) => {
                self.next_write += 1;
                if let Some(pod) = self.pod_mut(number) {
                    pod.waiting = Some(Waiting {
                        gateway: Some(gateway),
                        write,
                    });
                }
                doing.note(|| format!("w{} begins on {}", write.0, super::pod_letter(number)));
            }
            other => {
                // Refused: the client is told, and the gateway checks again before it goes on (G5).
                doing.note(|| format!("refused: {other:?}"));
                if let Some(g) = self.gateways.get_mut(usize::from(gateway)) {
                    g.session = None;
                }
            }
        }
    }

    pub(super) fn commit_locally(&mut self, pod: u8) {
        if let Some(pod) = self.pod_mut(pod) {
            let _ = pod.db.commit_locally();
        }
    }

    pub(super) fn finalize(&mut self, pod: u8) {
        self.with_db(pod, |db, net| db.finalize(net).ok());
    }

    /// The client gets its answer, if its session was not cut meanwhile.
    pub(super) fn acknowledge(&mut self, doing: &mut Doing<'_>, number: u8) {
        let Some(pod) = self.pod_mut(number) else { return };
        let Ok(_) = pod.db.finish() else { return };
        let Some(Waiting { gateway, write }) = pod.waiting.take() else {
            return;
        };
        match gateway {
            Some(_) => {
                doing.note(|| format!("w{} acknowledged", write.0));
                self.acked.insert(write);
                self.judge_replicas(doing, number, write);
            }
            None => doing.note(|| format!("w{}: nobody listens any more", write.0)),
        }
    }

    /// [04c]: a replica that is ahead of its MAIN says yes to what it takes for old, and does not have it.
    fn judge_replicas(&self, doing: &mut Doing<'_>, main: u8, write: WriteId) {
        let Some(pod) = self.pod(main).filter(|_| doing.config.report_missing) else {
            return;
        };
        let lacks = |n: u8| {
            self.pod(n)
                .is_some_and(|p| p.alive && !p.db.store().writes.contains(write))
        };
        let strict = |r: &&instance::Registration<_>| r.is_attached() && r.mode() == Mode::StrictSync;
        if let Some(r) = pod
            .db
            .registrations()
            .iter()
            .filter(strict)
            .find(|r| lacks(r.peer().0))
        {
            let replica = Ordinal(r.peer().0);
            doing.violate(Violation::MissingOnReplica { write, replica });
        }
    }

    /// A client deletes everything: one commit, all its steps at once.
    pub(super) fn unmark(&mut self, doing: &mut Doing<'_>, gateway: u8) {
        self.budget.unmarks = self.budget.unmarks.saturating_sub(1);
        let session = self.gateways.get(usize::from(gateway)).and_then(|g| g.session);
        let Some((number, run)) = session else { return };
        let on = Target {
            pod: Ordinal(number),
            process: process(number, run),
        };
        let outcome = self.commit(on, Delta::Unmark);
        doing.note(|| format!("{outcome:?}"));
    }

    /// The process stops and is there.
    pub(super) fn hang(&mut self, number: u8) {
        self.budget.hangs = self.budget.hangs.saturating_sub(1);
        if let Some(pod) = self.pod_mut(number) {
            pod.hung = true;
        }
    }

    /// A commit that waited for the vote of a replica that hangs goes on without it.
    pub(super) fn give_up(&mut self, doing: &mut Doing<'_>, number: u8) {
        let begun = self.with_db(number, |db, net| db.end_votes(net));
        doing.note(|| format!("{:?}", begun.and_then(Result::ok)));
        let Some(pod) = self.pod_mut(number).filter(|p| p.db.stage().is_none()) else {
            return;
        };
        // As with any refused write: the client is told, and the gateway checks again (G5).
        if let Some(Waiting { gateway: Some(g), .. }) = pod.waiting.take()
            && let Some(gateway) = self.gateways.get_mut(usize::from(g))
        {
            gateway.session = None;
        }
    }

    /// Pings, heartbeat and catch-up of one replica, as far as they get in one go.
    pub(super) fn tend(&mut self, doing: &mut Doing<'_>, main: u8, replica: u8) {
        let before = self.false_divergence(main, replica);
        let status = self.with_db(main, |db, net| {
            let name = db
                .registrations()
                .iter()
                .find(|r| r.peer().0 == replica && r.is_attached())?
                .name();
            if db.registration(name)?.has_queued() {
                return db.deliver_async(name, net).ok();
            }
            match db.registration(name)?.status() {
                Status::Ready | Status::Replicating | Status::Diverged => {
                    // A live connection changes nothing; a dead one is noticed by the third ping.
                    for _ in 0..3 {
                        let _ = db.ping(name, net);
                    }
                    Some(db.registration(name)?.status())
                }
                Status::Invalid => {
                    let _ = db.ping(name, net);
                    let checked = db.check(name, net).ok()?;
                    let incremental = checked == Status::Recovery && !doing.config.snapshot_recovery;
                    if incremental {
                        db.recover(name, net).ok()
                    } else {
                        Some(checked)
                    }
                }
                Status::Recovery if doing.config.snapshot_recovery && db.snapshot().is_some() => {
                    db.recover_snapshot_finish(name, net).ok()
                }
                Status::Recovery => db.recover(name, net).ok(),
            }
        });
        doing.note(|| format!("{:?}", status.flatten()));
        if status == Some(Some(Status::Diverged)) && before && doing.config.report_false_divergence {
            doing.violate(Violation::FalseDivergence {
                main: Ordinal(main),
                accused: Ordinal(replica),
            });
        }
    }

    /// The first half of a snapshot recovery.
    pub(super) fn empty(&mut self, main: u8, replica: u8) {
        self.with_db(main, |db, net| {
            let name = db
                .registrations()
                .iter()
                .find(|r| r.peer().0 == replica && r.is_attached())?
                .name();
            db.recover_snapshot_begin(name, net).ok()
        });
    }

    /// The process dies, or its node loses power.
    pub(super) fn crash(&mut self, doing: &mut Doing<'_>, number: u8, power: bool) {
        self.budget.crashes = self.budget.crashes.saturating_sub(1);
        let refused = self.registered_as(number, false);
        self.end_process(doing.config, number, power);
        let awake = self.registered_as(number, true);
        let woke = refused.into_iter().find(|replica| awake.contains(replica));
        if let Some(replica) = woke.filter(|_| doing.config.report_zombies) {
            doing.violate(Violation::ZombieWoke {
                main: Ordinal(number),
                replica: Ordinal(replica),
            });
        }
    }

    /// Whose STRICT_SYNC registrations on this pod are attached, or are zombies?
    fn registered_as(&self, number: u8, attached: bool) -> Vec<u8> {
        let listed = self.pod(number).into_iter().flat_map(|p| p.db.registrations());
        listed
            .filter(|r| r.is_attached() == attached && r.mode() == Mode::StrictSync)
            .map(|r| r.peer().0)
            .collect()
    }

    /// The process ends. What is on its disk is what a restart will find, so the restart is done here.
    pub(super) fn end_process(&mut self, config: &Config, number: u8, power: bool) {
        let (main, epoch) = (MainId(self.fresh_id()), EpochId(self.fresh_id()));
        let Some(pod) = self.pod_mut(number).filter(|p| p.alive) else {
            return;
        };
        pod.alive = false;
        pod.hung = false;
        pod.waiting = None;
        // Its replicas lose their connection; a replica that dies takes nobody else's away.
        let leads = (pod.db.role() == Role::Main).then(|| pod.db.main_id());
        let stop = if power { Stop::PowerLost } else { Stop::Killed };
        pod.db.restart(Restart {
            stop,
            init_file: config.init_file,
            main,
            epoch,
        });
        // Through a link that is cut nobody hears of it.
        let cut = self.cut.clone();
        let hears = |n: u8| n != number && !cut.contains(&(n.min(number), n.max(number)));
        for (other, _) in self
            .pods
            .iter_mut()
            .zip(0_u8..)
            .filter(|(p, n)| hears(*n) && Some(p.db.main_id()) == leads)
        {
            other.db.connection_lost();
        }
        for gateway in &mut self.gateways {
            if gateway.session.is_some_and(|(pod, _)| pod == number) {
                gateway.session = None;
            }
        }
    }

    /// The pod is deleted: its process ends, and the next one belongs to another pod object.
    pub(super) fn recreate(&mut self, config: &Config, number: u8) {
        self.end_process(config, number, false);
        if let Some(pod) = self.pod_mut(number) {
            pod.recreate = true;
            pod.uid = pod.uid.wrapping_add(1);
        }
    }

    /// The init container first if the pod is new, then the database.
    pub(super) fn start_pod(&mut self, doing: &mut Doing<'_>, number: u8) {
        let record = self.record.clone();
        let Some(pod) = self.pod(number) else { return };
        if pod.recreate && pod.marker.is_some() {
            let last = Some(process(number, pod.last));
            let asked = record.as_deref().map_or(Asked::NoRecord, Asked::Record);
            let verdict = prepare(pod.marker, last, Ordinal(number), asked, doing.config.rules());
            doing.note(|| format!("init container: {verdict:?}"));
            if let Prepare::Wipe(_) = verdict {
                self.wipe(doing, number);
            }
        }
        let Some(pod) = self.pod_mut(number) else { return };
        if pod.recreate {
            pod.marker = None;
            pod.recreate = false;
        }
        pod.alive = true;
        pod.run += 1;
        pod.last = pod.run;
    }

    fn wipe(&mut self, doing: &mut Doing<'_>, number: u8) {
        if let Some(violation) = self.judge_wipe(number) {
            doing.violate(violation);
        }
        let (main, epoch) = (MainId(self.fresh_id()), EpochId(self.fresh_id()));
        let init_file = doing.config.init_file;
        if let Some(pod) = self.pod_mut(number) {
            pod.db.wipe(epoch);
            pod.db.restart(Restart {
                stop: Stop::Killed,
                init_file,
                main,
                epoch,
            });
        }
    }

    /// Is the data that is about to be set aside needed?
    fn judge_wipe(&self, number: u8) -> Option<Violation> {
        let pod = self.pod(number)?;
        let pod_id = Ordinal(number);
        let others = || {
            self.pods
                .iter()
                .zip(0_u8..)
                .filter(move |(_, n)| *n != number)
                .map(|(p, _)| p)
        };
        // MAIN's volume was lost after the reset was decided (a plan that begins one without a MAIN that serves is
        // a violation of its own): the quarantine is now the last copy, and is kept. No rule closes this window;
        // the documentation names it.
        let main_lost_its_volume = self
            .record
            .as_ref()
            .and_then(|r| r.main.as_ref())
            .is_some_and(|m| self.pod(m.pod.0).is_none_or(|p| p.volume_id(m.pod.0) != m.volume));
        if main_lost_its_volume {
            return None;
        }
        let only_here = |w: &WriteId| {
            self.acked.contains(*w)
                && pod.db.store().writes.contains(*w)
                && others().all(|p| !p.db.store().writes.contains(*w))
        };
        if (0..self.next_write).map(WriteId).any(|w| only_here(&w)) {
            return Some(Violation::WipedAcknowledged { pod: pod_id });
        }
        let main = self.recorded_main().and_then(|m| self.pod(m))?;
        let empty = pod.db.store().mark.is_none() && pod.db.store().writes.is_empty();
        let contained = matches!(
            main.db.lineage().relation(pod.db.lineage()),
            Relation::Level | Relation::OtherBehind
        );
        let refused_for_ever = main.db.lineage().has_never_heard_of(pod.db.lineage());
        (contained && !empty && !refused_for_ever).then_some(Violation::WipedGoodCopy { pod: pod_id })
    }

    pub(super) fn lose_volume(&mut self, config: &Config, number: u8) {
        self.budget.volumes = self.budget.volumes.saturating_sub(1);
        let (main, epoch) = (MainId(self.fresh_id()), EpochId(self.fresh_id()));
        if let Some(pod) = self.pod_mut(number) {
            pod.volume += 1;
            pod.marker = None;
            pod.db.lose_volume(database(number, pod.volume), epoch, main);
            pod.db.restart(Restart {
                stop: Stop::Killed,
                init_file: config.init_file,
                main,
                epoch,
            });
        }
    }

    pub(super) fn hand_drop(&mut self, main: u8, replica: u8) {
        self.budget.hand_drops = self.budget.hand_drops.saturating_sub(1);
        self.with_db(main, |db, _| {
            let name = db.registrations().iter().find(|r| r.peer().0 == replica)?.name();
            db.drop_replica(name).ok()
        });
    }

    /// A human sets a pod right by hand: the data of MAIN, and no thought of a marker.
    pub(super) fn repair(&mut self, config: &Config, number: u8) {
        self.budget.repairs = self.budget.repairs.saturating_sub(1);
        let Some(main) = self.recorded_main().filter(|m| *m != number) else {
            return;
        };
        let Some(mut copy) = self.pod(main).map(|p| p.db.clone()) else {
            return;
        };
        let (id, epoch) = (MainId(self.fresh_id()), EpochId(self.fresh_id()));
        copy.restart(Restart {
            stop: Stop::Killed,
            init_file: config.init_file,
            main: id,
            epoch,
        });
        self.end_process(config, number, false);
        if let Some(pod) = self.pod_mut(number) {
            pod.db = copy;
        }
    }

    /// Would this MAIN refuse that pod although the pod holds nothing that MAIN lacks?
    pub(super) fn false_divergence(&self, main: u8, accused: u8) -> bool {
        match (self.pod(main), self.pod(accused)) {
            (Some(main), Some(accused)) => verdict(&main.db, &accused.db) == Verdict::FalselyDiverged,
            _ => false,
        }
    }

    /// Does MAIN's work on this registration change anything?
    pub(super) fn needs_tending(
        &self,
        main: u8,
        r: &instance::Registration<crate::memgraph::data::Data>,
    ) -> bool {
        if !r.is_attached() {
            return false;
        }
        let reachable =
            |p: &Pod| p.alive && !p.hung && !self.is_cut(main, r.peer().0) && p.db.role() == Role::Replica;
        let peer = self.pod(r.peer().0).is_some_and(reachable);
        match r.status() {
            _ if r.has_queued() => true,
            Status::Ready | Status::Replicating | Status::Diverged => !peer,
            Status::Invalid | Status::Recovery => peer,
        }
    }

    /// May the commit on this pod go on to its finalize? The finalize lost on the wire between two live
    /// processes is Memgraph's own window, and excluded by definition: it waits until the link is back.
    pub(super) fn may_finalize(&self, number: u8) -> bool {
        let Some(pod) = self.pod(number) else { return false };
        pod.db.registrations().iter().all(|r| {
            let peer = r.peer().0;
            let prepared = self.pod(peer).is_some_and(|p| p.alive && p.db.is_prepared());
            !(self.is_cut(number, peer) && prepared)
        })
    }

    /// How far the client's commit on this pod is.
    pub(super) fn stage(&self, number: u8) -> Option<Stage> {
        self.pod(number)
            .filter(|p| p.alive && !p.hung && p.waiting.is_some())?
            .db
            .stage()
    }

    /// The registration under this name on this pod.
    pub fn registered(&self, main: u8, name: mainstay_core::memgraph::ids::RegistrationName) -> bool {
        self.pod(main)
            .is_some_and(|p| p.db.registration(model_name(name)).is_some())
    }
}
