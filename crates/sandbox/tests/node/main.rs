//! Pods as real processes, over the real store.

mod bed;
mod helper;
mod life;
mod network;
mod pods;
