//! The Bolt data plane.
