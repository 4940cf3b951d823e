//! Searches and simulates. 
fn main() {}
