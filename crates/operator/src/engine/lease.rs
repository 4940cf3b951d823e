//! The leader lease over its own client: `mainstay_core::lease` decides, this sends.

use super::pulse::Pulse;
use crate::call::{CallError, bounded};
use crate::clock::{Clock, draw};
use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use mainstay_core::lease::{
    Action, Answer, Candidate, EmptyHolder, HolderId, Input, Leadership, Lease, LeaseTiming, LeaseUid,
    LeaseVersion, Request, ResourceVersion, StoredLease,
};
use mainstay_core::time::Time;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Why a step is not taken now.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotPermitted {
    /// Another operator leads, or nobody.
    #[error("this operator does not lead")]
    NotLeading,
    /// It leads, and not for long enough.
    #[error(transparent)]
    Lease(#[from] mainstay_core::lease::LeaseRefusal),
}

/// The right to act, as of now: asked right before each step.
#[derive(Clone, Debug)]
pub struct Permit(Option<Watched>);

#[derive(Clone, Debug)]
struct Watched {
    leadership: watch::Receiver<Option<Leadership>>,
    clock: Clock,
}

impl Permit {
    /// Always: for a single operator in a test.
    pub const ALWAYS: Self = Self(None);

    /// May a step that takes at most this long begin now?
    pub fn check(&self, needs: Duration) -> Result<(), NotPermitted> {
        let Some(Watched { leadership, clock }) = &self.0 else {
            return Ok(());
        };
        let leadership = leadership.borrow();
        let leadership = leadership.as_ref().ok_or(NotPermitted::NotLeading)?;
        Ok(leadership.permits(clock.monotonic(), clock.now(), needs)?)
    }

    /// Never: for a test of whoever does not lead.
    #[cfg(test)]
    pub(crate) fn never() -> Self {
        Self::watching(watch::channel(None).1, Clock::default())
    }

    /// Of a lease that was just taken and is never renewed.
    #[cfg(test)]
    pub(crate) fn once(clock: Clock) -> Self {
        let leadership = tests::taking(&clock).leadership().cloned();
        assert!(leadership.is_some(), "it was free");
        Self::watching(watch::channel(leadership).1, clock)
    }

    fn watching(leadership: watch::Receiver<Option<Leadership>>, clock: Clock) -> Self {
        Self(Some(Watched { leadership, clock }))
    }

    /// Does this operator lead?
    pub fn leads(&self) -> bool {
        self.check(Duration::ZERO).is_ok()
    }

    /// Waits until that may have changed.
    pub async fn changed(&mut self) {
        let closed = match &mut self.0 {
            Some(watched) => watched.leadership.changed().await.is_err(),
            None => true,
        };
        if closed {
            std::future::pending::<()>().await;
        }
    }
}

/// Who leads, as this operator last saw it, for whoever asks over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The namespace of the lease.
    pub namespace: String,
    /// Its name.
    pub lease: String,
    /// Who this operator is.
    pub me: String,
    /// Who holds the lease.
    pub holder: Option<String>,
    /// How often that changed.
    pub changes: u64,
    /// How often this operator began to lead.
    pub won: u64,
}

impl Standing {
    fn saw(&mut self, holder: Option<&HolderId>) {
        let holder = holder.map(|holder| holder.as_str().to_owned());
        // The first look is no change, and nor is a lease that is free for a moment.
        if self.holder.is_some() && holder.is_some() && self.holder != holder {
            self.changes += 1;
        }
        self.holder = holder.or_else(|| self.holder.take());
    }
}

/// One operator that wants to lead.
pub struct Election {
    api: Api<Object>,
    name: String,
    me: HolderId,
    standing: watch::Sender<Standing>,
    candidate: Candidate,
    timing: LeaseTiming,
    clock: Clock,
    leadership: watch::Sender<Option<Leadership>>,
    pulse: Pulse,
}

/// The election comes round so often although there is nothing to send: it shows that it lives.
const BEAT: Duration = Duration::from_secs(5);

impl Election {
    /// A candidate called `me` for the lease `name`. The client must not retry: a retried renewal is counted from
    /// the wrong moment. Leases are kept by this clock.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        me: &str,
        timing: LeaseTiming,
        clock: Clock,
    ) -> Result<(Self, Permit), EmptyHolder> {
        // Unique to this run: a restarted container must not be taken for the one that may still act.
        let me = HolderId::new(format!("{me}_{:x}", draw()))?;
        let (leadership, watched) = watch::channel(None);
        let standing = Standing {
            namespace: namespace.to_owned(),
            lease: name.to_owned(),
            me: me.as_str().to_owned(),
            ..Standing::default()
        };
        let election = Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            me: me.clone(),
            standing: watch::channel(standing).0,
            candidate: Candidate::new(me, timing),
            timing,
            clock: clock.clone(),
            leadership,
            pulse: Pulse::default(),
        };
        Ok((election, Permit::watching(watched, clock)))
    }

    /// Who leads, from now on.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Whether it still comes round.
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// Campaigns and leads until told to stop; then frees the lease. `idle` is called when no step may be under
    /// way any more: the next leader starts at once.
    pub async fn run(mut self, stop: CancellationToken, idle: impl Future<Output = ()>) {
        while !stop.is_cancelled() {
            self.pulse.beat();
            // A request is not cut off: nobody would know whether the lease is ours, and it could not be freed before
            // the answer was given up.
            if self.ask().await {
                continue;
            }
            let wait = self.wait();
            tokio::select! {
                () = stop.cancelled() => {}
                () = wait => {}
            }
        }
        idle.await;
        self.release().await;
    }

    /// The lease is freed, but not at any price: it expires anyway.
    async fn release(&mut self) {
        self.handle(Input::ReleaseRequested);
        let patience = self.timing.request_timeout() * 2;
        let freeing = async {
            while !self.candidate.is_released() {
                if !self.ask().await {
                    self.wait().await;
                }
            }
        };
        if tokio::time::timeout(patience, freeing).await.is_err() {
            tracing::warn!("the lease could not be freed; it expires by itself");
        }
    }

    fn handle(&mut self, input: Input) {
        let before = self.candidate.leadership().is_some();
        if let Input::Answered {
            answer: Answer::Read(stored),
            ..
        } = &input
        {
            let holder = stored.lease.holder.as_ref();
            self.standing.send_modify(|standing| standing.saw(holder));
        }
        self.candidate
            .handle(self.clock.monotonic(), self.clock.now(), input);
        let now = self.candidate.leadership().cloned();
        match (before, &now) {
            (false, Some(leadership)) => {
                tracing::info!(epoch = %leadership.epoch(), "leading");
                let me = self.me.clone();
                self.standing.send_modify(|standing| {
                    standing.saw(Some(&me));
                    standing.won += 1;
                });
            }
            (true, None) => tracing::warn!(why = ?self.candidate.last_loss(), "not leading any more"),
            _ => {}
        }
        self.leadership.send_if_modified(|known| {
            let changed = *known != now;
            *known = now;
            changed
        });
    }

    /// Takes note of the time, and sends what is to be sent, if anything is.
    async fn ask(&mut self) -> bool {
        self.handle(Input::Tick);
        let Some(request) = self.candidate.poll() else {
            return false;
        };
        let answered = self.send(request).await;
        self.handle(answered);
        true
    }

    /// Until there may be something to send.
    fn wait(&self) -> impl Future<Output = ()> + use<> {
        let wait = self
            .candidate
            .next_deadline()
            .map_or_else(|| self.timing.retry(), |at| at.since(self.clock.monotonic()));
        // Never a busy loop, whatever the deadline says.
        tokio::time::sleep(wait.clamp(Duration::from_millis(5), BEAT))
    }

    /// Sends once. The candidate gives the request up by itself, so that this cannot take longer.
    async fn send(&self, Request { id, action }: Request) -> Input {
        let patience = self.timing.request_timeout();
        let answer = match action {
            Action::Read => match bounded(patience, self.api.get(&self.name)).await {
                Ok(object) => stored(&object).map_or(Answer::Failed, Answer::Read),
                Err(error) => failed(&error),
            },
            Action::Create(lease) => {
                let object = object(&self.name, &lease, None);
                written(bounded(patience, self.api.create(&PostParams::default(), &object)).await)
            }
            Action::Replace { version, lease } => {
                let object = object(&self.name, &lease, Some(&version));
                let params = PostParams::default();
                let call = self.api.replace(&self.name, &params, &object);
                written(bounded(patience, call).await)
            }
        };
        Input::Answered { id, answer }
    }
}

fn written(result: Result<Object, CallError>) -> Answer {
    match result {
        Ok(object) => version(&object).map_or(Answer::Failed, Answer::Accepted),
        Err(error) => failed(&error),
    }
}

fn failed(error: &CallError) -> Answer {
    match error {
        CallError::NotFound | CallError::NoSuchPath(_) => Answer::NotFound,
        CallError::Conflict(_) => Answer::Conflict,
        CallError::Ending(_) | CallError::Refused { .. } | CallError::Unknown(_) => {
            tracing::warn!(%error, "the lease was not answered for");
            Answer::Failed
        }
    }
}

fn version(object: &Object) -> Option<LeaseVersion> {
    Some(LeaseVersion {
        uid: LeaseUid(object.uid()?),
        resource_version: ResourceVersion(object.resource_version()?),
    })
}

fn stored(object: &Object) -> Option<StoredLease> {
    let spec = object.spec.clone().unwrap_or_default();
    let millis = |time: Option<MicroTime>| {
        time.and_then(|t| u64::try_from(t.0.as_millisecond()).ok())
            .map(Time)
    };
    let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok());
    Some(StoredLease {
        version: version(object)?,
        lease: Lease {
            holder: HolderId::from_field(spec.holder_identity.as_deref()),
            duration: Duration::from_secs(seconds.unwrap_or_default()),
            acquire_time: millis(spec.acquire_time),
            renew_time: millis(spec.renew_time),
            transitions: spec
                .lease_transitions
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or_default(),
        },
    })
}

fn object(name: &str, lease: &Lease, version: Option<&LeaseVersion>) -> Object {
    let Lease {
        holder,
        duration,
        acquire_time,
        renew_time,
        transitions,
    } = lease;
    let micro = |time: &Option<Time>| {
        let millis = i64::try_from(time.as_ref()?.0).ok()?;
        jiff::Timestamp::from_millisecond(millis).ok().map(MicroTime)
    };
    let mut object = Object {
        spec: Some(LeaseSpec {
            holder_identity: holder.as_ref().map(|h| h.as_str().to_owned()),
            lease_duration_seconds: i32::try_from(duration.as_secs()).ok(),
            acquire_time: micro(acquire_time),
            renew_time: micro(renew_time),
            lease_transitions: i32::try_from(*transitions).ok(),
            ..LeaseSpec::default()
        }),
        ..Object::default()
    };
    object.metadata.name = Some(name.to_owned());
    if let Some(LeaseVersion {
        uid,
        resource_version,
    }) = version
    {
        object.metadata.uid = Some(uid.0.clone());
        object.metadata.resource_version = Some(resource_version.0.clone());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that has just taken a lease that was free.
    pub(super) fn taking(clock: &Clock) -> Candidate {
        let me = HolderId::new("operator").unwrap();
        let mut candidate = Candidate::new(me, LeaseTiming::default());
        let version = LeaseVersion {
            uid: LeaseUid("u".to_owned()),
            resource_version: ResourceVersion("1".to_owned()),
        };
        let free = Lease {
            holder: None,
            duration: Duration::from_secs(15),
            acquire_time: None,
            renew_time: None,
            transitions: 1,
        };
        let read = Answer::Read(StoredLease {
            version: version.clone(),
            lease: free,
        });
        candidate.handle(clock.monotonic(), clock.now(), Input::Tick);
        for answer in [read, Answer::Accepted(version)] {
            let id = candidate.poll().unwrap().id;
            candidate.handle(clock.monotonic(), clock.now(), Input::Answered { id, answer });
        }
        candidate
    }

    #[test]
    fn a_lease_is_read_as_it_was_written() {
        let lease = Lease {
            holder: HolderId::new("op-1").ok(),
            duration: Duration::from_secs(15),
            acquire_time: Some(Time(1_000)),
            renew_time: Some(Time(2_500)),
            transitions: 7,
        };
        let version = LeaseVersion {
            uid: LeaseUid("u".to_owned()),
            resource_version: ResourceVersion("3".to_owned()),
        };
        let read = stored(&object("x", &lease, Some(&version))).unwrap();
        assert_eq!(
            read,
            StoredLease {
                version: version.clone(),
                lease: lease.clone()
            }
        );
        assert_eq!(
            stored(&object("x", &lease, None)),
            None,
            "a lease without a version was never stored"
        );
    }

    #[test]
    fn a_change_of_the_holder_is_counted_and_a_free_lease_is_none() {
        let (a, b) = (HolderId::new("a").unwrap(), HolderId::new("b").unwrap());
        let mut standing = Standing::default();
        for holder in [Some(&a), Some(&a), None, Some(&a), Some(&b)] {
            standing.saw(holder);
        }
        assert_eq!((standing.changes, standing.holder.as_deref()), (1, Some("b")));
    }

    #[test]
    fn nobody_acts_without_a_leadership() {
        let (sender, receiver) = watch::channel(None);
        let permit = Permit::watching(receiver, Clock::default());
        assert_eq!(permit.check(Duration::ZERO), Err(NotPermitted::NotLeading));
        drop(sender);
        assert!(Permit::ALWAYS.leads());
    }
}
