//! The whole of it, as a user starts it: `mainstay sandbox`, and what must be true of it afterwards.

mod bed;
mod by_id;
mod conflicts;
mod hard_reset;
mod independence;
mod load;
mod nights;
mod office;
mod people;
mod rolling;
mod seen;
mod together;
mod waking;
