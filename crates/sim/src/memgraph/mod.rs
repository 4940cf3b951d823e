//! Memgraph: the model of one instance, worlds made of them, and what searches those worlds.

pub mod data;
pub mod instance;
pub mod world;
pub mod explore;
pub mod worlds;
