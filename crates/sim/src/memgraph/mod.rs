//! Memgraph: the model of one instance, worlds made of them, and what searches those worlds.

pub mod data;
pub mod explore;
pub mod frontier;
pub mod instance;
pub mod scenario;
pub mod show;
pub mod simulate;
pub mod visited;
pub mod world;
pub mod worlds;
