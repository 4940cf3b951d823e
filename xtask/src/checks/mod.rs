//! Rules about the repository that no compiler checks.

mod edges;
mod files;
mod hygiene;
mod metadata;
mod purity;
mod words;

use std::fmt;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

/// One broken rule, with the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who may depend on whom, and what the pure crates must not bring along.
pub(crate) fn dependencies(workspace: &Workspace) -> Result<()> {
    let metadata = metadata::Metadata::read(workspace)?;
    let mut violations = edges::check(&metadata);
    violations.extend(purity::check(workspace, &metadata)?);
    settle(&violations)
}

/// What must not be in a file, and what must.
pub(crate) fn repository(workspace: &Workspace) -> Result<()> {
    let files = files::read(workspace)?;
    let words = words::Words::from_environment();
    let violations = hygiene::check(&files, &words);
    println!("{} text files", files.len());
    settle(&violations)
}

fn settle(violations: &[Violation]) -> Result<()> {
    for violation in violations {
        eprintln!("{violation}");
    }
    match violations.len() {
        0 => Ok(()),
        1 => bail!("1 rule broken"),
        n => bail!("{n} rules broken"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_violation_fails_the_stage() {
        assert!(settle(&[]).is_ok());
        assert!(settle(&[Violation("x".to_owned())]).is_err());
    }
}
