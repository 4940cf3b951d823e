//! The product.
fn main() {}
