//! The Bolt protocol, without I/O.
//!
//! Nothing in here opens a socket, looks at a clock or waits. Bytes and the
//! time come in as values; bytes to send, things that happened and the next
//! deadline come out. One implementation serves the operator's client, the
//! gateway and the stand-in server, on real sockets and in simulated time.
//!
//! Read in this order:
//!
//! 1. [`handshake`]: which of the versions of [`version`] both sides speak;
//! 2. [`frame`]: messages cut into chunks. [`frame::FrameScanner`] is what a
//!    gateway needs: it follows a stream from its headers alone;
//! 3. [`packstream`]: values, as [`packstream::Value`];
//! 4. [`message`]: requests and responses;
//! 5. [`client`] and [`server`]: the two ends of a conversation, modelled on
//!    what a real Memgraph does rather than on what the specification says.
//!
//! No input makes this crate panic, and none makes it allocate more than the
//! limits it was given allow. `tests/` and `fuzz/` check the same properties.

pub mod client;
pub mod frame;
pub mod handshake;
pub mod message;
pub mod packstream;
pub mod server;
pub mod time;
pub mod version;
