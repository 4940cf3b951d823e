//! What became of restore data and is not in the status yet, because somebody else wrote the plan in the same moment: no
//! later turn would speak of it.

use super::Taken;
use mainstay_core::hibernation::reason::Why;

/// What the next status has to say besides.
#[derive(Debug, Default)]
pub(in crate::hibernation) struct Unsaid(Vec<Why>);

/// Was all restore data written that was to be written? `None`: none was.
pub(super) fn stored(taken: &[Taken]) -> Option<bool> {
    let mut writes = taken.iter().filter(|t| t.stores).peekable();
    writes.peek()?;
    Some(writes.all(|t| t.refused.is_none()))
}

impl Unsaid {
    /// The reasons of a turn, and after them what was not said before.
    pub(in crate::hibernation) fn after(&self, reasons: &[Why]) -> Vec<Why> {
        let mut all = reasons.to_vec();
        all.extend(self.0.iter().filter(|why| !reasons.contains(why)).cloned());
        all
    }

    /// The status of a turn was written, or not.
    pub(in crate::hibernation) fn on(&mut self, reasons: &[Why], taken: &[Taken], written: bool) {
        if written {
            self.0.clear();
        } else if stored(taken) == Some(true) {
            let news = reasons.iter().filter(|why| why.is_of_restore_data());
            self.0 = Self(news.cloned().collect()).after(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::hibernation::ids::TargetName;

    fn step(stores: bool, refused: Option<&str>) -> Taken {
        Taken {
            step: "x".to_owned(),
            stores,
            refused: refused.map(str::to_owned),
        }
    }

    #[test]
    fn s85_what_a_status_could_not_say_is_said_by_the_next_one_and_no_longer() {
        let mut unsaid = Unsaid::default();
        let captured = Why::Captured {
            target: TargetName::parse("web").unwrap(),
            saved: 0,
            upgraded: 1,
            preserved: 0,
        };
        let night = [Why::RetryAsked, captured.clone()];
        // The restore data was refused itself: the next turn decides the same again.
        unsaid.on(&night, &[step(true, Some("busy"))], false);
        assert_eq!(unsaid.after(&[Why::RetryAsked]), [Why::RetryAsked]);
        unsaid.on(&night, &[step(true, None), step(false, Some("conflict"))], false);
        unsaid.on(&[Why::Unlocked], &[step(true, None)], false);
        let all = [Why::RetryAsked, captured.clone(), Why::Unlocked];
        assert_eq!(unsaid.after(&[Why::RetryAsked]), all);
        assert_eq!(
            unsaid.after(std::slice::from_ref(&captured)),
            [captured, Why::Unlocked],
            "nothing twice"
        );
        unsaid.on(&all, &[], true);
        assert_eq!(unsaid.after(&[]), []);
    }
}
