//! What a suite did to the place is undone also when the suite fails: the next one finds it as it was.

use anyhow::Result;

/// Undone when it is dropped, or before by [`Undo::now`].
pub(super) struct Undo<'a>(Option<Box<dyn FnOnce() -> Result<()> + 'a>>);

impl<'a> Undo<'a> {
    pub(super) fn by(undo: impl FnOnce() -> Result<()> + 'a) -> Self {
        Self(Some(Box::new(undo)))
    }

    /// As a part of the suite: that it cannot be done is a failure of it.
    pub(super) fn now(mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), |undo| undo())
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        // The suite has failed already, and says why.
        if let Some(undo) = self.0.take()
            && let Err(error) = undo()
        {
            println!("what the suite did could not be undone: {error:#}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;
    use std::cell::Cell;

    #[test]
    fn it_is_undone_once_whether_the_suite_gets_there_or_not() {
        let times = Cell::new(0);
        let undo = || {
            Undo::by(|| {
                times.set(times.get() + 1);
                Ok(())
            })
        };
        undo().now().unwrap();
        assert_eq!(times.get(), 1);
        let fails = || -> Result<()> {
            let _undo = undo();
            bail!("it does not get there")
        };
        assert!(fails().is_err());
        assert_eq!(times.get(), 2);
    }

    #[test]
    fn what_cannot_be_undone_fails_the_suite() {
        assert!(Undo::by(|| bail!("no")).now().is_err());
        drop(Undo::by(|| bail!("no")));
    }
}
