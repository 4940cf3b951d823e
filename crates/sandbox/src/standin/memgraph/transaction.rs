//! A storage transaction: an old state of the data and what was done to it.

use super::explain::{Summary, hint};
use super::graph::{Change, Content, Graph, Index};
use super::node::Node;
use super::query::{Cypher, Evaluated, EvaluationError, View, evaluate};
use super::scalar::Scalar;
use super::texts::{NOT_MAIN_ANY_MORE, Transaction as Kind};
use bolt::message::{AccessMode, Failure};
use bolt::packstream::OwnedValue;
use sim::memgraph::instance::Role;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A transaction that is open.
pub(super) struct Transaction {
    node: Arc<Node>,
    id: u64,
    pub(super) mode: AccessMode,
    /// None until the first query: BEGIN alone holds nothing.
    state: Option<State>,
}

struct State {
    /// The data when it began.
    seen: Graph,
    /// The same with its own changes.
    content: Arc<Content>,
    changes: Vec<Change>,
}

/// Rows and what is said about them.
pub(super) struct Rows {
    pub(super) rows: Vec<Vec<OwnedValue>>,
    pub(super) summary: Summary,
}

impl Transaction {
    pub(super) fn new(node: &Arc<Node>, mode: AccessMode) -> Self {
        let id = {
            let mut core = node.core();
            core.next_transaction += 1;
            core.next_transaction
        };
        Self {
            node: Arc::clone(node),
            id,
            mode,
            state: None,
        }
    }

    /// Waits for a commit that is under way, as every storage transaction does,
    /// and sees what is there before the next one.
    async fn state(&mut self) -> &mut State {
        let state = if let Some(state) = self.state.take() {
            state
        } else {
            let _engine = self.node.engine.lock().await;
            let _registering = self.node.state.read().await;
            self.node.begin()
        };
        self.state.insert(state)
    }

    /// Runs a query on the graph.
    pub(super) async fn run(
        &mut self,
        query: &Cypher,
        parameters: &BTreeMap<String, Scalar>,
    ) -> Result<Rows, Failure<'static>> {
        let (node, id) = (Arc::clone(&self.node), self.id);
        let state = self.state().await;
        let seen = state.seen.clone();
        let mut summary = Summary::new(query.kind()).with_plan();
        for (symbol, labels, properties) in query.scans() {
            if !indexed(&state.content, &labels, &properties) {
                summary = summary.with_note("PlanHinting", hint(&symbol, &labels, &properties));
            }
        }
        let numbers = Arc::clone(&node);
        let mut view = View {
            content: Arc::clone(&state.content),
            changes: std::mem::take(&mut state.changes),
            next_id: Box::new(move || {
                let mut core = numbers.core();
                core.next_vertex += 1;
                core.next_vertex - 1
            }),
            claim: Box::new(move |vertex| node.core().claim(vertex, id, &seen)),
        };
        // Not shared any more while it is changed, or every change would copy it.
        state.content = Arc::new(Content::default());
        let evaluated = evaluate(query, parameters, &mut view);
        state.content = view.content;
        state.changes = view.changes;
        match evaluated {
            Ok(Evaluated { rows, stats }) => Ok(Rows {
                rows,
                summary: summary.with_stats(stats),
            }),
            Err(error @ EvaluationError::Conflict) => Err(Failure::transient(error.to_string())),
            Err(error @ EvaluationError::Refused(_)) => Err(Failure::client(error.to_string())),
        }
    }

    /// Adds a change of the schema.
    pub(super) async fn define(&mut self, change: Change) {
        self.state().await.changes.push(change);
    }

    /// Commits. A transaction that changed nothing has nothing to be refused.
    pub(super) async fn commit(mut self, kind: Kind) -> Result<Option<String>, Failure<'static>> {
        let Some(State {
            seen,
            content,
            changes,
        }) = self.state.take()
        else {
            return Ok(None);
        };
        self.node.core().open_transactions -= 1;
        // Whoever still holds the old state makes the commit copy it.
        drop((seen, content));
        if changes.is_empty() {
            return Ok(None);
        }
        if self.node.core().model.role() == Role::Replica {
            return Err(Failure::client(NOT_MAIN_ANY_MORE));
        }
        self.node.commit(changes, kind).await
    }
}

impl Node {
    fn begin(&self) -> State {
        let mut core = self.core();
        core.open_transactions += 1;
        core.model.take_timestamp();
        let seen = core.model.store().clone();
        State {
            content: Arc::clone(&seen.0),
            seen,
            changes: Vec::new(),
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let mut core = self.node.core();
        if self.state.is_some() {
            core.open_transactions -= 1;
        }
        core.release(self.id);
    }
}

fn indexed(content: &Content, labels: &[String], properties: &[String]) -> bool {
    labels.iter().any(|label| {
        content.indexes.contains(&Index {
            label: label.clone(),
            properties: properties.to_vec(),
        })
    })
}
