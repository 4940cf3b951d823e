//! Decisions of the node agent, without processes.

mod files;
mod lifecycle;
mod random;
