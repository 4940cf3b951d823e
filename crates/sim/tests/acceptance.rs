//! The acceptance scenarios that can be shown without I/O, each by its id.
//!
//! The operators, gateways and init containers are the real ones; databases, API server and network are
//! models. No time passes in here: where a scenario gives seconds, the test counts looks and steps. A look is
//! one probe interval, a step one command.
//!
//! Not here, and why:
//!
//! | scenario | reason |
//! |---|---|
//! | B1, F1, F3, R5, R6, L3 (seconds) | a clock is needed; the number of looks and steps is asserted instead |
//! | B9, R11 | parsing; tested beside the parser |
//! | R4 (back-off) | waiting is the shell's work; one REGISTER per look is asserted here |
//! | R7 (connections are replaced) | needs sockets; that the registration survives by its name is here |
//! | F2 | a decision; `core`'s `acceptance.rs` has it |
//! | F5, F15 (minutes, iptables) | the number of rounds is here; the clock and the network are those of drills |
//! | F17 (read gateway) | it has no route in the model; that no client's write gets anywhere is here |
//! | L1 (the leader's own gateway) | gateways do not hang on the lease: they obey the record only |
//! | L5 (signal, exit code) | `mainstay`'s tests; how soon somebody leads is in `core::lease`, by its id |
//! | L7 (relists) | the watch is the shell's; what a decision makes of its gaps is here |
//! | L8 | is the simulation itself |
//! | H5 to H7, H9, H10 | need real processes, a disk or a server's version; `resets.rs` says where they are |
//!
//! Where the protocol differs from a scenario on purpose, the test says so in its comment.

#[cfg(test)]
mod acceptance {
    mod bench;
    mod bootstrap;
    mod cuts;
    mod failover;
    mod in_doubt;
    mod leadership;
    mod lease;
    mod reconcile;
    mod repair;
    mod resets;
}
