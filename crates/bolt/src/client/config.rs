//! How a client behaves.

use crate::frame::DEFAULT_MAX_MESSAGE;
use crate::handshake::Proposals;
use crate::message::Auth;
use crate::packstream::{Limits, OwnedDict};
use std::time::Duration;

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Which versions to propose. Only 4.0 and newer can be spoken.
    pub proposals: Proposals,
    /// The name to give to the server.
    pub user_agent: String,
    /// Who to log in as.
    pub auth: Auth<'static>,
    /// What else to say in HELLO, such as `patch_bolt`. A gateway that moves a
    /// client to another server repeats here what the client said.
    pub hello: OwnedDict,
    /// How long handshake and login may take together.
    pub login_timeout: Duration,
    /// How long clearing a failure may take.
    pub reset_timeout: Duration,
    /// The largest message to accept, in bytes.
    pub max_message: usize,
    /// The largest result to collect, in bytes on the wire.
    pub max_result: usize,
    /// Bounds on the values of one message.
    pub limits: Limits,
}

impl ClientConfig {
    /// Everything Memgraph speaks, limits for an operator's small queries.
    pub fn new(user_agent: impl Into<String>, auth: Auth<'static>) -> Self {
        Self {
            proposals: Proposals::MEMGRAPH,
            user_agent: user_agent.into(),
            auth,
            hello: OwnedDict::new(),
            login_timeout: Duration::from_secs(5),
            reset_timeout: Duration::from_secs(5),
            max_message: DEFAULT_MAX_MESSAGE,
            max_result: DEFAULT_MAX_MESSAGE,
            limits: Limits::DEFAULT,
        }
    }
}
