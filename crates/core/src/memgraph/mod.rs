//! The Memgraph protocol.
