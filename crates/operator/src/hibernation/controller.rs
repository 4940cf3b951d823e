//! The kind `HibernatePlan` on the engine: its turns, its watches, its page.

use super::keeper::Keeper;
use super::report::Board;
use super::settings::Settings;
use super::watch::exceptions;
use crate::engine::lease::Permit;
use crate::engine::queue::{Limits, Urgency};
use crate::engine::turns::{Key, Pace, Turns};
use crate::engine::watch::{Scope, belongings, objects};
use api::HibernatePlan;
use api::hibernation::PLAN_LABEL;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Everything that keeps plans.
pub struct Controller {
    client: Client,
    scope: Scope,
    settings: Arc<Settings>,
    board: Arc<Board>,
    turns: Turns<Keeper>,
}

impl Controller {
    /// Of the plans of these namespaces.
    pub fn new(client: Client, scope: Scope, settings: Settings, limits: Limits, pace: Pace) -> Self {
        let board = Arc::new(Board::default());
        Self {
            client,
            scope,
            settings: Arc::new(settings),
            turns: Turns::new("hibernation", limits, pace, board.clone()),
            board,
        }
    }

    /// What is shown.
    pub fn board(&self) -> Arc<Board> {
        Arc::clone(&self.board)
    }

    /// The loop.
    pub fn turns(&self) -> Turns<Keeper> {
        self.turns.clone()
    }

    /// Turns, while this operator leads, until told to stop.
    pub async fn work(&self, permit: Permit, stop: CancellationToken) {
        let make = |Key { namespace, name }: &Key| {
            let keeper = Keeper::new(self.client.clone(), namespace, name, Arc::clone(&self.settings));
            keeper.counted_by(self.board())
        };
        self.turns.run(make, permit, stop).await;
    }

    /// Plans, their exceptions and their restore points. Ends if one of the watches does.
    pub async fn watch(&self) {
        let given = || (self.client.clone(), self.scope.clone(), self.turns.clone());
        let (client, scope, turns) = given();
        let plans = objects::<HibernatePlan, _>(client, scope, turns);
        let (client, scope, turns) = given();
        let exceptions = exceptions(client, scope, turns);
        let (client, scope, turns) = given();
        let points = belongings::<ConfigMap, _>(client, scope, turns, PLAN_LABEL, Urgency::Reconcile);
        tokio::select! {
            () = plans => {}
            () = exceptions => {}
            () = points => {}
        }
    }
}
