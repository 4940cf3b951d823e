//! The async shell around the decisions.
