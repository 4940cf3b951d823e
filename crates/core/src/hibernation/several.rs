//! Several resources in one sentence: the first few by name, and how many there are besides. A target may have thousands,
//! and a status or an Event has no room for a sentence about each.

use super::ids::ResourceId;
use serde::Serialize;
use std::fmt;

/// So many are named.
const NAMED: usize = 3;

/// Some resources of a target that have something in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Several {
    first: Vec<ResourceId>,
    more: usize,
}

impl Several {
    /// All of these.
    pub fn new(resources: impl IntoIterator<Item = ResourceId>) -> Self {
        let mut all = resources.into_iter();
        Self {
            first: all.by_ref().take(NAMED).collect(),
            more: all.count(),
        }
    }

    /// Only this one.
    pub fn one(resource: ResourceId) -> Self {
        Self::new([resource])
    }
}

/// With the verb that belongs to it: `a` is, `a` and `b` are. The alternate form is without.
impl fmt::Display for Several {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.first.iter().map(|id| format!("`{id}`")).collect();
        match (names.split_last(), self.more) {
            (Some((last, [])), 0) => f.write_str(last)?,
            (Some((last, others)), 0) => write!(f, "{} and {last}", others.join(", "))?,
            _ => write!(f, "{} and {} more", names.join(", "), self.more)?,
        }
        match (f.alternate(), self.first.len() + self.more) {
            (true, _) => Ok(()),
            (false, 1) => f.write_str(" is"),
            (false, _) => f.write_str(" are"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_few_are_named_and_the_others_are_counted() {
        let said = |count: u32| {
            let ids = (0..count).map(|n| ResourceId::parse(&format!("r{n}")).unwrap());
            Several::new(ids)
        };
        assert_eq!(said(1).to_string(), "`r0` is");
        assert_eq!(said(2).to_string(), "`r0` and `r1` are");
        assert_eq!(said(3).to_string(), "`r0`, `r1` and `r2` are");
        assert_eq!(said(500).to_string(), "`r0`, `r1`, `r2` and 497 more are");
        assert_eq!(format!("{:#}", said(1)), "`r0`");
    }
}
