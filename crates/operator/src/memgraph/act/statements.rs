//! The user's statements for a new MAIN: on one connection, in order, all of them before it serves (R23).

use super::Actor;
use super::outcome::{Command, Verdict, verdict};
use crate::engine::lease::NotPermitted;
use mainstay_core::memgraph::plan::Target;
use mainstay_core::memgraph::turn::Outcome;
use tokio::time::{Instant, sleep};

/// How much of a statement is shown.
const SHOWN: usize = 40;

impl Actor<'_> {
    /// Runs them. The first that fails ends the turn, and `ended` says which and why: until a person changes it nobody
    /// serves.
    pub(super) async fn run_statements(&self, on: Target, ended: &mut Option<String>) -> Outcome {
        let mut connection = match self.reach(on).await {
            Ok(connection) => connection,
            Err(outcome) => return outcome,
        };
        let patience = self.cluster.settings.statements;
        let deadline = Instant::now() + patience;
        let all = self.statements.len();
        for (number, statement) in (1..=all).zip(self.statements) {
            let shown = format!(
                "spec.onPromotion, statement {number} of {all} ({})",
                beginning(statement)
            );
            let left = deadline.saturating_duration_since(Instant::now());
            let running = async {
                tokio::select! {
                    biased;
                    refusal = self.lease_lost() => Err(refusal),
                    answered = connection.query(statement, left) => Ok(answered),
                }
            };
            let error = match self.one_of(format!("statement {number} of {all}"), running).await {
                Ok(Ok(_)) => continue,
                Ok(Err(error)) => error,
                Err(refusal) => {
                    *ended = Some(format!("{shown}: not waited for, {refusal}"));
                    return Outcome::Unknown;
                }
            };
            tracing::warn!(cluster = %self.cluster.name, pod = %on.pod, %error, "{shown} failed");
            if matches!(verdict(Command::Other, &error), Verdict::Is(Outcome::Unknown)) {
                *ended = Some(format!(
                    "{shown} was not answered: {error}; all statements together have {patience:?}, and nobody serves before they ran"
                ));
                return Outcome::Unknown;
            }
            *ended = Some(format!("{shown} failed: {error}; nobody serves before it runs"));
            return Outcome::Refused;
        }
        Outcome::Done
    }

    /// Asked again and again: a statement may take longer than a lease is certain.
    async fn lease_lost(&self) -> NotPermitted {
        let settings = &self.cluster.settings;
        loop {
            if let Err(refusal) = self.permit.check(settings.probe) {
                return refusal;
            }
            sleep(settings.poll).await;
        }
    }
}

/// What a statement is called: never what is quoted in it, which may be a password.
fn beginning(statement: &str) -> String {
    let open = statement.split(['\'', '"']).next().unwrap_or_default();
    let words: Vec<&str> = open.split_whitespace().collect();
    let mut shown: String = words.join(" ").chars().take(SHOWN).collect();
    if shown.len() < statement.trim().len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::beginning;

    #[test]
    fn a_statement_is_called_by_its_beginning_and_never_by_what_is_quoted() {
        assert_eq!(beginning("CREATE  USER ada"), "CREATE USER ada…");
        assert_eq!(beginning("CREATE USER ada"), "CREATE USER ada");
        assert_eq!(
            beginning("CREATE USER ada IDENTIFIED BY 'secret'"),
            "CREATE USER ada IDENTIFIED BY…"
        );
        let long = beginning(&"MATCH (n) ".repeat(20));
        assert_eq!(long.chars().count(), 41, "{long}");
    }
}
