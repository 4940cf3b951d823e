//! The port for reads: which replicas take them, and who must leave one (R22, R29).
//!
//! A read session belongs to the epoch in which MAIN let its client in, and to a *berth*: the part of that epoch which
//! is one pod. A pod that may not be read from any more loses its berth, and every session in it moves on by itself.
//!
//! | file | concern |
//! |---|---|
//! | `known` | what MAIN last said of its replicas, how long that counts, whether it was asked |
//! | `berths` | who sits where, who is next, who must leave. No I/O |
//! | `look` | asking MAIN, while there is somebody who reads |

mod berths;
mod known;
mod look;

pub(crate) use berths::Seat;
pub(crate) use known::News;
pub(crate) use look::run;

use crate::config::Reads;
use crate::control::{Control, Epoch};
use berths::Berths;
use mainstay_core::memgraph::Rules;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::read_gate::{LetIn, NotRead, Readers, readers};
use mainstay_core::time::Time;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tokio::time::Instant;

/// What the sessions of the read port share.
#[derive(Debug)]
pub(crate) struct Reading {
    config: Reads,
    control: Control,
    news: watch::Sender<News>,
    berths: Mutex<Berths>,
    began: Instant,
    /// How many sessions there are: nobody asks MAIN for nobody.
    readers: watch::Sender<usize>,
}

/// Somebody reads, until this is dropped.
#[derive(Debug)]
pub(crate) struct Reader(Arc<Reading>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0
            .readers
            .send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Reading {
    pub(crate) fn new(config: Reads, control: Control) -> Self {
        Self {
            config,
            control,
            news: watch::Sender::default(),
            berths: Mutex::default(),
            began: Instant::now(),
            readers: watch::Sender::new(0),
        }
    }

    /// From here on MAIN is asked how far its replicas are.
    pub(crate) fn reader(self: &Arc<Self>) -> Reader {
        self.readers.send_modify(|count| *count = count.saturating_add(1));
        Reader(Arc::clone(self))
    }

    /// Changes when there is news of the replicas.
    pub(crate) fn news(&self) -> watch::Receiver<News> {
        self.news.subscribe()
    }

    /// A seat for a client that MAIN let in: with a replica that may take it and has the fewest, or with MAIN.
    pub(crate) fn seat(&self, reading: &Arc<Epoch>, client: LetIn) -> Result<Seat, NotRead> {
        match self.readers(Some(client))? {
            Readers::Replicas(pods) => {
                let seat = self.berths().replica(reading, &pods, Instant::now());
                seat.ok_or(NotRead::NotFollowing)
            }
            Readers::Main(pod) => {
                // What reaches MAIN may write, so it obeys the record as writers do.
                let writing = Arc::clone(&self.control.epochs().borrow());
                let open = writing.route().is_some_and(|route| route.pod == pod);
                if !open {
                    return Err(NotRead::IsMain);
                }
                Ok(self.berths().main(&writing, pod))
            }
        }
    }

    /// A pod could not be used although MAIN says that it follows: others are tried first for a while.
    pub(crate) fn shun(&self, pod: Ordinal) {
        self.berths().shun(pod, Instant::now());
    }

    /// Whoever sits where nobody may sit any more leaves.
    fn tidy(&self) {
        let client = self.control.reading().borrow().route().map(|route| LetIn {
            by: route.pod,
            term: route.term,
        });
        let readers = self.readers(client);
        self.berths().tidy(readers.as_ref().ok());
    }

    fn readers(&self, client: Option<LetIn>) -> Result<Readers, NotRead> {
        let record = self
            .control
            .record()
            .borrow()
            .clone()
            .ok_or(NotRead::NotServing)?;
        let news = self.news.borrow();
        let listed = news.rows(&record, Instant::now());
        let policy = self.config.policy;
        let readers = readers(&record, listed, client, policy, self.now(), Rules::ALL)?;
        match readers {
            // That no replica may is known when MAIN was asked, or cannot be.
            Readers::Main(_) if !news.is_of(&record) => Err(NotRead::NotAsked),
            readers => Ok(readers),
        }
    }

    /// As the decisions take it. Nobody else sees this clock.
    fn now(&self) -> Time {
        Time(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn berths(&self) -> MutexGuard<'_, Berths> {
        self.berths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
