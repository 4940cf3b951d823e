//! The time between two cuts, and who belongs to it.

use crate::signal::Signal;
use mainstay_core::memgraph::Rules;
use mainstay_core::memgraph::gate::{Gate, Route};
use mainstay_core::memgraph::ids::Term;
use mainstay_core::memgraph::observed::Role;
use mainstay_core::memgraph::read_gate::LetIn;
use std::sync::Arc;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The time between two cuts. Sessions belong to the epoch in which they were checked, and end with it.
#[derive(Debug)]
pub(crate) struct Epoch {
    door: Door,
    open: bool,
    /// The record in one line, for whoever is refused.
    headline: String,
    drain: Signal,
    cut: Signal,
    sessions: TaskTracker,
}

/// Who decides where a client is let in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Door {
    Writes(Gate),
    /// Where read clients log in.
    Reads(Option<Route>),
}

/// Holds the confirmation of the next record back until it is dropped.
pub(crate) type Stay = TaskTrackerToken;

impl Epoch {
    pub(super) fn new(door: Door, open: bool, headline: String) -> Arc<Self> {
        Arc::new(Self {
            door,
            open,
            headline,
            drain: Signal::default(),
            cut: Signal::default(),
            sessions: TaskTracker::new(),
        })
    }

    /// A part of this epoch that may end earlier, and whose stays are stays in this one.
    pub(crate) fn part(&self) -> Arc<Self> {
        Arc::new(Self {
            door: self.door,
            open: self.open,
            headline: self.headline.clone(),
            drain: self.drain.part(),
            cut: self.cut.part(),
            sessions: self.sessions.clone(),
        })
    }

    /// Where sessions go, or log in, if anywhere.
    pub(crate) fn route(&self) -> Option<Route> {
        let route = match self.door {
            Door::Writes(gate) => gate.route(),
            Door::Reads(login) => login,
        };
        route.filter(|_| self.open)
    }

    /// May clients be let in on a connection that answered this (R10)?
    pub(crate) fn admits(&self, role: Role, mark: Option<Term>) -> bool {
        let admitted = match self.door {
            Door::Writes(gate) => gate.admits(Rules::ALL, role, mark),
            Door::Reads(login) => {
                login.is_some_and(|route| LetIn::by(route, role, mark, Rules::ALL).is_some())
            }
        };
        self.open && admitted
    }

    /// Take this before anything is done in the name of the epoch, look at [`Epoch::cut`] afterwards, and drop it
    /// when nothing can be forwarded any more.
    pub(crate) fn stay(&self) -> Stay {
        self.sessions.token()
    }

    /// Ends when the epoch does.
    pub(crate) async fn cut(&self) {
        self.cut.given().await;
    }

    /// Ends when nothing new may begin in the epoch, while what runs may still end.
    pub(crate) async fn draining(&self) {
        self.drain.given().await;
    }

    /// May nothing new begin?
    pub(crate) fn is_draining(&self) -> bool {
        self.drain.is_given()
    }

    /// What the record says, for people.
    pub(crate) fn headline(&self) -> &str {
        &self.headline
    }

    /// Nothing new begins; what runs may come to its end.
    pub(crate) fn fade(&self) {
        self.drain.give();
    }

    /// Everybody leaves at once. Nobody is waited for: whoever has to wait ends the whole epoch.
    pub(crate) fn fall(&self) {
        self.drain.give();
        self.cut.give();
    }

    /// Lets what runs come to its end, and nothing begin.
    pub(super) async fn drain(&self) {
        self.drain.give();
        self.sessions.close();
        self.sessions.wait().await;
    }

    /// Ends the epoch and waits until nobody acts in its name.
    pub(super) async fn end(&self) {
        self.fall();
        self.sessions.close();
        self.sessions.wait().await;
    }
}

#[cfg(test)]
impl Epoch {
    /// One of nobody.
    pub(crate) fn sample() -> Arc<Self> {
        Self::new(Door::Reads(None), true, String::new())
    }

    /// Has everybody to leave?
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.is_given()
    }
}
