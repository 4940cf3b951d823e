//! Plans that break each invariant, and plans of the real `decide`, which break none.

mod broken;
mod decided;
mod found;
mod samples;
mod worlds;
