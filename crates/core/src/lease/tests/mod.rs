//! One file per way of looking: single rules, whole scenarios, and a search for two leaders.

mod bench;
mod model;
mod rules;
mod scenarios;
mod search;
mod world;
