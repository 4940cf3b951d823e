use super::*;
use crate::clock::Clock;
use crate::engine::lease::Election;
use crate::scripted::{self, Answer, Asked};
use http::Method;
use mainstay_core::lease::LeaseTiming;
use mainstay_core::time::Time;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::oneshot;

/// A turn that ends when it is told to.
struct Slow(Arc<Notify>);

impl Keeper for Slow {
    type Told = u32;
    type Error = Infallible;

    async fn turn(&mut self, _permit: &Permit) -> Result<Turned<u32>, Infallible> {
        self.0.notified().await;
        Ok(Turned {
            again: Duration::from_hours(1),
            told: Some(1),
        })
    }
}

/// Who is on the board, and how often all of it was forgotten.
#[derive(Default)]
struct Heard {
    shown: Mutex<BTreeMap<Key, u32>>,
    forgotten: AtomicU32,
}

impl Audience<u32> for Heard {
    fn told(&self, key: &Key, told: Option<u32>) {
        self.shown.lock().unwrap().insert(key.clone(), told.unwrap());
    }
    fn failed(&self, key: &Key, _why: &str) {
        self.shown.lock().unwrap().insert(key.clone(), 0);
    }
    fn forget(&self, key: &Key) {
        self.shown.lock().unwrap().remove(key);
    }
    fn forget_all(&self) {
        self.forgotten.fetch_add(1, Ordering::Relaxed);
        self.shown.lock().unwrap().clear();
    }
}

fn key() -> Key {
    Key {
        namespace: "db".to_owned(),
        name: "memgraph-ha".to_owned(),
    }
}

fn turns(heard: &Arc<Heard>) -> Turns<Slow> {
    Turns::new("test", Limits::default(), Pace::default(), heard.clone())
}

async fn until(what: impl Fn() -> bool) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_mins(2) {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it does not come");
}

#[tokio::test]
async fn an_object_that_goes_during_its_turn_does_not_reappear() {
    let (heard, go) = (Arc::new(Heard::default()), Arc::new(Notify::new()));
    let turns = turns(&heard);
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (turns, go, stop) = (turns.clone(), go.clone(), stop.clone());
        async move { turns.run(|_| Slow(go.clone()), Permit::ALWAYS, stop).await }
    });
    turns.know(key(), Urgency::Reconcile);
    until(|| turns.depth().running == 1).await;
    turns.push(key(), Urgency::Failover);
    turns.forget(&key());
    go.notify_one();
    until(|| turns.depth().running == 0).await;
    assert_eq!(*heard.shown.lock().unwrap(), BTreeMap::new());
    assert_eq!(turns.depth(), Depth::default(), "nothing of it waits");
    stop.cancel();
    running.await.unwrap();
}

/// How many turns it has taken is all that it remembers.
struct Remembers(u32);

impl Keeper for Remembers {
    type Told = u32;
    type Error = Infallible;

    async fn turn(&mut self, _permit: &Permit) -> Result<Turned<u32>, Infallible> {
        self.0 += 1;
        Ok(Turned {
            again: Duration::from_hours(1),
            told: Some(self.0),
        })
    }
}

#[tokio::test]
async fn an_object_made_anew_under_a_name_is_not_taken_for_the_old_one() {
    let heard = Arc::new(Heard::default());
    let turns = Turns::new("test", Limits::default(), Pace::default(), heard.clone());
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (turns, stop) = (turns.clone(), stop.clone());
        async move { turns.run(|_| Remembers(0), Permit::ALWAYS, stop).await }
    });
    let told = || heard.shown.lock().unwrap().get(&key()).copied();
    turns.know(key(), Urgency::Reconcile);
    until(|| told() == Some(1)).await;
    turns.push(key(), Urgency::Failover);
    until(|| told() == Some(2)).await;
    turns.forget(&key());
    turns.know(key(), Urgency::Reconcile);
    until(|| told() == Some(1)).await;
    turns.push(key(), Urgency::Failover);
    until(|| told() == Some(2)).await;
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn without_the_lease_the_board_is_empty_and_nothing_is_under_way() {
    let (heard, go) = (Arc::new(Heard::default()), Arc::new(Notify::new()));
    let turns = turns(&heard);
    heard.told(&key(), Some(1));
    // As if its turn were under way when the lease was lost, and the object went.
    turns.state().queues.push(key(), Urgency::Reconcile);
    assert_eq!(turns.state().queues.pop(), Some(key()));
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (turns, stop) = (turns.clone(), stop.clone());
        async move { turns.run(|_| Slow(go.clone()), Permit::never(), stop).await }
    });
    until(|| heard.forgotten.load(Ordering::Relaxed) > 0).await;
    assert_eq!(*heard.shown.lock().unwrap(), BTreeMap::new());
    assert_eq!(turns.depth().running, 0, "one of the same name can be looked at");
    stop.cancel();
    running.await.unwrap();
}

/// What happened, in order, and when.
#[derive(Clone, Default)]
struct Happened(Arc<Mutex<Vec<(&'static str, Instant)>>>);

impl Happened {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push((what, Instant::now()));
    }
    fn all(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().iter().map(|(what, _)| *what).collect()
    }
    fn when(&self, nth: usize) -> Instant {
        self.0.lock().unwrap()[nth].1
    }
}

/// A turn that never ends, or panics. It notes when it began, and when it was cut off.
struct Stuck {
    happened: Happened,
    panics: bool,
}

struct CutOff<'a>(&'a Happened);

impl Drop for CutOff<'_> {
    fn drop(&mut self) {
        self.0.note("cut off");
    }
}

impl Keeper for Stuck {
    type Told = u32;
    type Error = Infallible;

    async fn turn(&mut self, _permit: &Permit) -> Result<Turned<u32>, Infallible> {
        self.happened.note("begun");
        let _under_way = CutOff(&self.happened);
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(!self.panics, "as this test wants it");
        std::future::pending().await
    }
}

/// An API that keeps one lease, notes when it is freed, and can be silent.
#[derive(Clone)]
struct Leases {
    lease: Arc<Mutex<Option<Value>>>,
    silent_until: Arc<Mutex<Instant>>,
    happened: Happened,
}

impl Leases {
    fn new(happened: &Happened) -> Self {
        Self {
            lease: Arc::default(),
            silent_until: Arc::new(Mutex::new(Instant::now())),
            happened: happened.clone(),
        }
    }

    fn election(&self) -> (Election, Permit) {
        let api = self.clone();
        let client = scripted::client(move |asked| {
            let api = api.clone();
            async move {
                let until = *api.silent_until.lock().unwrap();
                tokio::time::sleep_until(until).await;
                api.answer(asked)
            }
        });
        let clock = Clock::starting_at(Time(1_000_000));
        Election::new(client, "db", "operator", "me", LeaseTiming::default(), clock).unwrap()
    }

    fn answer(
        &self,
        Asked {
            method,
            path,
            mut body,
        }: Asked,
    ) -> Answer {
        let mut lease = self.lease.lock().unwrap();
        let found = match &*lease {
            None if method == Method::POST => 0,
            None => return scripted::not_found(&path),
            Some(found) => found["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap(),
        };
        if method == Method::GET {
            return (200, lease.clone().unwrap());
        }
        if method == Method::PUT && body["metadata"]["resourceVersion"] != json!(format!("{found}")) {
            return (
                409,
                json!({ "kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409 }),
            );
        }
        body["metadata"]["uid"] = json!("u");
        body["metadata"]["resourceVersion"] = json!(format!("{}", found + 1));
        if method == Method::PUT && body["spec"]["holderIdentity"].is_null() {
            self.happened.note("freed");
        }
        *lease = Some(body.clone());
        (200, body)
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_cut_off_with_the_lease_is_taken_as_soon_as_it_is_back() {
    let (heard, happened) = (Arc::new(Heard::default()), Happened::default());
    let turns = Turns::new("test", Limits::default(), Pace::default(), heard);
    let leases = Leases::new(&happened);
    let (election, permit) = leases.election();
    let stop = CancellationToken::new();
    tokio::spawn(election.run(stop.clone(), std::future::ready(())));
    tokio::spawn({
        let (turns, happened, permit, stop) = (turns.clone(), happened.clone(), permit.clone(), stop.clone());
        let stuck = move |_: &Key| Stuck {
            happened: happened.clone(),
            panics: false,
        };
        async move { turns.run(stuck, permit, stop).await }
    });
    turns.know(key(), Urgency::Reconcile);
    until(|| happened.all() == ["begun"]).await;
    *leases.silent_until.lock().unwrap() = Instant::now() + Duration::from_secs(12);
    until(|| !permit.leads()).await;
    until(|| permit.leads()).await;
    let back = Instant::now();
    until(|| happened.all() == ["begun", "cut off", "begun"]).await;
    assert!(happened.when(2) < back + SECOND, "{:?}", happened.when(2) - back);
}

#[tokio::test(start_paused = true)]
async fn after_a_panic_every_object_is_looked_at_again_soon_and_ever_less_often_if_it_goes_on() {
    let (heard, happened) = (Arc::new(Heard::default()), Happened::default());
    let turns = Turns::new("test", Limits::default(), Pace::default(), heard);
    let other = Key {
        name: "other".to_owned(),
        ..key()
    };
    turns.know(key(), Urgency::Reconcile);
    turns.know(other.clone(), Urgency::Reconcile);
    let stop = CancellationToken::new();
    let (bad, innocent) = (Happened::default(), happened.clone());
    let running = tokio::spawn({
        let (turns, bad, stop) = (turns.clone(), bad.clone(), stop.clone());
        let make = move |of: &Key| Stuck {
            happened: if *of == other {
                innocent.clone()
            } else {
                bad.clone()
            },
            panics: *of != other,
        };
        async move { turns.run(make, Permit::ALWAYS, stop).await }
    });
    for all in [&bad, &happened] {
        until(|| all.all() == ["begun", "cut off", "begun"]).await;
        assert!(all.when(2) < all.when(0) + SECOND);
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    let tried = bad.all().len() / 2;
    assert!((6..15).contains(&tried), "{tried} times in a minute");
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn whoever_follows_does_not_remember_what_went() {
    let heard = Arc::new(Heard::default());
    let turns = turns(&heard);
    turns.know(key(), Urgency::Reconcile);
    turns.forget(&key());
    assert_eq!(turns.state().gone.len(), 1);
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (turns, stop) = (turns.clone(), stop.clone());
        async move { turns.run(|_| Slow(Arc::default()), Permit::never(), stop).await }
    });
    until(|| turns.state().gone.is_empty()).await;
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_is_stopped_in_a_turn_cuts_it_off_and_then_frees_the_lease() {
    let (heard, happened) = (Arc::new(Heard::default()), Happened::default());
    let turns = Turns::new("test", Limits::default(), Pace::default(), heard);
    let leases = Leases::new(&happened);
    let (election, permit) = leases.election();
    let stop = CancellationToken::new();
    let (idle, is_idle) = oneshot::channel();
    let leading = tokio::spawn(election.run(stop.clone(), async {
        is_idle.await.ok();
    }));
    let working = tokio::spawn({
        let (turns, happened, stop) = (turns.clone(), happened.clone(), stop.clone());
        let stuck = move |_: &Key| Stuck {
            happened: happened.clone(),
            panics: false,
        };
        async move {
            turns.run(stuck, permit, stop).await;
            idle.send(()).ok();
        }
    });
    turns.know(key(), Urgency::Reconcile);
    until(|| happened.all() == ["begun"]).await;
    stop.cancel();
    working.await.unwrap();
    leading.await.unwrap();
    assert_eq!(happened.all(), ["begun", "cut off", "freed"]);
}
