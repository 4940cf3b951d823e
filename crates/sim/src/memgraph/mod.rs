//! Model of Memgraph.
