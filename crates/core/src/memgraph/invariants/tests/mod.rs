//! Plans that break each invariant, and plans of the real `decide`, which break none.

mod decided;
mod samples;
