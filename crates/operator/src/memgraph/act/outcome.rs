//! What an answer of a database to a command means.
//!
//! Memgraph's error texts are ambiguous: "already so" and "busy" have one text. What they leave open is read back.

use bolt::client::ClientError;
use mainstay_core::memgraph::turn::Outcome;

/// Which command was answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `SET REPLICATION ROLE TO REPLICA`.
    Demote,
    /// `REGISTER REPLICA`.
    Register,
    /// Anything whose refusal had no effect: promotion, DROP, commits, reads.
    Other,
}

/// What an error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This.
    Is(Outcome),
    /// Done, if the role is REPLICA now; refused otherwise. The text is the same for "is one already", for "a commit
    /// is in flight", and for "the port cannot be bound", after which the role has changed.
    IfReplica,
    /// It left something behind, if the name is listed now.
    IfListed {
        /// Memgraph's number; 3 is "diverged".
        code: u8,
    },
}

/// What this error means for that command.
pub fn verdict(command: Command, error: &ClientError) -> Verdict {
    let ClientError::ServerFailure(failure) = error else {
        return Verdict::Is(Outcome::Unknown);
    };
    match command {
        Command::Demote if failure.message.contains("Couldn't set role to replica") => Verdict::IfReplica,
        Command::Register => match register_code(&failure.message) {
            // The row is somebody else's, or there is none: name or address exist, not persisted, busy.
            Some(0 | 1 | 2 | 4 | 6 | 7) | None => Verdict::Is(Outcome::Refused),
            Some(code) => Verdict::IfListed { code },
        },
        Command::Demote | Command::Other => Verdict::Is(Outcome::Refused),
    }
}

/// The number at the end of `Couldn't register replica <n>. Error: <k>`.
pub fn register_code(message: &str) -> Option<u8> {
    let (_, number) = message.rsplit_once("Error: ")?;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bolt::message::Failure;

    fn said(command: Command, text: &'static str) -> Verdict {
        verdict(command, &ClientError::ServerFailure(Failure::client(text)))
    }

    #[test]
    fn every_text_of_a_real_server_has_its_meaning() {
        use Command::{Demote, Other, Register};
        let refused = Verdict::Is(Outcome::Refused);
        let table = [
            (Demote, "Couldn't set role to replica!", Verdict::IfReplica),
            (
                Demote,
                "Multiple concurrent system queries are not supported.",
                refused,
            ),
            (
                Demote,
                "Can't set role manually on instance with coordinator server port.",
                refused,
            ),
            (Other, "Couldn't set replication role to main!", refused),
            (Other, "Failed to unregister the replica memgraph_ha_1.", refused),
            (
                Other,
                "Failed to unregister replica due to lack of unique access over the cluster state. Please try again later on.",
                refused,
            ),
            (
                Other,
                "At least one STRICT_SYNC replica has not confirmed committing last transaction. Transaction will be aborted on all instances.",
                refused,
            ),
            (
                Other,
                "Cannot commit because instance is not main anymore.",
                refused,
            ),
            (
                Register,
                "Couldn't register replica memgraph_ha_1. Error: 1",
                refused,
            ),
            (
                Register,
                "Couldn't register replica memgraph_ha_1. Error: 2",
                refused,
            ),
            (
                Register,
                "Couldn't register replica memgraph_ha_1. Error: 3",
                Verdict::IfListed { code: 3 },
            ),
            (
                Register,
                "Couldn't register replica memgraph_ha_1. Error: 4",
                refused,
            ),
            (
                Register,
                "Couldn't register replica memgraph_ha_1. Error: 5",
                Verdict::IfListed { code: 5 },
            ),
            (
                Register,
                "Couldn't register replica memgraph_ha_1. Error: 6",
                refused,
            ),
            (Register, "Replica can't register another replica!", refused),
            (Register, "Invalid socket address.", refused),
        ];
        for (command, text, meaning) in table {
            assert_eq!(said(command, text), meaning, "{text}");
        }
    }

    #[test]
    fn no_answer_is_an_unknown_outcome_whatever_was_asked() {
        for error in [ClientError::TimedOut, ClientError::Closed] {
            for command in [Command::Demote, Command::Register, Command::Other] {
                assert_eq!(verdict(command, &error), Verdict::Is(Outcome::Unknown));
            }
        }
    }

    #[test]
    fn a_code_that_a_newer_version_invents_is_looked_at_in_the_list() {
        assert_eq!(
            said(Command::Register, "Couldn't register replica r. Error: 12"),
            Verdict::IfListed { code: 12 }
        );
        assert_eq!(register_code("Couldn't register replica r."), None);
    }
}
