//! What a small store does not know by itself.

use serde_json::Value;

use super::failure::Cause;

/// Knowledge that needs foreign code: the types of the built-in kinds, regular
/// expressions, CEL. Handed in, so that this crate stays small and pure.
pub trait Rules: Send + Sync + std::fmt::Debug {
    /// The object of a built-in kind as a server would keep it, without fields
    /// it does not know. The error says which type is wrong.
    fn decode(&self, api_version: &str, kind: &str, object: &Value) -> Result<Value, String>;

    /// Whether the text matches the regular expression of a schema.
    fn matches(&self, pattern: &str, text: &str) -> bool;

    /// The CEL rules of a schema that the object breaks, transition rules included.
    fn cel(&self, schema: &Value, new: &Value, old: Option<&Value>) -> Vec<Cause>;
}

/// Everything is allowed: for simulations whose objects come from our own code.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRules;

impl Rules for NoRules {
    fn decode(&self, _: &str, _: &str, object: &Value) -> Result<Value, String> {
        Ok(object.clone())
    }

    fn matches(&self, _: &str, _: &str) -> bool {
        true
    }

    fn cel(&self, _: &Value, _: &Value, _: Option<&Value>) -> Vec<Cause> {
        Vec::new()
    }
}
