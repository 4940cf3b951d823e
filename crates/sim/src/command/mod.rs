//! The commands of `sim`. Only here is a clock read and a file touched.

pub(crate) mod explore;
pub(crate) mod hibernation;
pub(crate) mod ring;
pub(crate) mod run;
pub(crate) mod scenario;
mod seeds;

/// The CPU time this process has used, where the system tells.
pub(crate) fn cpu_seconds() -> Option<f64> {
    // Hundredths of a second, on every Linux; the name in brackets may have blanks.
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}

/// Wall time, for the person who waits.
#[allow(
    clippy::disallowed_methods,
    reason = "how long a search took is for the person who waits for it"
)]
pub(crate) fn stopwatch() -> impl Fn() -> f64 {
    let began = std::time::Instant::now();
    move || began.elapsed().as_secs_f64()
}
