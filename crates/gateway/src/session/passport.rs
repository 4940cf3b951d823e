//! What is known of a session beyond its bytes, for those of which it is wanted: an idle session that nobody asks
//! about carries nothing.

use super::arrive::Ends;
use crate::config::Config;
use crate::proxy_header;
use mainstay_core::memgraph::ids::Ordinal;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

/// Nobody yet.
const NOBODY: u8 = u8::MAX;

/// Where a session is from, and what it did.
#[derive(Debug)]
pub(crate) struct Passport {
    ends: Ends,
    /// Whether a line is written when it ends.
    logged: bool,
    began: Instant,
    up: AtomicU64,
    down: AtomicU64,
    pod: AtomicU8,
}

impl Passport {
    /// For a session that is logged, or of which the database is told.
    pub(crate) fn wanted(config: &Config, logged: bool, ends: Ends) -> Option<Box<Self>> {
        (logged || config.back.proxy_protocol).then(|| {
            Box::new(Self {
                ends,
                logged,
                began: Instant::now(),
                up: AtomicU64::new(0),
                down: AtomicU64::new(0),
                pod: AtomicU8::new(NOBODY),
            })
        })
    }

    /// What a proxy before the database is told.
    pub(crate) fn header(&self) -> Vec<u8> {
        proxy_header::write(self.ends.source, self.ends.destination)
    }

    pub(crate) fn went_up(&self, bytes: u64) {
        self.up.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn went_down(&self, bytes: u64) {
        self.down.fetch_add(bytes, Ordering::Relaxed);
    }

    /// It was let in to this one.
    pub(crate) fn with(&self, Ordinal(pod): Ordinal) {
        self.pod.store(pod, Ordering::Relaxed);
    }

    /// The line of the access log.
    pub(crate) fn log(&self, user: Option<&str>, end: &str) {
        if !self.logged {
            return;
        }
        let pod = Some(self.pod.load(Ordering::Relaxed)).filter(|pod| *pod != NOBODY);
        tracing::info!(
            target: "access",
            source = %self.ends.source,
            user = user.unwrap_or_default(),
            ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            up = self.up.load(Ordering::Relaxed),
            down = self.down.load(Ordering::Relaxed),
            pod,
            end,
            "session"
        );
    }
}
