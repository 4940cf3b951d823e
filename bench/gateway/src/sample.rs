//! What a process has used.

use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

/// CPU time of all threads of a process.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let mut nanos = 0_u64;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        let first = text.split(' ').next().context("an empty schedstat")?;
        nanos += first.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// Resident memory in bytes.
pub(crate) fn resident(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next());
    let kib: u64 = kib.context("no VmRSS")?.parse()?;
    Ok(kib * 1024)
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    quantile(&mut values, 0.5)
}

/// The value that a share of the others does not exceed.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place in a list of thousands"
    )]
    let at = (last as f64 * share).round() as usize;
    values.get(at).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let mut values: Vec<f64> = (1..=100).map(f64::from).rev().collect();
        assert!((quantile(&mut values, 0.99) - 99.0).abs() < 1e-9);
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn a_process_has_used_something() {
        let me = std::process::id();
        assert!(cpu(me).unwrap() > Duration::ZERO);
        assert!(resident(me).unwrap() > 100_000);
    }
}
