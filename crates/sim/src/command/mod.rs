//! The commands of `sim`. Only here is a clock read and a file touched.

pub(crate) mod explore;
pub(crate) mod run;
pub(crate) mod scenario;

/// CPU time would be better, but needs a dependency; wall time on an idle machine is close.
#[allow(
    clippy::disallowed_methods,
    reason = "how long a search took is for the person who waits for it"
)]
pub(crate) fn stopwatch() -> impl Fn() -> f64 {
    let began = std::time::Instant::now();
    move || began.elapsed().as_secs_f64()
}
