//! Stretches of time, as sets.

use crate::time::Time;

/// From a moment up to, not including, another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Its first moment.
    pub from: Time,
    /// The first moment after it.
    pub to: Time,
}

impl Span {
    /// Does it contain this moment?
    pub fn has(&self, at: Time) -> bool {
        self.from <= at && at < self.to
    }
}

/// Stretches in order, none of which touch. Neighbours become one: at the seam of two windows nothing wakes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans(Vec<Span>);

impl Spans {
    pub(super) fn of(spans: impl IntoIterator<Item = Span>) -> Self {
        let mut sorted: Vec<Span> = spans.into_iter().filter(|s| s.from < s.to).collect();
        sorted.sort_unstable();
        let mut joined: Vec<Span> = Vec::with_capacity(sorted.len());
        for span in sorted {
            match joined.last_mut() {
                Some(last) if span.from <= last.to => last.to = last.to.max(span.to),
                _ => joined.push(span),
            }
        }
        Self(joined)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Span> {
        self.0.iter()
    }

    pub(super) fn has(&self, at: Time) -> bool {
        self.0.iter().any(|s| s.has(at))
    }

    pub(super) fn with(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied())
    }

    pub(super) fn without(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        for span in &self.0 {
            let mut rest = *span;
            for cut in other.0.iter().filter(|c| c.to > span.from && c.from < span.to) {
                if rest.from < cut.from {
                    left.push(Span {
                        from: rest.from,
                        to: cut.from,
                    });
                }
                rest.from = rest.from.max(cut.to);
            }
            left.push(rest);
        }
        Self::of(left)
    }

    pub(super) fn within(&self, bounds: Span) -> Self {
        Self::of(self.0.iter().map(|s| Span {
            from: s.from.max(bounds.from),
            to: s.to.min(bounds.to),
        }))
    }

    pub(super) fn filtered(self, keep: impl Fn(&Span) -> bool) -> Self {
        Self(self.0.into_iter().filter(keep).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(pairs: &[(u64, u64)]) -> Spans {
        Spans::of(pairs.iter().map(|(a, b)| Span {
            from: Time(*a),
            to: Time(*b),
        }))
    }

    #[test]
    fn sets_of_stretches_agree_with_sets_of_moments() {
        let lists: [&[(u64, u64)]; 6] = [
            &[],
            &[(0, 9)],
            &[(1, 3), (3, 4)],
            &[(2, 5), (4, 7), (8, 8)],
            &[(0, 1), (2, 3), (6, 9)],
            &[(5, 2), (1, 8)],
        ];
        for a in lists {
            for b in lists {
                let (x, y) = (spans(a), spans(b));
                for at in (0..10).map(Time) {
                    assert_eq!(x.with(&y).has(at), x.has(at) || y.has(at));
                    assert_eq!(x.without(&y).has(at), x.has(at) && !y.has(at), "{a:?} {b:?} {at}");
                }
                let ends: Vec<_> = x.without(&y).0.iter().flat_map(|s| [s.from, s.to]).collect();
                assert!(ends.is_sorted_by(|a, b| a < b), "no two touch: {ends:?}");
            }
        }
    }
}
