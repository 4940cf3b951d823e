//! Hibernation on the small Kubernetes: the real controller, and a time that passes as fast as there is nothing to do.
//! Names begin with the number of the scenario that they are about.

mod attended;
mod autoscaler;
mod bed;
mod changes;
mod debug_commands;
mod examples;
mod executors;
mod kills;
mod kinds;
mod manifests;
mod many;
mod marks;
mod names;
mod nights;
mod people;
mod reasons;
mod story;
#[path = "../shared/trap.rs"]
mod trap;
mod unseen;
mod watched;
