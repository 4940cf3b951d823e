//! The whole of it, as a user starts it: `mainstay sandbox`, and what must be true of it afterwards.

mod bed;
mod hard_reset;
mod rolling;
