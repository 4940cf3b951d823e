//! HTTP: health, metrics, the state of every cluster; and a small client for pushes.

pub mod board;
pub mod client;
pub mod metrics;
pub mod page;
pub mod server;
mod shape;
