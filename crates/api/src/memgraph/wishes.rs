//! What people ask for once, as annotations: a request is not part of the desired state.

use crate::times::moment;
use mainstay_core::memgraph::ids::{Ordinal, ResetId};
use mainstay_core::memgraph::observed::Approval;
use mainstay_core::memgraph::record::Override;
use std::collections::BTreeMap;

/// `1`: move MAIN to pod 1.
pub const SWITCHOVER: &str = "mainstay.dev/switchover-to";
/// `1 until 2026-11-16T04:00:00Z`: make pod 1 MAIN whatever is lost.
pub const OVERRIDE: &str = "mainstay.dev/override-main";
/// `2 3f2a…`: the reset of the process in this container of pod 2 is approved.
pub const APPROVE: &str = "mainstay.dev/approve-reset";
/// `2 3f2a…`: reset the process in this container of pod 2, although nobody calls it diverged.
pub const RESET: &str = "mainstay.dev/reset";
/// `2 17`: delete what request 17 set aside on the volume of pod 2.
pub const PURGE: &str = "mainstay.dev/purge-quarantine";

/// What the annotations ask for. One that cannot be read asks for nothing, and is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Move MAIN here.
    pub switchover: Option<Ordinal>,
    /// Make this one MAIN.
    pub override_main: Option<Override>,
    /// Reset this one.
    pub approve_reset: Option<Approval>,
    /// Reset this one although nobody calls it diverged.
    pub reset: Option<Approval>,
    /// Delete what was set aside on this volume by this request.
    pub purge: Option<(Ordinal, ResetId)>,
    /// Annotations that mean nothing.
    pub unread: Vec<&'static str>,
}

impl Asked {
    /// Reads the annotations of a cluster.
    pub fn read(annotations: &BTreeMap<String, String>) -> Self {
        let mut asked = Self::default();
        if let Some(text) = annotations.get(SWITCHOVER) {
            asked.switchover = text.trim().parse().ok().map(Ordinal).filter(|o| o.is_authority());
            asked.note(SWITCHOVER, asked.switchover.is_some());
        }
        if let Some(text) = annotations.get(OVERRIDE) {
            asked.override_main = overriding(text);
            asked.note(OVERRIDE, asked.override_main.is_some());
        }
        if let Some(text) = annotations.get(APPROVE) {
            asked.approve_reset = approval(text);
            asked.note(APPROVE, asked.approve_reset.is_some());
        }
        if let Some(text) = annotations.get(RESET) {
            asked.reset = approval(text);
            asked.note(RESET, asked.reset.is_some());
        }
        if let Some(text) = annotations.get(PURGE) {
            asked.purge = quarantine(text);
            asked.note(PURGE, asked.purge.is_some());
        }
        asked
    }

    fn note(&mut self, name: &'static str, read: bool) {
        if !read {
            self.unread.push(name);
        }
    }
}

fn overriding(text: &str) -> Option<Override> {
    let (pod, until) = text.trim().split_once(" until ")?;
    let pod = pod.trim().parse().ok().map(Ordinal)?;
    pod.is_authority().then_some(Override {
        pod,
        until: moment(until.trim())?,
    })
}

fn approval(text: &str) -> Option<Approval> {
    let (pod, process) = text.trim().split_once(' ')?;
    Some(Approval {
        pod: Ordinal(pod.parse().ok()?),
        process: process.trim().parse().ok()?,
    })
}

fn quarantine(text: &str) -> Option<(Ordinal, ResetId)> {
    let (pod, id) = text.trim().split_once(' ')?;
    Some((Ordinal(pod.parse().ok()?), ResetId(id.trim().parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::time::Time;

    fn read(name: &str, value: &str) -> Asked {
        Asked::read(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn wishes_are_read_and_what_cannot_be_read_is_named() {
        assert_eq!(read(SWITCHOVER, "1").switchover, Some(Ordinal(1)));
        let wish = read(OVERRIDE, "0 until 1970-01-01T00:00:01Z").override_main;
        assert_eq!(
            wish,
            Some(Override {
                pod: Ordinal(0),
                until: Time(1_000)
            })
        );
        let process = "3f2a0000000000000000000000000001";
        let approved = read(APPROVE, &format!("2 {process}")).approve_reset.unwrap();
        assert_eq!(
            (approved.pod, approved.process.to_string().as_str()),
            (Ordinal(2), process)
        );
        assert_eq!(read(RESET, &format!("2 {process}")).reset, Some(approved));
        assert_eq!(read(PURGE, "2 17").purge, Some((Ordinal(2), ResetId(17))));
        for (name, bad) in [
            (SWITCHOVER, "2"),
            (OVERRIDE, "1"),
            (OVERRIDE, "7 until 1970-01-01T00:00:01Z"),
            (APPROVE, "2 x"),
            (RESET, "2"),
            (PURGE, "all"),
        ] {
            assert_eq!(read(name, bad).unread, [name], "{bad}");
        }
    }
}
