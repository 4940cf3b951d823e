//! H5: the operator dies, or the pod's processes do, before and after every call of a hard reset, one after the other.
//! Each time the reset comes to its end, exactly one copy is set aside, and it is that of the diverged pod.
//!
//! All places take a quarter of an hour. The normal run tries every fifth;
//! `MAINSTAY_KILLS=all cargo test -p mainstay --test reset_kills -- --nocapture` tries all and prints them.

mod bed;

use anyhow::{Context, Result, ensure};
use bed::Bed;
use operator::tap::Tap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

fn all() -> bool {
    std::env::var_os("MAINSTAY_KILLS").is_some_and(|which| which == "all")
}

fn numbers(first: usize) -> std::iter::StepBy<std::ops::RangeFrom<usize>> {
    if all() {
        (1..).step_by(1)
    } else {
        // An odd number: places before and after a call take turns.
        (first..).step_by(5)
    }
}

fn enough(what: &str, places: &[String], least: usize) -> Result<()> {
    eprintln!("{what}: {} places: {places:#?}", places.len());
    let least = if all() { least } else { least / 5 };
    ensure!(places.len() >= least, "only {} places", places.len());
    for step in ["write record", "write marker", "delete pod"] {
        let met = places.iter().any(|place| place.contains(step));
        ensure!(met || !all(), "never at `{step}`");
    }
    Ok(())
}

/// Counts places, and does something at one of them.
#[derive(Clone)]
struct Trap {
    passed: Arc<AtomicUsize>,
    at: usize,
    place: Arc<Mutex<Option<String>>>,
    sprung: Arc<Notify>,
}

impl Trap {
    fn at(at: usize) -> Self {
        Self {
            passed: Arc::default(),
            at,
            place: Arc::default(),
            sprung: Arc::default(),
        }
    }

    /// `then`: what happens there; it returns whether the operator goes on.
    fn tap(&self, then: impl Fn() -> bool + Send + Sync + 'static) -> Tap {
        let trap = self.clone();
        Tap::new(move |place| {
            if trap.passed.fetch_add(1, Ordering::SeqCst) + 1 != trap.at {
                return Box::pin(std::future::ready(()));
            }
            *trap.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place.to_owned());
            trap.sprung.notify_one();
            if then() {
                // Long enough for the pod to be seen without its process.
                Box::pin(tokio::time::sleep(Duration::from_millis(300)))
            } else {
                Box::pin(std::future::pending())
            }
        })
    }

    fn place(&self) -> Option<String> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One wipe, of what was wrong, and everything is as it should be.
async fn judged(bed: &Bed, before: usize, written: i64, place: Option<&str>) -> Result<()> {
    let aside = bed.set_aside(2);
    ensure!(
        aside.len() == before + 1,
        "{place:?}: one request, one wipe: {aside:?}"
    );
    for pod in [0, 1] {
        ensure!(bed.set_aside(pod).is_empty(), "{place:?}: pod {pod} was wiped");
        ensure!(
            bed.count(pod, "Written").await? == written,
            "{place:?}: pod {pod}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_the_operator_may_die_anywhere_in_a_reset() -> Result<()> {
    let bed = Bed::new().await?;
    let mut places = Vec::new();
    for number in numbers(3) {
        let (before, written) = (bed.set_aside(2).len(), bed.diverged().await?);
        let trap = Trap::at(number);
        let doomed = bed.operator(trap.tap(|| false)).await?;
        tokio::select! {
            () = trap.sprung.notified() => {}
            ended = bed.until_reset(before, written) => ended?,
        }
        doomed.kill().await;
        bed.free_lease().await?;
        let place = trap.place();
        let next = bed.operator(Tap::default()).await?;
        bed.until_reset(before, written)
            .await
            .with_context(|| format!("{place:?}"))?;
        next.stop().await?;
        judged(&bed, before, written, place.as_deref()).await?;
        match place {
            Some(place) => places.push(place),
            None => break,
        }
    }
    enough("the operator died", &places, 15)?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_the_pod_may_die_anywhere_in_its_reset() -> Result<()> {
    let bed = Bed::new().await?;
    let mut places = Vec::new();
    for number in numbers(5) {
        let (before, written) = (bed.set_aside(2).len(), bed.diverged().await?);
        let trap = Trap::at(number);
        let nodes = bed.nodes();
        let kill = move || {
            // Nothing may run at that moment: then there is nothing to kill.
            nodes.kill(&Bed::party(2), None).ok();
            true
        };
        let operator = bed.operator(trap.tap(kill)).await?;
        bed.until_reset(before, written)
            .await
            .with_context(|| format!("{:?}", trap.place()))?;
        operator.stop().await?;
        judged(&bed, before, written, trap.place().as_deref()).await?;
        match trap.place() {
            Some(place) => places.push(place),
            None => break,
        }
    }
    enough("the pod died", &places, 15)?;
    bed.end().await
}
