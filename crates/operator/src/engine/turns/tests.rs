use super::*;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};

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
    for _ in 0..1_000 {
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
