//! Pods as real processes, over the real store.

mod bed;
mod life;
