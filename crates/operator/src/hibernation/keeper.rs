//! One turn of one plan: observe, decide, check, act, report.

use super::act::{Acted, Actor};
use super::executor::Place;
use super::observe::{self, Looks, ObserveError, Read};
use super::report::{
    Board, Followed, Note, Outlook, Report, Seen, Told, Unsaid, next_change, status, tell_exceptions,
    unfollowed,
};
use super::settings::Settings;
use crate::call::{CallError, bounded, existing};
use crate::engine::keeper::{Keeper as Kept, Turned};
use crate::engine::lease::Permit;
use api::HibernatePlan as Object;
use api::hibernation::BadPlan;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use mainstay_core::hibernation::ids::{CycleId, PlanName, ResourceId, TargetName};
use mainstay_core::hibernation::observed::{Answer, Observed, Stored};
use mainstay_core::hibernation::point::Point;
use mainstay_core::hibernation::reason::Why;
use mainstay_core::hibernation::state::State;
use mainstay_core::hibernation::store::Store;
use mainstay_core::hibernation::{Decision, HibernatePlan, decide, invariants};
use mainstay_core::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Why a turn came to nothing.
#[derive(Debug, Error)]
pub enum TurnError {
    /// The plan could not be read.
    #[error("the plan could not be read: {0}")]
    Object(#[source] CallError),
    /// It could not look.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// A write failed that others rest on. The status says so too, if it could be written.
    #[error("{0}")]
    Ended(String),
}

/// After a step was taken something may be new at once, and that is looked at soon.
const SOON: Duration = Duration::from_secs(1);
/// No two turns follow each other faster.
const LEAST: Duration = Duration::from_millis(20);

/// One plan and what its operator remembers of it.
pub struct Keeper {
    client: Client,
    namespace: String,
    name: String,
    settings: Arc<Settings>,
    answers: Vec<Answer>,
    events: Seen,
    unsaid: Unsaid,
    /// What was logged last: the same reasons are not logged again each minute.
    logged: Vec<Why>,
    /// Who counts turns that ended early.
    board: Option<Arc<Board>>,
    outlook: Option<(HibernatePlan, Option<Time>, Outlook)>,
}

impl Kept for Keeper {
    type Told = Told;
    type Error = TurnError;

    async fn turn(&mut self, permit: &Permit) -> Result<Turned<Told>, TurnError> {
        let api: Api<Object> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = existing(bounded(self.settings.call, api.get(&self.name)).await);
        let Some(object) = found.map_err(TurnError::Object)? else {
            return Ok(Turned {
                again: self.settings.idle,
                told: None,
            });
        };
        Box::pin(self.turn_of(object, permit)).await
    }
}

/// What a turn saw and decided.
struct Decided {
    decision: Decision,
    seen: Observed,
    violations: Vec<String>,
}

impl Keeper {
    /// Nothing is known yet.
    pub fn new(client: Client, namespace: &str, name: &str, settings: Arc<Settings>) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            settings,
            answers: Vec::new(),
            events: Seen::default(),
            unsaid: Unsaid::default(),
            logged: Vec::new(),
            board: None,
            outlook: None,
        }
    }

    /// The same, with somebody who counts turns that ended early.
    #[must_use]
    pub fn counted_by(self, board: Arc<Board>) -> Self {
        Self {
            board: Some(board),
            ..self
        }
    }

    /// Says in the log what is new.
    fn log(&mut self, reasons: &[Why]) {
        for why in reasons.iter().filter(|why| !self.logged.contains(why)) {
            tracing::info!(
                plan = self.name,
                namespace = self.namespace,
                reason = why.id(),
                "{why}"
            );
        }
        self.logged = reasons.to_vec();
    }

    fn place(&self) -> Result<Place, ObserveError> {
        Ok(Place {
            client: self.client.clone(),
            namespace: self.namespace.clone(),
            plan: PlanName::parse(&self.name)?,
            before: Vec::new(),
            settings: Arc::clone(&self.settings),
        })
    }

    async fn turn_of(&mut self, mut object: Object, permit: &Permit) -> Result<Turned<Told>, TurnError> {
        let place = self.place()?;
        let mut read = match observe::read(&place, &object).await {
            Ok(read) => read,
            Err(error) => return Err(self.cannot_look(&place, &mut object, error, permit).await.into()),
        };
        let now = self.settings.clock.now();
        let notes = notes(&read, now);
        let (plan, bad) = match observe::followed(&object, &read) {
            Ok(followed) => followed,
            Err(bad) => return Ok(self.refuse(&place, &mut object, &read, &bad, permit).await),
        };
        let place = self.with_claims(place, &object, &read).await?;
        let outlook = self.outlook(&plan, now);
        let Decided {
            decision,
            seen,
            violations,
        } = self.decide(&place, &object, &read, &plan, now).await;
        let (wake, reasons, watched) = (decision.wake, decision.reasons.clone(), decision.watched);
        let selected = !observe::is_waking(read.state.as_ref());
        self.log(&reasons);
        let shown = self.unsaid.after(&reasons);
        let open = read.state.as_ref().and_then(|s| s.open.as_ref());
        let recorded = recorded(&read.maps.store(), open.map(|cycle| cycle.id));
        let report = |error: Option<&str>, object: &Object, state: Option<&State>| {
            let report = Report {
                followed: bad.as_ref().map_or(Followed::Whole, Followed::AsRecorded),
                outlook: Some(&outlook),
                reasons: &shown,
                recorded: &recorded,
                looks: &seen.targets,
                selected,
                watched,
                error,
                notes: &notes,
                now,
            };
            status(object, state, &report)
        };
        let acted = if violations.is_empty() {
            let mut actor = Actor {
                place: &place,
                object: &mut object,
                maps: &mut read.maps,
                state: &mut read.state,
                permit,
                status: &|object, state| report(None, object, state),
            };
            actor.carry_out(decision, &seen).await
        } else {
            Acted {
                ended: Some(format!("the decision was refused: {}", violations.join("; "))),
                ..Acted::default()
            }
        };
        self.answers.clone_from(&acted.answers);
        let error = acted.ended.as_deref();
        let next = report(error, &object, read.state.as_ref());
        let message = next.message.clone();
        let mut written = acted.gone;
        if permit.check(self.settings.call).is_ok() {
            if !acted.gone {
                written = self.write_status(&place, &mut object, next).await;
            }
            let state = read.state.as_ref();
            let also = bad.as_ref().map(|bad| refused(bad, &bad.to_string()));
            let notes: Vec<Note> = notes.iter().cloned().chain(also).collect();
            self.events
                .tell(&place, &object, state, &reasons, &notes, error)
                .await;
            tell_exceptions(&place, &read.exceptions, &read.bad, now).await;
        }
        self.unsaid.on(&reasons, &acted.taken, written);
        let again = self.again(wake, next_change(&read.exceptions, now), !acted.taken.is_empty());
        let told = Told {
            phase: read.state.as_ref().map(|s| s.phase),
            reasons,
            taken: acted.taken,
            violations,
            points: quality(&read.maps.store()),
            error: None,
            message,
            at: now,
        };
        if let Some(error) = acted.ended {
            if let Some(board) = &self.board {
                board.ended(&told);
            }
            return Err(TurnError::Ended(error));
        }
        Ok(Turned {
            again,
            told: Some(told),
        })
    }

    /// Who else claims things matters for what is stopped. What was stopped is woken whoever claims it by now.
    async fn with_claims(&self, mut place: Place, object: &Object, read: &Read) -> Result<Place, TurnError> {
        let state = read.state.as_ref();
        if state.is_some_and(|s| s.open.is_some()) && !observe::is_waking(state) {
            place.before = observe::claims(&place, object).await?;
        }
        Ok(place)
    }

    async fn decide(
        &mut self,
        place: &Place,
        object: &Object,
        read: &Read,
        plan: &HibernatePlan,
        now: Time,
    ) -> Decided {
        let stored = Stored {
            state: read.state.clone(),
            store: read.maps.store(),
        };
        let deleting = object.metadata.deletion_timestamp.is_some();
        let looks = if observe::must_look(&stored, deleting) {
            observe::look(place, plan, &stored).await
        } else {
            Looks::default()
        };
        let asleep = read.state.as_ref().is_some_and(|s| s.open.is_some()) || stored.store.has_restore_data();
        let ends = deleting && asleep && observe::namespace_ends(place).await;
        let answers = std::mem::take(&mut self.answers);
        let seen = observe::observed(object, &read.asked, looks, ends, answers);
        let decision = decide(plan, &stored, &seen, now);
        let violations = invariants::check(plan, &stored, &seen, &decision, now);
        for violation in &violations {
            tracing::error!(plan = %plan.name, %violation, "a decision that breaks an invariant is refused");
        }
        Decided {
            decision,
            seen,
            violations: violations.iter().map(ToString::to_string).collect(),
        }
    }

    /// A memory that was edited is told where people look; what the API did not say is only tried again.
    async fn cannot_look(
        &self,
        place: &Place,
        object: &mut Object,
        error: ObserveError,
        permit: &Permit,
    ) -> ObserveError {
        if matches!(error, ObserveError::State(_)) && permit.check(self.settings.call).is_ok() {
            let mut next = object.status.clone().unwrap_or_default();
            next.message = error.to_string();
            self.write_status(place, object, next).await;
        }
        error
    }

    /// A plan that cannot be followed: it says why, and nothing is touched.
    async fn refuse(
        &mut self,
        place: &Place,
        object: &mut Object,
        read: &Read,
        bad: &BadPlan,
        permit: &Permit,
    ) -> Turned<Told> {
        let now = self.settings.clock.now();
        let report = Report {
            followed: Followed::Not(bad),
            outlook: None,
            reasons: &[],
            recorded: &BTreeMap::new(),
            looks: &BTreeMap::new(),
            selected: false,
            watched: false,
            error: None,
            notes: &notes(read, now),
            now,
        };
        let next = status(object, read.state.as_ref(), &report);
        let message = next.message.clone();
        if permit.check(self.settings.call).is_ok() {
            self.write_status(place, object, next).await;
            let mut notes = notes(read, now);
            notes.push(refused(bad, &message));
            let state = read.state.as_ref();
            self.events.tell(place, object, state, &[], &notes, None).await;
            tell_exceptions(place, &read.exceptions, &read.bad, now).await;
        }
        let told = Told {
            phase: read.state.as_ref().map(|s| s.phase),
            error: Some(message.clone()),
            message,
            at: now,
            ..Told::default()
        };
        Turned {
            again: self.settings.idle,
            told: Some(told),
        }
    }

    /// What the schedule has in store, worked out once for every slot of a schedule.
    fn outlook(&mut self, plan: &HibernatePlan, now: Time) -> Outlook {
        let slot = plan.schedule.at(now);
        if let Some((known, until, outlook)) = &self.outlook
            && known == plan
            && *until == slot.until
        {
            return outlook.clone();
        }
        let outlook = Outlook::of(plan, &slot, now);
        self.outlook = Some((plan.clone(), slot.until, outlook.clone()));
        outlook
    }

    /// Writes the status if it says something new; `false` if that was refused.
    async fn write_status(
        &self,
        place: &Place,
        object: &mut Object,
        next: api::hibernation::HibernatePlanStatus,
    ) -> bool {
        if object.status.as_ref() == Some(&next) {
            return true;
        }
        let mut whole = object.clone();
        whole.status = Some(next);
        let api: Api<Object> = Api::namespaced(place.client.clone(), &place.namespace);
        let (name, params) = (whole.name_any(), PostParams::default());
        let call = bounded(self.settings.call, api.replace_status(&name, &params, &whole));
        match self.settings.tap.around("write the status", call).await {
            Ok(written) => {
                *object = written;
                true
            }
            // The next turn says it again.
            Err(error) => {
                tracing::info!(%error, "the status was not written");
                false
            }
        }
    }

    fn again(&self, wake: Option<Time>, change: Option<Time>, acted: bool) -> Duration {
        let now = self.settings.clock.now();
        let wait = |at: Time| at.since(now);
        let next = [wake.map(wait), change.map(wait), acted.then_some(SOON)];
        let next = next.into_iter().flatten().min();
        next.unwrap_or(self.settings.idle)
            .clamp(LEAST, self.settings.idle.max(LEAST))
    }
}

/// That a plan cannot be followed, as an Event says it.
fn refused(bad: &BadPlan, message: &str) -> Note {
    Note {
        reason: bad.id(),
        text: message.to_owned(),
    }
}

/// What people wrote and what means nothing.
fn notes(read: &Read, now: Time) -> Vec<Note> {
    let unread = read.asked.unread.iter().map(|name| Note {
        reason: "AnnotationUnreadable",
        text: format!("the annotation `{name}` cannot be read and is ignored"),
    });
    let mut notes: Vec<Note> = unread.collect();
    notes.extend(unfollowed(&read.exceptions, &read.bad, now));
    notes
}

/// The resources of each target that ran when they were recorded in this cycle. What another night recorded says nothing
/// about this one.
fn recorded(store: &Store, cycle: Option<CycleId>) -> BTreeMap<TargetName, BTreeSet<ResourceId>> {
    let live = |point: Point| {
        let entries = point.entries.into_iter();
        entries.filter(|(_, e)| e.live).map(|(id, _)| id).collect()
    };
    let points = store.points().filter(|p| cycle.is_some() && p.cycle == cycle);
    points.map(|point| (point.target.clone(), live(point))).collect()
}

/// Points that were captured from something that ran, and those that were not.
fn quality(store: &Store) -> (u64, u64) {
    store.points().fold((0, 0), |(live, dead), point| {
        if point.is_live() {
            (live + 1, dead)
        } else {
            (live, dead + 1)
        }
    })
}
