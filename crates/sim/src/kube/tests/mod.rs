//! Tests of the store, as a client would see it.
