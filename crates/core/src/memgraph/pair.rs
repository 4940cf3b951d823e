//! The pair: MAIN healthy, the other authority pod joins, is protected, or is withdrawn.

use super::ids::{Ordinal, ProofId, RegistrationName};
use super::observed::{Answer, Contact, Mode, Observed, Registration, Role, Status};
use super::plan::{OnRefusal, Plan, Step, Target, strict_name};
use super::reason::{Reason, Why};
use super::record::{Main, Record, Sync, Writes};
use super::rules::{Rule, Rules};
use super::spec::{Durability, WritesWithoutSync};
use super::term::{self, How, forget_gone};
use super::view::View;
use super::{ids, reset};

/// What the pair needs now; a plan without steps if it needs nothing or must wait.
pub(super) fn turn(view: &View<'_>, main: &Main, answer: &Answer) -> Plan {
    let Some(partner) = main.pod.partner() else {
        return Plan::wait(Reason::new(Rule::R5, Why::UnknownState));
    };
    // 001 step 3, 002 step 2.
    let Some(listed) = &answer.replicas else {
        return Plan::wait(Reason::new(
            Rule::Join,
            Why::RegistrationsUnread { main: main.pod },
        ));
    };
    if let Some(stray) = view.answer(partner).filter(|a| a.role == Role::Main) {
        return demote_stray(
            view,
            Target {
                pod: partner,
                process: stray.process,
            },
        );
    }
    let on = Target {
        pod: main.pod,
        process: main.process,
    };
    let pair = Pair {
        view,
        main,
        on,
        partner,
    };
    let mut own = listed.iter().filter(|r| r.name.pod() == partner);
    if let Some(wrong) = own.clone().find(|r| pair.is_wrong(r)) {
        return pair.repair(wrong);
    }
    let strict = own.clone().find(|r| r.mode == Mode::StrictSync);
    match (strict.or_else(|| own.next()), view.record.sync) {
        (Some(registration), _) if registration.mode == Mode::StrictSync => pair.with_strict(registration),
        // Registered anew as ASYNC by hand: what was proven is gone all the same.
        (Some(_), Some(_)) if view.rules().on(Rule::R17) => pair.registration_lost(),
        (Some(registration), _) => pair.with_async(registration),
        (None, Some(_)) => pair.registration_lost(),
        (None, None) => pair.join(),
    }
}

/// A second MAIN loses its protection first: demoting a protected one reopens the finalize window.
fn demote_stray(view: &View<'_>, stray: Target) -> Plan {
    let reason = Reason::new(Rule::Stray, Why::StrayMain { pod: stray.pod }).on(view.said(stray.pod));
    let next = forget_gone(
        view,
        view.record
            .withdrawn(view.writes_unprotected(view.record.exposed)),
    );
    Plan::because(reason)
        .then(Step::WriteRecord(Box::new(next)))
        .then(Step::Demote(stray))
}

struct Pair<'a> {
    view: &'a View<'a>,
    main: &'a Main,
    on: Target,
    partner: Ordinal,
}

impl Pair<'_> {
    /// The name a STRICT_SYNC registration gets in this generation (R4: never used twice).
    fn strict_name(&self) -> RegistrationName {
        let generation = if self.view.rules().on(Rule::R4) {
            self.view.record.generation
        } else {
            ids::Gen(0)
        };
        strict_name(self.partner, generation)
    }

    /// Not a registration we would make now: foreign name, mode or address, or a zombie.
    fn is_wrong(&self, r: &Registration) -> bool {
        let kind_ok = match r.mode {
            Mode::Async => r.name == RegistrationName::Async(self.partner),
            Mode::Sync => false,
            Mode::StrictSync => self.view.is_current_strict(r),
        };
        !kind_ok || !r.address_ok || !r.attached
    }

    /// Drops a registration that must not stay, after its name is retired (R4, R16).
    fn repair(&self, r: &Registration) -> Plan {
        let why = Why::RegistrationWrong { pod: self.partner };
        let reason = Reason::new(Rule::Withdraw, why).on([self.view.listed(self.main.pod, r)]);
        self.remove(r, reason)
    }

    /// Retires the name if it is in use, then drops the registration when that is safe (R33).
    fn remove(&self, r: &Registration, reason: Reason) -> Plan {
        let drop = Step::Drop {
            on: self.on,
            name: r.name,
        };
        let in_use = self.view.record.sync.is_some() || self.view.is_current_strict(r);
        let droppable = self.view.droppable(r);
        if in_use && self.view.rules().on(Rule::R16) {
            let plan = Plan::because(reason).then(self.write(self.withdrawn()));
            // What may be dropped only while writes stand still waits for the gateways' word on this record.
            return if droppable && r.status != Status::Ready {
                plan.then(drop)
            } else {
                plan
            };
        }
        if droppable {
            return Plan::because(reason).then(drop);
        }
        self.hold_to_drop(r).also(reason)
    }

    /// What can be dropped only while writes stand still waits for that, and nobody waits for it longer than for a join.
    fn hold_to_drop(&self, r: &Registration) -> Plan {
        let level = r.status == Status::Ready && r.behind == 0;
        let open = self.view.record.writes == Writes::Open;
        match (level, open) {
            (true, true) if self.view.may_hold() => self.hold(),
            (true, false) => self.hold_unconfirmed(),
            (true | false, _) => self
                .release_overdue()
                .unwrap_or_else(|| Plan::wait(Reason::new(Rule::R33, Why::DropUnsafe { pod: self.partner }))),
        }
    }

    fn withdrawn(&self) -> Record {
        let writes = match self.view.spec().writes_without_sync {
            WritesWithoutSync::Always => Writes::Open,
            WritesWithoutSync::AfterFailover if self.view.record.exposed => self.view.record.writes,
            WritesWithoutSync::AfterFailover => Writes::Held,
            WritesWithoutSync::Never => Writes::Closed,
        };
        self.view.record.withdrawn(writes)
    }

    /// R17: somebody dropped it by hand, and MAIN takes writes that nobody else has.
    fn registration_lost(&self) -> Plan {
        let reason = Reason::new(Rule::R17, Why::RegistrationLost { pod: self.partner });
        if !self.view.rules().on(Rule::R17) {
            return self.join();
        }
        Plan::because(reason).then(self.write(self.withdrawn()))
    }

    /// Nothing is registered for the partner.
    fn join(&self) -> Plan {
        let (view, pod) = (self.view, self.partner);
        if let Some(plan) = self.release_hold() {
            return plan;
        }
        let Some(answer) = view.answer(pod) else {
            return Plan::wait(Reason::new(Rule::Join, Why::PartnerAway { pod }));
        };
        if let Some(plan) = reset::diverged(view, self.main, pod, answer) {
            return plan;
        }
        if view.is_leaving(pod) {
            return Plan::wait(Reason::new(Rule::Join, Why::PartnerAway { pod }));
        }
        if view.port_is_closed(pod) {
            return Plan::wait(Reason::new(Rule::R28, Why::PortClosed { pod }));
        }
        let peer = Target {
            pod,
            process: answer.process,
        };
        register_async(
            view.rules(),
            self.on,
            peer,
            Reason::new(Rule::Join, Why::JoinAsync { pod }).on(view.said(pod)),
        )
    }

    fn with_async(&self, r: &Registration) -> Plan {
        let (view, pod) = (self.view, self.partner);
        let listed = view.listed(self.main.pod, r);
        let Some(answer) = view.answer(pod) else {
            return self.release_hold().unwrap_or_else(|| {
                Plan::wait(Reason::new(Rule::Join, Why::PartnerAway { pod }).on([listed]))
            });
        };
        let level = r.status == Status::Ready && r.behind == 0;
        if !level {
            return self.async_not_level(r, answer);
        }
        if view.is_leaving(pod) {
            let wait = || Plan::wait(Reason::new(Rule::Join, Why::PartnerAway { pod }).on([listed]));
            return self.release_hold().unwrap_or_else(wait);
        }
        if let Some(plan) = self.settle_or_renew(answer) {
            return plan;
        }
        if view.record.writes == Writes::Open && view.rules().on(Rule::R33) {
            let wait = || Plan::wait(Reason::new(Rule::Join, Why::CatchingUp { pod }).on([listed]));
            return if view.may_hold() { self.hold() } else { wait() };
        }
        if !view.droppable(r) {
            return self.hold_unconfirmed();
        }
        if view.port_is_closed(pod) {
            return Plan::wait(Reason::new(Rule::R28, Why::PortClosed { pod }));
        }
        let peer = Target {
            pod,
            process: answer.process,
        };
        let name = self.strict_name();
        Plan::because(Reason::new(Rule::Join, Why::JoinStrict { pod }).on([listed]))
            .then(Step::Drop {
                on: self.on,
                name: r.name,
            })
            .then_or(
                Step::Register {
                    on: self.on,
                    name,
                    mode: Mode::StrictSync,
                    peer,
                },
                undo_registration(view.rules(), self.on, name),
            )
    }

    /// Writes are held and a gateway does not confirm: after a while they go on, if the policy allows it.
    fn hold_unconfirmed(&self) -> Plan {
        let revision = self.view.record.revision;
        let wait = || Plan::wait(Reason::new(Rule::R33, Why::HoldUnconfirmed { revision }));
        self.release_overdue().unwrap_or_else(wait)
    }

    fn async_not_level(&self, r: &Registration, answer: &Answer) -> Plan {
        let (view, pod) = (self.view, self.partner);
        let listed = view.listed(self.main.pod, r);
        if r.status == Status::Diverged {
            let plan = reset::diverged(view, self.main, pod, answer);
            return plan.unwrap_or_else(|| self.repair(r));
        }
        if r.status == Status::Invalid && view.droppable(r) {
            let reason = Reason::new(Rule::Join, Why::ReplicaStuck { pod }).on([listed]);
            return self.remove(r, reason);
        }
        if view.record.writes == Writes::Open && self.nearly_level(r) && view.may_hold() {
            return self.hold();
        }
        if let Some(plan) = self.release_overdue() {
            return plan;
        }
        Plan::wait(Reason::new(Rule::Join, Why::CatchingUp { pod }).on([listed]))
    }

    /// Under load an ASYNC replica is hardly ever `ready`: without a hold it would never be level. Nor is it always at
    /// work when it is looked at: one that missed a commit is `invalid` until the next ping, and was fed a moment ago.
    fn nearly_level(&self, r: &Registration) -> bool {
        const NEAR: i64 = -1000;
        let works = matches!(r.status, Status::Ready | Status::Replicating | Status::Recovery);
        (works || self.view.is_fed(r)) && (NEAR..=0).contains(&r.behind)
    }

    fn hold(&self) -> Plan {
        let next = self.view.record.held(self.view.now);
        Plan::because(Reason::new(Rule::R33, Why::HoldForJoin { pod: self.partner })).then(self.write(next))
    }

    /// Writes were held for a replica that is not level any more: go on, if the policy allows it.
    fn release_hold(&self) -> Option<Plan> {
        let writes = self.view.writes_unprotected(self.view.record.exposed);
        if self.view.record.writes == Writes::Open || writes != Writes::Open {
            return None;
        }
        let reason = Reason::new(Rule::R33, Why::HoldOver { pod: self.partner });
        Some(Plan::because(reason).then(self.write(self.view.record.with_writes(writes))))
    }

    /// The same, once they were held for long enough.
    fn release_overdue(&self) -> Option<Plan> {
        let overdue = self.view.now.since(self.view.record.held_at) > self.view.spec().hold;
        self.release_hold().filter(|_| overdue)
    }

    fn with_strict(&self, r: &Registration) -> Plan {
        let (view, pod) = (self.view, self.partner);
        let listed = view.listed(self.main.pod, r);
        // A protected one in the middle of a commit is what a busy cluster looks like.
        let protects = view.answer(pod).is_some_and(|a| self.protects(a));
        if r.status == Status::Ready || protects && view.at_work(r) {
            return self.strict_ready(listed);
        }
        if let (Status::Diverged, Some(_), Some(answer)) = (r.status, view.record.sync, view.answer(pod)) {
            // A protected pod is never reset, nor its protection given up, on the word of one server (R14).
            if let Some(plan) = reset::diverged(view, self.main, pod, answer) {
                return plan;
            }
        }
        let alive = view.answer(pod).is_some();
        let stuck = matches!(r.status, Status::Invalid | Status::Diverged)
            && view.now.since(r.since) >= view.spec().steady
            && alive;
        if stuck {
            return self.remove(
                r,
                Reason::new(Rule::Withdraw, Why::ReplicaStuck { pod }).on([listed]),
            );
        }
        if view.spec().writes_without_sync == WritesWithoutSync::Always
            && view.now.since(r.since) >= view.spec().sync_grace
        {
            return self.go_on_without(r, listed);
        }
        // 001 event "TargetSyncReplica not ready": never dropped by reflex (that would remove the fence).
        Plan::wait(Reason::new(Rule::Stuck, Why::MainReadOnly { pod }).on([listed]))
    }

    /// Policy `Always`: withdraw, then drop; a replica that hangs must be ended first (R30).
    fn go_on_without(&self, r: &Registration, listed: super::reason::Evidence) -> Plan {
        let (view, pod) = (self.view, self.partner);
        let hangs = matches!(
            view.seen.pod(pod).map(|p| &p.contact),
            Some(Contact::Silent { .. })
        );
        if hangs
            && view.rules().on(Rule::R30)
            && let Some(object) = view.seen.object(pod)
            && let Some(process) = object.running
        {
            let target = Target { pod, process };
            return Plan::because(Reason::new(Rule::R30, Why::SyncHangs { pod }).on([listed])).then(
                Step::EndProcess {
                    target,
                    uid: object.uid,
                },
            );
        }
        self.remove(
            r,
            Reason::new(Rule::Withdraw, Why::SyncAwayTooLong { pod }).on([listed]),
        )
    }

    /// STRICT_SYNC and `ready`, which proves nothing: settle, renew or prove.
    /// Is this the process whose protection is in the record?
    fn protects(&self, answer: &Answer) -> bool {
        let sync = self.view.record.sync;
        sync.is_some_and(|s| s.process == answer.process && s.pod == self.partner)
    }

    fn strict_ready(&self, listed: super::reason::Evidence) -> Plan {
        let (view, pod) = (self.view, self.partner);
        let Some(answer) = view.answer(pod) else {
            return Plan::wait(Reason::new(Rule::Stuck, Why::PartnerAway { pod }).on([listed]));
        };
        if view.mark(self.main.pod) == Some(None) {
            // The proof is written beside the mark, and a replica without one could not be promoted.
            return Plan::wait(Reason::new(Rule::Prove, Why::MarkLost { main: self.main.pod }));
        }
        if self.protects(answer) {
            return self.keep_open();
        }
        if let Some(plan) = self.settle_or_renew(answer) {
            return plan;
        }
        self.prove(answer)
    }

    /// Protected. Writes that were held or closed for a moment are open again.
    fn keep_open(&self) -> Plan {
        let reason = Reason::new(Rule::Prove, Why::Healthy { main: self.main.pod });
        if self.view.record.writes == Writes::Open {
            return Plan::wait(reason);
        }
        Plan::because(reason).then(self.write(self.view.record.with_writes(Writes::Open)))
    }

    /// What must be so before this pair can be proven: no loose process, and nobody restarted in the epoch.
    fn settle_or_renew(&self, partner: &Answer) -> Option<Plan> {
        let view = self.view;
        let protected = view.record.sync.is_some_and(|s| s.process == partner.process);
        if protected {
            return None;
        }
        if let Some(plan) = self.gateways_behind() {
            return Some(plan);
        }
        let both = [
            (self.partner, partner.process),
            (self.main.pod, self.main.process),
        ];
        if let Some((pod, process)) = both.into_iter().find(|(_, process)| view.loose(*process)) {
            let reason = Reason::new(Rule::Settle, Why::LooseProcess { pod }).on(view.said(pod));
            let Some(uid) = view.seen.object(pod).map(|o| o.uid) else {
                return Some(Plan::wait(reason));
            };
            return Some(Plan::because(reason).then(Step::EndProcess {
                target: Target { pod, process },
                uid,
            }));
        }
        if view.in_epoch(partner.process) {
            return None;
        }
        let reason =
            Reason::new(Rule::Renew, Why::NewEpoch { pod: self.partner }).on(view.said(self.partner));
        Some(term::begin(
            view,
            self.main.pod,
            view.record.exposed,
            How::Renew,
            reason,
        ))
    }

    /// R35: a gateway that has not confirmed the term keeps everything from being proven, so nothing is begun for it
    /// either: a new epoch would close writes and end where it began.
    fn gateways_behind(&self) -> Option<Plan> {
        let (view, term) = (self.view, self.view.record.term);
        let behind = view.rules().on(Rule::R35) && !view.seen.all_confirmed_term(term);
        behind.then(|| {
            let reason = Reason::new(Rule::R35, Why::GatewaysBehind { term });
            self.hold_unconfirmed().also(reason)
        })
    }

    /// R3: a small commit on MAIN, seen on the replica, in the same process before and after.
    fn prove(&self, answer: &Answer) -> Plan {
        let (view, pod) = (self.view, self.partner);
        if let Some(plan) = self.gateways_behind() {
            return plan;
        }
        let Some(volume) = view.volume(pod) else {
            return Plan::wait(Reason::new(Rule::Prove, Why::NoNews { pod }));
        };
        let replica = Target {
            pod,
            process: answer.process,
        };
        let proof = ProofId(view.seen.turn);
        let sync = Sync {
            pod,
            process: answer.process,
            volume,
            name: self.strict_name(),
        };
        let mut plan = Plan::because(Reason::new(Rule::Prove, Why::ProveNow { pod }).on(view.said(pod)));
        if view.rules().on(Rule::R3) {
            plan = plan
                .then(Step::WriteProof { on: self.on, proof })
                .then(Step::ReadProof { on: replica, proof });
        }
        plan.then(self.write(view.record.protected(sync)))
    }

    fn write(&self, next: Record) -> Step {
        Step::WriteRecord(Box::new(forget_gone(self.view, next)))
    }
}

/// Is what was proven gone from MAIN's list (R17)? Then nothing may delay the pair: MAIN takes writes that nobody
/// else has.
pub(super) fn has_lost_its_registration(view: &View<'_>, main: &Main, answer: &Answer) -> bool {
    let (Some(sync), Some(listed)) = (view.record.sync, &answer.replicas) else {
        return false;
    };
    let kept = |r: &Registration| r.name.pod() == sync.pod && r.mode == Mode::StrictSync && r.attached;
    view.rules().on(Rule::R17) && main.pod.partner() == Some(sync.pod) && !listed.iter().any(kept)
}

/// Does this plan only open writes again that were held? Then a repair that needs them held goes first.
pub(super) fn only_reopens(view: &View<'_>, plan: &Plan) -> bool {
    let [only] = plan.steps.as_slice() else {
        return false;
    };
    only.step.record().is_some_and(|next| {
        next.writes == Writes::Open && next.sync.is_some() && next.sync == view.record.sync
    })
}

/// Registers an ASYNC replica; a refusal is undone in the same turn (R32).
pub(super) fn register_async(rules: Rules, on: Target, peer: Target, reason: Reason) -> Plan {
    let name = RegistrationName::Async(peer.pod);
    Plan::because(reason).then_or(
        Step::Register {
            on,
            name,
            mode: Mode::Async,
            peer,
        },
        undo_registration(rules, on, name),
    )
}

fn undo_registration(rules: Rules, on: Target, name: RegistrationName) -> OnRefusal {
    if rules.on(Rule::R32) {
        OnRefusal::Undo(Box::new(Step::Drop { on, name }))
    } else {
        OnRefusal::End
    }
}

/// Is protection worth its name? Without fsync, declared and in force, it is not (R12).
pub fn counts_as_protected(durability: Durability, fsync: bool, record: &Record) -> bool {
    record.sync.is_some() && durability == Durability::Strict && fsync
}

/// Do MAIN and whoever protects it write every commit through to disk, as far as their pods show? A pod that somebody
/// else made may not, whatever is declared.
pub fn pair_fsyncs(seen: &Observed, record: &Record) -> bool {
    let main = record.main.as_ref().map(|main| main.pod);
    let sync = record.sync.map(|sync| sync.pod);
    let mut objects = main.into_iter().chain(sync).filter_map(|pod| seen.object(pod));
    objects.all(|object| object.fsync)
}
