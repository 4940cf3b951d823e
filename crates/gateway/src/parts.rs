//! The tasks that a gateway is made of. None ends before the gateway is told to stop: without one of them the rest would go
//! on as if all were well, under a record that nobody follows any more.

use std::fmt;
use thiserror::Error;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// A part of a gateway ended by itself. What is left of it must not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{part} ended by itself{}", if *.panicked { ", in a panic" } else { "" })]
pub struct Broken {
    part: Part,
    panicked: bool,
}

/// What a task of a gateway is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Keeper,
    Plane,
    Admin,
    Certificates,
    Replicas,
    Clients,
    ReadClients,
    /// One that nobody has named.
    Other,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keeper => "the task that obeys records",
            Self::Plane => "the task that follows the record",
            Self::Admin => "the port for pushes and health",
            Self::Certificates => "the task that follows certificates",
            Self::Replicas => "the task that asks for replicas",
            Self::Clients => "the port for clients",
            Self::ReadClients => "the port for reads",
            Self::Other => "a task",
        })
    }
}

/// Tasks, each of which says when it ends.
#[derive(Debug)]
pub(crate) struct Parts {
    tasks: JoinSet<()>,
    names: Vec<(AbortHandle, Part)>,
    /// Nobody is to be sent here any more.
    leave: CancellationToken,
}

impl Parts {
    /// None yet. `leave` is given when one of them ends, however that happens.
    pub(crate) fn new(leave: CancellationToken) -> Self {
        Self {
            tasks: JoinSet::new(),
            names: Vec::new(),
            leave,
        }
    }

    pub(crate) fn spawn(&mut self, part: Part, task: impl Future<Output = ()> + Send + 'static) {
        // Given when it is dropped, so that it is also given by a panic.
        let leaves = self.leave.clone().drop_guard();
        let handle = self.tasks.spawn(async move {
            task.await;
            drop(leaves);
        });
        self.names.push((handle, part));
    }

    /// Ends when one of them does.
    pub(crate) async fn broken(&mut self) -> Broken {
        let (id, panicked) = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => (id, false),
            Some(Err(error)) => (error.id(), error.is_panic()),
            None => std::future::pending().await,
        };
        let named = self.names.iter().find(|(task, _)| task.id() == id);
        Broken {
            part: named.map_or(Part::Other, |(_, part)| *part),
            panicked,
        }
    }

    /// Ends when all of them have.
    pub(crate) async fn end(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// Ends those of one kind, as if they had ended by themselves.
    #[cfg(test)]
    pub(crate) fn lose(&self, part: Part) {
        let lost = self.names.iter().filter(|(_, named)| *named == part);
        lost.for_each(|(task, _)| task.abort());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_that_ends_is_named_and_nobody_is_sent_here_any_more() {
        for panics in [false, true] {
            let leave = CancellationToken::new();
            let mut parts = Parts::new(leave.clone());
            parts.spawn(Part::Plane, std::future::pending());
            assert!(!leave.is_cancelled());
            parts.spawn(Part::Keeper, async move {
                assert!(!panics, "as told");
            });
            let broken = parts.broken().await;
            assert!(leave.is_cancelled());
            assert_eq!((broken.part, broken.panicked), (Part::Keeper, panics));
            let told = broken.to_string();
            assert!(
                told.starts_with("the task that obeys records ended by itself"),
                "{told}"
            );
            assert_eq!(told.contains("panic"), panics, "{told}");
        }
    }
}
